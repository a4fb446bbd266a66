/*
 * Copying memory where memcpy takes longer than it should.
 *
 * The memcpy of Debian 12 (glibc 2.36) copies about 2 KiB to 512 KiB by `rep movsb` on processors
 * that are said to be good at it. On AMD's Zen 3 and 4 that
 * - is slow if the destination lies 1 to 31 bytes behind the source, whole pages left out (glibc's
 *   bug 30994): 4 KiB 1.9 us instead of 0.1, 32 KiB 15 instead of 0.7. Here this is the usual case:
 *   large blocks of malloc begin 16 bytes into a page, slots and windows at the begin of one.
 *   The kernel copies so, too: process_vm_readv() takes four times as long (node/cma.c);
 * - takes as long to begin as a kilobyte of vector stores: 4 KiB 56 ns, and 49 in pieces that
 *   memcpy copies by vectors, 8 KiB 92 and 86, 16 KiB no less in pieces.
 *
 * Whether this machine has the first of these is tried when it first matters: 10 us, once.
 *
 * Any thread.
 */
#ifndef TUG_BASE_COPY_H
#define TUG_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy copies so many by vectors everywhere. */
#define TUG_COPY_PIECE ((size_t)2048)

/* Where the destination is too close behind the source, whole pages left out, to be copied fast. */
#define TUG_COPY_NEAR 32u
static inline bool tug_copy_is_near(const void *to, const void *from) {
    return (unsigned)(((uintptr_t)to - (uintptr_t)from) % 4096) - 1 < TUG_COPY_NEAR - 1;
}

/* Copies in pieces. The blocks may overlap if the destination begins first. */
void tug_copy_pieces(void *to, const void *from, size_t bytes);

/* Is this machine's processor slow at such places, and so the kernel, and perhaps memcpy? A thread
 * that asks while another one tries it is told no. */
bool tug_copy_is_slow(void);

/* For tug_copy(), of more than a piece. */
void tug_copy_long(void *to, const void *from, size_t bytes);

/* Copies as memcpy does. The blocks do not overlap. */
static inline void tug_copy(void *to, const void *from, size_t bytes) {
    if (bytes <= TUG_COPY_PIECE)
        memcpy(to, from, bytes);
    else
        tug_copy_long(to, from, bytes);
}

/* Copies a handful of bytes. A call of memcpy takes 20 instructions, and one of these two one. */
static inline void tug_copy_few(void *to, const void *from, size_t bytes) {
    if (bytes == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else if (bytes == sizeof(uint32_t))
        memcpy(to, from, sizeof(uint32_t));
    else
        memcpy(to, from, bytes);
}

#endif

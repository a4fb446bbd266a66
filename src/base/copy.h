/*
 * Copying memory where memcpy may take twenty times as long as it should.
 *
 * On AMD's Zen 3 (seen; Zen 4 by glibc's bug 30994) memcpy of Debian 12 copies from about 2 KiB to
 * 512 KiB by `rep movsb`, and that is slow if the destination lies 1 to 31 bytes behind the source,
 * whole pages left out: 4 KiB 1.9 us instead of 0.1, 32 KiB 15 instead of 0.7. Here this is the
 * usual case: large blocks of malloc begin 16 bytes into a page, slots and windows at the begin of
 * one. In pieces that memcpy copies by vectors 32 KiB take 0.8 us.
 *
 * The kernel copies so, too: process_vm_readv() takes four times as long (node/cma.c).
 *
 * Whether this machine is one of these is tried when it first matters: 10 us, once.
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

/* Has this machine's kernel slow copies at such places? By its processor. */
bool tug_copy_kernel_is_slow(void);

/* For tug_copy(), of what is near. */
void tug_copy_near(void *to, const void *from, size_t bytes);

/* Copies as memcpy does. The blocks do not overlap. */
static inline void tug_copy(void *to, const void *from, size_t bytes) {
    if (__builtin_expect(bytes > TUG_COPY_PIECE && tug_copy_is_near(to, from), 0))
        tug_copy_near(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

#endif

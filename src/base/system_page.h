/* The system's pages, in which memory is mapped, shared and given back: 4 KiB on x86, up to 64 KiB
 * elsewhere. Any thread. */
#ifndef TUG_BASE_SYSTEM_PAGE_H
#define TUG_BASE_SYSTEM_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* A power of two. */
static inline size_t tug_page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The first page that begins at the address or behind it; for a length: bytes of the pages that it
 * takes. */
static inline uintptr_t tug_page_up(uintptr_t address) {
    const uintptr_t mask = tug_page_bytes() - 1;
    return (address + mask) & ~mask;
}

/* The beginning of the page in which the address lies. */
static inline uintptr_t tug_page_down(uintptr_t address) {
    return address & ~(uintptr_t)(tug_page_bytes() - 1);
}

/* Accesses a byte and changes nothing. If the program has protected the page, the thread faults as
 * the program expects; an access by the kernel fails there (EFAULT). A compiler may make a load of
 * an atomic OR with 0 (clang does), but not of a compare-and-swap. */
static inline void tug_page_access(void *byte, bool writes) {
    unsigned char is = *(volatile unsigned char *)byte;
    while (writes && !__atomic_compare_exchange_n((unsigned char *)byte, &is, is, false,
                                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* The same with a byte of each page that the memory touches. */
static inline void tug_pages_access(uintptr_t memory, size_t bytes, bool writes) {
    const uintptr_t behind = memory + bytes;
    for (uintptr_t at = memory; at < behind; at = tug_page_up(at + 1))
        tug_page_access((void *)at, writes); /* NOLINT: an address of the memory */
}

#endif

/*
 * scarce: a library to preload, by which an allocation of Tugboat's fails.
 *
 * SCARCE_NTH=N: the N-th call of malloc, calloc, realloc or aligned_alloc from the library's code
 * returns NULL, in the process whose rank (PMI_RANK) is SCARCE_RANK. Others' allocations, the
 * host's among them, and later ones are served. Says so on standard error when it happens.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static uintptr_t begin, end; /* the library's code */
static _Atomic long left = LONG_MAX;

static int look(struct dl_phdr_info *info, size_t bytes, void *argument) {
    (void)bytes, (void)argument;
    if (strstr(info->dlpi_name, "libtugboat") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
            begin = info->dlpi_addr + segment->p_vaddr;
            end = begin + segment->p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void prepare(void) {
    const char *nth = getenv("SCARCE_NTH"), *wanted = getenv("SCARCE_RANK");
    const char *rank = getenv("PMI_RANK");
    if (nth == NULL || wanted == NULL || rank == NULL || strcmp(wanted, rank) != 0)
        return;
    (void)dl_iterate_phdr(look, NULL);
    atomic_store(&left, strtol(nth, NULL, 10));
}

static bool fails(const void *caller) {
    static const char said[] = "scarce: an allocation fails\n";
    const uintptr_t at = (uintptr_t)caller;
    if (at < begin || at >= end || atomic_fetch_sub(&left, 1) != 1)
        return false;
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}

/*
 * scarce: a library to preload, by which an allocation of Tugboat's fails, or all are counted.
 *
 * SCARCE_NTH=N: the N-th call of malloc, calloc, realloc or aligned_alloc from the library's code
 * returns NULL, in the process whose rank (PMI_RANK) is SCARCE_RANK. Others' allocations, the
 * host's among them, and later ones are served. Says so on standard error when it happens.
 * scarce_held() is what the library's code holds of such memory, but for allocations of the sizes
 * in SCARCE_APART=BYTES[,BYTES]. From scarce_refuse(n) on its allocations of n bytes fail, of 0:
 * none does.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);
long scarce_held(void);
void scarce_refuse(size_t bytes);

static uintptr_t begin, end; /* the library's code */
static _Atomic long left = LONG_MAX, held;
static _Atomic size_t refused; /* bytes; 0: none */
static size_t apart[2];        /* bytes; 0: none */

#define ADDED 48 /* bytes that the allocator may add to what it is asked for */

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
    const char *rank = getenv("PMI_RANK"), *sizes = getenv("SCARCE_APART");
    (void)dl_iterate_phdr(look, NULL);
    if (sizes != NULL)
        (void)sscanf(sizes, "%zu,%zu", &apart[0], &apart[1]);
    if (nth == NULL || wanted == NULL || rank == NULL || strcmp(wanted, rank) != 0)
        return;
    atomic_store(&left, strtol(nth, NULL, 10));
}

static bool is_ours(const void *caller) {
    const uintptr_t at = (uintptr_t)caller;
    return at >= begin && at < end;
}

void scarce_refuse(size_t bytes) {
    atomic_store(&refused, bytes);
}

static bool fails(const void *caller, size_t bytes) {
    static const char said[] = "scarce: an allocation fails\n";
    if (!is_ours(caller))
        return false;
    if (atomic_fetch_sub(&left, 1) != 1 && (bytes == 0 || atomic_load(&refused) != bytes))
        return false;
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    errno = ENOMEM;
    return true;
}

/* Bytes, with what the allocator adds to them. */
long scarce_held(void) {
    return atomic_load(&held);
}

/* What counts of an allocation of so many bytes. */
static long counts(size_t bytes) {
    for (int i = 0; i < 2; i++)
        if (apart[i] > 0 && bytes - apart[i] < ADDED)
            return 0;
    return (long)bytes;
}

static void *counted(void *memory, const void *caller) {
    if (memory != NULL && is_ours(caller))
        atomic_fetch_add(&held, counts(malloc_usable_size(memory)));
    return memory;
}

void *malloc(size_t bytes) {
    const void *caller = __builtin_return_address(0);
    return fails(caller, bytes) ? NULL : counted(__libc_malloc(bytes), caller);
}

void *calloc(size_t n, size_t bytes) {
    const void *caller = __builtin_return_address(0);
    return fails(caller, n * bytes) ? NULL : counted(__libc_calloc(n, bytes), caller);
}

void *realloc(void *memory, size_t bytes) {
    const void *caller = __builtin_return_address(0);
    if (fails(caller, bytes))
        return NULL;
    const size_t before = malloc_usable_size(memory);
    memory = counted(__libc_realloc(memory, bytes), caller);
    if (memory != NULL && is_ours(caller))
        atomic_fetch_sub(&held, counts(before));
    return memory;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    const void *caller = __builtin_return_address(0);
    return fails(caller, bytes) ? NULL : counted(__libc_memalign(alignment, bytes), caller);
}

void free(void *memory) {
    if (memory != NULL && is_ours(__builtin_return_address(0)))
        atomic_fetch_sub(&held, counts(malloc_usable_size(memory)));
    __libc_free(memory);
}

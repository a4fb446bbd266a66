/* Cross-memory attach: one copy, by the kernel, from or to the memory of another process of this
 * machine.
 *
 * Whether it is allowed is a matter of the kernel, of a seccomp filter, of ptrace rights and of
 * process namespaces, and may differ from pair to pair: it is tried by a real read, never assumed.
 * A process that a probe has found is looked for again before a transfer, once in every tick of the
 * clock (1 to 10 ms): its number may have become another process's. Any thread; errno is left
 * alone. A transfer that fails may have moved a part.
 */
#ifndef TUG_NODE_CMA_H
#define TUG_NODE_CMA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct iovec;

/* Why this machine cannot have it (a sentence in `reason`, 256 bytes, only then), or false: this
 * process can read its own memory that way. */
bool tug_cma_missing(char *reason);

/* The file that says which processes Yama, a part of the kernel, lets attach. */
#define TUG_CMA_SCOPE "/proc/sys/kernel/yama/ptrace_scope"

/* Lets other processes of the same user attach to this one, if that file says 1: the default of
 * Ubuntu, by which a process is attached to by its ancestors only. Without Yama all may. Call it
 * before a peer tries. */
void tug_cma_allow(const char *scope);

/* Can this process read the peer's memory? True if the word at that address of the peer is
 * `expected`: then pid and address mean the same at both ends. Where writing is allowed is not a
 * question of its own: the kernel asks for the same right. */
bool tug_cma_probe(pid_t pid, uint64_t address, uint64_t expected);

/* Copy `bytes` bytes from or to the peer's memory. 0; TUG_ERR_RANGE: memory of either side is not
 * there or may not be read or written; TUG_ERR_PEER: there is no such process any more,
 * or the number is another's;
 * TUG_ERR_SYSTEM: refused, or anything else. They block while the kernel copies. */
int tug_cma_read(pid_t pid, void *to, uint64_t from, size_t bytes);
int tug_cma_write(pid_t pid, const void *from, uint64_t to, size_t bytes);

/* A process cannot reach memory of another since the program there has protected it. It asks the
 * owner to access the pages. In memory that both share; all zeros at first.
 *
 *     asks: 0 -> TUG_CMA_ASKS_* by the process that asks, when `at` and `bytes` are there
 *           -> 0 by the owner, when it has accessed the pages */
struct tug_cma_ask {
    _Atomic uint32_t asks;
    uint64_t at, bytes; /* in the owner */
};
enum { TUG_CMA_ASKS_READ = 1, TUG_CMA_ASKS_WRITE };

/* Copies `bytes` bytes between `here` and `there` in the peer, of which *moved have been copied
 * already, and counts them on. This process accesses its own protected pages. Pages that are
 * protected in the peer are asked for. 0: all is copied; TUG_ERR_FULL: the owner has been asked, or
 * has not answered yet (the caller rings its bell, and tries again); or as tug_cma_read(). One
 * thread at a time. */
int tug_cma_move(pid_t pid, bool writes, void *here, uint64_t there, size_t bytes, size_t *moved,
                 struct tug_cma_ask *ask);

/* The owner answers, if it is asked: it accesses the pages, and changes nothing. True: it was; the
 * caller rings the bell of the process that asked. */
bool tug_cma_answer(struct tug_cma_ask *ask);

/* tug_cma_read(), where the kernel would copy slowly (base/copy.h): it reads a little behind where
 * the data belong, and they move from there: 256 KiB in 31 us instead of 108. For writes there is
 * no such way. */
int tug_cma_read_beside(pid_t pid, void *to, uint64_t from, size_t bytes);

/* The same of as many bytes in pieces on either side, in one call of the kernel's: 1 to
 * TUG_CMA_PIECES on each, none of them empty, TUG_CMA_BYTES_MOST in all. What has not moved is left
 * in them after an error. */
#define TUG_CMA_PIECES 1024
#define TUG_CMA_BYTES_MOST ((size_t)1 << 30)
struct tug_cma_pieces {
    struct iovec *at;
    size_t n;
};
int tug_cma_read_pieces(pid_t pid, struct tug_cma_pieces *here, struct tug_cma_pieces *there);
int tug_cma_write_pieces(pid_t pid, struct tug_cma_pieces *here, struct tug_cma_pieces *there);

/* Is all of it mapped in that process, with whatever rights? After TUG_ERR_RANGE: then its pages
 * are protected there, by a program that wants to know of accesses to them. */
bool tug_cma_is_mapped(pid_t pid, uint64_t address, uint64_t bytes);

#endif

/* Moved memory: ordinary memory of the program's that the other ranks of its node can map where it
 * lies, for as long as a window over it lives (TUGBOAT_SHARE_IN_PLACE).
 *
 * Its whole pages move into a nameless file in memory, mapped at the same addresses, and back into
 * private memory. The bytes beside it on its first and last page move with it, and are seen by
 * those who map the offer.
 *
 * Nobody else may write to the pages while they are copied. So they stay where they are, and the
 * answer is no, unless
 *
 * - all of it is private anonymous memory that may be read and written and of which nothing else
 *   was ever asked (VmFlags in /proc/self/smaps): not of files, shared, locked, of huge pages, left
 *   out of forks or dumps, or watched by userfaultfd; and has no huge page;
 * - it is none that a stack or a heap of malloc's is in, where others' memory may be on the same
 *   pages: large blocks, from 128 KiB on at first, have pages of their own;
 * - the process has one thread, beside those of ours and UCX's, who are known by their names;
 * - nothing in the process is pinned, for a network card (VmPin), whose copy of the addresses would
 *   not change.
 *
 * What cannot be seen is the caller's to promise: no call of the kernel, message or other operation
 * that writes there is under way. A child of a fork() does not have the pages.
 *
 * Threads of the program: tug_moved_take() and tug_moved_return() by the thread that makes and
 * frees the window.
 */
#ifndef TUG_NODE_MOVED_H
#define TUG_NODE_MOVED_H

#include <stdbool.h>
#include <stddef.h>

struct tug_moved;
struct tug_offer;

/* Moves the memory; offer: of its first byte. NULL: it stays, and *why says why, in words. */
struct tug_moved *tug_moved_take(void *address, size_t bytes, struct tug_offer *offer,
                                 const char **why);

/* No other process uses it any more: it is private memory again, with what it holds. Where the
 * process has more threads by now, or something else uses it (`used`), it stays in its file, which
 * nobody else has: other threads may store there meanwhile. NULL does nothing. */
void tug_moved_return(struct tug_moved *moved, bool used);

/* The pages. */
void tug_moved_range(const struct tug_moved *moved, const void **begin, size_t *bytes);

#endif

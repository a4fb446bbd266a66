/* Watched memory: a cache keeps something about ranges of this process's addresses, for example a
 * device's registration of them. That is wrong once the program has given the memory back.
 *
 * The kernel reports munmap(), mremap(), madvise() that drops pages, mmap() over a range, and a
 * heap that shrinks, from inside the C library too (userfaultfd(2)). A watched range is in
 * userfaultfd's mode for write protection, and no page of it is ever protected, so no access
 * faults. A thread of this file reads the reports. The kernel keeps the caller of munmap() waiting
 * until its report is read.
 *
 *      program                  kernel                      this file's thread
 *      munmap(range) ---------> unmapped, caller waits ---> takes tug_unmap_lock
 *                               caller goes on <----------- reads the report
 *                                                           gone(first, end)
 *                                                           gives tug_unmap_lock back
 *
 * So gone() has been called when a thread takes tug_unmap_lock after munmap() has returned. Another
 * thread may get the same addresses from mmap() before the report is even made:
 * tug_unmap_watch_sees() is false in that time. (The report of madvise() comes before the pages are
 * dropped. A program that uses the range from another thread meanwhile does not know its content.)
 *
 * A thread that holds tug_unmap_lock must not allocate or free memory, nor call a function that may
 * do so: free() may unmap watched memory, and would then wait for this file's thread, which waits
 * for the lock.
 *
 * The kernel reports neither shmdt() nor a file that shrinks. So memory that is shared is watched
 * only if it is the library's own (node/lent.h).
 */
#ifndef TUG_BASE_UNMAP_WATCH_H
#define TUG_BASE_UNMAP_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

extern pthread_mutex_t tug_unmap_lock;

/* Starts the thread. It calls gone(first, end), with tug_unmap_lock held, for each range of watched
 * memory that goes. The caller calls tug_unmap_watch_end() once for each call that returned true.
 * While the times of several callers overlap, the function of the first one is used. False: the
 * kernel or container does not report (Linux 5.18), or a descriptor or thread cannot be had. Any
 * thread, without the lock. */
bool tug_unmap_watch_begin(void (*gone)(uintptr_t first, uintptr_t end));
void tug_unmap_watch_end(void);

/* Watches the pages from first to end, both at page boundaries, until they are unmapped or moved,
 * or the last tug_unmap_watch_end(). A watched range makes munmap() some microseconds slower, and
 * nothing else. False: the memory cannot be watched (shared, of a file, not mapped), or /proc
 * cannot be read. Between begin and end; any thread, without the lock. */
bool tug_unmap_watch_add(uintptr_t first, uintptr_t end);

/* Has gone() been called for all memory that has been unmapped so far? False: a thread is in the
 * middle of unmapping, or the kernel does not report any more, since the program has closed the
 * descriptor. The caller holds the lock. */
bool tug_unmap_watch_sees(void);

#endif

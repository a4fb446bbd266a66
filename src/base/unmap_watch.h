/* Watched memory: ranges of this process's addresses of which a cache keeps something that is wrong
 * once the program has given the memory back (a device's registration of it, say).
 *
 * The kernel reports munmap(), mremap(), madvise() that drops pages, mmap() over a range, and a
 * heap that shrinks, from inside the C library too (userfaultfd(2)). The range is registered for
 * write protection and nothing in it is ever protected, so no access faults. A thread of this file
 * reads the reports. The kernel keeps the caller of munmap() waiting until its report is read.
 *
 *      program                  kernel                      this file's thread
 *      munmap(range) ---------> unmapped, caller waits ---> takes tug_unmap_lock
 *                               caller goes on <----------- reads the report
 *                                                           gone(first, end)
 *                                                           gives tug_unmap_lock back
 *
 * So a thread that takes tug_unmap_lock behind a munmap() finds that gone() has been called.
 * Another thread may get the same addresses from mmap() before the report is even made:
 * tug_unmap_watch_sees() is false in that time.
 *
 * The holder of tug_unmap_lock neither allocates nor frees memory, nor calls what may: to free may
 * be to unmap, and would wait for a thread that waits for the lock.
 *
 * Not reported: shmdt(). So memory of System V segments cannot be watched.
 */
#ifndef TUG_BASE_UNMAP_WATCH_H
#define TUG_BASE_UNMAP_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

extern pthread_mutex_t tug_unmap_lock;

/* Starts to watch; gone(first, end) is called from then on, with the lock held, for each range of
 * watched memory that goes. Each true is matched by a tug_unmap_watch_end(); between the first and
 * the last of these the function stays the first caller's. False: this kernel or container does not
 * report. Any thread, without the lock. */
bool tug_unmap_watch_begin(void (*gone)(uintptr_t first, uintptr_t end));
void tug_unmap_watch_end(void);

/* Watches whole pages, between begin and end. False: this memory cannot be watched (of a file, of a
 * System V segment, not mapped). It stays watched until it goes, or watching ends: to be watched
 * costs the program a few microseconds in the munmap() alone. Any thread, without the lock. */
bool tug_unmap_watch_add(uintptr_t first, uintptr_t end);

/* Has gone() been called for all that is unmapped at this moment? False: some thread is in the
 * middle of it, or the kernel does not report any more (the program has closed the descriptor).
 * With the lock. */
bool tug_unmap_watch_sees(void);

#endif

/* Descriptors that Tugboat keeps open: where their numbers are, and whether they still are ours.
 *
 * The program's own limit stays what it was as far as the program can tell. Ours have numbers in
 * the last quarter of those that it may use (of the first 4 096, for the kernel's table is as long
 * as the highest number); when these are taken the soft limit is raised towards the hard one, by
 * few at a time. So who uses select(), which knows no numbers above 1 023, finds low ones as
 * before, and a child process inherits a limit that is hardly larger.
 *
 * Some programs close descriptors that they have not opened (who becomes a daemon closes all), and
 * open files of their own at the same numbers. To use such a number is to write into a file of the
 * program's, or to take news that are meant for it. So whoever keeps a descriptor remembers its
 * file, and looks whether it still is that one before it uses it: each time, where a sleep or a
 * wake goes with it, and else once in every tick of the clock. Within a tick the number cannot come
 * to be another's by chance: since it is high, all the free ones below it are given out first.
 *
 * Sockets, pipes and files in memory have an inode of their own each. All epoll sets have the same
 * one, and so have all eventfds: a set is known by a member that has its own (tug_own_set()), and
 * no eventfds are kept.
 *
 * The child of a fork has none of those that are kept (_Fork() and clone() alone leave them).
 *
 * Any thread.
 */
#ifndef TUG_BASE_DESCRIPTORS_H
#define TUG_BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raises the soft limit by some. False: it is the hard one already. */
bool tug_descriptors_raise(void);

/* The descriptor, or the one that it has been moved to; -1 is -1. To be called before anybody else
 * knows its number. */
int tug_descriptor_lift(int descriptor);

/* Has the kernel make its table of this process's descriptors as long as our numbers want it. To be
 * called before there are threads: the kernel lengthens the table of one thread at once, and takes
 * 10 to 20 ms with several, since it waits until no processor looks at the old one. */
void tug_descriptors_prepare(void);

/* A pipe that is written and read by the same descriptor, which blocks in neither: what rings it is
 * a byte. -1: none can be had (or /proc cannot). */
int tug_descriptor_bell(void);

/* A descriptor, and the file that it is open for. */
struct tug_own {
    int number; /* -1: none */
    uint64_t device, inode;
};
#define TUG_OWN_NONE                                                                               \
    { .number = -1 }

/* Remembers the file of a descriptor. note: it stays where it is, and may be a library's. keep: it
 * is lifted before, and closed in the child of a fork. Of -1: none. */
struct tug_own tug_own_note(int descriptor);
struct tug_own tug_own_keep(int descriptor);

/* Closes one that is kept, and is known to be ours still; -1: nothing. */
void tug_descriptor_close(int descriptor);

/* Is it still there? False for none. If the program has closed it a warning says so, the first
 * time in this process. */
bool tug_own_holds(const struct tug_own *own);

/* Is it still there, and the set the one that it is in, for these events and with these data? */
bool tug_own_set(int set, const struct tug_own *member, uint32_t events, uint64_t data);

/* Closes it, unless it is not ours any more; then there is none. */
void tug_own_close(struct tug_own *own);

/* Makes an eventfd readable, or not so any more. Does nothing if the descriptor is not ours now. */
void tug_own_ring(const struct tug_own *bell);
void tug_own_silence(const struct tug_own *bell);

/* Has this process a file open whose path begins with one of these (NULL behind the last)? Then its
 * path, cut to what fits, is in `path`. Looks at every descriptor. */
bool tug_descriptor_of(const char *const beginnings[], char *path, size_t bytes);

/* A sleep on such descriptors is ended after so long, to look whether they still are ours: what is
 * closed meanwhile wakes nobody. */
#define TUG_OWN_LOOK_NS ((int64_t)1000000000)

/* The number of the clock's tick (1 to 10 ms). */
uint64_t tug_own_tick(void);

#endif

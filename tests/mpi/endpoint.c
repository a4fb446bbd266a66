/*
 * endpoint: what windows on many communicators cost a process that sleeps, in processor time,
 * sockets and threads.
 *
 * grid: windows by MPI_Win_create and MPI_Win_allocate on the rows and columns of a grid of two
 * columns, and on no others. many: windows on 64 communicators of different ranks. Every process
 * puts to every other of each window, and all sleep for as many ms as the second argument says;
 * meanwhile each uses at most so many percent of a processor as the third says, and many windows
 * have no more threads than a few. (100: whatever it is.) However many windows there are, a process
 * listens at one socket more than before, and has one more for each peer, and two in reserve.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, WORDS = 512 };

struct opened {
    MPI_Comm comm;
    MPI_Win win;
    int64_t *base;
    bool ours; /* the memory */
};

static struct opened windows[2 * MOST];
static int nwindows;

struct counts {
    int sockets, listeners, threads;
};

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Is this socket listened at? */
static bool listens(uint64_t inode) {
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    bool found = false;
    for (int i = 0; i < 2; i++) {
        char line[512];
        FILE *table = fopen(tables[i], "r");
        while (table != NULL && fgets(line, sizeof line, table) != NULL) {
            unsigned state;
            uint64_t its;
            if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %*s %*s %" SCNu64, &state, &its) == 2)
                found |= its == inode && state == 0x0a;
        }
        if (table != NULL)
            fclose(table);
    }
    return found;
}

static struct counts count(void) {
    struct counts counts = {0, 0, -2}; /* "." and ".." */
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char to[256] = "";
        uint64_t inode;
        if (readlinkat(dirfd(directory), entry->d_name, to, sizeof to - 1) > 0 &&
            sscanf(to, "socket:[%" SCNu64, &inode) == 1) {
            counts.sockets++;
            counts.listeners += listens(inode);
        }
    }
    closedir(directory);
    directory = opendir("/proc/self/task");
    while (directory != NULL && readdir(directory) != NULL)
        counts.threads++;
    closedir(directory);
    return counts;
}

/* Everybody to everybody, so that the host has all the connections that it makes. */
static void meet_all(void) {
    int *words = calloc(2 * (size_t)check_nranks, sizeof(*words));
    CHECK(words != NULL, "no memory");
    MUST(MPI_Alltoall(words, 1, MPI_INT, words + check_nranks, 1, MPI_INT, MPI_COMM_WORLD));
    free(words);
}

static void open_window(MPI_Comm comm, bool create) {
    struct opened *w = &windows[nwindows++];
    *w = (struct opened){.comm = comm, .ours = create};
    if (create) {
        w->base = calloc(WORDS, sizeof(int64_t));
        MUST(MPI_Win_create(w->base, WORDS * 8, 8, MPI_INFO_NULL, comm, &w->win));
    } else {
        MUST(MPI_Win_allocate(WORDS * 8, 8, MPI_INFO_NULL, comm, &w->base, &w->win));
    }
}

/* Rank r writes word r at everybody; then all look. */
static void use(struct opened *w, int64_t round) {
    int rank, size;
    MUST(MPI_Comm_rank(w->comm, &rank));
    MUST(MPI_Comm_size(w->comm, &size));
    int64_t word = round * 1000 + rank;
    MUST(MPI_Win_lock_all(0, w->win));
    for (int r = 0; r < size; r++)
        MUST(MPI_Put(&word, 1, MPI_INT64_T, r, rank, 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_unlock_all(w->win));
    check_barrier(w->comm);
    for (int r = 0; r < size; r++)
        CHECK(w->base[r] == round * 1000 + r, "window %d, word %d: %" PRId64, (int)(w - windows), r,
              w->base[r]);
    check_barrier(w->comm);
}

static void use_all(int64_t round) {
    for (int i = 0; i < nwindows; i++)
        use(&windows[i], round);
}

static void close_window(struct opened *w) {
    MUST(MPI_Win_free(&w->win));
    MUST(MPI_Comm_free(&w->comm));
    if (w->ours)
        free(w->base);
}

static void open_grid(void) {
    MPI_Comm comm;
    for (int create = 0; create < 2; create++)
        for (int columns = 0; columns < 2; columns++) {
            int mine = columns ? check_rank % 2 : check_rank / 2;
            MUST(MPI_Comm_split(MPI_COMM_WORLD, mine, check_rank, &comm));
            open_window(comm, create);
        }
}

/* The i-th has all processes but those that a bit of i tells: some have few, in turned order. */
static void open_many(void) {
    for (int i = 0; i < MOST; i++) {
        MPI_Comm comm;
        MUST(MPI_Comm_split(MPI_COMM_WORLD, i >> (check_rank % 4) & 1,
                            i % 2 ? -check_rank : check_rank, &comm));
        open_window(comm, i % 3 != 0);
    }
}

/* As a share of the time that the sleep took, which is longer where others want the cores. */
static double asleep(unsigned ms) {
    double processor = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    usleep(ms * 1000);
    processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    return processor / (seconds(CLOCK_MONOTONIC) - wall);
}

int main(int argc, char **argv) {
    bool many = argc > 1 && strcmp(argv[1], "many") == 0;
    unsigned ms = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
    double most = argc > 3 ? atof(argv[3]) : 100;
    check_begin(&argc, &argv, "endpoint");
    meet_all();
    struct counts before = count();
    open_grid();
    use_all(1);
    struct counts few = count(), all = few;
    if (many) {
        open_many();
        use_all(2);
        all = count();
    }
    check_barrier(MPI_COMM_WORLD);
    usleep(100000);
    double share = asleep(ms);
    printf("rank %d: %.2f %% of a processor asleep; %d sockets, %d with few windows, %d with %d "
           "(listening: %d, %d, %d); %d, %d, %d threads\n",
           check_rank, 1e2 * share, before.sockets, few.sockets, all.sockets, nwindows,
           before.listeners, few.listeners, all.listeners, before.threads, few.threads,
           all.threads);
    use_all(3);
    CHECK(all.threads == few.threads || most >= 100, "%d threads, %d before", all.threads,
          few.threads);
    CHECK(all.listeners <= before.listeners + 1 &&
              all.sockets <= before.sockets + 1 + (check_nranks - 1) + 2,
          "%d sockets with %d windows, %d without (listening: %d, %d)", all.sockets, nwindows,
          before.sockets, all.listeners, before.listeners);
    CHECK(1e2 * share < most, "asleep, and yet %.2f %% of a processor", 1e2 * share);
    for (int i = 0; i < nwindows; i++)
        close_window(&windows[i]);
    return check_end();
}

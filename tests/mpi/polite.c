/*
 * polite: who waits in a blocking call leaves the core to others.
 *
 * One rank comes late to every call, by a sleep; the others' processor time meanwhile is a small
 * part of it, whatever else the machine does. Until there is a window no thread of the library's
 * has been started: waiting needs none. With the argument "spins" any processor time is allowed, as
 * the host alone takes it. Compiled with PLAIN it calls for nothing of the library's: MPI runs at
 * its own thread level, and waits as politely.
 */
#include <dirent.h>
#include <time.h>

#include "check.h"

#define LATE_NS 100000000
#define TAG 3

static bool spins;

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int late; /* rank */
static MPI_Comm comm;
static int64_t mine, got;
static MPI_Request requests[2];
static MPI_Status statuses[2];

static int64_t word_of(int rank) {
    return (int64_t)(check_word((uint64_t)rank, 0, 0) >> 1);
}

static void send_to_all(void) {
    for (int r = 0; r < check_nranks; r++)
        if (r != late)
            MUST(MPI_Send(&mine, 1, MPI_INT64_T, r, TAG, comm));
}

static void take_message(void) {
    MUST(MPI_Recv(&got, 1, MPI_INT64_T, late, TAG, comm, MPI_STATUS_IGNORE));
}

static void by_recv(void) {
    check_rank == late ? send_to_all() : take_message();
}

static void by_probe(void) {
    if (check_rank != late)
        MUST(MPI_Probe(MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE));
    by_recv();
}

static void by_mprobe(void) {
    MPI_Message message;
    if (check_rank == late) {
        send_to_all();
        return;
    }
    MUST(MPI_Mprobe(late, TAG, comm, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Mrecv(&got, 1, MPI_INT64_T, &message, MPI_STATUS_IGNORE));
}

static void by_wait(void) {
    if (check_rank == late) {
        send_to_all();
        return;
    }
    MUST(MPI_Irecv(&got, 1, MPI_INT64_T, late, TAG, comm, &requests[0]));
    MUST(MPI_Wait(&requests[0], &statuses[0]));
}

static void post(void) {
    MUST(MPI_Irecv(&got, 1, MPI_INT64_T, late, TAG, comm, &requests[0]));
    requests[1] = MPI_REQUEST_NULL;
}

static void by_waitall(void) {
    if (check_rank == late) {
        send_to_all();
        return;
    }
    post();
    MUST(MPI_Waitall(2, requests, statuses));
}

static void by_waitany(void) {
    int index;
    if (check_rank == late) {
        send_to_all();
        return;
    }
    post();
    MUST(MPI_Waitany(2, requests, &index, &statuses[0]));
    CHECK(index == 0, "index %d", index);
}

static void by_waitsome(void) {
    int n, indices[2];
    if (check_rank == late) {
        send_to_all();
        return;
    }
    post();
    MUST(MPI_Waitsome(2, requests, &n, indices, statuses));
    CHECK(n == 1 && indices[0] == 0, "%d done, the first %d", n, indices[0]);
}

/* The late one receives: a send that waits for it. */
static void by_ssend(void) {
    int64_t from;
    got = word_of(late);
    if (check_rank != late) {
        MUST(MPI_Ssend(&mine, 1, MPI_INT64_T, late, TAG + check_rank, comm));
        return;
    }
    for (int r = 0; r < check_nranks; r++)
        if (r != late) {
            MUST(MPI_Recv(&from, 1, MPI_INT64_T, r, TAG + r, comm, MPI_STATUS_IGNORE));
            CHECK(from == word_of(r), "from %d: %lld", r, (long long)from);
        }
}

static void by_barrier(void) {
    got = word_of(late);
    MUST(MPI_Barrier(comm));
}

static void by_bcast(void) {
    got = mine;
    MUST(MPI_Bcast(&got, 1, MPI_INT64_T, late, comm));
}

static void by_allreduce(void) {
    int64_t only = check_rank == late ? mine : 0;
    MUST(MPI_Allreduce(&only, &got, 1, MPI_INT64_T, MPI_SUM, comm));
}

static void take_largest(void *in, void *inout, int *n, MPI_Datatype *type) {
    const int64_t *a = in;
    int64_t *b = inout;
    (void)type;
    for (int i = 0; i < *n; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}

static void by_programs_reduction(void) {
    int64_t only = check_rank == late ? mine : INT64_MIN;
    MPI_Op op;
    MUST(MPI_Op_create(take_largest, 1, &op));
    MUST(MPI_Allreduce(&only, &got, 1, MPI_INT64_T, op, comm));
    MUST(MPI_Op_free(&op));
}

static void by_split(void) {
    MPI_Comm part;
    int n;
    MUST(MPI_Comm_split(comm, 0, check_rank, &part));
    MUST(MPI_Comm_size(part, &n));
    CHECK(n == check_nranks, "%d ranks", n);
    MUST(MPI_Comm_free(&part));
    got = word_of(late);
}

#ifndef PLAIN
static void by_window(void) {
    MPI_Win win;
    int64_t *base;
    /* 64 bytes: the host of Debian 12 misplaces sizes that are not multiples of 16 */
    MUST(MPI_Win_allocate(64, 8, MPI_INFO_NULL, comm, (void *)&base, &win));
    MUST(MPI_Win_fence(0, win));
    for (int r = 0; r < check_nranks && check_rank == late; r++)
        MUST(MPI_Put(&mine, 1, MPI_INT64_T, r, 0, 1, MPI_INT64_T, win));
    MUST(MPI_Win_fence(0, win));
    got = *base;
    MUST(MPI_Win_free(&win));
}
#endif

static const struct way {
    const char *name;
    void (*call)(void);
} ways[] = {{"Recv", by_recv},           {"Probe", by_probe},
            {"Mprobe", by_mprobe},       {"Wait", by_wait},
            {"Waitall", by_waitall},     {"Waitany", by_waitany},
            {"Waitsome", by_waitsome},   {"Ssend", by_ssend},
            {"Barrier", by_barrier},     {"Bcast", by_bcast},
            {"Allreduce", by_allreduce}, {"Allreduce by a function", by_programs_reduction},
            {"Comm_split", by_split}};

/* What the call took this rank, as part of the time it waited. */
static void check_way(const struct way *way) {
    const struct timespec sleep = {0, LATE_NS};
    mine = word_of(check_rank);
    got = -1;
    check_barrier(comm);
    double processor = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    if (check_rank == late)
        (void)nanosleep(&sleep, NULL);
    way->call();
    processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    wall = seconds(CLOCK_MONOTONIC) - wall;
    if (check_rank == late)
        return;
    CHECK(got == word_of(late), "%s: %lld", way->name, (long long)got);
    CHECK(spins || processor < wall / 2, "%s: %.3f s of processor time in a wait of %.3f s",
          way->name, processor, wall);
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    CHECK(tasks != NULL, "no /proc");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

int main(int argc, char **argv) {
    spins = argc > 1 && strcmp(argv[1], "spins") == 0;
    check_begin(&argc, &argv, "polite");
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    int before = threads();
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        late = (int)i % check_nranks;
        check_way(&ways[i]);
    }
    CHECK(threads() == before, "%d threads, %d at the beginning", threads(), before);
#ifndef PLAIN
    check_way(&(struct way){"a window", by_window});
#endif
    MUST(MPI_Comm_free(&comm));
    return check_end();
}

/*
 * pcoll_kept: small persistent collectives, whose runs the thread that waits gets on by itself.
 *
 * Every call that completes requests completes them, alone and among requests of the host and runs
 * of long messages, whoever comes first or last; a root that is ahead of everybody sleeps while it
 * waits for room; two threads may look at a request of which one waits; sums of floating-point
 * numbers are the same in every run.
 *
 *     pcoll_kept [threads] [rounds]        threads: MPI is initialised for several
 */
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "mpi4.h"

enum { WORDS = 24, LONG = 40000, KINDS = 7, AHEAD = 400, STARTS = 40, TAG = 5 };
enum { BCAST, REDUCE, ALLREDUCE, SCAN, ALLTOALL, GATHER, LARGE };

static long in[KINDS][LONG], out[KINDS][LONG];
static MPI_Request requests[KINDS + 2];
static long token, rounds = 240;

static long word(long round, long rank, long i) {
    return round * 1000003 + rank * 101 + i;
}

/* The sum over the ranks below. */
static long sum(long round, long nranks, long i) {
    return nranks * word(round, 0, i) + 101 * nranks * (nranks - 1) / 2;
}

#define END MPI_COMM_WORLD, MPI_INFO_NULL

static void make(int last) {
    MUST(MPI_Bcast_init(check_rank == last ? in[BCAST] : out[BCAST], WORDS, MPI_LONG, last, END,
                        &requests[BCAST]));
    MUST(MPI_Reduce_init(in[REDUCE], out[REDUCE], WORDS, MPI_LONG, MPI_SUM, 0, END,
                         &requests[REDUCE]));
    MUST(MPI_Allreduce_init(in[ALLREDUCE], out[ALLREDUCE], 1, MPI_LONG, MPI_SUM, END,
                            &requests[ALLREDUCE]));
    MUST(MPI_Scan_init(in[SCAN], out[SCAN], WORDS, MPI_LONG, MPI_SUM, END, &requests[SCAN]));
    MUST(MPI_Alltoall_init(in[ALLTOALL], 2, MPI_LONG, out[ALLTOALL], 2, MPI_LONG, END,
                           &requests[ALLTOALL]));
    MUST(MPI_Gather_init(in[GATHER], 3, MPI_LONG, out[GATHER], 3, MPI_LONG, last, END,
                         &requests[GATHER]));
    MUST(MPI_Allreduce_init(in[LARGE], out[LARGE], LONG, MPI_LONG, MPI_SUM, END, &requests[LARGE]));
}

static void fill(long round) {
    for (int k = 0; k < KINDS; k++)
        for (long i = 0; i < (k == LARGE ? LONG : WORDS * 4); i++) {
            in[k][i] = word(round, check_rank, i);
            out[k][i] = -1;
        }
}

static void verify_one(int kind, long round, long i, long want) {
    CHECK(out[kind][i] == want, "round %ld, kind %d, word %ld: %ld instead of %ld", round, kind, i,
          out[kind][i], want);
}

static void verify(long round, int last) {
    const long n = check_nranks;
    for (long i = 0; i < WORDS; i++) {
        if (check_rank != last)
            verify_one(BCAST, round, i, word(round, last, i));
        if (check_rank == 0)
            verify_one(REDUCE, round, i, sum(round, n, i));
        verify_one(SCAN, round, i, sum(round, check_rank + 1, i));
    }
    verify_one(ALLREDUCE, round, 0, sum(round, n, 0));
    for (long i = 0; i < LONG; i += 997)
        verify_one(LARGE, round, i, sum(round, n, i));
    for (long r = 0; r < n; r++) {
        verify_one(ALLTOALL, round, 2 * r + 1, word(round, r, 2 * check_rank + 1));
        if (check_rank == last)
            verify_one(GATHER, round, 3 * r + 2, word(round, r, 2));
    }
}

/* All requests, the host's two among them, by one kind of call. */
static void complete(int how, int n) {
    int flag = 0, count = 0, index, indices[KINDS + 2];
    switch (how) {
    case 0:
        for (int i = n; i-- > 0;)
            MUST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        return;
    case 1:
        for (int i = 0; i < n; i++)
            for (flag = 0; !flag;)
                MUST(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
        return;
    case 2:
        MUST(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        return;
    case 3:
        for (int i = 0; i < n; i++)
            MUST(MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE));
        return;
    case 4:
        for (int done = 0; done < n; done += count)
            MUST(MPI_Waitsome(n, requests, &count, indices, MPI_STATUSES_IGNORE));
        return;
    case 5:
        for (int done = 0; done < n; done += flag)
            MUST(MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE));
        return;
    case 6:
        for (int done = 0; done < n; done += count)
            MUST(MPI_Testsome(n, requests, &count, indices, MPI_STATUSES_IGNORE));
        return;
    case 7:
        while (!flag)
            MUST(MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE));
        return;
    default:
        for (int i = 0; i < n; i++) {
            for (flag = 0; !flag;)
                MUST(MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE));
            MUST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        }
    }
}

static void all_calls(void) {
    const int last = check_nranks - 1;
    make(last);
    for (long round = 0; round < rounds; round++) {
        const int how = (int)(round % 9), with_host = how != 7 && round / 9 % 2;
        long back = -1;
        fill(round);
        if (round % (check_nranks + 1) == check_rank)
            usleep(300); /* everybody is late now and then */
        MUST(MPI_Startall(KINDS, requests));
        token = round;
        if (with_host) {
            MUST(MPI_Irecv(&back, 1, MPI_LONG, (check_rank + 1) % check_nranks, TAG, MPI_COMM_WORLD,
                           &requests[KINDS]));
            MUST(MPI_Isend(&token, 1, MPI_LONG, (check_rank + last) % check_nranks, TAG,
                           MPI_COMM_WORLD, &requests[KINDS + 1]));
        }
        complete(how, KINDS + 2 * with_host);
        CHECK(!with_host || back == round, "round %ld: the host brought %ld", round, back);
        verify(round, last);
    }
    for (int k = 0; k < KINDS; k++)
        MUST(MPI_Request_free(&requests[k]));
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* The root goes ahead as far as there is room, and sleeps until the others come. */
static void run_ahead(void) {
    long value = -1;
    MPI_Request request;
    MUST(MPI_Bcast_init(&value, 1, MPI_LONG, 0, END, &request));
    check_barrier(MPI_COMM_WORLD);
    if (check_rank > 0)
        usleep(400000);
    const double begin = cpu_seconds();
    for (long round = 0; round < AHEAD; round++) {
        value = check_rank == 0 ? round : -1;
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(value == round, "ahead: %ld in round %ld", value, round);
    }
    /* where processors are emulated the rounds themselves take longer */
    CHECK(cpu_seconds() - begin < 0.32 || getenv("CHECK_FEW") != NULL,
          "%.3f s of CPU time for %d rounds", cpu_seconds() - begin, AHEAD);
    MUST(MPI_Request_free(&request));
}

/* Whatever way a run takes, the same numbers have the same sum. */
static void same_bits(void) {
    static double numbers[LONG], sums[LONG], first[LONG];
    MPI_Request request;
    for (long i = 0; i < LONG; i++)
        numbers[i] = 1.0 / (double)(word(1, check_rank, i) % 9973 + 1);
    MUST(MPI_Allreduce_init(numbers, sums, LONG, MPI_DOUBLE, MPI_SUM, END, &request));
    for (int start = 0; start < STARTS; start++) {
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (start == 0)
            memcpy(first, sums, sizeof first);
        CHECK(memcmp(first, sums, sizeof first) == 0, "start %d brings other bits", start);
    }
    MUST(MPI_Request_free(&request));
}

static _Atomic bool looks;
static MPI_Request looked_at;

static void *look_on(void *unused) {
    int flag;
    (void)unused;
    while (looks) {
        MUST(MPI_Request_get_status(looked_at, &flag, MPI_STATUS_IGNORE));
        sched_yield();
    }
    return NULL;
}

/* One thread looks while another starts nothing but waits. */
static void look_beside(void) {
    long mine = 0, all = 0;
    pthread_t thread;
    MUST(MPI_Allreduce_init(&mine, &all, 1, MPI_LONG, MPI_SUM, END, &looked_at));
    for (long round = 0; round < rounds / 4; round++) {
        mine = word(round, check_rank, 0);
        MUST(MPI_Start(&looked_at));
        looks = true;
        CHECK(pthread_create(&thread, NULL, look_on, NULL) == 0, "no thread");
        MUST(MPI_Wait(&looked_at, MPI_STATUS_IGNORE));
        CHECK(all == sum(round, check_nranks, 0), "beside a look: %ld", all);
        looks = false;
        pthread_join(thread, NULL);
    }
    MUST(MPI_Request_free(&looked_at));
}

int main(int argc, char **argv) {
    const bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    (threads ? check_begin_threads : check_begin)(&argc, &argv, "pcoll_kept");
    if (argc > 1 + threads)
        rounds = atol(argv[1 + threads]);
    all_calls();
    run_ahead();
    same_bits();
    if (threads)
        look_beside();
    return check_end();
}

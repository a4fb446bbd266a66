/*
 * rma_flush_threads: is what a thread has flushed at the target, and what a request has completed
 * its own again, while other threads do the same?
 *
 * Each thread of a rank has a partner thread at the next rank. It puts, accumulates, flushes and
 * sends a message; the partner receives it and looks into its own memory with loads: nothing may
 * be missing, and no call of the partner's may be needed for it. Then it may be overwritten.
 * Requests of one-sided operations are completed by Wait, Test, Waitall, Waitany and Testsome
 * together with those of messages; a get that is complete has its data, a put that is complete has
 * given its buffer back, and a flush that follows makes the put visible.
 * Flushes of one target and of all of them take turns; local ones take part under the tug only, as
 * in MPICH 4.0.2 they make other threads' flushes forget operations.
 * Argument: number of threads (4).
 */
#include "lane.h"
#include "win_kinds.h"
#include <pthread.h>
#include <stddef.h>

enum { MAX_THREADS = 8, NWORDS = 64, SLOT = 8 * NWORDS, NREQUESTS = 4 };

/* What a rank's window has for each thread of its left neighbour. */
struct place {
    uint64_t put[NWORDS], requested[NWORDS], added[NWORDS], large[32 * NWORDS];
};

struct worker {
    struct kind_win *w;
    int id, nrounds;
    bool local_flushes;
    struct place from; /* origin's buffers */
    uint64_t sums[NWORDS];
};

static int nthreads = 4;

static size_t place_of(const struct worker *me, size_t member) {
    return (size_t)me->id * sizeof(struct place) + member;
}

/* Says to one rank that this thread has come so far, and waits for another to say so. */
static void exchange(const struct worker *me, int to, int from, int kind) {
    MPI_Request requests[2];
    int tag = 10 * me->id + kind;
    MUST(MPI_Irecv(NULL, 0, MPI_CHAR, from, tag, me->w->comm, &requests[0]));
    MUST(MPI_Isend(NULL, 0, MPI_CHAR, to, tag, me->w->comm, &requests[1]));
    check_wait(&requests[0]);
    check_wait(&requests[1]);
}

static uint64_t writer(const struct worker *me, int rank, int kind) {
    return (uint64_t)((rank * MAX_THREADS + me->id) * 8 + kind);
}

static void flush(const struct worker *me, int target, uint64_t round) {
    if (me->local_flushes && round % 5 == 0)
        MUST(MPI_Win_flush_local(target, me->w->win));
    if (me->local_flushes && round % 7 == 0)
        MUST(MPI_Win_flush_local_all(me->w->win));
    if (round % 3)
        MUST(MPI_Win_flush(target, me->w->win));
    else
        MUST(MPI_Win_flush_all(me->w->win));
}

/* Puts word by word and at once, and adds; none of it is waited for. */
static void issue(struct worker *me, int right, uint64_t round) {
    static const uint64_t large = offsetof(struct place, large);
    MPI_Aint put = kind_disp(me->w, right, place_of(me, offsetof(struct place, put)));
    int n = round % 4 ? NWORDS : 32 * NWORDS;
    check_fill(me->from.put, SLOT, writer(me, me->w->rank, 0), round);
    check_fill(me->from.added, SLOT, writer(me, me->w->rank, 1), round);
    check_fill(me->from.large, (size_t)n * 8, writer(me, me->w->rank, 2), round);
    for (int i = 0; i < NWORDS; i++)
        MUST(MPI_Put(&me->from.put[i], 1, MPI_UINT64_T, right, put + i * 8 / me->w->disp_unit, 1,
                     MPI_UINT64_T, me->w->win));
    MUST(MPI_Accumulate(me->from.added, NWORDS, MPI_UINT64_T, right,
                        kind_disp(me->w, right, place_of(me, offsetof(struct place, added))),
                        NWORDS, MPI_UINT64_T, MPI_SUM, me->w->win));
    MUST(MPI_Put(me->from.large, n, MPI_UINT64_T, right,
                 kind_disp(me->w, right, place_of(me, large)), n, MPI_UINT64_T, me->w->win));
}

/* At the target, after the message: all of it is in memory. */
static void look(struct worker *me, int left, uint64_t round) {
    struct place *mine = (struct place *)(void *)(me->w->base + place_of(me, 0));
    size_t large = (size_t)(round % 4 ? NWORDS : 32 * NWORDS) * 8;
    MUST(MPI_Win_sync(me->w->win));
    check_same(mine->put, SLOT, writer(me, left, 0), round, "put and flushed", __LINE__);
    check_same(mine->large, large, writer(me, left, 2), round, "large and flushed", __LINE__);
    for (int i = 0; i < NWORDS; i++) {
        me->sums[i] += check_word(writer(me, left, 1), round, (uint64_t)i);
        CHECK(mine->added[i] == me->sums[i], "round %d, thread %d: sum %d is off by %lld",
              (int)round, me->id, i, (long long)(mine->added[i] - me->sums[i]));
    }
    memset(mine->put, 0xdd, SLOT); /* the neighbour waits for our answer */
    memset(mine->large, 0xdd, large);
    MUST(MPI_Win_sync(me->w->win));
}

/* ---- requests of windows and of messages together ---- */

static void complete(MPI_Request *requests, int n, uint64_t how) {
    int index, done = 0, indices[NREQUESTS + 2];
    switch (how % 5) {
    case 0:
        MUST(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        break;
    case 1:
        for (int i = 0; i < n; i++)
            check_wait(&requests[i]);
        break;
    case 2:
        for (int i = 0; i < n; i++)
            MUST(MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE));
        break;
    case 3:
        for (int left = n; left > 0; left -= done) {
            MUST(MPI_Testsome(n, requests, &done, indices, MPI_STATUSES_IGNORE));
            if (done == 0)
                sched_yield();
        }
        break;
    default:
        while (!done) {
            MUST(MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
            if (!done)
                sched_yield();
        }
    }
    for (int i = 0; i < n; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is left (way %d)", i, (int)(how % 5));
}

/* Rputs, a receive and a send, completed together; then Rgets likewise. */
static void request(struct worker *me, int right, int left, uint64_t round) {
    enum { PART = NWORDS / NREQUESTS };
    MPI_Request requests[NREQUESTS + 2];
    uint64_t out[NWORDS], in[NWORDS], say = check_word(writer(me, me->w->rank, 4), round, 0), heard;
    check_fill(out, SLOT, writer(me, me->w->rank, 3), round);
    for (int pass = 0; pass < 2; pass++) {
        MUST(MPI_Irecv(&heard, 1, MPI_UINT64_T, left, 10 * me->id + 3, me->w->comm, &requests[1]));
        MUST(MPI_Isend(&say, 1, MPI_UINT64_T, right, 10 * me->id + 3, me->w->comm, &requests[4]));
        for (int i = 0; i < NREQUESTS; i++) {
            static const int places[NREQUESTS] = {0, 2, 3, 5}; /* around those of messages */
            MPI_Aint disp =
                kind_disp(me->w, right,
                          place_of(me, offsetof(struct place, requested) + (size_t)i * PART * 8));
            if (pass == 0)
                MUST(MPI_Rput(out + i * PART, PART, MPI_UINT64_T, right, disp, PART, MPI_UINT64_T,
                              me->w->win, &requests[places[i]]));
            else
                MUST(MPI_Rget(in + i * PART, PART, MPI_UINT64_T, right, disp, PART, MPI_UINT64_T,
                              me->w->win, &requests[places[i]]));
        }
        complete(requests, NREQUESTS + 2, round + (uint64_t)(pass * 2 + me->id));
        CHECK(heard == check_word(writer(me, left, 4), round, 0), "another's message");
        if (pass == 0) {
            memset(out, 0xee, SLOT);
            flush(me, right, round);
        }
    }
    check_same(in, SLOT, writer(me, me->w->rank, 3), round, "rput, flushed, rget", __LINE__);
}

static void *work(void *arg) {
    struct worker *me = arg;
    int right = (me->w->rank + 1) % me->w->nranks;
    int left = (me->w->rank + me->w->nranks - 1) % me->w->nranks;
    for (uint64_t round = 1; round <= (uint64_t)me->nrounds; round++) {
        issue(me, right, round);
        flush(me, right, round);
        memset(&me->from, 0xee, sizeof me->from);
        exchange(me, right, left, 0);
        look(me, left, round);
        exchange(me, left, right, 1);
        request(me, right, left, round);
    }
    return NULL;
}

static void run(struct kind_win *w, int nrounds) {
    static struct worker workers[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    for (int i = 0; i < nthreads; i++) {
        memset(&workers[i], 0, sizeof workers[i]);
        workers[i].w = w;
        workers[i].id = i;
        workers[i].nrounds = nrounds;
        workers[i].local_flushes = !lane_is(w->win, "none");
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "no thread");
    }
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    check_barrier(w->comm);
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "rma_flush_threads");
    if (argc > 1)
        nthreads = atoi(argv[1]);
    CHECK(nthreads >= 1 && nthreads <= MAX_THREADS, "1 to %d threads", MAX_THREADS);
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, (size_t)nthreads * sizeof(struct place),
                       8))
            continue;
        MUST(MPI_Win_lock_all(0, w.win));
        run(&w, check_rounds(40, 4));
        MUST(MPI_Win_unlock_all(w.win));
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    return check_end();
}

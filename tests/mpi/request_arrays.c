/*
 * request_arrays: arrays of requests of every kind, in any order, completed by every call.
 *
 * Each round draws what is in the array: messages, persistent messages, collectives, one-sided
 * operations, partitioned and generalized requests, receives that are cancelled, persistent ones
 * that are not started, and nulls. All ranks draw the same set; each has its own order and its own
 * way to complete it. Then data, statuses, handles and the callbacks of generalized requests are
 * looked at. Before that, ranks look at a collective alone while a peer needs a message of theirs.
 *
 * "threads": MPI_THREAD_MULTIPLE, and another thread completes the generalized requests during the
 * wait. "mine": also what MPICH 4.0.2 alone fails at: MPI_Testall over a persistent collective or
 * partitioned request; persistent ones of these kinds that are not started, which it takes for
 * complete, or waits for without end; the status of a partitioned receive; and in MPI_Waitall a
 * null beside a generalized request that is pending.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

#define HAS_PARTS (MPI_VERSION >= 4)

enum { ROUNDS = 120, PAIRS = 2, MOST = 64, LONG = 20000, PARTS = 4, TAG = 10 };
enum kind { NOTHING, RECEIVED, SENT, REDUCED, FETCHED, STORED, PARTLY, GENERAL, CANCELLED, KINDS };
enum way { WAITALL, TESTALL, WAITANY, TESTANY, WAITSOME, TESTSOME, WAIT, TEST, LOOK, WAYS };

struct entry {
    enum kind kind;
    bool persistent, active;
    int tag, count, queries, frees;
    int *data, *other; /* what comes, and what goes; COUNT each */
    MPI_Request request;
};

static bool mine, threads;
static struct entry entries[MOST], *order[MOST];
static int nentries, npersistent, memory[MOST + 1], round_now;
static MPI_Win window;
static struct check_rng all_draw, own_draw; /* of all ranks alike, and of this one */

static int next(void) {
    return (check_rank + 1) % check_nranks;
}

static int before(void) {
    return (check_rank + check_nranks - 1) % check_nranks;
}

static int draw(struct check_rng *rng, int below) {
    return (int)(check_draw(rng) % (uint64_t)below);
}

static int value(int rank, const struct entry *e, int i) {
    return (int)(check_word((uint64_t)rank, (uint64_t)round_now * MOST + (uint64_t)e->tag,
                            (uint64_t)i) %
                 100000);
}

/* ---- what is in the array ---- */

static int query(void *state, MPI_Status *status) {
    struct entry *e = state;
    e->queries++;
    status->MPI_SOURCE = before();
    status->MPI_TAG = e->tag;
    MUST(MPI_Status_set_elements(status, MPI_INT, e->count));
    MUST(MPI_Status_set_cancelled(status, 0));
    return MPI_SUCCESS;
}

static int forget(void *state) {
    ((struct entry *)state)->frees++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static struct entry *add(enum kind kind, int count) {
    struct entry *e = &entries[nentries];
    *e = (struct entry){.kind = kind,
                        .tag = TAG + nentries,
                        .count = count,
                        .data = calloc((size_t)count, sizeof(int)),
                        .other = calloc((size_t)count, sizeof(int)),
                        .request = MPI_REQUEST_NULL};
    CHECK(e->data != NULL && e->other != NULL && nentries < MOST, "no room");
    nentries++;
    return e;
}

/* The persistent ones: a pair of each kind, of one value and of many. */
static void make_persistent(void) {
    for (int i = 0; i < PAIRS; i++) {
        const int count = i == 0 ? 1 : LONG;
        struct entry *received = add(RECEIVED, count), *sent = add(SENT, count);
        struct entry *reduced = add(REDUCED, count);
        MUST(MPI_Recv_init(received->data, count, MPI_INT, before(), received->tag, MPI_COMM_WORLD,
                           &received->request));
        MUST(MPI_Send_init(sent->other, count, MPI_INT, next(), received->tag, MPI_COMM_WORLD,
                           &sent->request));
        MUST(MPI_Allreduce_init(reduced->other, reduced->data, count, MPI_INT, MPI_SUM,
                                MPI_COMM_WORLD, MPI_INFO_NULL, &reduced->request));
        sent->tag = received->tag;
#if HAS_PARTS
        struct entry *comes = add(PARTLY, PARTS * count), *goes = add(PARTLY, PARTS * count);
        MUST(MPI_Precv_init(comes->data, PARTS, count, MPI_INT, before(), comes->tag,
                            MPI_COMM_WORLD, MPI_INFO_NULL, &comes->request));
        MUST(MPI_Psend_init(goes->other, PARTS, count, MPI_INT, next(), comes->tag, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &goes->request));
        goes->tag = comes->tag;
#endif
    }
    for (int i = 0; i < nentries; i++)
        entries[i].persistent = true;
    npersistent = nentries;
}

/* True for the half of a partitioned pair that sends. */
static bool sends_parts(const struct entry *e) {
    return e->kind == PARTLY && e > entries && e[-1].kind == PARTLY && e[-1].tag == e->tag;
}

static bool receives(const struct entry *e) {
    return e->kind == RECEIVED || (e->kind == PARTLY && !sends_parts(e));
}

static void fill(struct entry *e) {
    for (int i = 0; i < e->count; i++) {
        e->data[i] = -1;
        e->other[i] = value(check_rank, e, i);
    }
}

/* Starts what all ranks draw of the persistent ones. The two halves of a pair go together. */
static void start_persistent(void) {
    MPI_Request starts[MOST];
    struct entry *started[MOST];
    int n = 0;
    for (int i = 0; i < npersistent; i++) {
        struct entry *e = &entries[i];
        const bool second = e->kind == SENT || sends_parts(e);
        e->active = second ? e[-1].active : draw(&all_draw, 3) > 0 || (mine && i == 2);
        if (!e->active)
            continue;
        fill(e);
        started[n] = e;
        starts[n++] = e->request;
    }
    MUST(MPI_Startall(n, starts));
    for (int i = 0; i < n; i++) {
        CHECK(starts[i] == started[i]->request, "a start has changed a handle");
#if HAS_PARTS
        if (sends_parts(started[i]))
            MUST(MPI_Pready_range(0, PARTS - 1, starts[i]));
#endif
    }
}

static void start_message(int count) {
    struct entry *received = add(RECEIVED, count), *sent = add(SENT, count);
    sent->tag = received->tag;
    fill(sent);
    MUST(MPI_Irecv(received->data, count, MPI_INT, before(), received->tag, MPI_COMM_WORLD,
                   &received->request));
    MUST(MPI_Isend(sent->other, count, MPI_INT, next(), sent->tag, MPI_COMM_WORLD, &sent->request));
    received->active = sent->active = true;
}

static void start_other(enum kind kind, int count) {
    struct entry *e = add(kind, count);
    fill(e);
    e->active = kind != NOTHING;
    if (kind == REDUCED)
        MUST(MPI_Iallreduce(e->other, e->data, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                            &e->request));
    else if (kind == FETCHED)
        MUST(MPI_Rget(e->data, 1, MPI_INT, next(), 0, 1, MPI_INT, window, &e->request));
    else if (kind == STORED)
        MUST(MPI_Rput(e->other, 1, MPI_INT, next(), 1 + e->tag - TAG, 1, MPI_INT, window,
                      &e->request));
    else if (kind == GENERAL)
        MUST(MPI_Grequest_start(query, forget, cancel, e, &e->request));
    else if (kind == CANCELLED) {
        MUST(MPI_Irecv(e->data, count, MPI_INT, 0, e->tag, MPI_COMM_SELF, &e->request));
        MUST(MPI_Cancel(&e->request));
    }
}

static void start_round(void) {
    static const enum kind others[] = {GENERAL, REDUCED, FETCHED, STORED, CANCELLED, NOTHING};
    const int most = 5 + draw(&all_draw, 2); /* with nulls or without */
    nentries = npersistent;
    start_persistent();
    for (int n = draw(&all_draw, 12); n > 0; n--) {
        const int which = draw(&all_draw, most + 1), count = draw(&all_draw, 3) > 0 ? 1 : LONG;
        if (which == most)
            start_message(count);
        else
            start_other(others[which], count);
    }
}

/* ---- completing ---- */

static bool has(bool (*is)(const struct entry *), int n) {
    for (int i = 0; i < n; i++)
        if (is(order[i]))
            return true;
    return false;
}

static bool is_null(const struct entry *e) {
    return e->kind == NOTHING;
}

static bool is_special(const struct entry *e) {
    return e->persistent && (e->kind == REDUCED || e->kind == PARTLY);
}

/* One that the host alone can go. MPI_Waitall is the commonest. */
static enum way draw_way(int n) {
    const int way = draw(&own_draw, WAYS + 2);
    if (way >= WAYS)
        return WAITALL;
    return way == TESTALL && !mine && has(is_special, n) ? WAITSOME : (enum way)way;
}

/* Persistent ones that are not started are in it or not. */
static bool is_in_array(const struct entry *e) {
    const bool idle = e->persistent && !e->active;
    return !idle || ((mine || !is_special(e)) && draw(&own_draw, 2) > 0);
}

/* The order of this rank. */
static int put_in_order(void) {
    int n = 0;
    for (int i = 0; i < nentries; i++)
        if (is_in_array(&entries[i]))
            order[n++] = &entries[i];
    for (int i = n - 1; i > 0; i--) {
        const int k = draw(&own_draw, i + 1);
        struct entry *e = order[i];
        order[i] = order[k];
        order[k] = e;
    }
    return n;
}

static void *complete_general(void *unused) {
    for (int i = 0; i < nentries; i++)
        if (entries[i].kind == GENERAL) {
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL); /* most waits have begun */
            MUST(MPI_Grequest_complete(*(MPI_Request *)unused));
            unused = (MPI_Request *)unused + 1;
        }
    return NULL;
}

static void check_status(const struct entry *e, bool was_active, const MPI_Status *status) {
    int count = -1, cancelled = -1;
    MUST(MPI_Test_cancelled(status, &cancelled));
    CHECK(cancelled == (was_active && e->kind == CANCELLED), "kind %d: cancelled %d", e->kind,
          cancelled);
    CHECK(status->MPI_ERROR == MPI_SUCCESS, "kind %d: error %d", e->kind, status->MPI_ERROR);
    MUST(MPI_Get_count(status, MPI_INT, &count));
    if (!was_active)
        CHECK(status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && count == 0,
              "kind %d, not active: source %d, tag %d, count %d", e->kind, status->MPI_SOURCE,
              status->MPI_TAG, count);
    else if (e->kind == RECEIVED || e->kind == GENERAL || (mine && receives(e)))
        CHECK(status->MPI_SOURCE == before() && status->MPI_TAG == e->tag && count == e->count,
              "kind %d: source %d, tag %d (%d), count %d (%d)", e->kind, status->MPI_SOURCE,
              status->MPI_TAG, e->tag, count, e->count);
}

/* The request at i is over. MPICH 4.0.2 alone finds a persistent collective again and again. */
static void over(int i, MPI_Request requests[], const MPI_Status *status) {
    struct entry *e = order[i];
    const bool was_active = e->active;
    CHECK(requests[i] == (e->persistent ? e->request : MPI_REQUEST_NULL),
          "kind %d: persistent %d, and the handle is wrong", e->kind, e->persistent);
    if (status != MPI_STATUS_IGNORE)
        check_status(e, was_active, status);
    e->active = false;
    if (!mine && is_special(e))
        requests[i] = MPI_REQUEST_NULL;
}

static MPI_Status *at(MPI_Status *statuses, int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

static int nactive(int n) {
    int active = 0;
    for (int i = 0; i < n; i++)
        active += order[i]->active;
    return active;
}

static void by_all(bool test, int n, MPI_Request requests[], MPI_Status *statuses) {
    int flag = !test;
    if (!test)
        MUST(MPI_Waitall(n, requests, statuses));
    while (!flag) {
        MUST(MPI_Testall(n, requests, &flag, statuses));
        sched_yield();
    }
    for (int i = 0; i < n; i++)
        over(i, requests, at(statuses, i));
}

static void by_any(bool test, int n, MPI_Request requests[], MPI_Status *statuses) {
    for (int left = nactive(n), index, flag = 1; left >= 0; left -= flag) {
        if (test)
            MUST(MPI_Testany(n, requests, &index, &flag, statuses));
        else
            MUST(MPI_Waitany(n, requests, &index, statuses));
        if (!flag) {
            sched_yield();
            continue;
        }
        CHECK((index == MPI_UNDEFINED) == (left == 0), "index %d, and %d are left", index, left);
        if (left > 0) {
            CHECK(index >= 0 && index < n, "index %d", index);
            CHECK(order[index]->active, "index %d of kind %d", index, order[index]->kind);
            over(index, requests, statuses);
        }
    }
}

static void by_some(bool test, int n, MPI_Request requests[], MPI_Status *statuses) {
    int indices[MOST], count = 0;
    for (int left = nactive(n);; left -= count) {
        if (test)
            MUST(MPI_Testsome(n, requests, &count, indices, statuses));
        else
            MUST(MPI_Waitsome(n, requests, &count, indices, statuses));
        CHECK((count == MPI_UNDEFINED) == (left == 0), "count %d, and %d are left", count, left);
        if (count == MPI_UNDEFINED)
            return;
        CHECK(count >= !test && count <= left, "count %d, and %d are left", count, left);
        for (int i = 0; i < count; i++) {
            CHECK(indices[i] >= 0 && indices[i] < n && order[indices[i]]->active, "index %d",
                  indices[i]);
            over(indices[i], requests, at(statuses, i));
        }
        sched_yield();
    }
}

static void by_one(bool test, int n, MPI_Request requests[], MPI_Status *statuses) {
    for (int i = 0; i < n; i++) {
        int flag = !test;
        if (!test)
            MUST(MPI_Wait(&requests[i], statuses));
        while (!flag) {
            MUST(MPI_Test(&requests[i], &flag, statuses));
            sched_yield();
        }
        over(i, requests, statuses);
    }
}

/* Calls of MPI 4.1, which the host may lack. */
static bool look_at_all(int n, const MPI_Request requests[], MPI_Status *statuses) {
    int (*all)(int, const MPI_Request[], int *, MPI_Status *), flag = 0;
    *(void **)&all = dlsym(RTLD_DEFAULT, "MPI_Request_get_status_all");
    if (all == NULL || !mine)
        return false;
    while (!flag) {
        MUST(all(n, requests, &flag, statuses));
        sched_yield();
    }
    return true;
}

/* Looks that take nothing say the same as the wait that follows. */
static void by_looks(int n, MPI_Request requests[], MPI_Status *statuses) {
    const bool all = look_at_all(n, requests, statuses);
    for (int i = 0; i < n; i++) {
        int flag = all;
        while (!flag) {
            MUST(MPI_Request_get_status(requests[i], &flag, at(statuses, i)));
            sched_yield();
        }
        CHECK(order[i]->kind == NOTHING || requests[i] == order[i]->request, "a look has taken");
        if (statuses != MPI_STATUSES_IGNORE)
            check_status(order[i], order[i]->active, &statuses[i]);
    }
    by_all(false, n, requests, statuses);
}

static void complete(enum way way, int n, MPI_Request requests[], MPI_Status *statuses) {
    if (way == WAITALL || way == TESTALL)
        by_all(way == TESTALL, n, requests, statuses);
    else if (way == WAITANY || way == TESTANY)
        by_any(way == TESTANY, n, requests, statuses);
    else if (way == WAITSOME || way == TESTSOME)
        by_some(way == TESTSOME, n, requests, statuses);
    else if (way == LOOK)
        by_looks(n, requests, statuses);
    else
        by_one(way == TEST, n, requests, statuses);
}

/* ---- what it has brought ---- */

static void check_data(const struct entry *e) {
    int sum, stored;
    if (e->kind == GENERAL)
        CHECK(e->queries > 0 && e->frees == 1, "%d queries, freed %d times", e->queries, e->frees);
    if (e->kind == FETCHED)
        CHECK(e->data[0] == 1000 + next(), "fetched %d", e->data[0]);
    if (e->kind == STORED) {
        MUST(MPI_Win_flush(next(), window));
        MUST(MPI_Get(&stored, 1, MPI_INT, next(), 1 + e->tag - TAG, 1, MPI_INT, window));
        MUST(MPI_Win_flush(next(), window));
        CHECK(stored == e->other[0], "stored %d, not %d", stored, e->other[0]);
    }
    for (int i = 0; i < e->count && receives(e); i++)
        CHECK(e->data[i] == value(before(), e, i), "kind %d, %d of %d: %d, not %d", e->kind, i,
              e->count, e->data[i], value(before(), e, i));
    for (int i = 0; i < e->count && e->kind == REDUCED; i++) {
        sum = 0;
        for (int rank = 0; rank < check_nranks; rank++)
            sum += value(rank, e, i);
        CHECK(e->data[i] == sum, "sum %d of %d: %d, not %d", i, e->count, e->data[i], sum);
    }
}

static void do_round(void) {
    MPI_Request requests[MOST], general[MOST];
    MPI_Status statuses[MOST];
    bool was_active[MOST];
    pthread_t thread;
    int ngeneral = 0;
    start_round();
    const int n = put_in_order();
    const enum way way = draw_way(n);
    const bool ignore = draw(&own_draw, 3) == 0;
    for (int i = 0; i < nentries; i++) {
        was_active[i] = entries[i].active;
        if (entries[i].kind == GENERAL)
            general[ngeneral++] = entries[i].request;
    }
    for (int i = 0; i < n; i++)
        requests[i] = order[i]->request;
    memset(statuses, 0, sizeof statuses);
    const bool beside = threads && (mine || !has(is_null, n));
    if (!beside)
        (void)complete_general(general);
    else
        CHECK(pthread_create(&thread, NULL, complete_general, general) == 0, "no thread");
    complete(way, n, requests, ignore ? MPI_STATUSES_IGNORE : statuses);
    if (beside)
        CHECK(pthread_join(thread, NULL) == 0, "no join");
    for (int i = 0; i < nentries; i++)
        if (was_active[i])
            check_data(&entries[i]);
    for (int i = npersistent; i < nentries; i++) {
        free(entries[i].data);
        free(entries[i].other);
    }
}

/* ---- nothing but looks at ours ---- */

static int look_once(enum way way, MPI_Request *request) {
    int flag = 0, index, count = 0;
    if (way == TESTALL)
        MUST(MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE));
    else if (way == TESTANY)
        MUST(MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE));
    else if (way == TESTSOME)
        MUST(MPI_Testsome(1, request, &count, &index, MPI_STATUSES_IGNORE));
    else if (way == LOOK)
        MUST(MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE));
    else
        MUST(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    return flag || count;
}

/* The last rank receives a long message before it takes part in the collective; its sender makes no
 * call meanwhile but looks at the collective. No window is open, which would have the host move. */
static void look_at_ours_only(void) {
    enum { MANY = 400000 };
    static const enum way ways[] = {TEST, TESTANY, TESTSOME, LOOK, TESTALL};
    const int last = check_nranks - 1;
    int *message = calloc(MANY, sizeof(int)), sum;
    MPI_Request collective, sent = MPI_REQUEST_NULL;
    CHECK(message != NULL, "no memory");
    MUST(MPI_Allreduce_init(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &collective));
    for (int i = 0; i < (mine ? 5 : 4); i++) {
        sum = -1;
        if (check_rank == 0 && last > 0)
            MUST(MPI_Isend(message, MANY, MPI_INT, last, TAG, MPI_COMM_WORLD, &sent));
        if (check_rank == last && last > 0)
            MUST(MPI_Recv(message, MANY, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Start(&collective));
        while (!look_once(ways[i], &collective))
            sched_yield();
        if (ways[i] == LOOK)
            MUST(MPI_Wait(&collective, MPI_STATUS_IGNORE));
        CHECK(sum == check_nranks * (check_nranks - 1) / 2, "sum %d", sum);
        MUST(MPI_Wait(&sent, MPI_STATUS_IGNORE));
    }
    MUST(MPI_Request_free(&collective));
    free(message);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        mine |= strcmp(argv[i], "mine") == 0;
        threads |= strcmp(argv[i], "threads") == 0;
    }
    if (threads)
        check_begin_threads(&argc, &argv, "request_arrays");
    else
        check_begin(&argc, &argv, "request_arrays");
    look_at_ours_only();
    all_draw.state = 1u << 20;
    own_draw.state = (uint64_t)(check_rank + 2) << 20;
    memory[0] = 1000 + check_rank;
    MUST(
        MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, window));
    make_persistent();
    for (round_now = 0; round_now < ROUNDS; round_now++)
        do_round();
    for (int i = 0; i < npersistent; i++) {
        MUST(MPI_Request_free(&entries[i].request));
        free(entries[i].data);
        free(entries[i].other);
    }
    MUST(MPI_Win_unlock_all(window));
    MUST(MPI_Win_free(&window));
    return check_end();
}

/* window_operations.c: one-sided operations and synchronisations, as tables (see window_epochs.h).
 *
 * Invariants: everything an epoch sends differs from what the one before has sent, in its first
 * word at least; sums and counters end with the number of epochs, so that a lost operation shows.
 * Threading: as window_epochs.h says.
 */
#include "window_epochs.h"

#include <string.h>

static MPI_Group other_group;

/* ---- operations ---- */

#define HERE (worker->data + i * worker->load.bytes), (int)(worker->load.bytes / 8), MPI_INT64_T
#define THERE worker->peer, place_of(worker, i), (int)(worker->load.bytes / 8), MPI_INT64_T

static MPI_Aint place_of(const struct worker *worker, int i) {
    return worker->at + (MPI_Aint)i * worker->load.bytes;
}

static void put(struct worker *worker, int i) {
    MPI_Put(HERE, THERE, worker->win);
}
static void rput(struct worker *worker, int i) {
    MPI_Rput(HERE, THERE, worker->win, &worker->requests[i]);
}
static void get(struct worker *worker, int i) {
    MPI_Get(HERE, THERE, worker->win);
}
static void rget(struct worker *worker, int i) {
    MPI_Rget(HERE, THERE, worker->win, &worker->requests[i]);
}
static void accumulate(struct worker *worker, int i) {
    MPI_Accumulate(HERE, THERE, MPI_SUM, worker->win);
}
static void raccumulate(struct worker *worker, int i) {
    MPI_Raccumulate(HERE, THERE, MPI_SUM, worker->win, &worker->requests[i]);
}
static void fetch_and_op(struct worker *worker, int i) {
    static const int64_t one = 1;
    MPI_Fetch_and_op(&one, worker->data + 8 * i, MPI_INT64_T, worker->peer, place_of(worker, i),
                     MPI_SUM, worker->win);
}
static void compare_and_swap(struct worker *worker, int i) {
    MPI_Compare_and_swap(&worker->desired, &worker->expected, worker->data + 8 * i, MPI_INT64_T,
                         worker->peer, place_of(worker, i), worker->win);
}

/* ---- what must come out ---- */

static size_t bytes_of(const struct worker *worker) {
    return (size_t)worker->load.count * (size_t)worker->load.bytes;
}

/* Wrong words among those that should all be `value`. */
static long count_others(const struct worker *worker, const char *memory, int64_t value) {
    long nwrong = 0;
    for (size_t i = 0; i < bytes_of(worker); i += 8)
        nwrong += memcmp(memory + i, &value, 8) != 0;
    return nwrong;
}

static long nothing_wrong(const struct worker *worker) {
    (void)worker;
    return 0;
}

/* The number of an epoch, and the pattern behind it. It is the last epoch's where each was complete
 * at the target before the next; else puts may overtake one another. */
static long check_put(const struct worker *worker) {
    int64_t number, first = worker->sync->completes ? worker->nepochs : 1;
    memcpy(&number, worker->there, 8);
    long nwrong = number < first || number > worker->nepochs;
    for (size_t i = 1; i < bytes_of(worker) / 8; i++) {
        uint64_t word = bench_pattern_word(worker->seed, i);
        nwrong += memcmp(worker->there + 8 * i, &word, 8) != 0;
    }
    return nwrong;
}

static long check_got(const struct worker *worker) {
    return bench_pattern_check(worker->data, bytes_of(worker), worker->seed, "got");
}

static long check_sum(const struct worker *worker) {
    return count_others(worker, worker->there, worker->nepochs);
}

static long check_fetched(const struct worker *worker) {
    return count_others(worker, worker->data, worker->nepochs - 1);
}

const struct operation operations[NOPERATIONS] = {
    {"put", false, put, rput, nothing_wrong, check_put},
    {"get", false, get, rget, check_got, nothing_wrong},
    {"accumulate", false, accumulate, raccumulate, nothing_wrong, check_sum},
    {"fetch_and_op", true, fetch_and_op, NULL, check_fetched, check_sum},
    {"compare_and_swap", true, compare_and_swap, NULL, check_fetched, check_sum},
};

static void fill_with_ones(char *data) {
    const int64_t one = 1;
    for (size_t i = 0; i < SLOT_BYTES; i += 8)
        memcpy(data + i, &one, 8);
}

static void prepare_origin(struct worker *worker) {
    if (worker->operation->start == put)
        bench_pattern_fill(worker->data, bytes_of(worker), worker->seed);
    else if (worker->operation->start == accumulate)
        fill_with_ones(worker->data);
    else
        memset(worker->data, 0xff, bytes_of(worker));
}

/* The target's own lock makes what it writes here visible to all, in either memory model. */
static void prepare_target(struct worker *worker) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, worker->win);
    if (worker->operation->start == get)
        bench_pattern_fill(worker->there, bytes_of(worker), worker->seed);
    else
        memset(worker->there, 0, bytes_of(worker));
    MPI_Win_unlock(TARGET, worker->win);
}

void worker_prepare(struct worker *worker) {
    worker->nepochs = 0;
    worker->seed++;
    if (bench.rank == ORIGIN)
        prepare_origin(worker);
    else
        prepare_target(worker);
}

long worker_check(const struct worker *worker) {
    if (bench.rank == ORIGIN)
        return worker->operation->check_origin(worker);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, worker->win);
    bench_corrupt(worker->there);
    long nwrong = worker->operation->check_target(worker);
    MPI_Win_unlock(TARGET, worker->win);
    return nwrong;
}

/* ---- epochs ---- */

static void set_operands(struct worker *worker) {
    worker->expected = worker->nepochs++;
    worker->desired = worker->nepochs;
    if (worker->operation->start == put)
        memcpy(worker->data, &worker->nepochs, 8);
}

static void start_all(struct worker *worker) {
    set_operands(worker);
    for (int i = 0; i < worker->load.count; i++)
        worker->operation->start(worker, i);
}

static void fence_epoch(struct worker *worker) {
    start_all(worker);
    MPI_Win_fence(0, worker->win);
}
static void fence_target(struct worker *worker) {
    MPI_Win_fence(0, worker->win);
}

static void pscw_epoch(struct worker *worker) {
    MPI_Win_start(other_group, 0, worker->win);
    start_all(worker);
    MPI_Win_complete(worker->win);
}
static void pscw_target(struct worker *worker) {
    MPI_Win_post(other_group, 0, worker->win);
    MPI_Win_wait(worker->win);
}

static void lock_epoch(struct worker *worker) {
    MPI_Win_lock(MPI_LOCK_SHARED, worker->peer, 0, worker->win);
    start_all(worker);
    MPI_Win_unlock(worker->peer, worker->win);
}

static void flush_epoch(struct worker *worker) {
    start_all(worker);
    MPI_Win_flush(worker->peer, worker->win);
}

static void flush_local_epoch(struct worker *worker) {
    start_all(worker);
    MPI_Win_flush_local(worker->peer, worker->win);
}

static void request_epoch(struct worker *worker) {
    MPI_Status statuses[MOST_OPERATIONS];
    set_operands(worker);
    for (int i = 0; i < worker->load.count; i++)
        worker->operation->start_request(worker, i);
    if (worker->load.count == 1)
        MPI_Wait(worker->requests, MPI_STATUS_IGNORE);
    else
        MPI_Waitall(worker->load.count, worker->requests, statuses);
}

const struct synchronisation synchronisations[NSYNCHRONISATIONS] = {
    {"fence", true, false, true, fence_epoch, fence_target},
    {"pscw", true, false, true, pscw_epoch, pscw_target},
    {"lock", false, false, true, lock_epoch, NULL},
    {"flush", false, true, true, flush_epoch, NULL},
    {"flush_local", false, true, false, flush_local_epoch, NULL},
    {"request", false, true, false, request_epoch, NULL},
};

void synchronisations_start(void) {
    MPI_Group world;
    int other = bench.rank == ORIGIN ? TARGET : ORIGIN;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &other, &other_group);
    MPI_Group_free(&world);
}

void synchronisations_end(void) {
    MPI_Group_free(&other_group);
}

bool is_possible(const struct synchronisation *sync, const struct operation *operation,
                 const struct load *load) {
    if (operation->words_only && load->bytes != 8)
        return false;
    return sync->epoch != request_epoch || operation->start_request != NULL;
}

void cell_begin(struct worker *worker) {
    if (worker->sync->epoch == fence_epoch)
        MPI_Win_fence(MPI_MODE_NOPRECEDE, worker->win);
    else if (worker->sync->has_all && worker->works)
        MPI_Win_lock_all(0, worker->win);
}

void cell_end(struct worker *worker) {
    if (worker->sync->epoch == fence_epoch)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, worker->win);
    else if (worker->sync->has_all && worker->works)
        MPI_Win_unlock_all(worker->win);
    bench_sync();
}

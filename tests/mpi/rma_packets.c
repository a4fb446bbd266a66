/*
 * rma_packets: how many packets an epoch takes between two nodes, whose data are checked.
 *
 * A fence with one small operation takes two packets of each rank at most: what says that the epoch
 * is over goes with the operation, and whoever hears of it acknowledges both. Post, start, complete
 * and wait take one of the origin, which acknowledges the post by what it sends, and two of the
 * target. An accumulate that is sent in two messages takes one packet, and so does an epoch of
 * MPI_Win_lock with a few small operations. Without the library nothing is counted.
 */
#include "win_kinds.h"
#include <time.h>

enum { BATCH = 2, EPOCHS = 250 * BATCH, LONG = 512, TRIES = 10 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle packets;
static bool counts;

static void begin_counting(void) {
    int provided, index, count;
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    if (MPI_T_pvar_get_index("tugboat_packets", MPI_T_PVAR_CLASS_COUNTER, &index))
        return;
    MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &packets, &count));
    counts = true;
}

static unsigned long long packets_sent(void) {
    unsigned long long value = 0;
    if (counts)
        MUST(MPI_T_pvar_read(session, packets, &value));
    return value;
}

/* Epochs are counted a batch at a time, and the batch with the fewest packets is looked at: in
 * others a rank may have waited for its core, while a thread of the library's acknowledged by
 * itself. */
static struct {
    unsigned epochs;
    unsigned long long before, least;
} batches;

static void begin_epochs(void) {
    batches.epochs = 0;
    batches.before = packets_sent();
    batches.least = -1ULL;
}

static void count_epoch(void) {
    if (++batches.epochs % BATCH != 0)
        return;
    const unsigned long long now = packets_sent();
    if (now - batches.before < batches.least)
        batches.least = now - batches.before;
    batches.before = now;
}

/* Are they so few, on all ranks? */
static bool few_packets(unsigned of_an_epoch) {
    int mine = batches.least <= of_an_epoch * BATCH, all;
    MUST(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    return all || !counts;
}

static int64_t value_at(const struct kind_win *w, int word) {
    return ((const int64_t *)(const void *)w->base)[word];
}

static bool fences(struct kind_win *w, int to) {
    const int64_t one = 1;
    MUST(MPI_Win_fence(0, w->win));
    begin_epochs();
    for (int i = 0; i < EPOCHS; i++) {
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, MPI_SUM, w->win));
        MUST(MPI_Win_fence(0, w->win));
        const int64_t sum = value_at(w, 0);
        CHECK(sum == i + 1 || sum == i + 2, "fence %d: %lld", i, (long long)sum);
        count_epoch();
    }
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    return few_packets(2);
}

/* Rank 0 puts what rank 1 looks at after each epoch. */
static bool exposures(struct kind_win *w, MPI_Group peer, int bytes) {
    int64_t data[LONG];
    begin_epochs();
    for (int64_t i = 0; i < EPOCHS; i++) {
        if (check_rank == 0) {
            for (int k = 0; k < LONG; k++)
                data[k] = i * LONG + k;
            MUST(MPI_Win_start(peer, 0, w->win));
            MUST(MPI_Put(data, bytes, MPI_BYTE, 1, 8, bytes, MPI_BYTE, w->win));
            MUST(MPI_Win_complete(w->win));
        } else {
            MUST(MPI_Win_post(peer, 0, w->win));
            MUST(MPI_Win_wait(w->win));
            for (int k = 0; k < bytes / 8; k++)
                CHECK(value_at(w, 8 + k) == i * LONG + k, "epoch %lld, word %d: %lld", (long long)i,
                      k, (long long)value_at(w, 8 + k));
        }
        count_epoch();
    }
    return few_packets(check_rank == 0 ? 1 : 2);
}

/* One packet each, and the acknowledgement by the other. */
static bool flushes(struct kind_win *w) {
    static int64_t ones[LONG];
    for (int k = 0; k < LONG; k++)
        ones[k] = 1;
    begin_epochs();
    if (check_rank == 0) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, w->win));
        for (int i = 0; i < EPOCHS; i++) {
            MUST(MPI_Accumulate(ones, LONG, MPI_INT64_T, 1, 1024, LONG, MPI_INT64_T, MPI_SUM,
                                w->win));
            MUST(MPI_Win_flush(1, w->win));
            count_epoch();
        }
        MUST(MPI_Win_unlock(1, w->win));
    }
    check_barrier(MPI_COMM_WORLD);
    for (int k = 0; k < LONG && check_rank == 1; k++)
        CHECK(value_at(w, 1024 + k) == EPOCHS, "word %d: %lld", k,
              (long long)value_at(w, 1024 + k));
    if (check_rank == 1)
        batches.least = 0; /* it has counted none */
    return few_packets(1);
}

/* The lock, the operations and the unlock go in one packet, and what they fetch in another. */
static bool locks(struct kind_win *w) {
    const int64_t one = 1;
    begin_epochs();
    for (int64_t i = 0; i < EPOCHS && check_rank == 0; i++) {
        int64_t before = -1, got = -1, value = i + 1;
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w->win));
        MUST(MPI_Put(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, w->win));
        MUST(MPI_Get(&got, 1, MPI_INT64_T, 1, 1, 1, MPI_INT64_T, w->win));
        MUST(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 2, MPI_SUM, w->win));
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, 1, 3, 1, MPI_INT64_T, MPI_SUM, w->win));
        MUST(MPI_Win_unlock(1, w->win));
        CHECK(before == i && got == 0, "epoch %lld: fetched %lld, got %lld", (long long)i,
              (long long)before, (long long)got);
        count_epoch();
    }
    check_barrier(MPI_COMM_WORLD);
    for (int k = 0; k < 4 && check_rank == 1; k++)
        CHECK(value_at(w, k) == (k == 1 ? 0 : EPOCHS), "word %d: %lld", k,
              (long long)value_at(w, k));
    if (check_rank == 1)
        batches.least = 0; /* it has counted none */
    return few_packets(1);
}

enum { FENCES, EXPOSURES, LONG_EXPOSURES, FLUSHES, LOCKS, KINDS };

static bool run(struct kind_win *w, MPI_Group peer, int kind) {
    memset(w->base, 0, w->size);
    check_barrier(MPI_COMM_WORLD);
    return kind == FENCES      ? fences(w, 1 - check_rank)
           : kind == EXPOSURES ? exposures(w, peer, 8)
           : kind == FLUSHES   ? flushes(w)
           : kind == LOCKS     ? locks(w)
                               : exposures(w, peer, 8 * LONG);
}

int main(int argc, char **argv) {
    struct kind_win w;
    MPI_Group all, peer;
    check_begin(&argc, &argv, "rma_packets");
    begin_counting();
    int to = 1 - check_rank;
    CHECK(kind_open(&w, KIND_ALLOCATE, MPI_COMM_WORLD, 16384, 8), "no window");
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &all));
    MUST(MPI_Group_incl(all, 1, &to, &peer));
    for (int kind = 0; kind < KINDS; kind++) {
        int tries = 0;
        while (!run(&w, peer, kind) && ++tries < TRIES)
            nanosleep(&(struct timespec){0, 20000000}, NULL);
        CHECK(tries < TRIES, "kind %d: %llu packets in %d epochs", kind, batches.least, BATCH);
    }
    MUST(MPI_Group_free(&all));
    MUST(MPI_Group_free(&peer));
    kind_close(&w);
    if (counts)
        MUST(MPI_T_pvar_handle_free(session, &packets));
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
    return check_end();
}

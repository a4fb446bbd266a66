/*
 * rma_many: many short puts, and gets, to a synchronisation, which travel together.
 *
 * Each rank has a part of every rank's memory to itself. In a round it puts some hundred times, of
 * mostly the same length to mostly the same target, upwards, downwards and here and there, and
 * sometimes changes one or the other in between. Then it flushes, for itself or by another of its
 * threads, or unlocks, and all ranks look at what has come. Called with "get", it gets back before
 * that what it has put, in the same order, and flushes again, perhaps for itself alone.
 * (Not for the host alone: MPICH 4.0.2 returns from flushes before all gets have come.)
 */
#include <pthread.h>

#include "check.h"
#include "win_kinds.h"

enum { SLOTS = 700, SLOT = 32, LENGTHS = 24, WINDOW_BYTES = SLOTS * SLOT };

enum ending { FLUSH, FLUSH_ALL, FLUSH_LOCAL_FIRST, FLUSH_BY_THREAD, UNLOCK, NENDINGS };

static struct check_rng rng;
static unsigned char sent[SLOTS][SLOT], back[SLOTS][SLOT];
static int order[SLOTS];
static int targets[SLOTS], lengths[SLOTS];

static int below(int n) {
    return (int)(check_draw(&rng) % (unsigned)n);
}

/* Where the i-th of n puts goes: each place once. */
static int place(int way, int i, int n) {
    if (way == 0)
        return i;
    return way == 1 ? n - 1 - i : i * 3 % n;
}

static void put_one(struct kind_win *w, int slot) {
    const size_t offset = (size_t)check_rank * WINDOW_BYTES + (size_t)slot * SLOT;
    MUST(MPI_Put(sent[slot], lengths[slot], MPI_BYTE, targets[slot],
                 kind_disp(w, targets[slot], offset), lengths[slot], MPI_BYTE, w->win));
}

static int put_many(struct kind_win *w, uint64_t round) {
    const int n = 3 * below(SLOTS / 3) + 1; /* no multiple of 3: all places are different */
    const int way = below(3), change_every = below(3) == 0 ? 1 + below(40) : SLOTS;
    int target = below(check_nranks), length = below(2) ? 8 : 1 + below(LENGTHS);
    for (int i = 0; i < n; i++) {
        const int slot = place(way, i, n);
        if (i % change_every == change_every - 1 && below(2))
            target = below(check_nranks);
        else if (i % change_every == change_every - 1)
            length = 1 + below(LENGTHS);
        targets[slot] = target;
        lengths[slot] = length;
        order[i] = slot;
        for (int b = 0; b < length; b++)
            sent[slot][b] = check_byte((uint64_t)check_rank, round, (uint64_t)(slot * SLOT + b));
        put_one(w, slot);
    }
    return n;
}

static void get_one(struct kind_win *w, int slot) {
    const size_t offset = (size_t)check_rank * WINDOW_BYTES + (size_t)slot * SLOT;
    MUST(MPI_Get(back[slot], lengths[slot], MPI_BYTE, targets[slot],
                 kind_disp(w, targets[slot], offset), lengths[slot], MPI_BYTE, w->win));
}

static void *flush_all(void *window) {
    MUST(MPI_Win_flush_all(((struct kind_win *)window)->win));
    return NULL;
}

static void *flush_local_all(void *window) {
    MUST(MPI_Win_flush_local_all(((struct kind_win *)window)->win));
    return NULL;
}

static void by_thread(void *(*flush)(void *), struct kind_win *w) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, flush, w) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void end(struct kind_win *w, enum ending ending) {
    if (ending == FLUSH_LOCAL_FIRST)
        MUST(MPI_Win_flush_local_all(w->win));
    if (ending == FLUSH) {
        for (int r = 0; r < check_nranks; r++)
            MUST(MPI_Win_flush(r, w->win));
    } else if (ending == FLUSH_BY_THREAD) {
        by_thread(flush_all, w);
    } else if (ending == UNLOCK) {
        MUST(MPI_Win_unlock_all(w->win));
        MUST(MPI_Win_lock_all(0, w->win));
    } else {
        MUST(MPI_Win_flush_all(w->win));
    }
}

/* A get needs no more than a local flush. Some have puts in between, of what is there already. */
static void get_back(struct kind_win *w, enum ending ending, int n) {
    const int put_every = below(3) == 0 ? 1 + below(40) : SLOTS;
    memset(back, 0, sizeof back);
    for (int i = 0; i < n; i++) {
        get_one(w, order[i]);
        if (i % put_every == put_every - 1)
            put_one(w, order[i - put_every + 1]);
    }
    if (ending == FLUSH_LOCAL_FIRST)
        MUST(MPI_Win_flush_local_all(w->win));
    else if (ending == FLUSH_BY_THREAD)
        by_thread(flush_local_all, w);
    else
        end(w, ending);
    for (int slot = 0; slot < n; slot++)
        CHECK(memcmp(back[slot], sent[slot], (size_t)lengths[slot]) == 0,
              "what was got back of put %d to rank %d", slot, targets[slot]);
    MUST(MPI_Win_flush_all(w->win));
}

/* What each rank has put here in this round, of those it says it has. */
static void look(struct kind_win *w, uint64_t round, int n) {
    int *all_targets = malloc(sizeof targets * (size_t)check_nranks);
    int *all_lengths = malloc(sizeof lengths * (size_t)check_nranks);
    for (int slot = n; slot < SLOTS; slot++)
        targets[slot] = -1;
    MUST(MPI_Allgather(targets, SLOTS, MPI_INT, all_targets, SLOTS, MPI_INT, MPI_COMM_WORLD));
    MUST(MPI_Allgather(lengths, SLOTS, MPI_INT, all_lengths, SLOTS, MPI_INT, MPI_COMM_WORLD));
    MUST(MPI_Win_sync(w->win));
    for (int r = 0; r < check_nranks; r++)
        for (int slot = 0; slot < SLOTS; slot++) {
            const unsigned char *here =
                (const unsigned char *)w->base + (size_t)r * WINDOW_BYTES + (size_t)slot * SLOT;
            const int i = r * SLOTS + slot;
            for (int b = 0; all_targets[i] == check_rank && b < all_lengths[i]; b++)
                CHECK(here[b] == check_byte((uint64_t)r, round, (uint64_t)(slot * SLOT + b)),
                      "byte %d of put %d from rank %d, round %d", b, slot, r, (int)round);
        }
    free(all_targets);
    free(all_lengths);
    check_barrier(MPI_COMM_WORLD);
}

static void run(struct kind_win *w, int nrounds, bool gets) {
    MUST(MPI_Win_lock_all(0, w->win));
    for (int round = 0; round < nrounds; round++) {
        const int n = put_many(w, (uint64_t)round);
        end(w, (enum ending)(round % NENDINGS));
        if (gets)
            get_back(w, (enum ending)(round % NENDINGS), n);
        look(w, (uint64_t)round, n);
    }
    MUST(MPI_Win_unlock_all(w->win));
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "rma_many");
    rng.state = (uint64_t)check_rank << 32;
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, (size_t)check_nranks * WINDOW_BYTES, 1))
            continue;
        run(&w, check_rounds(60, 15), argc > 1);
        kind_close(&w);
    }
    return check_end();
}

/* ring_sizes.c: how near does a persistent broadcast come to a bare ring between two processes?
 *
 * The ring is the least that carries a message from one process to another through shared memory
 * with several messages on their way: --slots slots of --segment bytes and a cache line each. The
 * line holds the number of the segment that is in the slot, and the data too if there are no more
 * than 56 bytes; the reader says in a line of its own how many segments it has read. No MPI, no
 * bells, nothing but loads, stores and memcpy(). With more than two ranks the others only
 * synchronise.
 *
 * Ring and broadcast take turns of --block-us, message after message without a pause, the same
 * buffers; the root changes the first word before each. A message's time is that of a turn, the
 * longer of both ranks', divided by its messages; the table shows medians over the turns, and how
 * many times as long as the ring's turn before it the broadcast's takes. line_ns is what a cache
 * line takes from one rank to the other, measured meanwhile: on some machines that changes.
 *
 * Threading: main thread only.
 */
#include "bench.h"
#include "persistent.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { MAX_SIZES = 64, LINE = 64, IN_LINE = 56, MOST_SLOTS = 1024, WARM = 64, MOST_TURNS = 10000 };

static const char *size_list = "8,1K,4K,32K,256K,2M,16M";
static double seconds = 0.5, block_us = 2000;
static long segment = 131072, nslots = 8;
static bool streaming;

struct head {
    _Atomic uint64_t number; /* of the segment in the slot, from 1 on */
    unsigned char data[IN_LINE];
};

struct count {
    _Atomic uint64_t read; /* segments */
    unsigned char rest[LINE - sizeof(uint64_t)];
};

struct ring {
    struct count *lines; /* [2] of line_ns() */
    struct count *count;
    struct head *heads;  /* [nslots] */
    unsigned char *data; /* nslots x segment */
    uint64_t position;   /* of this rank */
    uint64_t read;       /* as the writer has seen it last */
};

/* Processors that outnumber cores share them after a while. */
static void relax(unsigned *spins) {
    if (++*spins % 4096 == 0)
        sched_yield();
#ifdef __SSE2__
    _mm_pause();
#endif
}

static void copy(void *to, const void *from, size_t bytes) {
#ifdef __SSE2__
    if (streaming && bytes > IN_LINE && (uintptr_t)to % LINE == 0 && bytes % LINE == 0) {
        for (size_t i = 0; i < bytes; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)((char *)to + i),
                             _mm_loadu_si128((const __m128i *)((const char *)from + i)));
        _mm_sfence();
        return;
    }
#endif
    memcpy(to, from, bytes);
}

static unsigned char *place(struct ring *ring, size_t bytes) {
    const uint64_t slot = ring->position % (uint64_t)nslots;
    return bytes <= IN_LINE ? ring->heads[slot].data : ring->data + slot * (size_t)segment;
}

static void put(struct ring *ring, const unsigned char *from, size_t bytes) {
    unsigned spins = 0;
    while (ring->position - ring->read == (uint64_t)nslots) {
        /* acquire: what was read below is read */
        ring->read = atomic_load_explicit(&ring->count->read, memory_order_acquire);
        if (ring->position - ring->read == (uint64_t)nslots)
            relax(&spins);
    }
    copy(place(ring, bytes), from, bytes);
    struct head *head = &ring->heads[ring->position % (uint64_t)nslots];
    /* release: the data before their number */
    atomic_store_explicit(&head->number, ++ring->position, memory_order_release);
}

static void take(struct ring *ring, unsigned char *to, size_t bytes) {
    unsigned spins = 0;
    const struct head *head = &ring->heads[ring->position % (uint64_t)nslots];
    /* acquire: pairs with the number in put() */
    while (atomic_load_explicit(&head->number, memory_order_acquire) != ring->position + 1)
        relax(&spins);
    memcpy(to, place(ring, bytes), bytes);
    ring->position++;
    /* release: our reads before the count; every few slots, so that the writer keeps its line */
    if (ring->position % (uint64_t)(nslots / 4 > 0 && bytes <= IN_LINE ? nslots / 4 : 1) == 0)
        atomic_store_explicit(&ring->count->read, ring->position, memory_order_release);
}

static void through_ring(struct ring *ring, unsigned char *message, size_t bytes) {
    for (size_t at = 0; at < bytes || at == 0; at += (size_t)segment) {
        const size_t now = bytes - at < (size_t)segment ? bytes - at : (size_t)segment;
        if (bench.rank == 0)
            put(ring, message + at, now);
        else
            take(ring, message + at, now);
    }
}

/* ---- a turn ---- */

struct run {
    struct ring *ring; /* NULL: the broadcast's turn */
    MPI_Request request;
    unsigned char *message;
    size_t bytes;
    uint64_t round;
    long errors;
};

/* Bytes before the part that is the same throughout a turn. */
static size_t first_of(const struct run *run) {
    return run->bytes < sizeof run->round ? run->bytes : sizeof run->round;
}

static void one_message(struct run *run) {
    const uint64_t word = ++run->round;
    const size_t checked = first_of(run);
    if (bench.rank == 0)
        memcpy(run->message, &word, checked);
    if (run->ring != NULL) {
        through_ring(run->ring, run->message, run->bytes);
    } else {
        MPI_Start(&run->request);
        MPI_Wait(&run->request, MPI_STATUS_IGNORE);
    }
    if (!bench.validate)
        return;
    if (bench.rank != 0 && run->bytes > 0)
        bench_corrupt(run->message);
    run->errors += memcmp(run->message, &word, checked) != 0;
}

/* Rank 0 gets the longest time of all ranks that take part, divided by the messages. */
static double turn_us(struct run *run, long nmessages) {
    const bool takes_part = bench.rank < 2 || run->ring == NULL;
    const uint64_t seed = run->round;
    const size_t first = first_of(run);
    if (bench.rank == 0 && bench.validate)
        bench_pattern_fill(run->message + first, run->bytes - first, seed);
    bench_sync();
    const double begin_us = bench_now_us();
    for (long i = 0; i < nmessages && takes_part; i++)
        one_message(run);
    double us = (bench_now_us() - begin_us) / (double)nmessages;
    run->round = seed + (uint64_t)nmessages;
    if (bench.validate && takes_part)
        run->errors += bench_pattern_check(run->message + first, run->bytes - first, seed, "data");
    MPI_Reduce(bench.rank == 0 ? MPI_IN_PLACE : &us, &us, 1, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    return us;
}

/* Nanoseconds from one rank to the other, on rank 0: a line each way, there and back. */
static double line_ns(struct ring *ring) {
    enum { TRIPS = 256 };
    static uint64_t trips;
    struct count *mine = &ring->lines[bench.rank % 2], *theirs = &ring->lines[1 - bench.rank % 2];
    bench_sync();
    const double begin_us = bench_now_us();
    for (int i = 0; i < TRIPS && bench.rank < 2; i++) {
        unsigned spins = 0;
        trips++;
        if (bench.rank == 0) /* only the number itself travels */
            atomic_store_explicit(&mine->read, trips, memory_order_relaxed);
        while (atomic_load_explicit(&theirs->read, memory_order_relaxed) != trips)
            relax(&spins);
        if (bench.rank == 1)
            atomic_store_explicit(&mine->read, trips, memory_order_relaxed);
    }
    return (bench_now_us() - begin_us) * 1e3 / (2 * TRIPS);
}

static long messages_in_turn(struct run *run) {
    long nmessages = 1;
    (void)turn_us(run, WARM);
    double us = turn_us(run, 5);
    if (us < block_us)
        nmessages = (long)(block_us / (us > 0.01 ? us : 0.01)) + 1;
    MPI_Bcast(&nmessages, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return nmessages;
}

static void print_row(struct run *run, double *us[2], double *times, double *lines, int turns) {
    for (int i = 0; i < 2; i++)
        bench_sort(us[i], turns);
    bench_sort(times, turns);
    bench_sort(lines, turns);
    bench_cell((double)run->bytes);
    bench_cell(bench_median(us[0], turns));
    bench_cell(bench_median(us[1], turns));
    bench_cell(bench_median(times, turns));
    bench_cell(bench_median(lines, turns));
    bench_cell(turns);
}

static void measure(struct run *run, struct ring *ring) {
    static double us[2][MOST_TURNS], times[MOST_TURNS], lines[MOST_TURNS];
    long n[2];
    int turns = 0;
    for (int i = 0; i < 2; i++) {
        run->ring = i == 0 ? ring : NULL;
        n[i] = messages_in_turn(run);
    }
    const double begin_us = bench_now_us();
    for (int more = 1; more; turns++) {
        for (int i = 0; i < 2; i++) {
            run->ring = i == 0 ? ring : NULL;
            us[i][turns] = turn_us(run, n[i]);
        }
        times[turns] = us[1][turns] / (us[0][turns] > 0 ? us[0][turns] : 1);
        lines[turns] = line_ns(ring);
        more = turns < 4 || (bench_now_us() - begin_us < seconds * 1e6 && turns + 1 < MOST_TURNS);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    print_row(run, (double *[2]){us[0], us[1]}, times, lines, turns);
}

static long run_size(size_t bytes, struct ring *ring) {
    struct run run = {.bytes = bytes};
    if (posix_memalign((void **)&run.message, 4096, bytes + sizeof(uint64_t)) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(run.message, 1, bytes + sizeof(uint64_t));
    MPI_Bcast_init(run.message, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &run.request);
    measure(&run, ring);
    MPI_Request_free(&run.request);
    free(run.message);
    return run.errors;
}

/* ---- all ---- */

/* On rank 0's part of a shared window, which is filled with zeros. */
static MPI_Win open_ring(struct ring *ring) {
    const size_t heads = (size_t)nslots * sizeof(struct head);
    MPI_Aint bytes =
        bench.rank == 0 ? (MPI_Aint)(heads + (size_t)(nslots * segment)) + 4 * LINE : 0;
    MPI_Win win;
    void *memory;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, (void *)&memory);
    unsigned char *at = (unsigned char *)memory + -(uintptr_t)memory % LINE;
    if (bench.rank == 0)
        memset(memory, 0, (size_t)bytes);
    struct count *counts = (struct count *)at;
    *ring = (struct ring){.count = counts,
                          .lines = counts + 1,
                          .heads = (struct head *)(counts + 3),
                          .data = (unsigned char *)(counts + 3) + heads};
    MPI_Barrier(MPI_COMM_WORLD);
    return win;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes, with K, M, G"},
        {"seconds", BENCH_REAL, &seconds, "time for each size (at least 5 turns of each)"},
        {"block-us", BENCH_REAL, &block_us, "microseconds of a turn"},
        {"segment", BENCH_LONG, &segment, "bytes of a slot of the ring, a multiple of 64"},
        {"slots", BENCH_LONG, &nslots, "of the ring"},
        {"streaming", BENCH_FLAG, &streaming, "the ring is written past the caches"},
    };
    static const struct bench_column columns[] = {
        {"bytes", BENCH_KEY, 0},  {"ring_us", BENCH_INFO, 3}, {"median_us", BENCH_LOWER, 3},
        {"times", BENCH_INFO, 2}, {"line_ns", BENCH_INFO, 0}, {"turns", BENCH_INFO, 0},
    };
    long sizes[MAX_SIZES], errors = 0;
    struct ring ring;
    bench_start(&argc, &argv, MPI_THREAD_SINGLE,
                "How near does a persistent broadcast come to a bare ring between two processes?",
                options, sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    if (nsizes < 1)
        bench_usage_error("--sizes '%s' is not a list of at most %d sizes", size_list, MAX_SIZES);
    if (bench.nranks < 2 || seconds <= 0 || block_us <= 0 || segment < LINE ||
        segment % LINE != 0 || nslots < 1 || nslots > MOST_SLOTS)
        bench_usage_error("2 ranks, --seconds and --block-us > 0, --segment a multiple of %d, "
                          "--slots 1..%d",
                          LINE, MOST_SLOTS);
    bench_header("messages one after another: a bare ring, and MPI_Bcast_init; median over turns");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    MPI_Win win = open_ring(&ring);
    for (int i = 0; i < nsizes; i++)
        errors += run_size((size_t)sizes[i], &ring);
    MPI_Win_free(&win);
    return bench_finish(errors);
}

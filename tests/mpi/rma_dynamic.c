/*
 * rma_dynamic: memory that comes and goes while its window stays.
 *
 * Several regions of a rank, used by puts, gets and atomics, by datatypes that reach over all of
 * them from MPI_BOTTOM, and while other regions are attached and detached under the hands of
 * several threads; places that are attached again, in other pieces, after others have used them;
 * regions of no bytes. In a lane of ours also what the host does not look at: accesses outside of
 * all regions, before and behind one, across a gap, and to what has been detached, change nothing
 * and are errors, at the call or at the synchronisation that follows; and regions do not overlap.
 */
#include <pthread.h>

#include "lane.h"

enum { MAX_RANKS = 16, NREGIONS = 5, WORDS = 96, BIG = 1 << 14 };

static MPI_Win win;
static struct check_rng rng; /* in step on all ranks */

static int right_of(int rank) {
    return (rank + 1) % check_nranks;
}

static int left_of(int rank) {
    return (rank + check_nranks - 1) % check_nranks;
}

static MPI_Aint address_of(const void *place) {
    MPI_Aint address;
    MUST(MPI_Get_address(place, &address));
    return address;
}

/* Everybody's, in rank order. */
static void exchange(const void *place, MPI_Aint addresses[]) {
    MPI_Aint mine = address_of(place);
    MPI_Request request;
    MUST(MPI_Iallgather(&mine, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD, &request));
    for (int done = 0; !done; sched_yield())
        MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
}

static void put_words(const int64_t *from, int n, int rank, MPI_Aint there) {
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    MUST(MPI_Put(from, n, MPI_INT64_T, rank, there, n, MPI_INT64_T, win));
    MUST(MPI_Win_unlock(rank, win));
}

static void see_words(const int64_t *words, int n, int who, uint64_t round, const char *what) {
    for (int i = 0; i < n; i++)
        CHECK(words[i] == (int64_t)check_word((uint64_t)who, round, (uint64_t)i),
              "%s: word %d is %llx", what, i, (unsigned long long)words[i]);
}

static void begin_looking(void) {
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
}

static void end_looking(void) {
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
}

/* ---- several regions ---- */

struct region {
    int64_t *memory;
    int words;
    MPI_Aint addresses[MAX_RANKS];
};

static struct region regions[NREGIONS];

/* One block with gaps between the regions, which nobody may write. */
static int64_t *block;
enum { APART = BIG + 64, BLOCK = NREGIONS * APART };

static void attach_regions(void) {
    CHECK(posix_memalign((void **)&block, 64, BLOCK * 8) == 0, "no memory");
    memset(block, 0x5a, BLOCK * 8);
    for (int i = 0; i < NREGIONS; i++) {
        regions[i].memory = block + i * APART;
        regions[i].words = i == NREGIONS - 1 ? BIG : WORDS + 8 * i;
        memset(regions[i].memory, 0, (size_t)regions[i].words * 8);
        exchange(regions[i].memory, regions[i].addresses);
    }
    for (int i = 0; i < NREGIONS; i++) { /* not in the order of their addresses */
        struct region *region = &regions[(i * 2 + 1) % NREGIONS];
        MUST(MPI_Win_attach(win, region->memory, (MPI_Aint)region->words * 8));
    }
    check_barrier(MPI_COMM_WORLD);
}

static void see_gaps(void) {
    for (int i = 0; i < NREGIONS; i++)
        for (int k = regions[i].words; k < APART; k++)
            CHECK(block[i * APART + k] == 0x5a5a5a5a5a5a5a5a, "a gap has been written, word %d", k);
}

static void detach_regions(void) {
    begin_looking();
    see_gaps();
    end_looking();
    for (int i = 0; i < NREGIONS; i++)
        MUST(MPI_Win_detach(win, regions[i].memory));
    free(block);
}

static void test_put_get(void) {
    static int64_t from[BIG], back[BIG];
    int right = right_of(check_rank), left = left_of(check_rank);
    for (uint64_t round = 1; round <= 20; round++) {
        const struct region *region = &regions[check_draw(&rng) % NREGIONS];
        int at = (int)(check_draw(&rng) % (uint64_t)region->words);
        int n = 1 + (int)(check_draw(&rng) % (uint64_t)(region->words - at));
        MPI_Aint there = MPI_Aint_add(region->addresses[right], at * 8);
        check_fill(from, (size_t)n * 8, (uint64_t)check_rank, round);
        put_words(from, n, right, there);
        memset(back, 0, sizeof(back));
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        MUST(MPI_Get(back, n, MPI_INT64_T, right, there, n, MPI_INT64_T, win));
        MUST(MPI_Win_unlock(right, win));
        see_words(back, n, check_rank, round, "what was put and got");
        begin_looking();
        see_words(region->memory + at, n, left, round, "what the left one put");
        end_looking();
    }
}

/* All ranks add to words of all regions of all ranks. */
static void test_atomics(void) {
    const int64_t one = 1, two = 2;
    int64_t zero = 0, was[2] = {-1, -1};
    for (int i = 0; i < NREGIONS; i++) {
        begin_looking();
        memset(regions[i].memory, 0, (size_t)regions[i].words * 8);
        end_looking();
    }
    MUST(MPI_Win_lock_all(0, win));
    for (int i = 0; i < NREGIONS; i++)
        for (int r = 0; r < check_nranks; r++) {
            MPI_Aint first = regions[i].addresses[r];
            MPI_Aint last = MPI_Aint_add(first, (regions[i].words - 1) * 8);
            MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, r, first, 1, MPI_INT64_T, MPI_SUM, win));
            MUST(MPI_Fetch_and_op(&two, &was[0], MPI_INT64_T, r, last, MPI_SUM, win));
            MUST(MPI_Win_flush(r, win));
            CHECK(was[0] >= 0 && was[0] < 2 * check_nranks && was[0] % 2 == 0, "fetched %lld",
                  (long long)was[0]);
            MUST(MPI_Compare_and_swap(&one, &zero, &was[1], MPI_INT64_T, r, MPI_Aint_add(first, 8),
                                      win));
            MUST(MPI_Win_flush(r, win));
            CHECK(was[1] == 0 || was[1] == 1, "compared with %lld", (long long)was[1]);
        }
    MUST(MPI_Win_unlock_all(win));
    begin_looking();
    for (int i = 0; i < NREGIONS; i++) {
        const int64_t *memory = regions[i].memory;
        CHECK(memory[0] == check_nranks && memory[1] == 1 &&
                  memory[regions[i].words - 1] == 2 * check_nranks,
              "region %d: %lld %lld %lld", i, (long long)memory[0], (long long)memory[1],
              (long long)memory[regions[i].words - 1]);
    }
    end_looking();
}

/* Datatypes whose displacements are addresses: words of all regions in one operation. */
static void test_bottom(void) {
    enum { EACH = 3, ALL = NREGIONS * EACH };
    int right = right_of(check_rank), left = left_of(check_rank);
    MPI_Aint places[NREGIONS];
    int64_t from[ALL], got[ALL] = {0};
    MPI_Datatype type;
    for (int i = 0; i < NREGIONS; i++)
        places[i] = MPI_Aint_add(regions[i].addresses[right], 8 * (2 + i));
    MUST(MPI_Type_create_hindexed_block(NREGIONS, EACH, places, MPI_INT64_T, &type));
    MUST(MPI_Type_commit(&type));
    check_fill(from, sizeof(from), (uint64_t)check_rank, 77);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
    MUST(MPI_Put(from, ALL, MPI_INT64_T, right, 0, 1, type, win));
    MUST(MPI_Win_flush(right, win));
    MUST(MPI_Accumulate(from, ALL, MPI_INT64_T, right, 0, 1, type, MPI_SUM, win));
    MUST(MPI_Win_flush(right, win));
    MUST(MPI_Get(got, ALL, MPI_INT64_T, right, 0, 1, type, win));
    MUST(MPI_Win_unlock(right, win));
    MUST(MPI_Type_free(&type));
    begin_looking();
    for (int k = 0; k < ALL; k++) {
        int64_t its = (int64_t)(2 * check_word((uint64_t)left, 77, (uint64_t)k));
        CHECK(got[k] == (int64_t)(2 * (uint64_t)from[k]), "got %llx", (unsigned long long)got[k]);
        CHECK(regions[k / EACH].memory[2 + k / EACH + k % EACH] == its, "word %d", k);
    }
    end_looking();
}

/* ---- regions that come and go ---- */

/* The same memory, attached in other pieces every time. */
static void test_churn(void) {
    enum { ROOM = 4096 };
    static int64_t room[ROOM] __attribute__((aligned(64))), from[ROOM];
    int right = right_of(check_rank), left = left_of(check_rank);
    int64_t one = 1, was;
    MPI_Aint addresses[MAX_RANKS];
    exchange(room, addresses);
    for (uint64_t round = 1; round <= 40; round++) {
        int npieces = 1 + (int)(check_draw(&rng) % 4), begin = (int)(check_draw(&rng) % 64);
        int length = 1 + (int)(check_draw(&rng) % (ROOM / 4 - 16));
        for (int i = 0; i < npieces; i++) /* neighbours, without a gap */
            MUST(MPI_Win_attach(win, room + begin + i * length, (MPI_Aint)length * 8));
        check_barrier(MPI_COMM_WORLD);
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        for (int i = 0; i < npieces; i++) {
            MPI_Aint there = MPI_Aint_add(addresses[right], (begin + i * length) * 8);
            check_fill(from + i * length, (size_t)length * 8, (uint64_t)check_rank, round + 100);
            MUST(MPI_Put(from + i * length, length, MPI_INT64_T, right, there, length, MPI_INT64_T,
                         win));
            MUST(MPI_Win_flush(right, win));
            MUST(MPI_Fetch_and_op(&one, &was, MPI_INT64_T, right, there, MPI_SUM, win));
            MUST(MPI_Win_flush(right, win));
            CHECK(was == from[i * length], "round %d: fetched %llx", (int)round,
                  (unsigned long long)was);
        }
        MUST(MPI_Win_unlock(right, win));
        begin_looking();
        for (int i = 0; i < npieces; i++) {
            room[begin + i * length]--;
            see_words(room + begin + i * length, length, left, round + 100, "a piece");
        }
        end_looking();
        for (int i = npieces - 1; i >= 0; i--)
            MUST(MPI_Win_detach(win, room + begin + i * length));
    }
}

/* Neighbours are one to an operation; the host takes them for one or not. */
static void test_neighbours(void) {
    static int64_t room[64] __attribute__((aligned(64)));
    int64_t from[64];
    int right = right_of(check_rank), left = left_of(check_rank);
    MPI_Aint addresses[MAX_RANKS];
    exchange(room, addresses);
    MUST(MPI_Win_attach(win, room + 24, 40 * 8));
    MUST(MPI_Win_attach(win, room, 24 * 8));
    check_barrier(MPI_COMM_WORLD);
    check_fill(from, sizeof(from), (uint64_t)check_rank, 7);
    put_words(from, 64, right, addresses[right]);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
    MUST(MPI_Accumulate(from, 64, MPI_INT64_T, right, addresses[right], 64, MPI_INT64_T, MPI_BXOR,
                        win));
    MUST(MPI_Win_unlock(right, win));
    put_words(from + 20, 10, right, MPI_Aint_add(addresses[right], 20 * 8));
    begin_looking();
    for (int i = 0; i < 64; i++) {
        uint64_t want = i >= 20 && i < 30 ? check_word((uint64_t)left, 7, (uint64_t)i) : 0;
        CHECK(room[i] == (int64_t)want, "word %d of the neighbours", i);
    }
    end_looking();
    MUST(MPI_Win_detach(win, room));
    MUST(MPI_Win_detach(win, room + 24));
}

/* ---- threads ---- */

enum { NTHREADS = 3, THREAD_OPS = 400 };

static MPI_Aint counters[MAX_RANKS];

static void *count_up(void *argument) {
    static const int64_t one = 1; /* still read when the thread is gone */
    int right = right_of(check_rank), mine = (int)(intptr_t)argument;
    for (int i = 0; i < THREAD_OPS; i++) {
        MPI_Aint there = MPI_Aint_add(counters[right], 8 * mine);
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, right, there, 1, MPI_INT64_T, MPI_SUM, win));
        if (i % 16 == 0)
            MUST(MPI_Win_flush(right, win));
    }
    return NULL;
}

/* While threads of each rank work on their neighbour's memory, that rank attaches and detaches
 * other memory, of which another thread of the neighbour's uses each piece once. */
static void test_threads(void) {
    enum { PIECES = 60 };
    static int64_t shared[NTHREADS] __attribute__((aligned(64))), other[PIECES];
    const int64_t seven = 7;
    pthread_t threads[NTHREADS];
    MPI_Aint others[MAX_RANKS];
    int right = right_of(check_rank);
    memset(shared, 0, sizeof(shared));
    exchange(shared, counters);
    exchange(other, others);
    MUST(MPI_Win_attach(win, shared, sizeof(shared)));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, win));
    for (int t = 0; t < NTHREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, count_up, (void *)(intptr_t)t) == 0, "no thread");
    for (int i = 0; i < PIECES; i++) {
        MUST(MPI_Win_attach(win, &other[i], 8));
        check_barrier(MPI_COMM_WORLD);
        MUST(MPI_Put(&seven, 1, MPI_INT64_T, right, MPI_Aint_add(others[right], 8 * i), 1,
                     MPI_INT64_T, win));
        MUST(MPI_Win_flush(right, win));
        check_barrier(MPI_COMM_WORLD);
        if (i % 3 > 0)
            MUST(MPI_Win_detach(win, &other[i]));
    }
    for (int t = 0; t < NTHREADS; t++)
        CHECK(pthread_join(threads[t], NULL) == 0, "no end of a thread");
    MUST(MPI_Win_unlock_all(win));
    begin_looking();
    for (int t = 0; t < NTHREADS; t++)
        CHECK(shared[t] == THREAD_OPS, "thread %d counted %lld", t, (long long)shared[t]);
    for (int i = 0; i < PIECES; i++)
        CHECK(other[i] == 7, "piece %d is %lld", i, (long long)other[i]);
    end_looking();
    for (int i = 0; i < PIECES; i += 3)
        MUST(MPI_Win_detach(win, &other[i]));
    MUST(MPI_Win_detach(win, shared));
}

/* ---- mistakes: in a lane of ours ---- */

enum { BEFORE = 32, INSIDE = 64, ALL_WORDS = 2 * BEFORE + INSIDE };

static int64_t guarded[ALL_WORDS] __attribute__((aligned(64)));

static int class_of(int code) {
    int class;
    MUST(MPI_Error_class(code, &class));
    return class;
}

/* The operation's class, or that of the flush that follows. */
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        int code = class_of(call), later = class_of(MPI_Win_flush(right, win));                    \
        code = code == MPI_SUCCESS ? later : code;                                                 \
        CHECK(code == MPI_ERR_RMA_RANGE, "%s: class %d", #call, code);                             \
    } while (0)

static void refuse_all(int right, MPI_Aint place, int n) {
    int64_t from[ALL_WORDS], back[ALL_WORDS];
    MPI_Request request;
    memset(from, 0x33, sizeof(from));
    memset(back, 0x44, sizeof(back));
    REFUSED(MPI_Put(from, n, MPI_INT64_T, right, place, n, MPI_INT64_T, win));
    REFUSED(MPI_Get(back, n, MPI_INT64_T, right, place, n, MPI_INT64_T, win));
    REFUSED(MPI_Accumulate(from, n, MPI_INT64_T, right, place, n, MPI_INT64_T, MPI_SUM, win));
    REFUSED(MPI_Get_accumulate(from, n, MPI_INT64_T, back, n, MPI_INT64_T, right, place, n,
                               MPI_INT64_T, MPI_REPLACE, win));
    if (n == 1) {
        REFUSED(MPI_Fetch_and_op(from, back, MPI_INT64_T, right, place, MPI_SUM, win));
        REFUSED(MPI_Compare_and_swap(from, from, back, MPI_INT64_T, right, place, win));
        REFUSED(MPI_Rput(from, n, MPI_INT64_T, right, place, n, MPI_INT64_T, win, &request));
        REFUSED(MPI_Accumulate(from, 8, MPI_BYTE, right, place, 8, MPI_BYTE, MPI_REPLACE, win));
    }
}

static void test_outside(void) {
    int right = right_of(check_rank);
    MPI_Aint there[MAX_RANKS];
    int64_t from[4] = {1, 2, 3, 4};
    memset(guarded, 0x11, sizeof(guarded));
    exchange(guarded, there);
    MPI_Aint begin = MPI_Aint_add(there[right], BEFORE * 8), end = begin + INSIDE * 8;
    MUST(MPI_Win_attach(win, guarded + BEFORE, INSIDE * 8));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MUST(MPI_Win_lock_all(0, win));
    for (int used = 0; used < 2; used++) { /* the region is new to the origin, or known */
        refuse_all(right, begin - 8, 1);
        refuse_all(right, begin - 4, 1);
        refuse_all(right, end, 1);
        refuse_all(right, end - 4, 1);
        refuse_all(right, 0, 1);
        refuse_all(right, (MPI_Aint)1 << 60, 1);
        refuse_all(right, there[right], BEFORE);
        MUST(MPI_Put(from, 1, MPI_INT64_T, right, begin, 1, MPI_INT64_T, win));
        MUST(MPI_Put(from, 1, MPI_INT64_T, right, end - 8, 1, MPI_INT64_T, win));
        MUST(MPI_Win_flush(right, win));
    }
    MUST(MPI_Win_unlock_all(win));
    begin_looking();
    for (int i = 0; i < ALL_WORDS; i++)
        CHECK(guarded[i] == (i == BEFORE || i == BEFORE + INSIDE - 1 ? 1 : 0x1111111111111111),
              "word %d is %llx", i, (unsigned long long)guarded[i]);
    end_looking();

    MUST(MPI_Win_detach(win, guarded + BEFORE));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, win));
    refuse_all(right, begin, 1);
    refuse_all(right, begin, INSIDE);
    MUST(MPI_Win_unlock_all(win));
    begin_looking();
    CHECK(guarded[BEFORE] == 1 && guarded[BEFORE + 1] == 0x1111111111111111,
          "what was detached has been written");
    end_looking();
}

#define CLASS_IS(want, call)                                                                       \
    do {                                                                                           \
        int class = class_of(call);                                                                \
        CHECK(class == (want), "%s: class %d, not %s", #call, class, #want);                       \
    } while (0)

static void test_attaching(void) {
    char *room = (char *)guarded;
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MUST(MPI_Win_attach(win, room + 64, 64));
    MUST(MPI_Win_attach(win, room + 192, 64));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room + 64, 64));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room + 127, 2));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room, 65));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room, 512));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room + 80, 8));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room + 80, 140));
    MUST(MPI_Win_attach(win, room, 64));
    MUST(MPI_Win_attach(win, room + 128, 64));
    CLASS_IS(MPI_ERR_BASE, MPI_Win_detach(win, room + 8));
    CLASS_IS(MPI_ERR_BASE, MPI_Win_detach(win, room + 300));
    MUST(MPI_Win_detach(win, room + 64));
    CLASS_IS(MPI_ERR_BASE, MPI_Win_detach(win, room + 64));
    CLASS_IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, room + 64, 65));
    MUST(MPI_Win_attach(win, room + 64, 64));
    for (int i = 0; i < 4; i++)
        MUST(MPI_Win_detach(win, room + 64 * i));
}

/* They hold nothing, and are in nobody's way. */
static void test_empty(void) {
    static int64_t memory[8] __attribute__((aligned(64)));
    const int64_t nine = 9;
    MPI_Aint addresses[MAX_RANKS];
    int right = right_of(check_rank);
    exchange(memory, addresses);
    MUST(MPI_Win_attach(win, memory + 4, 0));
    MUST(MPI_Win_attach(win, memory, sizeof(memory)));
    check_barrier(MPI_COMM_WORLD);
    put_words(&nine, 1, right, MPI_Aint_add(addresses[right], 5 * 8));
    put_words(&nine, 0, right, addresses[right]);
    begin_looking();
    CHECK(memory[5] == 9 && memory[4] == 0, "around an empty region: %lld", (long long)memory[5]);
    end_looking();
    MUST(MPI_Win_detach(win, memory + 4));
    MUST(MPI_Win_detach(win, memory));
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "rma_dynamic");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    attach_regions();
    test_put_get();
    test_atomics();
    test_bottom();
    detach_regions();
    test_churn();
    test_empty();
    test_threads();
    if (lane_is_ours(win)) {
        test_neighbours();
        test_outside();
        test_attaching();
        MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
    }
    attach_regions(); /* and leave them: freeing the window detaches */
    test_put_get();
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_free(&win));
    see_gaps();
    free(block);
    return check_end();
}

/*
 * rma_large: blocks of every size, from what fits into a call to what travels by itself.
 *
 * For every flavour of window: puts and gets around each size at which a transport may change its
 * way; the origin's buffer is overwritten when a local flush has returned, and a get's looked at.
 * Accumulates of hundreds of KiB: several types, counts that fill no packet evenly, derived
 * datatypes on either side, mixed with small ones on the same words, in order; and all ranks onto
 * the same words at once; and what a lock hands over with them. Afterwards each rank compares what
 * should and should not have changed.
 */
#include "lane.h"
#include "win_kinds.h"

enum { BYTES = (1 << 20) + 4096, MAX_RANKS = 16, NSUM = 30011, NDOUBLE = 12345, NPIECES = 4001 };

static struct kind_win w;
static int right, left;
static unsigned char *buffer, *other;

static MPI_Aint there(size_t offset) {
    return kind_disp(&w, right, offset);
}

static void begin_looking(void) {
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, w.win));
}

static void end_looking(void) {
    MUST(MPI_Win_unlock(check_rank, w.win));
    check_barrier(MPI_COMM_WORLD);
}

/* ---- puts and gets ---- */

static const size_t sizes[] = {1,    24,   25,    2048,  2049,  4080,    4095,   4096,   7999,
                               8001, 8192, 65535, 65536, 65537, 1 << 18, 300007, 1 << 20};
enum { NSIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void test_local_flush(void) {
    for (int i = 0; i < NSIZES; i++) {
        uint64_t round = (uint64_t)(100 * (int)w.kind + i);
        size_t n = sizes[i], shift = (size_t)i * 16;
        check_fill(buffer, n, (uint64_t)check_rank, round);
        MUST(MPI_Win_lock_all(0, w.win));
        MUST(MPI_Put(buffer, (int)n, MPI_BYTE, right, there(shift), (int)n, MPI_BYTE, w.win));
        if (i % 2)
            MUST(MPI_Win_flush_local(right, w.win));
        else
            MUST(MPI_Win_flush_local_all(w.win));
        memset(buffer, 0xee, n);
        MUST(MPI_Win_flush(right, w.win));
        memset(other, 0x77, n);
        MUST(MPI_Get(other, (int)n, MPI_BYTE, right, there(shift), (int)n, MPI_BYTE, w.win));
        if (i % 2)
            MUST(MPI_Win_flush_local_all(w.win));
        else
            MUST(MPI_Win_flush_local(right, w.win));
        check_same(other, n, (uint64_t)check_rank, round, __FILE__, __LINE__);
        MUST(MPI_Win_unlock_all(w.win));
        begin_looking();
        check_same((unsigned char *)w.base + shift, n, (uint64_t)left, round, __FILE__, __LINE__);
        end_looking();
    }
}

/* ---- accumulates ---- */

/* One rank's words onto its neighbour's: large, small ones onto two of them, large again. The
 * order counts: the last word is replaced between two additions. */
static void test_order(void) {
    int64_t *add = (int64_t *)(void *)buffer, three = 3, hundred = 100;
    for (int i = 0; i < NSUM; i++)
        add[i] = i + check_rank;
    MPI_Aint last = there((NSUM - 1) * 8);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w.win));
    MUST(MPI_Accumulate(add, NSUM, MPI_INT64_T, right, there(0), NSUM, MPI_INT64_T, MPI_REPLACE,
                        w.win));
    MUST(MPI_Accumulate(&three, 1, MPI_INT64_T, right, there(0), 1, MPI_INT64_T, MPI_PROD, w.win));
    MUST(MPI_Accumulate(&hundred, 1, MPI_INT64_T, right, last, 1, MPI_INT64_T, MPI_REPLACE, w.win));
    MUST(
        MPI_Accumulate(add, NSUM, MPI_INT64_T, right, there(0), NSUM, MPI_INT64_T, MPI_SUM, w.win));
    MUST(MPI_Win_flush_local(right, w.win));
    memset(buffer, 0xee, NSUM * 8);
    MUST(MPI_Win_unlock(right, w.win));
    begin_looking();
    const int64_t *words = (const int64_t *)(const void *)w.base;
    for (int i = 0; i < NSUM; i++) {
        int64_t its = i + left, want = i == 0 ? 4 * its : i == NSUM - 1 ? 100 + its : 2 * its;
        CHECK(words[i] == want, "word %d is %lld, not %lld", i, (long long)words[i],
              (long long)want);
    }
    end_looking();
}

/* Doubles that begin 8 bytes behind a page, fetched at the same time. */
static void test_fetched(void) {
    double *add = (double *)(void *)buffer, *was = (double *)(void *)other;
    begin_looking();
    double *words = (double *)(void *)(w.base + 4104);
    for (int i = 0; i < NDOUBLE; i++)
        words[i] = i;
    end_looking();
    for (int i = 0; i < NDOUBLE; i++)
        add[i] = 0.5;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win));
    MUST(MPI_Get_accumulate(add, NDOUBLE, MPI_DOUBLE, was, NDOUBLE, MPI_DOUBLE, right, there(4104),
                            NDOUBLE, MPI_DOUBLE, MPI_SUM, w.win));
    MUST(MPI_Win_flush_local(right, w.win));
    for (int i = 0; i < NDOUBLE; i++)
        CHECK(was[i] == i, "fetched %g at %d", was[i], i);
    MUST(MPI_Win_unlock(right, w.win));
    begin_looking();
    for (int i = 0; i < NDOUBLE; i++)
        CHECK(words[i] == i + 0.5, "double %d is %g", i, words[i]);
    end_looking();
}

/* Every third pair of shorts at the target, every second one of the origin's, and back. */
static void test_derived(void) {
    int16_t *from = (int16_t *)(void *)buffer, *back = (int16_t *)(void *)other;
    MPI_Datatype thirds, seconds;
    MUST(MPI_Type_vector(NPIECES, 2, 6, MPI_INT16_T, &thirds));
    MUST(MPI_Type_vector(NPIECES, 2, 4, MPI_INT16_T, &seconds));
    MUST(MPI_Type_commit(&thirds));
    MUST(MPI_Type_commit(&seconds));
    begin_looking();
    int16_t *words = (int16_t *)(void *)w.base;
    for (int i = 0; i < 6 * NPIECES; i++)
        words[i] = (int16_t)(i % 1000);
    end_looking();
    for (int i = 0; i < 4 * NPIECES; i++)
        from[i] = (int16_t)(i % 4 < 2 ? i / 4 * 2 + i % 4 : -1);
    memset(back, 0, 4 * NPIECES * 2);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win));
    MUST(MPI_Accumulate(from, 1, seconds, right, there(0), 1, thirds, MPI_SUM, w.win));
    MUST(MPI_Accumulate(from, 1, seconds, right, there(0), 1, thirds, MPI_SUM, w.win));
    MUST(MPI_Type_free(&thirds));
    MUST(MPI_Type_vector(NPIECES, 2, 6, MPI_INT16_T, &thirds));
    MUST(MPI_Type_commit(&thirds));
    MUST(MPI_Get_accumulate(NULL, 0, MPI_INT16_T, back, 1, seconds, right, there(0), 1, thirds,
                            MPI_NO_OP, w.win));
    MUST(MPI_Win_unlock(right, w.win));
    MUST(MPI_Type_free(&thirds));
    MUST(MPI_Type_free(&seconds));
    begin_looking();
    for (int i = 0; i < 6 * NPIECES; i++) {
        int k = i % 6 < 2 ? i / 6 * 2 + i % 6 : 0;
        CHECK(words[i] == (int16_t)(i % 1000 + 2 * k), "short %d is %d", i, words[i]);
    }
    for (int i = 0; i < 4 * NPIECES; i++) {
        int k = i / 4 * 6 + i % 4, want = i % 4 < 2 ? k % 1000 + 2 * (i / 4 * 2 + i % 4) : 0;
        CHECK(back[i] == (int16_t)want, "short %d came back as %d", i, back[i]);
    }
    end_looking();
}

/* Nobody's addition is lost. */
static void test_all_at_once(void) {
    int32_t *add = (int32_t *)(void *)buffer;
    begin_looking();
    memset(w.base, 0, BYTES);
    end_looking();
    for (int i = 0; i < NSUM; i++)
        add[i] = i;
    MUST(MPI_Win_lock_all(0, w.win));
    for (int r = 0; r < check_nranks; r++)
        MUST(MPI_Accumulate(add, NSUM, MPI_INT32_T, r, kind_disp(&w, r, 16), NSUM, MPI_INT32_T,
                            MPI_SUM, w.win));
    MUST(MPI_Win_unlock_all(w.win));
    begin_looking();
    const int32_t *words = (const int32_t *)(const void *)(w.base + 16);
    for (int i = 0; i < NSUM; i++)
        CHECK(words[i] == i * check_nranks, "word %d is %d", i, words[i]);
    for (int i = 16 + 4 * NSUM; i < BYTES; i++)
        CHECK(w.base[i] == 0, "byte %d behind them is %d", i, w.base[i]);
    end_looking();
}

/* Who gets the lock sees all of what was put under it before: a block is of one piece. */
static void test_handed_over(void) {
    begin_looking();
    memset(w.base, 0, BYTES);
    end_looking();
    for (int round = 1; round <= 8; round++) {
        memset(buffer, round, BYTES);
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w.win));
        MUST(MPI_Put(buffer, BYTES, MPI_BYTE, right, there(0), BYTES, MPI_BYTE, w.win));
        MUST(MPI_Win_unlock(right, w.win));
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, w.win));
        for (int i = 1; i < BYTES; i++)
            CHECK(w.base[i] == w.base[0], "byte %d is %d, the first is %d", i, w.base[i],
                  w.base[0]);
        MUST(MPI_Win_unlock(check_rank, w.win));
    }
    check_barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_large");
    right = (check_rank + 1) % check_nranks;
    left = (check_rank + check_nranks - 1) % check_nranks;
    buffer = malloc(BYTES);
    other = malloc(BYTES);
    CHECK(buffer != NULL && other != NULL, "no memory");
    for (int kind = 0; kind < NKINDS; kind++) {
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, BYTES, 1))
            continue;
        test_local_flush();
        test_order();
        test_fetched();
        test_derived();
        test_all_at_once();
        test_handed_over();
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    free(buffer);
    free(other);
    return check_end();
}

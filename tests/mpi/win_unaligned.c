/*
 * win_unaligned: windows over memory that is aligned to nothing.
 *
 * MPI_Win_create at each of the 16 offsets from an aligned address with several sizes and
 * displacement units, and MPI_Win_allocate with odd sizes. Put, get, accumulate and fetch_and_op
 * have to land exactly there, and base, size and unit have to read back as they were given.
 * MPICH 4.0.2 over UCX 1.13 gets most of these wrong by itself (put right in MPICH 4.1), so the
 * run on the host alone is registered as one that may go either way.
 * Guard bytes on both sides of every window have to stay as they are.
 */
#include "check.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

static void see_attributes(MPI_Win win, const void *base, MPI_Aint size, int unit) {
    void *got_base;
    MPI_Aint *got_size;
    int *got_unit, found[3];
    MUST(MPI_Win_get_attr(win, MPI_WIN_BASE, &got_base, &found[0]));
    MUST(MPI_Win_get_attr(win, MPI_WIN_SIZE, &got_size, &found[1]));
    MUST(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &got_unit, &found[2]));
    CHECK(found[0] && found[1] && found[2], "an attribute is missing");
    CHECK(got_base == base, "MPI_WIN_BASE is %p, not %p", got_base, base);
    CHECK(*got_size == size, "MPI_WIN_SIZE is %ld, not %ld", (long)*got_size, (long)size);
    CHECK(*got_unit == unit, "MPI_WIN_DISP_UNIT is %d, not %d", *got_unit, unit);
}

/* Each rank fills the right neighbour's first `span` bytes, byte by byte checked over there. */
static void put_and_get(MPI_Win win, const char *base, int span, int unit, uint64_t round) {
    int right = (check_rank + 1) % check_nranks;
    int left = (check_rank + check_nranks - 1) % check_nranks;
    char out[512], in[512];
    check_fill(out, (size_t)span, (uint64_t)check_rank, round);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
    if (span >= 2 * unit) {
        MUST(MPI_Put(out, unit, MPI_BYTE, right, 0, unit, MPI_BYTE, win));
        MUST(MPI_Put(out + unit, span - unit, MPI_BYTE, right, 1, span - unit, MPI_BYTE, win));
    } else {
        MUST(MPI_Put(out, span, MPI_BYTE, right, 0, span, MPI_BYTE, win));
    }
    MUST(MPI_Win_unlock(right, win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    check_same(base, (size_t)span, (uint64_t)left, round, "put", __LINE__);
    MUST(MPI_Win_unlock(check_rank, win));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
    memset(in, 0, sizeof in);
    MUST(MPI_Get(in, span, MPI_BYTE, right, 0, span, MPI_BYTE, win));
    MUST(MPI_Win_unlock(right, win));
    check_same(in, (size_t)span, (uint64_t)check_rank, round, "get", __LINE__);
    check_barrier(MPI_COMM_WORLD);
}

/* The numbers of an accumulate are aligned to nothing either. */
static void accumulate(MPI_Win win, char *base, int span) {
    int n = span / 4 > 8 ? 8 : span / 4;
    int32_t add[8], was[8], got;
    if (n == 0)
        return;
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    memset(base, 0, (size_t)span);
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 8; i++)
        add[i] = 3 * i + 1;
    for (int target = 0; target < check_nranks; target++) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
        MUST(MPI_Accumulate(add, n, MPI_INT32_T, target, 0, n, MPI_INT32_T, MPI_SUM, win));
        MUST(MPI_Get_accumulate(add, n, MPI_INT32_T, was, n, MPI_INT32_T, target, 0, n, MPI_INT32_T,
                                MPI_SUM, win));
        MUST(MPI_Fetch_and_op(add, was, MPI_INT32_T, target, 0, MPI_SUM, win));
        MUST(MPI_Win_unlock(target, win));
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    for (int i = 0; i < n; i++) {
        int32_t expect = (i == 0 ? 3 : 2) * check_nranks * add[i];
        memcpy(&got, base + 4 * i, 4);
        CHECK(got == expect, "accumulate: [%d] is %d, not %d", i, got, expect);
    }
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
}

static void see_guards(const char *memory, size_t before, size_t size) {
    for (size_t i = 0; i < before + GUARD; i++) {
        size_t at = i < before ? i : size + i;
        CHECK((uint8_t)memory[at] == GUARD_BYTE, "byte %ld beside the window was written",
              (long)at - (long)before);
    }
}

static void test_create(size_t offset, int size, int unit) {
    void *memory;
    MPI_Win win;
    size_t before = GUARD + offset;
    CHECK(posix_memalign(&memory, 64, before + (size_t)size + GUARD) == 0, "no memory");
    memset(memory, GUARD_BYTE, before + (size_t)size + GUARD);
    char *base = (char *)memory + before;
    MUST(MPI_Win_create(base, size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    see_attributes(win, base, size, unit);
    put_and_get(win, base, size, unit, offset * 8 + (uint64_t)unit);
    if (offset % 4 == 0)
        accumulate(win, base, size);
    see_guards(memory, before, (size_t)size);
    MUST(MPI_Win_free(&win));
    free(memory);
}

static void test_allocate(int size, int unit) {
    MPI_Win win;
    char *base;
    /* A rank's size need not be its neighbour's. */
    int mine = size + check_rank % 2;
    MUST(MPI_Win_allocate(mine, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0, (size_t)mine);
    check_barrier(MPI_COMM_WORLD);
    see_attributes(win, base, mine, unit);
    put_and_get(win, base, size, unit, 1000 + (uint64_t)size);
    accumulate(win, base, size);
    MUST(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    static const int units[] = {1, 4, 8}, sizes[] = {1, 7, 16, 61, 200, 509};
    check_begin(&argc, &argv, "win_unaligned");
    int step = check_rounds(1, 5);
    for (int offset = 0; offset < 16; offset += step)
        for (int u = 0; u < 3; u++)
            test_create((size_t)offset, sizes[(offset + u) % 6], units[u]);
    for (int i = 0; i < 6; i += step)
        test_allocate(sizes[i], units[i % 3]);
    return check_end();
}

/*
 * lanes: is a window in the lane it should be in, and can the program tell by nothing else?
 *
 * Attributes, group, name, info and the answers of MPI_Win_shared_query are the same in every lane
 * and on the host alone. What lies beyond a target's memory is out of reach in the direct lane; the
 * host alone does not look.
 * Argument: the lane of an allocated window here: direct, native, or none (no tug, or not for
 * windows).
 */
#include "lane.h"

enum { SIZE = 192, UNIT = 8 };

static const char *here;

static void expect_lane(MPI_Win win, const char *want, const char *what) {
    char lane[LANE_MOST];
    lane_of(win, lane);
    if (strcmp(here, "none") == 0)
        want = "none";
    CHECK(strcmp(lane, want) == 0, "%s: lane %s, not %s", what, lane, want);
}

static void expect_class(int code, int want, const char *what) {
    int class;
    MUST(MPI_Error_class(code, &class));
    CHECK(class == want, "%s: class %d, not %d", what, class, want);
}

/* ---- what does not depend on the lane ---- */

static void check_attributes(MPI_Win win, const void *base, MPI_Aint size, int unit, int flavor,
                             const char *what) {
    void *at;
    MPI_Aint *size_at;
    int *value, flag, tag = 4711, keyval, *mine;
    MUST(MPI_Win_get_attr(win, MPI_WIN_BASE, &at, &flag));
    CHECK(flag && (at == base || size == 0), "%s: base %p, not %p", what, at, base);
    MUST(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size_at, &flag));
    CHECK(flag && *size_at == size, "%s: size %ld, not %ld", what, (long)*size_at, (long)size);
    MUST(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
    CHECK(flag && *value == unit, "%s: unit %d, not %d", what, *value, unit);
    MUST(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    CHECK(flag && *value == flavor, "%s: flavour %d, not %d", what, *value, flavor);
    MUST(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
    CHECK(flag && *value == MPI_WIN_UNIFIED, "%s: model %d", what, *value);
    MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &keyval, NULL));
    MUST(MPI_Win_set_attr(win, keyval, &tag));
    MUST(MPI_Win_get_attr(win, keyval, &mine, &flag));
    CHECK(flag && mine == &tag, "%s: the program's attribute", what);
    MUST(MPI_Win_delete_attr(win, keyval));
    MUST(MPI_Win_free_keyval(&keyval));
}

static void check_group_and_name(MPI_Win win, MPI_Comm comm, const char *what) {
    MPI_Group group, want;
    int same, length;
    char name[MPI_MAX_OBJECT_NAME];
    MUST(MPI_Win_get_group(win, &group));
    MUST(MPI_Comm_group(comm, &want));
    MUST(MPI_Group_compare(group, want, &same));
    CHECK(same == MPI_IDENT, "%s: another group", what);
    MUST(MPI_Group_free(&group));
    MUST(MPI_Group_free(&want));
    MUST(MPI_Win_get_name(win, name, &length));
    CHECK(length == 0 && name[0] == 0, "%s: a new window is called '%s'", what, name);
    MUST(MPI_Win_set_name(win, what));
    MUST(MPI_Win_get_name(win, name, &length));
    CHECK(strcmp(name, what) == 0, "%s is called '%s'", what, name);
}

/* What the program said at creation, and what it says later. */
static void check_info(MPI_Win win, const char *what) {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag;
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get(info, "same_disp_unit", MPI_MAX_INFO_VAL, value, &flag));
    CHECK(flag && strcmp(value, "true") == 0, "%s: same_disp_unit is '%s'", what,
          flag ? value : "");
    MUST(MPI_Info_free(&info));
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "accumulate_ordering", "none"));
    MUST(MPI_Win_set_info(win, info));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get(info, "accumulate_ordering", MPI_MAX_INFO_VAL, value, &flag));
    CHECK(flag && strcmp(value, "none") == 0, "%s: accumulate_ordering is '%s'", what,
          flag ? value : "");
    MUST(MPI_Info_free(&info));
}

static bool is_mpi_4_1(void) {
    int version, subversion;
    MUST(MPI_Get_version(&version, &subversion));
    return version > 4 || (version == 4 && subversion >= 1);
}

static int window_rank(MPI_Win win) {
    MPI_Group group;
    int rank;
    MUST(MPI_Win_get_group(win, &group));
    MUST(MPI_Group_rank(group, &rank));
    MUST(MPI_Group_free(&group));
    return rank;
}

static void check_query(MPI_Win win, bool shared, const char *what) {
    MPI_Aint size;
    int unit;
    char *base;
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    int code = MPI_Win_shared_query(win, check_nranks - 1, &size, &unit, &base);
    /* MPI 4.1 answers for other windows, too, with the memory or with nothing */
    const bool answers = !shared && code == MPI_SUCCESS && is_mpi_4_1();
    expect_class(code, shared || answers ? MPI_SUCCESS : MPI_ERR_RMA_FLAVOR, what);
    CHECK(!answers || (size == SIZE && unit == UNIT) || size == 0, "%s: size %ld, unit %d", what,
          (long)size, unit);
    CHECK(!shared || (size == SIZE && unit == UNIT), "%s: size %ld, unit %d", what, (long)size,
          unit);
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
}

/* Asked for nobody, MPI answers with the first rank that has memory, or with nothing where that is
 * out of reach. */
static void check_query_of_first(MPI_Win win, bool shared, int64_t *mine, const char *what) {
    MPI_Aint size = 0;
    int unit;
    int64_t *first = NULL;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, window_rank(win), 0, win));
    *mine = window_rank(win);
    MUST(MPI_Win_unlock(window_rank(win), win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    const int code = MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first);
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
    CHECK(code == MPI_SUCCESS || !shared, "%s: nobody's memory is refused", what);
    if (code == MPI_SUCCESS && (shared || size != 0)) {
        CHECK(size == SIZE && unit == UNIT && first != NULL, "%s: of nobody: size %ld, unit %d",
              what, (long)size, unit);
        CHECK(*first == 0, "%s: of nobody: the memory of rank %ld", what, (long)*first);
    }
    check_barrier(MPI_COMM_WORLD);
}

/* ---- beyond the memory of a target ---- */

static int handled;

static void on_error(MPI_Win *win, int *code, ...) {
    (void)win;
    handled++;
    expect_class(*code, MPI_ERR_RMA_RANGE, "in the handler");
}

#define BEYOND(call)                                                                               \
    do {                                                                                           \
        handled = 0;                                                                               \
        MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));                                      \
        expect_class(call, MPI_ERR_RMA_RANGE, #call);                                              \
        MUST(MPI_Win_set_errhandler(win, handler));                                                \
        expect_class(call, MPI_ERR_RMA_RANGE, #call);                                              \
        CHECK(handled == 1, "%s: the handler was called %d times", #call, handled);                \
    } while (0)

#define L MPI_INT64_T

static void check_range(MPI_Win win, char *base, int target) {
    static int64_t from[4] = {-1, -1, -1, -1}, to[4];
    const MPI_Aint end = SIZE / UNIT, far = (MPI_Aint)1 << 61;
    MPI_Errhandler handler;
    MPI_Datatype before, spread;
    MPI_Request request;
    MUST(MPI_Win_create_errhandler(on_error, &handler));
    MUST(MPI_Type_create_indexed_block(2, 1, (int[]){-1, 1}, L, &before));
    MUST(MPI_Type_commit(&before));
    MUST(MPI_Type_vector(2, 1, SIZE / UNIT, L, &spread));
    MUST(MPI_Type_commit(&spread));
    check_fill(base, SIZE, (uint64_t)check_rank, 1);
    check_fill(to, sizeof to, 9, 9);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, win));
    BEYOND(MPI_Put(from, 1, L, target, end, 1, L, win));
    BEYOND(MPI_Put(from, 2, L, target, end - 1, 2, L, win));
    BEYOND(MPI_Put(from, 1, MPI_INT32_T, target, far, 1, MPI_INT32_T, win));
    BEYOND(MPI_Put(from, 2, L, target, 0, 1, before, win));
    BEYOND(MPI_Put(from, 2, L, target, end - 1, 1, before, win));
    BEYOND(MPI_Put(from, 2, L, target, 0, 1, spread, win));
    BEYOND(MPI_Rput(from, 2, L, target, end - 1, 2, L, win, &request));
    BEYOND(MPI_Get(to, 1, L, target, end, 1, L, win));
    BEYOND(MPI_Get(to, 4, L, target, end - 3, 4, L, win));
    BEYOND(MPI_Get(to, 2, L, target, 0, 1, before, win));
    BEYOND(MPI_Accumulate(from, 2, L, target, end - 1, 2, L, MPI_SUM, win));
    BEYOND(MPI_Accumulate(from, 2, L, target, 0, 1, spread, MPI_REPLACE, win));
    BEYOND(MPI_Get_accumulate(from, 2, L, to, 2, L, target, end - 1, 2, L, MPI_SUM, win));
    BEYOND(MPI_Get_accumulate(NULL, 0, L, to, 2, L, target, end - 1, 2, L, MPI_NO_OP, win));
    BEYOND(MPI_Fetch_and_op(from, to, L, target, end, MPI_REPLACE, win));
    BEYOND(MPI_Compare_and_swap(from, from, to, L, target, end, win));
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
    MUST(MPI_Put(from, 0, L, target, end + 1, 0, L, win)); /* nothing, nowhere */
    MUST(MPI_Get(to, 0, L, target, end, 0, L, win));
    MUST(MPI_Win_unlock_all(win));
    check_barrier(MPI_COMM_WORLD);
    check_same(base, SIZE, (uint64_t)check_rank, 1, __FILE__, __LINE__);
    check_same(to, sizeof to, 9, 9, __FILE__, __LINE__);
    MUST(MPI_Type_free(&before));
    MUST(MPI_Type_free(&spread));
    MUST(MPI_Errhandler_free(&handler));
}

/* ---- the windows ---- */

static MPI_Info info_of(const char *key, const char *value) {
    MPI_Info info;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "same_disp_unit", "true"));
    if (key)
        MUST(MPI_Info_set(info, key, value));
    return info;
}

static void check_window(MPI_Win win, char *base, int flavor, MPI_Comm comm, const char *lane,
                         const char *what) {
    expect_lane(win, lane, what);
    check_attributes(win, base, SIZE, UNIT, flavor, what);
    check_group_and_name(win, comm, what);
    check_info(win, what);
    check_query(win, flavor == MPI_WIN_FLAVOR_SHARED, what);
    check_query_of_first(win, flavor == MPI_WIN_FLAVOR_SHARED, (int64_t *)(void *)base, what);
    if (lane_is_direct(win))
        check_range(win, base, check_nranks - 1);
}

static void test_allocated(const char *key, const char *value, const char *lane, const char *what) {
    MPI_Info info = info_of(key, value);
    MPI_Win win;
    char *base;
    MUST(MPI_Win_allocate(SIZE, UNIT, info, MPI_COMM_WORLD, &base, &win));
    MUST(MPI_Info_free(&info));
    check_window(win, base, MPI_WIN_FLAVOR_ALLOCATE, MPI_COMM_WORLD, lane, what);
    MUST(MPI_Win_free(&win));
}

static void test_shared(const char *key, const char *value, const char *lane, const char *what) {
    MPI_Info info = info_of(key, value);
    MPI_Comm node;
    MPI_Win win;
    char *base;
    int nlocal;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &nlocal));
    if (nlocal == check_nranks) {
        MUST(MPI_Win_allocate_shared(SIZE, UNIT, info, node, &base, &win));
        check_window(win, base, MPI_WIN_FLAVOR_SHARED, node, lane, what);
        MUST(MPI_Win_free(&win));
    }
    MUST(MPI_Info_free(&info));
    MUST(MPI_Comm_free(&node));
}

static void test_created(void) {
    static char memory[SIZE] __attribute__((aligned(64)));
    const char *lane = strcmp(here, "native") == 0 ? "native" : "packet";
    MPI_Info info = info_of(NULL, NULL);
    MPI_Win win;
    MUST(MPI_Win_create(memory, SIZE, UNIT, info, MPI_COMM_WORLD, &win));
    check_window(win, memory, MPI_WIN_FLAVOR_CREATE, MPI_COMM_WORLD, lane, "created");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win));
    expect_lane(win, lane, "dynamic");
    check_group_and_name(win, MPI_COMM_WORLD, "dynamic");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Info_free(&info));
}

/* Every rank puts, gets and adds at every other that has memory, and finds what was put. */
static void check_exchange(MPI_Win win, int64_t *mine, bool has_memory, const bool has[],
                           const char *what) {
    int64_t out = 1000 + check_rank, got = 0, old = 0;
    const MPI_Aint counter = SIZE / UNIT - 1;
    if (has_memory)
        memset(mine, 0, SIZE);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, win));
    for (int r = 0; r < check_nranks; r++) {
        if (!has[r])
            continue;
        MUST(MPI_Put(&out, 1, L, r, check_rank, 1, L, win));
        MUST(MPI_Win_flush(r, win));
        MUST(MPI_Get(&got, 1, L, r, check_rank, 1, L, win));
        MUST(MPI_Accumulate(&out, 1, L, r, counter, 1, L, MPI_SUM, win));
        MUST(MPI_Fetch_and_op(&out, &old, L, r, counter - 1, MPI_MAX, win));
        MUST(MPI_Win_flush(r, win));
        CHECK(got == out, "%s: got %ld from %d, not %ld", what, (long)got, r, (long)out);
    }
    MUST(MPI_Win_unlock_all(win));
    check_barrier(MPI_COMM_WORLD);
    for (int r = 0; has_memory && r < check_nranks; r++)
        CHECK(mine[r] == 1000 + r, "%s: %ld from rank %d", what, (long)mine[r], r);
    int64_t sum = (int64_t)check_nranks * 1000 + (int64_t)check_nranks * (check_nranks - 1) / 2;
    CHECK(!has_memory || mine[counter] == sum, "%s: the sum is %ld, not %ld", what,
          (long)mine[counter], (long)sum);
    CHECK(!has_memory || mine[counter - 1] == 1000 + check_nranks - 1, "%s: the greatest is %ld",
          what, (long)mine[counter - 1]);
    check_barrier(MPI_COMM_WORLD);
}

enum { LENT = 1 << 17 }; /* bytes of MPI_Alloc_mem that the node can map */

/* Memory that the others of the node can map makes a direct window of a created one, if all ranks
 * that have any bring such. */
static void test_lent(void) {
    static int64_t own[SIZE / 8] __attribute__((aligned(64)));
    const char *lane = strcmp(here, "native") == 0 ? "native" : here;
    const char *mixed = strcmp(here, "direct") == 0 && check_nranks > 1 ? "packet" : lane;
    bool all[64], but_last[64];
    int last = check_nranks - 1;
    char *lent;
    MPI_Win win, inner;
    MPI_Info info = info_of(NULL, NULL);
    for (int r = 0; r < check_nranks; r++) {
        all[r] = true;
        but_last[r] = r != last;
    }
    MUST(MPI_Alloc_mem(LENT, MPI_INFO_NULL, &lent));
    int64_t *part = (int64_t *)(void *)(lent + LENT / 2);
    for (int i = 0; i < 3; i++) { /* views are used again */
        MUST(MPI_Win_create(part, SIZE, UNIT, info, MPI_COMM_WORLD, &win));
        check_window(win, (char *)part, MPI_WIN_FLAVOR_CREATE, MPI_COMM_WORLD, lane, "lent");
        check_exchange(win, part, true, all, "lent");
        MUST(MPI_Win_free(&win));
    }

    bool lends = check_rank != last || check_nranks == 1;
    int64_t *memory = lends ? part : own;
    MUST(MPI_Win_create(memory, SIZE, UNIT, info, MPI_COMM_WORLD, &win));
    expect_lane(win, mixed, "lent but for one");
    check_exchange(win, memory, true, all, "lent but for one");
    MUST(MPI_Win_free(&win));

    bool has = check_rank != last;
    MUST(MPI_Win_create(has ? part : NULL, has ? SIZE : 0, UNIT, info, MPI_COMM_WORLD, &win));
    expect_lane(win, lane, "lent but for one who has nothing");
    check_exchange(win, part, has, but_last, "lent but for one who has nothing");
    MUST(MPI_Win_free(&win));

    /* what lies beyond the piece is not lent */
    MUST(MPI_Win_create(lent + LENT - SIZE, SIZE, UNIT, info, MPI_COMM_WORLD, &win));
    expect_lane(win, lane, "the end of what is lent");
    check_exchange(win, (int64_t *)(void *)(lent + LENT - SIZE), true, all, "the end");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Free_mem(lent));

    MUST(MPI_Win_allocate(LENT, 1, info, MPI_COMM_WORLD, &lent, &win));
    part = (int64_t *)(((uintptr_t)lent + 4096 + 63) / 64 * 64);
    MUST(MPI_Win_create(part, SIZE, UNIT, info, MPI_COMM_WORLD, &inner));
    expect_lane(inner, strcmp(here, "direct") == 0 ? "direct" : lane, "inside of a window");
    if (strcmp(here, "none") !=
        0) /* MPICH 4.0.2 over UCX 1.13 puts elsewhere, as in win_unaligned.c */
        check_exchange(inner, part, true, all, "inside of a window");
    MUST(MPI_Win_free(&inner));
    MUST(MPI_Win_free(&win));
    MUST(MPI_Info_free(&info));
}

static void expect_reason(MPI_Win win, const char *expected, const char *what) {
    char reason[MPI_MAX_INFO_VAL + 1] = "";
    int told;
    MPI_Info info;
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get(info, "tugboat_lane_reason", MPI_MAX_INFO_VAL, reason, &told));
    MUST(MPI_Info_free(&info));
    CHECK(told && strcmp(reason, expected) == 0, "%s: '%s', not '%s'", what, reason, expected);
}

/* Why a window is where it is: where the program asks for it, and where it brings its memory. */
static void test_reasons(void) {
    static char memory[SIZE];
    MPI_Win win;
    MPI_Info info;
    char *base;
    if (strcmp(here, "none") == 0)
        return;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "tugboat_lane", "native"));
    MUST(MPI_Win_allocate(SIZE, UNIT, info, MPI_COMM_WORLD, &base, &win));
    expect_reason(win, strcmp(here, "native") == 0 ? "TUGBOAT_RMA=native" : "asked for by its info",
                  "native wanted");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Win_create(memory, SIZE, UNIT, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (lane_is_packet(win))
        expect_reason(win, "its memory is the program's", "created");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Win_allocate(SIZE, UNIT, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    if (lane_is_direct(win))
        expect_reason(win, "its ranks share a node and its memory was allocated for them",
                      "allocated");
    MUST(MPI_Win_free(&win));
}

/* A rank without memory has a window like all others. */
static void test_nothing(void) {
    MPI_Win win;
    char *base;
    MPI_Aint size = check_rank == 0 ? 0 : SIZE;
    MUST(MPI_Win_allocate(size, UNIT, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    expect_lane(win, here, "nothing on rank 0");
    check_attributes(win, base, size, UNIT, MPI_WIN_FLAVOR_ALLOCATE, "nothing on rank 0");
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "lanes");
    CHECK(argc == 2, "which lane?");
    here = argv[1];
    test_allocated(NULL, NULL, here, "allocated");
    test_allocated("tugboat_lane", "native", "native", "allocated, native wanted");
    const char *shared = strcmp(here, "packet") == 0 ? "direct" : here;
    test_shared(NULL, NULL, shared, "shared");
    test_shared("alloc_shared_noncontig", "true", shared, "shared, anyhow");
    test_shared("tugboat_lane", "native", "native", "shared, native wanted");
    test_created();
    test_lent();
    test_nothing();
    test_reasons();
    return check_end();
}

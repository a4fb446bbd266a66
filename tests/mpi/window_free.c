/*
 * window_free: the lives of windows and of what is attached to them.
 *
 * Windows freed right after operations were issued, datatypes and info freed right after the call
 * that used them, hundreds of windows made and freed. Attributes, names, groups, info, user keyvals
 * with delete callbacks. Argument "leave": windows of every flavour are left over at MPI_Finalize,
 * which ends in an abort of UCX 1.13 under the host MPI alone.
 */
#include "win_kinds.h"

/* Operations, then the synchronisation that ends them, then at once the end of the window. */
static void test_free_at_once(void) {
    enum { N = 300 };
    int right = (check_rank + 1) % check_nranks,
        left = (check_rank + check_nranks - 1) % check_nranks;
    for (int variant = 0; variant < 4; variant++) {
        MPI_Win win;
        uint64_t *memory, out[N];
        CHECK(posix_memalign((void **)&memory, 64, sizeof out) == 0, "no memory");
        memset(memory, 0, sizeof out);
        check_fill(out, sizeof out, (uint64_t)check_rank, (uint64_t)variant);
        MUST(MPI_Win_create(memory, sizeof out, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        if (variant == 0)
            MUST(MPI_Win_fence(0, win));
        else if (variant == 1)
            MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        else
            MUST(MPI_Win_lock_all(0, win));
        for (int i = 0; i < N; i++)
            if (variant == 3)
                MUST(MPI_Accumulate(&out[i], 1, MPI_UINT64_T, right, i, 1, MPI_UINT64_T, MPI_SUM,
                                    win));
            else
                MUST(MPI_Put(&out[i], 1, MPI_UINT64_T, right, i, 1, MPI_UINT64_T, win));
        if (variant == 0)
            MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        else if (variant == 1)
            MUST(MPI_Win_unlock(right, win));
        else
            MUST(MPI_Win_unlock_all(win));
        MUST(MPI_Win_free(&win));
        /* MPI_Win_free is collective: what was put here is here. */
        check_same(memory, sizeof out, (uint64_t)left, (uint64_t)variant, "freed", __LINE__);
        free(memory);
    }
}

static MPI_Datatype every_second(int n) {
    MPI_Datatype type;
    MUST(MPI_Type_vector(n, 1, 2, MPI_INT, &type));
    MUST(MPI_Type_commit(&type));
    return type;
}

/* A datatype may go as soon as the call that used it has returned. */
static void test_free_types(void) {
    enum { N = 64 };
    struct kind_win w;
    int out[2 * N], in[2 * N], target = (check_rank + 1) % check_nranks;
    CHECK(kind_open(&w, KIND_ALLOCATE, MPI_COMM_WORLD, 4 * N * 4, 1), "no window");
    for (int i = 0; i < 2 * N; i++)
        out[i] = 1000 * check_rank + i;
    for (int round = 0; round < check_rounds(20, 4); round++) {
        memset(in, 0xff, sizeof in);
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
        for (int call = 0; call < 3; call++) {
            MPI_Datatype here = every_second(N), there = every_second(N), other;
            if (call == 0)
                MUST(MPI_Put(out, 1, here, target, 0, 1, there, w.win));
            else if (call == 1)
                MUST(MPI_Accumulate(out, 1, here, target, 0, 1, there, MPI_SUM, w.win));
            else
                MUST(MPI_Get(in, 1, here, target, 0, 1, there, w.win));
            MUST(MPI_Type_free(&here));
            MUST(MPI_Type_free(&there));
            /* Likely to get the handle that has just become free. */
            MUST(MPI_Type_contiguous(3, MPI_DOUBLE, &other));
            MUST(MPI_Type_commit(&other));
            if (call < 2)
                MUST(MPI_Win_flush(target, w.win));
            MUST(MPI_Type_free(&other));
        }
        MUST(MPI_Win_unlock(target, w.win));
        for (int i = 0; i < 2 * N; i++)
            CHECK(in[i] == (i % 2 ? -1 : 2 * out[i]), "round %d: [%d] is %d", round, i, in[i]);
        check_barrier(MPI_COMM_WORLD);
    }
    kind_close(&w);
}

static void test_many(void) {
    enum { AT_ONCE = 20 };
    struct kind_win w[AT_ONCE];
    for (int i = 0; i < check_rounds(150, 10); i++) {
        struct kind_win one;
        if (!kind_open(&one, (enum kind)(i % NKINDS), MPI_COMM_WORLD, 64, 1))
            continue;
        int64_t x = i, y = -1;
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, one.win));
        MUST(MPI_Put(&x, 1, MPI_INT64_T, check_rank, kind_disp(&one, check_rank, 0), 1, MPI_INT64_T,
                     one.win));
        MUST(MPI_Win_unlock(check_rank, one.win));
        memcpy(&y, one.base, 8);
        CHECK(y == x, "window %d: %lld", i, (long long)y);
        kind_close(&one);
    }
    int at_once = check_rounds(AT_ONCE, 6), last = check_nranks - 1;
    for (int i = 0; i < at_once; i++)
        CHECK(kind_open(&w[i], KIND_CREATE, MPI_COMM_WORLD, 64, 8), "no window");
    for (int i = 0; i < at_once; i++)
        MUST(MPI_Win_lock_all(0, w[i].win));
    int64_t number[AT_ONCE];
    for (int i = 0; i < at_once; i++) {
        number[i] = i;
        MUST(
            MPI_Accumulate(&number[i], 1, MPI_INT64_T, last, 0, 1, MPI_INT64_T, MPI_SUM, w[i].win));
    }
    for (int i = at_once - 1; i >= 0; i--)
        MUST(MPI_Win_unlock_all(w[i].win));
    check_barrier(MPI_COMM_WORLD);
    for (int64_t i = 0; i < at_once && check_rank == last; i++) {
        int64_t sum;
        memcpy(&sum, w[i].base, 8);
        CHECK(sum == i * check_nranks, "window %d: %lld", (int)i, (long long)sum);
    }
    for (int i = 0; i < at_once; i++)
        kind_close(&w[i]);
}

static int ndeleted;

static int count_deleted(MPI_Win win, int key, void *value, void *state) {
    (void)win, (void)key, (void)value, (void)state;
    ndeleted++;
    return MPI_SUCCESS;
}

/* A window has nothing of the one before it, whatever a single rank did to that. */
static void test_again(void) {
    int key;
    MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, count_deleted, &key, NULL));
    for (int i = 0; i < 6 * NKINDS; i++) {
        struct kind_win w;
        void *value;
        int flag, length = -1;
        char name[MPI_MAX_OBJECT_NAME] = "";
        MPI_Errhandler handler;
        const bool changes = check_rank == i % check_nranks;
        if (!kind_open(&w, (enum kind)(i % NKINDS), MPI_COMM_WORLD, 64 + 8 * i, 8))
            continue;
        MUST(MPI_Win_get_attr(w.win, key, &value, &flag));
        CHECK(!flag, "window %d: it has an attribute", i);
        MUST(MPI_Win_get_name(w.win, name, &length));
        CHECK(strcmp(name, "mine") != 0, "window %d: it has a name", i);
        MUST(MPI_Win_get_errhandler(w.win, &handler));
        CHECK(handler == MPI_ERRORS_ARE_FATAL, "window %d: it has a handler", i);
        if (changes && i / NKINDS % 3 == 1)
            MUST(MPI_Win_set_name(w.win, "mine"));
        if (i / NKINDS % 3 == 2)
            MUST(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        ndeleted = 0;
        if (changes)
            MUST(MPI_Win_set_attr(w.win, key, &w));
        kind_close(&w);
        CHECK(ndeleted == changes, "window %d: %d attributes deleted", i, ndeleted);
    }
    MUST(MPI_Win_free_keyval(&key));
}

static void test_attributes(void) {
    static const int flavors[NKINDS] = {MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE,
                                        MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC};
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        void *base;
        MPI_Aint *size;
        int *unit, *flavor, *model, found[5], ranks, compared, length;
        MPI_Group window_group, world_group;
        char name[MPI_MAX_OBJECT_NAME] = "?";
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, 640, 8))
            continue;
        MUST(MPI_Win_get_attr(w.win, MPI_WIN_BASE, &base, &found[0]));
        MUST(MPI_Win_get_attr(w.win, MPI_WIN_SIZE, &size, &found[1]));
        MUST(MPI_Win_get_attr(w.win, MPI_WIN_DISP_UNIT, &unit, &found[2]));
        MUST(MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &flavor, &found[3]));
        MUST(MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &model, &found[4]));
        for (int i = 0; i < 5; i++)
            CHECK(found[i], "%s: attribute %d is missing", kind_names[kind], i);
        CHECK(base == (kind == KIND_DYNAMIC ? MPI_BOTTOM : (void *)w.base), "%s: base %p",
              kind_names[kind], base);
        CHECK(*size == (kind == KIND_DYNAMIC ? 0 : 640), "size %ld", (long)*size);
        CHECK(*unit == w.disp_unit, "unit %d", *unit);
        CHECK(*flavor == flavors[kind], "flavor %d", *flavor);
        CHECK(*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE, "model %d", *model);
        MUST(MPI_Win_get_group(w.win, &window_group));
        MUST(MPI_Comm_group(MPI_COMM_WORLD, &world_group));
        MUST(MPI_Group_size(window_group, &ranks));
        MUST(MPI_Group_compare(window_group, world_group, &compared));
        CHECK(ranks == check_nranks && compared == MPI_IDENT, "group of %d", ranks);
        MUST(MPI_Group_free(&window_group));
        MUST(MPI_Group_free(&world_group));
        MUST(MPI_Win_get_name(w.win, name, &length));
        CHECK(length == 0 && name[0] == 0, "a new window is called %s", name);
        MUST(MPI_Win_set_name(w.win, "harbour"));
        MUST(MPI_Win_get_name(w.win, name, &length));
        CHECK(length == 7 && strcmp(name, "harbour") == 0, "the window is called %s", name);
        MPI_Win same = MPI_Win_f2c(MPI_Win_c2f(w.win));
        CHECK(same == w.win, "the Fortran handle leads elsewhere");
        kind_close(&w);
    }
}

/* Another size and another unit at every rank. */
static void test_uneven(void) {
    MPI_Win win;
    MPI_Aint mine = 64 * (check_rank + 1);
    int unit = check_rank % 2 ? 8 : 4;
    char *base;
    MUST(MPI_Win_allocate(mine, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0, (size_t)mine);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, win));
    for (int t = 0; t < check_nranks; t++) {
        int64_t x = 100 * check_rank + t;
        MUST(MPI_Accumulate(&x, 1, MPI_INT64_T, t, (64 * (t + 1) - 8) / (t % 2 ? 8 : 4), 1,
                            MPI_INT64_T, MPI_SUM, win));
        MUST(MPI_Win_flush(t, win));
    }
    MUST(MPI_Win_unlock_all(win));
    check_barrier(MPI_COMM_WORLD);
    int64_t sum, expect = 0;
    memcpy(&sum, base + mine - 8, 8);
    for (int r = 0; r < check_nranks; r++)
        expect += 100 * r + check_rank;
    CHECK(sum == expect, "the last word is %lld, not %lld", (long long)sum, (long long)expect);
    MUST(MPI_Win_free(&win));
}

static void test_info(void) {
    MPI_Info info, used;
    MPI_Win win;
    char *base, value[64] = "?";
    int flag = 0, length = sizeof value;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "no_locks", "false"));
    MUST(MPI_Info_set(info, "accumulate_ordering", "rar,war,raw,waw"));
    MUST(MPI_Info_set(info, "tugboat_has_no_such_hint", "1"));
    MUST(MPI_Win_allocate(64, 1, info, MPI_COMM_WORLD, &base, &win));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Win_get_info(win, &used));
    MUST(MPI_Info_get_string(used, "no_locks", &length, value, &flag));
    CHECK(flag && strcmp(value, "false") == 0, "no_locks is %s", value);
    MUST(MPI_Info_free(&used));
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "accumulate_ops", "same_op_no_op"));
    MUST(MPI_Win_set_info(win, info));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Win_get_info(win, &used));
    length = sizeof value;
    MUST(MPI_Info_get_string(used, "accumulate_ops", &length, value, &flag));
    CHECK(flag && strcmp(value, "same_op_no_op") == 0, "accumulate_ops is %s", value);
    MUST(MPI_Info_free(&used));
    MUST(MPI_Win_free(&win));
}

/* A window has the info that it was given, and nothing of those of others before it. */
static void test_info_again(void) {
    static const char *const values[] = {NULL, "true", "false"};
    for (int i = 0; i < 12; i++) {
        MPI_Info info = MPI_INFO_NULL, used;
        MPI_Win win;
        char *base, value[64] = "?";
        const char *given = values[i / 2 % 3];
        int flag, length = sizeof value;
        if (given != NULL) {
            MUST(MPI_Info_create(&info));
            MUST(MPI_Info_set(info, "no_locks", given));
            if (check_rank == i % check_nranks)
                MUST(MPI_Info_set(info, "tugboat_has_no_such_hint", "1"));
        }
        MUST(MPI_Win_allocate(64, 1, info, MPI_COMM_WORLD, &base, &win));
        if (info != MPI_INFO_NULL)
            MUST(MPI_Info_free(&info));
        MUST(MPI_Win_get_info(win, &used));
        MUST(MPI_Info_get_string(used, "no_locks", &length, value, &flag));
        CHECK(flag && strcmp(value, given != NULL ? given : "false") == 0,
              "window %d: no_locks is %s", i, value);
        MUST(MPI_Info_free(&used));
        MUST(MPI_Win_free(&win));
    }
}

static int deletions;

static int on_delete(MPI_Win win, int keyval, void *value, void *extra) {
    CHECK(win != MPI_WIN_NULL && keyval != MPI_KEYVAL_INVALID, "handles of a delete callback");
    CHECK(extra == &deletions, "the extra state of a delete callback");
    deletions += *(int *)value;
    return MPI_SUCCESS;
}

/* The delete callback runs on replacement, on deletion and on the end of the window. */
static void test_keyvals(void) {
    MPI_Win win;
    char *base;
    int keyval, kept, values[3] = {1, 10, 100}, *got, found;
    MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &keyval, &deletions));
    kept = keyval;
    MUST(MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    MUST(MPI_Win_get_attr(win, keyval, &got, &found));
    CHECK(!found, "an attribute that was never set");
    MUST(MPI_Win_set_attr(win, keyval, &values[0]));
    MUST(MPI_Win_set_attr(win, keyval, &values[1]));
    CHECK(deletions == 1, "replacement: %d", deletions);
    MUST(MPI_Win_get_attr(win, keyval, &got, &found));
    CHECK(found && got == &values[1], "attribute");
    MUST(MPI_Win_delete_attr(win, keyval));
    CHECK(deletions == 11, "deletion: %d", deletions);
    MUST(MPI_Win_set_attr(win, keyval, &values[2]));
    MUST(MPI_Win_free_keyval(&keyval));
    CHECK(keyval == MPI_KEYVAL_INVALID, "MPI_Win_free_keyval left a handle");
    MUST(MPI_Win_get_attr(win, kept, &got, &found));
    CHECK(found && got == &values[2], "attribute after its keyval was freed");
    MUST(MPI_Win_free(&win));
    CHECK(deletions == 111, "end of the window: %d", deletions);
}

static int norder, order[2];

static int note_order(MPI_Win win, int keyval, void *value, void *extra) {
    (void)keyval, (void)extra;
    int flag;
    void *size;
    MUST(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    CHECK(flag && *(MPI_Aint *)size == 64, "the window that a delete callback sees");
    order[norder++ % 2] = *(int *)value;
    return MPI_SUCCESS;
}

/* So many times. */
static int refuse(MPI_Win win, int keyval, void *value, void *extra) {
    (void)win, (void)keyval, (void)extra;
    return (*(int *)value)-- > 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* The first one set goes first, as with the host, while the window is all there. Where a callback
 * of one rank refuses that has a window still, and frees it again. */
static void test_delete_callbacks(void) {
    enum { KEYS = 3 };
    int keys[KEYS];
    for (int k = 0; k < KEYS; k++)
        MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, k == 2 ? refuse : note_order, &keys[k],
                                   NULL));
    for (int i = 0; i < 8; i++) {
        struct kind_win w;
        int values[KEYS] = {1, 2, check_rank == i % check_nranks}, refused = values[2];
        CHECK(kind_open(&w, i % 2 ? KIND_CREATE : KIND_ALLOCATE, MPI_COMM_WORLD, 64, 1),
              "no window");
        for (int k = 0; k < KEYS; k++)
            MUST(MPI_Win_set_attr(w.win, keys[k], &values[k]));
        norder = 0;
        MUST(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        if (refused) {
            CHECK(MPI_Win_free(&w.win) != MPI_SUCCESS, "window %d: a callback refused", i);
            CHECK(w.win != MPI_WIN_NULL, "window %d: it is gone", i);
        }
        kind_close(&w);
        CHECK(norder == 2 && order[0] == 1 && order[1] == 2, "window %d: %d deleted, %d before %d",
              i, norder, order[0], order[1]);
    }
    for (int k = 0; k < KEYS; k++)
        MUST(MPI_Win_free_keyval(&keys[k]));
}

int main(int argc, char **argv) {
    static struct kind_win left_over[NKINDS];
    check_begin(&argc, &argv, "window_free");
    if (argc > 1 && strcmp(argv[1], "leave") == 0) {
        for (int kind = 0; kind < NKINDS; kind++)
            (void)kind_open(&left_over[kind], (enum kind)kind, MPI_COMM_WORLD, 64, 1);
        return check_end();
    }
    test_free_at_once();
    test_free_types();
    test_many();
    test_again();
    test_attributes();
    test_uneven();
    test_info();
    test_info_again();
    test_keyvals();
    test_delete_callbacks();
    return check_end();
}

/*
 * handlers: the error handler of a window is the program's, whatever became of the window.
 *
 * Windows of every flavour: over memory that the others can map and over memory that they cannot,
 * and such that one rank wants in another lane than the rest, so that a lane that was begun is
 * given up. A new window's handler is MPI_ERRORS_ARE_FATAL, on every rank. Then ranks set handlers
 * of different kinds, one after the other: what was set is what is got, and what is called, once,
 * when a call is wrong.
 *
 *   handlers                    ends well
 *   handlers fatal CASE MISUSE  a new window and a mistake: the job must not get past it
 */
#include "lane.h"

enum { BYTES = 4096 };

enum how { ALLOCATED, CREATED, LENT, SHARED, DYNAMIC };

/* The lane that the last rank asks for; NULL: none. */
static const struct window_case {
    const char *name;
    enum how how;
    const char *lane;
} cases[] = {
    {"allocated", ALLOCATED, NULL},
    {"allocated.packet", ALLOCATED, "packet"},
    {"allocated.native", ALLOCATED, "native"},
    {"created", CREATED, NULL},
    {"created.native", CREATED, "native"},
    {"lent", LENT, NULL},
    {"lent.packet", LENT, "packet"},
    {"lent.native", LENT, "native"},
    {"shared", SHARED, NULL},
    {"shared.native", SHARED, "native"},
    {"dynamic", DYNAMIC, NULL},
    {"dynamic.native", DYNAMIC, "native"},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static int handled, handled_class;
static MPI_Win handled_win;
static int x = 4711;

static void on_error(MPI_Win *win, int *code, ...) {
    handled++;
    handled_win = *win;
    MUST(MPI_Error_class(*code, &handled_class));
}

static int class_of(int code) {
    int class;
    MUST(MPI_Error_class(code, &class));
    return class;
}

/* False where there is no such window. *memory is to be freed. */
static bool open_window(const struct window_case *c, MPI_Win *win, void **memory) {
    void *base;
    MPI_Info info;
    MPI_Comm node;
    int nlocal;
    *memory = NULL;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &nlocal));
    MUST(MPI_Comm_free(&node));
    if (c->how == SHARED && nlocal < check_nranks)
        return false;
    MUST(MPI_Info_create(&info));
    if (c->lane != NULL && check_rank == check_nranks - 1)
        MUST(MPI_Info_set(info, "tugboat_lane", c->lane));
    if (c->how == LENT)
        MUST(MPI_Alloc_mem(BYTES, MPI_INFO_NULL, memory));
    else if (c->how == CREATED)
        *memory = aligned_alloc(BYTES, BYTES);
    if (c->how == ALLOCATED)
        MUST(MPI_Win_allocate(BYTES, 4, info, MPI_COMM_WORLD, &base, win));
    else if (c->how == SHARED)
        MUST(MPI_Win_allocate_shared(BYTES, 4, info, MPI_COMM_WORLD, &base, win));
    else if (c->how == DYNAMIC)
        MUST(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, win));
    else
        MUST(MPI_Win_create(*memory, BYTES, 4, info, MPI_COMM_WORLD, win));
    MUST(MPI_Info_free(&info));
    return true;
}

static void close_window(const struct window_case *c, MPI_Win *win, void *memory) {
    MUST(MPI_Win_free(win));
    if (c->how == LENT)
        MUST(MPI_Free_mem(memory));
    else
        free(memory);
}

static bool is_handler(MPI_Win win, MPI_Errhandler want) {
    MPI_Errhandler got;
    MUST(MPI_Win_get_errhandler(win, &got));
    bool same = got == want;
    MUST(MPI_Errhandler_free(&got));
    return same;
}

/* Each is told, by its class and through the handler, if it is one of ours. */
static void make_mistakes(const struct window_case *c, MPI_Win win, bool ours) {
    const int t = (check_rank + 1) % check_nranks;
    const struct {
        int want, got;
    } mistakes[] = {
        {MPI_ERR_RMA_SYNC, MPI_Put(&x, 1, MPI_INT, t, 0, 1, MPI_INT, win)},
        {MPI_ERR_RMA_SYNC, MPI_Win_flush(t, win)},
        {MPI_ERR_RANK, MPI_Put(&x, 1, MPI_INT, -5, 0, 1, MPI_INT, win)},
        {MPI_ERR_BUFFER, MPI_Get(NULL, 1, MPI_INT, t, 0, 1, MPI_INT, win)},
        {MPI_ERR_KEYVAL, MPI_Win_delete_attr(win, MPI_KEYVAL_INVALID)},
    };
    const int n = sizeof mistakes / sizeof mistakes[0];
    for (int i = 0; i < n; i++)
        CHECK(class_of(mistakes[i].got) == mistakes[i].want, "%s: mistake %d: class %d, not %d",
              c->name, i, class_of(mistakes[i].got), mistakes[i].want);
    CHECK(handled == (ours ? n : 0), "%s: %d mistakes, the handler was called %d times", c->name, n,
          handled);
    CHECK(!ours || (handled_win == win && handled_class == mistakes[n - 1].want),
          "%s: the handler was called with class %d", c->name, handled_class);
    handled = 0;
}

static void test_window(const struct window_case *c) {
    MPI_Win win;
    MPI_Errhandler ours;
    void *memory;
    if (!open_window(c, &win, &memory))
        return;
    CHECK(is_handler(win, MPI_ERRORS_ARE_FATAL), "%s: a new window's handler", c->name);
    for (int i = 0; i < 3; i++) { /* the ranks have different ones */
        bool own = (check_rank + i) % 2 == 0;
        if (own) {
            MUST(MPI_Win_create_errhandler(on_error, &ours));
            MUST(MPI_Win_set_errhandler(win, ours));
            CHECK(is_handler(win, ours), "%s: the handler that was set", c->name);
            MUST(MPI_Errhandler_free(&ours)); /* the window keeps it */
        } else {
            MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
            CHECK(is_handler(win, MPI_ERRORS_RETURN), "%s: errors return", c->name);
        }
        make_mistakes(c, win, own);
    }
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
    CHECK(is_handler(win, MPI_ERRORS_ARE_FATAL), "%s: fatal again", c->name);
    close_window(c, &win, memory);
}

/* A request whose operation fails after it was begun: the second of its blocks is not attached.
 * Whatever waits for it reports through the window's handler. */
static void test_request(void) {
    int64_t mine[8] = {0}, two[2] = {1, 2};
    MPI_Aint base, blocks[2];
    MPI_Win win;
    MPI_Datatype apart;
    MPI_Errhandler ours;
    MPI_Request r = MPI_REQUEST_NULL;
    MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win));
    MUST(MPI_Win_attach(win, mine, sizeof mine));
    MUST(MPI_Get_address(mine, &base));
    blocks[0] = base;
    blocks[1] = base + ((MPI_Aint)1 << 40);
    MUST(MPI_Type_create_hindexed_block(2, 1, blocks, MPI_INT64_T, &apart));
    MUST(MPI_Type_commit(&apart));
    MUST(MPI_Win_create_errhandler(on_error, &ours));
    MUST(MPI_Win_set_errhandler(win, ours));
    if (lane_is_ours(win)) { /* the host writes there */
        MUST(MPI_Win_lock_all(0, win));
        int code = MPI_Rput(two, 2, MPI_INT64_T, 0, 0, 1, apart, win, &r);
        CHECK(class_of(code) == MPI_ERR_RMA_RANGE && handled == 1, "class %d, handled %d times",
              class_of(code), handled);
        CHECK(r != MPI_REQUEST_NULL && mine[0] == 1, "the operation was not begun");
        code = MPI_Wait(&r, MPI_STATUS_IGNORE);
        CHECK(class_of(code) == MPI_ERR_RMA_RANGE && handled == 2 && handled_win == win,
              "waited for: class %d, handled %d times", class_of(code), handled);
        MUST(MPI_Win_unlock_all(win));
    }
    handled = 0;
    MUST(MPI_Errhandler_free(&ours));
    MUST(MPI_Type_free(&apart));
    MUST(MPI_Win_detach(win, mine));
    MUST(MPI_Win_free(&win));
}

static void be_fatal(const struct window_case *c, const char *misuse) {
    MPI_Win win;
    void *memory;
    CHECK(open_window(c, &win, &memory), "%s: no such window here", c->name);
    if (check_rank == 0) {
        if (strcmp(misuse, "epoch") != 0)
            MPI_Win_lock_all(0, win);
        if (strcmp(misuse, "null") == 0)
            MPI_Put(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        else
            MPI_Put(&x, 1, MPI_INT, strcmp(misuse, "rank") == 0 ? -5 : 0, 0, 1, MPI_INT, win);
        if (strcmp(misuse, "epoch") != 0)
            MPI_Win_unlock_all(win);
        printf("came back from a fatal error\n");
    }
    check_barrier(MPI_COMM_WORLD);
    close_window(c, &win, memory);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "handlers");
    for (int i = 0; i < NCASES; i++)
        if (argc < 4)
            test_window(&cases[i]);
        else if (strcmp(argv[2], cases[i].name) == 0)
            be_fatal(&cases[i], argv[3]);
    if (argc < 4)
        test_request();
    return check_end();
}

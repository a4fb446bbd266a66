/*
 * errors: which error class, through which handler, for which invalid call?
 *
 * Rank 0 makes each invalid call twice, under MPI_ERRORS_RETURN and under handlers of its own, and
 * prints one line: kind of window, name of the case, class of the error, which call gave it, how
 * often a handler was called and with which class. errors_compare.sh compares the lines of the host
 * alone with those under the tug. A case is a call and the next synchronisation of that window: an
 * error may surface in one or the other.
 * All cases of one-sided calls are made for windows of every flavour, in every lane that can be
 * asked for. Afterwards the windows and a broadcast still have to work.
 */
#include "check.h"

static MPI_Errhandler win_handler, comm_handler;
static int win_calls, comm_calls, handler_class;
static MPI_Win win;
static int32_t *window;
static int nlines;
static const char *kind_now = "none";
static bool dynamic;
static MPI_Aint places[16]; /* displacements of the ranks' memory */
static MPI_Aint at;         /* the displacement of the target's memory */

static void on_win_error(MPI_Win *w, int *code, ...) {
    (void)w;
    win_calls++;
    MUST(MPI_Error_class(*code, &handler_class));
}

static void on_comm_error(MPI_Comm *c, int *code, ...) {
    (void)c;
    comm_calls++;
    MUST(MPI_Error_class(*code, &handler_class));
}

static void arm(int variant, MPI_Win w) {
    MPI_Errhandler for_comm = variant ? comm_handler : MPI_ERRORS_RETURN;
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, for_comm));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, for_comm));
    MUST(MPI_Win_set_errhandler(w, variant ? win_handler : MPI_ERRORS_RETURN));
    win_calls = comm_calls = handler_class = 0;
}

static const char *class_name(int class) {
    static char text[MPI_MAX_ERROR_STRING];
    int length;
    MUST(MPI_Error_string(class, text, &length));
    return text;
}

static void report(const char *name, int variant, int called, int synced) {
    int class;
    MUST(MPI_Error_class(called != MPI_SUCCESS ? called : synced, &class));
    printf("%s: %s [%s]: class %d (%s) of the %s", kind_now, name, variant ? "handler" : "return",
           class, class_name(class),
           called == MPI_SUCCESS   ? "synchronisation"
           : synced == MPI_SUCCESS ? "call"
                                   : "call, and one more");
    if (variant)
        printf("; window handler %d times, communicator handler %d times, class %d", win_calls,
               comm_calls, handler_class);
    printf("\n");
    nlines++;
}

/* `call`, then `sync` whatever the call gave. */
#define TRY_VARIANTS(nvariants, name, call, sync)                                                  \
    do {                                                                                           \
        for (int variant = 0; variant < (nvariants); variant++) {                                  \
            arm(variant, win);                                                                     \
            int called = (call);                                                                   \
            int synced = (sync);                                                                   \
            report(name, variant, called, synced);                                                 \
        }                                                                                          \
    } while (0)
#define TRY(name, call, sync) TRY_VARIANTS(2, name, call, sync)

/* An MPI_Win_free of MPICH 4.0.2 that fails has given up a reference to the window's handler: only
 * with one that MPI has made. */
#define TRY_FREE(name) TRY_VARIANTS(1, name, MPI_Win_free(&win), MPI_SUCCESS)

#define INT MPI_INT32_T

static int32_t x, y, z;
static MPI_Request request;
static MPI_Datatype uncommitted, vector;
static MPI_Op user_op;
static MPI_Group nobody; /* an epoch with it can be begun by one rank alone */

static void add_up(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++)
        ((int32_t *)inout)[i] += ((int32_t *)in)[i];
}

static void try_put_get(int t) {
    int far = check_nranks;
    TRY("put: rank too big", MPI_Put(&x, 1, INT, far, 0, 1, INT, win), MPI_Win_flush(t, win));
    TRY("put: rank negative", MPI_Put(&x, 1, INT, -7, 0, 1, INT, win), MPI_Win_flush(t, win));
    TRY("put: count", MPI_Put(&x, -1, INT, t, 0, 1, INT, win), MPI_Win_flush(t, win));
    TRY("put: target count", MPI_Put(&x, 1, INT, t, 0, -1, INT, win), MPI_Win_flush(t, win));
    TRY("put: null type", MPI_Put(&x, 1, MPI_DATATYPE_NULL, t, 0, 1, INT, win),
        MPI_Win_flush(t, win));
    TRY("put: null target type", MPI_Put(&x, 1, INT, t, 0, 1, MPI_DATATYPE_NULL, win),
        MPI_Win_flush(t, win));
    TRY("put: uncommitted type", MPI_Put(&x, 1, uncommitted, t, 0, 1, uncommitted, win),
        MPI_Win_flush(t, win));
    TRY("put: no type", MPI_Put(&x, 1, (MPI_Datatype)0x1234, t, 0, 1, INT, win),
        MPI_Win_flush(t, win));
    TRY("put: null window", MPI_Put(&x, 1, INT, t, 0, 1, INT, MPI_WIN_NULL), MPI_Win_flush(t, win));
    TRY("put: no window", MPI_Put(&x, 1, INT, t, 0, 1, INT, (MPI_Win)0x1234),
        MPI_Win_flush(t, win));
    TRY("get: rank too big", MPI_Get(&x, 1, INT, far, 0, 1, INT, win), MPI_Win_flush(t, win));
    TRY("get: count", MPI_Get(&x, -3, INT, t, 0, 1, INT, win), MPI_Win_flush(t, win));
    TRY("get: null type", MPI_Get(&x, 1, MPI_DATATYPE_NULL, t, 0, 1, INT, win),
        MPI_Win_flush(t, win));
    TRY("get: uncommitted type", MPI_Get(&x, 1, uncommitted, t, 0, 1, uncommitted, win),
        MPI_Win_flush(t, win));
    TRY("get: null window", MPI_Get(&x, 1, INT, t, 0, 1, INT, MPI_WIN_NULL), MPI_Win_flush(t, win));
    TRY("put_c: count", MPI_Put_c(&x, -1, INT, t, 0, 1, INT, win), MPI_Win_flush(t, win));
    TRY("get_c: rank", MPI_Get_c(&x, 1, INT, far, 0, 1, INT, win), MPI_Win_flush(t, win));
}

static void try_accumulate(int t) {
    int far = check_nranks;
    TRY("accumulate: rank", MPI_Accumulate(&x, 1, INT, far, 0, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: count", MPI_Accumulate(&x, -1, INT, t, 0, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: null op", MPI_Accumulate(&x, 1, INT, t, 0, 1, INT, MPI_OP_NULL, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: user op", MPI_Accumulate(&x, 1, INT, t, 0, 1, INT, user_op, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: null type",
        MPI_Accumulate(&x, 1, MPI_DATATYPE_NULL, t, 0, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: null window", MPI_Accumulate(&x, 1, INT, t, 0, 1, INT, MPI_SUM, MPI_WIN_NULL),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: rank",
        MPI_Get_accumulate(&x, 1, INT, &y, 1, INT, far, 0, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: result count",
        MPI_Get_accumulate(&x, 1, INT, &y, -1, INT, t, 0, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: null op",
        MPI_Get_accumulate(&x, 1, INT, &y, 1, INT, t, 0, 1, INT, MPI_OP_NULL, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: user op",
        MPI_Get_accumulate(&x, 1, INT, &y, 1, INT, t, 0, 1, INT, user_op, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: rank", MPI_Fetch_and_op(&x, &y, INT, far, 0, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: null op", MPI_Fetch_and_op(&x, &y, INT, t, 0, MPI_OP_NULL, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: null type", MPI_Fetch_and_op(&x, &y, MPI_DATATYPE_NULL, t, 0, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: derived type", MPI_Fetch_and_op(&x, &y, uncommitted, t, 0, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: null window", MPI_Fetch_and_op(&x, &y, INT, t, 0, MPI_SUM, MPI_WIN_NULL),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: rank", MPI_Compare_and_swap(&x, &y, &z, INT, far, 0, win),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: null type",
        MPI_Compare_and_swap(&x, &y, &z, MPI_DATATYPE_NULL, t, 0, win), MPI_Win_flush(t, win));
    TRY("compare_and_swap: null window", MPI_Compare_and_swap(&x, &y, &z, INT, t, 0, MPI_WIN_NULL),
        MPI_Win_flush(t, win));
}

static void try_requests(int t) {
    int far = check_nranks;
    TRY("rput: rank", MPI_Rput(&x, 1, INT, far, 0, 1, INT, win, &request), MPI_Win_flush(t, win));
    TRY("rput: count", MPI_Rput(&x, -1, INT, t, 0, 1, INT, win, &request), MPI_Win_flush(t, win));
    TRY("rget: null type", MPI_Rget(&x, 1, MPI_DATATYPE_NULL, t, 0, 1, INT, win, &request),
        MPI_Win_flush(t, win));
    TRY("raccumulate: null op",
        MPI_Raccumulate(&x, 1, INT, t, 0, 1, INT, MPI_OP_NULL, win, &request),
        MPI_Win_flush(t, win));
    TRY("rget_accumulate: rank",
        MPI_Rget_accumulate(&x, 1, INT, &y, 1, INT, far, 0, 1, INT, MPI_SUM, win, &request),
        MPI_Win_flush(t, win));
    TRY("rput: null window", MPI_Rput(&x, 1, INT, t, 0, 1, INT, MPI_WIN_NULL, &request),
        MPI_Win_flush(t, win));
}

/* Of a dynamic window it is an address. */
static void try_displacements(int t) {
    TRY("put: displacement", MPI_Put(&x, 1, INT, t, -4, 1, INT, win), MPI_Win_flush(t, win));
    TRY("get: displacement", MPI_Get(&x, 1, INT, t, -1, 1, INT, win), MPI_Win_flush(t, win));
    TRY("accumulate: displacement", MPI_Accumulate(&x, 1, INT, t, -2, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: displacement",
        MPI_Get_accumulate(&x, 1, INT, &y, 1, INT, t, -2, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: displacement", MPI_Fetch_and_op(&x, &y, INT, t, -2, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: displacement", MPI_Compare_and_swap(&x, &y, &z, INT, t, -2, win),
        MPI_Win_flush(t, win));
    TRY("rput: displacement", MPI_Rput(&x, 1, INT, t, -2, 1, INT, win, &request),
        MPI_Win_flush(t, win));
}

/* Buffers that are NULL; MPI_BOTTOM is no address to types that have none of their own. */
static void try_null_buffers(int t) {
    TRY("put: null", MPI_Put(NULL, 1, INT, t, at, 1, INT, win), MPI_Win_flush(t, win));
    TRY("put: null, many", MPI_Put(NULL, 8, INT, t, at, 8, INT, win), MPI_Win_flush(t, win));
    TRY("put: null, vector", MPI_Put(NULL, 1, vector, t, at, 2, INT, win), MPI_Win_flush(t, win));
    TRY("put: null to nobody", MPI_Put(NULL, 1, INT, MPI_PROC_NULL, 0, 1, INT, win),
        MPI_Win_flush(t, win));
    TRY("put_c: null", MPI_Put_c(NULL, 1, INT, t, at, 1, INT, win), MPI_Win_flush(t, win));
    TRY("get: null", MPI_Get(NULL, 1, INT, t, at, 1, INT, win), MPI_Win_flush(t, win));
    TRY("get: null, vector", MPI_Get(NULL, 1, vector, t, at, 2, INT, win), MPI_Win_flush(t, win));
    TRY("get_c: null", MPI_Get_c(NULL, 4, INT, t, at, 4, INT, win), MPI_Win_flush(t, win));
}

static void try_null_operands(int t) {
    TRY("accumulate: null", MPI_Accumulate(NULL, 1, INT, t, at, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: null, vector", MPI_Accumulate(NULL, 1, vector, t, at, 2, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: null, pair",
        MPI_Accumulate(NULL, 1, MPI_FLOAT_INT, t, at, 1, MPI_FLOAT_INT, MPI_MAXLOC, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: null origin",
        MPI_Get_accumulate(NULL, 1, INT, &y, 1, INT, t, at, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: null result",
        MPI_Get_accumulate(&x, 1, INT, NULL, 1, INT, t, at, 1, INT, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("get_accumulate: null result, no op",
        MPI_Get_accumulate(NULL, 0, INT, NULL, 1, INT, t, at, 1, INT, MPI_NO_OP, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: null origin", MPI_Fetch_and_op(NULL, &y, INT, t, at, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: null result", MPI_Fetch_and_op(&x, NULL, INT, t, at, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: null result, no op",
        MPI_Fetch_and_op(NULL, NULL, INT, t, at, MPI_NO_OP, win), MPI_Win_flush(t, win));
    TRY("compare_and_swap: null origin", MPI_Compare_and_swap(NULL, &y, &z, INT, t, at, win),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: null compare", MPI_Compare_and_swap(&x, NULL, &z, INT, t, at, win),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: null result", MPI_Compare_and_swap(&x, &y, NULL, INT, t, at, win),
        MPI_Win_flush(t, win));
    TRY("rput: null", MPI_Rput(NULL, 1, INT, t, at, 1, INT, win, &request), MPI_Win_flush(t, win));
    TRY("rget: null", MPI_Rget(NULL, 1, INT, t, at, 1, INT, win, &request), MPI_Win_flush(t, win));
    TRY("raccumulate: null", MPI_Raccumulate(NULL, 1, INT, t, at, 1, INT, MPI_SUM, win, &request),
        MPI_Win_flush(t, win));
    TRY("rget_accumulate: null result",
        MPI_Rget_accumulate(&x, 1, INT, NULL, 1, INT, t, at, 1, INT, MPI_SUM, win, &request),
        MPI_Win_flush(t, win));
}

/* Operations and types that are valid ones, elsewhere; and places for answers that are none. */
static void try_misplaced(int t) {
    TRY("accumulate: no op", MPI_Accumulate(&x, 1, INT, t, at, 1, INT, MPI_NO_OP, win),
        MPI_Win_flush(t, win));
    TRY("accumulate: no op, to nobody",
        MPI_Accumulate(&x, 1, INT, MPI_PROC_NULL, 0, 1, INT, MPI_NO_OP, win),
        MPI_Win_flush(t, win));
    TRY("raccumulate: no op", MPI_Raccumulate(&x, 1, INT, t, at, 1, INT, MPI_NO_OP, win, &request),
        MPI_Win_flush(t, win));
    TRY("accumulate: user op, to nobody",
        MPI_Accumulate(&x, 1, INT, MPI_PROC_NULL, 0, 1, INT, user_op, win), MPI_Win_flush(t, win));
    TRY("fetch_and_op: user op", MPI_Fetch_and_op(&x, &y, INT, t, at, user_op, win),
        MPI_Win_flush(t, win));
    TRY("fetch_and_op: committed type", MPI_Fetch_and_op(&x, &y, vector, t, at, MPI_SUM, win),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: double", MPI_Compare_and_swap(&x, &y, &z, MPI_DOUBLE, t, at, win),
        MPI_Win_flush(t, win));
    TRY("compare_and_swap: committed type", MPI_Compare_and_swap(&x, &y, &z, vector, t, at, win),
        MPI_Win_flush(t, win));
    TRY("rput: null request", MPI_Rput(&x, 1, INT, t, at, 1, INT, win, NULL),
        MPI_Win_flush(t, win));
    TRY("rget: null request", MPI_Rget(&x, 1, INT, t, at, 1, INT, win, NULL),
        MPI_Win_flush(t, win));
    TRY("raccumulate: null request", MPI_Raccumulate(&x, 1, INT, t, at, 1, INT, MPI_SUM, win, NULL),
        MPI_Win_flush(t, win));
    TRY("rget_accumulate: null request",
        MPI_Rget_accumulate(&x, 1, INT, &y, 1, INT, t, at, 1, INT, MPI_SUM, win, NULL),
        MPI_Win_flush(t, win));
    TRY("flush: rank negative", MPI_Win_flush(-7, win), MPI_SUCCESS);
    TRY("flush_local: rank", MPI_Win_flush_local(check_nranks, win), MPI_SUCCESS);
    TRY("flush_all: null window", MPI_Win_flush_all(MPI_WIN_NULL), MPI_SUCCESS);
    TRY("unlock: rank negative", MPI_Win_unlock(-7, win), MPI_SUCCESS);
    TRY("test: null flag", MPI_Win_test(win, NULL), MPI_SUCCESS);
}

/* What a window is asked for and told, wrongly. */
static void try_settings(void) {
    int flag;
    MPI_Aint size;
    void *base;
    TRY("win_get_attr: null flag", MPI_Win_get_attr(win, MPI_WIN_BASE, &base, NULL), MPI_SUCCESS);
    TRY("win_get_attr: null value", MPI_Win_get_attr(win, MPI_WIN_BASE, NULL, &flag), MPI_SUCCESS);
    TRY("win_delete_attr: keyval", MPI_Win_delete_attr(win, MPI_KEYVAL_INVALID), MPI_SUCCESS);
    TRY("win_get_group: null", MPI_Win_get_group(win, NULL), MPI_SUCCESS);
    TRY("win_get_info: null", MPI_Win_get_info(win, NULL), MPI_SUCCESS);
    TRY("win_get_name: null", MPI_Win_get_name(win, NULL, &flag), MPI_SUCCESS);
    TRY("win_set_name: null", MPI_Win_set_name(win, NULL), MPI_SUCCESS);
    TRY("win_get_errhandler: null", MPI_Win_get_errhandler(win, NULL), MPI_SUCCESS);
    TRY("win_set_errhandler: null", MPI_Win_set_errhandler(win, MPI_ERRHANDLER_NULL), MPI_SUCCESS);
    TRY("win_shared_query: rank", MPI_Win_shared_query(win, check_nranks, &size, &flag, &base),
        MPI_SUCCESS);
    TRY("win_shared_query: null size", MPI_Win_shared_query(win, 0, NULL, &flag, &base),
        MPI_SUCCESS);
    TRY("win_attach: null window", MPI_Win_attach(MPI_WIN_NULL, &x, 4), MPI_SUCCESS);
    TRY("win_attach: size", MPI_Win_attach(win, &x, -4), MPI_SUCCESS);
    TRY("win_attach: null", MPI_Win_attach(win, NULL, 4), MPI_SUCCESS);
    TRY("win_detach: null window", MPI_Win_detach(MPI_WIN_NULL, &x), MPI_SUCCESS);
}

/* An epoch with nothing in it: the next synchronisation of the window. */
static int epoch(int t) {
    int locked = MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win);
    int unlocked = MPI_Win_unlock(t, win);
    return locked != MPI_SUCCESS ? locked : unlocked;
}

static void try_outside_epochs(int t) {
    TRY("put: no epoch", MPI_Put(&x, 1, INT, t, 0, 1, INT, win), epoch(t));
    TRY("accumulate: no epoch", MPI_Accumulate(&x, 1, INT, t, 0, 1, INT, MPI_SUM, win), epoch(t));
    TRY("fetch_and_op: no epoch", MPI_Fetch_and_op(&x, &y, INT, t, 0, MPI_SUM, win), epoch(t));
    TRY("get: no epoch", MPI_Get(&x, 1, INT, t, 0, 1, INT, win), epoch(t));
    TRY("get_accumulate: no epoch",
        MPI_Get_accumulate(&x, 1, INT, &y, 1, INT, t, 0, 1, INT, MPI_SUM, win), epoch(t));
    TRY("compare_and_swap: no epoch", MPI_Compare_and_swap(&x, &y, &z, INT, t, 0, win), epoch(t));
    TRY("rput: no epoch", MPI_Rput(&x, 1, INT, t, 0, 1, INT, win, &request), epoch(t));
    TRY("rget_accumulate: no epoch",
        MPI_Rget_accumulate(&x, 1, INT, &y, 1, INT, t, 0, 1, INT, MPI_SUM, win, &request),
        epoch(t));
    TRY("flush: no epoch", MPI_Win_flush(t, win), MPI_SUCCESS);
    TRY("flush_local_all: no epoch", MPI_Win_flush_local_all(win), MPI_SUCCESS);
    TRY("flush_all: no epoch", MPI_Win_flush_all(win), MPI_SUCCESS);
    TRY("flush_local: no epoch", MPI_Win_flush_local(t, win), MPI_SUCCESS);
    TRY("unlock: not locked", MPI_Win_unlock(t, win), MPI_SUCCESS);
    TRY("unlock_all: not locked", MPI_Win_unlock_all(win), MPI_SUCCESS);
    TRY("complete: not started", MPI_Win_complete(win), MPI_SUCCESS);
    TRY("wait: not posted", MPI_Win_wait(win), MPI_SUCCESS);
    TRY("lock: rank", MPI_Win_lock(MPI_LOCK_SHARED, check_nranks, 0, win), MPI_SUCCESS);
    TRY("lock: rank negative", MPI_Win_lock(MPI_LOCK_SHARED, -9, 0, win), MPI_SUCCESS);
    TRY("lock: type", MPI_Win_lock(4711, t, 0, win), MPI_SUCCESS);
    TRY("lock: assertion", MPI_Win_lock(MPI_LOCK_SHARED, t, 0x40000000, win), MPI_SUCCESS);
    TRY("lock: null window", MPI_Win_lock(MPI_LOCK_SHARED, t, 0, MPI_WIN_NULL), MPI_SUCCESS);
    TRY("lock_all: assertion", MPI_Win_lock_all(0x40000000, win), MPI_SUCCESS);
    TRY("lock_all: null window", MPI_Win_lock_all(0, MPI_WIN_NULL), MPI_SUCCESS);
    TRY("fence: assertion", MPI_Win_fence(0x40000000, win), MPI_SUCCESS);
    TRY("fence: null window", MPI_Win_fence(0, MPI_WIN_NULL), MPI_SUCCESS);
    TRY("start: null group", MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_SUCCESS);
    TRY("start: no group", MPI_Win_start((MPI_Group)0x1234, 0, win), MPI_SUCCESS);
    TRY("start: assertion", MPI_Win_start(nobody, 0x40000000, win), MPI_SUCCESS);
    TRY("post: null group", MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_SUCCESS);
    TRY("post: no group", MPI_Win_post((MPI_Group)0x1234, 0, win), MPI_SUCCESS);
    TRY("post: assertion", MPI_Win_post(nobody, 0x40000000, win), MPI_SUCCESS);
    TRY("test: not posted", MPI_Win_test(win, &(int){0}), MPI_SUCCESS);
    TRY("sync: null window", MPI_Win_sync(MPI_WIN_NULL), MPI_SUCCESS);
    TRY("flush: null window", MPI_Win_flush(t, MPI_WIN_NULL), MPI_SUCCESS);
}

static void try_inside_epochs(int t) {
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win));
    TRY("lock: locked already", MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win), MPI_SUCCESS);
    TRY("lock: locked already, exclusive", MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, win),
        MPI_SUCCESS);
    TRY("lock: locked already, nocheck", MPI_Win_lock(MPI_LOCK_SHARED, t, MPI_MODE_NOCHECK, win),
        MPI_SUCCESS);
    TRY("lock_all: one is locked", MPI_Win_lock_all(0, win), MPI_SUCCESS);
    TRY("unlock: rank", MPI_Win_unlock(check_nranks, win), MPI_SUCCESS);
    TRY("unlock_all: one is locked", MPI_Win_unlock_all(win), MPI_SUCCESS);
    TRY("flush: rank", MPI_Win_flush(check_nranks, win), MPI_SUCCESS);
    TRY("fence: locked", MPI_Win_fence(0, win), MPI_SUCCESS);
    TRY("start: locked", MPI_Win_start(nobody, 0, win), MPI_SUCCESS);
    TRY("complete: locked", MPI_Win_complete(win), MPI_SUCCESS);
    MUST(MPI_Win_unlock(t, win));
    TRY("unlock: unlocked already", MPI_Win_unlock(t, win), MPI_SUCCESS);
    MUST(MPI_Win_lock_all(0, win));
    TRY("lock_all: locked already", MPI_Win_lock_all(0, win), MPI_SUCCESS);
    TRY("lock: all are locked", MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win), MPI_SUCCESS);
    TRY("unlock: all are locked", MPI_Win_unlock(t, win), MPI_SUCCESS);
    TRY("fence: all are locked", MPI_Win_fence(0, win), MPI_SUCCESS);
    TRY("start: all are locked", MPI_Win_start(nobody, 0, win), MPI_SUCCESS);
    MUST(MPI_Win_unlock_all(win));
    TRY("unlock_all: unlocked already", MPI_Win_unlock_all(win), MPI_SUCCESS);
    MUST(MPI_Win_start(nobody, 0, win));
    TRY("start: started already", MPI_Win_start(nobody, 0, win), MPI_SUCCESS);
    TRY("lock: started", MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win), MPI_SUCCESS);
    TRY("lock_all: started", MPI_Win_lock_all(0, win), MPI_SUCCESS);
    TRY("fence: started", MPI_Win_fence(0, win), MPI_SUCCESS);
    TRY("unlock: started", MPI_Win_unlock(t, win), MPI_SUCCESS);
    TRY("flush: started", MPI_Win_flush(t, win), MPI_SUCCESS);
    MUST(MPI_Win_complete(win));
    TRY("complete: completed already", MPI_Win_complete(win), MPI_SUCCESS);
}

/* Epochs that only all ranks together can begin or end: a window of this rank alone. */
static void try_alone(void) {
    MPI_Win all = win;
    void *base;
    MPI_Group self;
    MUST(MPI_Comm_group(MPI_COMM_SELF, &self));
    MUST(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    TRY_FREE("free: locked");
    MUST(MPI_Win_unlock(0, win));
    MUST(MPI_Win_lock_all(0, win));
    TRY_FREE("free: all are locked");
    MUST(MPI_Win_unlock_all(win));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(&x, 1, INT, 0, 0, 1, INT, win));
    TRY("lock: fenced", MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
    TRY("lock_all: fenced", MPI_Win_lock_all(0, win), MPI_SUCCESS);
    TRY("start: fenced", MPI_Win_start(self, 0, win), MPI_SUCCESS);
    TRY("flush: fenced", MPI_Win_flush(0, win), MPI_SUCCESS);
    TRY("unlock: fenced", MPI_Win_unlock(0, win), MPI_SUCCESS);
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    TRY("put: no fence follows", MPI_Put(&x, 1, INT, 0, 0, 1, INT, win), epoch(0));
    MUST(MPI_Win_post(self, 0, win));
    MUST(MPI_Win_start(self, 0, win));
    TRY("post: posted already", MPI_Win_post(self, 0, win), MPI_SUCCESS);
    TRY_FREE("free: started");
    MUST(MPI_Win_complete(win));
    TRY("put: completed", MPI_Put(&x, 1, INT, 0, 0, 1, INT, win), epoch(0));
    TRY_FREE("free: posted");
    MUST(MPI_Win_wait(win));
    TRY("wait: not posted any more", MPI_Win_wait(win), MPI_SUCCESS);
    MUST(MPI_Win_free(&win));
    MUST(MPI_Group_free(&self));
    win = all;
}

static void try_windows(void) {
    MPI_Win bad;
    void *base;
    MPI_Info none = MPI_INFO_NULL;
    TRY("win_create: size", MPI_Win_create(&x, -1, 1, none, MPI_COMM_SELF, &bad), MPI_SUCCESS);
    TRY("win_create: unit", MPI_Win_create(&x, 4, 0, none, MPI_COMM_SELF, &bad), MPI_SUCCESS);
    TRY("win_create: null communicator", MPI_Win_create(&x, 4, 1, none, MPI_COMM_NULL, &bad),
        MPI_SUCCESS);
    TRY("win_allocate: size", MPI_Win_allocate(-1, 1, none, MPI_COMM_SELF, &base, &bad),
        MPI_SUCCESS);
    TRY("win_allocate: null communicator", MPI_Win_allocate(4, 1, none, MPI_COMM_NULL, &base, &bad),
        MPI_SUCCESS);
    TRY("win_allocate_shared: null communicator",
        MPI_Win_allocate_shared(4, 1, none, MPI_COMM_NULL, &base, &bad), MPI_SUCCESS);
    TRY("win_create_dynamic: null communicator", MPI_Win_create_dynamic(none, MPI_COMM_NULL, &bad),
        MPI_SUCCESS);
    bad = MPI_WIN_NULL;
    TRY("win_free: null window", MPI_Win_free(&bad), MPI_SUCCESS);
    TRY("win_get_attr: keyval", MPI_Win_get_attr(win, MPI_KEYVAL_INVALID, &base, &(int){0}),
        MPI_SUCCESS);
    TRY("win_set_name: null window", MPI_Win_set_name(MPI_WIN_NULL, "x"), MPI_SUCCESS);
}

static void try_bcast_init(void) {
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Comm self = MPI_COMM_SELF;
    MPI_Info none = MPI_INFO_NULL;
    int flag;
    TRY("bcast_init: root too big", MPI_Bcast_init(&x, 1, INT, 1, self, none, &r), MPI_SUCCESS);
    TRY("bcast_init: root negative", MPI_Bcast_init(&x, 1, INT, -3, self, none, &r), MPI_SUCCESS);
    TRY("bcast_init: count", MPI_Bcast_init(&x, -1, INT, 0, self, none, &r), MPI_SUCCESS);
    TRY("bcast_init: null type", MPI_Bcast_init(&x, 1, MPI_DATATYPE_NULL, 0, self, none, &r),
        MPI_SUCCESS);
    TRY("bcast_init: uncommitted type", MPI_Bcast_init(&x, 1, uncommitted, 0, self, none, &r),
        MPI_SUCCESS);
    TRY("bcast_init: null buffer", MPI_Bcast_init(NULL, 1, INT, 0, self, none, &r), MPI_SUCCESS);
    TRY("bcast_init: null communicator", MPI_Bcast_init(&x, 1, INT, 0, MPI_COMM_NULL, none, &r),
        MPI_SUCCESS);
    TRY("bcast_init: null request", MPI_Bcast_init(&x, 1, INT, 0, self, none, NULL), MPI_SUCCESS);
    TRY("bcast_init_c: count", MPI_Bcast_init_c(&x, -1, INT, 0, self, none, &r), MPI_SUCCESS);
    r = MPI_REQUEST_NULL;
    TRY("start: null request", MPI_Start(&r), MPI_SUCCESS);
    TRY("startall: null request", MPI_Startall(1, &r), MPI_SUCCESS);
    TRY("startall: count", MPI_Startall(-1, &r), MPI_SUCCESS);
    TRY("request_free: null request", MPI_Request_free(&r), MPI_SUCCESS);
    TRY("cancel: null request", MPI_Cancel(&r), MPI_SUCCESS);
    TRY("wait: null pointer", MPI_Wait(NULL, MPI_STATUS_IGNORE), MPI_SUCCESS);
    TRY("test: null flag", MPI_Test(&r, NULL, MPI_STATUS_IGNORE), MPI_SUCCESS);
    TRY("waitall: count", MPI_Waitall(-1, &r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    r = (MPI_Request)0x1234;
    TRY("wait: no request", MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
    TRY("start: no request", MPI_Start(&r), MPI_SUCCESS);
    TRY("test: no request", MPI_Test(&r, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
}

/* A persistent broadcast in the wrong state. */
static void try_states(void) {
    MPI_Request r;
    MUST(MPI_Bcast_init(&x, 1, INT, 0, MPI_COMM_SELF, MPI_INFO_NULL, &r));
    TRY("cancel: inactive broadcast", MPI_Cancel(&r), MPI_SUCCESS);
    MUST(MPI_Start(&r));
    TRY("start: active", MPI_Start(&r), MPI_SUCCESS);
    TRY("startall: active", MPI_Startall(1, &r), MPI_SUCCESS);
    MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MUST(MPI_Request_free(&r));
}

/* Nothing of all this may have broken the window or the ranks' agreement. Errors are fatal again.
 */
static void still_good(void) {
    MPI_Request r;
    int right = (check_rank + 1) % check_nranks, left = (check_rank + check_nranks - 1);
    int32_t mine = 1000 + check_rank, sent = 77;
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
    MUST(MPI_Put(&mine, 1, INT, right, places[right] + (dynamic ? 12 : 3), 1, INT, win));
    MUST(MPI_Win_unlock(right, win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    CHECK(window[3] == 1000 + left % check_nranks, "the window is broken: %d", window[3]);
    MUST(MPI_Win_unlock(check_rank, win));
    if (check_rank)
        sent = 0;
    MUST(MPI_Bcast_init(&sent, 1, INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    MUST(MPI_Start(&r));
    MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK(sent == 77, "the broadcast is broken: %d", sent);
    MUST(MPI_Request_free(&r));
}

/* The error handler of a window: what was set is what is got and called. */
static void try_handlers(void) {
    MPI_Errhandler got;
    MUST(MPI_Win_get_errhandler(win, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL, "a new window's handler");
    MUST(MPI_Win_create_errhandler(on_win_error, &win_handler));
    MUST(MPI_Comm_create_errhandler(on_comm_error, &comm_handler));
    MUST(MPI_Win_set_errhandler(win, win_handler));
    MUST(MPI_Win_get_errhandler(win, &got));
    CHECK(got == win_handler, "the handler that was set");
    MUST(MPI_Errhandler_free(&got));
    win_calls = 0;
    MUST(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK(win_calls == 1 && handler_class == MPI_ERR_OTHER, "called %d times, class %d", win_calls,
          handler_class);
}

/* Windows of every flavour; `lane` is asked for where one node would give another. */
static const struct kind {
    const char *name, *lane;
} kinds[] = {{"allocated", NULL},
             {"allocated, packet", "packet"},
             {"allocated, native", "native"},
             {"created", NULL},
             {"lent", NULL},
             {"shared", NULL},
             {"dynamic", NULL},
             {"dynamic, native", "native"}};
enum { NKINDS = sizeof kinds / sizeof kinds[0], BYTES = 65536 };

/* `window` is 256 bytes of its memory; *memory is to be freed. False: several nodes share none. */
static bool open_window(const struct kind *kind, void **memory) {
    MPI_Info info;
    MPI_Comm node;
    int nlocal;
    MPI_Aint mine = 0;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &nlocal));
    MUST(MPI_Comm_free(&node));
    if (strcmp(kind->name, "shared") == 0 && nlocal < check_nranks)
        return false;
    MUST(MPI_Info_create(&info));
    if (kind->lane != NULL)
        MUST(MPI_Info_set(info, "tugboat_lane", kind->lane));
    kind_now = kind->name;
    dynamic = strncmp(kind->name, "dynamic", 7) == 0;
    *memory = NULL;
    if (strncmp(kind->name, "allocated", 9) == 0) {
        MUST(MPI_Win_allocate(256, 4, info, MPI_COMM_WORLD, &window, &win));
    } else if (strcmp(kind->name, "shared") == 0) {
        MUST(MPI_Win_allocate_shared(256, 4, info, MPI_COMM_WORLD, &window, &win));
    } else {
        MUST(MPI_Alloc_mem(strcmp(kind->name, "lent") == 0 ? BYTES : 256, MPI_INFO_NULL, memory));
        window = *memory;
        if (!dynamic)
            MUST(MPI_Win_create(window, 256, 4, info, MPI_COMM_WORLD, &win));
    }
    if (dynamic) {
        MUST(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win));
        MUST(MPI_Win_attach(win, window, 256));
        MUST(MPI_Get_address(window, &mine));
    }
    MUST(MPI_Allgather(&mine, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD));
    at = places[check_nranks - 1];
    memset(window, 0, 256);
    MUST(MPI_Info_free(&info));
    return true;
}

/* All that one rank can do wrong with the window. */
static void try_window(int target) {
    try_outside_epochs(target);
    try_inside_epochs(target);
    MUST(MPI_Win_lock_all(0, win));
    try_put_get(target);
    try_accumulate(target);
    try_requests(target);
    try_null_buffers(target);
    try_null_operands(target);
    try_misplaced(target);
    if (!dynamic)
        try_displacements(target);
    try_settings();
    MUST(MPI_Win_unlock_all(win));
}

static void test_window(const struct kind *kind) {
    void *memory;
    MPI_Group everybody;
    if (!open_window(kind, &memory))
        return;
    MUST(MPI_Win_get_group(win, &everybody));
    MUST(MPI_Group_incl(everybody, 0, NULL, &nobody));
    MUST(MPI_Group_free(&everybody));
    try_handlers();
    if (check_rank == 0)
        try_window(check_nranks - 1);
    if (check_rank == 0 && kind == kinds) {
        try_alone();
        try_windows();
        try_bcast_init();
        try_states();
    }
    check_barrier(MPI_COMM_WORLD);
    still_good();
    MUST(MPI_Errhandler_free(&win_handler));
    MUST(MPI_Errhandler_free(&comm_handler));
    MUST(MPI_Group_free(&nobody));
    if (dynamic)
        MUST(MPI_Win_detach(win, window));
    MUST(MPI_Win_free(&win));
    if (memory != NULL)
        MUST(MPI_Free_mem(memory));
}

/* The default handler ends the job; coming back from here is the mistake. */
static void be_fatal(void) {
    void *memory;
    (void)open_window(kinds, &memory);
    MPI_Win_lock_all(0, win);
    MPI_Put(&x, -1, INT, check_nranks - 1, 0, 1, INT, win);
    MPI_Win_unlock_all(win);
    printf("came back from a fatal error\n");
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "errors");
    CHECK(check_nranks <= 16, "at most 16 ranks");
    if (argc > 1 && strcmp(argv[1], "fatal") == 0) {
        be_fatal();
        return check_end();
    }
    MUST(MPI_Type_vector(2, 1, 2, INT, &uncommitted));
    MUST(MPI_Type_vector(2, 1, 2, INT, &vector));
    MUST(MPI_Type_commit(&vector));
    MUST(MPI_Op_create(add_up, 1, &user_op));
    for (int kind = 0; kind < NKINDS; kind++)
        test_window(&kinds[kind]);
    printf("%d lines\n", nlines);
    MUST(MPI_Op_free(&user_op));
    MUST(MPI_Type_free(&uncommitted));
    MUST(MPI_Type_free(&vector));
    return check_end();
}

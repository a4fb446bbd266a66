/*
 * device: memory of a device is the host's, on all ranks together, or is copied by its runtime.
 *
 *     device LIBRARY
 *
 * LIBRARY stands in for a device's runtime (device_stand_in.c), opened after MPI has begun. The
 * last rank alone has such memory in windows and collectives; the host takes it for what it is,
 * plain memory. Under the library windows over it are in the native lane, or in none of ours, and
 * persistent collectives pass. Then all ranks have origins and results there, which no CPU may
 * touch where the window is in a lane of ours.
 */
#include <dlfcn.h>

#include "check.h"

enum { N = 64, MANY = 30000 };

static int plain[N], pinned[N], managed[N];
static int *of_device; /* MANY of them */
static int *inside;    /* the same, where it may be looked at */
static void *(*allocate)(size_t);
static void *(*get_inside)(void);
static void (*close_device)(int);
static void (*know)(void *, size_t, int);
static int (*get_error)(void);

static void open_runtime(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL, "%s", dlerror());
    *(void **)&allocate = dlsym(library, "stand_in_allocate");
    *(void **)&get_inside = dlsym(library, "stand_in_inside");
    *(void **)&close_device = dlsym(library, "stand_in_close");
    *(void **)&know = dlsym(library, "stand_in_know");
    *(void **)&get_error = dlsym(library, "stand_in_error");
    of_device = allocate(MANY * sizeof(int));
    CHECK(of_device != NULL, "no memory of a device");
    inside = get_inside();
    know(pinned, sizeof pinned, 0);
    know(managed, sizeof managed, 1);
}

/* ---- windows and persistent collectives ---- */

/* The lane that the library gives; "" without it. */
static void get_lane(MPI_Win win, char lane[MPI_MAX_INFO_VAL]) {
    MPI_Info info;
    int flag, length = MPI_MAX_INFO_VAL;
    lane[0] = '\0';
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get_string(info, "tugboat_lane", &length, lane, &flag));
    MUST(MPI_Info_free(&info));
}

static bool is_native(const char *lane) {
    return strcmp(lane, "native") == 0;
}

static void see_window(void *memory, bool device, const char *usual) {
    char lane[MPI_MAX_INFO_VAL];
    MPI_Win win;
    int value = 100 + check_rank, right = (check_rank + 1) % check_nranks;
    int left = (check_rank + check_nranks - 1) % check_nranks;
    MUST(MPI_Win_create(memory, sizeof plain, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    get_lane(win, lane);
    CHECK(lane[0] == '\0' || strcmp(lane, device ? "native" : usual) == 0, "device %d, lane %s",
          device, lane);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(&value, 1, MPI_INT, right, 3, 1, MPI_INT, win));
    MUST(MPI_Win_fence(0, win));
    CHECK(((int *)memory)[3] == 100 + left, "put %d", ((int *)memory)[3]);
    MUST(MPI_Win_free(&win));
}

/* Numbers of the library's, which counts while there are handles for them. */
static MPI_T_pvar_session session;
static struct counter {
    const char *name;
    bool there;
    MPI_T_pvar_handle handle;
} persistent_taken = {.name = "tugboat_persistent_taken"},
  collective_taken = {.name = "tugboat_collective_taken"};

static void begin_counting(struct counter *counter) {
    int index, count;
    if (MPI_T_pvar_get_index(counter->name, MPI_T_PVAR_CLASS_COUNTER, &index))
        return;
    MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &counter->handle, &count));
    counter->there = true;
}

/* 0 without the library. */
static unsigned long long count_of(const struct counter *counter) {
    unsigned long long value = 0;
    if (counter->there)
        MUST(MPI_T_pvar_read(session, counter->handle, &value));
    return value;
}

static void see_collectives(int *memory, bool device) {
    MPI_Request requests[2];
    int sum = -1;
    unsigned long long before = count_of(&persistent_taken);
    MUST(MPI_Bcast_init(memory, N, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    MUST(MPI_Allreduce_init(&memory[N - 1], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &requests[1]));
    CHECK(!device || count_of(&persistent_taken) == before, "taken, with memory of a device");
    for (int i = 0; i < N; i++)
        memory[i] = check_rank == 0 ? i : -1;
    MUST(MPI_Start(&requests[0]));
    check_wait(&requests[0]);
    for (int i = 0; i < N; i++)
        CHECK(memory[i] == i, "broadcast: %d at %d", memory[i], i);
    MUST(MPI_Start(&requests[1]));
    check_wait(&requests[1]);
    CHECK(sum == check_nranks * (N - 1), "sum %d", sum);
    MUST(MPI_Request_free(&requests[0]));
    MUST(MPI_Request_free(&requests[1]));
}

/* Integers from an address on, as a type that is used from MPI_BOTTOM. */
static MPI_Datatype absolute(const int *address, int n) {
    MPI_Datatype type;
    MPI_Aint at;
    MUST(MPI_Get_address(address, &at));
    MUST(MPI_Type_create_hindexed(1, &n, &at, MPI_INT, &type));
    MUST(MPI_Type_commit(&type));
    return type;
}

/* The blocks that are received are described by their types alone. */
static void see_bottom(int *memory, bool device) {
    enum { MOST = 4 };
    int ones[MOST], zeros[MOST] = {0}, places[MOST], mine[MOST];
    MPI_Datatype to[MOST], from[MOST];
    MPI_Request request;
    for (int r = 0; r < check_nranks; r++) {
        ones[r] = 1;
        places[r] = r * (int)sizeof(int);
        mine[r] = 10 * check_rank + r;
        from[r] = MPI_INT;
        to[r] = absolute(&memory[r], 1);
    }
    unsigned long long before = count_of(&persistent_taken);
    MUST(MPI_Alltoallw_init(mine, ones, places, from, MPI_BOTTOM, ones, zeros, to, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &request));
    bool taken = count_of(&persistent_taken) > before;
    CHECK(!device || !taken, "taken, with memory of a device");
    MUST(MPI_Start(&request));
    check_wait(&request);
    for (int r = 0; r < check_nranks; r++)
        CHECK(memory[r] == 10 * r + check_rank, "alltoall: %d of %d", memory[r], r);
    MUST(MPI_Request_free(&request));
    for (int r = 0; r < check_nranks; r++)
        MUST(MPI_Type_free(&to[r]));
    before = count_of(&persistent_taken);
    MUST(MPI_Bcast_init(MPI_BOTTOM, 1, to[0] = absolute(memory, N), 0, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &request));
    CHECK(!device || count_of(&persistent_taken) == before, "taken, with memory of a device");
    MUST(MPI_Request_free(&request));
    MUST(MPI_Type_free(&to[0]));
}

/* ---- operations ---- */

static MPI_Win window;
static int *own; /* its memory here */
static int right, left;
static bool in_our_lane;

static void fill(int seed, int n) {
    for (int i = 0; i < n; i++)
        inside[i] = seed + i;
}

static void see(const char *what, const int *memory, int i, int expected) {
    CHECK(memory[i] == expected, "%s: %d at %d, not %d", what, memory[i], i, expected);
}

/* The operations so far are complete, and what is in the memory may be looked at. */
static void settle(void) {
    MUST(MPI_Win_flush_all(window));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_sync(window));
}

static void put_and_get(int n) {
    MPI_Request request;
    fill(100 * check_rank, n);
    MUST(MPI_Put(of_device, n, MPI_INT, right, 0, n, MPI_INT, window));
    settle();
    for (int i = 0; i < n; i++)
        see("put", own, i, 100 * left + i);
    check_barrier(MPI_COMM_WORLD);
    fill(-1, n + 1);
    int more = in_our_lane ? 1 : 0; /* the host fetches more than the target is said to have */
    MUST(MPI_Get(of_device, n + more, MPI_INT, right, 0, n, MPI_INT, window));
    settle();
    for (int i = 0; i < n; i++)
        see("get", inside, i, 100 * check_rank + i);
    see("behind a get", inside, n, -1 + n);
    check_barrier(MPI_COMM_WORLD);
    fill(7 * check_rank, n);
    MUST(MPI_Rput(of_device, n, MPI_INT, right, 0, n, MPI_INT, window, &request));
    check_wait(&request);
    settle();
    fill(0, n);
    MUST(MPI_Rget(of_device, n, MPI_INT, right, 0, n, MPI_INT, window, &request));
    check_wait(&request);
    for (int i = 0; i < n; i++)
        see("get with a request", inside, i, 7 * check_rank + i);
    check_barrier(MPI_COMM_WORLD);
}

static void accumulates(int n) {
    MPI_Request request;
    for (int i = 0; i < n; i++)
        own[i] = 1000 * check_rank;
    settle();
    fill(5, n);
    MUST(MPI_Accumulate(of_device, n, MPI_INT, right, 0, n, MPI_INT, MPI_SUM, window));
    settle();
    for (int i = 0; i < n; i++)
        see("accumulate", own, i, 1000 * check_rank + 5 + i);
    check_barrier(MPI_COMM_WORLD);
    int half = n / 2; /* reads one half, fetches into the other */
    fill(1, n);
    MUST(MPI_Rget_accumulate(of_device, half, MPI_INT, of_device + half, half, MPI_INT, right, 0,
                             half, MPI_INT, MPI_SUM, window, &request));
    check_wait(&request);
    settle();
    for (int i = 0; i < half; i++) {
        see("fetched", inside, half + i, 1000 * right + 5 + i);
        see("combined", own, i, 1000 * check_rank + 6 + 2 * i);
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Get_accumulate(NULL, 0, MPI_INT, of_device, 1, MPI_INT, right, 0, 1, MPI_INT,
                            MPI_NO_OP, window));
    settle();
    see("without an operation", inside, 0, 1000 * right + 6);
}

static void singles(void) {
    own[0] = 50 + check_rank;
    settle();
    inside[0] = 3;
    MUST(MPI_Fetch_and_op(of_device, of_device + 1, MPI_INT, right, 0, MPI_SUM, window));
    settle();
    see("fetch and op", own, 0, 53 + check_rank);
    see("what it fetched", inside, 1, 50 + right);
    inside[0] = 99;
    inside[2] = 53 + right;
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Compare_and_swap(of_device, of_device + 2, of_device + 1, MPI_INT, right, 0, window));
    settle();
    see("compare and swap", own, 0, 99);
    see("what it saw", inside, 1, 53 + right);
    check_barrier(MPI_COMM_WORLD);
}

/* Every other integer, forwards here and close together there, and the other way. */
static void derived(void) {
    MPI_Datatype vector, bottom = absolute(of_device, N);
    MUST(MPI_Type_vector(N, 1, 2, MPI_INT, &vector));
    MUST(MPI_Type_commit(&vector));
    fill(check_rank, 2 * N);
    MUST(MPI_Put(of_device, 1, vector, right, 0, N, MPI_INT, window));
    settle();
    for (int i = 0; i < N; i++)
        see("put of a vector", own, i, left + 2 * i);
    check_barrier(MPI_COMM_WORLD);
    fill(-500, 2 * N);
    MUST(MPI_Get(of_device, 1, vector, right, 0, N, MPI_INT, window));
    settle();
    for (int i = 0; i < 2 * N; i++)
        see("get of a vector", inside, i, i % 2 ? -500 + i : check_rank + i);
    check_barrier(MPI_COMM_WORLD);
    fill(9 + check_rank, N);
    MUST(MPI_Accumulate(MPI_BOTTOM, 1, bottom, right, 0, N, MPI_INT, MPI_REPLACE, window));
    settle();
    for (int i = 0; i < N; i++)
        see("accumulate from MPI_BOTTOM", own, i, 9 + left + i);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Type_free(&vector));
    MUST(MPI_Type_free(&bottom));
}

/* The gap of a pair is nobody's. */
static void pairs(void) {
    struct pair {
        double value;
        int index, gap;
    } *mine = (struct pair *)inside, *there = (struct pair *)of_device, *target = (void *)own;
    for (int i = 0; i < N; i++)
        target[i] = (struct pair){1.0, i, -7};
    settle();
    for (int i = 0; i < 2 * N; i++)
        mine[i] = (struct pair){i % 2 ? 2.0 : 0.5, 100 + i, -9};
    MUST(MPI_Get_accumulate(there, N, MPI_DOUBLE_INT, there + N, N, MPI_DOUBLE_INT, right, 0, N,
                            MPI_DOUBLE_INT, MPI_MAXLOC, window));
    settle();
    for (int i = 0; i < N; i++) {
        CHECK(target[i].index == (i % 2 ? 100 + i : i) && target[i].gap == -7, "pair %d: %d, %d", i,
              target[i].index, target[i].gap);
        CHECK(mine[N + i].index == i && mine[N + i].gap == -9, "fetched pair %d: %d, %d", i,
              mine[N + i].index, mine[N + i].gap);
    }
    check_barrier(MPI_COMM_WORLD);
}

static void see_operations(const char *wanted) {
    char lane[MPI_MAX_INFO_VAL];
    MPI_Info info;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "tugboat_lane", wanted));
    MUST(MPI_Win_allocate(MANY * sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &own, &window));
    MUST(MPI_Info_free(&info));
    get_lane(window, lane);
    in_our_lane = lane[0] != '\0' && !is_native(lane);
    close_device(in_our_lane);
    MUST(MPI_Win_lock_all(0, window));
    put_and_get(1);
    put_and_get(2);
    put_and_get(MANY - 1);
    accumulates(2);
    accumulates(MANY);
    singles();
    derived();
    pairs();
    MUST(MPI_Put(of_device, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window));
    MUST(MPI_Win_unlock_all(window));
    close_device(0);
    MUST(MPI_Win_free(&window));
}

/* An error is an error, and no crash: of the target, and of what does not fit. */
static void see_errors(void) {
    char lane[MPI_MAX_INFO_VAL];
    int class = MPI_SUCCESS;
    MUST(MPI_Win_allocate(N, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window));
    get_lane(window, lane);
    if (lane[0] != '\0' && !is_native(lane)) {
        close_device(1);
        MUST(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
        MUST(MPI_Win_lock_all(0, window));
        MPI_Error_class(MPI_Put(of_device, N, MPI_INT, right, 0, N, MPI_INT, window), &class);
        CHECK(class == MPI_ERR_RMA_RANGE, "class %d", class);
        MPI_Error_class(MPI_Get(of_device, 1, MPI_INT, right, 0, 2, MPI_INT, window), &class);
        CHECK(class == MPI_ERR_TRUNCATE, "class %d", class);
        MPI_Error_class(MPI_Put(of_device, -1, MPI_INT, right, 0, 1, MPI_INT, window), &class);
        CHECK(class == MPI_ERR_COUNT, "class %d", class);
        /* the array ends before the operation does */
        MPI_Error_class(MPI_Put(of_device + MANY - 1, N, MPI_CHAR, right, 0, N, MPI_CHAR, window),
                        &class);
        MUST(MPI_Win_unlock_all(window));
        close_device(0);
    }
    MUST(MPI_Win_free(&window));
}

/* ---- others ---- */

/* A dynamic window of ours: such memory cannot be attached. */
static void see_attach(MPI_Win dynamic) {
    char lane[MPI_MAX_INFO_VAL];
    int class = MPI_SUCCESS;
    get_lane(dynamic, lane);
    MUST(MPI_Win_attach(dynamic, plain, sizeof plain));
    if (lane[0] != '\0' && !is_native(lane)) {
        MUST(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
        MPI_Error_class(MPI_Win_attach(dynamic, of_device, N), &class);
        CHECK(class == MPI_ERR_RMA_ATTACH, "class %d", class);
    }
    MUST(MPI_Win_detach(dynamic, plain));
}

/* A dynamic window that is made now is the host's if that says that it works on such memory, or
 * cannot say, as Open MPI 4.1 can of CUDA's alone. */
static void see_later(const char *want) {
    char lane[MPI_MAX_INFO_VAL];
    MPI_Win dynamic;
    MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
    get_lane(dynamic, lane);
#ifndef OPEN_MPI
    CHECK(lane[0] == '\0' || strcmp(lane, want) == 0, "lane %s, not %s", lane, want);
#endif
    see_attach(dynamic);
    MUST(MPI_Win_free(&dynamic));
}

/* With TUGBOAT_COLLECTIVES=on some of them are the library's, whose schedule is made for plain
 * memory.
 */
static void see_broadcasts(void) {
    for (int i = 0; i < 12; i++) {
        bool device = i >= 8, taken = count_of(&collective_taken) > 0;
        int *buffer = device ? of_device : plain, *seen = device ? inside : plain;
        for (int k = 0; k < N; k++)
            seen[k] = check_rank == 0 ? 1000 * i + k : -1;
        close_device(taken);
        MUST(MPI_Bcast(buffer, N, MPI_INT, 0, MPI_COMM_WORLD));
        for (int k = 0; k < N; k++)
            see("broadcast", seen, k, 1000 * i + k);
        close_device(0);
    }
}

/* To nobody: who copies the buffer all the same had better be the host, who does not. */
static void see_replaced(void) {
    close_device(1);
    MUST(MPI_Sendrecv_replace(of_device, N, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    close_device(0);
}

int main(int argc, char **argv) {
    MPI_Win dynamic;
    int provided;
    check_begin(&argc, &argv, "device");
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    begin_counting(&persistent_taken);
    begin_counting(&collective_taken);
    right = (check_rank + 1) % check_nranks;
    left = (check_rank + check_nranks - 1) % check_nranks;
    char usual[MPI_MAX_INFO_VAL];
    MUST(MPI_Win_create(plain, sizeof plain, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    get_lane(window, usual);
    MUST(MPI_Win_free(&window));
    MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
    open_runtime(argv[1]);
    bool last = check_rank == check_nranks - 1;
    see_attach(dynamic); /* it is from before the runtime was there */
    MUST(MPI_Win_free(&dynamic));
    see_later(argc > 2 ? "native" : usual);
    see_window(plain, false, usual);
    see_window(pinned, false, usual);
    see_window(managed, false, usual);
    see_window(last ? of_device : plain, true, usual);
    see_collectives(plain, false);
    see_collectives(last ? of_device : plain, true);
    see_bottom(plain, false);
    see_bottom(last ? of_device : plain, true);
    see_operations("direct");
    see_operations("packet");
    see_errors();
    see_broadcasts();
    see_replaced();
    CHECK(get_error() == 0, "the runtime is left with error %d", get_error());
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
    check_end();
    return 0;
}

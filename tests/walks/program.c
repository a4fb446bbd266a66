/* Makes ordinary calls of MPI in every state that changes their way, and records which functions of
 * the library each takes, for walks.py.
 *
 * usage: mpiexec -n 2 walks_program allocate|create, with a library preloaded of which every
 * function was compiled with -finstrument-functions: it calls the two functions below, which stand
 * in this program. Rank 0 prints "base ADDRESS", of the library, and for every call "walk NAME" and
 * a line "DEPTH FUNCTION" for each function that the calling thread has entered.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS 200000

static struct {
    void *function;
    int depth;
} events[EVENTS];
static unsigned nevents;
static _Thread_local int depth;
static _Thread_local int records; /* this thread's entries are recorded */

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    depth++;
    if (!records || nevents == EVENTS)
        return;
    events[nevents].function = function;
    events[nevents++].depth = depth;
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function, (void)caller;
    depth--;
}

static void print_walk(const char *name) {
    if (nevents == EVENTS) {
        fprintf(stderr, "%s enters more functions than there is room for\n", name);
        exit(1);
    }
    printf("walk %s\n", name);
    for (unsigned i = 0; i < nevents; i++)
        printf("%d %p\n", events[i].depth, events[i].function);
}

#define WALK(name, call)                                                                           \
    do {                                                                                           \
        nevents = 0;                                                                               \
        records = 1;                                                                               \
        (void)(call);                                                                              \
        records = 0;                                                                               \
        if (rank == 0)                                                                             \
            print_walk(name);                                                                      \
    } while (0)

enum { ORIGIN = 0, TARGET = 1, BYTES = 4096, WARM = 200, ROW = 40 };
#define PAUSE_US 300000 /* all that sleeps sleeps deeply then */
#define COMPUTES_S 0.6  /* the target, while the origin makes its calls */

static int rank;

static MPI_Win make_window(const char *kind) {
    static uint64_t memory[BYTES / 8];
    void *base;
    MPI_Win win;
    if (strcmp(kind, "allocate") == 0)
        MPI_Win_allocate(BYTES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    else
        MPI_Win_create(memory, BYTES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    return win;
}

static int put(MPI_Win win) {
    static const uint64_t value = 7;
    return MPI_Put(&value, 1, MPI_UINT64_T, TARGET, 3, 1, MPI_UINT64_T, win);
}

static void walk_fences(MPI_Win win) {
    MPI_Win_fence(0, win);
    for (int i = 0; i < WARM; i++) {
        if (rank == ORIGIN)
            put(win);
        MPI_Win_fence(0, win);
    }
    if (rank == ORIGIN)
        WALK("put-in-fence", put(win));
    WALK("fence-of-one-put", MPI_Win_fence(0, win));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void walk_flushes(MPI_Win win) {
    const uint64_t one = 1;
    uint64_t old;
    WALK("put-first", put(win));
    MPI_Win_flush(TARGET, win);
    for (int i = 0; i < WARM; i++) {
        put(win);
        MPI_Win_flush(TARGET, win);
    }
    WALK("put-alone", put(win));
    WALK("flush-of-one-put", MPI_Win_flush(TARGET, win));
    for (int i = 0; i < ROW; i++)
        put(win);
    WALK("put-in-a-row", put(win));
    WALK("flush-of-a-row", MPI_Win_flush(TARGET, win));
    usleep(PAUSE_US);
    WALK("put-after-a-pause", put(win));
    WALK("flush-after-a-pause", MPI_Win_flush(TARGET, win));
    WALK("fetch-and-op", MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, TARGET, 2, MPI_SUM, win));
    MPI_Win_flush(TARGET, win);
}

static void compute(void) {
    for (volatile double begin = MPI_Wtime(); MPI_Wtime() - begin < COMPUTES_S;)
        ;
}

static void walk_window(MPI_Win win) {
    walk_fences(win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ORIGIN)
        walk_flushes(win);
    else
        compute();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void walk_broadcast(void) {
    char bytes[8] = {0};
    MPI_Request request;
    MPI_Bcast_init(bytes, sizeof(bytes), MPI_BYTE, ORIGIN, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 10 * WARM; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    WALK("bcast-start", MPI_Start(&request));
    WALK("bcast-wait", MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_Request_free(&request);
}

int main(int argc, char **argv) {
    int provided;
    Dl_info library;
    if (argc != 2 || dladdr(dlsym(RTLD_DEFAULT, "MPIX_Bcast_init"), &library) == 0) {
        fprintf(stderr, "usage: walks_program allocate|create, with the library preloaded\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("base %p\n", library.dli_fbase);
    walk_window(make_window(argv[1]));
    walk_broadcast();
    MPI_Finalize();
    return 0;
}

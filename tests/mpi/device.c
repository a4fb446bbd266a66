/*
 * device: memory of a device is left to the host, on all ranks together.
 *
 *     device LIBRARY
 *
 * LIBRARY stands in for a device's runtime (device_stand_in.c), opened after MPI has begun. The
 * last rank alone has such memory; the host takes it for what it is, plain memory. Under the
 * library windows over it are in the native lane, or in none of ours, and persistent collectives
 * pass.
 */
#include <dlfcn.h>

#include "check.h"

enum { N = 64 };

static int of_device[N], plain[N];

/* The lane that the library gives; "" without it. */
static void get_lane(MPI_Win win, char lane[MPI_MAX_INFO_VAL]) {
    MPI_Info info;
    int flag, length = MPI_MAX_INFO_VAL;
    lane[0] = '\0';
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get_string(info, "tugboat_lane", &length, lane, &flag));
    MUST(MPI_Info_free(&info));
}

static void see_window(void *memory, bool device) {
    char lane[MPI_MAX_INFO_VAL];
    MPI_Win win;
    int value = 100 + check_rank, right = (check_rank + 1) % check_nranks;
    int left = (check_rank + check_nranks - 1) % check_nranks;
    MUST(MPI_Win_create(memory, sizeof plain, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    get_lane(win, lane);
    CHECK(lane[0] == '\0' || (strcmp(lane, "native") == 0) == device, "device %d, lane %s", device,
          lane);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(&value, 1, MPI_INT, right, 3, 1, MPI_INT, win));
    MUST(MPI_Win_fence(0, win));
    CHECK(((int *)memory)[3] == 100 + left, "put %d", ((int *)memory)[3]);
    MUST(MPI_Win_free(&win));
}

/* How many persistent collectives the library has taken; 0 without it. */
static unsigned long long count_taken(MPI_T_pvar_session session) {
    static MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    unsigned long long taken = 0;
    int index, count;
    if (handle == MPI_T_PVAR_HANDLE_NULL) {
        if (MPI_T_pvar_get_index("tugboat_persistent_taken", MPI_T_PVAR_CLASS_COUNTER, &index))
            return 0;
        MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    }
    MUST(MPI_T_pvar_read(session, handle, &taken));
    return taken;
}

static void see_collectives(MPI_T_pvar_session session, int *memory, bool device) {
    MPI_Request requests[2];
    int sum = -1;
    unsigned long long before = count_taken(session);
    MUST(MPI_Bcast_init(memory, N, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    MUST(MPI_Allreduce_init(&memory[N - 1], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &requests[1]));
    CHECK(!device || count_taken(session) == before, "taken, with memory of a device");
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

int main(int argc, char **argv) {
    MPI_T_pvar_session session;
    int provided;
    void (*declare)(void *, size_t);
    check_begin(&argc, &argv, "device");
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    see_window(plain, false);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL, "%s", dlerror());
    *(void **)&declare = dlsym(library, "stand_in_declare");
    bool last = check_rank == check_nranks - 1;
    if (last)
        declare(of_device, sizeof of_device);
    see_window(plain, false);
    see_window(last ? of_device : plain, true);
    see_collectives(session, plain, false);
    see_collectives(session, last ? of_device : plain, true);
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
    check_end();
    return 0;
}

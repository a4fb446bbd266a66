/*
 * llcl_native: a rank that waits in the low-level layer gets the host's one-sided operations on.
 *
 * Windows are in the native lane (TUGBOAT_RMA=native): the host's, which need progress at the
 * target. Rank 0 waits for a signal and does nothing else; rank 1 sends it when a lock, a put and
 * an unlock of rank 0's window are over.
 */
#include "llcl_check.h"

enum { ROUNDS = 20, BYTES = 64 };

static tug_context *context;

static void put_natively(MPI_Win win, uint64_t value) {
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    MUST(MPI_Put(&value, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, win));
    MUST(MPI_Win_unlock(0, win));
}

static void signal_once(const struct ll_memory *remote, const struct ll_memory *local) {
    struct tug_counter ends = {0};
    const struct tug_write_signal_params p = {.dest_proc = 0,
                                              .dest_raddr = {&remote->keys[0], 8},
                                              .src_laddr = {local->registration, 8},
                                              .size_in_bytes = 8,
                                              .signal_raddr = {&remote->keys[0], 0},
                                              .value = 1,
                                              .on_complete = {tug_counter_add, &ends}};
    LL_TRY(context, tug_try_write_signal_async(context, &p));
    LL_GOOD(tug_counter_wait(context, &ends, 1));
}

int main(int argc, char **argv) {
    struct ll_memory remote, local;
    uint64_t *memory;
    MPI_Win win;
    ll_begin(&argc, &argv, "llcl_native");
    context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &remote, LL_REGISTERED, BYTES);
    ll_make(context, &local, LL_REGISTERED, BYTES);
    memory = calloc(1, sizeof(*memory));
    MUST(MPI_Win_create(memory, sizeof(*memory), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        ll_barrier(context);
        if (check_rank == 1) {
            put_natively(win, round);
            signal_once(&remote, &local);
        } else if (check_rank == 0) {
            tug_signal_wait(context, (const uint64_t *)remote.base, round);
            MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            CHECK(*memory == round, "round %d has %d", (int)round, (int)*memory);
            MUST(MPI_Win_unlock(0, win));
        }
    }
    MUST(MPI_Win_free(&win));
    free(memory);
    ll_end(context, &local);
    ll_end(context, &remote);
    ll_close(&context);
    return check_end();
}

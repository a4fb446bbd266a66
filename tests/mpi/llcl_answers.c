/*
 * llcl_answers: a rank whose waits are all over at once answers its peers.
 *
 * With TUGBOAT_PROGRESS=caller nothing but calls progresses a context. Rank 0 waits for what is
 * true already, by one kind of wait at a time, and does nothing else; rank 1 reads from its memory
 * until rank 0 has answered often enough, and tells it so by a write.
 */
#include "llcl_check.h"

enum { READS = 20, DONE = 64, BYTES = 128, PATIENCE_S = 60 };

static tug_context *context;

static bool always(void *unused) {
    (void)unused;
    return true;
}

static void wait_for_anything(void) {
    tug_wait(context, always, NULL);
}

static void wait_for_counter(void) {
    struct tug_counter counter = {0};
    LL_GOOD(tug_counter_wait(context, &counter, 0));
}

static void wait_for_signal(void) {
    static uint64_t signal;
    tug_signal_wait(context, &signal, 0);
}

/* Until rank 1 has written there. */
static void answer_by(void (*wait)(void), const char *name, const uint64_t *done, uint64_t round) {
    const double start = ll_now();
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != round) {
        wait();
        CHECK(ll_now() - start < PATIENCE_S, "no answer while rank 0 waits by %s", name);
    }
}

static void ask(const struct ll_memory *remote, const struct ll_memory *local, uint64_t round) {
    struct tug_counter ends = {0};
    const struct tug_read_params read = {.src_proc = 0,
                                         .src_raddr = {&remote->keys[0], 0},
                                         .dest_laddr = {local->registration, 0},
                                         .size_in_bytes = 8,
                                         .on_complete = {tug_counter_add, &ends}};
    const struct tug_write_params write = {.dest_proc = 0,
                                           .dest_raddr = {&remote->keys[0], DONE},
                                           .src_laddr = {local->registration, DONE},
                                           .size_in_bytes = 8,
                                           .on_complete = {tug_counter_add, &ends}};
    for (uint64_t i = 1; i <= READS; i++) {
        LL_TRY(context, tug_try_read_async(context, &read));
        LL_GOOD(tug_counter_wait(context, &ends, i));
    }
    memcpy(local->base + DONE, &round, sizeof(round));
    LL_TRY(context, tug_try_write_async(context, &write));
    LL_GOOD(tug_counter_wait(context, &ends, READS + 1));
}

int main(int argc, char **argv) {
    static const struct {
        void (*wait)(void);
        const char *name;
    } kinds[] = {{wait_for_anything, "tug_wait"},
                 {wait_for_counter, "tug_counter_wait"},
                 {wait_for_signal, "tug_signal_wait"}};
    struct ll_memory remote, local;
    ll_begin(&argc, &argv, "llcl_answers");
    context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &remote, LL_REGISTERED, BYTES);
    ll_make(context, &local, LL_REGISTERED, BYTES);
    for (uint64_t round = 1; round <= sizeof(kinds) / sizeof(kinds[0]); round++) {
        if (check_rank == 1)
            ask(&remote, &local, round);
        else
            answer_by(kinds[round - 1].wait, kinds[round - 1].name,
                      (const uint64_t *)(remote.base + DONE), round);
        ll_barrier(context);
    }
    ll_end(context, &local);
    ll_end(context, &remote);
    ll_close(&context);
    return check_end();
}

/*
 * llcl_flag: reads that nobody waits for in the library.
 *
 * Listing 6 of Endo and Taura (SWoPP 2016): a rank starts a read and looks at a flag that the
 * callback sets, and makes no other call. The offload thread has to complete the read when its
 * answer comes, and not at its next beat, 0.2 ms later. The other rank waits in MPI, or (argument
 * "compute") computes.
 */
#include "llcl_check.h"
#include <pthread.h>

enum { READS = 200, BATCHES = 9, END = 64, BYTES = 128, COMPUTE_MS = 100000 };
enum { MOST_US = 120, WAKES = 4 }; /* allowed to a read, a wake as long as it takes meanwhile */

static _Atomic bool flag;

static void set_flag(void *data, int status) {
    (void)data;
    CHECK(status == 0, "%s", tug_strerror(status));
    atomic_store(&flag, true);
}

/* ---- what the machine makes of a wake ---- */

static int mailbox[2];

static void *answer(void *argument) {
    char byte;
    while (read(mailbox[0], &byte, 1) == 1)
        atomic_store(&flag, true);
    return argument;
}

static double wake_once(void) {
    const double start = ll_now();
    atomic_store(&flag, false);
    CHECK(write(mailbox[1], "", 1) == 1, "no mail");
    while (!atomic_load(&flag))
        continue;
    return 1e6 * (ll_now() - start);
}

/* ---- the test ---- */

/* Microseconds from the call to the flag. */
static double read_once(tug_context *context, const struct tug_read_params *params) {
    const double start = ll_now();
    atomic_store(&flag, false);
    LL_TRY(context, tug_try_read_async(context, params));
    while (!atomic_load(&flag))
        continue;
    return 1e6 * (ll_now() - start);
}

/* Half of the reads take less; as do half of the wakes after them. */
static double median_us(tug_context *context, const struct ll_memory *from,
                        const struct ll_memory *to, double *wake_us) {
    static double took[READS], wakes[READS];
    const struct tug_read_params params = {.src_proc = 1,
                                           .src_raddr = {&from->keys[1], 0},
                                           .dest_laddr = {to->registration, 0},
                                           .size_in_bytes = 8,
                                           .on_complete = {set_flag, NULL}};
    memset(to->base, 0, 8);
    for (int i = 0; i < READS; i++)
        took[i] = read_once(context, &params);
    ll_all(to->base, 8, 0x5a, "what was read", __LINE__);
    for (int i = 0; i < READS; i++)
        wakes[i] = wake_once();
    *wake_us = check_median(wakes, READS);
    return check_median(took, READS);
}

/* Others may want the cores now and then: what is late for a reason of ours is late nearly always.
 */
static void read_in_time(tug_context *context, const struct ll_memory *from,
                         const struct ll_memory *to) {
    double took[BATCHES], wake;
    int late = 0;
    for (int i = 0; i < BATCHES; i++) {
        took[i] = median_us(context, from, to, &wake);
        late += took[i] > MOST_US + WAKES * wake;
    }
    printf("a read %.1f us, a wake %.1f us\n", check_median(took, BATCHES), wake);
    CHECK(late < BATCHES - 1,
          "a read took %.1f us, a wake %.1f: the thread did not hear of its end", took[BATCHES / 2],
          wake);
    memset(to->base, 0x11, 8);
    LL_GOOD(ll_write(context, 1, &from->keys[1], END, to->registration, 0, 8));
}

static void compute(const struct ll_memory *told) {
    const _Atomic uint64_t *end = (const _Atomic uint64_t *)(void *)(told->base + END);
    for (double start = ll_now(); atomic_load(end) == 0;)
        CHECK(ll_now() - start < 1e-3 * COMPUTE_MS, "computed for %d ms, and no end was told",
              COMPUTE_MS);
}

int main(int argc, char **argv) {
    static struct ll_memory from, to;
    const bool computes = argc > 1 && strcmp(argv[1], "compute") == 0;
    ll_begin(&argc, &argv, "llcl_flag");
    CHECK(check_nranks == 2, "wants two ranks");
    tug_context *context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &from, LL_REGISTERED, BYTES);
    ll_make(context, &to, LL_REGISTERED, BYTES);
    memset(from.base, 0, BYTES);
    memset(from.base, 0x5a, 8);
    ll_barrier(context);
    if (check_rank == 0) {
        pthread_t answerer;
        CHECK(pipe(mailbox) == 0 && pthread_create(&answerer, NULL, answer, NULL) == 0,
              "no thread");
        read_in_time(context, &from, &to);
        close(mailbox[1]);
        pthread_join(answerer, NULL);
        close(mailbox[0]);
    } else if (computes) {
        compute(&from);
    }
    ll_barrier(context);
    ll_end(context, &from);
    ll_end(context, &to);
    ll_close(&context);
    return check_end();
}

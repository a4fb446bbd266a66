/*
 * llcl_kill: a process that is killed in mid-transfer; for llcl_kill.sh, which sees how the job
 * ends and what is left of it.
 *
 * All ranks write and read blocks of all others without pause. After a while the last rank kills
 * itself by SIGKILL from a second thread. Errors of the operations then are what they may be.
 */
#include "llcl_check.h"
#include <pthread.h>
#include <signal.h>

enum { BYTES = 300000, OUT = 16 };

static struct ll_memory memory[LL_KINDS], local;

static void *strike(void *d) {
    (void)d;
    usleep(300000);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void on_any(void *d, int status) {
    (void)status;
    tug_counter_add(d, 0);
}

int main(int argc, char **argv) {
    pthread_t thread;
    struct tug_counter counter = {0};
    ll_begin(&argc, &argv, "llcl_kill");
    tug_context *context = ll_open(MPI_COMM_WORLD);
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_make(context, &memory[kind], (enum ll_kind)kind, BYTES);
    ll_make(context, &local, LL_REGISTERED, BYTES * 2);
    ll_barrier(context);
    printf("rank %d begins\n", check_rank);
    fflush(stdout);
    if (check_rank == check_nranks - 1)
        CHECK(pthread_create(&thread, NULL, strike, NULL) == 0, "no thread");
    for (uint64_t i = 0;; i++) {
        int to = (int)(i % (uint64_t)check_nranks);
        struct ll_memory *m = &memory[i % 3 == 0];
        size_t bytes = i % 5 == 0 ? BYTES : i % 5 * 1000 + 8;
        struct tug_write_params w = {to,    {&m->keys[to], 0}, {local.registration, 0},
                                     bytes, {NULL, NULL},      {on_any, &counter}};
        struct tug_read_params r = {
            to, {&m->keys[to], 0}, {local.registration, BYTES}, bytes, {on_any, &counter}};
        LL_TRY(context, tug_try_write_async(context, &w));
        LL_TRY(context, tug_try_read_async(context, &r));
        if (i % OUT == OUT - 1)
            tug_counter_wait(context, &counter, 2 * (i + 1));
    }
}

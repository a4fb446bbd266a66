/*
 * llcl_lost: a process that would send a signal is lost.
 *
 * Asked by a call, the last rank becomes another program, so it neither answers nor sends; the
 * launcher, which would end the job, sees that only when that program ends a second later.
 * tug_signal_wait() would not return: rank 0 waits for the signal or the end of its call, whichever
 * comes first, and gets TUG_ERR_PEER. The exit status says nothing; "right" has been printed.
 */
#include "llcl_check.h"

enum { ASK = 3 };

static tug_context *context;
static struct ll_memory memory;
static struct ll_record asked;

static void on_ask(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                   void *d) {
    (void)c, (void)caller, (void)payload, (void)bytes, (void)d;
    execlp("sleep", "sleep", "1", (char *)NULL);
    CHECK(false, "no program named sleep");
}

static bool come_or_lost(void *d) {
    return tug_signal_value(d) >= 1 || ll_done(&asked);
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_lost");
    context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &memory, LL_ALLOCATED, 4096);
    LL_GOOD(tug_call_register(context, ASK, on_ask, NULL));
    ll_barrier(context);
    if (check_rank > 0)
        for (;;)
            pause();
    struct tug_call_params ask = {
        .dest_proc = check_nranks - 1, .handler = ASK, .on_complete = ll_complete(&asked)};
    LL_TRY(context, tug_try_call_async(context, &ask));
    tug_wait(context, come_or_lost, memory.base);
    CHECK(tug_signal_value((uint64_t *)memory.base) == 0, "a signal that nobody has sent");
    CHECK(asked.status == TUG_ERR_PEER, "the call ended with: %s", tug_strerror(asked.status));
    printf("right\n");
    fflush(stdout);
    alarm(10); /* in case that the launcher does not end the job */
    pause();
}

/*
 * llcl_lost: a process that would send a signal is lost.
 *
 * Asked by a call, the last rank becomes another program, so it neither answers nor sends; the
 * launcher, which would end the job, sees that only when that program ends a second later.
 * tug_signal_wait() would not return: rank 0 waits for the signal or the end of its call, whichever
 * comes first, and gets TUG_ERR_PEER. The exit status says nothing; "right" has been printed.
 *
 * "forked": a child of the last rank stays as long as rank 0 does, and keeps no connection open.
 */
#include <signal.h>
#include <string.h>

#include "llcl_check.h"

enum { ASK = 3, LAUNCHERS = 20 /* descriptors, the lowest ones */ };

static tug_context *context;
static struct ll_memory memory;
static struct ll_record asked;

static void fork_child(pid_t stays_with) {
    const pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child > 0)
        return;
    for (int i = 0; i < LAUNCHERS; i++)
        close(i); /* the launcher waits for the end of its own */
    while (kill(stays_with, 0) == 0)
        usleep(10000);
    _exit(0);
}

static void on_ask(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                   void *forked) {
    pid_t first;
    (void)c, (void)caller, (void)bytes;
    memcpy(&first, payload, sizeof(first));
    if (forked != NULL)
        fork_child(first);
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
    LL_GOOD(tug_call_register(context, ASK, on_ask, argc > 1 ? &asked : NULL));
    ll_barrier(context);
    if (check_rank > 0)
        for (;;)
            pause();
    const pid_t self = getpid();
    struct tug_call_params ask = {.dest_proc = check_nranks - 1,
                                  .handler = ASK,
                                  .payload = &self,
                                  .size_in_bytes = sizeof(self),
                                  .on_complete = ll_complete(&asked)};
    LL_TRY(context, tug_try_call_async(context, &ask));
    tug_wait(context, come_or_lost, memory.base);
    CHECK(tug_signal_value((uint64_t *)memory.base) == 0, "a signal that nobody has sent");
    CHECK(asked.status == TUG_ERR_PEER, "the call ended with: %s", tug_strerror(asked.status));
    printf("right\n");
    fflush(stdout);
    alarm(10); /* in case that the launcher does not end the job */
    pause();
}

#include "host/polite.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "host/spin.h"

#define YIELDS 1000 /* a third of a millisecond on an idle core */
/* On a shared one each yield is a turn of all others that yield: 64 ranks on two cores that waited
 * for each other by a thousand of them were busy with little else. */
#define YIELDING_NS 1000000
#define NAP_PART 16 /* a nap is at most this part of the time waited so far */

static void nap(uint64_t waited_ns) {
    uint64_t ns = waited_ns / NAP_PART;
    ns = ns < TUG_NAP_LEAST_NS ? TUG_NAP_LEAST_NS : ns > TUG_NAP_MOST_NS ? TUG_NAP_MOST_NS : ns;
    (void)nanosleep(&(struct timespec){0, (long)ns}, NULL);
}

void tug_polite_until(bool (*done)(void *), void *argument) {
    uint64_t begin_ns = 0;
    for (unsigned looks = 0; !done(argument); looks++) {
        const uint64_t now_ns = tug_clock_ns();
        if (looks == 0)
            begin_ns = now_ns;
        tug_spin_vain = 0;
        if (looks < YIELDS && now_ns - begin_ns < YIELDING_NS)
            sched_yield();
        else
            nap(now_ns - begin_ns);
    }
}

bool tug_pending_is_over(void *argument) {
    struct tug_pending *pending = argument;
    int flag = 0;
    if (!pending->over) {
        pending->error = tug_host.Test(pending->request, &flag, pending->status);
        pending->over = flag || pending->error != MPI_SUCCESS;
    }
    return pending->over;
}

int tug_polite_wait(MPI_Request *request) {
    struct tug_pending pending = {.request = request, .status = MPI_STATUS_IGNORE};
    tug_polite_until(tug_pending_is_over, &pending);
    return pending.error;
}

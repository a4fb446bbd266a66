#include "host/polite.h"

#include <sched.h>
#include <time.h>

#define YIELDS 2000
#define NAP_NS 50000

int tug_polite_wait(MPI_Request *request) {
    const struct timespec nap = {0, NAP_NS};
    for (unsigned looks = 0;; looks++) {
        int flag = 0;
        int error = tug_host.Test(request, &flag, MPI_STATUS_IGNORE);
        if (flag || error != MPI_SUCCESS)
            return error;
        if (looks < YIELDS)
            sched_yield();
        else
            (void)nanosleep(&nap, NULL);
    }
}

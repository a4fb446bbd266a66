/*
 * spread: two ranks that find themselves on one core do not stay there as they wait for each other,
 * and their affinity masks are what they were.
 *
 * Both bind themselves to one core, again and again, take the old masks back, and do persistent
 * collectives. The library counts how often a rank leaves (TUGBOAT_STATS).
 */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"

enum { TIMES = 30, STARTS = 50, WORDS = 8 };

static void bind_to(const cpu_set_t *cpus) {
    CHECK(sched_setaffinity(0, sizeof(*cpus), cpus) == 0, "no such core");
}

static cpu_set_t mask(void) {
    cpu_set_t cpus;
    CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0, "no mask");
    return cpus;
}

/* The first core of rank 0's. */
static cpu_set_t first_of(const cpu_set_t *cpus) {
    cpu_set_t one;
    int core = 0;
    while (!CPU_ISSET(core, cpus))
        core++;
    MUST(MPI_Bcast(&core, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return one;
}

int main(int argc, char **argv) {
    int64_t mine[WORDS], sum[WORDS];
    MPI_Request request;
    check_begin(&argc, &argv, "spread");
    const cpu_set_t all = mask(), one = first_of(&all);
    MUST(MPI_Allreduce_init(mine, sum, WORDS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &request));
    for (int time = 0; time < TIMES; time++) {
        bind_to(&one);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        bind_to(&all);
        for (int start = 0; start < STARTS; start++) {
            for (int i = 0; i < WORDS; i++)
                mine[i] = (time + start) * (check_rank + 1) + i;
            MUST(MPI_Start(&request));
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int i = 0; i < WORDS; i++)
                CHECK(sum[i] == (int64_t)(time + start) * check_nranks * (check_nranks + 1) / 2 +
                                    (int64_t)check_nranks * i,
                      "word %d is %ld", i, (long)sum[i]);
        }
        const cpu_set_t now = mask();
        CHECK(CPU_EQUAL(&now, &all), "the mask is another in round %d", time);
    }
    MUST(MPI_Request_free(&request));
    return check_end();
}

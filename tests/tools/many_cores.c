/* Says that there are 16 cores, so that ranks that outnumber those of the machine go the ways of
 * ranks that have one each. */
#define _GNU_SOURCE
#include <sched.h>

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus) {
    (void)pid;
    CPU_ZERO_S(bytes, cpus);
    for (size_t cpu = 0; cpu < 16; cpu++)
        CPU_SET_S(cpu, bytes, cpus);
    return 0;
}

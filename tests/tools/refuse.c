/* Runs a program on a kernel that refuses some system calls, as an older one or a container does:
 *
 *     refuse ENOSYS|EPERM CALL[,CALL...] PROGRAM [ARG]...
 *
 * A filter (seccomp) answers these calls with the error, in the program and in all that it starts.
 * Exit status 77, "skipped", where filters cannot be had or the machine has no such call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SKIPPED 77
#define CALLS_MOST 32

static const struct {
    const char *name;
    unsigned number;
} known[] = {
    {"getrandom", SYS_getrandom},
    {"memfd_create", SYS_memfd_create},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"sched_setattr", SYS_sched_setattr},
    {"timerfd_create", SYS_timerfd_create},
    {"eventfd2", SYS_eventfd2},
    {"epoll_create1", SYS_epoll_create1},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"membarrier", SYS_membarrier},
};

/* -1: unknown. */
static long number_of(const char *name) {
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].number;
    return -1;
}

/* Refuses the calls, one behind the other: whatever is not one of them goes on to the end. */
static int refuse(const unsigned *numbers, size_t n, int error) {
    struct sock_filter filter[2 * CALLS_MOST + 2];
    struct sock_fprog program = {.filter = filter};
    filter[program.len++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < n; i++) {
        filter[program.len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
        filter[program.len++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA));
    }
    filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
    unsigned numbers[CALLS_MOST];
    size_t n = 0;
    if (argc < 4 || (strcmp(argv[1], "ENOSYS") != 0 && strcmp(argv[1], "EPERM") != 0)) {
        (void)fprintf(stderr, "usage: refuse ENOSYS|EPERM CALL[,CALL...] PROGRAM [ARG]...\n");
        return 2;
    }
    for (char *name = strtok(argv[2], ","); name != NULL; name = strtok(NULL, ",")) {
        const long number = number_of(name);
        if (number < 0 || n == CALLS_MOST) {
            (void)fprintf(stderr, "refuse: no such call: %s\n", name);
            return 2;
        }
        numbers[n++] = (unsigned)number;
    }
    if (refuse(numbers, n, strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS) != 0) {
        (void)printf("skipped: no system call filters here: %s\n", strerror(errno));
        return SKIPPED;
    }
    (void)execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 2;
}

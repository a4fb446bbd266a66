/*
 * One run of `tugboat compare`: a process group, its end, and what it took. See compare.h.
 *
 * This process is the reaper of what its children leave behind (PR_SET_CHILD_SUBREAPER), so the CPU
 * time of a rank counts even where the launcher does not wait for it, and a run that is broken off
 * can be ended to its last process.
 */
#include "cmd/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define STRAGGLERS_MS 1000 /* to what outlives the command, and to what is asked to end: */
#define ENDING_MS 5000

static sigset_t waited_for, before;

int tug_run_prepare(void) {
    sigemptyset(&waited_for);
    sigaddset(&waited_for, SIGCHLD);
    sigaddset(&waited_for, SIGINT);
    sigaddset(&waited_for, SIGTERM);
    sigaddset(&waited_for, SIGHUP);
    /* who ignores it, as some that start programs do, is told of no end */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || sigprocmask(SIG_BLOCK, &waited_for, &before) != 0)
        return -1;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* In the child. Does not return; the error goes to the pipe, which an execution closes. */
static _Noreturn void become(char *const argv[], const struct tug_run_files *files, int errors) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &before, NULL);
    dup2(files->in, STDIN_FILENO);
    dup2(files->out, STDOUT_FILENO);
    dup2(files->err, STDERR_FILENO);
    execvp(argv[0], argv);
    const int error = errno;
    const ssize_t written = write(errors, &error, sizeof error);
    (void)written;
    _exit(127);
}

/* Starts the command; its process id, or -1 and errno. */
static pid_t start(char *const argv[], const struct tug_run_files *files, int *exec_error) {
    int errors[2];
    *exec_error = 0;
    if (pipe2(errors, O_CLOEXEC) != 0)
        return -1;
    fflush(NULL);
    const pid_t leader = fork();
    const int error = errno;
    if (leader == 0)
        become(argv, files, errors[1]);
    close(errors[1]);
    if (leader > 0) {
        setpgid(leader, leader); /* whoever is first; the other finds it done */
        if (read(errors[0], exec_error, sizeof *exec_error) != sizeof *exec_error)
            *exec_error = 0;
    }
    close(errors[0]);
    errno = error;
    return leader;
}

/* Takes note of all that have ended. False: there are no children. */
static bool reap(pid_t leader, struct tug_run *run, bool *ended) {
    for (;;) {
        int status;
        const pid_t child = waitpid(-1, &status, WNOHANG);
        if (child <= 0)
            return child == 0;
        if (child == leader) {
            run->status = status;
            *ended = true;
        }
    }
}

/* The next signal of ours within so many milliseconds (negative: whenever); 0: none. */
static int wait_signal(int64_t ms) {
    const struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    const int signal =
        ms < 0 ? sigwaitinfo(&waited_for, NULL) : sigtimedwait(&waited_for, NULL, &limit);
    return signal > 0 ? signal : 0;
}

/* Until the command has ended, or (all) all its processes that are ours to wait for, time is up, or
 * a signal comes. True if they have. */
static bool wait_end(pid_t leader, bool all, int64_t ms, struct tug_run *run, bool *ended) {
    const uint64_t begin_ns = tug_clock_ns();
    for (;;) {
        const bool children = reap(leader, run, ended);
        if (!children || (*ended && !all))
            return true;
        const int64_t spent_ms = (int64_t)((tug_clock_ns() - begin_ns) / 1000000);
        if (ms >= 0 && spent_ms >= ms)
            return false;
        const int signal = wait_signal(ms < 0 ? -1 : ms - spent_ms);
        if (signal != 0 && signal != SIGCHLD) {
            run->signal = signal;
            return false;
        }
    }
}

/* Kills the children of this process; those that they leave become its children. */
static void kill_children(void) {
    char name[64];
    int child;
    snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(name, "re");
    if (children == NULL)
        return;
    while (fscanf(children, "%d", &child) == 1)
        kill(child, SIGKILL);
    fclose(children);
}

/* Asks first: a launcher that is told to end takes its ranks along, wherever they are. */
static void end_all(pid_t leader, int signal, struct tug_run *run, bool *ended) {
    if (!*ended) {
        kill(-leader, signal);
        (void)wait_end(leader, false, ENDING_MS, run, ended); /* a second signal: no more time */
    }
    kill(-leader, SIGKILL);
    for (int i = 0; i < 100; i++) {
        kill_children();
        if (wait_end(leader, true, 10, run, ended))
            return;
    }
}

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

int tug_run(char *const argv[], const struct tug_run_files *files, struct tug_run *run) {
    struct rusage first, last;
    bool ended = false;
    *run = (struct tug_run){0};
    getrusage(RUSAGE_CHILDREN, &first);
    const uint64_t begin_ns = tug_clock_ns();
    const pid_t leader = start(argv, files, &run->exec_error);
    if (leader < 0)
        return -1;
    const bool all_well = wait_end(leader, false, -1, run, &ended);
    run->wall_s = (double)(tug_clock_ns() - begin_ns) * 1e-9;
    if (!all_well)
        end_all(leader, run->signal, run, &ended);
    else if (run->status != 0)
        end_all(leader, SIGTERM, run, &ended);
    else if (!wait_end(leader, true, STRAGGLERS_MS, run, &ended) && run->signal != 0)
        end_all(leader, run->signal, run, &ended);
    getrusage(RUSAGE_CHILDREN, &last);
    run->cpu_s = seconds(last.ru_utime) - seconds(first.ru_utime) + seconds(last.ru_stime) -
                 seconds(first.ru_stime);
    return 0;
}

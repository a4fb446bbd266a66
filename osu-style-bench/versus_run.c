/* versus_run.c: runs one command with a time limit and keeps what it prints (see versus.h).
 *
 * Invariants: the command is the leader of a process group of its own, and that group is gone when
 * versus_run() returns after a failure: launchers leave ranks behind when they are killed alone.
 * stdout is kept through a pipe; stderr goes to an unnamed file, of which the end is shown when
 * the command fails.
 * Threading: one command at a time; versus_run_kill() is safe in a signal handler.
 */
#include "versus.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t running_group;

struct output {
    char *text;
    size_t length, room;
};

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void versus_run_kill(void) {
    if (running_group > 0)
        kill(-(pid_t)running_group, SIGKILL);
}

/* Reads what is there. Returns false at the end of the stream. */
static bool output_read(struct output *output, int fd) {
    for (;;) {
        if (output->room - output->length < 4096) {
            size_t room = output->room * 2 + 8192;
            char *text = realloc(output->text, room);
            if (text == NULL)
                return false;
            output->text = text;
            output->room = room;
        }
        ssize_t n = read(fd, output->text + output->length, output->room - output->length - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        output->text[output->length + (size_t)n] = '\0';
        if (n == 0)
            return false;
        output->length += (size_t)n;
    }
}

static _Noreturn void become(char *const argv[], int out, int err) {
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Asks first: a launcher that is told to end takes its ranks along, wherever they are. */
static void kill_group(pid_t pid, int *status) {
    kill(-pid, SIGTERM);
    for (int i = 0; i < 20; i++) {
        if (waitpid(pid, status, WNOHANG) != 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (i == 19) {
            kill(-pid, SIGKILL);
            waitpid(pid, status, 0);
        }
    }
    kill(-pid, SIGKILL); /* whoever outlived the leader */
}

/* Returns false when time ran out. A background process may hold the pipe open after the command
 * has ended, so the command's end counts, not the pipe's. */
static bool wait_for_end(pid_t pid, int fd, double timeout_s, struct output *output, int *status) {
    double end_s = now_s() + timeout_s;
    bool open = true;
    for (;;) {
        struct pollfd source = {.fd = open ? fd : -1, .events = POLLIN};
        poll(&source, 1, 20);
        if (open)
            open = output_read(output, fd);
        if (waitpid(pid, status, WNOHANG) == pid) {
            if (open)
                output_read(output, fd);
            return true;
        }
        if (now_s() > end_s)
            return false;
    }
}

/* The last line that says something, for the one-line reason. */
static void last_line(int fd, char *line, size_t bytes) {
    char text[4096];
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - (off_t)sizeof text + 1 : 0;
    ssize_t n = pread(fd, text, sizeof text - 1, from);
    text[n > 0 ? n : 0] = '\0';
    size_t length = strlen(text);
    while (length > 0 && strchr("\n\r\t =", text[length - 1]) != NULL)
        text[--length] = '\0';
    const char *newline = strrchr(text, '\n');
    snprintf(line, bytes, "%s", newline != NULL ? newline + 1 : text);
}

static bool judge(int status, int err, char *failure, size_t bytes) {
    char line[200];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    last_line(err, line, sizeof line);
    if (WIFEXITED(status))
        snprintf(failure, bytes, "exit status %d: %s", WEXITSTATUS(status), line);
    else
        snprintf(failure, bytes, "killed by signal %d: %s", WTERMSIG(status), line);
    return false;
}

char *versus_run(char *const argv[], double timeout_s, char *failure, size_t failure_bytes) {
    int out[2], status = 0;
    struct output output = {.text = calloc(1, 1), .room = 1};
    FILE *err = tmpfile();
    if (output.text == NULL || err == NULL || pipe2(out, O_CLOEXEC) != 0) {
        snprintf(failure, failure_bytes, "cannot be started: %s", strerror(errno));
        goto fail;
    }
    pid_t pid = fork();
    if (pid == 0)
        become(argv, out[1], fileno(err));
    close(out[1]);
    if (pid < 0) {
        snprintf(failure, failure_bytes, "cannot be started: %s", strerror(errno));
        close(out[0]);
        goto fail;
    }
    setpgid(pid, pid); /* both sides do it: whoever comes first */
    running_group = pid;
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    bool ended = wait_for_end(pid, out[0], timeout_s, &output, &status);
    if (!ended) {
        kill_group(pid, &status);
        snprintf(failure, failure_bytes, "not done after %g s", timeout_s);
    }
    running_group = 0;
    close(out[0]);
    if (ended && judge(status, fileno(err), failure, failure_bytes)) {
        fclose(err);
        return output.text;
    }
    if (ended)
        kill(-pid, SIGKILL);
fail:
    if (err != NULL)
        fclose(err);
    free(output.text);
    return NULL;
}

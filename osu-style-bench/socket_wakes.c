/* socket_wakes.c: how long does a message of 8 bytes over a bare TCP connection take to a process
 * that computes, and its answer back, one at a time after a pause?
 *
 * The limit that single operations between nodes are held against: no MPI, two processes, one
 * connection by the loopback device. The server's first thread computes, or sleeps; its second
 * waits in epoll_wait() and answers at once. The client computes, or sleeps, for --pause-ms, sends
 * 8 bytes and waits in epoll_wait() for them to come back. So two threads have to be woken, one at
 * each end, which is the least that is possible without anybody polling. As the offload thread of
 * a library may, the server's second thread asks for prompt wakes: a short slice and, where the
 * user may have it, a better nice value (--ordinary: it does not).
 *
 * Threading: the server process has two threads, which share nothing that changes; the client has
 * one.
 */
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TIMES = 10000, PROMPT_SLICE_NS = 100000, PROMPT_NICE = -10 };

static const char help_text[] =
    "usage: socket_wakes [options]\n"
    "How long does a message of 8 bytes over TCP to a process that computes take, answer "
    "included?\n\n"
    "  --times N      messages for each row (40)\n"
    "  --pause-ms X   before each of them (50)\n"
    "  --clients A,B  what the client does before (computes,sleeps)\n"
    "  --servers A,B  what the server does meanwhile (computes,sleeps)\n"
    "  --ordinary     the server's second thread does not ask for prompt wakes\n"
    "  --csv          CSV instead of the table\n"
    "  --validate     an answer that is not the message is an error\n"
    "  --corrupt      the first answer is damaged: the run must then fail\n"
    "  --help         this text\n";

static long ntimes = 40;
static double pause_ms = 50;
static const char *clients = "computes,sleeps", *servers = "computes,sleeps";
static bool ordinary, csv, validate, corrupt;
static double times_us[MOST_TIMES];
static long nwrong;

static _Noreturn void fail(const char *what) {
    perror(what);
    exit(2);
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void compute_until(double end_us) {
    static volatile double x = 1;
    while (now_us() < end_us)
        for (int i = 0; i < 2000; i++)
            x = x * 1.0000001 + 1e-9;
}

static void sleep_us(double us) {
    const struct timespec pause = {.tv_sec = (time_t)(us / 1e6),
                                   .tv_nsec = (long)((us - 1e6 * (double)(long)(us / 1e6)) * 1e3)};
    nanosleep(&pause, NULL);
}

/* Linux' struct sched_attr, which glibc 2.36 does not declare. */
static void ask_for_prompt_wakes(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof attr, .nice = PROMPT_NICE, .runtime = PROMPT_SLICE_NS};
    if (ordinary)
        return;
    if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0) {
        attr.nice = 0;
        (void)syscall(SYS_sched_setattr, 0, &attr, 0);
    }
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
}

/* ---- the connection ---- */

static int listen_at(struct sockaddr_in *at) {
    socklen_t bytes = sizeof *at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (listener < 0 || bind(listener, (struct sockaddr *)at, sizeof *at) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)at, &bytes) != 0)
        fail("socket_wakes: a listener");
    return listener;
}

/* An epoll set that holds the socket alone. */
static int watch(int stream) {
    const int on = 1;
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC);
    if (setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 || set < 0 ||
        epoll_ctl(set, EPOLL_CTL_ADD, stream, &event) != 0)
        fail("socket_wakes: a connection");
    return set;
}

/* Waits for the 8 bytes. False: the connection has ended. */
static bool receive(int set, int stream, uint64_t *word) {
    struct epoll_event event;
    while (epoll_wait(set, &event, 1, -1) < 0)
        ;
    return recv(stream, word, sizeof *word, MSG_WAITALL) == sizeof *word;
}

/* ---- the server ---- */

static void *answer(void *argument) {
    const int stream = *(const int *)argument, set = watch(stream);
    uint64_t word;
    ask_for_prompt_wakes();
    while (receive(set, stream, &word) && send(stream, &word, sizeof word, MSG_NOSIGNAL) > 0)
        ;
    _exit(0);
}

static _Noreturn void serve(int listener, bool computes) {
    pthread_t thread;
    int stream = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (stream < 0 || pthread_create(&thread, NULL, answer, &stream) != 0)
        fail("socket_wakes: the server");
    for (;;)
        if (computes)
            compute_until(now_us() + 1e6);
        else
            pause();
}

/* ---- the client ---- */

static double ask(int set, int stream, uint64_t word) {
    uint64_t back = 0;
    double begin_us = now_us();
    if (send(stream, &word, sizeof word, MSG_NOSIGNAL) != sizeof word ||
        !receive(set, stream, &back))
        fail("socket_wakes: no answer");
    double us = now_us() - begin_us;
    back ^= corrupt;
    corrupt = false;
    nwrong += back != word;
    return us;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const char *client, const char *server) {
    const double ranks[] = {0.25, 0.5, 0.75, 0.95};
    double sum_us = 0;
    for (long i = 0; i < ntimes; i++)
        sum_us += times_us[i];
    qsort(times_us, (size_t)ntimes, sizeof times_us[0], compare_doubles);
    printf(csv ? "%s,%s,%.2f" : "%-12s%-12s%12.2f", client, server, sum_us / (double)ntimes);
    for (int i = 0; i < 4; i++)
        printf(csv ? ",%.2f" : "%12.2f", times_us[(long)(ranks[i] * (double)(ntimes - 1) + 0.5)]);
    printf(csv ? ",%ld\n" : "%12ld\n", ntimes);
    fflush(stdout);
}

static void measure(const char *client, const char *server) {
    enum { NWARM = 3 };
    const bool client_computes = strcmp(client, "computes") == 0;
    struct sockaddr_in at;
    int listener = listen_at(&at), stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t child = fork();
    if (child == 0)
        serve(listener, strcmp(server, "computes") == 0);
    if (child < 0 || stream < 0 || connect(stream, (struct sockaddr *)&at, sizeof at) != 0)
        fail("socket_wakes: the client");
    int set = watch(stream);
    for (long i = -NWARM; i < ntimes; i++) {
        if (client_computes)
            compute_until(now_us() + pause_ms * 1e3);
        else
            sleep_us(pause_ms * 1e3);
        double us = ask(set, stream, (uint64_t)i * 0x9e3779b97f4a7c15u + 1);
        if (i >= 0)
            times_us[i] = us;
    }
    close(stream);
    close(set);
    close(listener);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    print_row(client, server);
}

/* ---- main ---- */

static void read_options(int argc, char **argv) {
    static const struct option options[] = {
        {"times", required_argument, NULL, 't'},   {"pause-ms", required_argument, NULL, 'p'},
        {"clients", required_argument, NULL, 'C'}, {"servers", required_argument, NULL, 'S'},
        {"ordinary", no_argument, NULL, 'o'},      {"csv", no_argument, NULL, 'c'},
        {"validate", no_argument, NULL, 'v'},      {"corrupt", no_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        ordinary |= option == 'o';
        csv |= option == 'c';
        validate |= option == 'v';
        corrupt |= option == 'x';
        if (option == 't')
            ntimes = strtol(optarg, NULL, 10);
        else if (option == 'p')
            pause_ms = strtod(optarg, NULL);
        else if (option == 'C')
            clients = optarg;
        else if (option == 'S')
            servers = optarg;
        else if (option == 'h' || option == '?') {
            fputs(help_text, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
    if (ntimes < 1 || ntimes > MOST_TIMES || !(pause_ms >= 0)) {
        fprintf(stderr, "socket_wakes: --times 1..%d, --pause-ms >= 0\n", MOST_TIMES);
        exit(2);
    }
}

int main(int argc, char **argv) {
    static const char *const doings[] = {"computes", "sleeps"};
    read_options(argc, argv);
    if (csv)
        puts("key:client,key:server,lower:mean_us,q1_us,median_us,q3_us,p95_us,times");
    else
        printf("%-12s%-12s%12s%12s%12s%12s%12s%12s\n", "client", "server", "mean_us", "q1_us",
               "median_us", "q3_us", "p95_us", "times");
    for (int i = 0; i < 4; i++)
        if (strstr(clients, doings[i % 2]) != NULL && strstr(servers, doings[i / 2]) != NULL)
            measure(doings[i % 2], doings[i / 2]);
    if (!validate)
        return 0;
    printf(nwrong > 0 ? "# validation: FAILED, %ld words wrong\n"
                      : "# validation: all data right\n",
           nwrong);
    return nwrong > 0;
}

/*
 * llcl_flood: another program connects to the port of a rank, again and again, and the ranks do not
 * mind.
 *
 * The stranger is a process without MPI, begun before MPI is. First it connects thousands of times
 * and says nothing, before the ranks have had to do with each other: their own first connection is
 * to come through. Then it connects as fast as it can, in several manners, and the median of a
 * write is held against that beside a stranger as busy who connects to a port of its own: both are
 * measured in turns, and the best turn counts, because other programs want the cores, too. What was
 * written is right.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include "port.h"

enum { BYTES = 8, OPEN_MOST = 1000, SILENT_MOST = 10000, WRITES_MOST = 100000, ROUNDS = 6 };

#define PHASE_S 0.08
#define FIRST_MOST_S 15.0
#define RATIO_GOOD 1.2 /* on a quiet machine in the first round or the second */
#define RATIO_MOST 2.0

enum manner { NOTHING, NONSENSE, SLOWLY, MANNERS, STAND, LEAVE };
static const char *const manners[MANNERS] = {"nothing", "nonsense", "a byte at a time"};

struct command {
    enum manner manner; /* STAND: connects SILENT_MOST times and stays; LEAVE: ends those */
    bool at_home;       /* to a port of the stranger's own */
    struct sockaddr_storage port;
};

/* ---- the stranger ---- */

static struct {
    int commands, answers; /* pipes */
    int home, sockets[SILENT_MOST];
    struct sockaddr_storage port; /* of `home` */
    int at;
} stranger;

static void leave(int at) {
    const struct linger at_once = {1, 0};
    if (stranger.sockets[at] < 0)
        return;
    (void)setsockopt(stranger.sockets[at], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(stranger.sockets[at]);
    stranger.sockets[at] = -1;
}

/* One more connection, in place of an old one. */
static void come(const struct sockaddr_storage *port, enum manner manner, int most) {
    static const char text[] = "tugbtcp6nonsense";
    stranger.at = (stranger.at + 1) % most;
    leave(stranger.at);
    int fd = socket(port->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)connect(fd, (const struct sockaddr *)port, sizeof *port);
    if (fd >= 0 && manner == NONSENSE)
        (void)send(fd, text + 8, 8, MSG_NOSIGNAL);
    if (fd >= 0 && manner == SLOWLY)
        (void)send(fd, text, 1, MSG_NOSIGNAL);
    stranger.sockets[stranger.at] = fd;
    const int old = stranger.sockets[(stranger.at + most / 2) % most];
    if (old >= 0 && manner == SLOWLY)
        (void)send(old, text + 1, 1, MSG_NOSIGNAL);
}

static void receive_at_home(void) {
    const int fd = accept(stranger.home, NULL, NULL);
    if (fd >= 0)
        close(fd);
}

/* Until the next command. Returns how often it has connected. */
static int flood(const struct command *command) {
    struct pollfd next = {.fd = stranger.commands, .events = POLLIN};
    int n = 0;
    for (; n % 16 != 0 || poll(&next, 1, 0) == 0; n++) {
        come(command->at_home ? &stranger.port : &command->port, command->manner, OPEN_MOST);
        if (command->at_home)
            receive_at_home();
    }
    return n;
}

static void leave_all(void) {
    for (int i = 0; i < SILENT_MOST; i++)
        leave(i);
}

static int do_command(const struct command *command) {
    int n = 0;
    if (command->manner < MANNERS)
        n = flood(command);
    else if (command->manner == STAND)
        for (; n < SILENT_MOST; n++)
            come(&command->port, NOTHING, SILENT_MOST);
    if (command->manner != STAND)
        leave_all();
    return n;
}

static void be_stranger(void) {
    struct command command;
    socklen_t bytes = sizeof stranger.port;
    struct sockaddr_in home = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
        most.rlim_cur = most.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &most);
    }
    for (int i = 0; i < SILENT_MOST; i++)
        stranger.sockets[i] = -1;
    stranger.home = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (stranger.home < 0 || bind(stranger.home, (struct sockaddr *)&home, sizeof home) != 0 ||
        listen(stranger.home, OPEN_MOST) != 0 ||
        getsockname(stranger.home, (struct sockaddr *)&stranger.port, &bytes) != 0)
        _exit(1);
    while (read(stranger.commands, &command, sizeof command) == sizeof command) {
        const int n = do_command(&command);
        if (write(stranger.answers, &n, sizeof n) != sizeof n)
            break;
    }
    _exit(0);
}

static pid_t begin_stranger(int *commands, int *answers) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0)
        exit(1);
    const pid_t pid = fork();
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        stranger.commands = to[0];
        stranger.answers = from[1];
        be_stranger();
    }
    close(to[0]);
    close(from[1]);
    *commands = to[1];
    *answers = from[0];
    return pid;
}

/* ---- the ranks ---- */

static struct ll_memory memory, local;
static tug_context *context;
static struct sockaddr_storage port;
static int commands, answers;
static double took[WRITES_MOST];

/* A command that does not end by itself does by the next. */
static void order(enum manner manner, bool at_home) {
    const struct command command = {manner, at_home, port};
    CHECK(write(commands, &command, sizeof command) == sizeof command, "the stranger has ended");
}

static int ask(void) {
    int n = 0;
    CHECK(read(answers, &n, sizeof n) == sizeof n, "the stranger has ended");
    return n;
}

/* Of a write to the other rank, in us. */
static double median(void) {
    int n = 0;
    for (const double end = ll_now() + PHASE_S; n < WRITES_MOST && (n == 0 || ll_now() < end);) {
        const double start = ll_now();
        memset(local.base, 1 + n % 250, BYTES);
        LL_GOOD(ll_write(context, !check_rank, &memory.keys[!check_rank], 0, local.registration, 0,
                         BYTES));
        took[n++] = ll_now() - start;
    }
    return check_median(took, (size_t)n) * 1e6;
}

/* The writer tells rank 0, who commands the stranger, when it has measured. */
static double measure(enum manner manner, bool at_home, int writer, int *came) {
    double us = 0;
    MPI_Request request;
    if (check_rank == 0)
        order(manner, at_home);
    ll_barrier(context);
    if (check_rank == writer)
        us = median();
    MUST(MPI_Ibcast(&us, 1, MPI_DOUBLE, writer, MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
    if (check_rank == 0) {
        order(LEAVE, false);
        *came += ask();
        (void)ask();
    }
    return us;
}

/* The best of some rounds: a stranger who matters does in all of them. It says nothing where others
 * want the cores, at the beginning or now. */
static void expect_no_delay(enum manner manner, int writer) {
    double best = 1e9, calm = 0, flooded = 0;
    int came = 0, at_home = 0;
    const int rounds = ll_rounds(ROUNDS, 2);
    for (int round = 0; round < rounds && best > RATIO_GOOD; round++) {
        const double beside = measure(manner, true, writer, &at_home);
        const double here = measure(manner, false, writer, &came);
        if (here / beside >= best)
            continue;
        best = here / beside;
        calm = beside;
        flooded = here;
    }
    if (check_rank == 0)
        printf("rank %d writes, rank 0 has %d strangers who say %s: %.1f us, %.1f with them, "
               "x%.2f\n",
               writer, came, manners[manner], calm, flooded, best);
    if (best > RATIO_MOST && !ll_slow)
        ll_pace();
    CHECK(best <= RATIO_MOST || ll_slow, "a write takes x%.2f beside strangers who say %s", best,
          manners[manner]);
}

/* The ranks' own connection, behind those of the stranger. */
static void expect_first_connection(void) {
    int came = 0;
    if (check_rank == 0) {
        order(STAND, false);
        came = ask();
    }
    ll_barrier(context);
    const double start = ll_now();
    if (check_rank == 1)
        (void)median();
    ll_barrier(context);
    const double s = ll_now() - start;
    if (check_rank == 0) {
        printf("behind %d silent strangers: connected and measured in %.2f s\n", came, s);
        order(LEAVE, false);
        (void)ask();
    }
    CHECK(s < FIRST_MOST_S, "the first connection took %.1f s", s);
}

int main(int argc, char **argv) {
    const pid_t pid = begin_stranger(&commands, &answers);
    ll_begin(&argc, &argv, "llcl_flood");
    check_barrier(MPI_COMM_WORLD); /* the host has had to do with the others */
    context = port_open(&port);
    if (context == NULL)
        return CHECK_SKIP;
    ll_make(context, &memory, LL_ALLOCATED, BYTES);
    ll_make(context, &local, LL_ALLOCATED, BYTES);
    expect_first_connection();
    for (enum manner manner = NOTHING; manner < MANNERS; manner++)
        for (int writer = 0; writer < 2; writer++)
            expect_no_delay(manner, writer);
    memset(local.base, 251, BYTES);
    LL_GOOD(
        ll_write(context, !check_rank, &memory.keys[!check_rank], 0, local.registration, 0, BYTES));
    ll_barrier(context);
    ll_all(memory.base, BYTES, 251, "after the flood", __LINE__);
    ll_end(context, &memory);
    ll_end(context, &local);
    ll_close(&context);
    close(commands);
    (void)kill(pid, SIGKILL);
    return check_end();
}

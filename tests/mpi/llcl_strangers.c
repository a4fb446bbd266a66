/*
 * llcl_strangers: who connects to the tcp wire's port and is not of the job gets nowhere.
 *
 * Every rank finds the port at which its context listens and connects to it: to go again at once,
 * to send nonsense, to say a hello with the id of no context, to say nothing, more often than the
 * wire keeps strangers. All of these end with the connection closed, after seconds where nothing is
 * said, by the engine of a rank that does not look itself, and operations between the ranks go on
 * meanwhile.
 */
#include <poll.h>

#include "port.h"

enum { BYTES = 1 << 16, SILENT = 300, PATIENCE_MS = 20000 };

static struct ll_memory memory, local;

static int connection(const struct sockaddr_storage *to) {
    int fd = socket(to->ss_family, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0,
          "no connection to our own port");
    return fd;
}

static void expect_closed(int fd, const char *what) {
    struct pollfd end = {.fd = fd, .events = POLLIN};
    char byte;
    CHECK(poll(&end, 1, PATIENCE_MS) == 1 && recv(fd, &byte, 1, 0) <= 0,
          "the connection is still there after %s", what);
    close(fd);
}

static void say(const struct sockaddr_storage *to, const void *words, size_t bytes,
                const char *what) {
    int fd = connection(to);
    CHECK(send(fd, words, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "%s cannot be sent", what);
    expect_closed(fd, what);
}

/* Everybody writes to everybody else, and reads it again. */
static void exchange(tug_context *context, int round) {
    static unsigned char back[BYTES];
    int to = (check_rank + 1) % check_nranks;
    memset(local.base, 1 + (check_rank + round) % 250, BYTES);
    LL_GOOD(ll_write(context, to, &memory.keys[to], 0, local.registration, 0, BYTES));
    memcpy(back, local.base, BYTES);
    memset(local.base, 0, BYTES);
    LL_GOOD(ll_read(context, to, &memory.keys[to], 0, local.registration, 0, BYTES));
    CHECK(memcmp(back, local.base, BYTES) == 0, "round %d: other data have come back", round);
}

int main(int argc, char **argv) {
    struct sockaddr_storage address, *port = &address;
    int silent[SILENT];
    ll_begin(&argc, &argv, "llcl_strangers");
    check_barrier(MPI_COMM_WORLD); /* the host has had to do with the others */
    tug_context *context = port_open(port);
    if (context == NULL)
        return CHECK_SKIP;
    ll_make(context, &memory, LL_REGISTERED, BYTES);
    ll_make(context, &local, LL_REGISTERED, BYTES);
    exchange(context, 0);
    close(connection(port));
    const char nonsense[64] = "GET / HTTP/1.1\r\nHost: tugboat\r\n\r\n";
    say(port, nonsense, sizeof nonsense, "nonsense");
    const uint64_t hello[6] = {0x3670637462677574u, (uint64_t)check_rank << 32, 1};
    say(port, hello, sizeof hello, "a hello of another context");
    exchange(context, 1);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = connection(port);
        if (i % 30 == 0)
            exchange(context, 2 + i);
    }
    expect_closed(silent[0], "many others have come");
    for (int i = 1; i < SILENT; i++)
        close(silent[i]);
    exchange(context, 200);
    ll_barrier(context);
    ll_end(context, &memory);
    ll_end(context, &local);
    ll_close(&context);
    return check_end();
}

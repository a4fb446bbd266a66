/*
 * llcl_passive: operations complete while their target computes.
 *
 * All ranks but the first compute without a call of MPI's or the library's, until they see a word
 * in their memory that the first one writes at the end. That does operations of every kind on them
 * meanwhile, one after the other; the median of each kind is bounded, by what it takes meanwhile to
 * wake another thread there and hear from it. Argument: KiB of the large ones instead of 1024, for
 * slow machines.
 */
#include "llcl_check.h"
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    KINDS_OF_OPERATION = 8,
    EACH = 15,
    ATTEMPTS = 10,
    LARGE = 1 << 20,
    COUNTER = LARGE,
    END = LARGE + 8,
    HANDLER = 2,
    WAKES = 50, /* allowed to an operation beyond 20 ms */
    COMPUTE_MS = 200000
};

static struct ll_memory memory[LL_KINDS], local;
static _Atomic int handled;
static size_t large = LARGE;

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
    atomic_fetch_add(&handled, 1);
}

static const char *const names[KINDS_OF_OPERATION] = {
    "write 8 B",   "write, large", "read 8 B",    "read, large",
    "add, mapped", "add, reached", "message 8 B", "message 4 KiB",
};

static int operation(tug_context *context, int what, int to, const struct ll_memory *m) {
    const struct tug_key *key = &m->keys[to];
    size_t bytes = what % 2 ? large : 8;
    switch (what / 2) {
    case 0:
        return ll_write(context, to, key, 0, local.registration, 0, bytes);
    case 1:
        return ll_read(context, to, key, 0, local.registration, 0, bytes);
    case 2:
        m = &memory[what % 2 ? LL_REGISTERED : LL_ALLOCATED];
        return ll_fetch(context, to, &m->keys[to], COUNTER, NULL, 0, 8, TUG_ADD, 1);
    default:
        return ll_am(context, to, HANDLER, local.base, what % 2 ? TUG_AM_MAX_PAYLOAD : 8);
    }
}

/* ---- what the machine makes of a wake ---- */

static int mailbox;
static int32_t job; /* the first rank's process id */

static socklen_t address_of(int rank, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX; /* the first byte of the name is 0: it is in no folder */
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "tug-passive-%d-%d",
                          (int)job, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void *echo(void *argument) {
    struct sockaddr_un first;
    socklen_t length = address_of(0, &first);
    char byte;
    while (recv(mailbox, &byte, 1, 0) == 1)
        CHECK(sendto(mailbox, &byte, 1, 0, (struct sockaddr *)&first, length) == 1, "no answer");
    return argument;
}

/* All ranks but the first have a thread that sleeps, and answers. */
static void open_mailbox(pthread_t *echoer) {
    struct sockaddr_un mine;
    job = getpid();
    MUST(MPI_Bcast(&job, 1, MPI_INT32_T, 0, MPI_COMM_WORLD));
    mailbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = address_of(check_rank, &mine);
    CHECK(mailbox >= 0 && bind(mailbox, (struct sockaddr *)&mine, length) == 0, "no mailbox");
    if (check_rank != 0)
        CHECK(pthread_create(echoer, NULL, echo, NULL) == 0, "no thread");
    check_barrier(MPI_COMM_WORLD);
}

static void close_mailbox(const pthread_t *echoer) {
    if (check_rank != 0) {
        shutdown(mailbox, SHUT_RDWR);
        pthread_join(*echoer, NULL);
    }
    close(mailbox);
}

static double wake(int to) {
    struct sockaddr_un theirs;
    socklen_t length = address_of(to, &theirs);
    char byte = 0;
    double before = ll_now();
    CHECK(sendto(mailbox, &byte, 1, 0, (struct sockaddr *)&theirs, length) == 1 &&
              recv(mailbox, &byte, 1, 0) == 1,
          "no echo");
    return ll_now() - before;
}

/* ---- the test ---- */

/* EACH operations of a kind, and as many wakes: are they in time? */
static bool measure(tug_context *context, int what) {
    double took[EACH], wakes[EACH];
    for (int i = 0; i < EACH; i++) {
        int to = 1 + (i + what) % (check_nranks - 1);
        double before = ll_now();
        LL_GOOD(operation(context, what, to, &memory[i % 2]));
        took[i] = ll_now() - before;
        wakes[i] = wake(to);
    }
    const double usual = check_median(took, EACH), usual_wake = check_median(wakes, EACH);
    printf("%-14s median %8.1f us, most %8.1f us; a wake %8.1f us\n", names[what], 1e6 * usual,
           1e6 * took[EACH - 1], 1e6 * usual_wake);
    return usual < 20e-3 + WAKES * usual_wake;
}

/* Others may want the cores just then: what is late for a reason of ours is late every time. The
 * computing goes on until it is told: without progress, for minutes. */
static void disturb(tug_context *context) {
    for (int what = 0; what < KINDS_OF_OPERATION; what++) {
        int left = ATTEMPTS;
        while (!measure(context, what))
            CHECK(--left > 0, "%s on a rank that computes is late", names[what]);
    }
    memset(local.base, 0x11, 8);
    for (int to = 1; to < check_nranks; to++)
        LL_GOOD(
            ll_write(context, to, &memory[LL_REGISTERED].keys[to], END, local.registration, 0, 8));
}

static void compute(void) {
    const _Atomic uint64_t *told =
        (const _Atomic uint64_t *)(void *)(memory[LL_REGISTERED].base + END);
    volatile double x = 1;
    for (double start = ll_now(); atomic_load(told) == 0;) {
        for (int i = 0; i < 1000; i++)
            x = x * 1.0000001 + 1e-9;
        CHECK(ll_now() - start < 1e-3 * COMPUTE_MS, "computed for %d ms, and no end was told",
              COMPUTE_MS);
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        large = strtoul(argv[1], NULL, 10) << 10;
    ll_begin(&argc, &argv, "llcl_passive");
    CHECK(large <= LARGE, "%zu bytes are too many", large);
    if (check_nranks < 2) {
        printf("skipped: wants two ranks\n");
        return CHECK_SKIP;
    }
    pthread_t echoer;
    open_mailbox(&echoer);
    tug_context *context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, HANDLER, on_message, NULL));
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_make(context, &memory[kind], (enum ll_kind)kind, LARGE + 16);
    ll_make(context, &local, LL_REGISTERED, LARGE);
    /* First contact is not what is measured. */
    if (check_rank == 0)
        for (int to = 1; to < check_nranks; to++)
            for (int what = 0; what < KINDS_OF_OPERATION; what++)
                LL_GOOD(operation(context, what, to, &memory[what % 2]));
    ll_barrier(context);
    if (check_rank == 0)
        disturb(context);
    else
        compute();
    ll_barrier(context);
    if (check_rank > 0)
        CHECK(atomic_load(&handled) > 2, "%d messages were handled", atomic_load(&handled));
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_end(context, &memory[kind]);
    ll_end(context, &local);
    ll_close(&context);
    close_mailbox(&echoer);
    return check_end();
}

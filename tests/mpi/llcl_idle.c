/*
 * llcl_idle: what costs no processor time.
 *
 * idle: a context that is open and has been used, and whose processes sleep. The argument
 * after it bounds the processor time in ms a second.
 * many: the same with more contexts, on the rows and columns of a grid of two columns.
 * stop: the last rank is stopped (SIGSTOP) for a second while all have operations under way that
 * need it. The others wait, and use little time meanwhile; everything completes after SIGCONT,
 * with the right data.
 * full: the others send more to the one that is stopped than its inbox holds.
 */
#include "llcl_check.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { HANDLER = 5, BYTES = 1 << 16, STOP_MS = 1000, MANY = 16, FULL = 100 };

static struct ll_memory memory, local;
static _Atomic int handled;

static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
    atomic_fetch_add(&handled, 1);
}

static void traffic(tug_context *context, uint64_t round) {
    for (int to = 0; to < check_nranks; to++) {
        size_t at = (size_t)check_rank * BYTES;
        check_fill(local.base, BYTES, (uint64_t)check_rank, round);
        LL_GOOD(ll_write(context, to, &memory.keys[to], at, local.registration, 0, BYTES));
        memset(local.base, 0, BYTES);
        LL_GOOD(ll_read(context, to, &memory.keys[to], at, local.registration, 0, BYTES));
        check_same(local.base, BYTES, (uint64_t)check_rank, round, "read back", __LINE__);
        LL_GOOD(ll_am(context, to, HANDLER, &round, sizeof round));
    }
}

static void idle(tug_context *context, double most_ms) {
    traffic(context, 1);
    ll_barrier(context);
    usleep(100000);
    double before = used(), start = ll_now();
    usleep(1000000);
    double took = (used() - before) / (ll_now() - start); /* a busy machine lets it sleep longer */
    printf("rank %d: %.1f ms of processor time in a second asleep\n", check_rank, 1e3 * took);
    CHECK(1e3 * took < most_ms, "idle, and yet %.1f ms of processor time in a second", 1e3 * took);
    ll_barrier(context);
    traffic(context, 2);
}

static tug_context *others[MANY];

/* Each has been used, too. */
static void open_others(void) {
    for (int i = 0; i < MANY; i++) {
        MPI_Comm comm;
        uint64_t word = 0;
        MUST(MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? check_rank % 2 : check_rank / 2, 0, &comm));
        others[i] = ll_open(comm);
        MUST(MPI_Comm_free(&comm));
        LL_GOOD(tug_am_register(others[i], HANDLER, on_message, NULL));
        ll_barrier(others[i]);
        for (int to = 0; to < tug_context_size(others[i]); to++)
            LL_GOOD(ll_am(others[i], to, HANDLER, &word, sizeof word));
    }
}

static void close_others(void) {
    for (int i = 0; i < MANY; i++)
        ll_close(&others[i]);
}

/* A child that stops its parent for a while when told to, and then ends. */
static pid_t make_stopper(int *tell) {
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        char go = 0;
        close(ends[1]);
        if (read(ends[0], &go, 1) == 1) {
            usleep(50000);
            kill(parent, SIGSTOP);
            usleep(STOP_MS * 1000);
            kill(parent, SIGCONT);
        }
        _exit(0);
    }
    close(ends[0]);
    *tell = ends[1];
    return child;
}

/* Traffic until the stop is over. The longest wait of all is the one for the stopped. */
static void stopped_meanwhile(tug_context *context, double most_share) {
    double end = ll_now() + 1e-3 * STOP_MS + 0.4, longest = 0, took = 0;
    for (uint64_t round = 1; ll_now() < end || longest < 0.5e-3 * STOP_MS; round++) {
        double start = ll_now(), before = used();
        traffic(context, round);
        if (ll_now() - start > longest) {
            longest = ll_now() - start;
            took = used() - before;
        }
    }
    printf("rank %d: the longest round took %.0f ms and %.1f ms of processor time\n", check_rank,
           1e3 * longest, 1e3 * took);
    if (check_rank == check_nranks - 1)
        return;
    CHECK(took < most_share * longest, "%.1f ms of processor time in a wait of %.0f ms", 1e3 * took,
          1e3 * longest);
}

/* Each fills a slot of the inbox. */
static void send_many(tug_context *context) {
    static unsigned char payload[TUG_AM_MAX_PAYLOAD];
    struct tug_counter counter = {0};
    for (int i = 0; i < FULL; i++) {
        struct tug_am_params p = {check_nranks - 1, HANDLER,      payload,
                                  sizeof payload,   {NULL, NULL}, {tug_counter_add, &counter}};
        LL_TRY(context, tug_try_am_async(context, &p));
    }
    LL_GOOD(tug_counter_wait(context, &counter, FULL));
}

static long sleeps(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return usage.ru_nvcsw;
}

/* Who waits looks every two milliseconds, for what may come true outside of the library. */
static void find_it_full(tug_context *context) {
    usleep(100000);
    if (check_rank == check_nranks - 1)
        return;
    const double start = ll_now(), before = used();
    const long slept = sleeps();
    send_many(context);
    const double ms = 1e3 * (ll_now() - start);
    const long n = sleeps() - slept;
    printf("rank %d: slept %ld times in %.0f ms, %.1f ms of processor time\n", check_rank, n, ms,
           1e3 * (used() - before));
    CHECK((double)n < 4 * ms + 400, "slept %ld times in %.0f ms", n, ms);
}

int main(int argc, char **argv) {
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    bool stop = full || (argc > 1 && strcmp(argv[1], "stop") == 0);
    bool many = argc > 1 && strcmp(argv[1], "many") == 0;
    double most = argc > 2 ? atof(argv[2]) : 50;
    int tell = -1;
    /* Before there are threads. The rank is not known yet: every one has such a child. */
    pid_t stopper = stop ? make_stopper(&tell) : 0;
    ll_begin(&argc, &argv, "llcl_idle");
    tug_context *context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, HANDLER, on_message, NULL));
    ll_make(context, &memory, LL_REGISTERED, (size_t)check_nranks * BYTES);
    ll_make(context, &local, LL_REGISTERED, BYTES);
    traffic(context, 0);
    if (many)
        open_others();
    ll_barrier(context);
    if (stop) {
        if (check_rank == check_nranks - 1)
            CHECK(write(tell, "g", 1) == 1, "no word to the child");
        close(tell);
        if (full)
            find_it_full(context);
        else
            stopped_meanwhile(context, most / 1000);
        waitpid(stopper, NULL, 0);
    } else {
        idle(context, most);
    }
    ll_barrier(context);
    CHECK(atomic_load(&handled) >= check_nranks, "messages: %d", atomic_load(&handled));
    if (many)
        close_others();
    ll_end(context, &memory);
    ll_end(context, &local);
    ll_close(&context);
    return check_end();
}

#include "part_bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_THREADS = 64, MAX_ITEMS = 32 };

static const char *thread_list = "1,8";
static const char *partition_list = "1,64";
static const char *size_list = "8,64,1K,4K,64K";
double part_seconds = 0.2;

/* ---- the team ---- */

struct member {
    pthread_t thread;
    int id;
};

static struct {
    int n;
    struct member members[MAX_THREADS];
    MPI_Request *requests; /* of the present call */
    int nrequests, partitions;
    atomic_long calls;
    atomic_int busy; /* others that have not done their share of it */
    atomic_bool ends;
    pthread_mutex_t lock; /* of those who sleep */
    pthread_cond_t called, done;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .called = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

/* A member waits as a thread of OpenMP does: some turns, then asleep. With more threads than cores
 * those who yield for ever take most of the time of whoever has work. */
enum { TURNS = 20 };

static bool is_called(long seen) {
    return atomic_load(&team.calls) != seen || atomic_load(&team.ends);
}

static void await_call(long seen) {
    for (int i = 0; i < TURNS && !is_called(seen); i++)
        sched_yield();
    pthread_mutex_lock(&team.lock);
    while (!is_called(seen))
        pthread_cond_wait(&team.called, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

static void call_all(void) {
    pthread_mutex_lock(&team.lock);
    pthread_cond_broadcast(&team.called);
    pthread_mutex_unlock(&team.lock);
}

static void await_others(void) {
    for (int i = 0; i < TURNS && atomic_load(&team.busy) > 0; i++)
        sched_yield();
    pthread_mutex_lock(&team.lock);
    while (atomic_load(&team.busy) > 0)
        pthread_cond_wait(&team.done, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

static void finish_share(void) {
    if (atomic_fetch_sub(&team.busy, 1) > 1)
        return;
    pthread_mutex_lock(&team.lock);
    pthread_cond_signal(&team.done);
    pthread_mutex_unlock(&team.lock);
}

static void make_share_ready(int id) {
    for (int r = 0; r < team.nrequests; r++)
        for (int i = id; i < team.partitions; i += team.n)
            MPI_Pready(i, team.requests[r]);
}

static void *work(void *argument) {
    const struct member *me = argument;
    for (long seen = 0;; seen++) {
        await_call(seen);
        if (atomic_load(&team.ends))
            return NULL;
        make_share_ready(me->id);
        finish_share();
    }
}

static void open_team(int n) {
    team.n = n;
    atomic_store(&team.calls, 0);
    atomic_store(&team.ends, false);
    for (int i = 1; i < n; i++) {
        team.members[i].id = i;
        if (pthread_create(&team.members[i].thread, NULL, work, &team.members[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void close_team(void) {
    atomic_store(&team.ends, true);
    call_all();
    for (int i = 1; i < team.n; i++)
        pthread_join(team.members[i].thread, NULL);
}

void part_make_ready(MPI_Request requests[], int nrequests, int partitions) {
    team.requests = requests;
    team.nrequests = nrequests;
    team.partitions = partitions;
    atomic_store(&team.busy, team.n - 1);
    atomic_fetch_add(&team.calls, 1);
    call_all();
    make_share_ready(0);
    await_others();
}

/* ---- combinations ---- */

void part_start(int *argc, char ***argv, const char *about, struct bench_option option) {
    const struct bench_option options[] = {
        {"threads", BENCH_TEXT, &thread_list, "numbers of threads that make partitions ready"},
        {"partitions", BENCH_TEXT, &partition_list, "numbers of partitions of a message"},
        {"sizes", BENCH_TEXT, &size_list, "bytes of a partition"},
        {"seconds", BENCH_REAL, &part_seconds, "time for each row"},
        option,
    };
    bench_start(argc, argv, MPI_THREAD_MULTIPLE, about, options,
                sizeof options / sizeof options[0]);
    if (bench.nranks != 2 || part_seconds <= 0)
        bench_usage_error("2 ranks are needed, not %d; --seconds > 0", bench.nranks);
}

static int parse(const char *text, const char *name, long least, long most, long items[]) {
    int n = bench_parse_sizes(text, items, MAX_ITEMS);
    for (int i = 0; i < n; i++)
        if (items[i] < least || items[i] > most)
            n = -1;
    if (n < 1)
        bench_usage_error("--%s '%s' is not a list of %ld..%ld", name, text, least, most);
    return n;
}

long part_for_each(long (*run)(const struct part_cell *cell)) {
    long threads[MAX_ITEMS], partitions[MAX_ITEMS], sizes[MAX_ITEMS], errors = 0;
    const int nthreads = parse(thread_list, "threads", 1, MAX_THREADS, threads);
    const int npartitions = parse(partition_list, "partitions", 1, 65536, partitions);
    const int nsizes = parse(size_list, "sizes", 1, 1L << 30, sizes);
    for (int t = 0; t < nthreads; t++) {
        open_team((int)threads[t]);
        for (int p = 0; p < npartitions; p++)
            for (int s = 0; s < nsizes; s++)
                errors +=
                    run(&(struct part_cell){(int)threads[t], (int)partitions[p], (size_t)sizes[s]});
        close_team();
    }
    return errors;
}

void *part_memory(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

void part_print(const struct part_cell *cell) {
    bench_cell(cell->threads);
    bench_cell(cell->partitions);
    bench_cell((double)cell->bytes);
}

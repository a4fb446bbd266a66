/* "My tasking runtime." User-level threads that wait for remote data without stopping their OS
 * thread, by the low-level layer.
 *
 *     mpiexec -n 2 ./fibres [chains [steps of each]]
 *
 * A table of numbers is spread over all processes. Each number says which one to read next. A chain
 * of such reads takes as long as its reads take one after the other. Here every chain is followed
 * by a fibre (ucontext). A fibre that waits for its read calls block(): the thread goes on with a
 * fibre that can go on. wake() says that one can. Reads of many fibres share packets. The same
 * chains are followed without fibres, too, one after the other. A runtime with user-level threads
 * of its own, such as Argobots, sets the same three functions. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tugboat/llcl.h>
#include <ucontext.h>

enum { ENTRIES = 4096, STACK_BYTES = 64 * 1024 };

static tug_context *context;
static struct tug_key *keys;
static tug_registration *results; /* what chains have read last, a word each */
static int size, steps;

static void must(int error, const char *what) {
    if (error == 0)
        return;
    fprintf(stderr, "%s: %s\n", what, tug_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *must_have(void *memory) {
    must(memory == NULL ? TUG_ERR_NO_MEMORY : 0, "malloc");
    return memory;
}

/* Follows a chain. The wait is an ordinary one: whether it stops the thread is up to the hooks. */
static uint64_t follow(int chain) {
    uint64_t *word = (uint64_t *)tug_mem_address(results) + chain;
    uint64_t entry = (uint64_t)chain * 7919 % ((uint64_t)size * ENTRIES);
    for (int step = 0; step < steps; step++) {
        const int process = (int)(entry / ENTRIES);
        struct tug_counter counter = {0};
        const struct tug_read_params params = {
            .src_proc = process,
            .src_raddr = {.key = &keys[process], .offset = entry % ENTRIES * sizeof(*word)},
            .dest_laddr = {.registration = results, .offset = (size_t)chain * sizeof(*word)},
            .size_in_bytes = sizeof(*word),
            .on_complete = {tug_counter_add, &counter},
        };
        while (!tug_try_read_async(context, &params))
            tug_progress(context); /* no room: help until there is */
        must(tug_counter_wait(context, &counter, 1), "a read");
        entry = *word;
    }
    return entry;
}

/* ---- fibres, all of one thread ---- */

struct fibre {
    ucontext_t state;
    struct fibre *next; /* of those that can run */
    int chain;
    uint64_t end;
    char *stack;
};

static ucontext_t scheduler;
static struct fibre *current; /* NULL: the scheduler runs */
static int running;           /* fibres that have not ended */
static struct fibre *_Atomic can_run;

static void *self(void *d) {
    (void)d;
    return current;
}

static void block(void *d, void *pointer) {
    struct fibre *fibre = pointer;
    (void)d;
    swapcontext(&fibre->state, &scheduler);
}

/* Any thread, perhaps before block(): the scheduler finds the fibre here when it gets there. */
static void wake(void *d, void *pointer) {
    struct fibre *fibre = pointer;
    (void)d;
    fibre->next = atomic_load(&can_run);
    while (!atomic_compare_exchange_weak(&can_run, &fibre->next, fibre))
        ;
}

static void begin(void) {
    struct fibre *fibre = current;
    fibre->end = follow(fibre->chain);
    running--;
    setcontext(&scheduler);
}

static bool some_can_run(void *d) {
    (void)d;
    return atomic_load(&can_run) != NULL;
}

/* Runs all that can run. Where none can, the scheduler waits by the library itself, as a thread
 * (self() is NULL), and so does the library's work meanwhile. It could also sleep in a way of its
 * own: wake() is called by the library's thread then. */
static void run_those(void) {
    tug_wait(context, some_can_run, NULL);
    struct fibre *fibre = atomic_exchange(&can_run, NULL);
    while (fibre != NULL) {
        struct fibre *next = fibre->next;
        current = fibre;
        swapcontext(&scheduler, &fibre->state);
        current = NULL;
        fibre = next;
    }
}

/* The sum of what the chains end with. */
static uint64_t by_fibres(int chains) {
    const struct tug_wait_hooks hooks = {self, block, wake, NULL};
    struct fibre *fibres = must_have(calloc((size_t)chains, sizeof(*fibres)));
    uint64_t sum = 0;
    must(tug_wait_hooks_set(&hooks), "tug_wait_hooks_set");
    for (int i = 0; i < chains; i++) {
        struct fibre *fibre = &fibres[i];
        fibre->chain = i;
        fibre->stack = must_have(malloc(STACK_BYTES));
        getcontext(&fibre->state);
        fibre->state.uc_stack.ss_sp = fibre->stack;
        fibre->state.uc_stack.ss_size = STACK_BYTES;
        makecontext(&fibre->state, begin, 0);
        wake(NULL, fibre);
    }
    running = chains;
    while (running > 0)
        run_those();
    must(tug_wait_hooks_set(NULL), "tug_wait_hooks_set");
    for (int i = 0; i < chains; i++) {
        sum += fibres[i].end;
        free(fibres[i].stack);
    }
    free(fibres);
    return sum;
}

static uint64_t one_by_one(int chains) {
    uint64_t sum = 0;
    for (int i = 0; i < chains; i++)
        sum += follow(i);
    return sum;
}

int main(int argc, char **argv) {
    int rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int chains = argc > 1 ? atoi(argv[1]) : 64;
    steps = argc > 2 ? atoi(argv[2]) : 500;
    must(tug_context_create(MPI_COMM_WORLD, &context), "tug_context_create");

    /* registered, not allocated by the library: reads then go by packets also inside a node */
    uint64_t *table = must_have(malloc(ENTRIES * sizeof(*table)));
    for (uint64_t i = 0; i < ENTRIES; i++)
        table[i] = ((uint64_t)rank * ENTRIES + i) * 2654435761u % ((uint64_t)size * ENTRIES);
    tug_registration *memory;
    struct tug_key mine;
    must(tug_mem_register(context, table, ENTRIES * sizeof(*table), &memory), "tug_mem_register");
    must(tug_mem_allocate(context, (size_t)chains * sizeof(uint64_t), &results),
         "tug_mem_allocate");
    tug_mem_key(memory, &mine);
    keys = must_have(malloc((size_t)size * sizeof(*keys)));
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, keys, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);

    const double start = MPI_Wtime();
    const uint64_t expected = one_by_one(chains);
    const double middle = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    const double again = MPI_Wtime();
    const uint64_t sum = by_fibres(chains);
    const double end = MPI_Wtime();
    must(sum == expected ? 0 : TUG_ERR_STATE, "the chains do not end where they should");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d chains of %d reads: %.2f us a read one by one, %.2f by fibres\n", chains, steps,
               1e6 * (middle - start) / ((double)chains * steps),
               1e6 * (end - again) / ((double)chains * steps));

    while (tug_mem_deregister(&memory) == TUG_ERR_STATE)
        tug_progress(context);
    must(tug_context_free(&context), "tug_context_free");
    free(table);
    free(keys);
    MPI_Finalize();
    return 0;
}

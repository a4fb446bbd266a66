/*
 * pcoll_protected: persistent collectives and partitioned messages in pages that the program
 * protects, and whose faults it handles.
 *
 * Collectors of garbage and incremental checkpoints protect pages and have a SIGSEGV handler note
 * accesses to them and give them back. What is sent lies in pages that may not be read, what is
 * received goes to pages that may not be written. They are protected between two runs, by the
 * sender of a partitioned message after it has made all of it ready, or again and again by a thread
 * during the runs. The data are right, and the handler has seen every page that has changed.
 *
 * "mine" as argument: allgathers too, of which MPICH 4.0.2 alone does the first run only.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, ROUNDS = 12, LONG_ROUNDS = 4, PARTITIONS = 8 };
#define MOST ((size_t)8 << 20)

/* Two areas of MOST bytes: what is sent, what is received. */
static unsigned char *memory, *input, *output;
static volatile unsigned char seen[2 * MOST / PAGE];

static void on_fault(int number, siginfo_t *info, void *context) {
    unsigned char *at = info->si_addr;
    (void)context;
    if (at < memory || at >= memory + 2 * MOST) {
        signal(number, SIG_DFL);
        return;
    }
    const size_t page = (size_t)(at - memory) / PAGE;
    seen[page] = 1;
    mprotect(memory + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void protect(size_t bytes) {
    const size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    CHECK(mprotect(input, pages, PROT_NONE) == 0 && mprotect(output, pages, PROT_READ) == 0,
          "no protection");
}

/* ---- protection during runs ---- */

static _Atomic size_t at_once; /* bytes to protect; 0: none; 1: the thread ends */
static _Atomic bool protecting;

static void *protect_often(void *unused) {
    for (size_t bytes; (bytes = atomic_load(&at_once)) != 1;) {
        atomic_store(&protecting, bytes != 0);
        if (atomic_load(&at_once) == bytes && bytes != 0)
            protect(bytes);
        atomic_store(&protecting, false);
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    return unused;
}

static void stop_protecting(void) {
    atomic_store(&at_once, 0);
    while (atomic_load(&protecting))
        sched_yield();
}

/* ---- what is run ---- */

enum kind { BCAST, ALLTOALL, ALLGATHER, ALLREDUCE, REDUCE, PARTITIONED, NKINDS };

static const char *const names[NKINDS] = {"broadcast", "alltoall", "allgather",
                                          "allreduce", "reduce",   "partitioned"};

/* `bytes` of the longest buffer; a block is what goes from one rank to another. */
struct run {
    enum kind kind;
    size_t bytes, block;
    bool often, root;
    MPI_Request request;
};

static bool sends_partitions(void) {
    return check_rank % 2 == 0;
}

static void make(struct run *r) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    const int whole = (int)r->bytes, block = (int)r->block, longs = (int)(r->bytes / 8);
    const int peer = check_rank ^ 1;
    MPI_Request *request = &r->request;
    r->root = check_rank == 1 % check_nranks;
    switch (r->kind) {
    case BCAST:
        MUST(MPI_Bcast_init(r->root ? input : output, whole, MPI_BYTE, 1 % check_nranks, comm,
                            MPI_INFO_NULL, request));
        break;
    case ALLTOALL:
        MUST(MPI_Alltoall_init(input, block, MPI_BYTE, output, block, MPI_BYTE, comm, MPI_INFO_NULL,
                               request));
        break;
    case ALLGATHER:
        MUST(MPI_Allgather_init(input, block, MPI_BYTE, output, block, MPI_BYTE, comm,
                                MPI_INFO_NULL, request));
        break;
    case ALLREDUCE:
        MUST(MPI_Allreduce_init(input, output, longs, MPI_UINT64_T, MPI_SUM, comm, MPI_INFO_NULL,
                                request));
        break;
    case REDUCE:
        MUST(MPI_Reduce_init(input, output, longs, MPI_UINT64_T, MPI_SUM, 1 % check_nranks, comm,
                             MPI_INFO_NULL, request));
        break;
    default:
#if MPI_VERSION >= 4
        if (sends_partitions())
            MUST(MPI_Psend_init(input, PARTITIONS, whole / PARTITIONS, MPI_BYTE, peer, 3, comm,
                                MPI_INFO_NULL, request));
        else
            MUST(MPI_Precv_init(output, PARTITIONS, whole / PARTITIONS, MPI_BYTE, peer, 3, comm,
                                MPI_INFO_NULL, request));
#endif
        break;
    }
}

/* Each rank's input in a round; of a broadcast and a reduction all of it counts for each rank. */
static void fill(const struct run *r, int round) {
    CHECK(mprotect(memory, 2 * MOST, PROT_READ | PROT_WRITE) == 0, "no protection");
    check_fill(input, r->bytes, (uint64_t)check_rank, (uint64_t)round);
    memset(output, 0, r->bytes);
    memset((void *)seen, 0, sizeof seen);
}

static void ready(const struct run *r) {
#if MPI_VERSION >= 4
    if (r->kind == PARTITIONED && sends_partitions())
        for (int i = 0; i < PARTITIONS; i++)
            MUST(MPI_Pready(i, r->request));
#endif
}

/* The sender protects what the receiver, which comes later, does not have yet, and first waits for
 * a message that the receiver sends when it has it. */
static void start_and_wait(struct run *r) {
    const bool partitioned = r->kind == PARTITIONED;
    MPI_Request had;
    char byte = 0;
    MUST(MPI_Start(&r->request));
    ready(r);
    if (partitioned && sends_partitions()) {
        protect(r->bytes);
        MUST(MPI_Irecv(&byte, 1, MPI_CHAR, check_rank ^ 1, 4, MPI_COMM_WORLD, &had));
        check_wait(&had);
    } else if (partitioned) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    check_wait(&r->request);
    if (partitioned && !sends_partitions())
        MUST(MPI_Send(&byte, 1, MPI_CHAR, check_rank ^ 1, 4, MPI_COMM_WORLD));
}

/* ---- what must be there ---- */

static void is_sum(const struct run *r, int round) {
    for (size_t i = 0; i < r->bytes / 8; i++) {
        uint64_t sum = 0;
        for (int w = 0; w < check_nranks; w++)
            sum += check_word((uint64_t)w, (uint64_t)round, i);
        CHECK(((uint64_t *)output)[i] == sum, "%s of %zu bytes, round %d: word %zu", names[r->kind],
              r->bytes, round, i);
    }
}

/* Block i of this rank's output: of an alltoall the writer's block for this rank. */
static void is_block(const struct run *r, int round, int writer) {
    const size_t at = r->kind == ALLTOALL ? (size_t)check_rank * r->block : 0;
    for (size_t i = 0; i < r->block; i++)
        CHECK(output[(size_t)writer * r->block + i] ==
                  check_byte((uint64_t)writer, (uint64_t)round, at + i),
              "%s of %zu bytes, round %d: byte %zu of rank %d's", names[r->kind], r->bytes, round,
              i, writer);
}

static bool has_output(const struct run *r) {
    if (r->kind == BCAST)
        return !r->root;
    if (r->kind == REDUCE)
        return r->root;
    return r->kind != PARTITIONED || !sends_partitions();
}

static void look(const struct run *r, int round) {
    if (!has_output(r))
        return;
    const size_t first = (size_t)(output - memory) / PAGE;
    for (size_t i = 0; i < (r->bytes + PAGE - 1) / PAGE && !r->often; i++)
        CHECK(seen[first + i], "%s of %zu bytes, round %d: page %zu changed unseen", names[r->kind],
              r->bytes, round, i);
    if (r->kind == ALLREDUCE || r->kind == REDUCE)
        is_sum(r, round);
    else if (r->kind == ALLTOALL || r->kind == ALLGATHER)
        for (int w = 0; w < check_nranks; w++)
            is_block(r, round, w);
    else
        check_same(output, r->bytes,
                   (uint64_t)(r->kind == BCAST ? 1 % check_nranks : check_rank ^ 1),
                   (uint64_t)round, names[r->kind], __LINE__);
}

static void run(enum kind kind, size_t bytes, bool often) {
    struct run r = {.kind = kind, .bytes = bytes, .often = often, .request = MPI_REQUEST_NULL};
    r.block = bytes / (size_t)check_nranks;
    if (kind == ALLTOALL || kind == ALLGATHER)
        r.bytes = r.block * (size_t)check_nranks;
    if (r.block == 0 || (kind == PARTITIONED && (check_nranks % 2 != 0 || MPI_VERSION < 4)))
        return;
    make(&r);
    for (int round = 0; round < (bytes < MOST ? ROUNDS : LONG_ROUNDS); round++) {
        fill(&r, round);
        protect(r.bytes);
        if (often)
            atomic_store(&at_once, r.bytes);
        start_and_wait(&r);
        stop_protecting();
        look(&r, round);
    }
    MUST(MPI_Request_free(&r.request));
}

int main(int argc, char **argv) {
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    const size_t sizes[] = {8, 4096, 65536, (size_t)1 << 20, MOST};
    const bool mine = argc > 1 && strcmp(argv[1], "mine") == 0;
    pthread_t thread;
    check_begin(&argc, &argv, "pcoll_protected");
    memory = mmap(NULL, 2 * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && sysconf(_SC_PAGESIZE) == PAGE, "no memory in pages of 4096");
    input = memory;
    output = memory + MOST;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0, "no handler");
    CHECK(pthread_create(&thread, NULL, protect_often, NULL) == 0, "no thread");
    for (int often = 0; often < 2; often++)
        for (int kind = 0; kind < NKINDS; kind++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                if (kind != ALLGATHER || mine)
                    run((enum kind)kind, sizes[i], often != 0);
    atomic_store(&at_once, 1);
    pthread_join(thread, NULL);
    return check_end();
}

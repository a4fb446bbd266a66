/*
 * A rank of `tugboat selftest`: an MPI program that checks its data and measures one thing.
 *
 * It calls MPI as any program does: through the library where that is preloaded, and otherwise the
 * host. The command links neither, so the calls are looked up. Every finding is agreed on by all
 * ranks; one that does not hold on one of them does not hold.
 */
#include "cmd/selftest.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cores.h"
#include "cmd/cmd.h"
#include "host/host.h"
#ifdef OPEN_MPI
#include "host/openmpi/openmpi.h"
#endif

#define COMPUTE_NS 60000000ull
#define LEAD_NS 5000000ull /* from the beginning of the computation to the put */

static struct tug_host mpi;

static int rank, nranks;

static void *find_library(void) {
    char path[PATH_MAX];
    return tug_library_find(path, sizeof path) == 0 ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static int lacking(void) {
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

/* A call, which below MPI 4 may be an extension, or one that fails. */
static void *look_up_call(void *library, void *host, const char *name) {
    static const char *const prefixes[] = {"MPI_", "MPIX_"};
    int (*const fails)(void) = lacking;
    void *address = NULL;
    char symbol[64];
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && address == NULL; i++) {
        snprintf(symbol, sizeof symbol, "%s%s", prefixes[i], name);
        address = library != NULL ? dlsym(library, symbol) : NULL;
        address = address != NULL ? address : dlsym(host, symbol);
    }
    return address != NULL ? address : *(void *const *)&fails;
}

/* As the dynamic linker would: the library, if it was preloaded, comes before the host. */
static bool look_up(int *preloaded) {
    void *library = find_library(), *host = tug_host_open(RTLD_GLOBAL);
    *preloaded = library != NULL;
    if (host == NULL)
        return false;
#ifdef OPEN_MPI
    tug_openmpi_find_objects(host);
#endif
#define FIND(Name) *(void **)&mpi.Name = look_up_call(library, host, #Name);
#define TUG_CALL(Name, parameters, arguments) FIND(Name)
#include "host/calls.def"
    TUG_HOST_FUNCTIONS(FIND)
    return true;
}

/* What holds on all ranks. */
static int everywhere(bool holds) {
    int mine = holds, all = 0;
    mpi.Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static void find_shape(struct tug_findings *f) {
    MPI_Comm node;
    struct tug_cpus mine, together;
    int node_rank;
    int lead;
    (void)tug_cpus_find(&mine);
    mpi.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    mpi.Comm_rank(node, &node_rank);
    mpi.Comm_size(node, &f->node_ranks);
    mpi.Allreduce(&mine, &together, sizeof mine, MPI_BYTE, MPI_BOR, node);
    f->node_cpus = (int)tug_cpus_count(&together);
    mpi.Comm_free(&node);
    lead = node_rank == 0;
    mpi.Allreduce(&lead, &f->nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mpi.Allreduce(MPI_IN_PLACE, &f->node_ranks, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    f->ranks = nranks;
}

/* Every rank puts a pattern to its right neighbour; memory is aligned to nothing. */
static int try_unaligned(void) {
    enum { AHEAD = 64, BYTES = 40 };
    _Alignas(64) char memory[AHEAD + BYTES + 64], out[BYTES];
    const int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
    bool good = true;
    for (int offset = 1; offset < 16; offset += 6) {
        MPI_Win win;
        char *base = memory + AHEAD + offset;
        memset(memory, 0, sizeof memory);
        memset(out, 'a' + (rank + offset) % 26, sizeof out);
        mpi.Win_create(base, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        mpi.Win_fence(0, win);
        mpi.Put(out, BYTES, MPI_BYTE, right, 0, BYTES, MPI_BYTE, win);
        mpi.Win_fence(0, win);
        for (int i = 0; i < BYTES; i++)
            good = good && base[i] == 'a' + (left + offset) % 26;
        mpi.Win_free(&win);
    }
    return everywhere(good);
}

static int try_unsigned_max(MPI_Win win, uint32_t *word) {
    const uint32_t large = UINT32_C(0xfffffff0);
    *word = 1;
    mpi.Win_fence(0, win);
    mpi.Accumulate(&large, 1, MPI_UINT32_T, (rank + 1) % nranks, 0, 1, MPI_UINT32_T, MPI_MAX, win);
    mpi.Win_fence(0, win);
    return everywhere(*word == large);
}

/* One exchange on a ring where `other` is the neighbour on both sides: what it sends to one side
 * comes from the other. */
static bool is_ring_right(MPI_Comm ring, int other, enum tug_ring_call call) {
    static const int counts[2] = {1, 1}, places[2] = {0, 1};
    const int out[2] = {2 * rank, 2 * rank + 1};
    int in[2] = {-1, -1};
    MPI_Request request = MPI_REQUEST_NULL;
#define EQUAL out, 1, MPI_INT, in, 1, MPI_INT, ring
#define VARIED out, counts, places, MPI_INT, in, counts, places, MPI_INT, ring
    if (call == TUG_RING_Neighbor_alltoall)
        mpi.Neighbor_alltoall(EQUAL);
    else if (call == TUG_RING_Neighbor_alltoallv)
        mpi.Neighbor_alltoallv(VARIED);
    else if (call == TUG_RING_Neighbor_alltoall_init)
        mpi.Neighbor_alltoall_init(EQUAL, MPI_INFO_NULL, &request);
    else
        mpi.Neighbor_alltoallv_init(VARIED, MPI_INFO_NULL, &request);
    if (call >= TUG_RING_Neighbor_alltoall_init)
        mpi.Start(&request);
    mpi.Wait(&request, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)
        mpi.Request_free(&request);
    return in[0] == 2 * other + 1 && in[1] == 2 * other;
}

static int try_neighbours(void) {
    const int periodic = 1;
    int mixed = 0;
    for (int n = 1; n <= 2 && n <= nranks; n++) {
        MPI_Comm ring;
        mpi.Cart_create(n == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD, 1, &n, &periodic, 0, &ring);
        if (ring == MPI_COMM_NULL)
            continue;
        for (enum tug_ring_call call = 0; call < TUG_NRING_CALLS; call++)
            if (!is_ring_right(ring, n == 1 ? rank : 1 - rank, call))
                mixed |= 1 << call;
        mpi.Comm_free(&ring);
    }
    mpi.Allreduce(MPI_IN_PLACE, &mixed, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    return mixed;
}

static void nap(uint64_t ns) {
    const struct timespec time = {.tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

/* Rank 0 puts a word to rank 1, which computes. The others are out of the way. */
static double measure_passive(MPI_Win win) {
    double us = 0;
    mpi.Barrier(MPI_COMM_WORLD);
    const uint64_t begin = tug_clock_ns();
    if (rank == 0 && nranks > 1) {
        const uint32_t word = 1;
        nap(LEAD_NS);
        const uint64_t before = tug_clock_ns();
        mpi.Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        mpi.Put(&word, 1, MPI_UINT32_T, 1, 0, 1, MPI_UINT32_T, win);
        mpi.Win_unlock(1, win);
        us = (double)(tug_clock_ns() - before) / 1e3;
    } else if (rank == 1) {
        while (tug_clock_ns() - begin < COMPUTE_NS)
            ;
    } else {
        nap(COMPUTE_NS);
    }
    mpi.Barrier(MPI_COMM_WORLD);
    return us;
}

static void find_lane(MPI_Win win, char lane[TUG_FINDINGS_LANE]) {
    MPI_Info info;
    int there = 0;
    mpi.Win_get_info(win, &info);
    mpi.Info_get(info, "tugboat_lane", TUG_FINDINGS_LANE - 1, lane, &there);
    mpi.Info_free(&info);
    if (!there)
        strcpy(lane, "host");
}

/* ---- persistent requests ---- */

enum { KIND_WORDS = 100, KIND_STARTS = 3, PARTS = 5 };

struct trial {
    unsigned *in, *out;           /* as many blocks of KIND_WORDS as there are ranks */
    unsigned start;               /* which start this is: every word that goes in differs by it */
    MPI_Request request, receive; /* receive: of partitioned messages; else none */
};

#define BLOCK KIND_WORDS, MPI_UNSIGNED
#define END MPI_COMM_WORLD, MPI_INFO_NULL, &trial->request

static void Bcast_init(struct trial *trial) {
    mpi.Bcast_init(rank == 0 ? trial->in : trial->out, BLOCK, 0, END);
}
static void Gather_init(struct trial *trial) {
    mpi.Gather_init(trial->in, BLOCK, trial->out, BLOCK, 0, END);
}
static void Scatter_init(struct trial *trial) {
    mpi.Scatter_init(trial->in, BLOCK, trial->out, BLOCK, 0, END);
}
static void Allgather_init(struct trial *trial) {
    mpi.Allgather_init(trial->in, BLOCK, trial->out, BLOCK, END);
}
static void Alltoall_init(struct trial *trial) {
    mpi.Alltoall_init(trial->in, BLOCK, trial->out, BLOCK, END);
}
static void Reduce_init(struct trial *trial) {
    mpi.Reduce_init(trial->in, trial->out, BLOCK, MPI_SUM, 0, END);
}
static void Allreduce_init(struct trial *trial) {
    mpi.Allreduce_init(trial->in, trial->out, BLOCK, MPI_SUM, END);
}

/* From every rank to the one on its right, in parts on either side. */
static void Psend_init(struct trial *trial) {
#if MPI_VERSION >= 4
    mpi.Precv_init(trial->out, PARTS, KIND_WORDS / PARTS, MPI_UNSIGNED,
                   (rank + nranks - 1) % nranks, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &trial->receive);
    mpi.Psend_init(trial->in, 2 * PARTS, KIND_WORDS / (2 * PARTS), MPI_UNSIGNED,
                   (rank + 1) % nranks, 0, END);
#else
    (void)trial;
#endif
}

/* What goes in, and what must come out. */
static unsigned word_of(const struct trial *trial, unsigned from, unsigned i) {
    return trial->start * 1000003u + from * 1009u + i;
}
static unsigned Bcast_word(const struct trial *trial, unsigned i) {
    return word_of(trial, 0, i);
}
static unsigned Gather_word(const struct trial *trial, unsigned i) {
    return word_of(trial, i / KIND_WORDS, i % KIND_WORDS);
}
static unsigned Scatter_word(const struct trial *trial, unsigned i) {
    return word_of(trial, 0, (unsigned)rank * KIND_WORDS + i);
}
static unsigned Alltoall_word(const struct trial *trial, unsigned i) {
    return word_of(trial, i / KIND_WORDS, (unsigned)rank * KIND_WORDS + i % KIND_WORDS);
}
static unsigned Psend_word(const struct trial *trial, unsigned i) {
    return word_of(trial, (unsigned)((rank + nranks - 1) % nranks), i);
}
static unsigned Reduce_word(const struct trial *trial, unsigned i) {
    unsigned sum = 0;
    for (unsigned from = 0; from < (unsigned)nranks; from++)
        sum += word_of(trial, from, i);
    return sum;
}

static const struct {
    void (*init)(struct trial *trial);
    unsigned (*word)(const struct trial *trial, unsigned i);
    enum { ALL, ROOT, OTHERS } who; /* has a result */
    bool is_many;                   /* the result has a block for each rank */
} kinds[TUG_NKINDS] = {
    [TUG_KIND_Bcast] = {Bcast_init, Bcast_word, OTHERS, false},
    [TUG_KIND_Gather] = {Gather_init, Gather_word, ROOT, true},
    [TUG_KIND_Scatter] = {Scatter_init, Scatter_word, ALL, false},
    [TUG_KIND_Allgather] = {Allgather_init, Gather_word, ALL, true},
    [TUG_KIND_Alltoall] = {Alltoall_init, Alltoall_word, ALL, true},
    [TUG_KIND_Reduce] = {Reduce_init, Reduce_word, ROOT, false},
    [TUG_KIND_Allreduce] = {Allreduce_init, Reduce_word, ALL, false},
    [TUG_KIND_Psend] = {Psend_init, Psend_word, ALL, false},
};

static void run_partitioned(struct trial *trial) {
#if MPI_VERSION >= 4
    mpi.Start(&trial->receive);
    mpi.Start(&trial->request);
    mpi.Pready_range(0, 2 * PARTS - 1, trial->request);
    mpi.Wait(&trial->request, MPI_STATUS_IGNORE);
    mpi.Wait(&trial->receive, MPI_STATUS_IGNORE);
#else
    (void)trial;
#endif
}

/* One start, after which this rank has the right data. */
static bool is_start_right(enum tug_kind kind, struct trial *trial) {
    const unsigned nwords = (unsigned)nranks * KIND_WORDS;
    bool right = true;
    for (unsigned i = 0; i < nwords; i++) {
        trial->in[i] = word_of(trial, (unsigned)rank, i);
        trial->out[i] = 0;
    }
    if (trial->receive != MPI_REQUEST_NULL) {
        run_partitioned(trial);
    } else {
        mpi.Start(&trial->request);
        mpi.Wait(&trial->request, MPI_STATUS_IGNORE);
    }
    if (kinds[kind].who != ALL && (kinds[kind].who == ROOT) != (rank == 0))
        return true;
    for (unsigned i = 0; i < (kinds[kind].is_many ? nwords : KIND_WORDS); i++)
        right = right && trial->out[i] == kinds[kind].word(trial, i);
    return right;
}

static int try_kind(enum tug_kind kind) {
    const size_t nwords = (size_t)nranks * KIND_WORDS;
    struct trial trial = {.in = calloc(nwords, sizeof(unsigned)),
                          .out = calloc(nwords, sizeof(unsigned)),
                          .request = MPI_REQUEST_NULL,
                          .receive = MPI_REQUEST_NULL};
    bool right = trial.in != NULL && trial.out != NULL;
    if (everywhere(right)) {
        kinds[kind].init(&trial);
        for (trial.start = 1; trial.request != MPI_REQUEST_NULL && trial.start <= KIND_STARTS;
             trial.start++)
            right = is_start_right(kind, &trial) && right;
        if (trial.request != MPI_REQUEST_NULL)
            mpi.Request_free(&trial.request);
        if (trial.receive != MPI_REQUEST_NULL)
            mpi.Request_free(&trial.receive);
    }
    free(trial.in);
    free(trial.out);
    return everywhere(right);
}

/* ---- the job ---- */

static void check_data(struct tug_findings *f, MPI_Win win, uint32_t *word) {
    f->unaligned = try_unaligned();
    f->unsigned_max = try_unsigned_max(win, word);
    f->mixed = try_neighbours();
    for (enum tug_kind kind = 0; kind < TUG_NKINDS; kind++)
        f->wrong |= !try_kind(kind) << kind;
}

static void try_all(struct tug_findings *f) {
    MPI_Win win;
    uint32_t *word;
    find_shape(f);
    mpi.Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    find_lane(win, f->lane);
    f->passive_us = measure_passive(win);
    if (f->preloaded)
        check_data(f, win, word);
    mpi.Win_free(&win);
}

int tug_selftest_rank(void) {
    struct tug_findings f = {0};
    int provided;
    if (!look_up(&f.preloaded)) {
        tug_cmd_say("selftest finds no MPI library with the calls that are needed here: set "
                    "LD_LIBRARY_PATH to one (tugboat info)");
        return TUG_EXIT_FAILED;
    }
    if (mpi.Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return TUG_EXIT_FAILED;
    f.multiple = provided == MPI_THREAD_MULTIPLE;
    mpi.Comm_rank(MPI_COMM_WORLD, &rank);
    mpi.Comm_size(MPI_COMM_WORLD, &nranks);
    try_all(&f);
    if (rank == 0)
        tug_findings_print(stdout, &f);
    fflush(stdout);
    mpi.Finalize();
    return 0;
}

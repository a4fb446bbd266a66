/*
 * rma_protected: pages that the program protects, and whose faults it handles.
 *
 * Collectors of garbage and incremental checkpoints protect pages and have a SIGSEGV handler note
 * accesses to them and give them back. One-sided operations reach a window in such pages, of every
 * kind and size, one by one and many at once, next to a target that computes and one that waits:
 * the data are right, and the handler has seen every page that has changed. So do operations from
 * and into protected memory of the origin's own.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lane.h"

enum { PAGE = 4096, PAGES = 512, BYTES = PAGE * PAGES, MANY = 100 };

static unsigned char *window, *own;
static volatile int faults, seen[2 * PAGES];

static void on_fault(int number, siginfo_t *info, void *context) {
    unsigned char *at = info->si_addr;
    (void)context;
    if (at < window || at >= window + 2 * BYTES) {
        signal(number, SIG_DFL);
        return;
    }
    const size_t page = (size_t)(at - window) / PAGE;
    faults++;
    seen[page] = 1;
    mprotect(window + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void protect(unsigned char *memory, int rights) {
    faults = 0;
    memset((void *)seen, 0, sizeof seen);
    CHECK(mprotect(memory, BYTES, rights) == 0, "no protection");
}

/* ---- what a round does ---- */

enum call { PUT, GET, ACC, GETACC, FOP, CAS, NCALLS };

static const char *const call_names[NCALLS] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"};

/* So many operations of so many longs each, from an offset on at a distance of `stride` bytes. */
struct round {
    enum call call;
    int n, longs;
    size_t offset, stride;
    int rights;
    bool busy;
};

static void begin_one(const struct round *r, int i, int64_t *mine, int64_t *got, MPI_Win win) {
    const MPI_Aint at = (MPI_Aint)(r->offset + (size_t)i * r->stride);
    int64_t *from = mine + (size_t)i * (size_t)r->longs, *to = got + (size_t)i * (size_t)r->longs;
    static const int64_t seven = 7;
    if (r->call == PUT)
        MUST(MPI_Put(from, r->longs, MPI_INT64_T, 0, at, r->longs, MPI_INT64_T, win));
    else if (r->call == GET)
        MUST(MPI_Get(to, r->longs, MPI_INT64_T, 0, at, r->longs, MPI_INT64_T, win));
    else if (r->call == ACC)
        MUST(MPI_Accumulate(from, r->longs, MPI_INT64_T, 0, at, r->longs, MPI_INT64_T, MPI_SUM,
                            win));
    else if (r->call == GETACC)
        MUST(MPI_Get_accumulate(from, r->longs, MPI_INT64_T, to, r->longs, MPI_INT64_T, 0, at,
                                r->longs, MPI_INT64_T, MPI_SUM, win));
    else if (r->call == FOP)
        MUST(MPI_Fetch_and_op(from, to, MPI_INT64_T, 0, at, MPI_SUM, win));
    else
        MUST(MPI_Compare_and_swap(from, &seven, to, MPI_INT64_T, 0, at, win));
}

static int64_t value(const struct round *r, int i, int k) {
    return 1000 * i + k % 900 + r->longs;
}

static void be_origin(const struct round *r, MPI_Win win) {
    const size_t all = (size_t)r->n * (size_t)r->longs;
    int64_t *mine = calloc(all, 8), *got = calloc(all, 8);
    CHECK(mine != NULL && got != NULL, "no memory");
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->longs; k++)
            mine[(size_t)i * (size_t)r->longs + (size_t)k] = value(r, i, k);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    for (int i = 0; i < r->n; i++)
        begin_one(r, i, mine, got, win);
    MUST(MPI_Win_unlock(0, win));
    for (size_t i = 0; i < all; i++)
        CHECK(r->call == PUT || r->call == ACC || got[i] == 7, "%s %d x %d: word %zu is %lld",
              call_names[r->call], r->n, r->longs, i, (long long)got[i]);
    free(mine);
    free(got);
}

static void compute(void) {
    const double begin = MPI_Wtime();
    while (MPI_Wtime() < begin + 0.05)
        ;
}

/* Every word of the target's, and each page that has changed. */
static void see(const struct round *r) {
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->longs; k++) {
            const size_t at = r->offset + (size_t)i * r->stride + 8 * (size_t)k;
            const int64_t is = *(int64_t *)(window + at), new = value(r, i, k);
            const int64_t want = r->call == GET                     ? 7
                                 : r->call == PUT || r->call == CAS ? new
                                                                    : new + 7;
            CHECK(r->call == GET || seen[at / PAGE], "%s %d x %d: page %zu changed unseen",
                  call_names[r->call], r->n, r->longs, at / PAGE);
            CHECK(is == want, "%s %d x %d: byte %zu is %lld, not %lld", call_names[r->call], r->n,
                  r->longs, at, (long long)is, (long long)want);
        }
    CHECK(faults > 0 || (r->call == GET && r->rights == PROT_READ), "no fault");
}

static void run(const struct round *r) {
    MPI_Win win;
    if (check_rank == 0) {
        mprotect(window, BYTES, PROT_READ | PROT_WRITE);
        for (size_t i = 0; i < BYTES / 8; i++)
            ((int64_t *)window)[i] = 7;
    }
    MUST(MPI_Win_create(window, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (int time = 0; time < 2; time++) { /* by what the first has found out, too */
        if (check_rank == 0) {
            mprotect(window, BYTES, PROT_READ | PROT_WRITE);
            for (size_t i = 0; i < BYTES / 8; i++)
                ((int64_t *)window)[i] = 7;
            protect(window, r->rights);
        }
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 1)
            be_origin(r, win);
        else if (r->busy)
            compute();
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0)
            see(r);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
    }
    MUST(MPI_Win_free(&win));
}

/* ---- the origin's own memory ---- */

static void run_own(bool puts, int bytes) {
    MPI_Win win;
    if (check_rank == 0) {
        mprotect(window, BYTES, PROT_READ | PROT_WRITE);
        memset(window, puts ? 1 : 2, BYTES);
    }
    MUST(MPI_Win_create(window, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (check_rank == 1) {
        mprotect(own, BYTES, PROT_READ | PROT_WRITE);
        memset(own, puts ? 2 : 1, BYTES);
        protect(own, puts ? PROT_NONE : PROT_READ);
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        for (int i = 0; i < 4; i++) {
            unsigned char *mine = own + 4 * PAGE * i + 64;
            if (puts)
                MUST(MPI_Put(mine, bytes, MPI_BYTE, 0, 4 * PAGE * i, bytes, MPI_BYTE, win));
            else
                MUST(MPI_Get(mine, bytes, MPI_BYTE, 0, 4 * PAGE * i, bytes, MPI_BYTE, win));
        }
        MUST(MPI_Win_unlock(0, win));
        for (int i = 0; i < bytes && !puts; i++)
            CHECK(own[64 + i] == 2 && own[12 * PAGE + 64 + i] == 2, "byte %d", i);
        CHECK(faults > 0, "no fault of the origin's own");
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0)
        for (int i = 0; i < bytes; i++)
            CHECK(window[i] == 2 && window[12 * PAGE + i] == 2, "byte %d", i);
    MUST(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    const struct {
        int n, longs;
        size_t offset, stride;
    } shapes[] = {
        {1, 1, 64, 0},                        /* one */
        {16, 1, 64, PAGE},                    /* few, a page each */
        {MANY, 1, 64, PAGE},                  /* many, a page each */
        {MANY, 3, 8, 40},                     /* many in a page */
        {4, 1000, 16, 3 * PAGE},              /* over several pages */
        {1, 20000, 24, 0},                    /* 160 kB: a long copy */
        {1, (BYTES - 2 * PAGE) / 8, 4000, 0}, /* 2 MB */
    };
    check_begin(&argc, &argv, "rma_protected");
    window = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(window != MAP_FAILED && sysconf(_SC_PAGESIZE) == PAGE, "no memory in pages of 4096");
    own = window + BYTES;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0, "no handler");
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int call = 0; call < NCALLS; call++)
            for (int kind = 0; kind < 4; kind++) {
                const struct round round = {(enum call)call,  shapes[s].n,
                                            shapes[s].longs,  shapes[s].offset,
                                            shapes[s].stride, kind / 2 ? PROT_NONE : PROT_READ,
                                            kind % 2 != 0};
                if ((call != FOP && call != CAS) || shapes[s].longs == 1)
                    run(&round);
            }
    for (int puts = 0; puts < 2; puts++) {
        run_own(puts, 8);
        run_own(puts, 2000);
        run_own(puts, 3 * PAGE);
        run_own(puts, 20 * PAGE);
    }
    return check_end();
}

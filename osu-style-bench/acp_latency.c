/* acp_latency: how long do a put, a get and a third-party copy of ACP take, by size?
 *
 * Rank 0 copies between its own memory and rank 1's starter memory (--memory registered, lent:
 * to registered memory, see acp_bench.h), and, with three ranks, from rank 1 to rank 2. A time is
 * from the call to the end of acp_complete(), with --window of them under way together; then it is
 * for each. Beside it stands the host MPI in the same run, sample by sample: with one under way
 * half a ping-pong, with more a stream of nonblocking messages and one answer. Who has no part in a
 * sample sleeps: the target's engine does what is to be done.
 */
#include "acp_bench.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { HOST, PUT, GET, THIRD, KINDS };
static const char *const names[KINDS] = {"host", "put", "get", "third"};

enum { MAX_SIZES = 32, MAX_SAMPLES = 101, MAX_WINDOW = 1024, WARM = 10 };

static const char *size_list = "8,64,512,4K,32K,256K,1M", *others = "wait";
static long nsamples = 7, window = 1;
static double seconds = 0.005;

static struct acp_bench acp = {.memory = "starter"}; /* the host's messages are own too */

struct job {
    enum kind kind;
    size_t bytes;
    long rounds; /* of a window each */
    uint64_t seed;
};

/* ---- waiting without a core ---- */

static void nap_until_all_here(void) {
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(bench.sync, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        usleep(100);
    }
}

/* ---- one sample ---- */

static void stream(const struct job *job, int peer, long rounds) {
    static MPI_Request requests[MAX_WINDOW];
    static MPI_Status statuses[MAX_WINDOW];
    int n = (int)job->bytes;
    for (long i = 0; i < rounds; i++) {
        if (window == 1 && bench.rank == 0) {
            MPI_Send(acp.own, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(acp.own, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (window == 1) {
            MPI_Recv(acp.own, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(acp.own, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        } else if (bench.rank == 0) {
            for (long k = 0; k < window; k++)
                MPI_Isend(acp.own, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[k]);
            MPI_Waitall((int)window, requests, statuses);
            MPI_Recv(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (long k = 0; k < window; k++)
                MPI_Irecv(acp.own, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[k]);
            MPI_Waitall((int)window, requests, statuses);
            MPI_Send(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        }
    }
}

static void copy(const struct job *job, long rounds) {
    acp_ga_t from = job->kind == PUT ? acp.own_ga : acp.targets[1];
    acp_ga_t to = job->kind == PUT   ? acp.targets[1]
                  : job->kind == GET ? acp.own_ga
                                     : acp.targets[2];
    for (long i = 0; i < rounds; i++) {
        acp_handle_t handle = ACP_HANDLE_NULL;
        for (long k = 0; k < window; k++)
            handle = acp_copy(to, from, job->bytes, ACP_HANDLE_NULL);
        acp_complete(handle);
    }
}

/* Where the data of this kind come from, and where they go. */
static int giver(enum kind kind) {
    return kind == PUT ? 0 : 1;
}

static int taker(enum kind kind) {
    return kind == PUT ? 1 : kind == GET ? 0 : 2;
}

/* Microseconds of all rounds, on rank 0. */
static double run_host(const struct job *job) {
    double us = 0;
    nap_until_all_here();
    if (bench.rank < 2) {
        stream(job, 1 - bench.rank, WARM);
        double start = bench_now_us();
        stream(job, 1 - bench.rank, job->rounds);
        us = bench_now_us() - start;
    }
    nap_until_all_here();
    return us;
}

static double run_acp(const struct job *job, long *errors) {
    double us = 0;
    unsigned char *mine = bench.rank == 0 ? acp.own : acp.target;
    if (bench.rank == giver(job->kind))
        bench_pattern_fill(mine, job->bytes, job->seed);
    nap_until_all_here();
    if (bench.rank == 0) {
        copy(job, WARM); /* keys are known and pages are there */
        double start = bench_now_us();
        copy(job, job->rounds);
        us = bench_now_us() - start;
    }
    if (strcmp(others, "wait") == 0)
        acp_sync();
    else
        nap_until_all_here();
    if (bench.validate && bench.rank == taker(job->kind)) {
        bench_corrupt(mine);
        *errors += bench_pattern_check(mine, job->bytes, job->seed, names[job->kind]);
    }
    return us;
}

/* Microseconds each, on rank 0. */
static double run_sample(const struct job *job, long *errors) {
    double us = job->kind == HOST ? run_host(job) : run_acp(job, errors);
    return us / (double)(job->rounds * window) / (job->kind == HOST && window == 1 ? 2 : 1);
}

/* ---- a row ---- */

static void choose_rounds(struct job *job, long *errors) {
    double best = 1e30;
    job->rounds = 5;
    for (int i = 0; i < 3; i++) {
        double us = run_sample(job, errors);
        best = us < best ? us : best;
    }
    job->rounds = (long)(seconds * 1e6 / best / (double)window);
    if (job->rounds < 5)
        job->rounds = 5;
    MPI_Bcast(&job->rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
}

static long run_size(size_t bytes) {
    static double us[KINDS][MAX_SAMPLES], ratio[KINDS][MAX_SAMPLES];
    const int nkinds = bench.nranks > 2 ? KINDS : THIRD;
    struct job jobs[KINDS];
    long errors = 0;
    for (long i = -1; i < nsamples; i++) { /* -1: how many rounds? */
        for (int kind = 0; kind < nkinds; kind++) {
            if (kind == PUT)
                acp_bench_open(&acp);
            if (i < 0) {
                jobs[kind] = (struct job){.kind = (enum kind)kind, .bytes = bytes};
                choose_rounds(&jobs[kind], &errors);
                continue;
            }
            jobs[kind].seed = (uint64_t)i * KINDS + (uint64_t)kind + bytes;
            us[kind][i] = run_sample(&jobs[kind], &errors);
            ratio[kind][i] = us[kind][i] / us[kind == THIRD ? PUT : HOST][i];
        }
        acp_bench_close();
    }
    for (int kind = PUT; kind < nkinds; kind++) {
        double *columns[] = {us[kind], us[HOST], ratio[kind]};
        bench_cell_text(names[kind]);
        bench_cell((double)bytes);
        bench_cell_medians(columns, 3, (int)nsamples);
        bench_cell((double)bytes / bench_median(us[kind], (int)nsamples) / 1000);
        bench_cell((double)nsamples);
    }
    return errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes of a copy"},
        {"window", BENCH_LONG, &window, "copies under way together"},
        {"memory", BENCH_TEXT, &acp.memory, ACP_BENCH_MEMORY},
        {"others", BENCH_TEXT, &others, "meanwhile: wait (in acp_sync) or sleep"},
        {"samples", BENCH_LONG, &nsamples, "samples for each row"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample"},
    };
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},      {"bytes", BENCH_KEY, 0},  {"us", BENCH_LOWER, 3},
        {"host_us", BENCH_INFO, 3}, {"ratio", BENCH_INFO, 3}, {"gb_s", BENCH_INFO, 2},
        {"samples", BENCH_INFO, 0},
    };
    long sizes[MAX_SIZES], errors = 0;
    size_t largest = 0;
    setenv("TUGBOAT_ACP_STARTER", "16M", 0);
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE, "How long does a copy of ACP take, by size?",
                options, sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    if (nsizes < 1 || nsamples < 1 || nsamples > MAX_SAMPLES || window < 1 || window > MAX_WINDOW ||
        seconds <= 0 || bench.nranks < 2 || bench.nranks > ACP_BENCH_RANKS)
        bench_usage_error(
            "two ranks or more, sizes, --samples 1..%d, --window 1..%d, --seconds > 0", MAX_SAMPLES,
            MAX_WINDOW);
    for (int i = 0; i < nsizes; i++)
        largest = (size_t)sizes[i] > largest ? (size_t)sizes[i] : largest;
    acp_bench_begin(&acp, largest);
    bench_header("copies of ACP; third against put, the others against the host");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nsizes; i++)
        errors += run_size((size_t)sizes[i]);
    return bench_finish(errors);
}

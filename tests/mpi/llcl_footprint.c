/*
 * What a context costs in memory is what `tugboat info --memory` says.
 *
 *   llcl_footprint CONTEXTS LEAST MOST [few]
 *
 * LEAST is what the table says without packets that are kept for later, MOST with as many as are
 * ever on their way to one process, for a context with 255 registrations that has to do with all.
 * Contexts are made one after the other, the first one apart: it brings the engine up and meets the
 * host MPI for the first time. In each, every process writes to every process, often enough for
 * packets to be full and many. Measured is the growth of the memory of all processes together (Pss:
 * a page that several have mapped is counted once), the median of the contexts, less what the host
 * MPI takes for the communicators of a context. few: short writes to everybody, for which hardly
 * any packets are kept: what is measured is what the table says, up to a tenth.
 */
#include "llcl_check.h"

enum { REGISTRATIONS = 255, MOST_CONTEXTS = 32, PIECE = 16384, PIECES = 64 };

static struct ll_memory memory[MOST_CONTEXTS];
static tug_context *contexts[MOST_CONTEXTS];
static unsigned char small[REGISTRATIONS][8];
static bool few;

/* Bytes, of all processes. */
static double in_use(void) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL) {
        printf("skipped: no /proc/self/smaps_rollup\n");
        MPI_Finalize();
        exit(CHECK_SKIP);
    }
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "Pss: %ld kB", &kib) != 1)
        continue;
    fclose(file);
    CHECK(kib > 0, "no Pss in smaps_rollup");
    double mine = (double)kib * 1024, all;
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

/* Many packets, full ones, to one process. */
static void write_to(tug_context *context, struct ll_memory *m, int to) {
    struct tug_counter counter = {0};
    struct tug_write_params params = {
        .dest_proc = to,
        .dest_raddr = {&m->keys[to], 0},
        .src_laddr = {m->registration, 0},
        .size_in_bytes = few ? 8 : PIECE,
        .on_complete = {tug_counter_add, &counter},
    };
    for (int i = 0; i < PIECES; i++)
        while (!tug_try_write_async(context, &params))
            tug_progress(context);
    int rc = tug_counter_wait(context, &counter, PIECES);
    CHECK(rc == 0, "writes: %s", tug_strerror(rc));
}

static void make(int i) {
    contexts[i] = ll_open(MPI_COMM_WORLD);
    ll_make(contexts[i], &memory[i], LL_REGISTERED, PIECE);
    for (int r = 0; r < REGISTRATIONS - 1; r++) {
        tug_registration *registration;
        int rc = tug_mem_register(contexts[i], small[r], sizeof small[r], &registration);
        CHECK(rc == 0, "tug_mem_register: %s", tug_strerror(rc));
    }
    /* one after the other: what is under way to many at once is not in the table */
    for (int to = 1; to <= check_nranks; to++)
        write_to(contexts[i], &memory[i], (check_rank + to) % check_nranks);
    ll_barrier(contexts[i]);
}

/* The communicators of a context. They stay: what is freed would be used again. */
static void make_host(int i) {
    MPI_Comm all, node;
    (void)i;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank, &all));
    MUST(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, check_rank, MPI_INFO_NULL, &node));
}

/* What one more takes of a process: the median of n. */
static double growth(int n, void (*make_one)(int i)) {
    double grown[MOST_CONTEXTS], before = in_use();
    for (int i = 1; i <= n; i++) {
        make_one(i);
        const double now = in_use();
        grown[i - 1] = (now - before) / check_nranks;
        before = now;
    }
    return check_median(grown, (size_t)n);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "llcl_footprint");
    few = argc == 5 && strcmp(argv[4], "few") == 0;
    CHECK(argc == 4 || few, "usage: llcl_footprint CONTEXTS LEAST MOST [few]");
    const int n = atoi(argv[1]);
    const double least = atof(argv[2]), most = atof(argv[3]);
    CHECK(n > 0 && n < MOST_CONTEXTS && least > 0 && most >= least, "usage");
    make(0);
    const double host = growth(9, make_host);
    const double each = growth(n, make) - host;
    if (check_rank == 0)
        printf("a context: %.0f bytes measured, %.0f to %.0f computed (host MPI: %.0f more)\n",
               each, least, most, host);
    const double pages = few ? 0 : 8 * 4096; /* that are not all of the context's */
    CHECK(each > 0.9 * least - pages, "%.0f bytes, and %.0f were computed", each, least);
    CHECK(each < 1.1 * most + pages, "%.0f bytes, and %.0f were computed", each, most);
    for (int i = 0; i <= n; i++) {
        ll_end(contexts[i], &memory[i]);
        ll_close(&contexts[i]);
    }
    return check_end();
}

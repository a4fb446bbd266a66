/* What the simulator finds, with what calibration has written, against what broadcasts take: all
 * ways that the model lists, at a few sizes, each node a rank of its own.
 *
 * A machine that is busy with other things takes whatever it takes: where ranks have waited for a
 * core for a part of the time that matters (the kernel counts it), or outnumber the cores, nothing
 * is said. What other guests of a virtual machine do is not seen: three attempts, one has to be
 * right.
 *
 * Linked with the library's inside: there is no other way to run a given plan. */
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/settings.h"
#include "check.h"
#include "engine/park.h"
#include "host/host.h"
#include "host/polite.h"
#include "model/choose.h"
#include "persistent/calibrate.h"
#include "persistent/channel.h"
#include "persistent/collectives.h"
#include "persistent/interpreter.h"
#include "schedule/bcast.h"
#include "simulated_bcast.h"

#define ATTEMPTS 3
#define WITHIN 3.0
#define WAITED_MOST 0.1 /* of the time, for a core */
#define RUNS 101

static const uint64_t sizes[] = {4096, 65536, 1048576, 4194304};
static struct tug_team *team;
static struct tug_model_parameters parameters;

/* ---- how busy the machine is ---- */

/* Nanoseconds for which this process could have run, but had no core. */
static uint64_t waited_ns(void) {
    unsigned long long ran, waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file != NULL && fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (file != NULL)
        fclose(file);
    return waited;
}

/* The rank that waited longest, as a share of the time since. */
static double share_waited(uint64_t start_ns, uint64_t waited_before_ns) {
    double share = (double)(waited_ns() - waited_before_ns) / (double)(tug_clock_ns() - start_ns);
    MUST(MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return share;
}

/* ---- measured ---- */

/* Ranks leave closer to one another than from a barrier of the host. */
static void start_together(void) {
    for (int distance = 1; distance < check_nranks; distance *= 2) {
        int to = (check_rank + distance) % check_nranks;
        int from = (check_rank + check_nranks - distance) % check_nranks;
        struct tug_backoff backoff = {0};
        MPI_Request requests[2];
        int done = 0;
        MUST(MPI_Irecv(NULL, 0, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[0]));
        MUST(MPI_Isend(NULL, 0, MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[1]));
        for (;;) {
            MUST(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE));
            if (done)
                break;
            tug_backoff_relax(&backoff);
        }
    }
}

/* Seconds until the last rank has it, the median of many runs. */
static double measure(const struct tug_bcast_plan *plan, unsigned char *buffer) {
    static struct tug_area_memory areas[TUG_AREA_BLOCKS];
    const struct tug_channel_needs needs = {0};
    struct tug_ballot ballot = {.willing = true};
    struct tug_interpreter interpreter = {.team = team, .areas = areas};
    double times[RUNS];
    for (int a = 0; a < TUG_AREA_BLOCKS; a++)
        areas[a] = (struct tug_area_memory){
            .base = buffer, .type = MPI_BYTE, .count = 1, .extent = 1, .dense = true};
    CHECK(tug_channel_take(team, &needs, &ballot, &interpreter.channel) == 0, "no channel");
    CHECK(tug_compile_bcast(&interpreter.schedule, &team->places, plan, (uint32_t)check_rank) ==
                  0 &&
              tug_interpreter_init(&interpreter) == 0,
          "no interpreter");
    for (int i = 0; i < RUNS; i++) {
        struct tug_backoff backoff = {0};
        bool done = false;
        if (check_rank == 0)
            memset(buffer, i, plan->elements);
        start_together();
        uint64_t start = tug_clock_ns();
        tug_interpreter_start(&interpreter);
        while (!done)
            if (!tug_interpreter_advance(&interpreter, &done))
                tug_backoff_relax(&backoff);
        times[i] = (double)(tug_clock_ns() - start) * 1e-9;
        CHECK(interpreter.error == MPI_SUCCESS && buffer[plan->elements - 1] == (unsigned char)i,
              "the broadcast is wrong");
    }
    MUST(MPI_Allreduce(MPI_IN_PLACE, times, RUNS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    tug_interpreter_fini(&interpreter);
    tug_channel_release(team, interpreter.channel);
    return check_median(times, RUNS);
}

/* ---- both ---- */

/* What calibration finds, through a file. */
static void calibrate(void) {
    char name[] = "/tmp/tug-simulated-XXXXXX";
    char why[256] = "";
    CHECK(tug_calibrate(team, TUG_EFFORT_SHORT, &parameters) == 0, "calibration failed");
    int file = mkstemp(name);
    CHECK(file >= 0 && tug_model_write(name, &parameters) == 0, "cannot write %s", name);
    CHECK(tug_model_read(name, &parameters, why, sizeof(why)) == 0, "%s", why);
    close(file);
    remove(name);
}

/* True if they agree, for all ways. */
static bool compare(uint64_t bytes, unsigned char *buffer) {
    struct tug_candidate candidates[TUG_CANDIDATES_MOST];
    const struct tug_broadcast message = {.elements = bytes, .element_bytes = 1};
    uint32_t n = tug_model_choose(&team->places, &message, &parameters, candidates);
    bool good = true;
    for (uint32_t i = 0; i < n; i++) {
        struct tug_bcast_plan *plan = &candidates[i].plan;
        double simulated = simulate_bcast(team, &parameters, plan);
        double measured = measure(plan, buffer);
        good = good && simulated < WITHIN * measured && measured < WITHIN * simulated;
        if (check_rank == 0)
            printf("%8llu bytes by %s: simulated %.1f us, measured %.1f us\n",
                   (unsigned long long)bytes, tug_algorithm_name(plan->algorithm), simulated * 1e6,
                   measured * 1e6);
    }
    return good;
}

static int skip(const char *why) {
    if (check_rank == 0)
        printf("skipped: %s\n", why);
    fflush(stdout);
    MUST(MPI_Finalize());
    return CHECK_SKIP;
}

int main(int argc, char **argv) {
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    char why[256];
    check_begin_threads(&argc, &argv, "simulated");
    CHECK(tug_settings_load(why, sizeof(why)) == 0, "%s", why);
    if ((unsigned)check_nranks > tug_cores_find().count)
        return skip("nodes that are emulated on fewer cores share them, simulated ones do not");
    CHECK(tug_host_complete() && tug_collectives_team(MPI_COMM_WORLD, &team) == 0, "no team");
    tug_park_configure(tug_settings.spin_us, false);
    unsigned char *buffer = malloc(sizes[SIZES - 1]);
    CHECK(buffer != NULL, "no memory");
    bool good = false;
    double waited = 0;
    for (int attempt = 0; attempt < ATTEMPTS && !good; attempt++) {
        uint64_t start = tug_clock_ns();
        uint64_t before = waited_ns();
        good = true;
        calibrate();
        for (int i = 0; i < SIZES; i++)
            good = compare(sizes[i], buffer) && good;
        waited = share_waited(start, before);
        if (check_rank == 0)
            printf("a rank waited for a core for %.0f %% of the time\n", waited * 100);
    }
    free(buffer);
    if (!good && waited > WAITED_MOST)
        return skip("other programs wanted the cores");
    CHECK(good, "simulated and measured times differ by more than %g times", WITHIN);
    return check_end();
}

/* All ways to broadcast, by turns in one job: what the model predicts for each, what the simulator
 * finds, and what it takes.
 *
 *   ways [SECONDS [BYTES]...]
 *
 * There is one calibration, the library's own of this job, and each way is a request of its own,
 * made while the settings leave no other. A turn has a run of each, so what disturbs the machine
 * for a while disturbs all. A run's time is that from the root's start to the end on the last rank,
 * by the clock of the one machine that all ranks are on. A line of rank 0 for each way,
 * microseconds, the way that the model takes first:
 *
 *   way ranks nodes bytes algorithm phases segment predicted simulated measured even odd
 *
 * The last two are medians of every second turn: the fastest way by the one is judged by the other,
 * since the least of several medians is less than what that way takes.
 * Before them are the parameters, as a file of `tugboat calibrate` has them.
 *
 * The data of every run are checked. tests/hosts/model.sh reads the lines.
 *
 * Linked with the library's inside: no setting names a way request by request. */
#include "base/clock.h"
#include "base/settings.h"
#include "check.h"
#include "model/choose.h"
#include "model/tuning.h"
#include "persistent/collectives.h"
#include "persistent/tuning.h"
#include "schedule/bcast.h"
#include "simulated_bcast.h"

#define WARM 40 /* runs: whatever a request decides about itself is settled by then */
#define TURNS_LEAST 15
#define TURNS_MOST 201

struct way {
    struct tug_candidate candidate;
    MPI_Request request;
    double simulated_s;
    uint64_t starts_ns[TURNS_MOST]; /* of the root */
    uint64_t ends_ns[TURNS_MOST];   /* of this rank, and then of the last */
};

static struct tug_team *team;
static const struct tug_model_parameters *parameters;
static unsigned char *buffer;

/* The library makes the same of it as the model, which is asked for this way alone. */
static void make(struct way *way, uint64_t bytes) {
    const struct tug_bcast_plan *plan = &way->candidate.plan;
    tug_settings.pipelines = (enum tug_pipelines_choice)(plan->algorithm + 1);
    tug_settings.phases = (enum tug_phases_choice)(plan->phases + 1);
    tug_settings.segment_bytes = plan->segment;
    MUST(MPI_Bcast_init(buffer, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &way->request));
    way->simulated_s = simulate_bcast(team, parameters, plan);
}

static void run(struct way *way, uint64_t bytes, int number, uint64_t *start_ns, uint64_t *end_ns) {
    if (check_rank == 0)
        memset(buffer, number, bytes);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    *start_ns = tug_clock_ns();
    MUST(MPI_Start(&way->request));
    MUST(MPI_Wait(&way->request, MPI_STATUS_IGNORE));
    *end_ns = tug_clock_ns();
    CHECK(buffer[0] == (unsigned char)number && buffer[bytes - 1] == (unsigned char)number,
          "the broadcast is wrong");
}

static int take_turns(struct way ways[], uint32_t n, uint64_t bytes, double seconds) {
    int turns = 0, number = 0, more = 1;
    uint64_t unused;
    for (uint32_t w = 0; w < n; w++)
        for (int i = 0; i < WARM; i++)
            run(&ways[w], bytes, number++, &unused, &unused);
    for (uint64_t start = tug_clock_ns(); more; turns++) {
        for (uint32_t w = 0; w < n; w++)
            run(&ways[w], bytes, number++, &ways[w].starts_ns[turns], &ways[w].ends_ns[turns]);
        more = turns + 1 < TURNS_LEAST || (double)(tug_clock_ns() - start) * 1e-9 < seconds;
        more &= turns + 1 < TURNS_MOST;
        MUST(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    return turns;
}

/* Microseconds from the root's start to the end on the last rank, the median of the turns `first`,
 * `first` + `step`, ...; on rank 0. */
static double median_us(const struct way *way, int turns, int first, int step) {
    static double times_us[TURNS_MOST];
    size_t n = 0;
    for (int t = first; t < turns; t += step)
        times_us[n++] = (double)(way->ends_ns[t] - way->starts_ns[t]) * 1e-3;
    return check_median(times_us, n);
}

static void compare(uint64_t bytes, double seconds) {
    static struct way ways[TUG_CANDIDATES_MOST];
    struct tug_candidate candidates[TUG_CANDIDATES_MOST];
    const struct tug_broadcast message = {.elements = bytes, .element_bytes = 1};
    const uint32_t n = tug_model_choose(&team->places, &message, parameters, candidates);
    buffer = calloc(1, bytes);
    CHECK(buffer != NULL, "no memory");
    for (uint32_t w = 0; w < n; w++) {
        ways[w].candidate = candidates[w];
        make(&ways[w], bytes);
    }
    const int turns = take_turns(ways, n, bytes, seconds);
    for (uint32_t w = 0; w < n; w++) {
        struct tug_bcast_plan *plan = &ways[w].candidate.plan;
        MUST(MPI_Allreduce(MPI_IN_PLACE, ways[w].ends_ns, turns, MPI_UINT64_T, MPI_MAX,
                           MPI_COMM_WORLD));
        if (check_rank == 0)
            printf("way %d %u %llu %s %s %llu %.1f %.1f %.1f %.1f %.1f\n", check_nranks,
                   team->nnodes, (unsigned long long)bytes, tug_algorithm_name(plan->algorithm),
                   tug_phases_name(plan->phases), (unsigned long long)plan->segment,
                   ways[w].candidate.seconds * 1e6, ways[w].simulated_s * 1e6,
                   median_us(&ways[w], turns, 0, 1), median_us(&ways[w], turns, 0, 2),
                   median_us(&ways[w], turns, 1, 2));
        MUST(MPI_Request_free(&ways[w].request));
    }
    free(buffer);
}

int main(int argc, char **argv) {
    const struct tug_model_parameters *known = NULL;
    check_begin_threads(&argc, &argv, "ways");
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    CHECK(seconds > 0, "ways [SECONDS [BYTES]...]");
    CHECK(tug_collectives_team(MPI_COMM_WORLD, &team) == 0 &&
              (known = tug_team_parameters(team)) != NULL,
          "no calibration: there must be several nodes");
    static struct tug_model_parameters own; /* what is learnt meanwhile may move */
    own = *known;
    parameters = &own;
    if (check_rank == 0)
        tug_model_print(stdout, parameters);
    for (int i = 2; i < argc; i++) { /* bytes */
        const long bytes = atol(argv[i]);
        CHECK(bytes > 0, "%s: bytes are a whole number", argv[i]);
        compare((uint64_t)bytes, seconds);
    }
    return check_end();
}

/* What the library measures for itself at the first persistent collective: quickly, with the same
 * answer on all ranks; and what it takes from a file or for granted instead.
 *
 * Linked with the library's inside: there is no other way to ask. */
#include <time.h>
#include <unistd.h>

#include "base/settings.h"
#include "check.h"
#include "host/host.h"
#include "persistent/tuning.h"
#include "persistent/collectives.h"

static struct tug_team *team;

static void same_everywhere(const struct tug_model_parameters *mine) {
    struct tug_model_parameters first = *mine;
    MUST(MPI_Bcast(&first, sizeof(first), MPI_BYTE, 0, MPI_COMM_WORLD));
    CHECK(memcmp(&first, mine, sizeof(first)) == 0, "ranks have different parameters");
}

static void get(struct tug_model_parameters *p) {
    int error = tug_tuning_get(team, p);
    CHECK(error == 0, "no parameters: %s", tug_strerror(error));
    same_everywhere(p);
}

static double processor(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measured(void) {
    struct tug_model_parameters p;
    for (int i = 0; i < 2; i++) { /* the second time the channel is there */
        check_barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime(), used = processor();
        get(&p);
        double took = MPI_Wtime() - start;
        used = processor() - used;
        if (check_rank == 0)
            printf("%.1f ms, %.1f ms of processor time\n", took * 1e3, used * 1e3);
        /* where others want the cores, each message takes slices of time, which are not ours */
        CHECK(used < 3, "it took %g s of processor time", used);
    }
    CHECK(p.between_is_guess == (team->nnodes == 1), "guess %d", p.between_is_guess);
    CHECK(p.between.byte_s > 0 && p.inside.byte_s > 0 && p.copiers > 0, "nothing measured");
    CHECK((p.ncopies > 0) == (team->nnodes < team->nranks), "%u copies", p.ncopies);
}

static void from_file(void) {
    char name[] = "/tmp/tug-tuning-XXXXXX";
    struct tug_model_parameters p;
    CHECK(tug_model_named("fx100", &p) == 0, "fx100 is not known");
    int file = mkstemp(name);
    CHECK(file >= 0 && tug_model_write(name, &p) == 0, "cannot write %s", name);
    /* only the first rank's file counts */
    tug_settings.tuning = check_rank == 0 ? name : "/no/such/file";
    get(&p);
    CHECK(p.engines == 4, "engines %u: not from the file", p.engines);
    if (check_rank == 0) {
        FILE *bad = fopen(name, "w");
        CHECK(bad != NULL, "cannot write %s", name);
        fprintf(bad, "engines = many\n");
        fclose(bad);
    }
    get(&p);
    CHECK(p.engines == 1, "engines %u: not measured", p.engines);
    close(file);
    remove(name);
}

/* Eight ranks a core measure nothing. */
static void guessed(void) {
    const struct tug_team real = *team;
    struct tug_model_parameters p, named;
    (void)tug_model_named("default", &named);
    tug_settings.tuning = NULL;
    team->oversubscribed = true;
    team->cores = 3;
    team->crowd = 8;
    get(&p);
    CHECK(p.between_is_guess && p.ncopies == 0 && p.ntransfers == 0, "something was measured");
    CHECK(p.copiers == 3, "%u copiers", p.copiers);
    CHECK(p.between.latency_s == named.between.latency_s, "a latency of %g s", p.between.latency_s);
    CHECK(p.inside.overhead_s > named.inside.overhead_s, "nobody waits for a core");
    CHECK(p.crowd == 8 && p.turn_s > 0, "a crowd of %g", p.crowd);
    team->crowd = 23. / 3;
    CHECK(tug_team_measures(team), "seven ranks a core measure");
    team->oversubscribed = real.oversubscribed;
    team->cores = real.cores;
    team->crowd = real.crowd;
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "tuning");
    CHECK(tug_host_complete() && tug_collectives_team(MPI_COMM_WORLD, &team) == 0, "no team");
    measured();
    from_file();
    guessed();
    return check_end();
}

/*
 * `tugboat calibrate`: starts itself under a launcher, as an MPI program that measures.
 *
 * The command links no MPI. Its ranks find the host's library as ours does in a program; they are
 * started with the option --rank.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cmd/cmd.h"
#include "engine/engine.h"
#include "host/host.h"
#include "host/level.h"
#include "llcl/llcl.h"
#include "persistent/calibrate.h"
#include "persistent/collectives.h"
#include "tugboat/model.h"

#define FILE_DEFAULT "tugboat.tuning"

/* ---- a rank ---- */

static int report(const struct tug_team *team, const char *file,
                  const struct tug_model_parameters *parameters) {
    if (tug_model_write(file, parameters) != 0) {
        tug_cmd_say("cannot write %s: %s", file, strerror(errno));
        return TUG_EXIT_FAILED;
    }
    printf("measured with %d ranks on %d node%s; written to %s\n", team->nranks, team->nnodes,
           team->nnodes == 1 ? "" : "s", file);
    if (team->nnodes == 1)
        printf("only one node: what is between nodes is a guess\n");
    if (team->nnodes == team->nranks)
        printf("no two ranks on a node: what is inside of a node is a guess\n");
    printf("to use it: export TUGBOAT_TUNING=%s\n", file);
    return 0;
}

static int measure(const char *file) {
    struct tug_team *team;
    struct tug_model_parameters parameters;
    int provided;
    if (tug_cmd_load_settings() != 0)
        return TUG_EXIT_FAILED;
    if (!tug_host_complete() ||
        tug_host.Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS ||
        provided != MPI_THREAD_MULTIPLE) {
        tug_cmd_say("calibrate finds no usable MPI library here: set LD_LIBRARY_PATH to one "
                    "(tugboat info)");
        return TUG_EXIT_FAILED;
    }
    /* what goes by a network of ours goes by the engine, as in a program */
    tug_level = (struct tug_level){.active = true, .requested = provided};
    int error = tug_collectives_team(MPI_COMM_WORLD, &team);
    if (!error)
        error = tug_calibrate(team, TUG_EFFORT_THOROUGH, &parameters);
    int status = error ? TUG_EXIT_FAILED : 0;
    if (error)
        tug_cmd_say("calibrate measures nothing: %s", tug_strerror(error));
    else if (team->rank == 0)
        status = report(team, file, &parameters);
    tug_host.Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    tug_host.Barrier(MPI_COMM_WORLD);
    tug_team_finalize(true);
    tug_llcl_finalize();
    tug_engine_bring_down();
    tug_host.Finalize();
    return status;
}

/* ---- the command ---- */

int tug_cmd_calibrate(int argc, char **argv) {
    tug_command_hand_over("calibrate", argc, argv);
    const char *file = FILE_DEFAULT;
    int first = 0;
    if (argc == 2 && strcmp(argv[0], TUG_RANK_OPTION) == 0)
        return measure(argv[1]);
    if (argc > 0 && strcmp(argv[0], "-o") == 0) {
        file = argc > 1 ? argv[1] : "";
        first = 2;
    } else if (argc > 0 && argv[0][0] == '-') {
        return tug_cmd_no_option("calibrate", argv[0]);
    }
    if (first >= argc || file[0] == '\0') {
        tug_cmd_say("calibrate needs a launcher, for example: tugboat calibrate "
                    "mpiexec -n 4");
        return TUG_EXIT_USAGE;
    }
    char *path = tug_absolute(file); /* ranks may run in other folders */
    if (path == NULL) {
        tug_cmd_say("calibrate cannot start: %s", strerror(errno));
        return TUG_EXIT_FAILED;
    }
    tug_launch_ranks(argv + first, argc - first, "calibrate", path);
    free(path);
    return tug_cmd_cannot_run(argv[first], errno);
}

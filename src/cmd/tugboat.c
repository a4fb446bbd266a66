/*
 * The `tugboat` command: runs programs under the library, and says what there is.
 *
 * Reads nothing but its arguments, the settings (through base/settings.h) and /proc/self/exe.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "tugboat/tugboat.h"

static const struct subcommand {
    const char *name;
    const char *usage;
    const char *help;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"run", "run [--stats[=FILE.json]] [--trace=FILE.json] [--acp-...] COMMAND [ARGUMENT...]",
     "runs COMMAND under the library, for example mpiexec -n 4 ./app. --stats prints counters at "
     "the end, --trace writes the job's timeline for a viewer of traces. The options of ACP's own "
     "launchers start an ACP program with the host "
     "MPI's mpiexec: --acp-nprocs=N, --acp-nodefile=FILE, --acp-host=A,B, "
     "--acp-startermemsize=BYTES, --acp-envnet=udp|ib",
     tug_cmd_run},
    {"compare", "compare [-n TIMES] [--json FILE] [--output FOLDER] COMMAND [ARGUMENT...]",
     "run COMMAND, for example mpiexec -n 4 ./app, without and with Tugboat, in turns (-n: 3 times "
     "each), and say what changed: wall time, CPU time, and how sure that is; and what the library "
     "did; --output: keep what every run writes",
     tug_cmd_compare},
    {"info", "info [-c | -d | -t | --memory RANKS[,ACTIVE]]",
     "prints the version, the build, the MPI found, the transports and all settings. -c: only the "
     "settings, each with the source of its value. -d: the ways of LLCL to another process, and "
     "whether they are available. -t: measured parameters of this machine, and the sizes from "
     "which another way is taken. --memory: the memory that LLCL needs in one of RANKS processes "
     "that communicates with ACTIVE others",
     tug_cmd_info},
    {"model",
     "model [--nodes N] [--ppn P] [--size BYTES[:BYTES]] [--torus XxYxZ | --tree RADIX[:TAPER]] "
     "[--parameters FILE|default|fx100] [--algorithm NAME] [--segment BYTES] [--simulate] "
     "[--dump[=RANK]] [--json]",
     "predicts the time of a broadcast for each algorithm, from measured or named parameters. "
     "--simulate also simulates the schedules of all ranks. --dump prints the schedule of one "
     "rank",
     tug_cmd_model},
    {"calibrate", "calibrate [-o FILE] LAUNCHER [ARGUMENT...]",
     "measures this machine for TUGBOAT_TUNING and for tugboat model. LAUNCHER is for example "
     "mpiexec -n 4. Start ranks on two nodes or more to measure between nodes, too",
     tug_cmd_calibrate},
    {"selftest", "selftest [LAUNCHER [ARGUMENT...]]",
     "checks this installation within seconds: the host MPI, memory, cores, and a job of two "
     "ranks without and with Tugboat. Without LAUNCHER: for every MPI installed here",
     tug_cmd_selftest},
};

void tug_cmd_help(FILE *out) {
    fprintf(out, "usage: tugboat COMMAND\n\n");
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        fprintf(out, "  tugboat %s\n      %s\n", subcommands[i].usage, subcommands[i].help);
    fprintf(out, "  tugboat --version\n  tugboat --help\n");
    fprintf(
        out,
        "\nExit status of run: the status of COMMAND; 125 if Tugboat itself failed, 126 if COMMAND "
        "cannot be executed, 127 if it was not found.\nOf compare: 0 less wall time with Tugboat, "
        "%d the same, %d more; %d if the program fails without Tugboat, %d with it only.\n",
        TUG_EXIT_SAME, TUG_EXIT_WORSE, TUG_EXIT_FAILS_WITHOUT, TUG_EXIT_FAILS_WITH);
}

static bool asks_for_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        tug_cmd_help(stderr);
        return TUG_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("tugboat %s\n", tug_version());
        return 0;
    }
    if (asks_for_help(word) || strcmp(word, "help") == 0 || (argc > 2 && asks_for_help(argv[2]))) {
        tug_cmd_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(word, subcommands[i].name) == 0)
            return subcommands[i].run(argc - 2, argv + 2);
    tug_cmd_say("there is no command '%s'; see tugboat --help", word);
    return TUG_EXIT_USAGE;
}

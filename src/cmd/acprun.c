/*
 * `tugboat run --acp-...`: the options of the original ACP's launchers, acprun and macprun, for the
 * same program on MPI. How many and where go to the host MPI's launcher, which is started with the
 * command; starter memory and network become settings. Any other --acp-* is refused by name.
 */
#include "cmd/acprun.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/pick.h"

enum { LAUNCHER_WORDS = 7 }; /* its name, three options with a value each */

static bool is_number(const char *text) {
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static int refuse(const char *option, const char *why) {
    tug_cmd_say("run %s: %s", option, why);
    return TUG_EXIT_USAGE;
}

static int take_ranks(struct tug_acprun *acprun, const char *option, const char *value) {
    if (!is_number(value) || strspn(value, "0") == strlen(value))
        return refuse(option, "wants a number of processes");
    acprun->ranks = value;
    return 0;
}

static int take_starter(struct tug_acprun *acprun, const char *option, const char *value) {
    (void)acprun;
    if (!is_number(value))
        return refuse(option, "wants a number of bytes");
    return setenv("TUGBOAT_ACP_STARTER", strtoull(value, NULL, 10) < 1024 ? "1024" : value, 1);
}

static int take_node_file(struct tug_acprun *acprun, const char *option, const char *value) {
    if (value[0] == '\0')
        return refuse(option, "wants a file");
    acprun->node_file = value;
    return 0;
}

static int take_nodes(struct tug_acprun *acprun, const char *option, const char *value) {
    if (value[0] == '\0')
        return refuse(option, "wants hosts, with commas between");
    acprun->nodes = value;
    return 0;
}

static int take_network(struct tug_acprun *acprun, const char *option, const char *value) {
    (void)acprun;
    const char *ways = NULL;
    if (strcasecmp(value, "udp") == 0)
        ways = "self,mapped,cma,shm,tcp,mpi";
    else if (strcasecmp(value, "ib") == 0 || strcasecmp(value, "infiniband") == 0)
        ways = "self,mapped,cma,verbs,shm,mpi";
    return ways != NULL ? setenv("TUGBOAT_TRANSPORTS", ways, 1)
                        : refuse(option, "there are udp and ib here");
}

static const struct option {
    const char *name;
    int (*take)(struct tug_acprun *acprun, const char *option, const char *value);
} options[] = {
    {"--acp-n", take_ranks},
    {"--acp-np", take_ranks},
    {"--acp-nprocs", take_ranks},
    {"--acp-smemsize", take_starter},
    {"--acp-startermemsize", take_starter},
    {"--acp-machinefile", take_node_file},
    {"--acp-nodefile", take_node_file},
    {"--acp-host", take_nodes},
    {"--acp-node", take_nodes},
    {"--acp-net", take_network},
    {"--acp-envnet", take_network},
};

int tug_acprun_option(struct tug_acprun *acprun, const char *word) {
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strlen(options[i].name) == length && strncmp(word, options[i].name, length) == 0)
            return word[length] == '=' ? options[i].take(acprun, word, word + length + 1)
                                       : refuse(word, "wants a value, =VALUE");
    return refuse(word, "no such option here; there are --acp-nprocs, --acp-nodefile, --acp-host, "
                        "--acp-startermemsize and --acp-envnet");
}

bool tug_acprun_launches(const struct tug_acprun *acprun) {
    return acprun->ranks != NULL || acprun->node_file != NULL || acprun->nodes != NULL;
}

void tug_acprun_launch(const struct tug_acprun *acprun, int argc, char **argv) {
    const char *words[LAUNCHER_WORDS + 1] = {NULL};
    size_t n = 1;
    words[n++] = "-n";
    words[n++] = acprun->ranks != NULL ? acprun->ranks : "1";
    if (acprun->node_file != NULL) {
        words[n++] = "-machinefile";
        words[n++] = acprun->node_file;
    }
    if (acprun->nodes != NULL) {
        words[n++] = "-host";
        words[n++] = acprun->nodes;
    }
    struct tug_pick pick;
    tug_pick_command(argc, argv, &pick);
    const char *const *names = tug_mpi_launchers(tug_library_choose(tug_pick_mpi(&pick)));
    errno = ENOENT;
    for (; *names != NULL && errno == ENOENT; names++) {
        words[0] = *names;
        tug_cmd_become(words, argc, argv, NULL);
    }
}

/* The options of the original ACP's launchers, see acprun.c. */
#ifndef TUG_CMD_ACPRUN_H
#define TUG_CMD_ACPRUN_H

#include <stdbool.h>

/* What the options ask of the launcher; NULL: nothing. */
struct tug_acprun {
    const char *ranks, *node_file, *nodes;
};

/* Takes an option, which begins with --acp-. 0; TUG_EXIT_USAGE, and it has been told why; -1 and
 * errno. */
int tug_acprun_option(struct tug_acprun *acprun, const char *word);

/* Is a launcher to be started? */
bool tug_acprun_launches(const struct tug_acprun *acprun);

/* Becomes the host MPI's launcher with the command. Returns with errno if there is none. */
void tug_acprun_launch(const struct tug_acprun *acprun, int argc, char **argv);

#endif

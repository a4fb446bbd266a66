/* The --acp-* options that the original's launcher and its users hand to a program. They are taken
 * out of the arguments, so that the program does not meet them. What they say of ranks, hosts and
 * networks is said to the launcher of MPI here: such an option is refused by name rather than
 * overlooked. Threading: acp_init() and acp_reset() only. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acp/layer.h"
#include "base/log.h"
#include "base/settings.h"

#define PREFIX "--acp-"
#define MOST (UINT64_C(1) << 30) /* as TUGBOAT_ACP_STARTER */

static struct {
    bool named; /* the program's own part */
    uint64_t own, libraries;
} starter;

size_t tug_acp_starter_bytes(void) {
    return (starter.named ? starter.own : tug_settings.acp_starter_bytes) + starter.libraries;
}

/* A number of bytes, as strtoul reads it. */
static bool read_bytes(const char *text, uint64_t *bytes) {
    char *rest;
    errno = 0;
    const unsigned long long value = text != NULL ? strtoull(text, &rest, 0) : 0;
    if (text == NULL || text[0] < '0' || text[0] > '9' || *rest != '\0' || errno != 0 ||
        value > MOST)
        return false;
    *bytes = value;
    return true;
}

/* Those of a program and its libraries together. */
static int take(const char *option, const char *value) {
    uint64_t bytes = 0;
    const bool own = strcmp(option, "--acp-size-smem") == 0;
    if (!own && strcmp(option, "--acp-size-smem-cl") != 0 &&
        strcmp(option, "--acp-size-smem-dl") != 0) {
        tug_log(TUG_LOG_ERROR,
                "acp_init: no option %s here: ranks and hosts are for mpiexec to say, the network "
                "for TUGBOAT_TRANSPORTS, starter memory for TUGBOAT_ACP_STARTER",
                option);
        return TUG_ERR_INVALID;
    }
    if (!read_bytes(value, &bytes)) {
        tug_log(TUG_LOG_ERROR, "acp_init: %s wants a number of bytes, at most %llu, not %s", option,
                (unsigned long long)MOST, value != NULL ? value : "nothing");
        return TUG_ERR_INVALID;
    }
    starter.named |= own;
    if (own)
        starter.own = bytes;
    else
        starter.libraries += bytes;
    return 0;
}

int tug_acp_options(int *argc, char ***argv) {
    memset(&starter, 0, sizeof starter);
    if (argc == NULL || argv == NULL || *argv == NULL)
        return 0;
    char **words = *argv;
    for (int i = 1; i < *argc; i++) {
        if (strncmp(words[i], PREFIX, strlen(PREFIX)) != 0)
            continue;
        int status = take(words[i], i + 1 < *argc ? words[i + 1] : NULL);
        if (status != 0)
            return status;
        i++;
    }
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strncmp(words[i], PREFIX, strlen(PREFIX)) == 0)
            i++;
        else
            words[kept++] = words[i];
    }
    if (kept < *argc)
        words[kept] = NULL;
    *argc = kept < *argc ? kept : *argc;
    return 0;
}

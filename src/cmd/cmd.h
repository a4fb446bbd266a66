/*
 * The subcommands of `tugboat`. Each gets its arguments without the subcommand's own name and
 * returns the exit status. Single-threaded; nothing here is part of the library.
 */
#ifndef TUG_CMD_CMD_H
#define TUG_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/pick.h"

/* Exit statuses of our own; the last three as env(1) and timeout(1) use them. */
enum {
    TUG_EXIT_USAGE = 2,
    TUG_EXIT_SAME = 10,  /* compare: the wall time is the same; 0: it is less with Tugboat */
    TUG_EXIT_WORSE = 11, /* it is more */
    TUG_EXIT_FAILS_WITHOUT = 12, /* the program fails on the host MPI alone */
    TUG_EXIT_FAILS_WITH = 13,    /* with Tugboat only */
    TUG_EXIT_FAILED = 125,
    TUG_EXIT_NOT_EXECUTABLE = 126,
    TUG_EXIT_NOT_FOUND = 127,
};

int tug_cmd_run(int argc, char **argv);
int tug_cmd_compare(int argc, char **argv);
int tug_cmd_info(int argc, char **argv);
int tug_cmd_model(int argc, char **argv);
int tug_cmd_calibrate(int argc, char **argv);
int tug_cmd_selftest(int argc, char **argv);

/* `tugboat info --memory`; text is RANKS or RANKS,ACTIVE, NULL when it is missing. */
int tug_cmd_memory(const char *text);

/* What `tugboat --help` prints. */
void tug_cmd_help(FILE *out);

/* Finds the library for an MPI: in ../lib or its like beside this executable, then where it was to
 * be installed. Without a tugboat/libtugboat-<mpi>.so, libtugboat.so is that for the MPI this
 * command was built for; TUG_MPI_UNKNOWN: libtugboat.so. Returns 0 with an absolute path in `path`,
 * or -1. */
int tug_library_find_for(enum tug_mpi mpi, char *path, size_t path_bytes);

/* The same, for the MPI this command was built for. */
int tug_library_find(char *path, size_t path_bytes);

/* The MPI whose library is there: this one; if it is unknown, that of this command. */
enum tug_mpi tug_library_choose(enum tug_mpi mpi);

/* Is this the file name of one of the libraries, of any version? */
bool tug_library_is_ours(const char *name);

/* Puts it first into LD_PRELOAD of this process, if it is not there. 0, or -1 and errno. */
int tug_library_preload(const char *path);

/* Both, for a command of the user's, with the library for its MPI: 0; TUG_LIBRARY_NONE and the
 * reason said, when its MPI has none; or the exit status with the reason said. */
#define TUG_LIBRARY_NONE (-1)
int tug_library_enter(int argc, char **argv);

/* For a command that starts ranks of its own: where argv's launcher is of the other MPI, becomes
 * tugboat-<mpi> beside this executable, with the same words. Returns when it is not, or not there.
 */
void tug_command_hand_over(const char *command, int argc, char **argv);

/* The option of a command's own ranks. */
#define TUG_RANK_OPTION "--rank"

/* Becomes the launcher (n words), which starts this executable with `command`, TUG_RANK_OPTION and
 * the argument (NULL: none). Returns with errno. */
void tug_launch_ranks(char *const launcher[], int n, const char *command, const char *argument);

/* The file's name from the root on, to be freed. NULL and errno. */
char *tug_absolute(const char *file);

/* One line on standard error, "tugboat: " and the text; what standard output holds goes before. */
void tug_cmd_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lines that several commands say; each returns the exit status for it. `error` is an errno. */
int tug_cmd_no_option(const char *command, const char *option);
int tug_cmd_no_value(const char *command, const char *option);
int tug_cmd_no_argument(const char *command, const char *argument);
int tug_cmd_cannot_run(const char *name, int error);

/* Loads the settings. 0, or 1 with the reason said. */
int tug_cmd_load_settings(void);

/* Becomes a program: `before` and `after` (up to a NULL; or NULL: none) stand around the words of
 * argv. Looks in PATH if there is no slash in its name. Returns with errno. */
void tug_cmd_become(const char *const before[], int argc, char *const argv[],
                    const char *const after[]);

/* A whole number from 1 to `most` at *text, which then points behind it. */
bool tug_take_number(const char **text, uint64_t most, uint64_t *number);

/* A JSON string, in its quotes: file names and arguments may hold anything. */
void tug_print_string(const char *text, FILE *out);

/* Opens the host's MPI library: its name and version in one line. TUG_HOST_OTHER, TUG_HOST_OLD: not
 * of the interface this is built for, or not of MPI 4; with both, programs pass through. */
enum tug_host_kind { TUG_HOST_NONE, TUG_HOST_OTHER, TUG_HOST_OLD, TUG_HOST_GOOD };
enum tug_host_kind tug_host_describe(char *text, size_t text_bytes);

#endif

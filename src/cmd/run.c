/*
 * `tugboat run`: puts the library for the command's MPI first into LD_PRELOAD and becomes the
 * command. Where that MPI cannot be told, libtugboat.so is put there.
 *
 * What LD_PRELOAD already holds is kept, behind ours; a library that is there already is not added
 * again. A launcher needs no special care: it inherits the variable, stays untouched by the library
 * (which is inert in a process that calls no MPI) and hands its environment to the ranks.
 */
#include "cmd/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/acprun.h"

static bool is_readable(const char *path) {
    return access(path, R_OK) == 0;
}

/* This executable; empty when it cannot be told. */
static void find_self(char self[PATH_MAX]) {
    const ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    self[length > 0 ? length : 0] = '\0';
}

/* Its folder; empty like that. */
static void find_folder(char folder[PATH_MAX]) {
    find_self(folder);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
}

static size_t count(const char *const words[]) {
    size_t n = 0;
    while (words != NULL && words[n] != NULL)
        n++;
    return n;
}

void tug_cmd_become(const char *const before[], int argc, char *const argv[],
                    const char *const after[]) {
    const size_t nbefore = count(before), nafter = count(after), n = (size_t)argc;
    const char **words = calloc(nbefore + n + nafter + 1, sizeof *words);
    if (words == NULL)
        return;
    for (size_t i = 0; i < nbefore; i++)
        words[i] = before[i];
    for (size_t i = 0; i < n; i++)
        words[nbefore + i] = argv[i];
    for (size_t i = 0; i < nafter; i++)
        words[nbefore + n + i] = after[i];
    execvp(words[0], (char **)(uintptr_t)words);
    const int error = errno;
    free((void *)words);
    errno = error;
}

void tug_launch_ranks(char *const launcher[], int n, const char *command, const char *argument) {
    char self[PATH_MAX];
    find_self(self);
    tug_cmd_become(NULL, n, launcher,
                   (const char *[]){self, command, TUG_RANK_OPTION, argument, NULL});
}

void tug_command_hand_over(const char *command, int argc, char **argv) {
    char self[PATH_MAX], other[PATH_MAX + 32];
    struct tug_pick pick;
    tug_pick_command(argc, argv, &pick);
    if (pick.launcher == tug_mpi_own || tug_library_choose(pick.launcher) != pick.launcher)
        return;
    find_folder(self);
    snprintf(other, sizeof other, "%s/tugboat-%s", self, tug_mpi_names[pick.launcher]);
    tug_cmd_become((const char *[]){other, command, NULL}, argc, argv, NULL);
}

/* Only the folder is resolved: the name stays without a version, whatever it links to. */
static bool library_in(const char *folder, const char *name, char *path, size_t path_bytes) {
    char resolved[PATH_MAX];
    if (realpath(folder, resolved) == NULL)
        return false;
    const int need = snprintf(path, path_bytes, "%s/%s", resolved, name);
    return need > 0 && (size_t)need < path_bytes && is_readable(path);
}

static bool find_named(const char *name, char *path, size_t path_bytes) {
    static const char *const beside[] = {"../lib", TUG_LIBDIR_FROM_BINDIR};
    char self[PATH_MAX], folder[PATH_MAX + sizeof TUG_LIBDIR_FROM_BINDIR + 8];
    find_folder(self);
    for (size_t i = 0; i < sizeof beside / sizeof beside[0] && self[0] != '\0'; i++) {
        snprintf(folder, sizeof folder, "%s/%s", self, beside[i]);
        if (library_in(folder, name, path, path_bytes))
            return true;
    }
    return library_in(TUG_INSTALL_LIBDIR, name, path, path_bytes);
}

int tug_library_find_for(enum tug_mpi mpi, char *path, size_t path_bytes) {
    char name[64];
    snprintf(name, sizeof name, "tugboat/libtugboat-%s.so", tug_mpi_names[mpi]);
    if (mpi != TUG_MPI_UNKNOWN && find_named(name, path, path_bytes))
        return 0;
    return (mpi == TUG_MPI_UNKNOWN || mpi == tug_mpi_own) &&
                   find_named("libtugboat.so", path, path_bytes)
               ? 0
               : -1;
}

int tug_library_find(char *path, size_t path_bytes) {
    return tug_library_find_for(tug_mpi_own, path, path_bytes);
}

enum tug_mpi tug_library_choose(enum tug_mpi mpi) {
    return mpi == TUG_MPI_MPICH || mpi == TUG_MPI_OPENMPI ? mpi : tug_mpi_own;
}

bool tug_library_is_ours(const char *name) {
    return strncmp(name, "libtugboat.so", 13) == 0 || strncmp(name, "libtugboat-", 11) == 0;
}

/* LD_PRELOAD is a list split at colons and blanks. */
static bool list_contains(const char *list, const char *path) {
    const size_t length = strlen(path);
    for (const char *at = list; *at != '\0';) {
        const size_t span = strcspn(at, ": \t\n");
        if (span == length && strncmp(at, path, length) == 0)
            return true;
        at += span;
        at += strspn(at, ": \t\n");
    }
    return false;
}

int tug_library_preload(const char *library) {
    const char *already = getenv("LD_PRELOAD");
    if (already == NULL || already[0] == '\0')
        return setenv("LD_PRELOAD", library, 1);
    if (list_contains(already, library))
        return 0;
    char *list;
    if (asprintf(&list, "%s:%s", library, already) < 0)
        return -1;
    const int status = setenv("LD_PRELOAD", list, 1);
    free(list);
    return status;
}

char *tug_absolute(const char *file) {
    char folder[PATH_MAX] = "", *path;
    if ((file[0] != '/' && getcwd(folder, sizeof folder) == NULL) ||
        asprintf(&path, "%s%s%s", folder, file[0] == '/' ? "" : "/", file) < 0)
        return NULL;
    return path;
}

/* Ranks may run in other folders than this process, so the file name is made absolute here. */
static int request_file(const char *option, const char *setting, const char *file) {
    const size_t length = strlen(file);
    if (length <= 5 || strcmp(file + length - 5, ".json") != 0) {
        tug_cmd_say("%s=%s: the file name must end in .json", option, file);
        return TUG_EXIT_USAGE;
    }
    char *path = tug_absolute(file);
    const int status = path != NULL ? setenv(setting, path, 1) : -1;
    free(path);
    return status;
}

/* Each process of such a job would be alone. */
static int refuse_launcher(const struct tug_pick *pick) {
    const char *right = tug_mpi_find_launcher(pick->program);
    tug_cmd_say("%s is the launcher of %s, but %s is a program of %s (%s): start it with %s",
                pick->launcher_word, tug_mpi_titles[pick->launcher], pick->program_word,
                tug_mpi_titles[pick->program], pick->library,
                right != NULL ? right : "the launcher of that MPI");
    return TUG_EXIT_FAILED;
}

/* 0 and the library; or as tug_library_enter. */
static int choose_library(const struct tug_pick *pick, char library[PATH_MAX]) {
    const enum tug_mpi mpi = tug_pick_mpi(pick);
    if (tug_pick_is_wrong(pick))
        return refuse_launcher(pick);
    if (mpi == TUG_MPI_FOREIGN) {
        tug_cmd_say("%s uses %s, an MPI that Tugboat has no library for, and runs without it; to "
                    "ask for support, send the output of: tugboat info; ldd %s",
                    pick->program_word, pick->library, pick->program_word);
        return TUG_LIBRARY_NONE;
    }
    if (tug_library_find_for(mpi, library, PATH_MAX) == 0)
        return 0;
    if (mpi == TUG_MPI_UNKNOWN || mpi == tug_mpi_own)
        tug_cmd_say(
            "libtugboat.so is neither in ../lib beside this command nor in %s: install it there",
            TUG_INSTALL_LIBDIR);
    else
        tug_cmd_say(
            "%s uses %s, and this installation has no libtugboat-%s.so: build Tugboat where "
            "that MPI is installed too",
            pick->program_word != NULL ? pick->program_word : pick->launcher_word,
            tug_mpi_titles[mpi], tug_mpi_names[mpi]);
    return TUG_EXIT_FAILED;
}

int tug_library_enter(int argc, char **argv) {
    char library[PATH_MAX];
    struct tug_pick pick;
    tug_pick_command(argc, argv, &pick);
    const int status = choose_library(&pick, library);
    if (status != 0)
        return status;
    if (strpbrk(library, ": \t\n") != NULL) {
        tug_cmd_say("LD_PRELOAD cannot name %s: its path holds a blank or a colon; move it",
                    library);
        return TUG_EXIT_FAILED;
    }
    if (tug_library_preload(library) != 0) {
        tug_cmd_say("cannot set LD_PRELOAD: %s", strerror(errno));
        return TUG_EXIT_FAILED;
    }
    return 0;
}

/* The command, or the launcher that --acp- options want. Returns when neither can be had. */
static int become(const struct tug_acprun *acprun, int argc, char **argv) {
    const bool launches = tug_acprun_launches(acprun);
    if (launches)
        tug_acprun_launch(acprun, argc, argv);
    else
        execvp(argv[0], argv);
    return tug_cmd_cannot_run(launches ? "mpiexec" : argv[0], errno);
}

int tug_cmd_run(int argc, char **argv) {
    struct tug_acprun acprun = {0};
    int first = 0;
    for (; first < argc && argv[first][0] == '-'; first++) {
        const char *option = argv[first];
        int status;
        if (strcmp(option, "--") == 0) {
            first++;
            break;
        } else if (strcmp(option, "--stats") == 0) {
            status = setenv("TUGBOAT_STATS", "1", 1);
        } else if (strncmp(option, "--stats=", 8) == 0) {
            status = request_file("--stats", "TUGBOAT_STATS", option + 8);
        } else if (strncmp(option, "--trace=", 8) == 0) {
            status = request_file("--trace", "TUGBOAT_TRACE", option + 8);
        } else if (strncmp(option, "--acp-", 6) == 0) {
            status = tug_acprun_option(&acprun, option);
        } else {
            return tug_cmd_no_option("run", option);
        }
        if (status != 0) {
            if (status < 0)
                tug_cmd_say("run cannot do %s: %s", option, strerror(errno));
            return status < 0 ? TUG_EXIT_FAILED : status;
        }
    }
    if (first >= argc) {
        tug_cmd_say("run needs a command, for example: tugboat run mpiexec -n 4 ./app");
        return TUG_EXIT_USAGE;
    }
    const int status = tug_library_enter(argc - first, argv + first);
    if (status != 0 && status != TUG_LIBRARY_NONE)
        return status;
    return become(&acprun, argc - first, argv + first);
}

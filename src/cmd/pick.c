/*
 * Which MPI a command uses. The program is the first word that names an executable file with an MPI
 * library among those it needs; options of launchers need not be known for that. A script or an
 * interpreter has none: then the launcher in front of it decides. A launcher is known by what its
 * file needs or holds, and asked for its version only when that does not say it.
 */
#include "cmd/pick.h"

#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/needed.h"

#define VERSION_WAIT_MS 3000

#ifdef OPEN_MPI
const enum tug_mpi tug_mpi_own = TUG_MPI_OPENMPI;
#else
const enum tug_mpi tug_mpi_own = TUG_MPI_MPICH;
#endif

const char *const tug_mpi_titles[TUG_NMPI] = {"an unknown MPI", "MPICH", "Open MPI", "another MPI"};
const char *const tug_mpi_names[TUG_NMPI] = {"", "mpich", "openmpi", ""};

const char *const *tug_mpi_launchers(enum tug_mpi mpi) {
    static const char *const openmpi[] = {"mpiexec.openmpi", "mpirun.openmpi", "mpiexec", NULL};
    static const char *const mpich[] = {"mpiexec.mpich", "mpiexec.hydra", "mpiexec", NULL};
    return mpi == TUG_MPI_OPENMPI ? openmpi : mpich;
}

/* ---- files ---- */

static bool is_program(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* The file that execvp would run. */
static bool find_program(const char *word, char file[PATH_MAX]) {
    if (strchr(word, '/') != NULL)
        return snprintf(file, PATH_MAX, "%s", word) < PATH_MAX && is_program(file);
    const char *path = getenv("PATH");
    for (path = path != NULL ? path : "/usr/bin:/bin"; *path != '\0';) {
        const size_t length = strcspn(path, ":");
        if (snprintf(file, PATH_MAX, "%.*s/%s", (int)length, path, word) < PATH_MAX &&
            is_program(file))
            return true;
        path += length;
        path += *path == ':';
    }
    return false;
}

static const char *last_part(const char *word) {
    const char *slash = strrchr(word, '/');
    return slash != NULL ? slash + 1 : word;
}

static bool begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* ---- programs ---- */

struct finding {
    enum tug_mpi mpi;
    char *library;
};

/* Libraries of one MPI that no other has, and of the rest those of the interface's main library. */
static bool take_library(const char *name, const char *file, void *argument) {
    struct finding *finding = argument;
    const char *end =
        strstr(name, ".so.12"); /* libmpi.so.12, libmpifort.so.12, libmpi_cray.so.12 */
    if (begins(name, "libmpich") || (begins(name, "libmpi") && end != NULL && end[6] == '\0'))
        finding->mpi = TUG_MPI_MPICH;
    else if (begins(name, "libmpi.so.40"))
        finding->mpi = TUG_MPI_OPENMPI;
    else if (begins(name, "libmpi.so") || begins(name, "libmpi_abi") || begins(name, "libmpi_mt") ||
             begins(name, "libmsmpi") || begins(name, "libmpi_cray"))
        finding->mpi = file != NULL && tug_file_holds(file, "ompi_mpi_comm_world")
                           ? TUG_MPI_OPENMPI
                           : TUG_MPI_FOREIGN;
    else
        return false;
    snprintf(finding->library, NAME_MAX + 1, "%s", name);
    return true;
}

enum tug_mpi tug_mpi_of_program(const char *file, char library[NAME_MAX + 1]) {
    struct finding finding = {TUG_MPI_UNKNOWN, library};
    library[0] = '\0';
    (void)tug_needed_each(file, take_library, &finding);
    return finding.mpi;
}

/* ---- launchers ---- */

/* "mpiexec", "mpiexec.hydra", "mpirun", "mpirun_rsh". */
static bool is_launcher(const char *word) {
    static const char *const names[] = {"mpiexec", "mpirun", "orterun", "prterun"};
    const char *name = last_part(word);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (begins(name, names[i]))
            return true;
    return false;
}

static bool take_launcher_library(const char *name, const char *file, void *argument) {
    (void)file;
    if (begins(name, "libopen-rte.so") || begins(name, "libprrte.so") ||
        begins(name, "libopen-pal.so"))
        *(enum tug_mpi *)argument = TUG_MPI_OPENMPI;
    return *(enum tug_mpi *)argument != TUG_MPI_UNKNOWN;
}

static enum tug_mpi of_text(const char *text) {
    if (strstr(text, "Open MPI") != NULL || strstr(text, "OpenRTE") != NULL ||
        strstr(text, "PRRTE") != NULL || strstr(text, "PRTE") != NULL)
        return TUG_MPI_OPENMPI;
    if (strstr(text, "HYDRA") != NULL || strstr(text, "Intel(R) MPI") != NULL ||
        strcasestr(text, "mpich") != NULL || strcasestr(text, "mvapich") != NULL)
        return TUG_MPI_MPICH;
    return TUG_MPI_UNKNOWN;
}

static void become_version(const char *file, const int ends[2]) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    setpgid(0, 0);
    execl(file, file, "--version", (char *)NULL);
    _exit(TUG_MPI_UNKNOWN);
}

/* What a launcher prints of its version, within the time for it. */
static enum tug_mpi ask_version(const char *file) {
    char text[4096];
    size_t used = 0;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return TUG_MPI_UNKNOWN;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        become_version(file, ends);
    close(ends[1]);
    struct pollfd wait = {.fd = ends[0], .events = POLLIN};
    const uint64_t until = tug_clock_ns() + VERSION_WAIT_MS * UINT64_C(1000000);
    while (child > 0 && used + 1 < sizeof text && tug_clock_ns() < until &&
           poll(&wait, 1, VERSION_WAIT_MS) > 0) {
        const ssize_t got = read(ends[0], text + used, sizeof text - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(ends[0]);
    if (child > 0) {
        kill(-child, SIGKILL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    text[used] = '\0';
    return of_text(text);
}

enum tug_mpi tug_mpi_of_launcher(const char *word) {
    char file[PATH_MAX];
    enum tug_mpi mpi = TUG_MPI_UNKNOWN;
    if (!find_program(word, file))
        return mpi;
    (void)tug_needed_each(file, take_launcher_library, &mpi);
    if (mpi != TUG_MPI_UNKNOWN)
        return mpi;
    if (tug_file_holds(file, "HYDRA_") || tug_file_holds(file, "mpiexec.hydra"))
        return TUG_MPI_MPICH;
    return ask_version(file);
}

/* ---- commands ---- */

void tug_pick_command(int argc, char **argv, struct tug_pick *pick) {
    *pick = (struct tug_pick){0};
    for (int i = 0; i < argc && pick->program == TUG_MPI_UNKNOWN; i++) {
        char file[PATH_MAX];
        if (argv[i][0] == '-' || !find_program(argv[i], file))
            continue;
        if (pick->launcher_word == NULL && is_launcher(argv[i])) {
            pick->launcher_word = argv[i];
            pick->launcher = tug_mpi_of_launcher(argv[i]);
            continue;
        }
        pick->program = tug_mpi_of_program(file, pick->library);
        pick->program_word = pick->program != TUG_MPI_UNKNOWN ? argv[i] : NULL;
    }
}

enum tug_mpi tug_pick_mpi(const struct tug_pick *pick) {
    return pick->program != TUG_MPI_UNKNOWN ? pick->program : pick->launcher;
}

bool tug_pick_is_wrong(const struct tug_pick *pick) {
    return pick->program != pick->launcher && pick->launcher != TUG_MPI_UNKNOWN &&
           (pick->program == TUG_MPI_MPICH || pick->program == TUG_MPI_OPENMPI);
}

const char *tug_mpi_find_launcher(enum tug_mpi mpi) {
    const char *const *names = tug_mpi_launchers(mpi);
    for (; *names != NULL; names++)
        if (tug_mpi_of_launcher(*names) == mpi)
            return *names;
    return NULL;
}

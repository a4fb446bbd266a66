/*
 * Which MPI a command uses. The program is the first word that names an executable file with an MPI
 * library among those it needs; options of launchers need not be known for that. The dynamic linker
 * lists these libraries, and runs nothing of the file. A script or an interpreter has none: then
 * the launcher in front of it decides. A launcher is known by what its file needs or holds, and
 * asked for its version only when that does not say it.
 */
#include "cmd/pick.h"

#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"

#define ANSWER_WAIT_MS 3000
#define ANSWER_BYTES 65536

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

/* Does the file hold this text? */
static bool file_holds(const char *file, const char *text) {
    struct stat status;
    void *bytes = MAP_FAILED;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED)
        return false;
    const bool holds = memmem(bytes, (size_t)status.st_size, text, strlen(text)) != NULL;
    munmap(bytes, (size_t)status.st_size);
    return holds;
}

/* ---- answers of commands ---- */

static void become(char *const argv[], const int ends[2]) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    setpgid(0, 0);
    unsetenv("LD_PRELOAD");
    execv(argv[0], argv);
    _exit(TUG_EXIT_NOT_FOUND);
}

/* Runs a command, and takes what it prints within the time for it. */
static void ask(char *const argv[], char text[ANSWER_BYTES]) {
    size_t used = 0;
    int ends[2];
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        become(argv, ends);
    close(ends[1]);
    struct pollfd wait = {.fd = ends[0], .events = POLLIN};
    const uint64_t until = tug_clock_ns() + ANSWER_WAIT_MS * UINT64_C(1000000);
    while (child > 0 && used + 1 < ANSWER_BYTES && tug_clock_ns() < until &&
           poll(&wait, 1, ANSWER_WAIT_MS) > 0) {
        const ssize_t got = read(ends[0], text + used, ANSWER_BYTES - 1 - used);
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
}

/* ---- libraries ---- */

/* The dynamic linker of this command. */
static int find_linker(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP)
            *(char **)argument =
                (char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); /* NOLINT: an address */
    return 1; /* the first object is the program */
}

/* Calls visit with each library that a program or one of its libraries needs, nearest first: the
 * name that it is asked for by, and its file, or NULL where none is found; until it returns true.
 * The linker is asked as ldd(1) does. A line is "  NAME => FILE (ADDRESS)", or "  FILE (ADDRESS)"
 * for one that is asked for by its file.
 */
static void each_library(char *file,
                         bool (*visit)(const char *name, const char *file, void *argument),
                         void *argument) {
    static char text[ANSWER_BYTES];
    char *linker = NULL, *rest = text, *line;
    (void)dl_iterate_phdr(find_linker, &linker);
    if (linker == NULL)
        return;
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    ask((char *[]){linker, file, NULL}, text);
    unsetenv("LD_TRACE_LOADED_OBJECTS");
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *name = line + strspn(line, " \t"), *arrow = strstr(name, " => ");
        char *library = arrow != NULL ? arrow + 4 : name, *address = strstr(library, " (0x");
        if (arrow != NULL)
            *arrow = '\0';
        if (address != NULL)
            *address = '\0';
        if ((arrow != NULL || address != NULL) &&
            visit(last_part(name), address != NULL ? library : NULL, argument))
            return;
    }
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
        finding->mpi = file != NULL && file_holds(file, "ompi_mpi_comm_world") ? TUG_MPI_OPENMPI
                                                                               : TUG_MPI_FOREIGN;
    else
        return false;
    snprintf(finding->library, NAME_MAX + 1, "%s", name);
    return true;
}

/* The MPI of a program by the libraries that it needs, with the name of that library. */
static enum tug_mpi of_program(char *file, char library[NAME_MAX + 1]) {
    struct finding finding = {TUG_MPI_UNKNOWN, library};
    library[0] = '\0';
    each_library(file, take_library, &finding);
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

/* What a launcher prints of its version. */
static enum tug_mpi ask_version(char *file) {
    static char text[ANSWER_BYTES];
    ask((char *[]){file, "--version", NULL}, text);
    return of_text(text);
}

enum tug_mpi tug_mpi_of_launcher(const char *word) {
    char file[PATH_MAX];
    enum tug_mpi mpi = TUG_MPI_UNKNOWN;
    if (!find_program(word, file))
        return mpi;
    each_library(file, take_launcher_library, &mpi);
    if (mpi != TUG_MPI_UNKNOWN)
        return mpi;
    if (file_holds(file, "HYDRA_") || file_holds(file, "mpiexec.hydra"))
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
        pick->program = of_program(file, pick->library);
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

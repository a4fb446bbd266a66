/*
 * levels: the thread level at which the host MPI runs, by what the program calls for.
 *
 *   levels plain LEVEL              makes no window: MPI is asked for LEVEL
 *   levels early LEVEL PLUGIN lane  opens a plugin that makes windows, then starts MPI
 *   levels late LEVEL PLUGIN lane   the other way round
 *
 * HOST_LEVEL says what the host's own MPI_Query_thread has to answer (default: what was asked for),
 * the program is always told LEVEL. lane is where the plugin's window has to be, "none" for a
 * window of the host's; then a warning says so, once.
 */
#define _GNU_SOURCE /* memfd_create */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank;

#define MUST_BE(cond, ...)                                                                         \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "WRONG rank %d: ", rank);                                              \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Past whoever stands in front of it. */
static int level_of_host(void) {
    int level = -1;
    void *host = dlopen("libmpich.so.12", RTLD_NOLOAD | RTLD_LAZY);
    MUST_BE(host != NULL, "no host MPI is loaded");
    int (*query)(int *) = (int (*)(int *))dlsym(host, "MPI_Query_thread");
    MUST_BE(query != NULL && query(&level) == MPI_SUCCESS, "the host does not say its level");
    return level;
}

/* Returns how many lines with this text something writes to standard error. */
static int lines_of(void (*something)(void *), void *argument, const char *text) {
    static char said[1 << 16];
    int file = memfd_create("stderr", 0), before = dup(STDERR_FILENO), n = 0;
    MUST_BE(file >= 0 && dup2(file, STDERR_FILENO) >= 0, "cannot catch what is said");
    something(argument);
    dup2(before, STDERR_FILENO);
    ssize_t bytes = pread(file, said, sizeof said - 1, 0);
    said[bytes < 0 ? 0 : bytes] = '\0';
    fputs(said, stderr);
    for (const char *at = said; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

static char lane[MPI_MAX_INFO_VAL + 1];

static void use_plugin(void *argument) {
    void (*use_window)(char *) = (void (*)(char *))dlsym(argument, "use_window");
    MUST_BE(use_window != NULL, "%s", dlerror());
    use_window(lane);
    use_window(lane);
}

int main(int argc, char **argv) {
    int asked = argc > 2 ? atoi(argv[2]) : MPI_THREAD_SINGLE, provided = -1, queried = -1;
    int expected = getenv("HOST_LEVEL") != NULL ? atoi(getenv("HOST_LEVEL")) : asked;
    void *plugin = NULL;
    if (argc < 3 || (strcmp(argv[1], "plain") != 0 && argc != 5))
        return 2;
    if (strcmp(argv[1], "early") == 0)
        plugin = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
    MPI_Init_thread(&argc, &argv, asked, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "late") == 0)
        plugin = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
    MUST_BE(provided == asked, "asked for %d, told %d", asked, provided);
    MPI_Query_thread(&queried);
    MUST_BE(queried == asked, "asked for %d, told %d later", asked, queried);
    int level = level_of_host();
    MUST_BE(level == expected, "the host runs at level %d, not %d", level, expected);
    if (strcmp(argv[1], "plain") != 0) {
        MUST_BE(plugin != NULL, "%s", dlerror());
        int nwarnings = lines_of(use_plugin, plugin, "pass through to the host");
        MUST_BE(strcmp(lane, argv[4]) == 0, "the window's lane is %s", lane);
        bool passes = strcmp(argv[4], "none") == 0;
        bool preloaded = getenv("LD_PRELOAD") != NULL && getenv("TUGBOAT") == NULL;
        MUST_BE(nwarnings == (passes && preloaded), "%d warnings", nwarnings);
    }
    MPI_Finalize();
    if (rank == 0)
        printf("right\n");
    return 0;
}

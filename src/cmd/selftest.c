/*
 * `tugboat selftest`: is this installation sound, and what will it do on this machine?
 *
 * First what can be seen without MPI; then two small jobs of our own under a launcher: on the host
 * MPI alone, for its shape and its time, and under the library, whose data are checked. Every check
 * is a line, the last line is the verdict. Without a launcher all that is done for each host
 * that is installed. Nothing is written and nothing is left running: a job that does not end is
 * killed.
 */
#include "cmd/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/settings.h"
#include "cmd/cmd.h"
#include "cmd/infiniband.h"
#include "cmd/pick.h"
#include "host/host.h"
#include "node/cma.h"
#include "transport/transport.h"
#include "transport/verbs/verbs.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define JOB_SECONDS 20
#define END_SECONDS 8 /* part of the time limit, for what comes after the findings */
#define SHM_COMFORTABLE_MIB 64
#define REASON_BYTES 256
#define TEXT_BYTES 512

/* ---- lines ---- */

static int notes, failures;

__attribute__((format(printf, 3, 4))) static void tell(enum tug_grade verdict, const char *what,
                                                       const char *format, ...) {
    static const char *const words[] = {"ok", "note", "FAILED"};
    va_list arguments;
    notes += verdict == NOTE;
    failures += verdict == BAD;
    printf("  %-14s %-7s ", what, words[verdict]);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* ---- findings of a job ---- */

#define FORMAT "tugboat-selftest %d %d %d %d %d %d %d %d %d %d %lf %15s"

void tug_findings_print(FILE *out, const struct tug_findings *f) {
    fprintf(out, "tugboat-selftest %d %d %d %d %d %d %d %d %d %d %.3f %s\n", f->ranks, f->nodes,
            f->node_ranks, f->node_cpus, f->preloaded, f->multiple, f->unaligned, f->unsigned_max,
            f->mixed, f->wrong, f->passive_us, f->lane);
}

bool tug_findings_read(const char *line, struct tug_findings *f) {
    return sscanf(line, FORMAT, &f->ranks, &f->nodes, &f->node_ranks, &f->node_cpus, &f->preloaded,
                  &f->multiple, &f->unaligned, &f->unsigned_max, &f->mixed, &f->wrong,
                  &f->passive_us, f->lane) == 12;
}

/* ---- without MPI ---- */

static void check_library(void) {
    char path[PATH_MAX];
    if (tug_library_find(path, sizeof path) == 0)
        tell(GOOD, "library", "%s", path);
    else
        tell(BAD, "library", "libtugboat.so is neither beside this command nor in %s",
             TUG_INSTALL_LIBDIR);
}

static void unknown_setting(const char *name, void *argument) {
    (void)argument;
    tell(NOTE, "settings", "%s is not a setting and has no effect", name);
}

static void check_settings(void) {
    char why[TEXT_BYTES];
    if (tug_settings_load(why, sizeof why) != 0)
        tell(BAD, "settings", "%s", why);
    else if (!tug_settings.enabled)
        tell(NOTE, "settings", "TUGBOAT=off: programs run on the host MPI alone");
    else if (tug_settings_unknown(unknown_setting, NULL) == 0)
        tell(GOOD, "settings", "all values are allowed");
}

static void check_host(void) {
    char text[TEXT_BYTES];
    enum tug_host_kind kind = tug_host_describe(text, sizeof text);
    if (kind == TUG_HOST_NONE)
        tell(BAD, "host MPI", "none found: install %s, or set LD_LIBRARY_PATH to it",
             TUG_HOST_BUILT_FOR);
    else if (kind == TUG_HOST_OTHER)
        tell(BAD, "host MPI",
             "%s: it is not %s nor of its binary interface, programs run untouched", text,
             TUG_HOST_BUILT_FOR_VERSION);
    else if (kind == TUG_HOST_OLD)
        tell(BAD, "host MPI", "%s: it lacks calls that are needed, programs would run untouched",
             text);
    else
        tell(GOOD, "host MPI", "%s", text);
    const char *vcis = getenv("MPIR_CVAR_CH4_NUM_VCIS");
    if (vcis != NULL && atoi(vcis) > 1)
        tell(NOTE, "host MPI", "MPIR_CVAR_CH4_NUM_VCIS=%s: MPICH 4.0.2 aborts in MPI_Init", vcis);
}

static void check_memory(void) {
    struct statvfs shm;
    char reason[REASON_BYTES];
    if (statvfs("/dev/shm", &shm) != 0) {
        tell(BAD, "shared memory", "/dev/shm: %s", strerror(errno));
    } else {
        const unsigned long long mib = (unsigned long long)shm.f_bavail * shm.f_frsize >> 20;
        tell(mib < SHM_COMFORTABLE_MIB ? NOTE : GOOD, "shared memory",
             "/dev/shm has %llu MiB free%s", mib,
             mib < SHM_COMFORTABLE_MIB ? ": windows that do not fit take the packet lane, and "
                                         "collectives may be the host's (in containers: --shm-size)"
                                       : "");
    }
    if (tug_cma_missing(reason))
        tell(NOTE, "cross-memory", "%s: large LLCL blocks inside a node are copied twice", reason);
    else
        tell(GOOD, "cross-memory", "attach is allowed");
}

/* ---- system calls that the library would rather use ---- */

/* A call with arguments that cannot be meant fails in another way where it is there. */
static bool is_refused(long result) {
    return result < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES);
}

static bool sched_setattr_refused(void) {
    return is_refused(syscall(SYS_sched_setattr, 0, NULL, 0));
}

static bool getrandom_refused(void) {
    char byte;
    return is_refused(getrandom(&byte, 1, 0));
}

static bool opened(int descriptor) {
    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0;
}

static bool memfd_refused(void) {
    return !opened(memfd_create("tugboat", MFD_CLOEXEC));
}

static bool epoll_refused(void) {
    return !opened(epoll_create1(EPOLL_CLOEXEC));
}

static bool bell_refused(void) {
    return !opened(tug_descriptor_bell());
}

static bool populate_refused(void) {
    const size_t bytes = 4096;
    // cppcheck-suppress invalidFunctionArg
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool refused = page == MAP_FAILED || madvise(page, bytes, MADV_POPULATE_WRITE) != 0;
    if (page != MAP_FAILED)
        munmap(page, bytes);
    return refused;
}

static const struct {
    bool (*refused)(void);
    const char *call, *since, *instead;
} wanted_calls[] = {
    {populate_refused, "madvise(MADV_POPULATE_WRITE)", "Linux 5.14",
     "pages of windows are touched one by one"},
    {sched_setattr_refused, "sched_setattr", "Linux 3.14",
     "where ranks compute, the offload thread may wait for its core"},
    {memfd_refused, "memfd_create", "Linux 3.17",
     "memory of MPI_Alloc_mem is the host's, and is copied through shared memory"},
    {getrandom_refused, "getrandom", "Linux 3.17", "/dev/urandom is read"},
    {epoll_refused, "epoll_create1", "Linux 2.6.27",
     "sockets are looked at every 50 to 200 us, LLCL goes by the host's messages"},
    {bell_refused, "a pipe by /proc/self/fd", "all", "sockets are looked at every 50 to 200 us"},
};

static void check_kernel(void) {
    bool all = true;
    for (size_t i = 0; i < sizeof(wanted_calls) / sizeof(wanted_calls[0]); i++) {
        if (!wanted_calls[i].refused())
            continue;
        all = false;
        tell(NOTE, "system calls", "%s is refused here (%s has it): %s", wanted_calls[i].call,
             wanted_calls[i].since, wanted_calls[i].instead);
    }
    if (all)
        tell(GOOD, "system calls", "none that is wanted is refused");
}

static void check_infiniband(void) {
    struct tug_verbs_footprint footprint;
    char reason[REASON_BYTES] = "", text[TEXT_BYTES];
    const bool missing = tug_transports[TUG_BY_VERBS]->missing(reason);
    const struct tug_infiniband found = {
        .devices = "/sys/class/infiniband",
        .built = tug_verbs_footprint(1, 0, &footprint),
        .allowed = (tug_settings.transports & TUG_WAY_VERBS) != 0,
        .missing = missing ? reason : NULL,
    };
    const enum tug_grade grade = tug_infiniband_judge(&found, text, sizeof text);
    tell(grade, "InfiniBand", "%s", text);
}

/* ---- the job ---- */

struct job {
    char **launcher; /* and its arguments */
    int nlauncher;
    bool under_tug;
    struct tug_findings *findings; /* that rank 0 says */
};

/* In the child: becomes the launcher of this program, with the library or without. */
static void become(const struct job *job) {
    char library[PATH_MAX];
    if (job->under_tug
            ? tug_library_find(library, sizeof library) != 0 || tug_library_preload(library) != 0
            : unsetenv("LD_PRELOAD") != 0)
        _exit(TUG_EXIT_FAILED);
    tug_launch_ranks(job->launcher, job->nlauncher, "selftest", NULL);
    _exit(TUG_EXIT_NOT_FOUND);
}

/* Lines that are no findings are passed on. */
static int take_line(const char *line, struct tug_findings *findings) {
    if (tug_findings_read(line, findings))
        return 1;
    printf("%s\n", line);
    return 0;
}

/* Reads what the job prints until it ends or its time is up: then -1, though all may have been
 * said. How often all was said. */
static int listen_to(int from, const struct job *job) {
    uint64_t until = tug_clock_ns() + JOB_SECONDS * UINT64_C(1000000000);
    char text[8192];
    size_t used = 0;
    int found = 0;
    for (;;) {
        struct pollfd poller = {.fd = from, .events = POLLIN};
        const uint64_t now = tug_clock_ns();
        if (now >= until || poll(&poller, 1, (int)((until - now) / 1000000) + 1) <= 0)
            return -1;
        const ssize_t got = read(from, text + used, sizeof text - 1 - used);
        if (got <= 0)
            return found;
        used += (size_t)got;
        text[used] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            found += take_line(line, job->findings);
        }
        const uint64_t end = tug_clock_ns() + END_SECONDS * UINT64_C(1000000000);
        until = found > 0 && end < until ? end : until;
        used = strlen(line) < sizeof text / 2 ? strlen(line) : 0;
        memmove(text, line, used);
    }
}

/* Runs a job to its end; what listen_to() returned, and the exit status. */
static int run_job(const struct job *job, int *status) {
    int ends[2], found = 0;
    *status = TUG_EXIT_FAILED << 8;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        dup2(ends[1], STDOUT_FILENO);
        become(job);
    }
    close(ends[1]);
    if (child > 0)
        found = listen_to(ends[0], job);
    close(ends[0]);
    if (found < 0)
        kill(-child, SIGKILL);
    if (child > 0)
        waitpid(child, status, 0);
    return found;
}

/* Runs the job with the findings. False, and it has been told, if it brings none. */
static bool find_all(char **launcher, int n, bool under_tug, struct tug_findings *findings) {
    const char *what = under_tug ? "under Tugboat" : "launcher";
    const struct job job = {launcher, n, under_tug, findings};
    int status, found = run_job(&job, &status);
    if (found == 1 && status == 0)
        return true;
    if (found < 0 && findings->ranks > 0 && !under_tug) {
        tell(NOTE, "host MPI", "a job on it alone does not come out of MPI_Finalize");
        return true;
    }
    if (found < 0)
        tell(BAD, what, "the job did not end within %d s, or %d s after its findings", JOB_SECONDS,
             END_SECONDS);
    else if (found > 1)
        tell(BAD, what, "it starts single processes instead of a job: is it another MPI's?");
    else if (WIFEXITED(status) && WEXITSTATUS(status) == TUG_EXIT_NOT_FOUND)
        tell(BAD, what, "%s is not found", launcher[0]);
    else if (status == 0)
        tell(BAD, what, "no rank reports anything");
    else
        tell(BAD, what, "the job fails (status %#x)", (unsigned)status);
    return false;
}

/* ---- what the jobs tell ---- */

/* A line that lists the calls whose bits are set, or false: there are none. */
static bool tell_calls(enum tug_grade verdict, const char *what, const char *how,
                       const char *const names[], int calls) {
    char text[TEXT_BYTES] = "";
    for (int i = 0; calls >> i != 0; i++)
        if (calls >> i & 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                     text[0] != '\0' ? ", " : "", names[i]);
    if (calls != 0)
        tell(verdict, what, "%s: %s", how, text);
    return calls != 0;
}

static const char *const kind_names[] = {
#define NAME(Name) "MPI_" #Name "_init",
    TUG_KINDS(NAME)
#undef NAME
};

static const char *const ring_names[] = {
#define NAME(Name) "MPI_" #Name,
    TUG_RING_CALLS(NAME)
#undef NAME
};

/* MPI_MAX of unsigned integers is the host's in the native lane. */
static void judge_data(const struct tug_findings *tug) {
    if (tug->unaligned && (tug->unsigned_max || strcmp(tug->lane, "native") == 0))
        tell(GOOD, "data", "puts and accumulates are right, also over unaligned memory");
    if (!tug->unaligned)
        tell(BAD, "data", "windows over unaligned memory are wrong");
    if (!tug->unsigned_max && strcmp(tug->lane, "native") != 0)
        tell(BAD, "data", "MPI_MAX of unsigned integers is wrong");
    if (!tell_calls(BAD, "data", "neighbours' blocks come to the wrong side", ring_names,
                    tug->mixed))
        tell(GOOD, "data", "neighbour collectives bring blocks to the right side");
    if (!tell_calls(BAD, "data",
                    "wrong data from requests that are started again, with other data in their "
                    "buffers",
                    kind_names, tug->wrong))
        tell(GOOD, "data", "persistent collectives and partitioned messages bring the right data");
}

static void judge_host(const struct tug_findings *host) {
    tell(GOOD, "launcher", "%d rank%s on %d node%s", host->ranks, host->ranks == 1 ? "" : "s",
         host->nodes, host->nodes == 1 ? "" : "s");
    if (!host->multiple)
        tell(BAD, "threads", "the host MPI grants no MPI_THREAD_MULTIPLE: programs run untouched");
    if (host->node_cpus > host->node_ranks)
        tell(GOOD, "cores", "%d for %d rank%s of a node: one to spare for the offload threads",
             host->node_cpus, host->node_ranks, host->node_ranks == 1 ? "" : "s");
    else
        tell(NOTE, "cores",
             "%d for %d rank%s of a node: none to spare; the offload threads share them with the "
             "ranks",
             host->node_cpus, host->node_ranks, host->node_ranks == 1 ? "" : "s");
}

static void judge_passive(const struct tug_findings *host, const struct tug_findings *tug) {
    if (host->passive_us == 0)
        tell(NOTE, "progress", "not tried: that takes two ranks");
    else
        tell(tug->passive_us < host->passive_us ? GOOD : NOTE, "progress",
             "a put to a rank that computes for 60 ms takes %.1f us, on the host alone %.1f us",
             tug->passive_us, host->passive_us);
}

static void judge_tug(const struct tug_findings *host, const struct tug_findings *tug) {
    if (!tug->preloaded) {
        tell(BAD, "under Tugboat",
             "the library does not get into the ranks: does the launcher hand LD_PRELOAD on?");
        return;
    }
    if (strcmp(tug->lane, "host") == 0)
        tell(tug_settings.rma == TUG_RMA_OFF ? NOTE : BAD, "windows", "are left to the host MPI");
    else
        tell(GOOD, "windows", "take the %s lane", tug->lane);
    judge_data(tug);
    judge_passive(host, tug);
}

static void conclude(void) {
    if (failures > 0)
        printf("Tugboat does not work here as it should: %d check%s failed.\n", failures,
               failures == 1 ? "" : "s");
    else if (!tug_settings.enabled)
        printf("Tugboat is installed, and switched off by TUGBOAT=off.\n");
    else if (notes > 0)
        printf("Tugboat works here; %d thing%s worth knowing.\n", notes,
               notes == 1 ? " is" : "s are");
    else
        printf("Tugboat works here.\n");
}

/* ---- hosts ---- */

/* All checks, with jobs under this launcher; becomes the command for its MPI if there is one. The
 * exit status. */
static int test_launcher(int argc, char **argv) {
    struct tug_findings host = {0}, tug = {0};
    tug_command_hand_over("selftest", argc, argv);
    check_library();
    check_settings();
    check_host();
    check_memory();
    check_kernel();
    const bool jobs_make_sense = failures == 0; /* also beside a card that is not used */
    check_infiniband();
    if (jobs_make_sense && find_all(argv, argc, false, &host)) {
        judge_host(&host);
        if (tug_settings.enabled && find_all(argv, argc, true, &tug))
            judge_tug(&host, &tug);
    }
    conclude();
    return failures > 0;
}

/* The same in a process of its own, by two ranks under this launcher. */
static int test_host(enum tug_mpi mpi, const char *launcher) {
    const char *words[] = {launcher, "-n", "2", "--oversubscribe", "--allow-run-as-root"};
    const int n = mpi != TUG_MPI_OPENMPI ? 3 : geteuid() != 0 ? 4 : 5;
    int status = TUG_EXIT_FAILED << 8;
    printf("%s, with jobs of", tug_mpi_titles[mpi]);
    for (int i = 0; i < n; i++)
        printf(" %s", words[i]);
    printf("\n");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        exit(test_launcher(n, (char **)(uintptr_t)words));
    if (child > 0)
        waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : TUG_EXIT_FAILED;
}

/* The worst of their exit statuses. */
static int test_hosts(void) {
    int ntested = 0, worst = 0;
    for (enum tug_mpi mpi = TUG_MPI_MPICH; mpi <= TUG_MPI_OPENMPI; mpi++) {
        char library[PATH_MAX];
        const char *launcher = tug_mpi_find_launcher(mpi);
        const bool served = tug_library_find_for(mpi, library, sizeof library) == 0;
        if (launcher != NULL && (served || mpi == tug_mpi_own)) {
            const int status = test_host(mpi, launcher);
            worst = status > worst ? status : worst;
            ntested++;
        } else if (launcher != NULL) {
            printf("%s, started by %s, is not tested: this installation has no libtugboat-%s.so\n",
                   tug_mpi_titles[mpi], launcher, tug_mpi_names[mpi]);
        } else if (served) {
            printf("%s is not tested: its launcher is not found\n", tug_mpi_titles[mpi]);
        }
    }
    return ntested > 0 ? worst : test_host(tug_mpi_own, "mpiexec");
}

int tug_cmd_selftest(int argc, char **argv) {
    if (argc == 1 && strcmp(argv[0], TUG_RANK_OPTION) == 0)
        return tug_selftest_rank();
    if (argc > 0 && argv[0][0] == '-')
        return tug_cmd_no_option("selftest", argv[0]);
    return argc > 0 ? test_launcher(argc, argv) : test_hosts();
}

/*
 * init: every way into MPI and out of it.
 *
 * The argument names the way: init (MPI_Init), single, funneled, serialized, multiple
 * (MPI_Init_thread) or session (MPI_Session_init and nothing else: no MPI_COMM_WORLD). What is
 * provided has to be what MPI_Query_thread says and at least what was asked for and granted by the
 * MPI; then a window and a persistent broadcast do some work. "plain" uses neither, and checks
 * that no thread of the process has used any processor time while the program slept. "bad-setting"
 * expects MPI_Init to return MPI_ERR_OTHER (see settings.sh).
 */
#define _GNU_SOURCE /* the clocks of a process */
#include "check.h"
#include "work.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void *not_main(void *arg) {
    int *flag = arg;
    *flag = -1;
    MUST(MPI_Is_thread_main(flag));
    return NULL;
}

static void see_level(int asked, int provided) {
    int queried = -1, main_thread = -1, initialized = 0, finalized = 1;
    CHECK(provided >= asked && provided <= MPI_THREAD_MULTIPLE, "asked for %d, provided %d", asked,
          provided);
    MUST(MPI_Query_thread(&queried));
    CHECK(queried == provided, "MPI_Query_thread says %d, provided was %d", queried, provided);
    MUST(MPI_Is_thread_main(&main_thread));
    CHECK(main_thread == 1, "the main thread is not main");
    MUST(MPI_Initialized(&initialized));
    MUST(MPI_Finalized(&finalized));
    CHECK(initialized && !finalized, "initialized %d, finalized %d", initialized, finalized);
    if (asked == MPI_THREAD_MULTIPLE) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, not_main, &main_thread) == 0, "no thread");
        pthread_join(other, NULL);
        CHECK(main_thread == 0, "another thread is main: %d", main_thread);
    }
}

#if !CHECK_HAS_SESSIONS
static int with_session(void) {
    printf("skipped: the host has no sessions\n");
    return CHECK_SKIP;
}
#else
static int with_session(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int initialized = 1;
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    MUST(MPI_Initialized(&initialized));
    MUST(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MUST(MPI_Comm_create_from_group(group, "tugboat.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                    &comm));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Comm_rank(comm, &check_rank));
    MUST(MPI_Comm_size(comm, &check_nranks));
    work_on(comm);
    check_barrier(comm);
    if (check_rank == 0)
        printf("right\n");
    fflush(stdout);
    MUST(MPI_Comm_free(&comm));
    MUST(MPI_Session_finalize(&session));
    return 0;
}
#endif

/* A process that has no business with the tug: no thread of its own, no processor time. */
static int plain(void) {
    struct timespec before, after;
    check_barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used =
        (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    CHECK(used < 0.02, "%.3f s of processor time in 0.3 s of sleep", used);
    return check_end();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    const char *how = argc > 1 ? argv[1] : "init";
    int provided = -1, finalized = 0, asked = MPI_THREAD_SINGLE;
    if (strcmp(how, "session") == 0)
        return with_session();
    if (strcmp(how, "bad-setting") == 0) {
        int rc = MPI_Init(&argc, &argv);
        printf("MPI_Init gave %s\n", rc == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "something else");
        return rc == MPI_ERR_OTHER ? 0 : 1;
    }
    for (int i = 0; i < 4; i++)
        if (strcmp(how, levels[i].name) == 0) {
            asked = levels[i].level;
            MUST(MPI_Init_thread(&argc, &argv, asked, &provided));
        }
    if (provided < 0) {
        MUST(MPI_Init(&argc, &argv));
        MUST(MPI_Query_thread(&provided));
    }
    check_note("init");
    if (check_rank == 0)
        printf("%s: provided %d\n", how, provided);
    see_level(asked, provided);
    if (strcmp(how, "plain") == 0)
        return plain();
    work_on(MPI_COMM_WORLD);
    int rc = check_end();
    MUST(MPI_Finalized(&finalized));
    return finalized ? rc : 1;
}

/*
 * sessions: the world and sessions of one process, in every order, each with windows and persistent
 * requests.
 *
 *   sessions STEPS [STEPS of ranks other than 0]
 *
 * A step is a letter: i, t  MPI_Init, MPI_Init_thread (MPI_THREAD_MULTIPLE)
 *                     f     MPI_Finalize
 *                     a, b  opens session a, b; A, B closes it
 *                     p     two threads open and close sessions of their own
 *                     w     works on MPI_COMM_WORLD
 *                     k     makes a window and a request on MPI_COMM_WORLD that last,
 *                     u     uses them, r  frees them
 *                     c, d  makes a communicator of session a, b and works on it
 *                     y     works on a's communicator, Y  keeps a window and a request on it,
 *                     Z     uses those on a's communicator, z  frees them
 *                     v     sends items of derived types on a's communicator
 *                     m     makes partitioned requests on a's communicator, n  uses them,
 *                     q     frees them. Of two ranks.
 *
 * What is left is freed when its session is closed. What a session is told of its thread level is
 * what it asked for: MPI_THREAD_SINGLE for a, MPI_THREAD_MULTIPLE for b.
 */
#include "work.h"
#include <pthread.h>
#include <stddef.h>

#if !CHECK_HAS_SESSIONS
int main(void) {
    printf("skipped: the host has no sessions\n");
    return CHECK_SKIP;
}
#else

/* A window and a request that are there for a while. */
struct kept {
    MPI_Win win;
    MPI_Request request;
    uint64_t *base, words[WORK_WORDS], round;
};

static struct kept of_world, of_session;
static MPI_Session sessions[2];
static MPI_Comm comms[2] = {MPI_COMM_NULL, MPI_COMM_NULL};

static void keep(struct kept *kept, MPI_Comm comm) {
    MUST(MPI_Win_allocate(WORK_WORDS * 8, 8, MPI_INFO_NULL, comm, &kept->base, &kept->win));
    MUST(MPI_Bcast_init(kept->words, WORK_WORDS, MPI_UINT64_T, 0, comm, MPI_INFO_NULL,
                        &kept->request));
}

static void use(struct kept *kept, MPI_Comm comm) {
    work_put(kept->win, kept->base, comm, ++kept->round);
    work_broadcast(&kept->request, kept->words, comm, ++kept->round);
}

static void drop(struct kept *kept) {
    MUST(MPI_Win_free(&kept->win));
    MUST(MPI_Request_free(&kept->request));
}

/* ---- derived types ---- */

enum { TYPES = 8 };

/* To oneself. More types than the five that a host may spoil, see tug_pairs_reserve(). */
static void send_derived(MPI_Comm comm) {
    struct item {
        uint64_t value;
        int index;
    } in = {0x0123456789abcdefu, 3};
    MPI_Datatype types[TYPES], parts[2] = {MPI_UINT64_T, MPI_INT};
    for (int i = 0; i < TYPES; i++) {
        struct item out = {0, 0};
        MUST(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, offsetof(struct item, index)},
                                    parts, &types[i]));
        MUST(MPI_Type_commit(&types[i]));
        MUST(MPI_Sendrecv(&in, 1, types[i], check_rank, 0, &out, 1, types[i], check_rank, 0, comm,
                          MPI_STATUS_IGNORE));
        CHECK(out.value == in.value && out.index == in.index, "type %d: %llx and %d", i,
              (unsigned long long)out.value, out.index);
    }
    for (int i = 0; i < TYPES; i++)
        MUST(MPI_Type_free(&types[i]));
}

/* ---- partitioned requests ---- */

enum { PARTS = 8, SIZES = 2, ROUNDS = 4 };

static const int counts[SIZES] = {16, 3000};
static MPI_Request parted[SIZES];
static int parts[SIZES][PARTS * 3000];

static void make_partitioned(MPI_Comm comm) {
    for (int i = 0; i < SIZES; i++)
        if (check_rank == 0)
            MUST(MPI_Psend_init(parts[i], PARTS, counts[i], MPI_INT, 1, i, comm, MPI_INFO_NULL,
                                &parted[i]));
        else
            MUST(MPI_Precv_init(parts[i], PARTS, counts[i], MPI_INT, 0, i, comm, MPI_INFO_NULL,
                                &parted[i]));
}

static void use_partitioned(void) {
    static uint64_t round;
    for (uint64_t last = round + ROUNDS; round < last; round++) {
        for (int i = 0; i < SIZES && check_rank == 0; i++)
            check_fill(parts[i], PARTS * (size_t)counts[i] * sizeof(int), (uint64_t)i, round);
        MUST(MPI_Startall(SIZES, parted));
        for (int i = 0; i < SIZES && check_rank == 0; i++)
            MUST(MPI_Pready_range(0, PARTS - 1, parted[i]));
        MUST(MPI_Waitall(SIZES, parted, MPI_STATUSES_IGNORE));
        for (int i = 0; i < SIZES && check_rank == 1; i++)
            check_same(parts[i], PARTS * (size_t)counts[i] * sizeof(int), (uint64_t)i, round,
                       "partitions", __LINE__);
    }
}

static void drop_partitioned(void) {
    for (int i = 0; i < SIZES; i++)
        MUST(MPI_Request_free(&parted[i]));
}

static const char *const levels[2] = {"MPI_THREAD_SINGLE", "MPI_THREAD_MULTIPLE"};

/* Session 0 asks for nothing, session 1 for MPI_THREAD_MULTIPLE. */
static void open_session(int which, MPI_Session *session) {
    MPI_Info info, used;
    char level[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    MUST(MPI_Info_create(&info));
    if (which == 1)
        MUST(MPI_Info_set(info, "thread_level", levels[1]));
    MUST(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, session));
    MUST(MPI_Session_get_info(*session, &used));
    MUST(MPI_Info_get(used, "thread_level", MPI_MAX_INFO_VAL, level, &flag));
    CHECK(!flag || !work_is_taken() || strcmp(level, levels[which]) == 0, "session %d is told %s",
          which, level);
    MUST(MPI_Info_free(&info));
    MUST(MPI_Info_free(&used));
}

static void make_comm(int which) {
    static int ncomms;
    MPI_Group group;
    char tag[32];
    snprintf(tag, sizeof tag, "tugboat.test.%d", ncomms++);
    MUST(MPI_Group_from_session_pset(sessions[which], "mpi://WORLD", &group));
    MUST(
        MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comms[which]));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Comm_rank(comms[which], &check_rank));
    MUST(MPI_Comm_size(comms[which], &check_nranks));
    work_on(comms[which]);
}

static void close_session(int which) {
    if (comms[which] != MPI_COMM_NULL)
        MUST(MPI_Comm_free(&comms[which]));
    MUST(MPI_Session_finalize(&sessions[which]));
}

static void *open_and_close(void *which) {
    MPI_Session session;
    for (int i = 0; i < 20; i++) {
        open_session(which != NULL, &session);
        MUST(MPI_Session_finalize(&session));
    }
    return NULL;
}

static void in_two_threads(void) {
    static char nothing;
    pthread_t other;
    CHECK(pthread_create(&other, NULL, open_and_close, &nothing) == 0, "no thread");
    open_and_close(NULL);
    pthread_join(other, NULL);
}

static void step(char what) {
    int provided;
    switch (what) {
    case 'i':
        MUST(MPI_Init(NULL, NULL));
        MUST(MPI_Query_thread(&provided));
        CHECK(!work_is_taken() || provided == MPI_THREAD_SINGLE, "MPI_Init provides %d", provided);
        check_note("sessions");
        break;
    case 't':
        MUST(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided));
        check_note("sessions");
        break;
    case 'f':
        MUST(MPI_Finalize());
        break;
    case 'a':
    case 'b':
        open_session(what - 'a', &sessions[what - 'a']);
        break;
    case 'A':
    case 'B':
        close_session(what - 'A');
        break;
    case 'c':
    case 'd':
        make_comm(what - 'c');
        break;
    case 'p':
        in_two_threads();
        break;
    case 'w':
        work_on(MPI_COMM_WORLD);
        break;
    case 'k':
        keep(&of_world, MPI_COMM_WORLD);
        break;
    case 'u':
        use(&of_world, MPI_COMM_WORLD);
        break;
    case 'r':
        drop(&of_world);
        break;
    case 'y':
        work_on(comms[0]);
        break;
    case 'Y':
        keep(&of_session, comms[0]);
        break;
    case 'Z':
        use(&of_session, comms[0]);
        break;
    case 'z':
        drop(&of_session);
        break;
    case 'v':
        send_derived(comms[0]);
        break;
    case 'm':
        make_partitioned(comms[0]);
        break;
    case 'n':
        use_partitioned();
        break;
    case 'q':
        drop_partitioned();
        break;
    default:
        CHECK(false, "no step '%c'", what);
    }
}

int main(int argc, char **argv) {
    const char *number = getenv("PMI_RANK");
    bool first = number == NULL || strcmp(number, "0") == 0;
    if (argc < 2)
        return 2;
    for (const char *at = argv[argc > 2 && !first ? 2 : 1]; *at != '\0'; at++)
        step(*at);
    if (first)
        printf("right\n");
    return 0;
}
#endif

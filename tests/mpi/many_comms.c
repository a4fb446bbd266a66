/*
 * many_comms: as many communicators with windows and persistent collectives as with the host alone.
 *
 * MPICH has ids for 2 048 communicators in a process, and gives one to each window, too. What the
 * library takes for itself is a handful, however many communicators there are.
 *
 *     many_comms windows|requests N    N communicators of the same ranks, all with a window or a
 *                                      persistent reduction
 *     many_comms groups N              the same with both, on communicators of different ranks
 *     many_comms orders                requests on two communicators of the same ranks, in the same
 *                                      order and in the reverse one, are started, and the
 *                                      communicators freed, in different orders
 *     many_comms leaving               a communicator goes on one rank before it goes on the next,
 * in MPI_Request_free, MPI_Comm_free or MPI_Wait many_comms short N               the program takes
 * all communicators there are, gives N back, and makes a window and a request
 */
#include "check.h"

#define MOST 4096

/* What hangs on one communicator. */
struct user {
    MPI_Comm comm;
    MPI_Win win;
    MPI_Request request;
    int64_t *base, in, out;
    int rank, n;
};

static struct user users[MOST];

static void begin(struct user *user, MPI_Comm comm, bool window, bool request) {
    *user = (struct user){.comm = comm, .win = MPI_WIN_NULL, .request = MPI_REQUEST_NULL};
    MUST(MPI_Comm_rank(comm, &user->rank));
    MUST(MPI_Comm_size(comm, &user->n));
    if (window)
        MUST(MPI_Win_allocate(2 * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, comm,
                              &user->base, &user->win));
    if (request)
        MUST(MPI_Allreduce_init(&user->in, &user->out, 1, MPI_INT64_T, MPI_SUM, comm, MPI_INFO_NULL,
                                &user->request));
}

static int64_t word(int rank, int64_t round) {
    return (int64_t)(check_word((uint64_t)rank, (uint64_t)round, 0) >> 8);
}

static void put(struct user *user, int64_t round) {
    const int64_t mine = word(user->rank, round);
    if (user->win == MPI_WIN_NULL)
        return;
    MUST(MPI_Win_fence(0, user->win));
    MUST(MPI_Put(&mine, 1, MPI_INT64_T, (user->rank + 1) % user->n, 1, 1, MPI_INT64_T, user->win));
    MUST(MPI_Win_fence(0, user->win));
    const int left = (user->rank + user->n - 1) % user->n;
    CHECK(user->base[1] == word(left, round), "a put in round %lld", (long long)round);
}

static void start(struct user *user, int64_t round) {
    user->in = word(user->rank, round);
    if (user->request != MPI_REQUEST_NULL)
        MUST(MPI_Start(&user->request));
}

static void finish(struct user *user, int64_t round) {
    int64_t sum = 0;
    if (user->request == MPI_REQUEST_NULL)
        return;
    MUST(MPI_Wait(&user->request, MPI_STATUS_IGNORE));
    for (int r = 0; r < user->n; r++)
        sum += word(r, round);
    CHECK(user->out == sum, "a reduction in round %lld", (long long)round);
}

static void end(struct user *user) {
    if (user->request != MPI_REQUEST_NULL)
        MUST(MPI_Request_free(&user->request));
    if (user->win != MPI_WIN_NULL)
        MUST(MPI_Win_free(&user->win));
    if (user->comm != MPI_COMM_WORLD)
        MUST(MPI_Comm_free(&user->comm));
}

static void use_all(int n) {
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < n; i++) {
            put(&users[i], round * n + i);
            start(&users[i], round * n + i);
            finish(&users[i], round * n + i);
        }
}

static void same_ranks(int n, bool window) {
    for (int i = 0; i < n; i++) {
        MPI_Comm comm;
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        begin(&users[i], comm, window, !window);
    }
    use_all(n);
    for (int i = 0; i < n; i++)
        end(&users[i % 2 ? n - i - n % 2 : i]);
}

/* Communicators of some ranks, in turned orders. */
static void groups(int n) {
    int have = 0;
    for (int i = 0; i < n; i++) {
        MPI_Comm comm;
        const int color = i >> check_rank & 1;
        MUST(MPI_Comm_split(MPI_COMM_WORLD, color, (check_rank + i / 16) % check_nranks, &comm));
        begin(&users[have++], comm, true, true);
    }
    use_all(have);
    for (int i = 0; i < have; i++)
        end(&users[i]);
}

/* The two have what the library has for their ranks together, or each its own. */
static void in_orders(bool reversed) {
    for (int round = 0; round < 20; round++) {
        MPI_Comm comms[2];
        const int first = (check_rank + round) % 2;
        int64_t value[4] = {round, round, round, round};
        for (int i = 0; i < 2; i++) {
            const int key = reversed && i ? -check_rank : check_rank;
            MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, key, &comms[i]));
            begin(&users[i], comms[i], round % 3 == 0, true);
        }
        for (int turn = 0; turn < 12; turn++) {
            start(&users[first], 2 * turn + first);
            if (turn % 3)
                MUST(MPI_Bcast(value, 4, MPI_INT64_T, turn % check_nranks, comms[turn % 2]));
            start(&users[!first], 2 * turn + !first);
            finish(&users[turn % 2], 2 * turn + turn % 2);
            finish(&users[!(turn % 2)], 2 * turn + !(turn % 2));
            put(&users[turn % 2], turn);
        }
        /* the communicator goes with its last request */
        for (int i = 0; i < 2; i++) {
            if (users[i].win != MPI_WIN_NULL)
                MUST(MPI_Win_free(&users[i].win));
            start(&users[i], i);
            MUST(MPI_Comm_free(&comms[i]));
        }
        for (int i = 0; i < 2; i++) {
            struct user *user = &users[i ^ first];
            finish(user, i ^ first);
            MUST(MPI_Request_free(&user->request));
        }
    }
}

static void orders(void) {
    in_orders(false);
    in_orders(true);
}

static MPI_Comm reversed(void) {
    MPI_Comm comm;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm));
    return comm;
}

/* Each rank frees its request when the rank before has freed its own. */
static void free_in_turn(void) {
    struct user user;
    begin(&user, reversed(), false, true);
    start(&user, 0);
    MUST(MPI_Comm_free(&user.comm));
    finish(&user, 0);
    if (check_rank > 0)
        MUST(MPI_Recv(NULL, 0, MPI_INT, check_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Request_free(&user.request));
    if (check_rank + 1 < check_nranks)
        MUST(MPI_Send(NULL, 0, MPI_INT, check_rank + 1, 0, MPI_COMM_WORLD));
}

/* It stays on rank 0 until a message has been waited for, and goes at once elsewhere. */
static void free_with_message(void) {
    struct user user;
    MPI_Request message;
    MPI_Comm comm = reversed();
    begin(&user, comm, true, false);
    put(&user, 1);
    MUST(MPI_Win_free(&user.win));
    if (check_rank == 0)
        MUST(MPI_Irecv(NULL, 0, MPI_INT, 0, 0, comm, &message));
    else if (user.rank == 0)
        MUST(MPI_Send(NULL, 0, MPI_INT, check_nranks - 1, 0, comm));
    MUST(MPI_Comm_free(&comm));
    if (check_rank == 0) {
        for (int r = 1; r < check_nranks; r++)
            MUST(MPI_Recv(NULL, 0, MPI_INT, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Wait(&message, MPI_STATUS_IGNORE));
    } else {
        MUST(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
    }
}

static void begin_again(struct user *user, MPI_Comm of) {
    for (int i = 0; i < 2; i++) {
        MPI_Comm comm;
        if (i > 0)
            end(user);
        MUST(MPI_Comm_dup(of, &comm));
        begin(user, comm, true, true);
    }
}

/* Others are in use all the time, for which the library has kept what it had for the first. */
static void leaving(void) {
    struct user one, all;
    begin_again(&one, MPI_COMM_SELF);
    begin_again(&all, MPI_COMM_WORLD);
    for (int round = 0; round < 20; round++) {
        free_in_turn();
        free_with_message();
    }
    end(&all);
    end(&one);
}

static void be_short(int n) {
    int have = 0;
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    while (have < MOST && MPI_Comm_dup(MPI_COMM_WORLD, &users[have].comm) == MPI_SUCCESS)
        have++;
    CHECK(have < MOST || have > 2000, "the host has %d communicators", have);
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    for (int i = 0; i < n; i++)
        MUST(MPI_Comm_free(&users[--have].comm));
    struct user user;
    begin(&user, MPI_COMM_WORLD, true, true);
    for (int round = 0; round < 5; round++) {
        put(&user, round);
        start(&user, round);
        finish(&user, round);
    }
    end(&user);
    while (have > 0)
        MUST(MPI_Comm_free(&users[--have].comm));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "many_comms");
    CHECK(argc > 1, "what?");
    const int n = argc > 2 ? atoi(argv[2]) : 0;
    CHECK(n <= MOST, "at most %d", MOST);
    if (strcmp(argv[1], "windows") == 0 || strcmp(argv[1], "requests") == 0)
        same_ranks(n, argv[1][0] == 'w');
    else if (strcmp(argv[1], "groups") == 0)
        groups(n);
    else if (strcmp(argv[1], "orders") == 0)
        orders();
    else if (strcmp(argv[1], "leaving") == 0)
        leaving();
    else
        be_short(n);
    return check_end();
}

/*
 * bottom: calls that wait, on data by their addresses, from MPI_BOTTOM.
 *
 * Every other word of an array, by a type of addresses. Sends and receives of all kinds, exchanges
 * in place and not, and collectives. What is beside the data stays as it is. And an exchange in
 * place that cannot be says so once, whatever form the wait has.
 */
#include "check.h"

enum { WORDS = 64, TAG = 7 };

#define T MPI_INT64_T

static int64_t mine[2 * WORDS], theirs[2 * WORDS];
static MPI_Datatype at_mine, at_theirs;
static uint64_t round_now;
static int left, right;

static MPI_Datatype type_at(const int64_t *words) {
    MPI_Aint addresses[WORDS];
    MPI_Datatype type;
    for (int i = 0; i < WORDS; i++)
        MUST(MPI_Get_address(&words[2 * i], &addresses[i]));
    MUST(MPI_Type_create_hindexed_block(WORDS, 1, addresses, T, &type));
    MUST(MPI_Type_commit(&type));
    return type;
}

static int64_t word_of(int rank, int i) {
    return (int64_t)(check_word((uint64_t)rank, round_now, (uint64_t)i) >> 1);
}

static void begin(void) {
    round_now++;
    for (int i = 0; i < 2 * WORDS; i++) {
        mine[i] = word_of(check_rank, i);
        theirs[i] = -i;
    }
}

/* The data of `writer` have come; the gaps are as they were. */
static void ends_with(const char *call, const int64_t *words, int writer) {
    for (int i = 0; i < 2 * WORDS; i++) {
        int64_t gap = words == mine ? word_of(check_rank, i) : -i;
        int64_t want = i % 2 == 0 ? word_of(writer, i) : gap;
        CHECK(words[i] == want, "%s: word %d is %ld, not %ld", call, i, (long)words[i], (long)want);
    }
}

static void send_and_receive(void) {
    MPI_Message message;
    MPI_Request r;
    begin();
    MUST(MPI_Irecv(MPI_BOTTOM, 1, at_theirs, left, TAG, MPI_COMM_WORLD, &r));
    MUST(MPI_Ssend(MPI_BOTTOM, 1, at_mine, right, TAG, MPI_COMM_WORLD));
    MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    ends_with("MPI_Ssend", theirs, left);
    begin();
    MUST(MPI_Isend(MPI_BOTTOM, 1, at_mine, right, TAG, MPI_COMM_WORLD, &r));
    MUST(MPI_Recv(MPI_BOTTOM, 1, at_theirs, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    ends_with("MPI_Recv", theirs, left);
    begin();
    MUST(MPI_Isend(MPI_BOTTOM, 1, at_mine, right, TAG, MPI_COMM_WORLD, &r));
    MUST(MPI_Mprobe(left, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Mrecv(MPI_BOTTOM, 1, at_theirs, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    ends_with("MPI_Mrecv", theirs, left);
}

static void exchange(void) {
    MPI_Status status;
    int count;
    begin();
    MUST(MPI_Sendrecv(MPI_BOTTOM, 1, at_mine, right, TAG, MPI_BOTTOM, 1, at_theirs, left, TAG,
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    ends_with("MPI_Sendrecv", theirs, left);
    begin();
    MUST(MPI_Sendrecv_replace(MPI_BOTTOM, 1, at_mine, right, TAG, left, TAG, MPI_COMM_WORLD,
                              &status));
    ends_with("MPI_Sendrecv_replace", mine, left);
    MUST(MPI_Get_count(&status, at_mine, &count));
    CHECK(count == 1 && status.MPI_SOURCE == left, "%d items from %d", count, status.MPI_SOURCE);
    begin();
    MUST(MPI_Sendrecv_replace_c(MPI_BOTTOM, 1, at_mine, right, TAG, left, TAG, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE));
    ends_with("MPI_Sendrecv_replace_c", mine, left);
    begin(); /* the ordinary way, for comparison: the same words from where they are */
    MPI_Datatype vector;
    MUST(MPI_Type_vector(WORDS, 1, 2, T, &vector));
    MUST(MPI_Type_commit(&vector));
    MUST(MPI_Sendrecv_replace(mine, 1, vector, right, TAG, left, TAG, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
    ends_with("MPI_Sendrecv_replace of a vector", mine, left);
    MUST(MPI_Type_free(&vector));
    MUST(
        MPI_Sendrecv_replace(NULL, 0, T, right, TAG, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void collect(void) {
    static int64_t all[16 * WORDS];
    for (int root = 0; root < check_nranks; root++) {
        begin();
        MUST(MPI_Bcast(MPI_BOTTOM, 1, at_mine, root, MPI_COMM_WORLD));
        ends_with("MPI_Bcast", mine, root);
    }
    begin();
    MUST(MPI_Allgather(MPI_BOTTOM, 1, at_mine, all, WORDS, T, MPI_COMM_WORLD));
    for (int i = 0; i < check_nranks * WORDS; i++)
        CHECK(all[i] == word_of(i / WORDS, 2 * (i % WORDS)), "MPI_Allgather: word %d", i);
    MUST(MPI_Scatter(all, WORDS, T, MPI_BOTTOM, 1, at_theirs, 0, MPI_COMM_WORLD));
    ends_with("MPI_Scatter", theirs, check_rank);
}

static int handled;

static void on_error(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    handled++;
}

static void wrong_exchanges(void) {
    MPI_Errhandler handler;
    MPI_Datatype uncommitted;
    MPI_Comm comm = MPI_COMM_WORLD;
    MUST(MPI_Type_vector(2, 1, 2, T, &uncommitted));
    MUST(MPI_Comm_create_errhandler(on_error, &handler));
    MUST(MPI_Comm_set_errhandler(comm, handler));
    const struct {
        int want, got;
    } wrong[] = {
        {MPI_ERR_TYPE, MPI_Sendrecv_replace(mine, 1, uncommitted, right, TAG, left, TAG, comm,
                                            MPI_STATUS_IGNORE)},
        {MPI_ERR_COUNT,
         MPI_Sendrecv_replace(mine, -1, T, right, TAG, left, TAG, comm, MPI_STATUS_IGNORE)},
        {MPI_ERR_BUFFER,
         MPI_Sendrecv_replace(NULL, 1, T, right, TAG, left, TAG, comm, MPI_STATUS_IGNORE)},
        {MPI_ERR_RANK,
         MPI_Sendrecv_replace(mine, 1, T, check_nranks, TAG, left, TAG, comm, MPI_STATUS_IGNORE)},
        {MPI_ERR_TAG,
         MPI_Sendrecv_replace(mine, 1, T, right, -9, left, TAG, comm, MPI_STATUS_IGNORE)},
    };
    const int n = sizeof wrong / sizeof wrong[0];
    for (int i = 0; i < n; i++) {
        int class;
        MUST(MPI_Error_class(wrong[i].got, &class));
        CHECK(class == wrong[i].want, "mistake %d: class %d, not %d", i, class, wrong[i].want);
    }
    CHECK(handled == n, "%d mistakes, the handler was called %d times", n, handled);
    MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL));
    MUST(MPI_Errhandler_free(&handler));
    MUST(MPI_Type_free(&uncommitted));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "bottom");
    CHECK(check_nranks <= 16, "at most 16 ranks");
    right = (check_rank + 1) % check_nranks;
    left = (check_rank + check_nranks - 1) % check_nranks;
    at_mine = type_at(mine);
    at_theirs = type_at(theirs);
    for (int i = 0; i < 3; i++) {
        send_and_receive();
        exchange();
        collect();
    }
    wrong_exchanges();
    MUST(MPI_Type_free(&at_mine));
    MUST(MPI_Type_free(&at_theirs));
    return check_end();
}

/*
 * counts: what the card and the library do for one epoch of MPI's one-sided calls.
 *
 * Rank 0 operates on the window of rank 1, which takes part in the synchronisation only; 2 ranks
 * over the stand-in card (run_mpi.sh --nodes card). A row is a kind of operation, a size, a flavour
 * of window, a number of operations in an epoch, a synchronisation and a state of the two processes
 * (enum state). It tells for one epoch what rank 0's card did (work requests by kind, inline,
 * signalled, doorbells, receives, completions, registrations), what its library did (packets,
 * acknowledgements among them, messages of the host, parks), and of rank 1 the SENDs, other
 * requests, doorbells, completions and packets. The first epochs are not counted but in the state
 * FIRST; each number is the mean of the counted ones. Operations of less than 1 MiB leave gaps
 * between their places, so that the library cannot join them. Puts, gets and fetch_and_op are
 * checked against limits. The last epoch has data of its own, which are checked.
 *
 * Usage: counts [all] [put|get|fetch_and_op]...   all: 64 operations of 1 MiB an epoch, too
 */
#include "card_counts.h"
#include "win_kinds.h"
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WARM = 3, COUNTED = 4, PIECE_MOST = 1 << 20, PIECES_MOST = 64 };
#define PLACES ((size_t)PIECES_MOST * PIECE_MOST)

enum operation { PUT, GET, FETCH_AND_OP, NOPERATIONS };
static const char *const operation_names[NOPERATIONS] = {"put", "get", "fetch_and_op"};

/* SHARED, EXCLUSIVE: each operation has a lock and an unlock of its own. FLUSH: they end with a
 * flush in an epoch of MPI_Win_lock_all. */
enum sync { SHARED, EXCLUSIVE, FLUSH, FENCE, PSCW, NSYNCS };
static const char *const sync_names[NSYNCS] = {"shared", "excl", "flush", "fence", "pscw"};

/* REPEATED: epochs follow one another. PAUSED: before each, both ranks sleep for so long that their
 * offload threads sleep without a limit. WAITED: other threads of both ranks wait in the host.
 * FIRST: the window is new. */
enum state { REPEATED, PAUSED, WAITED, FIRST, NSTATES };
static const char *const state_names[NSTATES] = {"", "paused", "waited", "first"};
enum { PAUSE_US = 20000, TAG_END = 77 };

struct row {
    enum operation operation;
    enum sync sync;
    size_t size;
    int n;
    enum state state;
};

static struct kind_win w;
static bool given_up; /* the window's accumulates are not the cards' any more */
static char *buffer;  /* the origin's, as large as a window */
static MPI_Group other;

/* ---- counting ---- */

/* Of each counter: the sum over the counted epochs of a row, and the smallest value in one of them.
 */
struct tally {
    struct counts sum, least;
    unsigned epochs;
};

static void begin_tally(struct tally *tally) {
    memset(&tally->sum, 0, sizeof tally->sum);
    memset(&tally->least, 0xff, sizeof tally->least);
    tally->epochs = 0;
}

/* Adds what has been counted since `before`. */
static void add_since(struct tally *tally, const struct counts *before) {
    struct counts now;
    count(&now);
    tally->epochs++;
    for (size_t i = 0; i < sizeof now / sizeof(uint64_t); i++) {
        const uint64_t n = ((uint64_t *)&now)[i] - ((const uint64_t *)before)[i];
        uint64_t *least = &((uint64_t *)&tally->least)[i];
        ((uint64_t *)&tally->sum)[i] += n;
        *least = n < *least ? n : *least;
    }
}

/* ---- the epochs ---- */

/* From one operation's memory to the next. */
static size_t step_of(const struct row *row) {
    return row->size >= PIECE_MOST ? row->size : 2 * row->size + 48;
}

static void operate(const struct row *row, int i) {
    static int64_t one = 1;
    const size_t at = (size_t)i * step_of(row);
    char *mine = buffer + at;
    const int bytes = (int)row->size;
    const MPI_Aint disp = kind_disp(&w, 1, at);
    if (row->operation == PUT)
        MUST(MPI_Put(mine, bytes, MPI_BYTE, 1, disp, bytes, MPI_BYTE, w.win));
    else if (row->operation == GET)
        MUST(MPI_Get(mine, bytes, MPI_BYTE, 1, disp, bytes, MPI_BYTE, w.win));
    else
        MUST(MPI_Fetch_and_op(&one, mine, MPI_INT64_T, 1, disp, MPI_SUM, w.win));
}

static void operate_all(const struct row *row) {
    for (int i = 0; i < row->n; i++)
        operate(row, i);
}

static void origin_epoch(const struct row *row) {
    switch (row->sync) {
    case SHARED:
    case EXCLUSIVE:
        for (int i = 0; i < row->n; i++) {
            MUST(MPI_Win_lock(row->sync == SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 1, 0,
                              w.win));
            operate(row, i);
            MUST(MPI_Win_unlock(1, w.win));
        }
        break;
    case FLUSH:
        operate_all(row);
        MUST(MPI_Win_flush(1, w.win));
        break;
    case FENCE:
        MUST(MPI_Win_fence(0, w.win));
        operate_all(row);
        MUST(MPI_Win_fence(0, w.win));
        break;
    default:
        MUST(MPI_Win_start(other, 0, w.win));
        operate_all(row);
        MUST(MPI_Win_complete(w.win));
    }
}

static void target_epoch(const struct row *row) {
    if (row->sync == FENCE) {
        MUST(MPI_Win_fence(0, w.win));
        MUST(MPI_Win_fence(0, w.win));
    } else if (row->sync == PSCW) {
        MUST(MPI_Win_post(other, 0, w.win));
        MUST(MPI_Win_wait(w.win));
    }
}

/* ---- data ---- */

static void fill(const struct row *row, char *memory, uint64_t round) {
    for (int i = 0; i < row->n; i++)
        check_fill(memory + (size_t)i * step_of(row), row->size, (uint64_t)i, round);
}

static void check_data(const struct row *row, const char *memory, uint64_t round) {
    for (int i = 0; i < row->n; i++)
        check_same(memory + (size_t)i * step_of(row), row->size, (uint64_t)i, round,
                   operation_names[row->operation], __LINE__);
}

static int64_t word_at(const struct row *row, const char *memory, int i) {
    int64_t word;
    memcpy(&word, memory + (size_t)i * step_of(row), sizeof word);
    return word;
}

/* Fills the memory that the next epochs move. */
static void prepare(const struct row *row, uint64_t round) {
    if (row->operation == PUT && w.rank == 0)
        fill(row, buffer, round);
    if (row->operation == GET && w.rank == 1)
        fill(row, w.base, round);
    if (row->sync == FLUSH)
        MUST(MPI_Win_sync(w.win));
}

/* Sets the words of FETCH_AND_OP to 0 and, for FLUSH, begins the epoch of MPI_Win_lock_all. */
static void begin_row(const struct row *row) {
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, w.win));
    for (int i = 0; row->operation == FETCH_AND_OP && i < row->n; i++)
        memset(w.base + (size_t)i * step_of(row), 0, row->size);
    MUST(MPI_Win_unlock(w.rank, w.win));
    check_barrier(MPI_COMM_WORLD);
    if (row->sync == FLUSH)
        MUST(MPI_Win_lock_all(0, w.win));
}

/* epochs: the number of epochs of this row so far; each has added 1 to every word, from 0 on. */
static void check_epoch(const struct row *row, uint64_t round, int64_t epochs) {
    if (row->operation == PUT && w.rank == 1)
        check_data(row, w.base, round);
    if (row->operation == GET && w.rank == 0)
        check_data(row, buffer, round);
    for (int i = 0; row->operation == FETCH_AND_OP && i < row->n; i++) {
        const int64_t word = word_at(row, w.rank == 0 ? buffer : w.base, i);
        CHECK(word == epochs - (w.rank == 0), "word %d is %lld in epoch %lld", i, (long long)word,
              (long long)epochs);
    }
}

/* ---- rows ---- */

static void print_head(void) {
    printf("\n%-12s %7s %-8s %3s %-5s %-6s | %6s %6s %4s %6s %4s %4s %6s %6s %6s %6s %6s %4s | %6s "
           "%6s %5s "
           "%5s | %6s %6s %6s %6s %6s\n",
           "operation", "bytes", "window", "n", "sync", "state", "SEND", "WRITE", "WIMM", "READ",
           "CAS", "FADD", "inline", "signal", "bells", "recvs", "compl", "reg", "packet", "acks",
           "host", "parks", "t.SEND", "t.RDMA", "t.bell", "t.comp", "t.pack");
}

static unsigned epochs; /* counted of the row that is printed */

static double mean(uint64_t sum) {
    return (double)sum / epochs;
}

static void print_row(const struct row *row, const struct counts *origin,
                      const struct counts *target) {
    const struct fake_card_counts *card = &origin->card, *there = &target->card;
    const uint64_t *requests = card->requests;
    printf("%-12s %7zu %-8s %3d %-5s %-6s | %6.1f %6.1f %4.1f %6.1f %4.1f %4.1f %6.1f %6.1f %6.1f "
           "%6.1f "
           "%6.1f %4.1f | %6.1f %6.1f %5.1f %5.1f | %6.1f %6.1f %6.1f %6.1f %6.1f\n",
           operation_names[row->operation], row->size, kind_names[w.kind], row->n,
           sync_names[row->sync], state_names[row->state], mean(requests[FAKE_SEND]),
           mean(requests[FAKE_WRITE]), mean(requests[FAKE_WRITE_WITH_IMM]),
           mean(requests[FAKE_READ]), mean(requests[FAKE_CMP_AND_SWP]),
           mean(requests[FAKE_FETCH_AND_ADD]), mean(sum_of(card->in_line)),
           mean(sum_of(card->signalled)), mean(card->post_sends),
           mean(card->post_recvs + card->post_srq_recvs), mean(card->completions),
           mean(card->registrations), mean(origin->library[0]), mean(origin->library[1]),
           mean(origin->library[2]), mean(origin->library[3]), mean(there->requests[FAKE_SEND]),
           mean(sum_of(there->requests) - there->requests[FAKE_SEND]), mean(there->post_sends),
           mean(there->completions), mean(target->library[0]));
    fflush(stdout);
}

/* Runs one epoch and adds what this rank did for it. Rank 1 counts from before the first barrier to
 * after the last, so that packets before and after its own calls count, too. */
static void run_epoch(const struct row *row, struct tally *tally) {
    struct counts before;
    if (w.rank == 1)
        count(&before);
    check_barrier(MPI_COMM_WORLD);
    if (row->state == PAUSED)
        usleep(PAUSE_US);
    if (w.rank == 0) {
        count(&before);
        origin_epoch(row);
        add_since(tally, &before);
    } else {
        target_epoch(row);
    }
    check_barrier(MPI_COMM_WORLD);
    if (w.rank == 1)
        add_since(tally, &before);
}

/* ---- bars ---- */

/* A put, get or fetch_and_op takes one request of the card, whatever its local memory and length; a
 * fetch_and_op none once the window has given the cards up, and those of an epoch share packets. In
 * FLUSH no packets go; all operations shorter than LONG share one doorbell and one completion, and
 * each longer one may have its own. A lock and its unlock take one atomic each, and no packets
 * either. In the state FIRST an atomic takes the lock of MPI_Win_lock_all, and the first atomic of
 * the program reads a word ahead, to see whether the card gets there. In FENCE and PSCW the number
 * of packets does not depend on the number of operations. The offload thread may post part of a
 * batch early in some epochs, so doorbells and completions are checked in the epoch that has
 * fewest. */
enum { LONG = 16384, IN_LINE = 220, MESSAGES_MOST = 6 };

static bool has_locks(const struct row *row) {
    return row->sync == SHARED || row->sync == EXCLUSIVE;
}

/* Does the library keep the registrations of a row's buffer? It does if the buffer is smaller than
 * half the limit of locked memory. */
static bool are_kept(const struct row *row) {
    struct rlimit limit;
    return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
           (size_t)row->n * step_of(row) < limit.rlim_cur / 2;
}

static void hold_bars(const struct row *row, const struct tally *tally) {
    const struct fake_card_counts *card = &tally->sum.card, *least = &tally->least.card;
    const bool put = row->operation == PUT;
    const uint64_t lock = row->state == FIRST, meets = lock && row->operation == FETCH_AND_OP;
    const uint64_t n = (uint64_t)row->n, all = n * tally->epochs, calls = row->size < LONG ? 1 : n;
    const uint64_t adds = (row->operation == FETCH_AND_OP ? all : 0) + lock * tally->epochs +
                          (row->sync == SHARED      ? 2 * all
                           : row->sync == EXCLUSIVE ? all
                                                    : 0);
    CHECK(card->requests[FAKE_FETCH_AND_ADD] == (given_up ? 0 : adds), "%llu FETCH_AND_ADD",
          (unsigned long long)card->requests[FAKE_FETCH_AND_ADD]);
    if (given_up)
        return;
    CHECK(card->requests[FAKE_CMP_AND_SWP] == (row->sync == EXCLUSIVE ? all : 0), "%llu CMP_SWAP",
          (unsigned long long)card->requests[FAKE_CMP_AND_SWP]);
    CHECK(card->requests[FAKE_WRITE] == (put ? all : 0), "WRITE");
    CHECK(card->requests[FAKE_READ] == (row->operation == GET ? all : meets), "READ");
    CHECK(card->in_line[FAKE_WRITE] == (put && row->size <= IN_LINE ? all : 0), "in line");
    CHECK(card->registrations == 0 || !are_kept(row), "memory is registered again");
    CHECK(card->requests[FAKE_SEND] <= MESSAGES_MOST * tally->epochs, "%llu SEND",
          (unsigned long long)card->requests[FAKE_SEND]);
    CHECK(tally->sum.library[2] == 0, "messages of the host");
    if (row->sync != FLUSH && !has_locks(row))
        return;
    CHECK(least->requests[FAKE_SEND] == 0 && tally->least.library[0] == 0, "packets");
    if (row->sync != FLUSH)
        return;
    CHECK(least->post_sends <= calls + lock + meets, "%llu doorbells",
          (unsigned long long)least->post_sends);
    CHECK(least->completions <= calls + lock + meets, "%llu completions",
          (unsigned long long)least->completions);
}

/* The target's card carries out the operations: the target posts SENDs only, and none in at least
 * one epoch of FLUSH and of locks. */
static void hold_target_bars(const struct row *row, const struct tally *tally) {
    const struct fake_card_counts *card = &tally->sum.card;
    if (given_up)
        return;
    CHECK(sum_of(card->requests) == card->requests[FAKE_SEND], "RDMA by the target");
    CHECK((row->sync != FLUSH && !has_locks(row)) || tally->least.card.requests[FAKE_SEND] == 0,
          "packets of the target");
}

/* Waits in the host, with nothing to do for it. */
static void *wait_in_host(void *argument) {
    MUST(MPI_Recv(NULL, 0, MPI_BYTE, 1 - w.rank, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return argument;
}

static void run_row(const struct row *row) {
    static uint64_t round; /* no two rows have the same data */
    const int warm = row->state == FIRST ? 0 : WARM, counted = row->state == FIRST ? 1 : COUNTED;
    struct tally tally, unused;
    struct counts sums[2];
    pthread_t waiter;
    begin_tally(&tally);
    begin_tally(&unused);
    begin_row(row);
    if (row->state == WAITED)
        CHECK(pthread_create(&waiter, NULL, wait_in_host, NULL) == 0, "no thread");
    prepare(row, ++round);
    for (int i = 1; i < warm + counted; i++)
        run_epoch(row, i <= warm ? &unused : &tally);
    prepare(row, ++round);
    run_epoch(row, &tally);
    if (row->sync == FLUSH)
        MUST(MPI_Win_unlock_all(w.win));
    if (row->state == WAITED) {
        MUST(MPI_Send(NULL, 0, MPI_BYTE, 1 - w.rank, TAG_END, MPI_COMM_WORLD));
        pthread_join(waiter, NULL);
    }
    check_barrier(MPI_COMM_WORLD);
    check_epoch(row, round, warm + counted);
    MUST(MPI_Gather(&tally.sum, sizeof sums[0], MPI_BYTE, sums, sizeof sums[0], MPI_BYTE, 0,
                    MPI_COMM_WORLD));
    epochs = tally.epochs;
    if (w.rank == 0) {
        print_row(row, &sums[0], &sums[1]);
        hold_bars(row, &tally);
    } else {
        hold_target_bars(row, &tally);
    }
}

/* An accumulate that the cards do not do. It goes with its lock. */
static void give_up(void) {
    static const int64_t zero;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, w.win));
    if (w.rank == 0)
        MUST(MPI_Accumulate(&zero, 1, MPI_INT64_T, 1, kind_disp(&w, 1, 0), 1, MPI_INT64_T,
                            MPI_REPLACE, w.win));
    MUST(MPI_Win_unlock(1, w.win));
    given_up = true;
}

static void run_kind(enum operation operation, enum kind kind, size_t most) {
    static const size_t sizes[] = {8, 4096, PIECE_MOST};
    static const int numbers[] = {1, 16, PIECES_MOST};
    CHECK(kind_open(&w, kind, MPI_COMM_WORLD, PLACES, 1), "no window");
    for (int s = 0; s < (operation == FETCH_AND_OP ? 1 : 3); s++)
        for (int n = 0; n < 3; n++)
            for (int sync = 0; sync < NSYNCS && sizes[s] * (size_t)numbers[n] <= most; sync++)
                run_row(&(struct row){operation, (enum sync)sync, sizes[s], numbers[n], REPEATED});
    for (int s = 0; s < (operation == FETCH_AND_OP ? 1 : 3); s++)
        for (int state = PAUSED; state < NSTATES; state++) {
            if (state == FIRST) {
                kind_close(&w);
                CHECK(kind_open(&w, kind, MPI_COMM_WORLD, PLACES, 1), "no window");
            }
            run_row(&(struct row){operation, FLUSH, sizes[s], 1, (enum state)state});
        }
    if (operation == FETCH_AND_OP) {
        give_up();
        for (int n = 0; n < 3; n++)
            run_row(&(struct row){FETCH_AND_OP, SHARED, 8, numbers[n], REPEATED});
        run_row(&(struct row){FETCH_AND_OP, FLUSH, 8, PIECES_MOST, REPEATED});
        given_up = false;
    }
    kind_close(&w);
}

static bool is_wanted(enum operation operation, char **names) {
    for (char **name = names; *name != NULL; name++)
        if (strcmp(*name, operation_names[operation]) == 0)
            return true;
    return *names == NULL;
}

int main(int argc, char **argv) {
    MPI_Group world;
    check_begin_threads(&argc, &argv, "counts");
    const bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    const size_t most = all ? PLACES : PLACES / 4;
    CHECK(check_nranks == 2, "2 ranks");
    buffer = aligned_alloc(64, PLACES);
    CHECK(buffer != NULL, "no memory");
    memset(buffer, 0, PLACES);
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MUST(MPI_Group_incl(world, 1, &(int){1 - check_rank}, &other));
    MUST(MPI_Group_free(&world));
    /* the card is opened with the first window */
    CHECK(kind_open(&w, KIND_ALLOCATE, MPI_COMM_WORLD, 64, 1), "no window");
    kind_close(&w);
    begin_counting();
    if (check_rank == 0)
        print_head();
    for (int operation = 0; operation < NOPERATIONS; operation++)
        for (int kind = KIND_ALLOCATE; kind <= KIND_CREATE; kind++)
            if (is_wanted((enum operation)operation, argv + 1 + all))
                run_kind((enum operation)operation, (enum kind)kind, most);
    end_counting();
    MUST(MPI_Group_free(&other));
    free(buffer);
    return check_end();
}

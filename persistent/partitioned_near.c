/* Partitioned messages between two ranks of a node.
 *
 * With the first start the sender's greeting says where its data lie and where its *board* is.
 * Rounds go by the host's request, until the receiver, between two rounds, has said yes on the
 * board: from then on it asks the board which way the sender has chosen for a round. The sender,
 * once it has seen the yes, chooses the direct way for good. A receiver that cannot never says yes.
 *
 * The board, in lent memory of the sender's:
 *
 *     | yes, gone, direct from, started, ask | read | bells | in which round each is ready | pair |
 *
 * Few bytes go through the *pair* (pair.h): MPI_Pready counts, the last one copies all into slots,
 * and the receiver copies it out. Such a send is over when all is in the slots, and may be some
 * rounds ahead; a board outlives its request until it is read. A round for which there are not
 * enough slots when it starts is the engine's, which copies when all is ready. More bytes stay
 * where they are: MPI_Pready is a store to the board, the receiver copies out of the sender's
 * memory by cross-memory attach all partitions that are ready and lie side by side, and the send is
 * over when it has all. Where the sender's program protects its memory the receiver asks, on the
 * board, that it be accessed.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "engine/engine.h"
#include "node/cma.h"
#include "node/lent.h"
#include "node/neighbour.h"
#include "persistent/pair.h"
#include "persistent/partitioned_private.h"
#include "tugboat/tugboat.h"

#if MPI_VERSION >= 4

#define LANDING_MOST ((size_t)32768)
#define SLOT_MOST ((size_t)4096) /* that is copied out while the next one is filled */
#define SLOTS_MOST 64 /* of 262144 bytes: the sender is some messages ahead before it waits */
#define COPY_MOST ((size_t)1 << 20) /* of one copy: what follows may become ready meanwhile */

#define LINE __attribute__((aligned(TUG_CACHE_LINE)))

struct board {
    uint64_t word;         /* the sender's introduction's: it is the right one */
    _Atomic uint32_t yes;  /* by the receiver: it asks the board in every round from now on */
    _Atomic uint32_t gone; /* by the receiver: it reads no more */
    _Atomic uint32_t
        direct_from;            /* by the sender: all rounds from this one on are direct; 0: none */
    _Atomic uint32_t started;   /* by the sender: this round, after direct_from */
    struct tug_cma_ask ask;     /* by the receiver */
    LINE _Atomic uint32_t read; /* by the receiver: it has all of this round */
    LINE struct tug_bell sender;
    LINE struct tug_bell receiver;
    LINE _Atomic uint32_t ready[]; /* the round; then a pair on a line of its own */
};

/* What the receiver is told. */
struct greeting {
    struct tug_introduction sender; /* pid 0: the sender cannot */
    struct tug_offer board;
    uint64_t data, partitions, bytes; /* bytes: of a partition */
};

struct near {
    struct tug_partitioned base;
    struct greeting greeting;
    bool asked;          /* receiver: say_yes() has decided */
    bool direct;         /* from some round on, the present one or one before */
    bool lands;          /* each message as a whole, through the pair */
    struct board *board; /* NULL: none */
    struct tug_segment_ring pair;
    size_t first;     /* in turn: all partitions below, or bytes, are copied; 0 between rounds. Of a
                         sender: bytes that are in the slots */
    size_t at, moved; /* in turn: the byte from which the last run began, and bytes of it that
                         were copied before the sender was asked */
    bool room;        /* sender: there were slots for the round when it began */
    char pad[TUG_CACHE_LINE]; /* `marked` changes while other threads read what is above */
    _Atomic uint32_t marked;  /* sender: so many partitions of this round are ready */
    _Atomic uint32_t left;    /* sender: this round's threads are out of MPI_Pready: it may go */
};

static struct near *near_of(struct tug_partitioned *one) {
    return (struct near *)one;
}

/* The pair's slots: some messages are in them at a time. */
static size_t slot_bytes(size_t sum) {
    return sum <= TUG_SLOT_INLINE ? TUG_SLOT_INLINE
           : sum < SLOT_MOST      ? (sum + 63) / 64 * 64
                                  : SLOT_MOST;
}

static uint32_t slots_for(size_t sum) {
    return (uint32_t)((sum + slot_bytes(sum) - 1) / slot_bytes(sum));
}

static uint32_t slots_of(size_t sum) {
    uint32_t slots = TUG_SEGMENT_SLOTS;
    while (slots < SLOTS_MOST && slots < TUG_SEGMENT_SLOTS * slots_for(sum))
        slots *= 2;
    return slots;
}

static size_t pair_at(size_t partitions) {
    const size_t bytes = sizeof(struct board) + partitions * sizeof(uint32_t);
    return (bytes + TUG_CACHE_LINE - 1) / TUG_CACHE_LINE * TUG_CACHE_LINE;
}

static size_t board_bytes(const struct near *near) {
    const size_t sum = tug_partitioned_sum(&near->base);
    return pair_at(near->greeting.partitions) +
           (near->lands ? tug_pair_memory(slots_of(sum), slot_bytes(sum)) : 0);
}

static void use_board(struct near *near, struct board *board) {
    near->board = board;
    near->pair = tug_pair_at((unsigned char *)board + pair_at(near->greeting.partitions),
                             slots_of(tug_partitioned_sum(&near->base)));
}

/* ---- the sender ---- */

/* For a whole message. */
static bool has_room(struct near *send) {
    return tug_pair_has_room(&send->pair, slots_for(tug_partitioned_sum(&send->base)));
}

/* All is ready, and there is room for it. By one thread a round. One ring for all slots: a receiver
 * that is woken finds something to copy until the end. */
static void land(struct near *send) {
    const size_t sum = tug_partitioned_sum(&send->base);
    (void)tug_pair_put(&send->pair, slot_bytes(sum), send->base.call.buffer, sum, &send->first,
                       NULL);
    atomic_thread_fence(memory_order_seq_cst); /* before the look at the bell */
    tug_bell_ring(&send->board->receiver, true);
}

/* Counts n more, as its last touch of the request unless these are the last of all. Then the send
 * is not over before leave(). Release and acquire: the last thread goes on with what all have
 * written. */
static bool are_all_marked(struct near *send, size_t n) {
    return atomic_fetch_add(&send->marked, (uint32_t)n) + n == (size_t)send->base.call.partitions;
}

static void leave(struct near *send, uint32_t round) {
    atomic_store(&send->left, round); /* release: pairs with have_left() */
}

static bool have_left(const struct near *send, uint32_t round) {
    return atomic_load(&send->left) == round;
}

static void ready_on_board(struct near *send, size_t low, size_t n, uint32_t round) {
    tug_partitioned_mark(&send->base, low, n, round);
    if (!are_all_marked(send, n))
        return;
    if (send->room)
        land(send);
    else
        tug_bell_ring(&send->board->sender, true); /* the engine's: advance_send() */
    leave(send, round);
}

static void ready_to_attach(struct near *send, size_t low, size_t n, uint32_t round) {
    tug_partitioned_mark(&send->base, low, n, round);
    atomic_thread_fence(memory_order_seq_cst); /* before the look at the bell */
    tug_bell_ring(&send->board->receiver, true);
    if (are_all_marked(send, n))
        leave(send, round);
}

static void ready(struct tug_partitioned *one, size_t first, size_t n, uint32_t round) {
    struct near *send = near_of(one);
    if (atomic_load_explicit(&one->way, memory_order_relaxed) == TUG_WAY_WHOLE)
        ready_on_board(send, first, n, round);
    else
        ready_to_attach(send, first, n, round);
}

static uint32_t direct_way(const struct near *near) {
    return tug_partitioned_without(near->lands);
}

/* ---- the receiver ---- */

static bool is_ready(const struct near *receive, size_t i, uint32_t round) {
    /* acquire: pairs with tug_partitioned_mark(); without it older data would be copied. seq_cst:
     * the second look before we sleep. */
    return atomic_load(&receive->board->ready[i]) == round;
}

/* Copies the run of ready partitions from *i on, then sets *i to its end. As tug_cma_move(). */
static int copy_run(struct near *receive, size_t *i, uint32_t round) {
    const struct greeting *their = &receive->greeting;
    const size_t at = *i * their->bytes;
    size_t end = *i + 1;
    while (end < their->partitions && (end - *i) * their->bytes < COPY_MOST &&
           atomic_load_explicit(&receive->base.done[end], memory_order_relaxed) != round &&
           is_ready(receive, end, round))
        end++;
    if (receive->at != at)
        receive->moved = 0;
    receive->at = at;
    const int status = tug_cma_move(
        their->sender.pid, false, (unsigned char *)receive->base.call.buffer + at, their->data + at,
        (end - *i) * their->bytes, &receive->moved, &receive->board->ask);
    if (status != TUG_ERR_FULL)
        receive->moved = 0;
    for (; status == 0 && *i < end; ++*i)
        /* release: the data before it; pairs with tug_partitioned_has_arrived() */
        atomic_store_explicit(&receive->base.done[*i], round, memory_order_release);
    return status;
}

/* All is copied, or cannot be: the sender may go on. */
static void end_round(struct near *receive, uint32_t round) {
    receive->first = 0;
    atomic_store(&receive->board->read, round); /* release: our reads of its data are over */
    tug_bell_ring(&receive->board->sender, true);
    tug_bell_ring(&receive->board->receiver, true); /* another thread may wait for the engine */
    atomic_store(&receive->base.over, round);
}

/* Copies what is ready. True if it has copied any. By the thread that has `turn`. */
static bool copy_in_turn(struct near *receive, uint32_t round) {
    bool moved = false;
    const size_t n = receive->greeting.partitions;
    for (size_t i = receive->first; i < n;) {
        if (tug_partitioned_has_arrived(&receive->base, i, round) || !is_ready(receive, i, round)) {
            i++;
            continue;
        }
        const int status = copy_run(receive, &i, round);
        if (status == TUG_ERR_FULL) {
            tug_bell_ring(&receive->board->sender, true);
            return moved;
        }
        moved = true;
        if (status != 0) {
            receive->base.request.error = MPI_ERR_OTHER;
            end_round(receive, round);
            return true;
        }
    }
    while (receive->first < n && tug_partitioned_has_arrived(&receive->base, receive->first, round))
        receive->first++;
    if (receive->first == n)
        end_round(receive, round);
    return moved;
}

/* Copies what has landed. By the thread that has `turn`. */
static bool copy_landed(struct near *receive, uint32_t round) {
    const size_t before = receive->first, sum = tug_partitioned_sum(&receive->base);
    if (!tug_pair_take(&receive->pair, slot_bytes(sum), receive->base.call.buffer, sum,
                       &receive->first, &receive->board->sender))
        return receive->first != before;
    end_round(receive, round);
    return true;
}

/* Either, unless the round is over: one that comes late finds `first` as the next round wants it.
 * True also if it is another thread's turn, which may be past what has become ready meanwhile: the
 * engine is to look again before it sleeps. */
static bool copy_ready(struct near *receive) {
    bool moved = false;
    if (!tug_partitioned_take_turn(&receive->base))
        return true;
    const uint32_t round = atomic_load_explicit(&receive->base.round, memory_order_relaxed);
    if (atomic_load(&receive->base.over) != round)
        moved = receive->lands ? copy_landed(receive, round) : copy_in_turn(receive, round);
    tug_partitioned_end_turn(&receive->base);
    return moved;
}

static void take(struct tug_partitioned *one) {
    (void)copy_ready(near_of(one));
}

/* The greeting has come. Can its data be had as it says? */
static bool accept(struct near *receive) {
    const struct greeting *their = &receive->greeting;
    return their->sender.pid != 0 && their->partitions <= tug_partitioned_sum(&receive->base) &&
           tug_lent_holds(&their->board, board_bytes(receive)) &&
           (receive->lands ||
            tug_cma_probe(their->sender.pid, their->sender.address, their->sender.word)) &&
           tug_partitioned_accept(&receive->base, their->partitions, their->bytes);
}

/* Between two rounds, when the greeting has come: says yes, or never. */
static void say_yes(struct near *receive) {
    const struct greeting *their = &receive->greeting;
    receive->asked = true;
    if (!accept(receive))
        return;
    struct board *board = (struct board *)(void *)tug_lent_share(&their->board);
    if (board == NULL)
        return;
    if (board->word == their->sender.word) {
        use_board(receive, board);
        atomic_store(&board->yes, 1); /* pairs with start_send() */
    } else {
        tug_lent_unshare(&their->board); /* of another machine, by chance of the same names */
    }
}

/* ---- rounds ---- */

/* The sender chooses the way of a round. It is not ahead of the receiver's yes: that was said
 * before the receiver began a round that this side has not begun, or is in. */
static bool chooses_direct(struct near *send, uint32_t round) {
    struct board *board = send->board;
    if (send->direct || board == NULL)
        return send->direct;
    if (atomic_load(&board->yes)) {
        send->direct = true;
        atomic_store(&board->direct_from, round);
    }
    atomic_store(&board->started, round); /* release: pairs with choose() */
    tug_bell_ring(&board->receiver, true);
    return send->direct;
}

static void start_send(struct near *send, uint32_t round) {
    if (!chooses_direct(send, round)) {
        tug_partitioned_use_host(&send->base);
        return;
    }
    send->base.request.job.bell = &send->board->sender;
    send->first = 0;
    send->room = send->lands && has_room(send);
    atomic_store_explicit(&send->marked, 0, memory_order_relaxed);
    atomic_store_explicit(&send->base.way, direct_way(send), memory_order_relaxed);
}

static void start_receive(struct near *receive) {
    if (receive->base.greeted && !receive->asked)
        say_yes(receive);
    if (receive->board == NULL) {
        tug_partitioned_use_host(&receive->base);
        return;
    }
    receive->base.request.job.bell = &receive->board->receiver;
    atomic_store_explicit(&receive->base.way, receive->direct ? direct_way(receive) : TUG_WAY_OPEN,
                          memory_order_relaxed);
}

static void start(struct tug_partitioned *one, uint32_t round) {
    if (one->call.sends)
        start_send(near_of(one), round);
    else
        start_receive(near_of(one));
}

/* Does the program handle faults? Without that it cannot protect pages. Handlers of these libraries
 * only tell where a process has crashed. */
static bool handles_faults(void) {
    static const char *const tellers[] = {"/libucs.", "/libopen-pal.", "/libgfortran."};
    static _Atomic uintptr_t tells; /* the handler that was found to be one of them */
    struct sigaction action;
    Dl_info about;
    if (sigaction(SIGSEGV, NULL, &action) != 0)
        return true;
    const uintptr_t handler = (uintptr_t)action.sa_handler;
    if (handler == (uintptr_t)SIG_DFL || handler == atomic_load(&tells))
        return false;
    if (dladdr((void *)handler, &about) == 0) /* NOLINT: an address of the system */
        return true;
    for (size_t i = 0; i < sizeof(tellers) / sizeof(tellers[0]); i++)
        if (strstr(about.dli_fname, tellers[i]) != NULL) {
            atomic_store(&tells, handler);
            return false;
        }
    return true;
}

/* May the program's own looks get it on? A sender of what lands has nothing else to do, and for
 * others the receiver copies, which may ask the sender. But a receiver that computes must not keep
 * the sender waiting. */
static bool may_keep(const struct tug_request *request) {
    const struct near *near = (const struct near *)request;
    const uint32_t way = atomic_load_explicit(&near->base.way, memory_order_relaxed);
    return (way == TUG_WAY_WHOLE && (near->room || !near->base.call.sends)) ||
           (way == TUG_WAY_PARTS && near->base.call.sends && !handles_faults());
}

/* What has the sender chosen for this round? It may have gone on to others by the host's way. */
static void choose(struct near *receive, uint32_t round) {
    /* acquire: pairs with chooses_direct(); direct_from is as new */
    const bool started = tug_has_come_to(atomic_load(&receive->board->started), round);
    const uint32_t from = atomic_load(&receive->board->direct_from);
    receive->direct = from != 0 && tug_has_come_to(round, from);
    if (receive->direct)
        atomic_store(&receive->base.way, direct_way(receive));
    else if (started)
        tug_partitioned_use_host(&receive->base);
}

/* A thread that is about to leave MPI_Pready rings nobody then: that counts as moved. */
static bool advance_send(struct near *send, uint32_t round, bool *done) {
    const bool all = atomic_load(&send->marked) == (uint32_t)send->base.call.partitions;
    const bool left = have_left(send, round);
    bool over, moved = all && !left;
    if (!send->lands) {
        if (tug_cma_answer(&send->board->ask)) {
            tug_bell_ring(&send->board->receiver, true);
            moved = true;
        }
        over = atomic_load(&send->board->read) == round; /* pairs with end_round() */
    } else {
        if (all && !send->room && send->first == 0 && has_room(send)) {
            land(send);
            moved = true;
        }
        over = all && (send->room ? left : send->first > 0);
    }
    *done = over && left;
    return moved || over;
}

static bool advance_receive(struct near *receive, uint32_t round, bool *done) {
    bool moved = false;
    if (atomic_load_explicit(&receive->base.way, memory_order_relaxed) == TUG_WAY_OPEN)
        choose(receive, round);
    if (!receive->direct)
        return false;
    moved = copy_ready(receive);
    *done = atomic_load(&receive->base.over) == round;
    return moved || *done;
}

static bool advance(struct tug_partitioned *one, uint32_t round, bool *done) {
    return one->call.sends ? advance_send(near_of(one), round, done)
                           : advance_receive(near_of(one), round, done);
}

/* ---- a request's life ---- */

/* Boards whose senders are gone, with what they have landed and nobody has read yet. */
struct left_board {
    struct left_board *next;
    struct board *board;
    uint32_t round;
};
static struct left_board *left_boards;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_read(struct board *board, uint32_t round) {
    return atomic_load(&board->read) == round || atomic_load(&board->gone);
}

static void free_read_boards(void) {
    pthread_mutex_lock(&left_lock);
    for (struct left_board **at = &left_boards; *at != NULL;) {
        struct left_board *left = *at;
        if (!is_read(left->board, left->round)) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        (void)tug_lent_free(left->board);
        free(left);
    }
    pthread_mutex_unlock(&left_lock);
}

/* Without memory for the list the board stays until the process ends. */
static void leave_board(struct board *board, uint32_t round) {
    struct left_board *left = malloc(sizeof(*left));
    if (left == NULL)
        return;
    left->board = board;
    left->round = round;
    pthread_mutex_lock(&left_lock);
    left->next = left_boards;
    left_boards = left;
    pthread_mutex_unlock(&left_lock);
}

static void let_go(struct tug_partitioned *one) {
    struct near *near = near_of(one);
    const uint32_t round = atomic_load(&one->round);
    if (near->board == NULL)
        return;
    tug_engine_forget_bell(one->call.sends ? &near->board->sender : &near->board->receiver);
    if (!one->call.sends) {
        atomic_store(&near->board->gone, 1); /* release: we have read; pairs with is_read() */
        tug_lent_unshare(&near->greeting.board);
    } else if (near->direct && near->lands && !is_read(near->board, round)) {
        leave_board(near->board, round);
    } else {
        (void)tug_lent_free(near->board);
    }
}

/* The sender's, and what it says of it. */
static void make_board(struct near *send) {
    struct greeting *mine = &send->greeting;
    mine->sender = tug_introduce(true);
    mine->data = (uint64_t)(uintptr_t)send->base.call.buffer;
    mine->partitions = (uint64_t)send->base.call.partitions;
    mine->bytes = send->base.bytes;
    free_read_boards();
    const size_t bytes = board_bytes(send);
    struct board *board = tug_lent_allocate(bytes);
    if (board != NULL) {
        use_board(send, board);
        board->word = mine->sender.word;
        send->base.ready = board->ready;
        mine->board = tug_lent_offer(board, bytes);
    }
    if (mine->board.lender == 0)
        mine->sender.pid = 0;
}

static void prepare(struct tug_partitioned *one) {
    struct near *near = near_of(one);
    one->greeting = &near->greeting;
    near->lands = one->can && tug_partitioned_sum(one) <= LANDING_MOST;
    if (one->call.sends && one->can)
        make_board(near);
}

const struct tug_partitioned_kind tug_partitioned_near = {
    .bytes = sizeof(struct near),
    .greeting_bytes = sizeof(struct greeting),
    .prepare = prepare,
    .start = start,
    .advance = advance,
    .may_keep = may_keep,
    .ready = ready,
    .take = take,
    .let_go = let_go,
};

#endif

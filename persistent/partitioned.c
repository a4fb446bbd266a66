#include "persistent/partitioned.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "engine/engine.h"
#include "host/datatype.h"
#include "host/device.h"
#include "host/host.h"
#include "host/participants.h"
#include "node/cma.h"
#include "node/lent.h"
#include "node/neighbour.h"
#include "node/team.h"
#include "tugboat/tugboat.h"

#if MPI_VERSION >= 4

#define COPY_MOST ((size_t)1 << 20) /* of one copy: what follows may become ready meanwhile */

/* A message of so many bytes in sum lands on the board: two copies cost less than a call of the
 * kernel's. So many rounds may be ahead of the receiver. */
#define LANDING_MOST ((size_t)32768)
#define LANDINGS_MOST 8
#define LANDINGS_BYTES ((size_t)131072)
#define PIECE ((size_t)4096) /* that is copied out while the next one lands */

enum way {
    WAY_OPEN,   /* not known yet */
    WAY_BOARD,  /* direct, through the board's landings */
    WAY_ATTACH, /* direct, out of the sender's memory */
    WAY_HOST,
};

#define LINE __attribute__((aligned(TUG_CACHE_LINE)))

struct board {
    uint64_t word;         /* the sender's introduction's: it is the right one */
    _Atomic uint32_t yes;  /* by the receiver: it asks the board in every round from now on */
    _Atomic uint32_t gone; /* by the receiver: it reads no more */
    _Atomic uint32_t
        direct_from;            /* by the sender: all rounds from this one on are direct; 0: none */
    _Atomic uint32_t started;   /* by the sender: this round, after direct_from */
    LINE _Atomic uint32_t read; /* by the receiver: it has all of this round */
    LINE _Atomic uint64_t landed; /* by the sender: round << 32 | so many bytes */
    LINE struct tug_bell sender;
    LINE struct tug_bell receiver;
    LINE _Atomic uint32_t ready[]; /* the round */
};

/* What the receiver is told. */
struct greeting {
    struct tug_introduction sender; /* pid 0: the sender cannot */
    struct tug_offer board;
    uint64_t data, partitions, bytes; /* bytes: of a partition */
    uint64_t landing, landings;       /* from the board's first byte on; how many, 0: none */
};

struct tug_partitioned {
    struct tug_request request;
    struct tug_partitioned_call call;
    MPI_Request host_greeting;
    struct greeting greeting;
    bool greets, greeted; /* the greeting was sent, is over */
    bool asked;           /* receiver: say_yes() has decided */
    bool can;             /* this side can do without the host */
    size_t bytes;         /* of a partition of this side */
    MPI_Status status;    /* by the host's way */
    _Atomic uint32_t way; /* of this round */
    _Atomic uint32_t round;
    bool direct;              /* from some round on, the present one or one before */
    struct board *board;      /* NULL: none */
    _Atomic uint32_t *done;   /* receiver: the last round in which a partition was copied */
    _Atomic uint32_t turn;    /* a thread has taken it */
    _Atomic uint32_t over;    /* the last round that is over: all is copied, or the host says so */
    size_t first;             /* in turn: all partitions, or bytes that have landed, below are
                                 copied; 0 between rounds */
    uint32_t seen_read;       /* sender: board->read at some time */
    bool room;                /* sender: the round's landing was free when it began */
    char pad[TUG_CACHE_LINE]; /* `marked` changes while other threads read what is above */
    _Atomic uint32_t marked;  /* sender: so many partitions of this round are ready */
    _Atomic uint32_t left;    /* sender: this round's threads are out of MPI_Pready: it may go */
};

static unsigned char *landing(const struct tug_partitioned *one, uint32_t round) {
    const struct greeting *their = &one->greeting;
    return (unsigned char *)one->board + their->landing +
           round % their->landings * their->partitions * their->bytes;
}

/* Rounds are compared by their distance: they begin anew after 2^32. */
static bool has_come_to(uint32_t at, uint32_t round) {
    return (int32_t)(at - round) >= 0;
}

/* ---- the sender ---- */

static void mark(struct tug_partitioned *send, size_t low, size_t n, uint32_t round) {
    for (size_t i = low; i < low + n; i++) /* release: the data before it; pairs with is_ready() */
        atomic_store_explicit(&send->board->ready[i], round, memory_order_release);
}

/* All is ready. By one thread a round. */
static void land(struct tug_partitioned *send, uint32_t round) {
    const size_t sum = (size_t)send->call.partitions * send->bytes;
    unsigned char *to = landing(send, round);
    for (size_t at = 0; at < sum; at += PIECE) {
        const size_t end = at + PIECE < sum ? at + PIECE : sum;
        memcpy(to + at, (const char *)send->call.buffer + at, end - at);
        /* release: pairs with landed() */
        atomic_store_explicit(&send->board->landed, (uint64_t)round << 32 | end,
                              memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst); /* before the look at the bell */
    tug_bell_ring(&send->board->receiver, true);
}

static bool has_landed(const struct tug_partitioned *send, uint32_t round) {
    const size_t sum = (size_t)send->call.partitions * send->bytes;
    return atomic_load(&send->board->landed) == ((uint64_t)round << 32 | sum);
}

/* Counts n more, as its last touch of the request unless these are the last of all. Then the send
 * is not over before leave(). Release and acquire: the last thread goes on with what all have
 * written. */
static bool are_all_marked(struct tug_partitioned *send, size_t n) {
    return atomic_fetch_add(&send->marked, (uint32_t)n) + n == (size_t)send->call.partitions;
}

static void leave(struct tug_partitioned *send, uint32_t round) {
    atomic_store(&send->left, round); /* release: pairs with have_left() */
}

static bool have_left(const struct tug_partitioned *send, uint32_t round) {
    return atomic_load(&send->left) == round;
}

static void ready_on_board(struct tug_partitioned *send, size_t low, size_t n, uint32_t round) {
    mark(send, low, n, round);
    if (!are_all_marked(send, n))
        return;
    if (send->room)
        land(send, round);
    else
        tug_bell_ring(&send->board->sender, true); /* the engine's: land_late() */
    leave(send, round);
}

static void ready_to_attach(struct tug_partitioned *send, size_t low, size_t n, uint32_t round) {
    mark(send, low, n, round);
    atomic_thread_fence(memory_order_seq_cst); /* before the look at the bell */
    tug_bell_ring(&send->board->receiver, true);
    if (are_all_marked(send, n))
        leave(send, round);
}

static bool sees_room(struct tug_partitioned *send, uint32_t round) {
    const uint32_t last = round - (uint32_t)send->greeting.landings; /* that used the landing */
    if (!has_come_to(send->seen_read, last))
        send->seen_read = atomic_load(&send->board->read); /* acquire: pairs with end_round() */
    return has_come_to(send->seen_read, last);
}

/* The landing was not free when the round began: all lands when all is ready and it is. By the
 * engine. */
static void land_late(struct tug_partitioned *send, uint32_t round) {
    if (atomic_load(&send->marked) == (uint32_t)send->call.partitions && sees_room(send, round))
        land(send, round);
}

/* Has the program made one of them ready before in this round? */
static bool is_marked(const struct tug_partitioned *send, size_t low, size_t n, uint32_t round) {
    bool is = false;
    for (size_t i = low; i < low + n; i++)
        is |= atomic_load_explicit(&send->board->ready[i], memory_order_relaxed) == round;
    return is;
}

bool tug_partitioned_is_ours(const struct tug_partitioned *one, bool sends) {
    /* relaxed: the program has started the request before */
    return one->call.sends == sends && tug_request_pending(&one->request) &&
           atomic_load_explicit(&one->way, memory_order_relaxed) != WAY_HOST;
}

int tug_partitioned_ready(struct tug_partitioned *send, int low, int high) {
    const uint32_t round = atomic_load_explicit(&send->round, memory_order_relaxed);
    const size_t first = (size_t)low, n = (size_t)(high - low) + 1;
    if (low > high || low < 0 || high >= send->call.partitions)
        return MPI_ERR_OTHER; /* as MPICH says */
    if (is_marked(send, first, n, round))
        return MPI_ERR_REQUEST;
    if (atomic_load_explicit(&send->way, memory_order_relaxed) == WAY_BOARD)
        ready_on_board(send, first, n, round);
    else
        ready_to_attach(send, first, n, round);
    return MPI_SUCCESS;
}

int tug_partitioned_ready_list(struct tug_partitioned *send, int length, const int list[]) {
    int error = length < 0 || (length > 0 && list == NULL) ? MPI_ERR_ARG : MPI_SUCCESS;
    for (int i = 0; i < length && error == MPI_SUCCESS; i++) /* none if one is wrong */
        if (list[i] < 0 || list[i] >= send->call.partitions)
            error = MPI_ERR_OTHER;
    for (int i = 0; i < length && error == MPI_SUCCESS; i++)
        error = tug_partitioned_ready(send, list[i], list[i]);
    return error;
}

/* ---- both ---- */

static bool fail(struct tug_partitioned *one, int error) {
    if (error != MPI_SUCCESS)
        one->request.error = error;
    return error != MPI_SUCCESS;
}

/* The host's request does this round. */
static void use_host(struct tug_partitioned *one) {
    one->request.job.bell = NULL;
    (void)fail(one, tug_host.Start(&one->request.host));
    atomic_store(&one->way, WAY_HOST); /* release: the started request, for MPI_Parrived */
}

static uint32_t direct_way(const struct tug_partitioned *one) {
    return one->greeting.landings > 0 ? WAY_BOARD : WAY_ATTACH;
}

/* One thread at a time copies, or looks at the host's request. Acquire and release: `first`, and
 * the host's request, are as the thread before has left them. */
static bool take_turn(struct tug_partitioned *one) {
    return atomic_exchange_explicit(&one->turn, 1, memory_order_acquire) == 0;
}

static void end_turn(struct tug_partitioned *one) {
    atomic_store_explicit(&one->turn, 0, memory_order_release);
}

/* With the first start. */
static void greet(struct tug_partitioned *one) {
    one->greets = true;
    if (!fail(one, tug_host.Start(&one->host_greeting)) && one->call.sends)
        (void)fail(one, tug_host.Pready(0, one->host_greeting));
}

/* The first round is not over before the greeting is: MPICH 4.0.2 crashes over a partitioned
 * request that is freed while it is active. */
static bool host_is_over(struct tug_partitioned *one) {
    int flag = 0;
    if (one->request.error != MPI_SUCCESS)
        return true;
    if (!one->greeted) {
        if (fail(one, tug_host.Test(&one->host_greeting, &flag, MPI_STATUS_IGNORE)))
            return true;
        one->greeted = flag;
    }
    if (!one->greeted || !take_turn(one))
        return false;
    if (fail(one, tug_host.Test(&one->request.host, &flag, &one->status)) || flag) {
        flag = 1;
        atomic_store(&one->over, atomic_load(&one->round));
    }
    end_turn(one);
    return flag;
}

/* ---- the receiver ---- */

static bool is_ready(const struct tug_partitioned *receive, size_t i, uint32_t round) {
    /* acquire: pairs with mark(); without it older data would be copied. seq_cst: the second look
     * before we sleep. */
    return atomic_load(&receive->board->ready[i]) == round;
}

/* So many bytes of the round. The sender may be some rounds on. */
static size_t landed(const struct tug_partitioned *receive, uint32_t round) {
    const uint64_t at = atomic_load(&receive->board->landed); /* acquire: pairs with land() */
    const uint32_t in = (uint32_t)(at >> 32);
    if (in == round)
        return (uint32_t)at;
    return has_come_to(in, round) ? receive->greeting.partitions * receive->greeting.bytes : 0;
}

/* Copies the run of ready partitions from i on. Returns where it ends; i: it failed. */
static size_t copy_run(struct tug_partitioned *receive, size_t i, uint32_t round) {
    const struct greeting *their = &receive->greeting;
    size_t end = i + 1;
    while (end < their->partitions && (end - i) * their->bytes < COPY_MOST &&
           atomic_load_explicit(&receive->done[end], memory_order_relaxed) != round &&
           is_ready(receive, end, round))
        end++;
    for (size_t at = i * their->bytes, rest = (end - i) * their->bytes; rest > 0;) {
        const size_t now = rest < TUG_CMA_BYTES_MOST ? rest : TUG_CMA_BYTES_MOST;
        if (tug_cma_read(their->sender.pid, (char *)receive->call.buffer + at, their->data + at,
                         now) != 0)
            return i;
        at += now;
        rest -= now;
    }
    for (size_t k = i; k < end; k++) /* release: the data before it; pairs with has_copied() */
        atomic_store_explicit(&receive->done[k], round, memory_order_release);
    return end;
}

static bool has_copied(const struct tug_partitioned *receive, size_t i, uint32_t round) {
    return atomic_load_explicit(&receive->done[i], memory_order_acquire) == round;
}

/* All is copied, or cannot be: the sender may go on. */
static void end_round(struct tug_partitioned *receive, uint32_t round) {
    receive->first = 0;
    atomic_store(&receive->board->read, round); /* release: our reads of its data are over */
    tug_bell_ring(&receive->board->sender, true);
    tug_bell_ring(&receive->board->receiver, true); /* another thread may wait for the engine */
    atomic_store(&receive->over, round);
}

/* Copies what is ready. True if it has copied any. By the thread that has `turn`. */
static bool copy_in_turn(struct tug_partitioned *receive, uint32_t round) {
    bool moved = false;
    const size_t n = receive->greeting.partitions;
    for (size_t i = receive->first; i < n;) {
        if (has_copied(receive, i, round) || !is_ready(receive, i, round)) {
            i++;
            continue;
        }
        const size_t end = copy_run(receive, i, round);
        moved = true;
        if (end == i) {
            receive->request.error = MPI_ERR_OTHER;
            end_round(receive, round);
            return true;
        }
        i = end;
    }
    while (receive->first < n && has_copied(receive, receive->first, round))
        receive->first++;
    if (receive->first == n)
        end_round(receive, round);
    return moved;
}

/* Copies what has landed. By the thread that has `turn`. */
static bool copy_landed(struct tug_partitioned *receive, uint32_t round) {
    const size_t from = receive->first, end = landed(receive, round);
    if (end == from)
        return false;
    memcpy((char *)receive->call.buffer + from, landing(receive, round) + from, end - from);
    receive->first = end;
    if (end == receive->greeting.partitions * receive->greeting.bytes)
        end_round(receive, round);
    return true;
}

/* Either, unless the round is over: one that comes late finds `first` as the next round wants it.
 * True also if it is another thread's turn, which may be past what has become ready meanwhile: the
 * engine is to look again before it sleeps. */
static bool copy_ready(struct tug_partitioned *receive) {
    bool moved = false;
    if (!take_turn(receive))
        return true;
    const uint32_t round = atomic_load_explicit(&receive->round, memory_order_relaxed);
    if (atomic_load(&receive->over) != round)
        moved = receive->greeting.landings > 0 ? copy_landed(receive, round)
                                               : copy_in_turn(receive, round);
    end_turn(receive);
    return moved;
}

/* By the host's way. MPICH 4.0.2 takes it for an error when the round is over, which the engine may
 * find at any time. */
static int ask_host(struct tug_partitioned *receive, int partition, int *flag) {
    int error = MPI_SUCCESS;
    if (!take_turn(receive))
        return MPI_SUCCESS;
    *flag = atomic_load(&receive->over) == atomic_load(&receive->round);
    if (!*flag)
        error = tug_host.Parrived(receive->request.host, partition, flag);
    end_turn(receive);
    return error;
}

/* Of the receiver's partitions, which the sender's may divide otherwise. */
static bool look_for_partition(struct tug_partitioned *receive, size_t partition, uint32_t round) {
    const size_t their_bytes = receive->greeting.bytes, end = (partition + 1) * receive->bytes;
    size_t i = partition * receive->bytes / their_bytes;
    for (int looks = 0; looks < 2 && i * their_bytes < end; looks++) {
        while (i * their_bytes < end && has_copied(receive, i, round))
            i++;
        if (i * their_bytes < end && looks == 0)
            (void)copy_ready(receive);
    }
    return i * their_bytes >= end;
}

int tug_partitioned_arrived(struct tug_partitioned *receive, int partition, int *flag) {
    const uint32_t way = atomic_load(&receive->way);
    const uint32_t round = atomic_load_explicit(&receive->round, memory_order_relaxed);
    *flag = !tug_request_pending(&receive->request);
    if (*flag)
        return MPI_SUCCESS;
    if (way == WAY_HOST || way == WAY_OPEN) {
        tug_engine_poll();
        return way == WAY_HOST ? ask_host(receive, partition, flag) : MPI_SUCCESS;
    }
    if (way == WAY_BOARD)
        (void)copy_ready(receive);
    *flag = way == WAY_ATTACH && look_for_partition(receive, (size_t)partition, round);
    *flag |= atomic_load(&receive->over) == round; /* acquire: pairs with end_round() */
    return MPI_SUCCESS;
}

/* The greeting has come. Can its data be had as it says? */
static bool accept(struct tug_partitioned *receive) {
    const struct greeting *their = &receive->greeting;
    const uint64_t bytes = (uint64_t)receive->call.partitions * receive->bytes;
    if (!receive->can || bytes != their->partitions * their->bytes ||
        (their->landings == 0 &&
         !tug_cma_probe(their->sender.pid, their->sender.address, their->sender.word)))
        return false;
    receive->done = calloc(their->partitions, sizeof(*receive->done));
    return receive->done != NULL;
}

/* Between two rounds, when the greeting has come: says yes, or never. */
static void say_yes(struct tug_partitioned *receive) {
    const struct greeting *their = &receive->greeting;
    receive->asked = true;
    if (their->sender.pid == 0 || !accept(receive))
        return;
    struct board *board = (struct board *)(void *)tug_lent_share(&their->board);
    if (board == NULL)
        return;
    if (board->word == their->sender.word) {
        receive->board = board;
        atomic_store(&board->yes, 1); /* pairs with start_send() */
    } else {
        tug_lent_unshare(&their->board); /* of another machine, by chance of the same names */
    }
}

/* ---- rounds ---- */

/* The sender chooses the way of a round. It is not ahead of the receiver's yes: that was said
 * before the receiver began a round that this side has not begun, or is in. */
static bool chooses_direct(struct tug_partitioned *send, uint32_t round) {
    struct board *board = send->board;
    if (send->direct || board == NULL)
        return send->direct;
    if (atomic_load(&board->yes)) {
        send->direct = true;
        send->seen_read = round - 1; /* by the host's way */
        atomic_store(&board->read, send->seen_read);
        atomic_store(&board->direct_from, round);
    }
    atomic_store(&board->started, round); /* release: pairs with choose() */
    tug_bell_ring(&board->receiver, true);
    return send->direct;
}

static void start_send(struct tug_partitioned *send, uint32_t round) {
    if (!chooses_direct(send, round)) {
        use_host(send);
        return;
    }
    send->request.job.bell = &send->board->sender;
    send->room = direct_way(send) == WAY_BOARD && sees_room(send, round);
    atomic_store_explicit(&send->marked, 0, memory_order_relaxed);
    atomic_store_explicit(&send->way, direct_way(send), memory_order_relaxed);
}

static void start_receive(struct tug_partitioned *receive) {
    if (receive->board == NULL) {
        use_host(receive);
        return;
    }
    receive->request.job.bell = &receive->board->receiver;
    atomic_store_explicit(&receive->way, receive->direct ? direct_way(receive) : WAY_OPEN,
                          memory_order_relaxed);
}

static void start(struct tug_request *request) {
    struct tug_partitioned *one = (struct tug_partitioned *)request;
    const uint32_t round = atomic_load_explicit(&one->round, memory_order_relaxed) + 1;
    if (!one->greets)
        greet(one);
    else if (!one->call.sends && one->greeted && !one->asked)
        say_yes(one);
    /* release: pairs with copy_ready(), whose thread may be none that has seen the start */
    atomic_store(&one->round, round);
    if (one->call.sends)
        start_send(one, round);
    else
        start_receive(one);
    request->passes =
        one->greeted && atomic_load_explicit(&one->way, memory_order_relaxed) == WAY_HOST;
}

/* May the program's own looks get it on? A sender of what lands has nothing else to do, and who
 * attaches copies for it; but a receiver that computes had better not keep it waiting. */
static bool may_keep(const struct tug_request *request) {
    const struct tug_partitioned *one = (const struct tug_partitioned *)request;
    const uint32_t way = atomic_load_explicit(&one->way, memory_order_relaxed);
    return (way == WAY_BOARD && (one->room || !one->call.sends)) ||
           (way == WAY_ATTACH && one->call.sends);
}

/* What has the sender chosen for this round? It may have gone on to others by the host's way. */
static void choose(struct tug_partitioned *receive, uint32_t round) {
    /* acquire: pairs with chooses_direct(); direct_from is as new */
    const bool started = has_come_to(atomic_load(&receive->board->started), round);
    const uint32_t from = atomic_load(&receive->board->direct_from);
    receive->direct = from != 0 && has_come_to(round, from);
    if (receive->direct)
        atomic_store(&receive->way, direct_way(receive));
    else if (started)
        use_host(receive);
}

/* It may be over but for a thread that is about to leave MPI_Pready, and rings nobody then: that
 * counts as moved. */
static bool advance_send(struct tug_partitioned *send, uint32_t way, uint32_t round, bool *done) {
    bool over;
    if (way == WAY_ATTACH) {
        over = atomic_load(&send->board->read) == round; /* pairs with end_round() */
    } else {
        if (!send->room && !has_landed(send, round))
            land_late(send, round);
        over = has_landed(send, round);
    }
    *done = over && have_left(send, round);
    return over;
}

static bool advance(struct tug_job *job, bool *done) {
    struct tug_partitioned *one = (struct tug_partitioned *)job;
    const uint32_t round = atomic_load_explicit(&one->round, memory_order_relaxed);
    bool moved = false;
    if (atomic_load_explicit(&one->way, memory_order_relaxed) == WAY_OPEN)
        choose(one, round);
    const uint32_t way = atomic_load_explicit(&one->way, memory_order_relaxed);
    if (way == WAY_HOST) {
        *done = host_is_over(one);
    } else if (one->call.sends) {
        moved = advance_send(one, way, round, done);
    } else if (way != WAY_OPEN) {
        if (way == WAY_ATTACH || landed(one, round) > 0)
            moved = copy_ready(one);
        *done = atomic_load(&one->over) == round;
    }
    return moved || *done;
}

static void describe(const struct tug_request *request, MPI_Status *status) {
    const struct tug_partitioned *one = (const struct tug_partitioned *)request;
    const int error = status->MPI_ERROR;
    if (atomic_load_explicit(&one->way, memory_order_relaxed) == WAY_HOST) {
        *status = one->status;
    } else if (!one->call.sends) {
        status->MPI_SOURCE = one->call.peer;
        status->MPI_TAG = one->call.tag;
        (void)tug_host.Status_set_elements_x(status, MPI_BYTE,
                                             (MPI_Count)one->bytes * one->call.partitions);
    }
    status->MPI_ERROR = error;
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

static void let_board_go(struct tug_partitioned *one) {
    const uint32_t round = atomic_load(&one->round);
    if (one->board == NULL)
        return;
    tug_engine_forget_bell(one->call.sends ? &one->board->sender : &one->board->receiver);
    if (!one->call.sends) {
        atomic_store(&one->board->gone, 1); /* release: we have read; pairs with is_read() */
        tug_lent_unshare(&one->greeting.board);
    } else if (one->direct && one->greeting.landings > 0 && !is_read(one->board, round)) {
        leave_board(one->board, round);
    } else {
        (void)tug_lent_free(one->board);
    }
}

static void destroy(struct tug_request *request) {
    struct tug_partitioned *one = (struct tug_partitioned *)request;
    (void)tug_team_request_free(&one->host_greeting);
    (void)tug_team_request_free(&one->request.host);
    let_board_go(one);
    free((void *)one->done);
    free(one);
}

bool tug_partitioned_takes(const struct tug_partitioned_call *call) {
    int rank;
    return tug_settings.partitioned && call->peer >= 0 && tug_all_of_world_take_part(call->comm) &&
           tug_engine_bring_up() && tug_host.Comm_rank(call->comm, &rank) == MPI_SUCCESS &&
           rank != call->peer;
}

static bool is_dense(const struct tug_partitioned_call *call) {
    const struct tug_flat *flat = tug_flat_get(call->type);
    tug_device_look();
    return flat != NULL && flat->contiguous && flat->size == (size_t)flat->extent &&
           flat->size > 0 && call->count > 0 && call->partitions > 0 &&
           !tug_is_device(call->buffer);
}

/* The sender's, and what it says of it. */
static void make_board(struct tug_partitioned *one) {
    struct greeting *mine = &one->greeting;
    const size_t n = (size_t)one->call.partitions, sum = n * one->bytes;
    size_t bytes = sizeof(*one->board) + n * sizeof(one->board->ready[0]);
    mine->sender = tug_introduce();
    mine->data = (uint64_t)(uintptr_t)one->call.buffer;
    mine->partitions = n;
    mine->bytes = one->bytes;
    if (sum <= LANDING_MOST) {
        mine->landing = (bytes + TUG_CACHE_LINE - 1) / TUG_CACHE_LINE * TUG_CACHE_LINE;
        mine->landings =
            LANDINGS_BYTES / sum < LANDINGS_MOST ? LANDINGS_BYTES / sum : LANDINGS_MOST;
        bytes = mine->landing + mine->landings * sum;
    }
    free_read_boards();
    one->board = tug_lent_allocate(bytes);
    if (one->board != NULL) {
        one->board->word = mine->sender.word;
        mine->board = tug_lent_offer(one->board, bytes);
    }
    if (mine->board.lender == 0)
        mine->sender.pid = 0;
}

static void prepare(struct tug_partitioned *one) {
    one->can = is_dense(&one->call);
    if (!one->can)
        return;
    one->bytes = (size_t)one->call.count * tug_flat_get(one->call.type)->size;
    if (one->call.sends)
        make_board(one);
}

static int init_greeting(struct tug_partitioned *one) {
    const struct tug_partitioned_call *call = &one->call;
    const MPI_Count bytes = sizeof(one->greeting);
    return call->sends
               ? tug_host.Psend_init(&one->greeting, 1, bytes, MPI_BYTE, call->peer, call->tag,
                                     call->comm, MPI_INFO_NULL, &one->host_greeting)
               : tug_host.Precv_init(&one->greeting, 1, bytes, MPI_BYTE, call->peer, call->tag,
                                     call->comm, MPI_INFO_NULL, &one->host_greeting);
}

int tug_partitioned_create(const struct tug_partitioned_call *call, MPI_Request *host) {
    struct tug_partitioned *one = calloc(1, sizeof(*one));
    int error = MPI_ERR_NO_MEM;
    if (one == NULL)
        goto fail;
    one->call = *call;
    one->request.host = *host;
    one->request.comm = call->comm;
    one->request.job.advance = advance;
    one->request.start = start;
    one->request.may_keep = may_keep;
    one->request.describe = describe;
    one->request.destroy = destroy;
    prepare(one);
    error = init_greeting(one);
    if (error != MPI_SUCCESS)
        goto fail;
    error = MPI_ERR_NO_MEM;
    if (tug_request_register(&one->request) != 0) {
        (void)tug_host.Request_free(&one->host_greeting);
        goto fail;
    }
    *host = one->request.handle;
    return MPI_SUCCESS;
fail:
    (void)tug_host.Request_free(host);
    if (one != NULL)
        let_board_go(one);
    free(one);
    return error;
}

struct tug_partitioned *tug_partitioned_of(struct tug_request *request) {
    return request != NULL && request->start == start ? (struct tug_partitioned *)request : NULL;
}

bool tug_partitioned_receives(const struct tug_partitioned *partitioned) {
    return !partitioned->call.sends;
}

bool tug_partitioned_has(const struct tug_partitioned *partitioned, int partition) {
    return partition >= 0 && partition < partitioned->call.partitions;
}

#endif

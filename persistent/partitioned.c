#include "persistent/partitioned.h"

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
#include "tugboat/tugboat.h"

#if MPI_VERSION >= 4

#define COPY_MOST ((size_t)1 << 20) /* of one copy: what follows may become ready meanwhile */

/* A message that is shorter in sum the host brings as fast or faster, as one: 64 partitions of 64
 * bytes take 2.8 us there and 5.0 here, of 1 KiB 10.8 and 10.3. */
#define DIRECT_LEAST ((size_t)32768)

enum way {
    WAY_OPEN, /* not known yet */
    WAY_DIRECT,
    WAY_HOST,
};

struct board {
    _Atomic uint32_t yes;  /* by the receiver: it asks the board in every round from now on */
    _Atomic uint32_t read; /* by the receiver: it has all of this round */
    _Atomic uint32_t
        direct_from;          /* by the sender: all rounds from this one on are direct; 0: none */
    _Atomic uint32_t started; /* by the sender: this round, after direct_from */
    struct tug_bell sender __attribute__((aligned(TUG_CACHE_LINE)));
    struct tug_bell receiver __attribute__((aligned(TUG_CACHE_LINE)));
    _Atomic uint32_t ready[] __attribute__((aligned(TUG_CACHE_LINE))); /* the round */
};

/* What the receiver is told. */
struct greeting {
    struct tug_introduction sender; /* pid 0: the sender cannot */
    struct tug_offer board;
    uint64_t data, partitions, bytes; /* bytes: of a partition */
};

struct tug_partitioned {
    struct tug_request request;
    struct tug_partitioned_call call;
    MPI_Request host, host_greeting;
    struct greeting greeting;
    bool greets, greeted; /* the greeting was sent, is over */
    bool asked;           /* receiver: say_yes() has decided */
    bool can;             /* this side can do without the host */
    size_t bytes;         /* of a partition of this side */
    MPI_Status status;    /* by the host's way */
    _Atomic uint32_t way; /* of this round */
    _Atomic uint32_t round;
    struct board *board;    /* NULL: none */
    _Atomic uint32_t *done; /* receiver: the last round in which a partition was copied */
    _Atomic uint32_t turn;  /* a thread has taken it */
    _Atomic uint32_t over;  /* the last round that is over: all is copied, or the host says so */
    size_t first;           /* in turn: all below are copied; 0 between rounds */
};

/* ---- the sender ---- */

int tug_partitioned_ready(struct tug_partitioned *send, int partition) {
    /* relaxed: the program has started the request before */
    if (atomic_load_explicit(&send->way, memory_order_relaxed) == WAY_HOST)
        return tug_host.Pready(partition, send->host);
    /* release: the data before it; pairs with is_ready(). seq_cst: before the look at the bell. */
    atomic_store(&send->board->ready[partition],
                 atomic_load_explicit(&send->round, memory_order_relaxed));
    tug_bell_ring(&send->board->receiver, true);
    return MPI_SUCCESS;
}

/* ---- both ---- */

static bool fail(struct tug_partitioned *one, int error) {
    if (error != MPI_SUCCESS)
        one->request.error = error;
    return error != MPI_SUCCESS;
}

static void use_host(struct tug_partitioned *one) {
    one->request.job.bell = NULL;
    (void)fail(one, tug_host.Start(&one->host));
    atomic_store(&one->way, WAY_HOST); /* release: the started request, for MPI_Parrived */
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
    if (fail(one, tug_host.Test(&one->host, &flag, &one->status)) || flag) {
        flag = 1;
        atomic_store(&one->over, atomic_load(&one->round));
    }
    end_turn(one);
    return flag;
}

/* ---- the receiver ---- */

static bool is_ready(const struct tug_partitioned *receive, size_t i, uint32_t round) {
    /* acquire: pairs with tug_partitioned_ready(); without it older data would be copied. seq_cst:
     * the second look before we sleep. */
    return atomic_load(&receive->board->ready[i]) == round;
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
            receive->first = 0;
            end_round(receive, round);
            return true;
        }
        i = end;
    }
    while (receive->first < n && has_copied(receive, receive->first, round))
        receive->first++;
    if (receive->first == n) {
        receive->first = 0;
        end_round(receive, round);
    }
    return moved;
}

/* The same, unless the round is over: one that comes late finds `first` as the next round wants it.
 * True also if it is another thread's turn, which may be past what has become ready meanwhile: the
 * engine is to look again before it sleeps. */
static bool copy_ready(struct tug_partitioned *receive) {
    bool moved = false;
    if (!take_turn(receive))
        return true;
    const uint32_t round = atomic_load_explicit(&receive->round, memory_order_relaxed);
    if (atomic_load(&receive->over) != round)
        moved = copy_in_turn(receive, round);
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
        error = tug_host.Parrived(receive->host, partition, flag);
    end_turn(receive);
    return error;
}

int tug_partitioned_arrived(struct tug_partitioned *receive, int partition, int *flag) {
    const uint32_t way = atomic_load(&receive->way);
    const uint32_t round = atomic_load_explicit(&receive->round, memory_order_relaxed);
    *flag = !tug_request_pending(&receive->request);
    if (*flag)
        return MPI_SUCCESS;
    if (way != WAY_DIRECT) {
        tug_engine_poll();
        return way == WAY_HOST ? ask_host(receive, partition, flag) : MPI_SUCCESS;
    }
    const size_t from = (size_t)partition * receive->bytes, end = from + receive->bytes;
    size_t i = from / receive->greeting.bytes;
    for (int looks = 0; looks < 2 && i * receive->greeting.bytes < end; looks++) {
        while (i * receive->greeting.bytes < end && has_copied(receive, i, round))
            i++;
        if (i * receive->greeting.bytes < end && looks == 0)
            (void)copy_ready(receive);
    }
    *flag = i * receive->greeting.bytes >= end;
    return MPI_SUCCESS;
}

/* The greeting has come. Can its data be had as it says? */
static bool accept(struct tug_partitioned *receive) {
    const struct greeting *their = &receive->greeting;
    const uint64_t bytes = (uint64_t)receive->call.partitions * receive->bytes;
    if (!receive->can || bytes != their->partitions * their->bytes ||
        !tug_cma_probe(their->sender.pid, their->sender.address, their->sender.word))
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
    receive->board = (struct board *)(void *)tug_lent_share(&their->board);
    if (receive->board != NULL)
        atomic_store(&receive->board->yes, 1); /* pairs with start_send() */
}

/* ---- rounds ---- */

/* The sender chooses the way of a round. It is not ahead of the receiver's yes: that was said
 * before the receiver began a round that this side has not begun, or is in. */
static void start_send(struct tug_partitioned *send, uint32_t round) {
    struct board *board = send->board;
    if (board == NULL || !atomic_load(&board->yes)) {
        if (board != NULL)
            atomic_store(&board->started, round);
        use_host(send);
    } else {
        if (atomic_load(&board->direct_from) == 0)
            atomic_store(&board->direct_from, round);
        atomic_store_explicit(&send->way, WAY_DIRECT, memory_order_relaxed);
        send->request.job.bell = &board->sender;
        atomic_store(&board->started, round); /* release: pairs with choose() */
    }
    if (board != NULL)
        tug_bell_ring(&board->receiver, true);
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
    if (one->call.sends) {
        start_send(one, round);
    } else if (one->board == NULL) {
        use_host(one);
    } else {
        one->request.job.bell = &one->board->receiver;
        atomic_store_explicit(&one->way, WAY_OPEN, memory_order_relaxed);
    }
}

/* What has the sender chosen for this round? It may have gone on to others by the host's way. */
static void choose(struct tug_partitioned *receive, uint32_t round) {
    /* acquire: pairs with start_send(); direct_from is as new */
    if (atomic_load(&receive->board->started) < round)
        return;
    const uint32_t from = atomic_load(&receive->board->direct_from);
    if (from != 0 && from <= round)
        atomic_store(&receive->way, WAY_DIRECT);
    else
        use_host(receive);
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
    } else if (way == WAY_DIRECT && one->call.sends) {
        *done = atomic_load(&one->board->read) == round; /* pairs with end_round() */
    } else if (way == WAY_DIRECT) {
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

static void let_board_go(struct tug_partitioned *one) {
    if (one->board == NULL)
        return;
    tug_engine_forget_bell(one->call.sends ? &one->board->sender : &one->board->receiver);
    if (one->call.sends)
        (void)tug_lent_free(one->board);
    else
        tug_lent_unshare(&one->greeting.board);
}

static void destroy(struct tug_request *request) {
    struct tug_partitioned *one = (struct tug_partitioned *)request;
    (void)tug_host.Request_free(&one->host_greeting);
    (void)tug_host.Request_free(&one->host);
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

static void prepare(struct tug_partitioned *one) {
    const size_t n = (size_t)one->call.partitions;
    one->can = is_dense(&one->call);
    if (!one->can)
        return;
    one->bytes = (size_t)one->call.count * tug_flat_get(one->call.type)->size;
    if (!one->call.sends || n * one->bytes < DIRECT_LEAST)
        return;
    one->greeting.sender = tug_introduce();
    one->greeting.data = (uint64_t)(uintptr_t)one->call.buffer;
    one->greeting.partitions = n;
    one->greeting.bytes = one->bytes;
    const size_t bytes = sizeof(*one->board) + n * sizeof(one->board->ready[0]);
    one->board = tug_lent_allocate(bytes);
    if (one->board != NULL)
        one->greeting.board = tug_lent_offer(one->board, bytes);
    if (one->greeting.board.lender == 0)
        one->greeting.sender.pid = 0;
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
    one->host = *host;
    one->request.comm = call->comm;
    one->request.job.advance = advance;
    one->request.start = start;
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

MPI_Request tug_partitioned_host(const struct tug_partitioned *partitioned) {
    return partitioned->host;
}

bool tug_partitioned_has(const struct tug_partitioned *partitioned, bool sends, int partition) {
    return partitioned->call.sends == sends && partition >= 0 &&
           partition < partitioned->call.partitions;
}

#endif

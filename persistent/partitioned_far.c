/* Partitioned messages between two ranks of different nodes, by LLCL's writes with a signal.
 *
 * All of a process's requests use one context, of the world's ranks: making one is collective, and
 * is done in MPI_Init where something that is loaded calls for such requests. Each has a ring
 * (far.h), whose gate the sender makes first:
 *
 *     greeting   sender -> receiver   by the host, in the first round: how the sender divides the
 *                                     data, whether it can, the gate's key
 *     gate       receiver -> sender   | segments read | yes or no | where words and slots are |
 *
 * Few bytes go as a whole when all is ready, a segment each round, to one of several slots behind
 * the words: a *landing*. More go to where they belong: the slots are the receiver's data, the
 * words those of one round, and a segment is a *unit*: a partition of the sender's, or several
 * where it has more than WORDS. Either way positions go on over all rounds, and the host's first
 * round counts. When a receive starts, it gives back the segments of the rounds before: the sender
 * may write again. Landings are given back by halves of them, and not when they come free: said at
 * once, it would hold up what the program sends in answer (by 7 us over TCP).
 *
 * The first round, which is the host's, is not over before the receiver has answered and the sender
 * has the answer: all later ones go without the host, or all by it.
 *
 * Units that are ready and lie side by side go in one write: at once if they are RUN_LEAST bytes or
 * the last; else they wait a beat for their neighbours, until the engine sends them.
 *
 * Several messages that become ready one right after another share packets (hold()): over TCP each
 * packet costs its sender 9 us. So do those that tell of free landings.
 *
 * A send is over when its data are on their way and its memory may be used again. What is written
 * is acknowledged late (tug_write_signal_params); a peer that is lost is an error of a later round.
 *
 * Threading: advance() and greeted() by the holder of the baton; ready() and take() by any thread;
 * the rest by the program's under MPI's rules.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/cpu.h"
#include "engine/engine.h"
#include "host/host.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "persistent/collectives.h"
#include "persistent/far.h"
#include "persistent/partitioned_private.h"

#if MPI_VERSION >= 4

/* What needs no start of the receiver's comes half a round trip sooner: one message of 40 KiB over
 * TCP in 20 us instead of 36. */
#define LANDING_MOST ((size_t)65536)
#define LANDINGS_BYTES ((size_t)262144) /* of so many landings: the sender may be so far ahead */
#define LANDINGS_MOST 8
#define RUN_LEAST ((size_t)65536)
#define BEAT_NS 100000
#define BURST_NS 20000
#define WORDS 1024

enum { NOT_YET, YES, NO };

struct greeting {
    uint64_t partitions, bytes, can; /* bytes: of a partition */
    struct tug_key gate;
};

/* Where the receiver's ring is. */
struct answer {
    struct tug_far_place words, slots;
};

/* What the other side writes. */
struct gate {
    uint64_t read;     /* the ring's */
    uint64_t answered; /* YES, NO; behind the answer */
    struct answer answer;
};

struct far {
    struct tug_partitioned base;
    struct tug_far_ring ring;
    struct greeting greeting;
    struct answer answer;         /* of the receiver */
    bool yes;                     /* it is, and both know it */
    bool lands;                   /* each message as a whole */
    struct tug_far_memory memory; /* the data: the sender's, unless they are few; the receiver's,
                                     unless they land */
    struct tug_far_memory block;  /* the gate; words and landings */
    size_t unit;                  /* partitions of the sender's */
    size_t units;
    uint64_t position;        /* in turn, or before a round: of its first segment */
    struct tug_counter local; /* in turn, of what was sent: its memory may be used again */
    uint64_t sent;            /* in turn: so many */
    size_t first; /* in turn: units below were written, or have come; 0 between rounds */
    /* sender */
    size_t nwritten;         /* in turn: units of this round */
    uint32_t *written;       /* in turn: the last round in which a unit was */
    uint64_t waiting_ns;     /* in turn: something is ready and waits since then; 0: nothing */
    _Atomic uint32_t marked; /* partitions of this round */
    _Atomic uint32_t inside; /* threads that make something ready; none when the round ends */
    _Atomic bool counted;    /* in `incomplete` */
};

static struct far *far_of(struct tug_partitioned *one) {
    return (struct far *)one;
}

static size_t partitions_of(const struct far *far) {
    return (size_t)far->base.call.partitions;
}

/* ---- the context ---- */

static struct tug_team *world; /* NULL: there never was one. It outlives MPI_COMM_WORLD */
static MPI_Group of_world;     /* its processes, while `is_open` */
static bool is_open;           /* more requests may use it */

static _Atomic uint32_t incomplete;  /* messages begun, and not ready yet */
static _Atomic uint64_t complete_ns; /* when one became ready last, while others were not */

/* Something was not brought to its peer, or MPI has ended. */
static bool is_lost(struct far *far) {
    return tug_far_error(&far->ring) != 0 && tug_partitioned_fail(&far->base, MPI_ERR_OTHER);
}

/* ---- the sender ---- */

/* Units that are ready, from there on. In turn. False: no room now. */
static bool write_run(struct far *send, size_t first, size_t n, uint32_t round) {
    const size_t unit_bytes = send->unit * send->base.bytes, at = first * unit_bytes;
    const size_t bytes =
        first + n < send->units ? n * unit_bytes : tug_partitioned_sum(&send->base) - at;
    if (!tug_far_fill(&send->ring, send->position + first, (uint32_t)n,
                      (const char *)send->base.call.buffer + at, bytes, &send->memory, NULL,
                      &send->local))
        return false;
    for (size_t i = first; i < first + n; i++)
        send->written[i] = round;
    send->nwritten += n;
    send->sent++;
    return true;
}

/* Is all of a unit ready that was not written yet? acquire: the data; pairs with
 * tug_partitioned_mark() */
static bool waits(const struct far *send, size_t unit, uint32_t round) {
    const size_t first = unit * send->unit, end = first + send->unit;
    bool is = send->written[unit] != round;
    for (size_t i = first; i < end && i < partitions_of(send) && is; i++)
        is = atomic_load_explicit(&send->base.ready[i], memory_order_acquire) == round;
    return is;
}

/* Writes what is ready. all: short runs, too. In turn. True if it has written any. */
static bool write_ready(struct far *send, uint32_t round, bool all) {
    const size_t n = send->units, before = send->nwritten, ready = atomic_load(&send->marked);
    if (ready <= before * send->unit || before == n || (send->lands && ready < partitions_of(send)))
        return false;
    if (!tug_far_has_room(&send->ring, send->position + n))
        return false;
    while (send->first < n && send->written[send->first] == round)
        send->first++;
    size_t seen = before;
    for (size_t i = send->first; i < n && seen * send->unit < ready;) {
        size_t end = i;
        while (end < n && waits(send, end, round))
            end++;
        const size_t bytes = (end - i) * send->unit * send->base.bytes;
        if (end > i && (all || bytes >= RUN_LEAST) && !write_run(send, i, end - i, round))
            break;
        seen += end - i;
        i = end + 1; /* that one is not ready, or was written */
    }
    return send->nwritten != before;
}

/* By a thread that has made something ready, unless another is at it, which looks again then. */
static void push(struct far *send, uint32_t round) {
    uint32_t seen;
    do {
        if (!tug_partitioned_take_turn(&send->base))
            return;
        seen = atomic_load(&send->marked);
        (void)write_ready(send, round, seen == partitions_of(send));
        tug_partitioned_end_turn(&send->base);
    } while (atomic_load(&send->marked) != seen);
}

/* The message is one of those that are begun and not ready yet, or not any more. Any thread. */
static void count(struct far *send, bool is) {
    if (atomic_exchange(&send->counted, is) != is)
        atomic_fetch_add(&incomplete, is ? 1 : -1u);
}

/* The message is ready. True if others are about to be, as far as one can tell: its packet waits
 * for them then, or until somebody looks for news. Any thread. */
static bool hold(struct far *send) {
    count(send, false);
    if (atomic_load_explicit(&incomplete, memory_order_relaxed) == 0)
        return false;
    const uint64_t now = tug_clock_ns();
    return now - atomic_exchange_explicit(&complete_ns, now, memory_order_relaxed) < BURST_NS;
}

static void ready(struct tug_partitioned *one, size_t first, size_t n, uint32_t round) {
    struct far *send = far_of(one);
    atomic_fetch_add(&send->inside, 1);
    tug_partitioned_mark(one, first, n, round);
    const size_t marked = atomic_fetch_add(&send->marked, (uint32_t)n) + n;
    const bool all = marked == partitions_of(send);
    tug_burst_more_follows(all && hold(send));
    if (all || (!send->lands && n * one->bytes >= RUN_LEAST))
        push(send, round);
    tug_burst_more_follows(false);
    atomic_fetch_sub(&send->inside, 1); /* the last touch: now it may be over */
}

/* Has what is ready waited for a beat? */
static bool is_due(struct far *send) {
    if (send->nwritten * send->unit >= atomic_load(&send->marked)) {
        send->waiting_ns = 0;
        return false;
    }
    const uint64_t now = tug_clock_ns();
    if (send->waiting_ns == 0)
        send->waiting_ns = now;
    return now - send->waiting_ns >= BEAT_NS;
}

static bool advance_send(struct far *send, uint32_t round, bool *done) {
    if (!tug_partitioned_take_turn(&send->base))
        return true;
    const bool all = atomic_load(&send->marked) == partitions_of(send) || is_due(send);
    const bool lost = is_lost(send), moved = !lost && write_ready(send, round, all);
    const bool over =
        (send->nwritten == send->units || lost) && tug_counter_value(&send->local) == send->sent;
    tug_partitioned_end_turn(&send->base);
    *done = over && atomic_load(&send->inside) == 0;
    if (*done)
        count(send, false); /* it was lost */
    return moved || over;
}

/* ---- the receiver ---- */

/* all: also those behind one that has not come. In turn. True if any have come. */
static bool note_units(struct far *receive, uint32_t round, bool all) {
    const size_t before = receive->first;
    for (size_t i = before; i < receive->units && (all || i == receive->first);) {
        const size_t n = tug_far_filled(&receive->ring, receive->position + i);
        if (n > receive->units - i)
            break; /* the sender talks nonsense */
        if (n > 0 && receive->lands)
            tug_copy(receive->base.call.buffer,
                     receive->block.base + receive->answer.slots.at +
                         receive->position % receive->ring.slots * receive->ring.slot_bytes,
                     receive->ring.slot_bytes);
        for (size_t k = i; k < i + n; k++) /* release: pairs with tug_partitioned_has_arrived() */
            atomic_store_explicit(&receive->base.done[k], round, memory_order_release);
        if (i == receive->first)
            receive->first += n;
        i += n > 0 ? n : 1;
    }
    const bool moved = receive->first != before;
    if (receive->first == receive->units) {
        receive->first = 0;
        receive->position += receive->units;
        atomic_store(&receive->base.over, round); /* release: the data */
    }
    return moved;
}

/* True also if another has the turn, as the engine is to look again then. */
static bool take_in_turn(struct far *receive, bool all) {
    bool moved = false;
    if (!tug_partitioned_take_turn(&receive->base))
        return true;
    const uint32_t round = atomic_load_explicit(&receive->base.round, memory_order_relaxed);
    if (atomic_load(&receive->base.over) != round)
        moved = note_units(receive, round, all);
    tug_far_give_back(&receive->ring);
    tug_partitioned_end_turn(&receive->base);
    return moved;
}

static void take(struct tug_partitioned *one) {
    tug_engine_poll();
    (void)take_in_turn(far_of(one), true);
}

static bool advance_receive(struct far *receive, uint32_t round, bool *done) {
    const bool lost = is_lost(receive), moved = !lost && take_in_turn(receive, false);
    *done = atomic_load(&receive->base.over) == round || lost;
    return moved || *done;
}

/* Into units, and into the segments of the ring. */
static void divide(struct far *far, size_t partitions) {
    far->unit = far->lands ? partitions : (partitions + WORDS - 1) / WORDS;
    far->units = (partitions + far->unit - 1) / far->unit;
    if (!far->lands)
        far->ring.slots = (uint32_t)far->units;
    far->ring.tell_every = far->lands ? (far->ring.slots + 1) / 2 : far->ring.slots;
    far->ring.slot_bytes = tug_partitioned_sum(&far->base) / partitions * far->unit;
    far->ring.here = far->block.base;
}

static void decide(struct far *receive) {
    const struct greeting *their = &receive->greeting;
    receive->ring.there = (struct tug_far_place){their->gate, 0};
    receive->yes = tug_partitioned_accept(&receive->base, their->partitions, their->bytes);
    if (!receive->yes)
        return;
    divide(receive, their->partitions);
    receive->base.their_bytes *= receive->unit;
    receive->position = receive->units;
}

/* The sender has the answer. */
static bool knows(struct far *send) {
    const struct gate *gate = (const struct gate *)send->block.base;
    const uint64_t answered = tug_signal_value(&gate->answered);
    send->yes = answered == YES;
    send->ring.there = gate->answer.words;
    send->ring.into = gate->answer.slots;
    return answered != NOT_YET || is_lost(send);
}

/* The receiver answers, and the answer is on its way. */
static bool answers(struct far *receive) {
    if (receive->sent == 0) {
        if (receive->unit == 0)
            decide(receive);
        receive->sent = tug_far_tell(&receive->ring, offsetof(struct gate, answer),
                                     &receive->answer, sizeof(receive->answer),
                                     offsetof(struct gate, answered), receive->yes ? YES : NO,
                                     (struct tug_callback){tug_counter_add, &receive->local});
    }
    return receive->sent == 1 && tug_counter_value(&receive->local) == 1;
}

static bool greeted(struct tug_partitioned *one) {
    struct far *far = far_of(one);
    return !far->greeting.can || (one->call.sends ? knows(far) : answers(far));
}

/* ---- a request's life ---- */

static void start_send(struct far *send) {
    send->position += send->units;
    send->first = send->nwritten = 0;
    send->waiting_ns = 0;
    atomic_store_explicit(&send->marked, 0, memory_order_relaxed);
    count(send, true);
}

/* What was read before is given back. A thread that is late in MPI_Parrived does so, too: the one
 * that has the turn does. */
static void start_receive(struct far *receive) {
    receive->ring.read = receive->position;
    if (!tug_partitioned_take_turn(&receive->base))
        return;
    tug_burst_more_follows(receive->lands); /* no thread waits for it yet */
    tug_far_give_back(&receive->ring);
    tug_burst_more_follows(false);
    tug_partitioned_end_turn(&receive->base);
}

static void start(struct tug_partitioned *one, uint32_t round) {
    struct far *far = far_of(one);
    (void)round;
    if (!one->settled || !far->yes) {
        tug_partitioned_use_host(one);
        return;
    }
    one->request.job.bell = tug_far_bell(world);
    if (one->call.sends)
        start_send(far);
    else
        start_receive(far);
    atomic_store(&one->way, tug_partitioned_without(far->lands));
}

static bool advance(struct tug_partitioned *one, uint32_t round, bool *done) {
    return one->call.sends ? advance_send(far_of(one), round, done)
                           : advance_receive(far_of(one), round, done);
}

static bool prepare_send(struct far *send) {
    const size_t n = partitions_of(send), sum = tug_partitioned_sum(&send->base);
    if (!tug_far_allocate(world, sizeof(struct gate), &send->block))
        return false;
    divide(send, n);
    send->base.ready = calloc(n, sizeof(*send->base.ready));
    send->written = calloc(send->units, sizeof(*send->written));
    send->ring.said = calloc(send->ring.slots, sizeof(*send->ring.said));
    if (sum >= TUG_FAR_DIRECT_LEAST) /* if it fails, packets have copies */
        (void)tug_far_register(world, send->base.call.buffer, sum, &send->memory);
    tug_mem_key(send->block.registration, &send->greeting.gate);
    return send->base.ready != NULL && send->written != NULL && send->ring.said != NULL;
}

static bool prepare_receive(struct far *receive) {
    struct answer *answer = &receive->answer;
    const size_t sum = tug_partitioned_sum(&receive->base);
    const size_t bytes =
        receive->lands ? TUG_CACHE_LINE + receive->ring.slots * sum : WORDS * sizeof(uint64_t);
    if (!tug_far_allocate(world, bytes, &receive->block) ||
        (!receive->lands &&
         !tug_far_register(world, receive->base.call.buffer, sum, &receive->memory)))
        return false;
    tug_mem_key(receive->block.registration, &answer->words.key);
    if (receive->lands)
        answer->slots = (struct tug_far_place){answer->words.key, TUG_CACHE_LINE};
    else
        tug_mem_key(receive->memory.registration, &answer->slots.key);
    return true;
}

/* The peer's rank in the context. */
static uint32_t find_peer(const struct tug_partitioned_call *call) {
    int peer = MPI_UNDEFINED;
    MPI_Group of_call;
    tug_host.Comm_group(call->comm, &of_call);
    tug_host.Group_translate_ranks(of_call, 1, &call->peer, of_world, &peer);
    tug_host.Group_free(&of_call);
    return (uint32_t)peer;
}

static uint32_t landings_of(size_t bytes) {
    return LANDINGS_BYTES / bytes < LANDINGS_MOST ? (uint32_t)(LANDINGS_BYTES / bytes)
                                                  : LANDINGS_MOST;
}

static void prepare(struct tug_partitioned *one) {
    struct far *far = far_of(one);
    one->greeting = &far->greeting;
    far->ring = tug_far_ring_to(world, find_peer(&one->call));
    far->ring.may_miss = !one->call.sends; /* the sender may have ended its last round */
    far->lands = one->can && tug_partitioned_sum(one) <= LANDING_MOST;
    if (far->lands)
        far->ring.slots = landings_of(tug_partitioned_sum(one));
    one->can = one->can && (one->call.sends ? prepare_send(far) : prepare_receive(far));
    if (!one->call.sends)
        return;
    far->greeting.partitions = (uint64_t)one->call.partitions;
    far->greeting.bytes = one->bytes;
    far->greeting.can = one->can;
}

static void let_go(struct tug_partitioned *one) {
    struct far *far = far_of(one);
    tug_far_release(world, &far->memory);
    tug_far_release(world, &far->block);
    if (one->call.sends)
        free((void *)one->ready);
    free(far->written);
    free(far->ring.said);
}

const struct tug_partitioned_kind tug_partitioned_far = {
    .bytes = sizeof(struct far),
    .greeting_bytes = sizeof(struct greeting),
    .prepare = prepare,
    .greeted = greeted,
    .start = start,
    .advance = advance,
    .ready = ready,
    .take = take,
    .let_go = let_go,
};

/* ---- the world ---- */

bool tug_partitioned_is_far(const struct tug_partitioned_call *call) {
    if (!is_open)
        return false;
    const uint32_t peer = find_peer(call);
    return peer < (uint32_t)world->nranks &&
           world->places.node_of[peer] != world->places.node_of[world->rank];
}

void tug_partitioned_prepare(MPI_Comm comm) {
    struct tug_team *team;
    if (tug_collectives_team(comm, &team) != 0 || team->nnodes == 1 || !tug_far_prepare(team) ||
        tug_host.Comm_group(comm, &of_world) != MPI_SUCCESS)
        return;
    world = team;
    is_open = true;
}

void tug_partitioned_finalize(void) {
    if (is_open)
        tug_host.Group_free(&of_world);
    is_open = false;
}

#endif

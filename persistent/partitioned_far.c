/* Partitioned messages between two ranks of different nodes, by LLCL's writes with a signal.
 *
 * All of a process's requests use one context, of the world's ranks: making one is collective, and
 * is done in MPI_Init where something that is loaded calls for such requests. What the two say to
 * each other they write into memory of each other's: the sender has a *gate*, the receiver *words*
 * and, for few bytes, landings behind them.
 *
 *     greeting   sender -> receiver   by the host, in the first round: how the sender divides the
 *                                     data, whether it can, the gate's key
 *     gate       receiver -> sender   | the last round that may be written | yes or no | keys |
 *     words      sender -> receiver   in place: | round << 32 | so many units from here on | ...
 *                                     for each unit; with landings | round | for each of them
 *
 * A unit is a partition of the sender's, or several where it has more than WORDS. The signal behind
 * a write adds to a word what makes it the one that it is to be. Nothing is ever reset.
 *
 * The receiver knows what it has answered when its first round is over, the sender when it has the
 * answer: a second round of its own waits for that, in which partitions may be ready by then. If
 * the answer is no they are the host's after all, and whoever takes a partition's mark back, the
 * engine or the thread that made it ready, tells the host.
 *
 * Few bytes go as a whole when all is ready, to a landing that is free again when the receiver has
 * copied it out, which it says with its next start: said at once, it would hold up what the program
 * sends in answer (by 7 us over TCP). More go to where they belong once the receiver has started
 * its round, which it says. Units that are ready and lie side by side go in one write: at once if
 * they are RUN_LEAST bytes or the last; else they wait a beat for their neighbours, until the
 * engine sends them.
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
#define LANDINGS_BYTES ((size_t)262144)
#define RUN_LEAST ((size_t)65536)
#define BEAT_NS 100000
#define BURST_NS 20000
#define WORDS 1024

enum { NOT_YET, YES, NO };

struct greeting {
    uint64_t partitions, bytes, can; /* bytes: of a partition */
    struct tug_key gate;
};

/* Where the data go. */
struct answer {
    struct tug_key words, data;
    uint64_t data_at;
};

/* What the other side writes. */
struct gate {
    uint64_t open;     /* rounds up to this one may be written, beyond those known from the start */
    uint64_t answered; /* YES, NO; behind the answer */
    struct answer answer;
};

struct far {
    struct tug_partitioned base;
    uint32_t peer; /* in the context */
    struct greeting greeting;
    struct answer answer;         /* of the receiver */
    bool yes;                     /* it is */
    struct tug_far_memory memory; /* the data: the sender's, unless they are few; the receiver's,
                                     unless they land */
    struct tug_far_memory block;  /* the gate; words and landings */
    uint32_t landings;            /* 0: none, they come to where they belong */
    size_t unit;                  /* partitions of the sender's */
    size_t units;
    struct tug_counter local; /* in turn, of what was sent: its memory may be used again */
    uint64_t sent;            /* in turn: so many */
    size_t first; /* in turn: units below were written, or have come; 0 between rounds */
    /* sender */
    size_t nwritten;         /* in turn: units of this round */
    uint32_t *written;       /* in turn: the last round in which a unit was */
    uint64_t *said;          /* in turn: what the words are */
    uint64_t waiting_ns;     /* in turn: something is ready and waits since then; 0: nothing */
    _Atomic uint32_t marked; /* partitions of this round */
    _Atomic bool counted;    /* in `incomplete` */
    /* receiver */
    uint32_t to_open; /* in turn, or before a round: rounds up to this one are to be opened */
    uint32_t told;    /* in turn, or before a round: it has opened those up to this one */
};

static struct far *far_of(struct tug_partitioned *one) {
    return (struct far *)one;
}

static size_t partitions_of(const struct far *far) {
    return (size_t)far->base.call.partitions;
}

static enum tug_partitioned_way way_without(const struct far *far) {
    return tug_partitioned_without(far->landings > 0);
}

/* ---- the context ---- */

static struct tug_team *world; /* NULL: there never was one. It outlives MPI_COMM_WORLD */
static MPI_Group of_world;     /* its processes, while `is_open` */
static bool is_open;           /* more requests may use it */

static _Atomic uint32_t incomplete;  /* messages begun, and not ready yet */
static _Atomic uint64_t complete_ns; /* when one became ready last, while others were not */

static tug_context *context(void) {
    return tug_far_context(world);
}

/* Something was not brought to its peer, or MPI has ended. */
static bool is_lost(struct far *far) {
    return (context() == NULL ||
            __atomic_load_n(&tug_far_ended(world)->status, __ATOMIC_RELAXED) != 0) &&
           tug_partitioned_fail(&far->base, MPI_ERR_OTHER);
}

static struct tug_local_address anywhere(const void *data) {
    return (struct tug_local_address){tug_context_everything(context()), (size_t)(uintptr_t)data};
}

/* ---- the sender ---- */

static const struct gate *gate_of(const struct far *send) {
    return (const struct gate *)send->block.base;
}

/* acquire, as the other side's words are read here and below */
static uint64_t answered(const struct far *send) {
    return tug_signal_value(&gate_of(send)->answered);
}

static bool may_write(const struct far *send, uint32_t round) {
    return tug_has_come_to(1 + send->landings + (uint32_t)tug_signal_value(&gate_of(send)->open),
                           round);
}

/* Units that are ready, from there on, or all to a landing. In turn. False: no room now. */
static bool write_run(struct far *send, size_t first, size_t n, uint32_t round) {
    const struct answer *to = &gate_of(send)->answer;
    const size_t unit_bytes = send->unit * send->base.bytes, at = first * unit_bytes;
    const size_t landing = send->landings > 0 ? round % send->landings : 0;
    const size_t word = send->landings > 0 ? landing : first;
    const uint64_t value = send->landings > 0 ? round : (uint64_t)round << 32 | n;
    const size_t bytes =
        first + n < send->units ? n * unit_bytes : tug_partitioned_sum(&send->base) - at;
    const struct tug_write_signal_params params = {
        .dest_proc = (int)send->peer,
        .dest_raddr = {&to->data, to->data_at + landing * tug_partitioned_sum(&send->base) + at},
        .src_laddr = send->memory.registration != NULL
                         ? (struct tug_local_address){send->memory.registration, at}
                         : anywhere((const char *)send->base.call.buffer + at),
        .size_in_bytes = bytes,
        .signal_raddr = {&to->words, word * sizeof(uint64_t)},
        .value = value - send->said[word],
        .on_local = {tug_counter_add, &send->local},
        .on_complete = {tug_counter_add, tug_far_ended(world)},
        .late = true};
    if (!tug_try_write_signal_async(context(), &params))
        return false;
    send->said[word] = value;
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
    if (ready <= before * send->unit || before == n || !may_write(send, round))
        return false;
    if (send->landings > 0)
        return ready == partitions_of(send) && write_run(send, 0, n, round);
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

/* Tells the host, where nobody else does. */
static void give_to_host(struct far *send, size_t first, size_t n, uint32_t round) {
    for (size_t i = first; i < first + n; i++) {
        uint32_t mark = round;
        if (atomic_compare_exchange_strong(&send->base.ready[i], &mark, round - 1))
            (void)tug_host.Pready((int)i, send->base.request.host);
    }
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
    atomic_fetch_add(&one->inside, 1);
    tug_partitioned_mark(one, first, n, round);
    atomic_thread_fence(memory_order_seq_cst); /* before the look at the way */
    const uint32_t way = atomic_load(&one->way);
    if (way == TUG_WAY_HOST) {
        give_to_host(send, first, n, round);
    } else {
        const size_t marked = atomic_fetch_add(&send->marked, (uint32_t)n) + n;
        const bool all = marked == partitions_of(send);
        tug_burst_more_follows(all && hold(send));
        if (way != TUG_WAY_OPEN && (all || (way == TUG_WAY_PARTS && n * one->bytes >= RUN_LEAST)))
            push(send, round);
        tug_burst_more_follows(false);
    }
    atomic_fetch_sub(&one->inside, 1); /* the last touch: now it may be over */
}

static void start_send(struct far *send) {
    if (!send->base.greeted || !send->base.can || answered(send) == NO) {
        tug_partitioned_use_host(&send->base);
        return;
    }
    send->base.request.job.bell = tug_far_bell(world);
    send->first = send->nwritten = 0;
    send->waiting_ns = 0;
    atomic_store_explicit(&send->marked, 0, memory_order_relaxed);
    count(send, true);
    atomic_store(&send->base.way, answered(send) == YES ? way_without(send) : TUG_WAY_OPEN);
}

/* The answer was awaited. True: it has come. */
static bool choose(struct far *send, uint32_t round) {
    const uint64_t answer = answered(send);
    if (answer == YES)
        atomic_store(&send->base.way, way_without(send));
    if (answer != NO)
        return answer == YES;
    count(send, false);
    tug_partitioned_use_host(&send->base); /* seq_cst, before the look at the marks */
    give_to_host(send, 0, partitions_of(send), round);
    return true;
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
    if (atomic_load(&send->base.way) == TUG_WAY_OPEN)
        return choose(send, round);
    if (!tug_partitioned_take_turn(&send->base))
        return true;
    const bool all = atomic_load(&send->marked) == partitions_of(send) || is_due(send);
    const bool lost = is_lost(send), moved = !lost && write_ready(send, round, all);
    const bool over =
        (send->nwritten == send->units || lost) && tug_counter_value(&send->local) == send->sent;
    tug_partitioned_end_turn(&send->base);
    *done = over && atomic_load(&send->base.inside) == 0;
    if (*done)
        count(send, false); /* it was lost */
    return moved || over;
}

/* ---- the receiver ---- */

/* Writes to the sender's gate, and adds to a word of it. The gate may be gone, if the sender has
 * ended its last round: nobody minds. */
static bool tell(struct far *receive, size_t at, const void *data, size_t bytes, size_t word,
                 uint64_t value, struct tug_callback on_local) {
    const struct tug_write_signal_params params = {.dest_proc = (int)receive->peer,
                                                   .dest_raddr = {&receive->greeting.gate, at},
                                                   .src_laddr = anywhere(data),
                                                   .size_in_bytes = bytes,
                                                   .signal_raddr = {&receive->greeting.gate, word},
                                                   .value = value,
                                                   .on_local = on_local,
                                                   .late = true};
    return tug_try_write_signal_async(context(), &params);
}

/* The sender may write the rounds that it is to; again later if there was no room. In turn, or
 * before the round. */
static void open_rounds(struct far *receive) {
    const uint32_t to = receive->to_open;
    if (receive->told != to && tell(receive, 0, receive, 0, offsetof(struct gate, open),
                                    to - receive->told, (struct tug_callback){0}))
        receive->told = to;
}

/* Before the round. Landings that are free are told of by halves of them, and not when they come
 * free: what the program sends then goes first. */
static void find_rounds_to_open(struct far *receive, uint32_t round) {
    const uint32_t ahead = receive->landings;
    if (ahead == 0)
        receive->to_open = round;
    else if (round - 1 + ahead - receive->to_open >= (ahead + 1) / 2)
        receive->to_open = round - 1 + ahead;
}

static const uint64_t *words_of(const struct far *receive) {
    return (const uint64_t *)(const void *)receive->block.base;
}

/* In turn. */
static bool copy_landed(struct far *receive, uint32_t round) {
    const uint32_t landing = round % receive->landings;
    if ((uint32_t)tug_signal_value(&words_of(receive)[landing]) != round)
        return false;
    tug_copy(receive->base.call.buffer,
             receive->block.base + receive->answer.data_at +
                 landing * tug_partitioned_sum(&receive->base),
             tug_partitioned_sum(&receive->base));
    atomic_store(&receive->base.over, round); /* release: the data */
    return true;
}

/* Units in place from there on; 0: none, or the sender talks nonsense. */
static size_t units_at(const struct far *receive, size_t unit, uint32_t round) {
    const uint64_t word = tug_signal_value(&words_of(receive)[unit]);
    const size_t n = (uint32_t)word;
    return word >> 32 == round && n <= receive->units - unit ? n : 0;
}

/* all: also those behind one that has not come. In turn. True if any have come. */
static bool note_units(struct far *receive, uint32_t round, bool all) {
    const size_t before = receive->first;
    for (size_t i = before; i < receive->units && (all || i == receive->first);) {
        const size_t n = units_at(receive, i, round);
        for (size_t k = i; k < i + n; k++) /* release: pairs with tug_partitioned_has_arrived() */
            atomic_store_explicit(&receive->base.done[k], round, memory_order_release);
        if (i == receive->first)
            receive->first += n;
        i += n > 0 ? n : 1;
    }
    const bool moved = receive->first != before;
    if (receive->first == receive->units) {
        receive->first = 0;
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
        moved =
            receive->landings > 0 ? copy_landed(receive, round) : note_units(receive, round, all);
    open_rounds(receive);
    tug_partitioned_end_turn(&receive->base);
    return moved;
}

static void take(struct tug_partitioned *one) {
    tug_engine_poll();
    (void)take_in_turn(far_of(one), true);
}

static void start_receive(struct far *receive, uint32_t round) {
    if (!receive->base.settled || !receive->yes) {
        tug_partitioned_use_host(&receive->base);
        return;
    }
    receive->base.request.job.bell = tug_far_bell(world);
    atomic_store(&receive->base.way, way_without(receive));
    find_rounds_to_open(receive, round);
    tug_burst_more_follows(receive->landings > 0); /* nobody waits for it yet */
    open_rounds(receive);
    tug_burst_more_follows(false);
}

static bool advance_receive(struct far *receive, uint32_t round, bool *done) {
    const bool lost = is_lost(receive), moved = !lost && take_in_turn(receive, false);
    *done = atomic_load(&receive->base.over) == round || lost;
    return moved || *done;
}

static void divide(struct far *far, size_t partitions) {
    far->unit = (partitions + WORDS - 1) / WORDS;
    far->units = (partitions + far->unit - 1) / far->unit;
}

static void decide(struct far *receive) {
    const struct greeting *their = &receive->greeting;
    receive->yes = tug_partitioned_accept(&receive->base, their->partitions, their->bytes);
    if (!receive->yes)
        return;
    divide(receive, their->partitions);
    receive->base.their_bytes *= receive->unit;
    receive->told = receive->to_open = 1 + receive->landings;
}

/* Of a receiver: answers, and the answer is on its way. */
static bool greeted(struct tug_partitioned *one) {
    struct far *receive = far_of(one);
    if (one->call.sends || !receive->greeting.can)
        return true;
    if (receive->sent == 0) {
        if (receive->unit == 0)
            decide(receive);
        receive->sent =
            tell(receive, offsetof(struct gate, answer), &receive->answer, sizeof(receive->answer),
                 offsetof(struct gate, answered), receive->yes ? YES : NO,
                 (struct tug_callback){tug_counter_add, &receive->local});
    }
    return receive->sent == 1 && tug_counter_value(&receive->local) == 1;
}

/* ---- a request's life ---- */

static void start(struct tug_partitioned *one, uint32_t round) {
    if (one->call.sends)
        start_send(far_of(one));
    else
        start_receive(far_of(one), round);
}

static bool advance(struct tug_partitioned *one, uint32_t round, bool *done) {
    return one->call.sends ? advance_send(far_of(one), round, done)
                           : advance_receive(far_of(one), round, done);
}

/* Memory of zeros that the other side writes to. */
static bool make_block(struct far *far, size_t bytes) {
    const size_t lines = (bytes + TUG_CACHE_LINE - 1) / TUG_CACHE_LINE * TUG_CACHE_LINE;
    void *block = aligned_alloc(TUG_CACHE_LINE, lines);
    if (block == NULL)
        return false;
    memset(block, 0, lines);
    far->block.owned = true;
    return tug_far_register(world, block, bytes, &far->block);
}

static bool prepare_send(struct far *send) {
    const size_t n = partitions_of(send);
    divide(send, n);
    send->base.ready = calloc(n, sizeof(*send->base.ready));
    send->written = calloc(send->units, sizeof(*send->written));
    send->said = calloc(send->units + TUG_LANDINGS_MOST, sizeof(*send->said));
    if (tug_partitioned_sum(&send->base) >=
        TUG_FAR_DIRECT_LEAST) /* if it fails, packets have copies */
        (void)tug_far_register(world, send->base.call.buffer, tug_partitioned_sum(&send->base),
                               &send->memory);
    if (send->base.ready == NULL || send->written == NULL || send->said == NULL ||
        !make_block(send, sizeof(struct gate)))
        return false;
    tug_mem_key(send->block.registration, &send->greeting.gate);
    return true;
}

static bool prepare_receive(struct far *receive) {
    struct answer *answer = &receive->answer;
    const bool lands = receive->landings > 0;
    answer->data_at = lands ? TUG_CACHE_LINE : 0; /* behind the words */
    if (!make_block(receive, lands ? answer->data_at +
                                         receive->landings * tug_partitioned_sum(&receive->base)
                                   : WORDS * sizeof(uint64_t)))
        return false;
    if (!lands && !tug_far_register(world, receive->base.call.buffer,
                                    tug_partitioned_sum(&receive->base), &receive->memory))
        return false;
    tug_mem_key(receive->block.registration, &answer->words);
    tug_mem_key(lands ? receive->block.registration : receive->memory.registration, &answer->data);
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

static void prepare(struct tug_partitioned *one) {
    struct far *far = far_of(one);
    one->greeting = &far->greeting;
    far->peer = find_peer(&one->call);
    if (one->can && tug_partitioned_sum(&far->base) <= LANDING_MOST)
        far->landings = (uint32_t)tug_landings_of(tug_partitioned_sum(&far->base), LANDINGS_BYTES);
    one->can = one->can && (one->call.sends ? prepare_send(far) : prepare_receive(far));
    if (!one->call.sends)
        return;
    far->greeting.partitions = (uint64_t)one->call.partitions;
    far->greeting.bytes = one->bytes;
    far->greeting.can = one->can;
}

static void release(struct tug_far_memory *memory) {
    if (memory->registration != NULL)
        tug_far_release(world, memory);
    else if (memory->owned)
        free(memory->base);
}

static void let_go(struct tug_partitioned *one) {
    struct far *far = far_of(one);
    release(&far->memory);
    release(&far->block);
    if (one->call.sends)
        free((void *)one->ready);
    free(far->written);
    free(far->said);
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

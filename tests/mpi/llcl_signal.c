/*
 * llcl_signal: writes with a signal.
 *
 * Data of all sizes go round a ring of ranks, several at a time, each with a signal behind it: a
 * counter, or a message. Whoever has seen the signal finds the data in place, all of them, at once,
 * and tells the sender so by a signal of his own; nothing else tells. Then threads raise one
 * counter together. Where the write fails there is no signal, and the next one is as ever. Memory
 * of both kinds at both ends.
 */
#include "llcl_check.h"
#include <pthread.h>

static const size_t sizes[] = {0,    1,     8,     24,    25,    4095,  4096,   8193,
                               8200, 16384, 16385, 32768, 65536, 65537, 300001, (1u << 20) + 3};
enum { SIZES = sizeof sizes / sizeof *sizes, SLOTS = 4, THREADS = 4, MESSAGE = 9 };
enum { PLACE = (1 << 20) + 64, DATA = SLOTS * PLACE };

/* At the end of the memory that data are written to. */
enum { CAME = DATA, TAKEN = DATA + 8, RAISED = DATA + 16, BYTES = DATA + 24 };

static tug_context *context;
static struct ll_memory remote[LL_KINDS], local[LL_KINDS];
static struct ll_record records[SLOTS];
static _Atomic uint64_t messages;

struct said {
    uint64_t from, number;
};

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    struct said said;
    (void)d;
    CHECK(c == context && bytes == sizeof said, "a message of %zu bytes", bytes);
    memcpy(&said, payload, sizeof said);
    CHECK((int)said.from == source, "it says it is from %d, not %d", (int)said.from, source);
    CHECK(said.number == atomic_load(&messages), "message %d comes out of turn", (int)said.number);
    atomic_fetch_add(&messages, 1);
}

static uint64_t *word(enum ll_kind kind, size_t offset) {
    return (uint64_t *)(remote[kind].base + offset);
}

/* ---- round the ring ---- */

struct trip {
    enum ll_kind to_kind, from_kind;
    bool by_message;
    int to, from;
    uint64_t writes;      /* in all */
    uint64_t sent, seen;  /* so far: writes; signals */
    uint64_t said, heard; /* messages since the program began */
};

static uint64_t pattern(const struct trip *trip, uint64_t number) {
    return (uint64_t)trip->by_message << 32 | (uint64_t)trip->to_kind << 33 | number;
}

static uint64_t taken(const struct trip *trip) {
    return tug_signal_value(word(trip->to_kind, TAKEN));
}

static bool is_large(uint64_t number) {
    return sizes[number % SIZES] >= 65536;
}

/* A slot is free, and the write there over; one that the next could pass goes alone. */
static bool may_send(const struct trip *trip) {
    const uint64_t under_way = trip->sent - taken(trip);
    const bool alone =
        trip->by_message || is_large(trip->sent) || (trip->sent > 0 && is_large(trip->sent - 1));
    return trip->sent < trip->writes && under_way < (alone ? 1 : SLOTS);
}

static bool may_take(const struct trip *trip) {
    return trip->seen < trip->writes &&
           (trip->by_message ? atomic_load(&messages) > trip->heard
                             : tug_signal_value(word(trip->to_kind, CAME)) > trip->seen);
}

static bool may_do_something(void *trip) {
    return may_send(trip) || may_take(trip);
}

static void send_one(struct trip *trip) {
    const uint64_t slot = trip->sent % SLOTS;
    const size_t bytes = sizes[trip->sent % SIZES], at = slot * PLACE;
    unsigned char *source = local[trip->from_kind].base + at;
    struct ll_record *r = &records[slot];
    const struct said said = {(uint64_t)check_rank, trip->said};
    if (trip->sent >= SLOTS) {
        LL_GOOD(ll_finish(context, r));
        CHECK(atomic_load(&r->locals) == 1 && atomic_load(&r->completes) == 1, "callbacks");
    }
    memset(r, 0, sizeof *r);
    check_fill(source, bytes, (uint64_t)check_rank, pattern(trip, trip->sent));
    struct tug_write_signal_params p = {
        .dest_proc = trip->to,
        .dest_raddr = {&remote[trip->to_kind].keys[trip->to], at},
        .src_laddr = {local[trip->from_kind].registration, at},
        .size_in_bytes = bytes,
        .signal_raddr = {trip->by_message ? NULL : &remote[trip->to_kind].keys[trip->to], CAME},
        .value = 1,
        .handler = MESSAGE,
        .payload = &said,
        .payload_in_bytes = sizeof said,
        .on_local = ll_local(r, source, bytes),
        .on_complete = ll_complete(r)};
    LL_TRY(context, tug_try_write_signal_async(context, &p));
    trip->sent++;
    trip->said += trip->by_message;
}

/* The others' TAKEN has no data of its own. */
static void say_taken(struct trip *trip) {
    struct ll_record r = {0};
    struct tug_write_signal_params p = {
        .dest_proc = trip->from,
        .dest_raddr = {&remote[trip->to_kind].keys[trip->from], 0},
        .src_laddr = {local[trip->from_kind].registration, 0},
        .signal_raddr = {&remote[trip->to_kind].keys[trip->from], TAKEN},
        .value = 1,
        .on_complete = ll_complete(&r)};
    LL_TRY(context, tug_try_write_signal_async(context, &p));
    LL_GOOD(ll_finish(context, &r));
}

static void take_one(struct trip *trip) {
    const size_t bytes = sizes[trip->seen % SIZES], at = trip->seen % SLOTS * PLACE;
    check_same(remote[trip->to_kind].base + at, bytes, (uint64_t)trip->from,
               pattern(trip, trip->seen), "signalled", __LINE__);
    trip->seen++;
    trip->heard += trip->by_message;
    say_taken(trip);
}

static void go_round(struct trip trip) {
    static uint64_t said;
    trip.said = trip.heard = said; /* on all ranks the same */
    *word(trip.to_kind, CAME) = *word(trip.to_kind, TAKEN) = 0;
    ll_barrier(context);
    while (trip.sent < trip.writes || trip.seen < trip.writes) {
        if (may_take(&trip))
            take_one(&trip);
        else if (may_send(&trip))
            send_one(&trip);
        else
            tug_wait(context, may_do_something, &trip);
    }
    tug_signal_wait(context, word(trip.to_kind, TAKEN), trip.writes);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        LL_GOOD(ll_finish(context, &records[slot]));
    said = trip.said;
    ll_barrier(context);
    CHECK(*word(trip.to_kind, CAME) == (trip.by_message ? 0 : trip.writes), "signals: %d",
          (int)*word(trip.to_kind, CAME));
}

/* ---- threads ---- */

static uint64_t raises;

static void *raise_often(void *to) {
    struct tug_counter counter = {0};
    for (uint64_t i = 0; i < raises; i++) {
        const int process = *(int *)to;
        const enum ll_kind kind = i % LL_KINDS;
        struct tug_write_signal_params p = {
            .dest_proc = process,
            .dest_raddr = {&remote[kind].keys[process], 8 * (i % 8)},
            .src_laddr = {local[kind].registration, 0},
            .size_in_bytes = 8,
            .signal_raddr = {&remote[LL_REGISTERED].keys[process], RAISED},
            .value = i + 1,
            .on_complete = {tug_counter_add, &counter}};
        LL_TRY(context, tug_try_write_signal_async(context, &p));
    }
    CHECK(tug_counter_wait(context, &counter, raises) == 0, "%s", tug_strerror(counter.status));
    return NULL;
}

static void raise_together(int to) {
    pthread_t threads[THREADS];
    raises = (uint64_t)ll_rounds(2000, 200);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, raise_often, &to) == 0, "no thread");
    tug_signal_wait(context, word(LL_REGISTERED, RAISED), THREADS * raises * (raises + 1) / 2);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ll_barrier(context);
    CHECK(*word(LL_REGISTERED, RAISED) == THREADS * raises * (raises + 1) / 2, "signals twice");
}

/* ---- mistakes ---- */

static int try(struct tug_write_signal_params p) {
    struct ll_record r = {0};
    p.on_local = ll_local(&r, NULL, 0);
    p.on_complete = ll_complete(&r);
    LL_TRY(context, tug_try_write_signal_async(context, &p));
    const int status = ll_finish(context, &r);
    CHECK(atomic_load(&r.locals) == 1 && atomic_load(&r.completes) == 1, "callbacks of a mistake");
    return status;
}

static void make_mistakes(int to) {
    struct tug_key damaged = remote[0].keys[to];
    const struct tug_write_signal_params good = {
        .dest_proc = to,
        .dest_raddr = {&remote[LL_REGISTERED].keys[to], 0},
        .src_laddr = {local[LL_REGISTERED].registration, 0},
        .size_in_bytes = 8,
        .signal_raddr = {&remote[LL_REGISTERED].keys[to], CAME},
        .value = 1000};
    struct tug_write_signal_params p;
    damaged.word[0] ^= 1;
    *word(LL_REGISTERED, CAME) = 0;
    ll_barrier(context);
#define REFUSED(error, ...)                                                                        \
    do {                                                                                           \
        p = good;                                                                                  \
        __VA_ARGS__;                                                                               \
        CHECK(try(p) == (error), "%s", #__VA_ARGS__);                                              \
    } while (0)
    REFUSED(TUG_ERR_INVALID, p.dest_proc = -1);
    REFUSED(TUG_ERR_INVALID, p.dest_proc = check_nranks);
    REFUSED(TUG_ERR_INVALID, p.signal_raddr.offset = CAME + 4);
    REFUSED(TUG_ERR_RANGE, p.signal_raddr.offset = BYTES);
    REFUSED(TUG_ERR_RANGE, p.dest_raddr.offset = BYTES - 4);
    REFUSED(TUG_ERR_KEY, p.dest_raddr.key = NULL);
    REFUSED(TUG_ERR_KEY, p.dest_raddr.key = &damaged);
    REFUSED(TUG_ERR_KEY, p.signal_raddr.key = &damaged);
    REFUSED(TUG_ERR_INVALID, p.src_laddr.registration = NULL);
    REFUSED(TUG_ERR_RANGE, p.src_laddr.offset = BYTES);
    REFUSED(TUG_ERR_INVALID, p.signal_raddr.key = NULL, p.handler = TUG_AM_HANDLERS);
    REFUSED(TUG_ERR_INVALID, p.signal_raddr.key = NULL, p.handler = MESSAGE, p.payload = &p,
            p.payload_in_bytes = TUG_SIGNAL_MAX_PAYLOAD + 1);
    REFUSED(TUG_ERR_INVALID, p.signal_raddr.key = NULL,
            p.handler = MESSAGE + 1); /* there is none */
    ll_barrier(context);
    CHECK(*word(LL_REGISTERED, CAME) == 0, "a mistake is signalled");
}

/* What the origin cannot know: the registration has ended. */
static void write_where_nothing_is_left(int to, size_t bytes) {
    struct ll_memory gone;
    const struct tug_write_signal_params last = {
        .dest_proc = to,
        .dest_raddr = {&gone.keys[to], 0},
        .src_laddr = {local[LL_REGISTERED].registration, 0},
        .size_in_bytes = bytes,
        .signal_raddr = {&remote[LL_REGISTERED].keys[to], CAME},
        .value = 1};
    struct tug_write_signal_params next = last;
    ll_make(context, &gone, LL_REGISTERED, bytes);
    LL_GOOD(tug_mem_deregister(&gone.registration));
    *word(LL_REGISTERED, CAME) = 0;
    ll_barrier(context);
    const int status = try(last);
    CHECK(status == TUG_ERR_KEY, "a write of %zu bytes to no memory: %s", bytes,
          tug_strerror(status));
    ll_barrier(context);
    CHECK(*word(LL_REGISTERED, CAME) == 0, "a failed write is signalled");
    ll_barrier(context);
    next.dest_raddr.key = &remote[LL_REGISTERED].keys[to];
    CHECK(try(next) == 0, "the next one");
    tug_signal_wait(context, word(LL_REGISTERED, CAME), 1);
    ll_barrier(context);
    free(gone.block);
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_signal");
    context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, MESSAGE, on_message, NULL));
    for (int kind = 0; kind < LL_KINDS; kind++) {
        ll_make(context, &remote[kind], (enum ll_kind)kind, BYTES);
        ll_make(context, &local[kind], (enum ll_kind)kind, BYTES);
    }
    const int to = (check_rank + 1) % check_nranks;
    const int from = (check_rank + check_nranks - 1) % check_nranks;
    for (int combination = 0; combination < 8; combination++)
        go_round((struct trip){.to_kind = combination & 1,
                               .from_kind = combination >> 1 & 1,
                               .by_message = combination >> 2 & 1,
                               .to = to,
                               .from = from,
                               .writes = (uint64_t)ll_rounds(8 * SIZES, 2 * SIZES)});
    raise_together(to);
    make_mistakes(to);
    for (int i = 0; i < SIZES; i++)
        if (sizes[i] > 0 && strcmp(tug_context_transport(context, to, sizes[i]), "verbs") != 0)
            write_where_nothing_is_left(to, sizes[i]);
    for (int kind = 0; kind < LL_KINDS; kind++) {
        if (kind == LL_REGISTERED) {
            ll_end(context, &remote[kind]);
            ll_end(context, &local[kind]);
        }
    }
    ll_close(&context);
    return check_end();
}

/*
 * llcl_am: active messages, and operations that start operations.
 *
 * Payloads of all sizes reach their handler with the right source and data before on_complete; long
 * ones come whole, and in order with short ones that are sent between them; one
 * handler of a context runs at a time; handlers answer by messages (a ball that goes to and fro);
 * and chains of 100 000 operations, each started by the callback of the one before it, need
 * neither a deep stack nor any help.
 */
#include "llcl_check.h"

enum { DATA = 7, LONG = 8, BEHIND = 9, BALL = 200, LAST = TUG_AM_HANDLERS - 1 };
enum { PAYLOADS = 24, LONGS = 6, RECORDS = 4096 };

static const size_t payloads[PAYLOADS] = {0,    1,    2,    7,    8,    9,    15,   16,
                                          17,   23,   24,   25,   31,   32,   100,  255,
                                          1000, 1024, 2048, 3000, 4087, 4088, 4095, 4096};

static tug_context *context;
static _Atomic int inside;
static _Atomic int came[LL_MAX_RANKS][PAYLOADS];
static struct ll_record records[RECORDS];
static int mark;

static int size_index(size_t bytes) {
    for (int i = 0; i < PAYLOADS; i++)
        if (payloads[i] == bytes)
            return i;
    CHECK(false, "a message of %zu bytes, which nobody sent", bytes);
    return -1;
}

static void enter(void) {
    CHECK(atomic_fetch_add(&inside, 1) == 0, "two handlers run at once");
}

static void leave(void) {
    atomic_fetch_sub(&inside, 1);
}

static void on_data(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    enter();
    CHECK(c == context && d == &mark, "the handler's context and d");
    CHECK(source >= 0 && source < check_nranks, "a message from rank %d", source);
    int i = size_index(bytes);
    CHECK(bytes == 0 || (uintptr_t)payload % 8 == 0, "a payload at %p", payload);
    check_same(payload, bytes, (uint64_t)source, (uint64_t)i, "payload", __LINE__);
    atomic_fetch_add(&came[source][i], 1);
    leave();
}

/* All sizes at once to one rank. */
static void send_all(int to, int from, int round) {
    static unsigned char sent[PAYLOADS][TUG_AM_MAX_PAYLOAD];
    struct ll_record *mine = records;
    memset(mine, 0, sizeof *mine * PAYLOADS);
    for (int i = 0; i < PAYLOADS; i++) {
        check_fill(sent[i], payloads[i], (uint64_t)check_rank, (uint64_t)i);
        struct tug_am_params p = {to,
                                  i % 2 ? DATA : LAST,
                                  payloads[i] > 0 ? sent[i] : NULL,
                                  payloads[i],
                                  ll_local(&mine[i], sent[i], payloads[i]),
                                  ll_complete(&mine[i])};
        LL_TRY(context, tug_try_am_async(context, &p));
    }
    for (int i = 0; i < PAYLOADS; i++)
        LL_GOOD(ll_finish(context, &mine[i]));
    ll_once(mine, PAYLOADS);
    ll_note(context, to, from);
    for (int i = 0; i < PAYLOADS; i++)
        CHECK(atomic_load(&came[from][i]) == round, "%d messages of %zu bytes came from rank %d",
              atomic_load(&came[from][i]), payloads[i], from);
    ll_note(context, from, to); /* the next round may come */
}

/* ---- long ones ---- */

static const size_t long_sizes[LONGS] = {4097, 16384, 65541, 16, 300001, (2 << 20) + 13};
static int long_came[LL_MAX_RANKS], short_came[LL_MAX_RANKS]; /* by handlers alone */

static void on_long(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    enter();
    CHECK(c == context && d == &mark, "the handler's context and d");
    const int i = long_came[source]++ % LONGS;
    CHECK(bytes == long_sizes[i], "%zu bytes came, not %zu", bytes, long_sizes[i]);
    CHECK(short_came[source] == long_came[source] - 1, "a long message overtook a short one");
    CHECK((uintptr_t)payload % 8 == 0, "a payload at %p", payload);
    check_same(payload, bytes, (uint64_t)source, (uint64_t)i, "long payload", __LINE__);
    leave();
}

static void on_behind(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)payload, (void)d;
    enter();
    CHECK(bytes == 8, "a short message of %zu bytes", bytes);
    CHECK(++short_came[source] == long_came[source], "a short message overtook a long one");
    leave();
}

/* All sizes, each with a short message behind it. */
static void send_long(int to, int from, int round) {
    static unsigned char sent[LONGS][(2 << 20) + 16];
    struct ll_record *mine = records;
    memset(mine, 0, sizeof *mine * 2 * LONGS);
    for (int i = 0; i < LONGS; i++) {
        check_fill(sent[i], long_sizes[i], (uint64_t)check_rank, (uint64_t)i);
        struct tug_am_params p = {to,
                                  LONG,
                                  sent[i],
                                  long_sizes[i],
                                  ll_local(&mine[2 * i], sent[i], long_sizes[i]),
                                  ll_complete(&mine[2 * i])};
        LL_TRY(context, tug_try_am_async(context, &p));
        p = (struct tug_am_params){to, BEHIND,       payloads,
                                   8,  {NULL, NULL}, ll_complete(&mine[2 * i + 1])};
        LL_TRY(context, tug_try_am_async(context, &p));
    }
    for (int i = 0; i < 2 * LONGS; i++)
        LL_GOOD(ll_finish(context, &mine[i]));
    ll_note(context, to, from);
    CHECK(short_came[from] == round * LONGS, "%d messages came from rank %d", short_came[from],
          from);
    ll_note(context, from, to); /* the next round may come */
}

/* ---- the ball ---- */

struct ball {
    int left, bytes;
    unsigned char rest[16];
};

static struct ball ball;
static _Atomic int ball_late, ball_back;
static int ball_home;
static double ball_deadline;

static void throw_ball(void) {
    static struct ball thrown[64]; /* unchanged until on_local */
    static int n;
    n = (n + 1) % 64;
    thrown[n] = ball;
    struct tug_am_params p = {(check_rank + 1) % check_nranks,
                              BALL,
                              &thrown[n],
                              (size_t)ball.bytes,
                              {NULL, NULL},
                              {NULL, NULL}};
    if (!tug_try_am_async(context, &p))
        atomic_store(&ball_late, 1); /* the program throws */
}

static void on_ball(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)d;
    enter();
    CHECK(source == (check_rank + check_nranks - 1) % check_nranks, "a ball from rank %d", source);
    memcpy(&ball, payload, bytes);
    CHECK((size_t)ball.bytes == bytes, "a ball of %zu bytes, not %d", bytes, ball.bytes);
    bool late = check_rank == ball_home && ll_now() > ball_deadline;
    if (--ball.left > 0 && !late)
        throw_ball(); /* also to itself: its handler must not run within this one */
    else
        atomic_store(&ball_back, 1);
    leave();
}

static bool ball_stops(void *d) {
    (void)d;
    return atomic_load(&ball_back) || atomic_load(&ball_late);
}

static void play(int bytes) {
    int rounds = ll_rounds(2000, 50);
    atomic_store(&ball_back, 0);
    atomic_store(&ball_late, 0);
    ball_deadline = ll_now() + 0.5;
    ll_barrier(context);
    if (check_rank == ball_home) {
        ball = (struct ball){rounds * check_nranks, bytes, {0}};
        throw_ball();
        for (;;) {
            tug_wait(context, ball_stops, NULL);
            if (atomic_load(&ball_back))
                break;
            atomic_store(&ball_late, 0);
            tug_progress(context);
            throw_ball();
        }
    }
    /* The others may be in MPI. Only one ball is out, so no try of theirs can find things full. */
    ll_barrier(context);
    CHECK(!atomic_load(&ball_late), "no room for the only operation there is");
}

/* ---- chains ---- */

enum link { READ, WRITE, FETCH, COMPARE, MESSAGE, LINKS };

struct chain {
    enum link link;
    int to, left;
    size_t bytes;
    struct ll_memory *remote, *local;
    bool near; /* no other process is needed: always to the end */
    double deadline;
    _Atomic int late, done;
};

static _Atomic uint64_t chained;

static void on_chained(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
    atomic_fetch_add(&chained, 1);
}

static void chain_next(void *d, int status);

static bool chain_try(struct chain *c) {
    struct tug_remote_address remote = {&c->remote->keys[c->to], (size_t)check_rank * 64};
    struct tug_local_address local = {c->local->registration, 0};
    struct tug_callback next = {chain_next, c};
    struct tug_read_params read = {c->to, remote, local, c->bytes, next};
    struct tug_write_params write = {c->to, remote, local, c->bytes, {NULL, NULL}, next};
    struct tug_fetch_and_op_params fetch = {c->to, remote, local, 8, TUG_ADD, 1, next};
    struct tug_compare_and_swap_params compare = {c->to, remote, local, 8, 0, 0, next};
    struct tug_am_params message = {c->to, 1, c->local->base, c->bytes, {NULL, NULL}, next};
    switch (c->link) {
    case READ:
        return tug_try_read_async(context, &read);
    case WRITE:
        return tug_try_write_async(context, &write);
    case FETCH:
        return tug_try_fetch_and_op_async(context, &fetch);
    case COMPARE:
        return tug_try_compare_and_swap_async(context, &compare);
    default:
        return tug_try_am_async(context, &message);
    }
}

static void chain_start(struct chain *c) {
    if (!chain_try(c))
        atomic_store(&c->late, 1);
}

static void chain_next(void *d, int status) {
    struct chain *c = d;
    CHECK(status == 0, "a link of a chain: %s", tug_strerror(status));
    bool late = !c->near && c->left % 16 == 0 && ll_now() > c->deadline;
    if (--c->left > 0 && !late)
        chain_start(c);
    else
        atomic_store(&c->done, 1);
}

static bool chain_stops(void *d) {
    struct chain *c = d;
    return atomic_load(&c->done) || atomic_load(&c->late);
}

static void follow(struct chain *c) {
    chain_start(c);
    for (;;) {
        tug_wait(context, chain_stops, c);
        if (atomic_load(&c->done))
            return;
        atomic_store(&c->late, 0);
        tug_progress(context);
        chain_start(c);
    }
}

/* Long to memory that needs no one, shorter where each link crosses to a rank and back. */
static void chains(void) {
    static struct ll_memory remote[LL_KINDS], local;
    static struct chain c;
    int right = (check_rank + 1) % check_nranks;
    ll_make(context, &local, LL_REGISTERED, 4096);
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_make(context, &remote[kind], (enum ll_kind)kind, 4096);
    for (int link = 0; link < LINKS; link++)
        for (int kind = 0; kind < LL_KINDS; kind++)
            for (int self = 0; self < 2; self++) {
                bool mapped = ll_way("mapped") && link != MESSAGE &&
                              tug_mem_map(context, &remote[kind].keys[right]) != NULL;
                bool near = self ? ll_way("self") : mapped;
                int length = near ? 100000 : ll_rounds(2000, 100);
                c = (struct chain){.link = (enum link)link,
                                   .to = self ? check_rank : right,
                                   .left = length,
                                   .near = near,
                                   .deadline = ll_now() + 0.3,
                                   .bytes = kind == 0 ? 8 : 40,
                                   .remote = &remote[kind],
                                   .local = &local};
                follow(&c);
                ll_barrier(context);
            }
    CHECK(atomic_load(&chained) > 0, "no message of a chain came");
    ll_end(context, &local);
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_end(context, &remote[kind]);
}

static void run(void) {
    memset(came, 0, sizeof came);
    context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, DATA, on_data, &mark));
    LL_GOOD(tug_am_register(context, LAST, on_data, &mark));
    LL_GOOD(tug_am_register(context, LONG, on_long, &mark));
    LL_GOOD(tug_am_register(context, BEHIND, on_behind, NULL));
    LL_GOOD(tug_am_register(context, BALL, on_ball, NULL));
    LL_GOOD(tug_am_register(context, 1, on_chained, NULL));
    ll_barrier(context);
    for (int round = 1; round <= 5; round++)
        for (int distance = 0; distance < check_nranks; distance++)
            send_all((check_rank + distance) % check_nranks,
                     (check_rank + check_nranks - distance) % check_nranks, round);
    for (int round = 1; round <= 2; round++)
        for (int distance = 0; distance < check_nranks; distance++)
            send_long((check_rank + distance) % check_nranks,
                      (check_rank + check_nranks - distance) % check_nranks, round);
    for (ball_home = 0; ball_home < check_nranks; ball_home++) {
        play(8);
        play(24);
    }
    chains();
    ll_close(&context);
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_am");
    run();
    return check_end();
}

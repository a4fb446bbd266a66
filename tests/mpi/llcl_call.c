/*
 * llcl_call: calls, active messages with an answer.
 *
 * Payloads and answers of all sizes; calls that are answered later, from another message's handler
 * (a lock that passes from rank to rank); messages and calls of one thread to one rank arrive in
 * their order; what goes wrong is told to the caller.
 */
#include "llcl_check.h"
#include <pthread.h>

enum { ECHO = 0, LOCK = 7, STEP = 8, SHORT = TUG_AM_HANDLERS - 1, UNLOCK = 3, STEP_AM = 4 };
enum { SIZES = 9, MOST = TUG_AM_MAX_PAYLOAD, THREADS = 4 };

static const size_t sizes[SIZES] = {0, 1, 8, 23, 24, 25, 1000, MOST - 1, MOST};

static tug_context *context;

/* ---- callees; the handlers of a context run one at a time ---- */

struct echo {
    uint64_t seed, bytes; /* of the answer */
};

static void on_echo(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                    void *d) {
    static unsigned char answer[MOST];
    struct echo echo = {0, 0};
    CHECK(c == context && d == NULL, "a handler's context and d");
    if (bytes >= sizeof echo) {
        memcpy(&echo, payload, sizeof echo);
        check_same((const unsigned char *)payload + sizeof echo, bytes - sizeof echo, echo.seed, 1,
                   "payload", __LINE__);
    }
    check_fill(answer, echo.bytes, echo.seed, 2);
    tug_answer(c, caller, answer, echo.bytes);
}

static struct tug_caller queue[LL_MAX_RANKS * THREADS];
static unsigned first, last;
static bool held;
static uint64_t grants;

static void grant(tug_context *c) {
    if (held || first == last)
        return;
    held = true;
    grants++;
    struct tug_caller caller = queue[first++ % (LL_MAX_RANKS * THREADS)];
    tug_answer(c, caller, &grants, sizeof grants);
}

static void on_lock(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                    void *d) {
    (void)payload, (void)bytes, (void)d;
    queue[last++ % (LL_MAX_RANKS * THREADS)] = caller;
    grant(c);
}

static void on_unlock(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    uint64_t ticket;
    (void)source, (void)d;
    CHECK(bytes == sizeof ticket, "%zu bytes", bytes);
    memcpy(&ticket, payload, sizeof ticket);
    CHECK(held && ticket == grants, "rank %d gives back lock %llu, not %llu", source,
          (unsigned long long)ticket, (unsigned long long)grants);
    held = false;
    grant(c);
}

static uint64_t steps[LL_MAX_RANKS];

static void step(int source, const void *payload) {
    uint64_t number;
    memcpy(&number, payload, sizeof number);
    CHECK(number == steps[source] + 1, "message %llu of rank %d after %llu",
          (unsigned long long)number, source, (unsigned long long)steps[source]);
    steps[source] = number;
}

static void on_step(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                    void *d) {
    (void)bytes, (void)d;
    step(caller.process, payload);
    tug_answer(c, caller, payload, sizeof(uint64_t));
}

static void on_step_message(tug_context *c, int source, const void *payload, size_t bytes,
                            void *d) {
    (void)c, (void)bytes, (void)d;
    step(source, payload);
}

/* Answers with fewer bytes than were asked for. */
static void on_short(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                     void *d) {
    (void)d;
    tug_answer(c, caller, payload, bytes / 2);
}

/* ---- callers ---- */

static int call(int to, unsigned id, const void *payload, size_t bytes, void *answer,
                size_t answer_bytes) {
    struct ll_record r = {0};
    struct tug_call_params p = {to,     id,           payload,      bytes,
                                answer, answer_bytes, {NULL, NULL}, ll_complete(&r)};
    LL_TRY(context, tug_try_call_async(context, &p));
    return ll_finish(context, &r);
}

static void echo_all(int to) {
    static unsigned char payload[MOST], answer[MOST + 8];
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < SIZES; k++) {
            struct echo echo = {(uint64_t)(check_rank * 100 + i * SIZES + k), sizes[k]};
            size_t bytes = sizes[i];
            if (bytes < sizeof echo)
                echo.bytes = 0;
            else
                check_fill(payload + sizeof echo, bytes - sizeof echo, echo.seed, 1);
            if (bytes >= sizeof echo)
                memcpy(payload, &echo, sizeof echo);
            memset(answer, LL_CANARY, sizeof answer);
            LL_GOOD(call(to, ECHO, bytes > 0 ? payload : NULL, bytes,
                         echo.bytes > 0 ? answer : NULL, echo.bytes));
            check_same(answer, echo.bytes, echo.seed, 2, "answer", __LINE__);
            ll_all(answer + echo.bytes, sizeof answer - echo.bytes, LL_CANARY, "behind the answer",
                   __LINE__);
        }
}

static _Atomic int working;

static void *take_lock_often(void *argument) {
    int rounds = *(int *)argument;
    for (int i = 0; i < rounds; i++) {
        uint64_t ticket = 0;
        struct ll_record r = {0};
        LL_GOOD(call(0, LOCK, NULL, 0, &ticket, sizeof ticket));
        struct tug_am_params p = {0, UNLOCK, &ticket, sizeof ticket, {NULL, NULL}, ll_complete(&r)};
        LL_TRY(context, tug_try_am_async(context, &p));
        LL_GOOD(ll_finish(context, &r));
    }
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static bool nobody_works(void *d) {
    (void)d;
    return atomic_load(&working) == 0;
}

static void pass_the_lock(void) {
    pthread_t threads[THREADS];
    int rounds = ll_rounds(500, 20);
    atomic_store(&working, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_lock_often, &rounds) == 0, "no thread");
    tug_wait(context, nobody_works, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ll_barrier(context);
    if (check_rank == 0)
        CHECK(grants == (uint64_t)rounds * THREADS * (uint64_t)check_nranks && !held, "%llu grants",
              (unsigned long long)grants);
}

/* Few waits: many under way at once. */
static void keep_order(int to) {
    enum { DEPTH = 64 };
    static uint64_t numbers[DEPTH], answers[DEPTH];
    static struct ll_record records[DEPTH];
    int rounds = ll_rounds(200, 10);
    uint64_t number = 0;
    for (int round = 0; round < rounds; round++) {
        memset(records, 0, sizeof records);
        for (int i = 0; i < DEPTH; i++) {
            numbers[i] = ++number;
            struct tug_am_params am = {to, STEP_AM,      &numbers[i],
                                       8,  {NULL, NULL}, ll_complete(&records[i])};
            struct tug_call_params p = {to,          STEP, &numbers[i],  8,
                                        &answers[i], 8,    {NULL, NULL}, ll_complete(&records[i])};
            if (number % 3 == 0)
                LL_TRY(context, tug_try_call_async(context, &p));
            else
                LL_TRY(context, tug_try_am_async(context, &am));
        }
        for (int i = 0; i < DEPTH; i++) {
            LL_GOOD(ll_finish(context, &records[i]));
            CHECK(numbers[i] % 3 != 0 || answers[i] == numbers[i], "the answer to %llu is %llu",
                  (unsigned long long)numbers[i], (unsigned long long)answers[i]);
        }
        ll_once(records, DEPTH);
    }
    ll_barrier(context);
    int from = (check_rank + check_nranks - (to - check_rank)) % check_nranks;
    CHECK(steps[from] == number, "%llu messages of rank %d", (unsigned long long)steps[from], from);
    memset(steps, 0, sizeof steps);
    ll_barrier(context);
}

static void go_wrong(int to) {
    unsigned char some[32] = {0}, answer[32];
    int rc = call(to, 99, some, 8, answer, 8);
    CHECK(rc == TUG_ERR_INVALID, "an id without handler: %s", tug_strerror(rc));
    rc = call(to, SHORT, some, 32, answer, 32);
    CHECK(rc == TUG_ERR_RANGE, "a short answer: %s", tug_strerror(rc));
    rc = call(check_nranks, ECHO, some, 8, answer, 8);
    CHECK(rc == TUG_ERR_INVALID, "a rank that is not there: %s", tug_strerror(rc));
    rc = call(to, TUG_AM_HANDLERS, some, 8, answer, 8);
    CHECK(rc == TUG_ERR_INVALID, "an id that is none: %s", tug_strerror(rc));
    rc = call(to, ECHO, some, TUG_AM_MAX_PAYLOAD + 1, answer, 8);
    CHECK(rc == TUG_ERR_INVALID, "a payload that is too long: %s", tug_strerror(rc));
    rc = call(to, ECHO, some, 8, answer, TUG_AM_MAX_PAYLOAD + 1);
    CHECK(rc == TUG_ERR_INVALID, "an answer that is too long: %s", tug_strerror(rc));
    rc = call(to, ECHO, some, 8, NULL, 8);
    CHECK(rc == TUG_ERR_INVALID, "no place for the answer: %s", tug_strerror(rc));
    CHECK(tug_call_register(context, TUG_AM_HANDLERS, on_echo, NULL) == TUG_ERR_INVALID &&
              tug_call_register(NULL, 0, on_echo, NULL) == TUG_ERR_INVALID,
          "registered what is not there");
    LL_GOOD(call(to, SHORT, some, 16, answer, 8)); /* all is well afterwards */
}

static void run(void) {
    first = last = 0;
    held = false;
    grants = 0;
    context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_call_register(context, ECHO, on_echo, NULL));
    LL_GOOD(tug_call_register(context, LOCK, on_lock, NULL));
    LL_GOOD(tug_call_register(context, STEP, on_step, NULL));
    LL_GOOD(tug_call_register(context, SHORT, on_short, NULL));
    LL_GOOD(tug_am_register(context, UNLOCK, on_unlock, NULL));
    LL_GOOD(tug_am_register(context, STEP_AM, on_step_message, NULL));
    ll_barrier(context);
    for (int distance = 0; distance < check_nranks; distance++) {
        int to = (check_rank + distance) % check_nranks;
        echo_all(to);
        go_wrong(to);
        ll_barrier(context);
        keep_order(to);
    }
    pass_the_lock();
    ll_close(&context);
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_call");
    run();
    return check_end();
}

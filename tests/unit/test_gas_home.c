/* The home of a page in a job of a million: it keeps and does what those who ask for the page cost,
 * not what the job has ranks; it tells all whom a move concerns, whatever their number and however
 * often there is no room; without memory it says so; and a move that shall wait for no hold does
 * not. It tells those who have entered themselves in the page's record, and shows no place there
 * while the page moves; nobody reads words of two moves. LLCL and the engine are played here. */
#include <pthread.h>

#include "check.h"
#include "gas/array.h"
#include "llcl/llcl.h"

enum { MILLION = 1000000, SELF = 0, OWNER = 700000, ASKERS_MOST = 300 };

static struct tug_array array;
static struct tug_array_pool own;
static struct tug_page_record record;
static tug_receive on_ask, on_move;

/* What was sent and not yet answered. */
struct sent {
    struct tug_callback on_complete;
    unsigned kind;
    void *answer;
};
static struct sent sent[4096];
static size_t nsent, nanswered;
static unsigned told[TUG_CALL_KINDS];
static bool was_told[MILLION];
static unsigned nbegun;              /* moves that have begun behind others */
static unsigned no_room;             /* so many calls are refused from now on */
static struct tug_deferred *retried; /* the work that tries again, at most one here */
static struct tug_reply last_reply;
static unsigned nreplies;
static size_t allocated;
static bool held; /* says who is told to stop */
static long until_refusal = -1;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
uint32_t __wrap_tug_context_operations(const tug_context *context);
bool __wrap_tug_try_call_async(tug_context *context, const struct tug_call_params *call);
void __wrap_tug_answer(tug_context *context, struct tug_caller caller, const void *answer,
                       size_t bytes);
void __wrap_tug_deferred_retry(struct tug_deferred_list *deferred, struct tug_deferred *work);
void __wrap_tug_array_receive(struct tug_array *to, enum tug_gas_call kind, tug_receive receive);

void *__wrap_calloc(size_t n, size_t bytes) {
    allocated += n * bytes;
    return until_refusal >= 0 && until_refusal-- == 0 ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    allocated += bytes;
    return until_refusal >= 0 && until_refusal-- == 0 ? NULL : __real_realloc(memory, bytes);
}

uint32_t __wrap_tug_context_operations(const tug_context *context) {
    (void)context;
    return 4096;
}

bool __wrap_tug_try_call_async(tug_context *context, const struct tug_call_params *call) {
    (void)context;
    if (no_room > 0 && no_room-- > 0)
        return false;
    if (call->handler == TUG_CALL_STOP && told[TUG_CALL_FREE] > nbegun) { /* the next move */
        memset(was_told, 0, sizeof(was_told));
        nbegun = told[TUG_CALL_FREE];
    }
    if (call->handler == TUG_CALL_STOP || call->handler == TUG_CALL_CHANGE) {
        assert_false(was_told[call->dest_proc]);
        was_told[call->dest_proc] = true;
    }
    told[call->handler]++;
    sent[nsent++] = (struct sent){call->on_complete, call->handler, call->answer};
    return true;
}

void __wrap_tug_answer(tug_context *context, struct tug_caller caller, const void *answer,
                       size_t bytes) {
    (void)context, (void)caller;
    assert_int_equal(bytes, sizeof(last_reply));
    memcpy(&last_reply, answer, bytes);
    nreplies++;
}

void __wrap_tug_deferred_retry(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    (void)deferred;
    assert_null(retried);
    retried = work;
}

void __wrap_tug_array_receive(struct tug_array *to, enum tug_gas_call kind, tug_receive receive) {
    (void)to;
    if (kind == TUG_CALL_ASK)
        on_ask = receive;
    else
        on_move = receive;
}

/* One page, whose home is here and which is elsewhere. */
static int begin(void **state) {
    (void)state;
    until_refusal = -1;
    memset(told, 0, sizeof(told));
    nsent = nanswered = nreplies = no_room = 0;
    held = false;
    nbegun = 0;
    retried = NULL;
    memset(&record, 0, sizeof(record));
    own = (struct tug_array_pool){.mapped = (unsigned char *)&record};
    array =
        (struct tug_array){.rank = SELF, .nranks = MILLION, .npages = 1, .nslots = 16, .nhomed = 1};
    array.pools = calloc(MILLION, sizeof(*array.pools));
    assert_non_null(array.pools);
    array.pools[SELF] = &own;
    allocated = 0;
    assert_int_equal(tug_home_open(&array, TUG_PLACE_BLOCK), 0);
    (void)tug_home_begin(&array, 0, 0);
    return 0;
}

static int end(void **state) {
    (void)state;
    tug_home_close(&array);
    free((void *)array.pools);
    return 0;
}

static void ask(int rank) {
    const struct tug_question question = {.page = 0, .to = TUG_NO_OWNER};
    on_ask(&array, (struct tug_caller){.process = rank}, &question);
}

/* Answers one call after the other, the latest first in every other case; and tries again. */
static void run(void) {
    while (nsent > 0 || retried != NULL) {
        struct tug_deferred *work = retried;
        if (work != NULL) {
            retried = NULL;
            work->run(work);
        }
        if (nsent == 0)
            continue;
        const size_t i = ++nanswered % 2 == 0 ? nsent - 1 : 0;
        const struct sent one = sent[i];
        memmove(sent + i, sent + i + 1, (--nsent - i) * sizeof(*sent));
        if (one.kind == TUG_CALL_FETCH) {
            memset(was_told, 0, sizeof(was_told));
            *(struct tug_fetched *)one.answer = (struct tug_fetched){.slot = 9};
        }
        if (one.kind == TUG_CALL_STOP)
            *(uint32_t *)one.answer = held;
        one.on_complete.f(one.on_complete.d, 0);
    }
}

static void move(uint32_t to) {
    const struct tug_question question = {.page = 0, .to = to};
    memset(was_told, 0, sizeof(was_told));
    on_move(&array, (struct tug_caller){.process = (int)to}, &question);
    run();
    assert_int_equal(last_reply.status, 0);
    assert_int_equal(last_reply.place.owner, to);
    assert_int_equal(record.wants, 0);
}

static void costs_what_those_who_ask_cost(void **state) {
    (void)state;
    ask(5);
    ask(999999);
    ask(5);
    assert_int_equal(nreplies, 3);
    move(OWNER);
    assert_int_equal(told[TUG_CALL_STOP], 3); /* with the owner, who is the home itself */
    assert_int_equal(told[TUG_CALL_FETCH], 1);
    assert_int_equal(told[TUG_CALL_CHANGE], 4);
    assert_int_equal(told[TUG_CALL_FREE], 1);
    assert_true(allocated < 4096);
}

static void tells_all_whatever_their_number(void **state) {
    (void)state;
    for (int n = 0; n < ASKERS_MOST; n++)
        ask(n * 3331 + 1);
    move(OWNER);
    assert_int_equal(told[TUG_CALL_STOP], ASKERS_MOST + 1);
    assert_int_equal(told[TUG_CALL_CHANGE], ASKERS_MOST + 2);
    assert_true(was_told[OWNER] && was_told[SELF] && was_told[1]);
    assert_true(allocated < 8192);
}

static void tells_all_though_there_is_no_room(void **state) {
    (void)state;
    for (int n = 0; n < ASKERS_MOST; n++)
        ask(n * 3331 + 1);
    for (unsigned refused = 1; refused <= 64; refused *= 4) {
        memset(told, 0, sizeof(told));
        no_room = refused;
        move(OWNER + refused);
        assert_int_equal(told[TUG_CALL_FREE], 1);
        assert_true(told[TUG_CALL_CHANGE] >= ASKERS_MOST + 2);
    }
}

/* The first question and the first move each take one allocation for the list. */
static void says_when_there_is_no_memory(void **state) {
    (void)state;
    until_refusal = 0;
    ask(5);
    assert_int_equal(last_reply.status, TUG_ERR_NO_MEMORY);
    until_refusal = 1; /* after the turn itself */
    const struct tug_question question = {.page = 0, .to = OWNER};
    on_move(&array, (struct tug_caller){.process = 7}, &question);
    assert_int_equal(last_reply.status, TUG_ERR_NO_MEMORY);
    assert_int_equal(nsent, 0);
    assert_int_equal(record.wants, 0);
    move(OWNER);
}

static void move_gently(uint32_t to) {
    const struct tug_question question = {.page = 0, .to = to, .gently = true};
    memset(was_told, 0, sizeof(was_told));
    on_move(&array, (struct tug_caller){.process = (int)to}, &question);
}

static void a_gentle_move_leaves_what_is_held(void **state) {
    (void)state;
    held = true;
    move_gently(OWNER);
    run();
    assert_int_equal(last_reply.status, TUG_ERR_STATE);
    assert_int_equal(last_reply.place.owner, SELF);
    assert_int_equal(last_reply.place.generation, 2); /* puts go on in a new one */
    assert_int_equal(told[TUG_CALL_FETCH], 0);
    assert_int_equal(record.wants, 0);
    held = false;
    move_gently(OWNER);
    run();
    assert_int_equal(last_reply.status, 0);
    assert_int_equal(last_reply.place.owner, OWNER);
}

/* Which may wait for a hold itself. Behind another gentle one it waits. */
static void a_gentle_move_does_not_wait_for_another(void **state) {
    (void)state;
    const struct tug_question question = {.page = 0, .to = 7};
    move_gently(OWNER);
    move_gently(OWNER + 1);
    assert_int_equal(nreplies, 0);
    on_move(&array, (struct tug_caller){.process = 7}, &question);
    move_gently(OWNER + 2);
    assert_int_equal(nreplies, 1);
    assert_int_equal(last_reply.status, TUG_ERR_STATE);
    run();
    assert_int_equal(nreplies, 4);
    assert_int_equal(last_reply.place.owner, 7);
}

/* While those who know the page are told to stop, which may take as long as they hold it, a get
 * learns where it is; a put waits for the end of the move. */
static void a_get_does_not_wait_for_holds(void **state) {
    (void)state;
    const struct tug_question get = {.page = 0, .to = TUG_NO_OWNER};
    const struct tug_question put = {.page = 0, .to = TUG_NO_OWNER, .puts = true};
    const struct tug_question owning = {.page = 0, .to = OWNER};
    memset(was_told, 0, sizeof(was_told));
    on_move(&array, (struct tug_caller){.process = OWNER}, &owning);
    assert_int_equal(nreplies, 0);
    on_ask(&array, (struct tug_caller){.process = 5}, &get);
    assert_int_equal(nreplies, 1);
    assert_int_equal(last_reply.status, 0);
    assert_int_equal(last_reply.place.owner, SELF);
    assert_false(last_reply.puts);
    on_ask(&array, (struct tug_caller){.process = 6}, &put);
    assert_int_equal(nreplies, 1);
    run();
    assert_int_equal(nreplies, 3);
    assert_int_equal(last_reply.place.owner, OWNER);
    assert_true(last_reply.puts);
    assert_true(was_told[5]); /* of the change */
}

/* ---- records ---- */

static bool shows(uint32_t owner) {
    struct tug_page_slot place;
    return tug_record_read(&record.seen, &place) && place.owner == owner &&
           place.slot == (owner == SELF ? 0 : 9);
}

static void tells_those_who_have_entered_themselves(void **state) {
    (void)state;
    assert_true(shows(SELF));
    record.askers[1] = 5 + 1;
    record.askers[2] = 999998 + 1;
    record.askers[3] = MILLION + 1; /* no rank */
    move(OWNER);
    assert_true(was_told[5] && was_told[999998]);
    assert_int_equal(told[TUG_CALL_STOP], 3);
    for (int i = 0; i < TUG_RECORD_ASKERS; i++)
        assert_int_equal(record.askers[i], 0);
    assert_true(shows(OWNER));
}

/* One who meets another one in the word asks, and then there is room. */
static void a_question_makes_room_for_askers(void **state) {
    (void)state;
    record.askers[1] = 5 + 1;
    ask(9);
    assert_int_equal(record.askers[1], 0);
    move(OWNER);
    assert_true(was_told[5] && was_told[9]);
}

static void shows_no_place_while_the_page_moves(void **state) {
    const struct tug_question question = {.page = 0, .to = OWNER};
    struct tug_page_slot place;
    (void)state;
    memset(was_told, 0, sizeof(was_told));
    on_move(&array, (struct tug_caller){.process = OWNER}, &question);
    on_move(&array, (struct tug_caller){.process = OWNER}, &question); /* behind it, for nothing */
    assert_false(tug_record_read(&record.seen, &place));
    run();
    assert_true(shows(OWNER));
}

static void shows_the_place_of_a_page_that_cannot_move(void **state) {
    const struct tug_question question = {.page = 0, .to = OWNER};
    (void)state;
    until_refusal = 1; /* after the turn itself */
    record.askers[0] = 5 + 1;
    on_move(&array, (struct tug_caller){.process = OWNER}, &question);
    assert_int_equal(last_reply.status, TUG_ERR_NO_MEMORY);
    assert_true(shows(SELF));
    move(OWNER);
    assert_true(was_told[5]);
}

static struct tug_seen shown;
static _Atomic bool over;
static _Atomic unsigned found, torn;

/* In whichever order a card or a processor reads. */
static void *read_records(void *argument) {
    while (!atomic_load(&over)) {
        struct tug_seen seen;
        struct tug_page_slot place;
        if (argument != NULL)
            seen.place = atomic_load(&shown.place);
        seen.generation = atomic_load(&shown.generation);
        seen.check = atomic_load(&shown.check);
        if (argument == NULL)
            seen.place = atomic_load(&shown.place);
        if (tug_record_read(&seen, &place))
            atomic_fetch_add(place.owner == place.generation % 1000 ? &found : &torn, 1);
    }
    return NULL;
}

static void nobody_reads_words_of_two_moves(void **state) {
    enum { MOVES = 1000000 };
    pthread_t readers[2];
    (void)state;
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_records, (void *)i), 0);
    for (uint64_t n = 1; n <= MOVES || (atomic_load(&found) < 1000 && n < 100 * MOVES); n++) {
        atomic_store(&shown.generation, 0);
        tug_record_show(&shown, &(struct tug_page_slot){.generation = n, .owner = n % 1000});
        for (volatile uint64_t stays = n % 64; stays > 0; stays--) {
        }
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_true(found > 0);
    assert_int_equal(torn, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(costs_what_those_who_ask_cost, begin, end),
        cmocka_unit_test_setup_teardown(tells_all_whatever_their_number, begin, end),
        cmocka_unit_test_setup_teardown(tells_all_though_there_is_no_room, begin, end),
        cmocka_unit_test_setup_teardown(says_when_there_is_no_memory, begin, end),
        cmocka_unit_test_setup_teardown(a_gentle_move_leaves_what_is_held, begin, end),
        cmocka_unit_test_setup_teardown(a_gentle_move_does_not_wait_for_another, begin, end),
        cmocka_unit_test_setup_teardown(a_get_does_not_wait_for_holds, begin, end),
        cmocka_unit_test_setup_teardown(tells_those_who_have_entered_themselves, begin, end),
        cmocka_unit_test_setup_teardown(a_question_makes_room_for_askers, begin, end),
        cmocka_unit_test_setup_teardown(shows_no_place_while_the_page_moves, begin, end),
        cmocka_unit_test_setup_teardown(shows_the_place_of_a_page_that_cannot_move, begin, end),
        cmocka_unit_test(nobody_reads_words_of_two_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

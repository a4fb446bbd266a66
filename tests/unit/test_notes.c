/* Notes: written by their threads, executed by whoever drives, in which order, and when. */
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/private.h"
#include "engine_fixture.h"

static uint64_t order[4096];
static unsigned executed; /* under the baton */
static unsigned room;     /* notes are executed as long as there is any */

static bool record(const struct tug_note *note) {
    if (room == 0)
        return false;
    room--;
    order[executed++ % 4096] = note->payload.words[0];
    return true;
}

static bool write_in(struct tug_note *place, uint64_t value) {
    if (place == NULL)
        return false;
    place->execute = record;
    place->payload.words[0] = value;
    tug_note_end();
    return true;
}

static bool note(uint64_t value) {
    return write_in(tug_note_begin(TUG_NOTE_ANY), value);
}

static bool note_next(uint64_t value) {
    return write_in(tug_note_next(), value);
}

/* Something is out: notes are not executed by their writer one by one. */
static struct step_job job;

static int start(void **state) {
    (void)state;
    executed = 0;
    room = UINT32_MAX;
    start_engine(TUG_PROGRESS_CALLER, 16);
    return 0;
}

static void begin_job(void) {
    step_job_init(&job, 1, 0, NULL);
    tug_engine_launch(&job.base);
}

static void end_job(void) {
    atomic_store(&job.permitted, 1);
    step_job_wait(&job);
}

static int stop(void **state) {
    (void)state;
    stop_engine();
    return 0;
}

static void expect(unsigned count) {
    assert_int_equal(executed, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(order[i % 4096], i);
}

static void the_first_is_executed_at_once(void **state) {
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(note(i));
        expect(i + 1);
    }
    assert_false(tug_notes_waiting());
}

static void prompt_ones_need_company(void **state) {
    (void)state;
    assert_null(tug_note_begin(TUG_NOTE_PROMPT));
    begin_job();
    assert_non_null(tug_note_begin(TUG_NOTE_PROMPT));
    end_job();
    assert_null(tug_note_begin(TUG_NOTE_PROMPT));
}

static void others_wait_until_asked_for(void **state) {
    (void)state;
    begin_job();
    for (unsigned i = 0; i < TUG_NOTES; i++) {
        assert_true(note(i));
        expect(0);
    }
    assert_true(tug_notes_waiting());
    tug_notes_settle();
    expect(TUG_NOTES);
    assert_false(tug_notes_waiting());
    end_job();
}

static void a_full_notebook_is_emptied_by_its_writer(void **state) {
    (void)state;
    begin_job();
    for (unsigned i = 0; i < 20 * TUG_NOTES + 1; i++)
        assert_true(note(i));
    expect(20 * TUG_NOTES);
    tug_notes_settle();
    expect(20 * TUG_NOTES + 1);
    end_job();
}

static void some_follow_without_a_look(void **state) {
    (void)state;
    unsigned n = 1, begun = 1;
    begin_job();
    assert_true(note(0));
    while (note_next(n))
        n++;
    assert_in_range(n, 8, TUG_NOTES / 2);
    expect(0);
    for (; n < 20 * TUG_NOTES; n++)
        if (!note_next(n)) {
            assert_true(note(n));
            begun++;
        }
    assert_in_range(begun, 20, 20 * TUG_NOTES / 8);
    tug_notes_settle();
    expect(n);
    end_job();
}

/* Behind three. Once looked, the next follows without. */
static void end_with_two_more(void) {
    assert_true(note(3));
    assert_true(note_next(4));
    tug_notes_settle();
    expect(5);
    end_job();
}

/* With nothing out, and behind one that another may have to come behind. */
static void none_follows_that_wants_a_look(void **state) {
    (void)state;
    assert_true(note(0));
    assert_null(tug_note_next());
    begin_job();
    assert_true(write_in(tug_note_begin(TUG_NOTE_IN_ORDER), 1));
    assert_null(tug_note_next());
    assert_true(write_in(tug_note_begin(TUG_NOTE_LATER), 2));
    assert_null(tug_note_next());
    end_with_two_more();
}

static void append(void *value);

/* Something that is looked after, and told whether more is to come. */
static unsigned looks[2];

static bool poll(struct tug_service *service, bool more_comes) {
    (void)service;
    looks[more_comes]++;
    return false;
}

static void flush(struct tug_service *service) {
    (void)service;
}

static bool busy(struct tug_service *service) {
    (void)service;
    return false;
}

static bool arm(struct tug_service *service) {
    (void)service;
    return true;
}

static void a_writer_looks_around_and_says_that_more_comes(void **state) {
    (void)state;
    static struct tug_bell bell;
    struct tug_service service = {
        .poll = poll, .flush = flush, .busy = busy, .arm = arm, .bell = &bell, .descriptor = -1};
    tug_engine_serve(&service);
    begin_job();
    looks[true] = looks[false] = 0;
    for (unsigned i = 0; i < 20 * TUG_NOTES + 1; i++)
        assert_true(note(i));
    assert_int_equal(looks[true], 20 * TUG_NOTES / 512);
    assert_int_equal(looks[false], 0);
    room = 0; /* nobody looks while no note can begin its operation */
    for (unsigned i = 0; i < TUG_NOTES; i++)
        (void)note(i);
    assert_int_equal(looks[true], 20 * TUG_NOTES / 512);
    assert_int_equal(looks[false], 1);
    room = UINT32_MAX;
    end_job();
    tug_engine_unserve(&service);
}

/* Once when it is served so, for what came before; then not without one. */
static void with_jobs_alone_it_looks_once_before(void **state) {
    (void)state;
    static struct tug_bell bell;
    struct tug_service service = {
        .poll = poll, .flush = flush, .busy = busy, .arm = arm, .bell = &bell, .descriptor = -1};
    tug_engine_serve(&service);
    looks[false] = 0;
    tug_engine_serve_with_jobs(&service);
    assert_true(looks[false] > 0);
    looks[false] = 0;
    tug_engine_call(append, NULL);
    assert_int_equal(looks[false], 0);
    tug_engine_unserve(&service);
}

static void append(void *value) {
    order[executed++ % 4096] = (uintptr_t)value;
}

static void they_go_ahead_of_later_commands(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    begin_job();
    for (unsigned i = 0; i < 300; i += 3) {
        assert_true(note(i));
        tug_engine_call(append, (void *)(uintptr_t)(i + 1));
        assert_true(note(i + 2));
        assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
        expect(i + 3);
        tug_engine_leave();
    }
    end_job();
}

static void execute_append(struct tug_command *command) {
    append((void *)(uintptr_t)command->payload.words[0]);
}

/* It may still stand in the ring: no note goes ahead of it. */
static void none_follows_a_command_without_a_look(void **state) {
    (void)state;
    struct tug_ticket baton, ticket;
    begin_job();
    assert_true(note(0));
    assert_true(note_next(1));
    assert_int_equal(tug_engine_enter(&baton), TUG_ENTRY_BATON);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_TICKET);
    ticket.cell->execute = execute_append;
    ticket.cell->payload.words[0] = 2;
    tug_engine_commit(&ticket);
    assert_null(tug_note_next());
    assert_false(note(3));
    tug_engine_leave();
    expect(3);
    assert_null(tug_note_next());
    end_with_two_more();
}

static void a_round_executes_them(void **state) {
    (void)state;
    begin_job();
    assert_true(note(0));
    expect(0);
    tug_engine_poll();
    expect(1);
    end_job();
}

static void without_room_nothing_goes_ahead(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    begin_job();
    room = 1;
    for (unsigned i = 0; i < TUG_NOTES; i++)
        assert_true(note(i));
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_FULL);
    expect(1);
    assert_true(note(TUG_NOTES));
    assert_false(note(TUG_NOTES + 1)); /* full again */
    expect(1);
    room = UINT32_MAX;
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    expect(TUG_NOTES + 1);
    tug_engine_leave();
    end_job();
}

static void *note_in_order(void *unused) {
    struct tug_note *place = tug_note_begin(TUG_NOTE_IN_ORDER);
    (void)unused;
    assert_non_null(place);
    place->execute = record;
    place->payload.words[0] = executed;
    tug_note_end();
    tug_notes_settle();
    return NULL;
}

static void *note_and_go(void *unused) {
    (void)unused;
    assert_true(note(executed));
    return NULL;
}

static void run(void *(*function)(void *)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    pthread_join(thread, NULL);
}

/* What others have noted in any order waits, though some notes were in order once. */
static void only_those_in_order_go_ahead_of_others(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    begin_job();
    run(note_in_order);
    run(note_and_go);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    tug_engine_leave();
    expect(1);
    tug_notes_settle();
    expect(2);
    end_job();
}

enum { WRITERS = 40 };
static pthread_barrier_t all_have_one;

static void *note_with_others(void *unused) {
    (void)unused;
    (void)note(0);
    pthread_barrier_wait(&all_have_one);
    assert_true(tug_notes_open() >= WRITERS);
    pthread_barrier_wait(&all_have_one);
    tug_notes_settle();
    return NULL;
}

static void those_of_threads_that_have_ended_are_not_looked_at(void **state) {
    (void)state;
    pthread_t threads[WRITERS];
    assert_true(note(0));
    tug_notes_settle();
    pthread_barrier_init(&all_have_one, NULL, WRITERS);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, note_with_others, NULL), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_have_one);
    assert_int_equal(tug_notes_open(), 1);
}

static void *note_and_look(void *argument) {
    struct tug_notebook **book = argument;
    assert_null(tug_note_begin(TUG_NOTE_IN_ORDER)); /* another's is there */
    assert_true(note(1));
    *book = tug_notebook;
    return NULL;
}

static struct tug_notebook *in_a_thread(void) {
    struct tug_notebook *book = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, note_and_look, &book), 0);
    pthread_join(thread, NULL);
    return book;
}

static void threads_have_notebooks_of_their_own(void **state) {
    (void)state;
    begin_job();
    assert_true(note(0));
    struct tug_notebook *first = in_a_thread();
    assert_non_null(first);
    assert_ptr_not_equal(first, tug_notebook);
    assert_ptr_equal(in_a_thread(), first); /* and leave them to the next, with what is in them */
    expect(0);
    assert_null(tug_note_begin(TUG_NOTE_IN_ORDER));
    tug_notes_settle();
    assert_int_equal(executed, 3);
    assert_non_null(tug_note_begin(TUG_NOTE_IN_ORDER));
    end_job();
}

/* ---- operations in company ---- */

/* Of these distance and bytes are the same number. */
static uint32_t record_run(const struct tug_company *company, const unsigned char *run,
                           uint32_t n) {
    uint32_t done = 0;
    for (; done < n && room > 0; done++, room--, run += sizeof(uint32_t) + company->bytes) {
        uint32_t distance;
        memcpy(&distance, run, sizeof(distance));
        assert_int_equal(run[sizeof(distance)], distance % 256);
        assert_int_equal(company->words[0], company->bytes);
        order[executed++ % 4096] = distance;
    }
    return done;
}

static struct tug_company *open_company(uint32_t bytes) {
    struct tug_company *company = tug_company_open(TUG_COMPANY_WRITES, bytes);
    if (company != NULL) {
        company->execute = record_run;
        company->words[0] = bytes;
    }
    return company;
}

static bool join(struct tug_company *company, uint32_t value) {
    unsigned char data[TUG_COMPANY_MOST];
    memset(data, (int)(value % 256), sizeof(data));
    if (!tug_company_has_room(company, TUG_COMPANY_WRITES) &&
        !tug_company_go(company, TUG_COMPANY_WRITES))
        return false;
    tug_company_add_any(company, TUG_COMPANY_WRITES, value, data);
    return true;
}

static void company_waits_until_asked_for(void **state) {
    (void)state;
    struct tug_company *company = open_company(8);
    for (unsigned i = 0; i < 10; i++)
        assert_true(join(company, i));
    expect(0);
    assert_true(tug_notes_waiting());
    assert_null(open_company(4)); /* the other waits */
    tug_notes_settle();
    expect(10);
    assert_false(tug_notes_waiting());
    assert_non_null(company = open_company(4));
    begin_job();
    assert_true(join(company, 10));
    tug_engine_poll();
    expect(11);
    end_job();
}

/* Of all lengths, over the end of the ring, and half of it at a time too. */
static void company_goes_while_more_joins(void **state) {
    (void)state;
    unsigned joined = 0;
    for (uint32_t bytes = 1; bytes <= TUG_COMPANY_MOST; bytes++) {
        struct tug_company *company = open_company(bytes);
        assert_non_null(company);
        for (unsigned i = 0; i < 5 * TUG_COMPANY + bytes; i++)
            assert_true(join(company, joined++));
        assert_true(executed > joined - TUG_COMPANY);
        room = bytes; /* some of them */
        tug_engine_poll();
        room = UINT32_MAX;
        tug_notes_settle();
        assert_int_equal(executed, joined);
    }
    for (unsigned i = 0; i < joined && i < 4096; i++)
        assert_int_equal(order[(joined - 1 - i) % 4096], joined - 1 - i);
}

static void without_room_company_is_full(void **state) {
    (void)state;
    struct tug_company *company = open_company(8);
    unsigned joined = 0;
    room = 0;
    while (join(company, joined))
        joined++;
    assert_int_equal(joined, TUG_COMPANY);
    assert_false(join(company, joined));
    room = 3;
    assert_true(join(company, joined++));
    expect(3);
    room = UINT32_MAX;
    tug_notes_settle();
    expect(joined);
}

static unsigned read_so_far;

static uint32_t count_reads(const struct tug_company *company, const unsigned char *run,
                            uint32_t n) {
    (void)company, (void)run;
    assert_int_equal(executed, 0);
    read_so_far += n;
    return n;
}

/* Reads go ahead of notes and writes, and who needs no more than reads has them executed. */
static void reads_are_not_overtaken(void **state) {
    (void)state;
    struct tug_company *writes = open_company(8);
    read_so_far = 0;
    begin_job();
    assert_true(join(writes, 0));
    assert_true(note(1));
    tug_reads_settle();
    expect(0);
    struct tug_company *reads = tug_company_open(TUG_COMPANY_READS, 8);
    assert_non_null(reads);
    reads->execute = count_reads;
    for (unsigned i = 0; i < 10; i++) {
        assert_true(tug_company_has_room(reads, TUG_COMPANY_READS));
        tug_company_add_any(reads, TUG_COMPANY_READS, i, &(uint64_t){i});
    }
    assert_int_equal(read_so_far, 0);
    assert_true(tug_notes_waiting());
    tug_reads_settle();
    assert_int_equal(read_so_far, 10);
    tug_notes_settle();
    assert_int_equal(executed, 2);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 0);
    end_job();
}

static struct tug_company *others; /* which this thread may not join */
static _Atomic bool others_end;

static void *keep_company(void *unused) {
    uint32_t joined = 0;
    (void)unused;
    others = open_company(8);
    assert_non_null(others);
    for (; joined < 200000; joined++)
        while (!join(others, joined))
            ;
    atomic_store(&others_end, true);
    return NULL;
}

/* One thread joins, another asks for what waits, over and over. */
static void others_ask_for_company(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&others_end, false);
    assert_int_equal(pthread_create(&thread, NULL, keep_company, NULL), 0);
    while (!atomic_load(&others_end))
        tug_notes_settle();
    pthread_join(thread, NULL);
    tug_notes_settle();
    assert_int_equal(executed, 200000);
    for (unsigned i = executed - 4096; i < executed; i++)
        assert_int_equal(order[i % 4096], i);
    assert_non_null(open_company(8));
    assert_false(join(others, 0)); /* not this thread's: as where a thread ends */
}

/* ---- those who sleep are told ---- */

static _Atomic bool answered;

static bool answer(const struct tug_note *note) {
    (void)note;
    atomic_store(&answered, true);
    return true;
}

static bool is_answered(void *argument) {
    (void)argument;
    return atomic_load(&answered);
}

static void *wait_for_the_answer(void *argument) {
    tug_engine_wait(is_answered, NULL, -1, 0);
    return argument;
}

static bool driver_sleeps(void) {
    return atomic_load(&tug_engine.ring.state) & TUG_BATON_SLEEP;
}

/* What a thread waits for comes with another's note, which nobody asks for: with something out that
 * keeps the writer from executing it itself, and with nothing out, so that it tries to. */
static void a_sleeping_driver_is_told(void **state) {
    (void)state;
    for (int turn = 0; turn < 6; turn++) {
        static struct tug_bell bell;
        pthread_t waiter;
        atomic_store(&answered, false);
        step_job_init(&job, 1, 0, &bell);
        if (turn % 2 == 0)
            tug_engine_launch(&job.base);
        assert_int_equal(pthread_create(&waiter, NULL, wait_for_the_answer, NULL), 0);
        CHECK_SOON(driver_sleeps());
        check_sleep_us(turn < 3 ? 0 : 5000); /* in its first sleep, or in a later one */
        struct tug_note *place = tug_note_begin(TUG_NOTE_ANY);
        assert_non_null(place);
        place->execute = answer;
        tug_note_end();
        CHECK_SOON(is_answered(NULL));
        pthread_join(waiter, NULL);
        if (turn % 2 == 0)
            end_job();
    }
}

static int start_offload(void **state) {
    (void)state;
    start_engine(TUG_PROGRESS_AUTO, 16);
    return 0;
}

static uint32_t answer_run(const struct tug_company *company, const unsigned char *run,
                           uint32_t n) {
    (void)company, (void)run;
    atomic_store(&answered, true);
    return n;
}

/* Nobody asks for what has joined, and everybody sleeps deep. */
static void company_that_nobody_asks_for_is_executed(void **state) {
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        atomic_store(&answered, false);
        begin_job();
        end_job();
        CHECK_SOON(tug_notes_wanted_by(TUG_NOTES_OFFLOAD));
        check_sleep_us(5000);
        struct tug_company *company = tug_company_open(TUG_COMPANY_WRITES, 8);
        assert_non_null(company);
        company->execute = answer_run;
        assert_true(join(company, 0));
        CHECK_SOON(is_answered(NULL));
        tug_notes_settle();
    }
}

/* Something was out when the note was begun, and everybody sleeps deep when it is written. */
static void a_note_that_comes_late_is_executed(void **state) {
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        atomic_store(&answered, false);
        begin_job();
        struct tug_note *place = tug_note_begin(TUG_NOTE_ANY);
        assert_non_null(place);
        end_job();
        CHECK_SOON(tug_notes_wanted_by(TUG_NOTES_OFFLOAD));
        check_sleep_us(5000);
        place->execute = answer;
        tug_note_end();
        CHECK_SOON(is_answered(NULL));
    }
}

/* ---- the writers' fence ---- */

static _Atomic unsigned fences;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
/* Hands on six arguments, also where there are fewer: these are not looked at. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_membarrier && a[0] == TUG_MEMBARRIER_GLOBAL_EXPEDITED)
        atomic_fetch_add(&fences, 1);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void a_mark_that_is_left_alone_is_fenced_once(void **state) {
    (void)state;
    struct tug_stand stand;
    tug_stand_begin(&stand);
    assert_int_equal(tug_stand_limit(&stand, -1), TUG_TICK_NS);
    assert_int_equal(tug_stand_limit(&stand, 10), 10);
    stand.since_ns = tug_clock_ns() - TUG_TICK_NS;
    atomic_store(&fences, 0);
    tug_stand_fence(&stand);
    tug_stand_fence(&stand);
    assert_int_equal(atomic_load(&fences), 1);
    assert_int_equal(tug_stand_limit(&stand, -1), -1);
    tug_stand_begin(&stand);
    assert_int_equal(tug_stand_limit(&stand, -1), TUG_TICK_NS);
}

/* The fence of the first deep sleep may come before the test itself begins. */
static int start_offload_unfenced(void **state) {
    atomic_store(&fences, 0);
    return start_offload(state);
}

/* The offload thread has a writer beside it, and nothing to do. */
static void a_deep_sleep_is_fenced(void **state) {
    (void)state;
    assert_true(note(1));
    tug_notes_settle();
    for (int i = 0; i < 1000 && atomic_load(&fences) == 0; i++)
        usleep(10000);
    assert_true(atomic_load(&fences) > 0);
}

static int start_thread(void **state) {
    (void)state;
    executed = 0;
    start_engine(TUG_PROGRESS_THREAD, 16);
    return 0;
}

static void none_where_callers_may_not_drive(void **state) {
    (void)state;
    assert_false(note(0));
    assert_null(tug_company_open(TUG_COMPANY_WRITES, 8));
    tug_notes_settle();
    expect(0);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(the_first_is_executed_at_once),
        CASE(prompt_ones_need_company),
        CASE(others_wait_until_asked_for),
        CASE(a_full_notebook_is_emptied_by_its_writer),
        CASE(some_follow_without_a_look),
        CASE(none_follows_that_wants_a_look),
        CASE(none_follows_a_command_without_a_look),
        CASE(a_writer_looks_around_and_says_that_more_comes),
        CASE(with_jobs_alone_it_looks_once_before),
        CASE(they_go_ahead_of_later_commands),
        CASE(a_round_executes_them),
        CASE(without_room_nothing_goes_ahead),
        CASE(only_those_in_order_go_ahead_of_others),
        CASE(those_of_threads_that_have_ended_are_not_looked_at),
        CASE(threads_have_notebooks_of_their_own),
        CASE(company_waits_until_asked_for),
        CASE(company_goes_while_more_joins),
        CASE(without_room_company_is_full),
        CASE(reads_are_not_overtaken),
        CASE(others_ask_for_company),
        CASE(a_sleeping_driver_is_told),
        cmocka_unit_test_setup_teardown(a_note_that_comes_late_is_executed, start_offload, stop),
        cmocka_unit_test_setup_teardown(company_that_nobody_asks_for_is_executed, start_offload,
                                        stop),
        cmocka_unit_test_setup_teardown(none_where_callers_may_not_drive, start_thread, stop),
        cmocka_unit_test(a_mark_that_is_left_alone_is_fenced_once),
        cmocka_unit_test_setup_teardown(a_deep_sleep_is_fenced, start_offload_unfenced, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Batches: records written by their threads, started by the thread that drives, in which order, and
 * when. */
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/private.h"
#include "engine_fixture.h"
#include "llcl/batch.h"

static uint64_t order[4096];
static unsigned executed; /* under the baton */
static unsigned room;     /* records are started as long as there is any */

/* A record's value is its offset; its data repeat the lowest byte of that. */
static uint32_t record_run(const struct tug_batch_form *form, const unsigned char *run,
                           uint32_t n) {
    uint32_t done = 0;
    for (; done < n && room > 0; done++, room--, run += tug_batch_step(form->record)) {
        int32_t distance;
        memcpy(&distance, run, sizeof(distance));
        const uint64_t value = form->offset + (uint64_t)(int64_t)distance;
        for (unsigned i = 0; i < form->record; i++)
            assert_int_equal(run[sizeof(distance) + i], value % 256);
        order[executed++ % 4096] = value;
    }
    return done;
}

static struct tug_batch_form of_bytes(unsigned bytes) {
    return (struct tug_batch_form){.start = record_run, .record = (uint16_t)bytes};
}

static void add(uint32_t distance, uint64_t value, unsigned bytes) {
    unsigned char data[TUG_RECORD_MOST];
    memset(data, (int)(value % 256), sizeof(data));
    tug_batch_add(distance, data, bytes);
}

static bool write_bytes(uint64_t value, unsigned how, unsigned bytes) {
    const struct tug_batch_form form = of_bytes(bytes);
    uint32_t distance;
    if (!tug_batch_begin(&form, how, value, &distance))
        return false;
    add(distance, value, bytes);
    return true;
}

static bool write_as(uint64_t value, unsigned how) {
    return write_bytes(value, how, 8);
}

static bool write_one(uint64_t value) {
    return write_as(value, 0);
}

static bool write_next(uint64_t value) {
    uint32_t distance;
    if (!tug_batch_continues(tug_batch, value, &distance))
        return false;
    add(distance, value, 8);
    return true;
}

static bool may_begin(unsigned how) {
    const struct tug_batch_form form = of_bytes(8);
    uint32_t distance;
    return tug_batch_begin(&form, how, 0, &distance);
}

#define MANY 2000 /* records, more than a batch holds */

/* Something is out: records are not started by their writer one by one. */
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

static void the_first_is_started_at_once(void **state) {
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(write_one(i));
        expect(i + 1);
    }
    assert_false(tug_batch_waits());
}

static void prompt_ones_need_company(void **state) {
    (void)state;
    assert_false(may_begin(TUG_BATCH_PROMPT));
    begin_job();
    assert_true(may_begin(TUG_BATCH_PROMPT));
    end_job();
    assert_false(may_begin(TUG_BATCH_PROMPT));
}

static void others_wait_until_asked_for(void **state) {
    (void)state;
    begin_job();
    for (unsigned i = 0; i < 100; i++) {
        assert_true(write_one(i));
        expect(0);
    }
    assert_true(tug_batch_waits());
    tug_batch_settle();
    expect(100);
    assert_false(tug_batch_waits());
    end_job();
}

/* Those that wait for others do not even with nothing out, and go some at a time. */
static void those_that_wait_go_in_parts(void **state) {
    (void)state;
    unsigned n = 0;
    for (; executed == 0; n++)
        assert_true(write_as(n, TUG_BATCH_WAITS));
    assert_in_range(n, 17, 129);
    for (; n < MANY; n++) {
        assert_true(write_as(n, TUG_BATCH_WAITS));
        assert_true(executed + 130 > n);
    }
    tug_batch_settle();
    expect(MANY);
}

static void a_full_batch_is_emptied_by_its_writer(void **state) {
    (void)state;
    unsigned n = 0;
    begin_job();
    for (; executed == 0; n++)
        assert_true(write_one(n));
    assert_in_range(n, TUG_BATCH_BYTES / 20, TUG_BATCH_BYTES / 12);
    for (; n < 2 * MANY; n++)
        assert_true(write_one(n));
    tug_batch_settle();
    expect(2 * MANY);
    end_job();
}

static void some_follow_without_a_look(void **state) {
    (void)state;
    unsigned n = 1, begun = 1;
    begin_job();
    assert_true(write_one(0));
    while (write_next(n))
        n++;
    assert_in_range(n, 8, 64);
    expect(0);
    for (; n < MANY; n++)
        if (!write_next(n)) {
            assert_true(write_one(n));
            begun++;
        }
    assert_in_range(begun, 20, MANY / 8);
    tug_batch_settle();
    expect(n);
    end_job();
}

/* Behind three. Once looked, the next follows without. */
static void end_with_two_more(void) {
    assert_true(write_one(3));
    assert_true(write_next(4));
    tug_batch_settle();
    expect(5);
    end_job();
}

/* With nothing out, and behind one that another may have to come behind. */
static void none_follows_that_wants_a_look(void **state) {
    (void)state;
    assert_true(write_one(0));
    assert_false(write_next(1));
    begin_job();
    assert_true(write_as(1, TUG_BATCH_IN_ORDER));
    assert_false(write_next(2));
    assert_true(write_as(2, TUG_BATCH_IN_ORDER));
    assert_false(write_next(3));
    end_with_two_more();
}

/* ---- forms ---- */

/* Of all lengths, near and far, some like the one before: over the end of the ring many times, and
 * started one, some or all at a time. */
static void forms_and_records_come_out_as_they_went_in(void **state) {
    (void)state;
    static uint64_t values[200000];
    unsigned n = 0, bytes = 0;
    uint64_t value = 0;
    begin_job();
    srandom(1);
    while (n < sizeof(values) / sizeof(values[0])) {
        const long what = random() % 16;
        if (what == 0)
            bytes = (unsigned)random() % (TUG_RECORD_MOST + 1);
        if (what == 1)
            value = (uint64_t)random() << 33;
        value += (uint64_t)(random() % 64) - 32;
        if (write_bytes(value, what == 2 ? TUG_BATCH_WAITS : 0, bytes))
            values[n++] = value;
        if (what == 3) {
            const unsigned before = executed;
            room = (unsigned)random() % 8;
            tug_engine_poll();
            assert_true(executed - before <= 8);
            room = UINT32_MAX;
        }
        if (n - executed == 0 || what == 4)
            tug_batch_settle();
        assert_true(executed <= n);
        for (unsigned i = executed > 64 ? executed - 64 : 0; i < executed; i++)
            assert_int_equal(order[i % 4096], values[i]);
    }
    tug_batch_settle();
    assert_int_equal(executed, n);
    end_job();
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

/* Something that is looked after by that poll; of one test at a time. */
static struct tug_service *serve(bool (*poll)(struct tug_service *service, bool more_comes)) {
    static struct tug_bell bell;
    static struct tug_service service;
    service = (struct tug_service){
        .poll = poll, .flush = flush, .busy = busy, .arm = arm, .bell = &bell, .descriptor = -1};
    tug_engine_serve(&service);
    return &service;
}

/* A callback, which runs while room is made, writes a record of another form. */
static uint64_t written_meanwhile;

static bool poll_and_write(struct tug_service *service, bool more_comes) {
    (void)service, (void)more_comes;
    if (written_meanwhile > 0)
        return false;
    written_meanwhile = 1;
    assert_true(write_bytes(77, 0, 3));
    return false;
}

static void callbacks_write_other_forms_meanwhile(void **state) {
    (void)state;
    unsigned n = 0;
    begin_job();
    written_meanwhile = 1;
    struct tug_service *service = serve(poll_and_write);
    room = 0; /* the writer looks when its batch is full and nothing can be started */
    while (write_as(n, TUG_BATCH_WAITS))
        n++;
    room = UINT32_MAX;
    tug_batch_settle();
    expect(n);
    written_meanwhile = 0;
    room = 50;
    const unsigned first = n;
    for (; written_meanwhile == 0; n++) {
        const struct tug_batch_form form = tug_batch->form;
        uint32_t distance;
        assert_int_equal(form.record, 8);
        assert_true(tug_batch_begin(&form, TUG_BATCH_WAITS, n, &distance));
        add(distance, n, 8);
    }
    assert_in_range(n - first, 1, 1000);
    room = UINT32_MAX;
    tug_batch_settle();
    assert_int_equal(executed, n + 1);
    assert_int_equal(order[(executed - 1) % 4096], n - 1);
    assert_int_equal(order[(executed - 2) % 4096], 77); /* it was written while n - 1 was begun */
    end_job();
    tug_engine_unserve(service);
}

static void a_distance_reaches_as_far_as_it_can(void **state) {
    (void)state;
    const uint64_t base = UINT64_C(1) << 40, half = UINT64_C(1) << 31;
    const uint64_t near[] = {base + half - 1, base - half + 2},
                   far[] = {base + half, base - half + 1};
    uint32_t distance;
    begin_job();
    assert_true(write_one(base));
    for (int i = 0; i < 2; i++) {
        assert_true(tug_batch_continues(tug_batch, near[i], &distance));
        assert_false(tug_batch_continues(tug_batch, far[i], &distance));
        assert_true(write_one(near[i]));
    }
    assert_int_equal(tug_batch->form.offset, base);
    assert_true(write_one(far[0]));
    assert_int_equal(tug_batch->form.offset, far[0]);
    assert_true(write_one(far[1]));
    tug_batch_settle();
    const uint64_t all[] = {base, near[0], near[1], far[0], far[1]};
    assert_int_equal(executed, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(order[i], all[i]);
    end_job();
}

/* The form that was written last is that of the next record, also when all have been started. */
static void a_form_is_written_once(void **state) {
    (void)state;
    begin_job();
    assert_true(write_one(0));
    for (unsigned i = 1; i < 1000; i++) {
        const uint64_t before = atomic_load(&tug_batch->written);
        tug_batch_settle();
        assert_true(write_one(i));
        const uint64_t bytes = atomic_load(&tug_batch->written) - before;
        assert_true(bytes >= tug_batch_step(8) && bytes < 2 * tug_batch_step(8));
    }
    tug_batch_settle();
    expect(1000);
    end_job();
}

static void append(void *value);

/* Something that is looked after, and told whether more is to come. */
static unsigned looks[2];

static bool poll(struct tug_service *service, bool more_comes) {
    (void)service;
    looks[more_comes]++;
    return false;
}

static void a_writer_looks_around_and_says_that_more_comes(void **state) {
    (void)state;
    struct tug_service *service = serve(poll);
    begin_job();
    looks[true] = looks[false] = 0;
    for (unsigned i = 0; i < 20 * MANY; i++)
        assert_true(write_as(i, TUG_BATCH_WAITS));
    assert_in_range(looks[true], 20 * MANY / 600, 20 * MANY / 512 + 1);
    assert_int_equal(looks[false], 0);
    const unsigned before = looks[true];
    room = 0; /* nobody looks while no record can be started */
    while (write_as(0, TUG_BATCH_WAITS))
        ;
    assert_int_equal(looks[true], before);
    assert_true(looks[false] > 0);
    room = UINT32_MAX;
    end_job();
    tug_engine_unserve(service);
}

/* Once when it is served so, for what came before; then not without one. */
static void with_jobs_alone_it_looks_once_before(void **state) {
    (void)state;
    struct tug_service *service = serve(poll);
    looks[false] = 0;
    tug_engine_serve_with_jobs(service);
    assert_true(looks[false] > 0);
    looks[false] = 0;
    tug_engine_call(append, NULL);
    assert_int_equal(looks[false], 0);
    tug_engine_unserve(service);
}

static void append(void *value) {
    order[executed++ % 4096] = (uintptr_t)value;
}

static void they_go_ahead_of_later_commands(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    begin_job();
    for (unsigned i = 0; i < 300; i += 3) {
        assert_true(write_one(i));
        tug_engine_call(append, (void *)(uintptr_t)(i + 1));
        assert_true(write_one(i + 2));
        assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
        expect(i + 3);
        tug_engine_leave();
    }
    end_job();
}

static void execute_append(struct tug_command *command) {
    append((void *)(uintptr_t)command->payload.words[0]);
}

/* It may still stand in the ring: no record goes ahead of it. */
static void none_follows_a_command_without_a_look(void **state) {
    (void)state;
    struct tug_ticket baton, ticket;
    begin_job();
    assert_true(write_one(0));
    assert_true(write_next(1));
    assert_int_equal(tug_engine_enter(&baton), TUG_ENTRY_BATON);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_TICKET);
    ticket.cell->execute = execute_append;
    ticket.cell->payload.words[0] = 2;
    tug_engine_commit(&ticket);
    assert_false(write_next(3));
    assert_false(write_one(3));
    tug_engine_leave();
    expect(3);
    assert_false(write_next(3));
    end_with_two_more();
}

static void a_round_starts_them(void **state) {
    (void)state;
    begin_job();
    assert_true(write_one(0));
    expect(0);
    tug_engine_poll();
    expect(1);
    end_job();
}

static void without_room_nothing_goes_ahead(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    unsigned n = 0;
    begin_job();
    room = 0;
    while (write_one(n))
        n++;
    assert_false(write_one(n));
    room = 1;
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_FULL);
    expect(1);
    while (write_one(n)) /* until it is full again */
        n++;
    expect(1);
    room = UINT32_MAX;
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    expect(n);
    tug_engine_leave();
    end_job();
}

static void *write_in_order(void *unused) {
    (void)unused;
    assert_true(write_as(executed, TUG_BATCH_IN_ORDER));
    tug_batch_settle();
    return NULL;
}

static void *write_and_go(void *unused) {
    (void)unused;
    assert_true(write_one(executed));
    return NULL;
}

static void run(void *(*function)(void *)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    pthread_join(thread, NULL);
}

/* What others have written in any order waits, though some of it was in order once. */
static void only_those_in_order_go_ahead_of_others(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    begin_job();
    run(write_in_order);
    run(write_and_go);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    tug_engine_leave();
    expect(1);
    tug_batch_settle();
    expect(2);
    end_job();
}

enum { WRITERS = 40 };
static pthread_barrier_t all_have_one;

static void *write_with_others(void *unused) {
    (void)unused;
    (void)write_one(0);
    pthread_barrier_wait(&all_have_one);
    assert_true(tug_batches_open() >= WRITERS);
    pthread_barrier_wait(&all_have_one);
    tug_batch_settle();
    return NULL;
}

static void those_of_threads_that_have_ended_are_not_looked_at(void **state) {
    (void)state;
    pthread_t threads[WRITERS];
    assert_true(write_one(0));
    tug_batch_settle();
    pthread_barrier_init(&all_have_one, NULL, WRITERS);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_with_others, NULL), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_have_one);
    assert_int_equal(tug_batches_open(), 1);
}

static void *write_and_look(void *argument) {
    struct tug_batch **batch = argument;
    assert_false(may_begin(TUG_BATCH_IN_ORDER)); /* another's is there */
    assert_true(write_one(1));
    *batch = tug_batch;
    return NULL;
}

static struct tug_batch *in_a_thread(void) {
    struct tug_batch *batch = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_and_look, &batch), 0);
    pthread_join(thread, NULL);
    return batch;
}

static void threads_have_batches_of_their_own(void **state) {
    (void)state;
    begin_job();
    assert_true(write_one(0));
    struct tug_batch *first = in_a_thread();
    assert_non_null(first);
    assert_ptr_not_equal(first, tug_batch);
    assert_ptr_equal(in_a_thread(), first); /* and leave them to the next, with what is in them */
    expect(0);
    assert_false(may_begin(TUG_BATCH_IN_ORDER));
    tug_batch_settle();
    assert_int_equal(executed, 3);
    assert_true(may_begin(TUG_BATCH_IN_ORDER));
    end_job();
}

/* A thread that needs no more than its reads has them started, and nothing if there are none. */
static void reads_are_asked_for_alone(void **state) {
    (void)state;
    begin_job();
    for (unsigned i = 0; i < 3; i++)
        assert_true(write_one(i));
    tug_batch_settle_reads();
    expect(0);
    assert_false(tug_batch_has_reads());
    for (unsigned i = 3; i < 100; i++)
        assert_true(write_as(i, TUG_BATCH_READS));
    assert_true(tug_batch_has_reads());
    tug_batch_settle_reads();
    expect(100);
    assert_false(tug_batch_has_reads());
    assert_true(write_one(100));
    tug_batch_settle_reads();
    assert_false(tug_batch_has_reads());
    tug_batch_settle();
    expect(101);
    end_job();
}

static _Atomic bool others_end;

static void *write_many(void *unused) {
    (void)unused;
    for (uint64_t i = 0; i < 200000; i++)
        while (!write_as(i, TUG_BATCH_WAITS))
            ;
    atomic_store(&others_end, true);
    return NULL;
}

/* One thread writes, another asks for what waits, over and over. */
static void others_ask_for_what_waits(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&others_end, false);
    assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
    while (!atomic_load(&others_end))
        tug_batch_settle();
    pthread_join(thread, NULL);
    tug_batch_settle();
    assert_int_equal(executed, 200000);
    for (unsigned i = executed - 4096; i < executed; i++)
        assert_int_equal(order[i % 4096], i);
}

/* ---- those who sleep are told ---- */

static _Atomic bool answered;

static uint32_t answer(const struct tug_batch_form *form, const unsigned char *run, uint32_t n) {
    (void)form, (void)run;
    atomic_store(&answered, true);
    return n;
}

static const struct tug_batch_form answers = {.start = answer};

static void write_an_answer(unsigned how) {
    uint32_t distance;
    assert_true(tug_batch_begin(&answers, how, 0, &distance));
    tug_batch_add(distance, NULL, 0);
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

/* What a thread waits for comes with another's record, which nobody asks for: with something out
 * that keeps the writer from executing it itself, and with nothing out, so that it tries to. */
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
        write_an_answer(0);
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

/* Nobody asks for what waits for others, and every thread sleeps deep. */
static void what_nobody_asks_for_is_started(void **state) {
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        atomic_store(&answered, false);
        begin_job();
        end_job();
        CHECK_SOON(tug_gather_wanted_by(TUG_GATHER_OFFLOAD));
        check_sleep_us(5000);
        write_an_answer(TUG_BATCH_WAITS);
        CHECK_SOON(is_answered(NULL));
        tug_batch_settle();
    }
}

/* Something was out when the record was begun, and every thread sleeps deep when it is written. */
static void a_record_that_comes_late_is_started(void **state) {
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        uint32_t distance;
        atomic_store(&answered, false);
        begin_job();
        assert_true(tug_batch_begin(&answers, 0, 0, &distance));
        end_job();
        CHECK_SOON(tug_gather_wanted_by(TUG_GATHER_OFFLOAD));
        check_sleep_us(5000);
        tug_batch_add(distance, NULL, 0);
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
    assert_true(write_one(1));
    tug_batch_settle();
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
    assert_false(write_one(0));
    assert_false(write_as(0, TUG_BATCH_WAITS));
    tug_batch_settle();
    expect(0);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(the_first_is_started_at_once),
        CASE(prompt_ones_need_company),
        CASE(others_wait_until_asked_for),
        CASE(those_that_wait_go_in_parts),
        CASE(a_full_batch_is_emptied_by_its_writer),
        CASE(some_follow_without_a_look),
        CASE(none_follows_that_wants_a_look),
        CASE(forms_and_records_come_out_as_they_went_in),
        CASE(callbacks_write_other_forms_meanwhile),
        CASE(a_distance_reaches_as_far_as_it_can),
        CASE(a_form_is_written_once),
        CASE(none_follows_a_command_without_a_look),
        CASE(a_writer_looks_around_and_says_that_more_comes),
        CASE(with_jobs_alone_it_looks_once_before),
        CASE(they_go_ahead_of_later_commands),
        CASE(a_round_starts_them),
        CASE(without_room_nothing_goes_ahead),
        CASE(only_those_in_order_go_ahead_of_others),
        CASE(those_of_threads_that_have_ended_are_not_looked_at),
        CASE(threads_have_batches_of_their_own),
        CASE(reads_are_asked_for_alone),
        CASE(others_ask_for_what_waits),
        CASE(a_sleeping_driver_is_told),
        cmocka_unit_test_setup_teardown(a_record_that_comes_late_is_started, start_offload, stop),
        cmocka_unit_test_setup_teardown(what_nobody_asks_for_is_started, start_offload, stop),
        cmocka_unit_test_setup_teardown(none_where_callers_may_not_drive, start_thread, stop),
        cmocka_unit_test(a_mark_that_is_left_alone_is_fenced_once),
        cmocka_unit_test_setup_teardown(a_deep_sleep_is_fenced, start_offload_unfenced, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Whoever sleeps without a limit is woken by whatever brings news, or looks by itself: news at a
 * descriptor that is watched, at one that cannot be, on a bell that rings too early. Run again on
 * kernels that refuse what the sleepers like best. */
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "engine/private.h"
#include "engine_fixture.h"

/* A peer's messages, counted. */
struct mail {
    struct tug_service service;
    struct tug_bell bell;
    _Atomic int sent, read;
    _Atomic int strangers; /* consumed, and nothing has come for us */
    _Atomic bool armed;    /* the next news ring the bell, and disarm */
    _Atomic int arms;      /* times that it was armed, */
    _Atomic int arms_read; /* and when something was read */
    bool out;              /* something of ours is; under the baton */
    bool deaf;             /* what comes for it does not ring; under the baton */
    bool gathers;          /* it has not gone yet, and waits for more; under the baton */
    int early;             /* strangers that come as soon as it is armed; under the baton */
    int eventful;          /* descriptor of ours to be emptied, or -1 */
};

static struct mail mail;

static bool mail_poll(struct tug_service *service, bool more_comes) {
    (void)service, (void)more_comes;
    uint64_t times;
    if (mail.eventful >= 0)
        (void)!read(mail.eventful, &times, sizeof(times));
    (void)atomic_exchange(&mail.strangers, 0);
    const int sent = atomic_load(&mail.sent);
    if (sent == atomic_load(&mail.read))
        return false;
    atomic_store(&mail.arms_read, atomic_load(&mail.arms));
    atomic_store(&mail.read, sent);
    return true;
}

static void mail_flush(struct tug_service *service) {
    (void)service;
    mail.gathers = false;
}

static bool mail_busy(struct tug_service *service) {
    (void)service;
    return mail.out;
}

static void tell_bell(void) {
    if (atomic_exchange(&mail.armed, false))
        (void)tug_bell_ring(&mail.bell, false);
}

static bool mail_arm(struct tug_service *service) {
    (void)service;
    atomic_store(&mail.armed, true);
    atomic_fetch_add(&mail.arms, 1);
    if (mail.early > 0) {
        mail.early--;
        atomic_store(&mail.strangers, 1);
        tell_bell();
    }
    return !mail.deaf && !mail.gathers;
}

static void open_mail(struct tug_bell *bell, int descriptor) {
    mail = (struct mail){.service = {.poll = mail_poll,
                                     .flush = mail_flush,
                                     .busy = mail_busy,
                                     .arm = mail_arm,
                                     .bell = bell,
                                     .descriptor = descriptor},
                         .eventful = descriptor};
}

static bool all_read(void *argument) {
    (void)argument;
    return atomic_load(&mail.read) == 3;
}

static void *wait_for_all(void *argument) {
    tug_engine_wait(all_read, NULL, -1, 0);
    return argument;
}

/* Each when the sleepers have had the time to sleep as deep as they ever do; the last when they
 * have also seen what is not watched. */
static void send_three(void (*announce)(void), unsigned unwatched) {
    for (int i = 1; i <= 3; i++) {
        check_sleep_us(20000);
        if (i == 3)
            CHECK_SOON(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]) >= unwatched);
        atomic_store(&mail.sent, i);
        if (announce != NULL)
            announce();
        CHECK_SOON(atomic_load(&mail.read) == i);
    }
}

/* They are read by the offload thread, or by a thread that waits for them. */
static void expect_all_read(bool by_waiter, void (*announce)(void), unsigned unwatched) {
    pthread_t waiter;
    start_engine(by_waiter ? TUG_PROGRESS_CALLER : TUG_PROGRESS_AUTO, 16);
    atomic_store(&tug_park_budget.yields, 10); /* a thousand take seconds on a busy machine */
    tug_stats_on = true;
    atomic_store(&tug_stat_values[TUG_STAT_UNWATCHED], 0);
    tug_engine_serve(&mail.service);
    if (by_waiter)
        assert_int_equal(pthread_create(&waiter, NULL, wait_for_all, NULL), 0);
    send_three(announce, unwatched);
    if (by_waiter)
        pthread_join(waiter, NULL);
    tug_engine_unserve(&mail.service);
    stop_engine();
    tug_stats_on = false;
}

static void tell_descriptor(void) {
    const uint64_t one = 1;
    assert_int_equal(write(mail.service.descriptor, &one, sizeof(one)), sizeof(one));
}

static void news_at_a_descriptor(void **state) {
    (void)state;
    for (int by_waiter = 0; by_waiter < 2; by_waiter++) {
        open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        expect_all_read(by_waiter, tell_descriptor, 0);
        assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 0);
        close(mail.service.descriptor);
    }
}

/* A file is always readable, and in no epoll set. */
static int open_unwatchable(void) {
    char name[] = "/tmp/tugboat-wakes-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(unlink(name), 0);
    return file;
}

static void news_at_a_descriptor_that_cannot_be_watched(void **state) {
    (void)state;
    for (int by_waiter = 0; by_waiter < 2; by_waiter++) {
        open_mail(&tug_engine_own_bell, open_unwatchable());
        mail.eventful = -1;
        expect_all_read(by_waiter, NULL, 1);
        assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 1);
        close(mail.service.descriptor);
    }
}

/* No descriptor is left for what the sleepers would watch it with. */
static void news_where_descriptors_have_run_out(void **state) {
    (void)state;
    for (int by_waiter = 0; by_waiter < 2; by_waiter++) {
        struct rlimit limit, none;
        open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = (struct rlimit){.rlim_cur = (rlim_t)mail.service.descriptor + 1,
                               .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        expect_all_read(by_waiter, tell_descriptor, 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 1);
        close(mail.service.descriptor);
    }
}

static void close_lookout(const struct tug_lookout *lookout) {
    check_close_carelessly(lookout->set);
    check_close_carelessly(lookout->bell.number);
}

static void tell_and_close(void) {
    close_lookout(&tug_engine.driver.lookout);
    close_lookout(&tug_engine.offload.lookout);
    tell_descriptor();
}

/* The program closes what the sleepers sleep at. */
static void news_where_descriptors_are_closed(void **state) {
    (void)state;
    for (int by_waiter = 0; by_waiter < 2; by_waiter++) {
        open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        expect_all_read(by_waiter, tell_and_close, 1);
        assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 1);
        close(mail.service.descriptor);
    }
}

/* The bell is rung by others than the descriptor's: nobody was to be had who watches that. */
static void news_at_a_descriptor_beside_a_bell(void **state) {
    (void)state;
    for (int by_waiter = 0; by_waiter < 2; by_waiter++) {
        open_mail(&mail.bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        expect_all_read(by_waiter, tell_descriptor, 1);
        assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 1);
        close(mail.service.descriptor);
    }
}

/* Something comes as soon as it is asked for, and is nothing that counts. */
static void strangers_at_once(void **state) {
    (void)state;
    for (int by_waiter = 0; by_waiter < 2; by_waiter++) {
        open_mail(&mail.bell, -1);
        mail.early = 10;
        expect_all_read(by_waiter, tell_bell, 0);
    }
}

static _Atomic bool outside;
static _Atomic unsigned looks;

static bool look_outside(void *argument) {
    (void)argument;
    atomic_fetch_add(&looks, 1);
    return atomic_load(&outside);
}

static void *make_it_so(void *argument) {
    check_sleep_us(400000);
    atomic_store(&outside, true);
    return argument;
}

/* What the engine does not bring is looked for once a nap, no oftener: a wait that did not sleep
 * looks some million times. */
static void what_is_outside_is_waited_for_asleep(void **state) {
    (void)state;
    const enum tug_progress all[] = {TUG_PROGRESS_AUTO, TUG_PROGRESS_THREAD, TUG_PROGRESS_CALLER};
    for (int i = 0; i < 3; i++) {
        pthread_t other;
        start_engine(all[i], 16);
        atomic_store(&outside, false);
        atomic_store(&looks, 0);
        assert_int_equal(pthread_create(&other, NULL, make_it_so, NULL), 0);
        tug_engine_wait(look_outside, NULL, 10000000, 0);
        pthread_join(other, NULL);
        stop_engine();
        assert_true(atomic_load(&looks) < 2 * (1000 + 100 * tug_settings.spin_us) + 100);
    }
}

/* The offload thread polls for the job that is out. A round that moves nothing wakes no thread. */
static void rounds_that_move_nothing_wake_no_thread(void **state) {
    (void)state;
    pthread_t other;
    struct step_job job;
    start_engine(TUG_PROGRESS_THREAD, 16);
    step_job_init(&job, 1, 0, NULL);
    tug_engine_launch(&job.base);
    atomic_store(&outside, false);
    const uint64_t parks = atomic_load(&tug_stat_values[TUG_STAT_PARKS]);
    const int advances = atomic_load(&job.advances);
    assert_int_equal(pthread_create(&other, NULL, make_it_so, NULL), 0);
    tug_engine_wait(look_outside, NULL, 10000000, 0);
    pthread_join(other, NULL);
    const uint64_t parked = atomic_load(&tug_stat_values[TUG_STAT_PARKS]) - parks;
    assert_true(atomic_load(&job.advances) - advances > 200);
    assert_true(parked < 100);
    atomic_store(&job.permitted, 1);
    step_job_wait(&job);
    stop_engine();
}

static bool it_is_late(void *until) {
    return check_clock_ns(CLOCK_MONOTONIC) >= *(const uint64_t *)until;
}

/* Whose wait has been long and leaves another waiting, which looks for news, leaves the offload
 * thread asleep: it would take the core from those who wait. The last of them rings it. */
static void who_leaves_others_waiting_wakes_nobody(void **state) {
    (void)state;
    enum { WAITS = 40 };
    const _Atomic uint64_t *wakes = &tug_stat_values[TUG_STAT_OFFLOAD_WAKES];
    const uint64_t long_ns = 10 * (uint64_t)TUG_TICK_NS;
    pthread_t waiter;
    open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_stats_on = true;
    tug_engine_serve(&mail.service);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_all, NULL), 0);
    CHECK_SOON(atomic_load(&tug_engine.waiting) == 1);
    const uint64_t before = atomic_load(wakes);
    for (int i = 0; i < WAITS; i++) {
        uint64_t until = check_clock_ns(CLOCK_MONOTONIC) + long_ns;
        tug_engine_wait(it_is_late, &until, TUG_TICK_NS, 0);
    }
    const uint64_t after = atomic_load(wakes);
    assert_true(after - before < WAITS / 4);
    atomic_store(&mail.sent, 3);
    assert_int_equal(eventfd_write(mail.eventful, 1), 0);
    pthread_join(waiter, NULL);
    CHECK_SOON(atomic_load(wakes) > after);
    tug_engine_unserve(&mail.service);
    stop_engine();
    tug_stats_on = false;
    close(mail.eventful);
}

/* A caller that polls is relied on to look on, and wakes nobody. News that come when it has gone
 * are found at the next beat. */
static void who_polls_wakes_nobody(void **state) {
    (void)state;
    enum { LOOKS = 200 * TUG_POLLS };
    const _Atomic uint64_t *wakes = &tug_stat_values[TUG_STAT_OFFLOAD_WAKES];
    open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_stats_on = true;
    tug_engine_serve(&mail.service);
    const uint64_t before = atomic_load(wakes);
    for (int i = 0; i < LOOKS; i++)
        tug_engine_poll();
    assert_true(atomic_load(wakes) - before < LOOKS / TUG_POLLS / 4);
    atomic_store(&mail.sent, 1);
    assert_int_equal(eventfd_write(mail.eventful, 1), 0);
    CHECK_SOON(atomic_load(&mail.read) == 1);
    tug_engine_unserve(&mail.service);
    stop_engine();
    tug_stats_on = false;
    close(mail.eventful);
}

static unsigned inside;

static bool mail_poll_inside(struct tug_service *service, bool *left) {
    (void)service, (void)left;
    inside++;
    return false;
}

/* A look from inside the host: is the mail looked after, or the offload thread told that somebody
 * looks, which is not told each time? */
static bool looks_from_inside(bool told) {
    const unsigned before = inside;
    tug_lease_end(&tug_engine.news);
    assert_false(tug_engine_look_inside());
    return told ? tug_lease_runs(&tug_engine.news, tug_clock_ns()) : inside > before;
}

static void expect_looks_from_inside(void) {
    bool looked = false, told = false;
    CHECK_SOON(looked || (looked = looks_from_inside(false)));
    CHECK_SOON(told || (told = looks_from_inside(true)));
}

static void expect_no_looks_from_inside(void) {
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        assert_false(looks_from_inside(false));
        assert_false(looks_from_inside(true));
    }
}

/* Where something else is to be looked after that cannot be from there, nobody is told that it is,
 * for its peers would wait for the next beat. Jobs' services count while a job is out. */
static void who_cannot_look_after_all_from_inside_does_not_say_so(void **state) {
    (void)state;
    static struct tug_bell bell;
    open_mail(&bell, -1);
    struct tug_service other = mail.service;
    mail.service.state.poll_inside = mail_poll_inside;
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_serve(&mail.service);
    expect_looks_from_inside();
    tug_engine_serve(&other);
    expect_no_looks_from_inside();
    tug_engine_serve_with_jobs(&other);
    expect_looks_from_inside();
    struct step_job job;
    step_job_init(&job, 1, 0, &bell);
    tug_engine_launch(&job.base);
    expect_no_looks_from_inside();
    atomic_store(&job.permitted, 1);
    step_job_wait(&job);
    expect_looks_from_inside();
    tug_engine_unserve(&other);
    tug_engine_unserve(&mail.service);
    stop_engine();
}

/* A thread posts something and goes to compute. Returns how often it woke the offload thread, which
 * was in its deep sleep. */
static uint64_t post_something(bool deaf) {
    struct tug_ticket ticket;
    CHECK_SOON(tug_gather_wanted_by(TUG_GATHER_OFFLOAD));
    check_sleep_us(1000); /* it says so before it sleeps */
    const uint64_t before = atomic_load(&tug_stat_values[TUG_STAT_OFFLOAD_WAKES]);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    mail.deaf = deaf;
    mail.gathers = mail.out = true;
    tug_engine_service_changed(&mail.service);
    tug_engine_leave();
    return atomic_load(&tug_stat_values[TUG_STAT_OFFLOAD_WAKES]) - before;
}

static void end_it(void *unused) {
    (void)unused;
    mail.out = mail.deaf = false;
    tug_engine_service_changed(&mail.service);
}

static void begin_posting(void) {
    open_mail(&mail.bell, -1);
    mail.eventful = -1;
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_stats_on = true;
    tug_engine_serve(&mail.service);
}

static void end_posting(void) {
    tug_engine_call(end_it, NULL);
    tug_engine_unserve(&mail.service);
    tug_stats_on = false;
}

static bool mail_leave_inside(struct tug_service *service, bool *left) {
    (void)service;
    *left = true;
    return false;
}

/* Of a thread that holds the baton: so the offload thread cannot look meanwhile. */
static uint64_t wakes_by_looks(unsigned n) {
    const _Atomic uint64_t *wakes = &tug_stat_values[TUG_STAT_OFFLOAD_WAKES];
    const uint64_t before = atomic_load(wakes);
    for (unsigned i = 0; i < n; i++) {
        (void)tug_services_poll_inside(&tug_engine, &mail.service);
        check_sleep_us(2 * TUG_TICK_NS / 1000);
    }
    return atomic_load(wakes) - before;
}

/* What a look from inside the host leaves to the offload thread wakes it, and ends its reliance on
 * who looks; more such looks do not wake it again before it has looked. */
static void what_is_left_from_inside_wakes_it_once(void **state) {
    (void)state;
    struct tug_ticket ticket;
    open_mail(&mail.bell, -1);
    mail.service.state.poll_inside = mail_leave_inside;
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_stats_on = true;
    tug_engine_serve(&mail.service);
    CHECK_SOON(tug_gather_wanted_by(TUG_GATHER_OFFLOAD));
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    tug_lease_set(&tug_engine.news, TUG_LEASE_FRESH);
    const uint64_t first = wakes_by_looks(1), until = atomic_load(&tug_engine.news.until);
    const uint64_t others = wakes_by_looks(20);
    tug_engine_leave();
    assert_int_equal(first, 1);
    assert_int_equal(until, 0);
    assert_int_equal(others, 0);
    tug_engine_unserve(&mail.service);
    tug_stats_on = false;
}

static void what_is_out_wakes_it_only_where_its_news_do_not(void **state) {
    (void)state;
    begin_posting();
    assert_int_equal(post_something(false), 0);
    atomic_store(&mail.sent, 1); /* the answer */
    tell_bell();
    CHECK_SOON(atomic_load(&mail.read) == 1);
    tug_engine_call(end_it, NULL);
    assert_int_equal(post_something(true), 1);
    atomic_store(&mail.sent, 2);
    CHECK_SOON(atomic_load(&mail.read) == 2);
    end_posting();
}

static void who_posts_on_and_on_wakes_it(void **state) {
    (void)state;
    begin_posting();
    for (int i = 0; i < TUG_LEFT_ASLEEP; i++)
        assert_int_equal(post_something(false), 0);
    assert_int_equal(post_something(false), 1);
    end_posting();
}

/* Returns how often it has been armed when the offload thread sleeps at descriptors as deep as
 * ever.
 */
static int arms_in_deep_sleep(void) {
    CHECK_SOON(tug_gather_wanted_by(TUG_GATHER_OFFLOAD) && atomic_load(&tug_engine.offload.out));
    return atomic_load(&mail.arms);
}

static void send_at_descriptor(int number) {
    atomic_store(&mail.sent, number);
    tell_descriptor();
}

static void begin_at_descriptor(void) {
    open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_serve(&mail.service);
}

static void end_at_descriptor(void) {
    tug_engine_unserve(&mail.service);
    stop_engine();
    close(mail.service.descriptor);
}

static void news_are_read_before_the_next_sleep_is_prepared(void **state) {
    (void)state;
    begin_at_descriptor();
    const int arms = arms_in_deep_sleep();
    send_at_descriptor(1);
    CHECK_SOON(atomic_load(&mail.read) == 1);
    assert_int_equal(atomic_load(&mail.arms_read), arms);
    end_at_descriptor();
}

/* Something is sent, and the answer is there before the baton is put down. If it has been read by
 * then nobody is woken for it, else the offload thread reads it. */
static void an_answer_that_comes_at_once_wakes_nobody(void **state) {
    (void)state;
    begin_at_descriptor();
    for (int i = 1; i <= 2; i++) {
        struct tug_ticket ticket;
        const int arms = arms_in_deep_sleep();
        assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
        tug_engine_before_send();
        send_at_descriptor(i);
        check_sleep_us(2000);
        if (i == 1)
            assert_true(tug_services_poll(&tug_engine, false));
        tug_engine_leave();
        check_sleep_us(2000);
        if (i == 1)
            assert_int_equal(atomic_load(&mail.arms), arms);
        CHECK_SOON(atomic_load(&mail.read) == i);
    }
    end_at_descriptor();
}

/* A caller has looked once while the offload thread was in its deep sleep, and went to compute. A
 * beat later somebody looks again in any case: once in a hundred times it is to be faster. */
static void news_after_a_look_that_was_long_ago(void **state) {
    (void)state;
    bool prompt = false;
    open_mail(&tug_engine_own_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_serve(&mail.service);
    for (int i = 1; i <= 100 && !prompt; i++) {
        check_sleep_us(5000);
        CHECK_SOON(tug_gather_wanted_by(TUG_GATHER_OFFLOAD));
        tug_engine_poll();
        const uint64_t begin_ns = tug_clock_ns();
        atomic_store(&mail.sent, i);
        tell_descriptor();
        while (atomic_load(&mail.read) != i && tug_clock_ns() - begin_ns < 1000000000)
            sched_yield(); /* the offload thread may need this core */
        prompt = tug_clock_ns() - begin_ns < TUG_TICK_NS;
        CHECK_SOON(atomic_load(&mail.read) == i);
    }
    assert_true(prompt);
    tug_engine_unserve(&mail.service);
    close(mail.service.descriptor);
}

static int stop(void **state) {
    (void)state;
    tug_engine_stop();
    tug_settings_reset();
    return 0;
}

int main(void) {
#define CASE(f) cmocka_unit_test_teardown(f, stop)
    const struct CMUnitTest tests[] = {
        CASE(news_at_a_descriptor),
        CASE(news_at_a_descriptor_that_cannot_be_watched),
        CASE(news_where_descriptors_have_run_out),
        CASE(news_where_descriptors_are_closed),
        CASE(news_at_a_descriptor_beside_a_bell),
        CASE(strangers_at_once),
        CASE(what_is_out_wakes_it_only_where_its_news_do_not),
        CASE(who_posts_on_and_on_wakes_it),
        CASE(news_are_read_before_the_next_sleep_is_prepared),
        CASE(an_answer_that_comes_at_once_wakes_nobody),
        CASE(news_after_a_look_that_was_long_ago),
        CASE(what_is_outside_is_waited_for_asleep),
        CASE(rounds_that_move_nothing_wake_no_thread),
        CASE(who_leaves_others_waiting_wakes_nobody),
        CASE(who_polls_wakes_nobody),
        CASE(who_cannot_look_after_all_from_inside_does_not_say_so),
        CASE(what_is_left_from_inside_wakes_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

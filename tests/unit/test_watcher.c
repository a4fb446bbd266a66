/* The watcher: one thread for all watches; who is told, when and how often; watches that go while
 * news come; a set that the program closes. */
#include <sys/epoll.h>

#include "check.h"
#include "transport/watcher.h"

#define MANY 20u

/* A transport: a pipe, and what it has been told. */
struct mail {
    struct tug_watch watch; /* the first member */
    struct tug_own pipe;
    _Atomic unsigned events, looks; /* times that it was told of events, and of none */
    bool again;
};

static struct mail mails[MANY];

static bool take(struct tug_watch *watch, uint32_t events) {
    struct mail *mail = (struct mail *)watch;
    atomic_fetch_add(events != 0 ? &mail->events : &mail->looks, 1);
    if (events & EPOLLIN)
        tug_own_silence(&mail->pipe);
    return mail->again;
}

static void open_mail(struct mail *mail, bool again) {
    *mail = (struct mail){.pipe = tug_own_keep(tug_descriptor_bell()), .again = again};
    mail->watch = (struct tug_watch){.descriptor = mail->pipe.number, .news = take};
}

static int open_all(void **state) {
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        open_mail(&mails[i], i % 2 == 0);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        tug_watcher_remove(&mails[i].watch);
        tug_own_close(&mails[i].pipe);
    }
    assert_null(tug_watcher.watches);
    assert_int_equal(tug_watcher.set, -1);
    return 0;
}

static void one_thread_for_all(void **state) {
    (void)state;
    assert_true(tug_watcher_add(&mails[0].watch)); /* a sanitizer starts a thread at the first */
    const unsigned all = check_threads();
    for (unsigned i = 1; i < MANY; i++)
        assert_true(tug_watcher_add(&mails[i].watch));
    assert_int_equal(check_threads(), all);
    for (unsigned i = 0; i < MANY; i++)
        tug_watcher_remove(&mails[i].watch);
    CHECK_SOON(check_threads() == all - 1); /* one that has ended is seen for a moment more */
    tug_watcher_remove(&mails[0].watch);
    assert_true(tug_watcher_add(&mails[0].watch));
    assert_int_equal(check_threads(), all);
}

/* Once for each time that it was armed, and nobody else. */
static void who_is_armed_is_told(void **state) {
    struct mail *keen = &mails[0], *once = &mails[1], *other = &mails[2];
    (void)state;
    assert_true(tug_watcher_add(&keen->watch) && tug_watcher_add(&once->watch));
    assert_true(tug_watcher_add(&other->watch));
    tug_own_ring(&once->pipe);
    check_sleep_us(10000);
    assert_int_equal(atomic_load(&once->events), 0);
    assert_true(tug_watcher_arm(&keen->watch) && tug_watcher_arm(&once->watch));
    for (unsigned i = 1; i <= 3; i++) {
        tug_own_ring(&keen->pipe);
        CHECK_SOON(atomic_load(&keen->events) == i);
        tug_own_ring(&once->pipe);
    }
    CHECK_SOON(atomic_load(&once->events) == 1);
    check_sleep_us(10000);
    assert_int_equal(atomic_load(&once->events), 1);
    assert_true(tug_watcher_arm(&once->watch));
    CHECK_SOON(atomic_load(&once->events) == 2);
    assert_int_equal(atomic_load(&other->events), 0);
    CHECK_SOON(atomic_load(&other->looks) > 0); /* without news too, now and then */
}

/* The memory of a watch that has been removed is anybody's. */
static void who_goes_is_told_no_more(void **state) {
    struct mail *stays = &mails[0];
    (void)state;
    assert_true(tug_watcher_add(&stays->watch));
    for (int i = 0; i < 2000; i++) {
        struct mail mail;
        open_mail(&mail, true);
        assert_true(tug_watcher_add(&mail.watch) && tug_watcher_arm(&mail.watch));
        tug_own_ring(&mail.pipe);
        if (i % 2)
            CHECK_SOON(atomic_load(&mail.events) > 0);
        tug_watcher_remove(&mail.watch);
        tug_own_close(&mail.pipe);
        memset(&mail, 0xff, sizeof(mail));
    }
}

static void a_set_that_is_closed(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_true(tug_watcher_add(&mails[i].watch) && tug_watcher_arm(&mails[i].watch));
    assert_true(tug_watcher_sees());
    check_close_carelessly(tug_watcher.set);
    tug_own_ring(&tug_watcher.stop); /* the kernel sleeps on in a set that is closed */
    CHECK_SOON(!tug_watcher_sees());
    for (unsigned i = 0; i < 3; i++)
        CHECK_SOON(atomic_load(&mails[i].looks) > 0);
    assert_false(tug_watcher_arm(&mails[0].watch));
    assert_false(tug_watcher_add(&mails[3].watch));
    close_all(NULL);
    open_all(NULL);
    assert_true(tug_watcher_add(&mails[3].watch) && tug_watcher_arm(&mails[3].watch));
    tug_own_ring(&mails[3].pipe);
    CHECK_SOON(atomic_load(&mails[3].events) == 1);
}

/* It is in no set any more, and the others are told of theirs as before. */
static void a_descriptor_that_is_closed(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        assert_true(tug_watcher_add(&mails[i].watch) && tug_watcher_arm(&mails[i].watch));
    check_close_carelessly(mails[0].pipe.number);
    assert_false(tug_watcher_arm(&mails[0].watch));
    CHECK_SOON(atomic_load(&mails[0].looks) > 0);
    tug_own_ring(&mails[1].pipe);
    CHECK_SOON(atomic_load(&mails[1].events) == 1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)
    const struct CMUnitTest cases[] = {
        CASE(one_thread_for_all),          CASE(who_is_armed_is_told),
        CASE(who_goes_is_told_no_more),    CASE(a_set_that_is_closed),
        CASE(a_descriptor_that_is_closed),
    };
    return cmocka_run_group_tests_name("transport/watcher", cases, NULL, NULL);
}

/* A reading counts if nothing changed meanwhile: not during a change, nor across one, and never
 * with words of different changes, while a writer and readers are busy. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/seqlock.h"
#include "check.h"

enum { WORDS = 6, READERS = 2, CHANGES = 300000 };

static struct tug_seqlock lock;
static _Atomic uint64_t words[WORDS];
static _Atomic bool over;

static void what_is_undisturbed_counts(void **state) {
    (void)state;
    assert_true(tug_seqlock_holds(&lock, tug_seqlock_read(&lock)));
}

static void what_is_read_during_a_change_does_not(void **state) {
    (void)state;
    const uint32_t before = tug_seqlock_read(&lock);
    tug_seqlock_begin(&lock);
    const uint32_t within = tug_seqlock_read(&lock);
    assert_false(tug_seqlock_holds(&lock, before));
    assert_false(tug_seqlock_holds(&lock, within));
    tug_seqlock_end(&lock);
    assert_false(tug_seqlock_holds(&lock, before));
    assert_false(tug_seqlock_holds(&lock, within));
}

static void *read_words(void *argument) {
    uint64_t found[WORDS], n = 0;
    while (n == 0 || !atomic_load(&over)) {
        const uint32_t version = tug_seqlock_read(&lock);
        for (int i = 0; i < WORDS; i++)
            found[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
        if (!tug_seqlock_holds(&lock, version))
            continue;
        for (int i = 1; i < WORDS; i++)
            assert_int_equal(found[i], found[0]);
        n++;
    }
    return argument;
}

static void no_reading_is_of_two_changes(void **state) {
    (void)state;
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_words, NULL), 0);
    for (uint64_t change = 1; change <= CHANGES; change++) {
        tug_seqlock_begin(&lock);
        for (int i = 0; i < WORDS; i++)
            atomic_store_explicit(&words[i], change, memory_order_relaxed);
        tug_seqlock_end(&lock);
    }
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_undisturbed_counts),
        cmocka_unit_test(what_is_read_during_a_change_does_not),
        cmocka_unit_test(no_reading_is_of_two_changes),
    };
    return cmocka_run_group_tests_name("seqlock", tests, NULL, NULL);
}

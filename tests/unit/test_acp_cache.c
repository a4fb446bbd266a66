/* The cache of keys: what is stored is found, a newer key takes the place of an older, the oldest
 * table makes room, and who looks while the holder stores finds a whole key of the rank and number
 * asked for, or nothing. */
#include <pthread.h>

#include "acp/cache.h"
#include "check.h"

enum { RANKS = 2000 };

static struct tug_acp_cache cache;

static struct tug_key key_of(uint32_t rank, uint32_t number, uint64_t age) {
    struct tug_key key;
    for (uint64_t i = 0; i < 8; i++)
        key.word[i] = ((uint64_t)rank << 32 | number << 16 | age << 3 | i) + 1;
    return key;
}

static int open_cache(void **state) {
    (void)state;
    return tug_acp_cache_init(&cache, RANKS, 4);
}

static int close_cache(void **state) {
    (void)state;
    tug_acp_cache_fini(&cache);
    return 0;
}

static void store(uint32_t rank, uint32_t number, uint64_t age) {
    const struct tug_key key = key_of(rank, number, age);
    assert_int_equal(tug_acp_cache_store(&cache, rank, number, &key), 0);
}

static bool finds(uint32_t rank, uint32_t number, uint64_t age) {
    const struct tug_key want = key_of(rank, number, age);
    struct tug_key got;
    return tug_acp_cache_find(&cache, rank, number, &got) && memcmp(&got, &want, sizeof(got)) == 0;
}

static bool finds_any(uint32_t rank, uint32_t number) {
    struct tug_key got;
    return tug_acp_cache_find(&cache, rank, number, &got);
}

static void finds_what_is_stored(void **state) {
    (void)state;
    assert_false(finds_any(7, 3));
    store(7, 3, 0);
    assert_true(finds(7, 3, 0));
    assert_false(finds_any(7, 4));
    assert_false(finds_any(8, 3));
    store(RANKS - 1, TUG_ACP_KEYS - 1, 0);
    assert_true(finds(RANKS - 1, TUG_ACP_KEYS - 1, 0));
    assert_true(finds(7, 3, 0));
}

static void a_newer_key_replaces_an_older(void **state) {
    const struct tug_key none = {{0}};
    (void)state;
    store(7, 3, 0);
    store(7, 3, 1);
    assert_true(finds(7, 3, 1));
    assert_int_equal(tug_acp_cache_store(&cache, 7, 3, &none), 0);
    assert_false(finds_any(7, 3));
}

/* They are there from the start, for number 0 of leaders only, and take no table. */
static void keys_of_leaders_are_known(void **state) {
    enum { GROUP = 7 };
    struct tug_key *keys = malloc((RANKS / GROUP + 1) * sizeof(*keys));
    (void)state;
    assert_non_null(keys);
    for (uint32_t rank = 0; rank < RANKS; rank += GROUP)
        keys[rank / GROUP] = key_of(rank, 0, 0);
    cache.leaders = keys;
    cache.group = GROUP;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(rank % GROUP == 0, finds(rank, 0, 0));
    assert_false(finds_any(7, 1));
    assert_false(finds_any(8, 0));
    store(7, 1, 0);
    store(8, 0, 0);
    assert_true(finds(7, 1, 0));
    assert_true(finds(7, 0, 0));
    assert_true(finds(8, 0, 0));
    assert_int_equal(cache.opened, 2);
}

static void the_oldest_table_makes_room(void **state) {
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        store(rank, 1, 0);
    store(0, 2, 0);
    store(100, 1, 0);
    assert_true(finds(100, 1, 0));
    assert_false(finds_any(0, 1));
    for (uint32_t rank = 1; rank < 4; rank++)
        assert_true(finds(rank, 1, 0));
    store(101, 1, 0);
    assert_true(finds(101, 1, 0));
    assert_false(finds_any(1, 1));
    assert_true(finds(2, 1, 0));
    assert_int_equal(cache.opened, 6);
}

static void a_table_that_changes_hands_is_empty(void **state) {
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        store(rank, 1, 0);
    store(50, 2, 0);
    assert_false(finds_any(50, 1));
    assert_false(finds_any(0, 1));
    store(0, 2, 0);
    assert_false(finds_any(0, 1));
}

/* ---- while the holder stores ---- */

static _Atomic bool over;
static _Atomic unsigned found, torn;

static void *look(void *argument) {
    uint32_t seed = (uint32_t)(uintptr_t)argument;
    while (!over) {
        struct tug_key got;
        seed = seed * 1664525 + 1013904223;
        uint32_t rank = seed >> 16 & 7, number = seed >> 24 & 3;
        if (!tug_acp_cache_find(&cache, rank, number, &got))
            continue;
        atomic_fetch_add(&found, 1);
        const struct tug_key want =
            key_of(rank, number, (got.word[0] - key_of(rank, number, 0).word[0]) >> 3);
        if (memcmp(&got, &want, sizeof(got)) != 0 || (got.word[0] - 1) >> 32 != rank ||
            ((got.word[0] - 1) >> 16 & 0xffff) != number)
            atomic_fetch_add(&torn, 1);
    }
    return NULL;
}

static void nobody_finds_half_a_key(void **state) {
    pthread_t threads[2];
    (void)state;
    over = false;
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, (void *)(i + 1)), 0);
    for (uint32_t n = 0; n < 300000 || (found < 1000 && n < 100000000); n++)
        store(n * 7 % 8, n * 5 % 4, n / 8 % 1000);
    over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(found > 0);
    assert_int_equal(torn, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_what_is_stored, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(a_newer_key_replaces_an_older, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(keys_of_leaders_are_known, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(the_oldest_table_makes_room, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(a_table_that_changes_hands_is_empty, open_cache,
                                        close_cache),
        cmocka_unit_test_setup_teardown(nobody_finds_half_a_key, open_cache, close_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The bits of global addresses: those of the paper's table 2, and that they come back. Entries: a
 * copy that holds is of one key, in whichever order of addresses it was made, while the owner
 * changes the entry. The same file makes a second program with other widths. */
#include <pthread.h>
#include <stdatomic.h>

#include "acp/address.h"
#include "check.h"

static const uint32_t last_rank = TUG_ACP_RANKS - 1;

static void has_the_bits_of_the_paper(void **state) {
    (void)state;
#ifdef WIDE
    assert_int_equal(TUG_ACP_RANK_BITS, 11);
#else
    assert_int_equal(TUG_ACP_RANK_BITS, 21);
    assert_int_equal(tug_acp_ga(0, 0, 0, 0), UINT64_C(1) << 43);
    assert_int_equal(tug_acp_ga(1, 0, 3, 5), UINT64_C(2) << 43 | UINT64_C(3) << 34 | 5);
#endif
    assert_int_equal(
        TUG_ACP_RANK_BITS + TUG_ACP_COLOR_BITS + TUG_ACP_KEY_BITS + TUG_ACP_OFFSET_BITS, 64);
}

static void every_part_comes_back(void **state) {
    const uint32_t ranks[] = {0, 1, 77, last_rank}, keys[] = {0, 1, TUG_ACP_KEYS - 1};
    const uint64_t offsets[] = {0, 1, TUG_ACP_OFFSETS / 2, TUG_ACP_OFFSETS - 1};
    (void)state;
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 3; k++)
            for (int o = 0; o < 4; o++) {
                const uint32_t color = (uint32_t)(r + k + o) % TUG_ACP_COLORS;
                const acp_ga_t ga = tug_acp_ga(ranks[r], color, keys[k], offsets[o]);
                assert_int_not_equal(ga, ACP_GA_NULL);
                assert_int_equal(tug_acp_ga_rank(ga), ranks[r]);
                assert_int_equal(tug_acp_ga_number(ga), keys[k]);
                assert_int_equal(tug_acp_ga_offset(ga), offsets[o]);
                assert_int_equal(tug_acp_ga_color(ga), color);
                assert_int_equal(tug_acp_ga_base(ga), tug_acp_ga(ranks[r], color, keys[k], 0));
                const acp_ga_t other = ga ^ UINT64_C(1) << (TUG_ACP_RANK_SHIFT - 1);
                assert_int_equal(tug_acp_ga_color(other), 1 - color);
                assert_int_equal(tug_acp_ga_rank(other), ranks[r]);
                assert_int_equal(tug_acp_ga_number(other), keys[k]);
            }
}

static void addresses_add_up(void **state) {
    (void)state;
    acp_ga_t ga = tug_acp_ga(last_rank, 0, 1, 0);
    assert_int_equal(tug_acp_ga_offset(ga + 1000), 1000);
    assert_int_equal(tug_acp_ga_number(ga + TUG_ACP_OFFSETS - 1), 1);
    assert_int_equal(tug_acp_ga_number(ga + TUG_ACP_OFFSETS), 2);
}

static void null_is_nobodys(void **state) {
    (void)state;
    assert_int_equal(tug_acp_ga_rank(ACP_GA_NULL), TUG_ACP_NO_RANK);
}

/* ---- entries ---- */

enum { CHANGES = 2000000, READERS = 2, WORDS = sizeof(struct tug_acp_entry) / 8 };

static struct tug_acp_entry entry;
static _Atomic bool over;
static _Atomic unsigned found, torn;

static struct tug_key key_of(uint64_t id) {
    struct tug_key key;
    for (size_t i = 0; i < TUG_ACP_KEY_WORDS; i++)
        key.word[i] = id + (id << 32) * i;
    return key;
}

static void an_entry_holds_its_key(void **state) {
    const struct tug_key first = key_of(5), second = key_of(6), none = {{0}};
    struct tug_acp_entry copy = {{{0}}, 0};
    (void)state;
    assert_false(tug_acp_entry_holds(&copy));
    tug_acp_entry_write(&copy, &first);
    assert_true(tug_acp_entry_holds(&copy));
    assert_memory_equal(&copy.key, &first, sizeof(first));
    const struct tug_acp_entry of_first = copy;
    tug_acp_entry_write(&copy, &none);
    assert_false(tug_acp_entry_holds(&copy));
    tug_acp_entry_write(&copy, &second);
    assert_true(tug_acp_entry_holds(&copy));
    copy.id = of_first.id; /* as read from the one, then from the other */
    assert_false(tug_acp_entry_holds(&copy));
    copy.id = 0;
    assert_false(tug_acp_entry_holds(&copy));
}

/* Copies it as a card or a processor may: from the first word on, or from the last. */
static void read_entry(struct tug_acp_entry *copy, bool from_the_last) {
    uint64_t *to = copy->key.word, *from = entry.key.word;
    for (int i = 0; i < WORDS; i++) {
        const int word = from_the_last ? WORDS - 1 - i : i;
        to[word] = __atomic_load_n(&from[word], __ATOMIC_ACQUIRE);
    }
}

static void *read_entries(void *from_the_last) {
    struct tug_acp_entry copy;
    while (!atomic_load(&over)) {
        read_entry(&copy, from_the_last != NULL);
        if (!tug_acp_entry_holds(&copy))
            continue;
        const struct tug_key want = key_of(copy.id);
        atomic_fetch_add(memcmp(&copy.key, &want, sizeof(want)) == 0 ? &found : &torn, 1);
    }
    return NULL;
}

static void nobody_reads_half_an_entry(void **state) {
    pthread_t readers[READERS];
    (void)state;
    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_entries, (void *)i), 0);
    for (uint64_t id = 1;
         id <= CHANGES || (atomic_load(&found) < 1000 && id < 100 * (uint64_t)CHANGES); id++) {
        const struct tug_key key = key_of(id);
        tug_acp_entry_write(&entry, &key);
        for (volatile uint64_t stays = id % 64; stays > 0; stays--) {
        }
    }
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_true(found > 0);
    assert_int_equal(torn, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_the_paper), cmocka_unit_test(every_part_comes_back),
        cmocka_unit_test(addresses_add_up),          cmocka_unit_test(null_is_nobodys),
        cmocka_unit_test(an_entry_holds_its_key),    cmocka_unit_test(nobody_reads_half_an_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

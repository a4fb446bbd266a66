/* Tables: what was added is found, what was removed is not, whatever the keys have in common; as
 * the ids of an endpoint's contexts and the ranks of a context's peers do. */
#include "base/table.h"
#include "check.h"

#define KEYS 500u

static char values[KEYS];

static void an_empty_table_has_nothing(void **state) {
    struct tug_table table = {0};
    (void)state;
    assert_null(tug_table_find(&table, 0));
    tug_table_remove(&table, 0);
    tug_table_each(&table, NULL, NULL);
    tug_table_fini(&table);
    assert_int_equal(tug_table_footprint(0), 0);
}

static void zero_is_a_key(void **state) {
    struct tug_table table = {0};
    (void)state;
    assert_true(tug_table_add(&table, 1, &values[1]));
    assert_null(tug_table_find(&table, 0));
    assert_true(tug_table_add(&table, 0, &values[0]));
    assert_ptr_equal(tug_table_find(&table, 0), &values[0]);
    assert_ptr_equal(tug_table_find(&table, 1), &values[1]);
    tug_table_fini(&table);
}

/* All of them at one slot, at the end: those that follow stand at the beginning. */
static void keys_of_one_slot(void **state) {
    struct tug_table table = {0};
    uint64_t keys[4], key = 1;
    (void)state;
    assert_true(tug_table_add(&table, 0, &values[0]));
    for (unsigned n = 0; n < 4; key++)
        if (key * 0x9e3779b97f4a7c15u >> 60 == 15)
            keys[n++] = key;
    for (unsigned i = 0; i < 4; i++)
        assert_true(tug_table_add(&table, keys[i], &values[1 + i]));
    assert_int_equal(tug_table_slots(&table), 16);
    tug_table_remove(&table, keys[0]);
    tug_table_remove(&table, keys[2]);
    assert_null(tug_table_find(&table, keys[0]));
    assert_ptr_equal(tug_table_find(&table, keys[1]), &values[2]);
    assert_null(tug_table_find(&table, keys[2]));
    assert_ptr_equal(tug_table_find(&table, keys[3]), &values[4]);
    assert_ptr_equal(tug_table_find(&table, 0), &values[0]);
    tug_table_fini(&table);
}

/* ---- many, at random ---- */

static uint64_t key_of(unsigned way, unsigned i) {
    static const uint64_t steps[] = {1, 4096, (uint64_t)1 << 32, 0xf1357aea2e62a9c5u};
    return way < 4 ? i * steps[way] : i;
}

struct visits {
    struct tug_table *table;
    unsigned way, n;
    bool remove;
};

static void visit(void *value, void *d) {
    struct visits *visits = d;
    visits->n++;
    if (visits->remove)
        tug_table_remove(visits->table, key_of(visits->way, (unsigned)((char *)value - values)));
}

static unsigned count(struct tug_table *table, unsigned way, bool remove) {
    struct visits visits = {.table = table, .way = way, .remove = remove};
    tug_table_each(table, visit, &visits);
    return visits.n;
}

static void come_and_go(unsigned way) {
    struct tug_table table = {0};
    bool there[KEYS] = {false};
    uint64_t draw = 88172645463325252u + way;
    unsigned n = 0;
    for (unsigned step = 0; step < 20000; step++) {
        const unsigned i = (unsigned)(check_draw(&draw) % KEYS);
        const uint64_t key = key_of(way, i);
        assert_ptr_equal(tug_table_find(&table, key), there[i] ? &values[i] : NULL);
        if (there[i])
            tug_table_remove(&table, key);
        else
            assert_true(tug_table_add(&table, key, &values[i]));
        n += there[i] ? -1u : 1u;
        there[i] = !there[i];
        assert_int_equal(table.used, n);
    }
    for (unsigned i = 0; i < KEYS; i++)
        assert_ptr_equal(tug_table_find(&table, key_of(way, i)), there[i] ? &values[i] : NULL);
    assert_int_equal(count(&table, way, false), n);
    assert_int_equal(count(&table, way, true), n);
    assert_int_equal(table.used, 0);
    assert_true(tug_table_slots(&table) * sizeof(struct tug_table_entry) <=
                tug_table_footprint(KEYS));
    tug_table_fini(&table);
}

static void many_come_and_go(void **state) {
    (void)state;
    for (unsigned way = 0; way < 4; way++)
        come_and_go(way);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(zero_is_a_key),
        cmocka_unit_test(keys_of_one_slot),
        cmocka_unit_test(many_come_and_go),
    };
    return cmocka_run_group_tests_name("base/table", cases, NULL, NULL);
}

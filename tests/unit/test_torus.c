/* Where nodes are on a torus: names, times, and serpentines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/network.h"
#include "schedule/torus.h"

#define NODES_MOST 256

static uint32_t position[NODES_MOST], sides[3];

static uint32_t product(void) {
    return sides[0] * sides[1] * sides[2];
}

static uint32_t apart(uint32_t side, uint32_t a, uint32_t b) {
    uint32_t way = (a + side - b) % side;
    return way < side - way ? way : side - way;
}

/* Links between two nodes of the torus itself. */
static uint32_t links(const struct tug_torus *torus, uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (uint32_t d = 0; d < torus->naxes; d++) {
        sum += apart(torus->sides[d], a % torus->sides[d], b % torus->sides[d]);
        a /= torus->sides[d];
        b /= torus->sides[d];
    }
    return sum;
}

/* Every node has a position of its own. Up to three axes nothing changes; beyond, neighbours on
 * what is left are neighbours on the torus, but where a serpentine of odd sides closes. */
static void folds(void **state) {
    (void)state;
    static const struct {
        struct tug_torus torus;
        bool closes;
    } cases[] = {
        {{1, {7}}, true},
        {{2, {3, 5}}, true},
        {{3, {4, 3, 2}}, true},
        {{4, {4, 3, 2, 2}}, true},
        {{4, {3, 3, 3, 5}}, false},
        {{5, {2, 2, 3, 2, 2}}, true},
        {{6, {2, 3, 2, 2, 3, 2}}, false},
        {{4, {1, 6, 1, 4}}, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tug_torus *torus = &cases[i].torus;
        uint32_t at[NODES_MOST];
        memset(at, 0xff, sizeof(at));
        tug_torus_count(torus, sides, position);
        for (uint32_t node = 0; node < product(); node++) {
            assert_true(position[node] < product());
            assert_int_equal(at[position[node]], UINT32_MAX);
            at[position[node]] = node;
            if (torus->naxes <= 3)
                assert_int_equal(position[node], node);
        }
        for (uint32_t p = 0; p < product(); p++) {
            uint32_t weight = 1;
            for (int d = 0; d < 3; d++) {
                uint32_t here = p / weight % sides[d];
                uint32_t next = p - here * weight + (here + 1) % sides[d] * weight;
                if (next != p && (cases[i].closes || here + 1 < sides[d]))
                    assert_int_equal(links(torus, at[p], at[next]), 1);
                weight *= sides[d];
            }
        }
    }
}

static bool read_names(const char *const *names, uint32_t n) {
    memset(sides, 0, sizeof(sides));
    return tug_torus_of_names(names, n, sides, position);
}

static void assert_read(const char *const *names, uint32_t n, uint32_t x, uint32_t y, uint32_t z,
                        const uint32_t *expected) {
    if (!read_names(names, n))
        fail_msg("%s and so on: no torus", names[0]);
    assert_int_equal(sides[0], x);
    assert_int_equal(sides[1], y);
    assert_int_equal(sides[2], z);
    for (uint32_t i = 0; i < n; i++)
        if (position[i] != expected[i])
            fail_msg("%s is at %u, not at %u", names[i], position[i], expected[i]);
}

static void coordinates(void **state) {
    (void)state;
    /* in any order, with zeros, a domain, what is the same in all, and gaps */
    assert_read((const char *[]){"n1-0-0", "n0-0-0", "n0-1-0", "n1-1-0", "n0-0-1", "n1-0-1",
                                 "n0-1-1", "n1-1-1"},
                8, 2, 2, 2, (uint32_t[]){1, 0, 2, 3, 4, 5, 6, 7});
    assert_read((const char *[]){"hpc2x03y10.a.org", "hpc2x07y10.a.org", "hpc2x03y9.a.org",
                                 "hpc2x07y09.a.org"},
                4, 2, 2, 1, (uint32_t[]){2, 3, 0, 1});
    /* Slurm: switches from the top, then the node */
    assert_read(
        (const char *[]){"s0.s1.t1", "s0.s1.t2", "s0.s1.t3", "s0.s2.t1", "s0.s2.t2", "s0.s2.t3"}, 6,
        2, 3, 1, (uint32_t[]){0, 2, 4, 1, 3, 5});
}

static void four_axes(void **state) {
    (void)state;
    char text[16][16];
    const char *names[16];
    for (uint32_t i = 0; i < 16; i++) {
        (void)snprintf(text[i], sizeof(text[i]), "c%u-%uc%us%u", i & 1, i >> 1 & 1, i >> 2 & 1,
                       i >> 3);
        names[i] = text[i];
    }
    uint32_t counted[NODES_MOST];
    tug_torus_count(&(struct tug_torus){4, {2, 2, 2, 2}}, sides, counted);
    assert_read(names, 16, 4, 2, 2, counted);
}

static void no_coordinates(void **state) {
    (void)state;
    static const char *const none[][4] = {
        {"node1", "node2", "node3", "node4"},               /* a counter */
        {"host", "host", "host", "host"},                   /* emulated nodes */
        {"", "", "", ""},                                   /* nothing is said */
        {"a0-0", "a0-1", "a1-0", "b1-1"},                   /* other text */
        {"a0-0", "a0-1", "a1-0", "a1-1-1"},                 /* more numbers */
        {"a0-0", "a0-1", "a1-0", "a11"},                    /* fewer */
        {"a0-0", "a0-1", "a1-0", "a2-2"},                   /* no grid */
        {"a0-0", "a0-1", "a1-0", "a1-0"},                   /* two at one place */
        {"a0-0", "a0-1", "a1-0", "a1-1111111111111111111"}, /* more digits than a number has */
        {"0-0", "0-1", "1-0", "-1"},
    };
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        if (read_names(none[i], 4))
            fail_msg("%s and so on: a torus of %ux%ux%u", none[i][0], sides[0], sides[1], sides[2]);
    assert_false(read_names((const char *[]){"a0-0"}, 1));
    static char endless[4][TUG_TORUS_NAME_BYTES + 1]; /* the last byte is not the name's */
    for (int i = 0; i < 4; i++) {
        memset(endless[i], 'a', TUG_TORUS_NAME_BYTES);
        memcpy(endless[i], (const char *[]){"0b0", "0b1", "1b0", "1b1"}[i], 3);
    }
    assert_false(read_names((const char *[]){endless[0], endless[1], endless[2], endless[3]}, 4));
    assert_false(read_names((const char *[]){"1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17",
                                             "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.18"},
                            2));
}

/* Distances are those between positions, whatever the numbers of the nodes. */
static void distances(void **state) {
    (void)state;
    struct tug_places places;
    const uint32_t shuffled[12] = {7, 2, 0, 11, 5, 3, 9, 1, 10, 4, 8, 6};
    assert_int_equal(tug_places_uniform(&places, 12, 1), 0);
    assert_int_equal(tug_places_arrange(&places, (uint32_t[]){2, 2, 3}, shuffled), 0);
    const struct tug_torus torus = {3, {2, 2, 3}};
    for (uint32_t a = 0; a < 12; a++) {
        assert_int_equal(tug_places_at(&places, tug_places_position(&places, a)), a);
        for (uint32_t b = 0; b < 12; b++)
            if (a != b)
                assert_int_equal(tug_network_distance(&places, a, b),
                                 links(&torus, shuffled[a], shuffled[b]));
    }
    tug_places_fini(&places);
}

static void nodes_are_numbered(void **state) {
    (void)state;
    uint32_t leaders[] = {0, 1, 0, 3, 1, 3}, numbers[] = {0, 1, 0, 2, 1, 2};
    assert_int_equal(tug_places_number(leaders, 6), 3);
    assert_memory_equal(leaders, numbers, sizeof(numbers));
    assert_int_equal(tug_places_number((uint32_t[]){0, 2, 2}, 3), 0);
    assert_int_equal(tug_places_number((uint32_t[]){0, 0, UINT32_MAX}, 3), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds),     cmocka_unit_test(coordinates),
        cmocka_unit_test(four_axes), cmocka_unit_test(no_coordinates),
        cmocka_unit_test(distances), cmocka_unit_test(nodes_are_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Where nodes are on a torus: serpentines, and distances. */
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
        cmocka_unit_test(folds),
        cmocka_unit_test(distances),
        cmocka_unit_test(nodes_are_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "schedule/torus.h"

#include <string.h>

/* The two whose product is the smallest become one, at the place of the first. An even one is the
 * outer one, where there is: then the serpentine closes. */
static void merge_two(struct tug_torus *torus, uint32_t at[]) {
    uint32_t a = 0, b = 1, n = torus->naxes;
    uint32_t *side = torus->sides;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++)
            if ((uint64_t)side[i] * side[j] < (uint64_t)side[a] * side[b]) {
                a = i;
                b = j;
            }
    uint32_t outer = side[b] % 2 == 0 || side[a] % 2 != 0 ? b : a;
    uint32_t inner = outer == a ? b : a;
    uint32_t along = at[outer] % 2 == 0 ? at[inner] : side[inner] - 1 - at[inner];
    at[a] = at[outer] * side[inner] + along;
    side[a] *= side[b];
    torus->naxes--;
    for (uint32_t i = b; i < torus->naxes; i++) {
        side[i] = side[i + 1];
        at[i] = at[i + 1];
    }
}

/* The three sides that are left, and where a node with those coordinates is on them:
 * (z * Y + y) * X + x. */
static uint32_t position_of(const struct tug_torus *torus, const uint32_t at[],
                            uint32_t folded[3]) {
    struct tug_torus left = *torus;
    uint32_t to[TUG_AXES_MOST];
    memcpy(to, at, torus->naxes * sizeof(*to));
    while (left.naxes > 3)
        merge_two(&left, to);
    uint32_t position = 0;
    for (uint32_t d = 3; d-- > 0;) {
        folded[d] = d < left.naxes ? left.sides[d] : 1;
        position = position * folded[d] + (d < left.naxes ? to[d] : 0);
    }
    return position;
}

void tug_torus_count(const struct tug_torus *torus, uint32_t folded[3], uint32_t position[]) {
    uint64_t nodes = 1;
    for (uint32_t d = 0; d < torus->naxes; d++)
        nodes *= torus->sides[d];
    for (uint64_t node = 0; node < nodes; node++) {
        uint32_t at[TUG_AXES_MOST];
        uint64_t rest = node;
        for (uint32_t d = 0; d < torus->naxes; d++) {
            at[d] = (uint32_t)(rest % torus->sides[d]);
            rest /= torus->sides[d];
        }
        position[node] = position_of(torus, at, folded);
    }
}

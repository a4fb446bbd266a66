#include "schedule/torus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- axes ---- */

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

uint32_t tug_torus_position(const struct tug_torus *torus, const uint32_t at[],
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
        position[node] = tug_torus_position(torus, at, folded);
    }
}

/* ---- names ---- */

#define NUMBERS_MOST 16
#define DIGITS_MOST 18

/* The numbers of a name. UINT32_MAX: it has another text between them than `pattern`, or more or
 * longer ones than there is room for. */
static uint32_t read_numbers(const char *name, const char *pattern,
                             uint64_t numbers[NUMBERS_MOST]) {
    uint32_t n = 0;
    while (*name != '\0' || *pattern != '\0') {
        if (!isdigit((unsigned char)*name) || !isdigit((unsigned char)*pattern)) {
            if (*name++ != *pattern++)
                return UINT32_MAX;
            continue;
        }
        char *end;
        numbers[n] = strtoull(name, &end, 10);
        if (end - name > DIGITS_MOST || ++n == NUMBERS_MOST)
            return UINT32_MAX;
        name = end;
        pattern += strspn(pattern, "0123456789");
    }
    return n;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The different values of a column of the table, sorted; how many. */
static uint32_t values_of(const uint64_t *table, uint32_t nnodes, uint32_t column,
                          uint64_t values[]) {
    uint32_t n = 0;
    for (uint32_t node = 0; node < nnodes; node++)
        values[node] = table[(uint64_t)node * NUMBERS_MOST + column];
    qsort(values, nnodes, sizeof(*values), by_size);
    for (uint32_t i = 0; i < nnodes; i++)
        if (n == 0 || values[i] != values[n - 1])
            values[n++] = values[i];
    return n;
}

static uint32_t index_in(const uint64_t *values, uint32_t n, uint64_t value) {
    return (uint32_t)((const uint64_t *)bsearch(&value, values, n, sizeof(value), by_size) -
                      values);
}

/* The columns that differ are axes: their numbers become places on them, in the first columns. */
static bool find_axes(uint64_t *table, uint32_t nnodes, uint32_t columns, uint64_t values[],
                      struct tug_torus *torus) {
    uint64_t product = 1;
    torus->naxes = 0;
    for (uint32_t c = 0; c < columns; c++) {
        uint32_t n = values_of(table, nnodes, c, values);
        if (n == 1)
            continue;
        if (torus->naxes == TUG_AXES_MOST || (product *= n) > nnodes)
            return false;
        for (uint32_t node = 0; node < nnodes; node++) {
            uint64_t *row = &table[(uint64_t)node * NUMBERS_MOST];
            row[torus->naxes] = index_in(values, n, row[c]);
        }
        torus->sides[torus->naxes++] = n;
    }
    return torus->naxes >= 2 && product == nnodes;
}

/* taken: one byte a position, zeroed. False: two nodes are at one. */
static bool place_all(const uint64_t *table, uint32_t nnodes, const struct tug_torus *torus,
                      unsigned char *taken, uint32_t folded[3], uint32_t position[]) {
    for (uint32_t node = 0; node < nnodes; node++) {
        uint32_t at[TUG_AXES_MOST];
        for (uint32_t d = 0; d < torus->naxes; d++)
            at[d] = (uint32_t)table[(uint64_t)node * NUMBERS_MOST + d];
        position[node] = tug_torus_position(torus, at, folded);
        if (taken[position[node]]++ != 0)
            return false;
    }
    return true;
}

bool tug_torus_of_names(const char *const names[], uint32_t nnodes, uint32_t folded[3],
                        uint32_t position[]) {
    uint64_t *table = calloc(nnodes, NUMBERS_MOST * sizeof(*table));
    uint64_t *values = calloc(nnodes, sizeof(*values));
    unsigned char *taken = calloc(nnodes, 1);
    struct tug_torus torus;
    bool found = table != NULL && values != NULL && taken != NULL && nnodes > 1;
    uint32_t columns = 0;
    for (uint32_t node = 0; node < nnodes && found; node++) {
        found = memchr(names[node], '\0', TUG_TORUS_NAME_BYTES) != NULL;
        if (found)
            columns = read_numbers(names[node], names[0], &table[(uint64_t)node * NUMBERS_MOST]);
        found = found && columns != UINT32_MAX;
    }
    found = found && find_axes(table, nnodes, columns, values, &torus) &&
            place_all(table, nnodes, &torus, taken, folded, position);
    free(table);
    free(values);
    free(taken);
    return found;
}

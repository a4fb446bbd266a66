#include "schedule/nearness.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MOST 100000 /* of a search; a torus takes few more than it has nodes */

/* A torus that is being filled. */
struct search {
    uint32_t nnodes;
    uint32_t sides[3];
    const float *times;                                  /* [nnodes * nnodes] */
    uint8_t apart[TUG_NEARNESS_MOST][TUG_NEARNESS_MOST]; /* links between two nodes */
    uint32_t at[TUG_NEARNESS_MOST];                      /* by position: the node */
    bool placed[TUG_NEARNESS_MOST];                      /* by node */
    uint32_t steps;
};

static float time_of(const struct search *search, uint32_t a, uint32_t b) {
    return a < b ? search->times[a * search->nnodes + b] : search->times[b * search->nnodes + a];
}

/* Links between two positions. */
static uint32_t links(const uint32_t sides[3], uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (int d = 0; d < 3; d++) {
        const uint32_t way = (a % sides[d] + sides[d] - b % sides[d]) % sides[d];
        sum += way < sides[d] - way ? way : sides[d] - way;
        a /= sides[d];
        b /= sides[d];
    }
    return sum;
}

/* Counts the links of the shortest ways, where those that are at most so far apart are neighbours.
 */
static void count_links(struct search *search, float farthest) {
    const uint32_t n = search->nnodes;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            search->apart[a][b] = a == b                              ? 0
                                  : time_of(search, a, b) <= farthest ? 1
                                                                      : UINT8_MAX / 2;
    for (uint32_t by = 0; by < n; by++)
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                if (search->apart[a][by] + search->apart[by][b] < search->apart[a][b])
                    search->apart[a][b] = (uint8_t)(search->apart[a][by] + search->apart[by][b]);
}

/* Is the node as far from those that are placed as it should be? */
static bool fits(const struct search *search, uint32_t node, uint32_t position) {
    for (uint32_t p = 0; p < position; p++)
        if (search->apart[node][search->at[p]] != links(search->sides, position, p))
            return false;
    return true;
}

/* Fills the positions from the first to the last. At a position whose node is known to be wrong the
 * next one is tried. */
static bool place_all(struct search *search) {
    uint32_t next[TUG_NEARNESS_MOST] = {0}; /* by position: the node to be tried next */
    uint32_t position = 1;
    memset(search->placed, 0, sizeof(search->placed));
    search->at[0] = 0; /* all places of a torus are alike */
    search->placed[0] = true;
    while (position > 0 && position < search->nnodes && search->steps++ < STEPS_MOST) {
        uint32_t node = next[position];
        while (node < search->nnodes && (search->placed[node] || !fits(search, node, position)))
            node++;
        if (node < search->nnodes) {
            search->at[position] = node;
            search->placed[node] = true;
            next[position++] = node + 1;
            if (position < search->nnodes)
                next[position] = 0;
        } else if (--position > 0) {
            search->placed[search->at[position]] = false;
        }
    }
    return position == search->nnodes;
}

/* Do times grow with the links, in the mean? */
static bool grow(const struct search *search) {
    double sum[TUG_NEARNESS_MOST] = {0};
    uint32_t count[TUG_NEARNESS_MOST] = {0};
    for (uint32_t a = 0; a < search->nnodes; a++)
        for (uint32_t b = 0; b < a; b++) {
            const uint32_t apart = links(search->sides, a, b);
            sum[apart] += (double)time_of(search, search->at[a], search->at[b]);
            count[apart]++;
        }
    for (uint32_t apart = 2; apart < search->nnodes && count[apart] > 0; apart++)
        if (sum[apart] / count[apart] <= sum[apart - 1] / count[apart - 1])
            return false;
    return true;
}

static uint32_t neighbours(const uint32_t sides[3]) {
    uint32_t n = 0;
    for (int d = 0; d < 3; d++)
        n += sides[d] > 2 ? 2 : sides[d] - 1;
    return n;
}

/* Is it a torus of these sides? sorted: the times of all pairs. */
static bool is_torus(struct search *search, const float *sorted) {
    const uint32_t pairs = search->nnodes * (search->nnodes - 1) / 2;
    const uint32_t near = search->nnodes * neighbours(search->sides) / 2;
    if (near >= pairs || sorted[near] - sorted[near - 1] <= sorted[near - 1] - sorted[0])
        return false;
    count_links(search, sorted[near - 1]);
    search->steps = 0;
    return place_all(search) && grow(search);
}

static int by_time(const void *left, const void *right) {
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static void sort_times(const float *times, uint32_t nnodes, float *sorted) {
    uint32_t n = 0;
    for (uint32_t a = 0; a < nnodes; a++)
        for (uint32_t b = a + 1; b < nnodes; b++)
            sorted[n++] = times[a * nnodes + b];
    qsort(sorted, n, sizeof(*sorted), by_time);
}

/* Few axes are tried before many, and cubes last: which of two shapes with the same neighbours is
 * taken makes no difference. */
static bool find_shape(struct search *search, const float *sorted) {
    const uint32_t n = search->nnodes;
    for (uint32_t z = 1; z * z * z <= n; z++)
        for (uint32_t y = z > 2 ? z : 2; z * y * y <= n; y++) {
            if (n % (z * y) != 0)
                continue;
            search->sides[0] = n / (z * y);
            search->sides[1] = y;
            search->sides[2] = z;
            if (is_torus(search, sorted))
                return true;
        }
    return false;
}

bool tug_torus_of_times(const float *times, uint32_t nnodes, uint32_t sides[3],
                        uint32_t position[]) {
    struct search search = {.nnodes = nnodes, .times = times};
    float sorted[TUG_NEARNESS_MOST * (TUG_NEARNESS_MOST - 1) / 2];
    if (nnodes < TUG_NEARNESS_LEAST || nnodes > TUG_NEARNESS_MOST)
        return false;
    sort_times(times, nnodes, sorted);
    if (sorted[0] <= 0 || !find_shape(&search, sorted))
        return false;
    memcpy(sides, search.sides, sizeof(search.sides));
    for (uint32_t p = 0; p < nnodes; p++)
        position[search.at[p]] = p;
    return true;
}

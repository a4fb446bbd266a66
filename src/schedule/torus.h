/* Where nodes are on a torus with more than three axes.
 *
 * Trees know three axes (trees.h). Where a torus has more, two of its axes become one, until three
 * are left: the new one runs through both in a serpentine, so that a step along it is a step along
 * one of them.
 *
 *     axes of 3 and 4:    0  1  2
 *                         5  4  3
 *                         6  7  8
 *                        11 10  9      11 and 0 are neighbours, too: the second axis is even
 *
 * Pure functions.
 */
#ifndef TUG_SCHEDULE_TORUS_H
#define TUG_SCHEDULE_TORUS_H

#include <stdint.h>

#define TUG_AXES_MOST 6

struct tug_torus {
    uint32_t naxes; /* 1 to TUG_AXES_MOST */
    uint32_t sides[TUG_AXES_MOST];
};

/* The three sides that are left, and where each node is on them, (z * Y + y) * X + x: nodes are
 * counted along the first axis first. position: [nodes]. */
void tug_torus_count(const struct tug_torus *torus, uint32_t folded[3], uint32_t position[]);

#endif

/* Where nodes are on a torus: out of their names, and with more than three axes.
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

#include <stdbool.h>
#include <stdint.h>

#define TUG_AXES_MOST 6
#define TUG_TORUS_NAME_BYTES 96

struct tug_torus {
    uint32_t naxes; /* 1 to TUG_AXES_MOST */
    uint32_t sides[TUG_AXES_MOST];
};

/* The three sides that are left, and where a node with those coordinates is on them:
 * (z * Y + y) * X + x. */
uint32_t tug_torus_position(const struct tug_torus *torus, const uint32_t at[], uint32_t folded[3]);

/* The same for all nodes, counted along the first axis first: position[nodes]. */
void tug_torus_count(const struct tug_torus *torus, uint32_t folded[3], uint32_t position[]);

/* The torus that names tell: numbers in them that are not the same in all are coordinates, if what
 * is between the numbers is the same and the coordinates fill a grid, each place of it once. Of an
 * axis only the order of numbers counts. Two axes at least, TUG_AXES_MOST at most: one number alone
 * counts nodes, and says nothing of their network. Peers tell the names: one that does not end
 * within TUG_TORUS_NAME_BYTES tells nothing. False: they tell none, or memory ran out. */
bool tug_torus_of_names(const char *const names[], uint32_t nnodes, uint32_t folded[3],
                        uint32_t position[]);

#endif

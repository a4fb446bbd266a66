/* Where nodes are on a torus: out of how long a short message takes between them.
 *
 * On a torus of more than one axis the neighbours of a node are nearer than all others. Each shape
 * that so many nodes can have says how many pairs are neighbours; the nearest so many pairs have to
 * differ less among themselves than from the next. Then the nodes are put on the torus one by one,
 * each as many links from all others as it should be; and times have to grow with the links between
 * nodes. Where one of this does not hold, nothing is said: a flat network has no such shape, and
 * noise seldom looks like one.
 *
 * Pure functions.
 */
#ifndef TUG_SCHEDULE_NEARNESS_H
#define TUG_SCHEDULE_NEARNESS_H

#include <stdbool.h>
#include <stdint.h>

/* Fewer nodes look like a torus by chance, more take long to measure. */
#define TUG_NEARNESS_LEAST 6
#define TUG_NEARNESS_MOST 64

/* times: [nnodes * nnodes], of which that from a lower number to a higher one is read; in any unit,
 * above 0. Two or three axes, the longest first; the first node is at 0. position: [nnodes], as in
 * torus.h. False: they tell no torus, or the nodes are too few or too many. */
bool tug_torus_of_times(const float *times, uint32_t nnodes, uint32_t sides[3],
                        uint32_t position[]);

#endif

/* Fitting LogGP parameters to measurements.
 *
 * An observation says that so many times each term took so long in all. The fit is the one of least
 * squares of the relative errors, so that small messages count as much as large ones; no term comes
 * out negative. Pure.
 */
#ifndef TUG_MODEL_FIT_H
#define TUG_MODEL_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "tugboat/model.h"

#define TUG_FIT_TERMS 4

struct tug_observation {
    double terms[TUG_FIT_TERMS];
    double seconds; /* more than 0 */
};

/* Finds the value of each term. A term that no observation holds, or that cannot be told from the
 * others, is 0. `error`, if not NULL: the root of the mean square of the relative errors. */
void tug_fit(const struct tug_observation *observations, size_t count, double values[TUG_FIT_TERMS],
             double *error);

/* What observations of LogGP look like: terms L, o, g, G. */

/* Half of a round trip of n bytes: L + 2 o + n G. */
struct tug_observation tug_observe_trip(uint64_t bytes, double seconds);

/* From one message of n bytes to the next in a stream: g + n G. */
struct tug_observation tug_observe_stream(uint64_t bytes, double seconds);

/* What a processor needs to send a message: o. */
struct tug_observation tug_observe_overhead(double seconds);

/* The parameters that explain them; the error as above. */
double tug_fit_loggp(const struct tug_observation *observations, size_t count,
                     struct tug_loggp *loggp);

#endif

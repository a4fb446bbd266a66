/* What measurements have told about predictions: by way to broadcast and size of the message, how
 * many times the predicted time it took. Later predictions on the same communicator are multiplied
 * by what is known of the same way and sizes alike, or else of the other ways there: ranks that
 * share cores, for which the model has no term, slow all of them down. Broadcasts out of memory
 * that the root lends to its node save copies that the model counts: they are kept apart.
 *
 * Plain data, the same on all ranks if they are told the same. Pure.
 */
#ifndef TUG_MODEL_EXPERIENCE_H
#define TUG_MODEL_EXPERIENCE_H

#include <stdint.h>

#include "model/choose.h"

#define TUG_EXPERIENCE_SIZES 32  /* powers of two; the last is all above */
#define TUG_EXPERIENCE_REACHES 4 /* of them: what is farther away tells nothing */

struct tug_experience {
    float times[2][TUG_BCAST_WAYS][TUG_EXPERIENCE_SIZES]; /* [lent]; 0: not measured */
};

/* A broadcast of `bytes` by the candidate took so long. */
void tug_experience_note(struct tug_experience *experience, const struct tug_candidate *candidate,
                         uint64_t bytes, double seconds);

/* Corrects what is predicted for candidates of `bytes`, and sorts them again. All are lent or none
 * is. */
void tug_experience_apply(const struct tug_experience *experience, uint64_t bytes,
                          struct tug_candidate *candidates, uint32_t count);

#endif

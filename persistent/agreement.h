/* Agreements: the ranks of a team find the largest of what each brings, number by number. That runs
 * in the engine, and nobody waits for it: it is a schedule of messages between all ranks, run by an
 * interpreter on the channel of the request that wants it, between two runs of its own.
 */
#ifndef TUG_PERSISTENT_AGREEMENT_H
#define TUG_PERSISTENT_AGREEMENT_H

#include "persistent/interpreter.h"

struct tug_agreement {
    struct tug_interpreter interpreter;
    struct tug_area_memory areas[TUG_AREA_BLOCKS];
    uint32_t count;
    double *mine;    /* [count] set before a run */
    double *largest; /* [count] of all ranks, after it */
};

/* For `count` numbers, none negative. tug_interpreter_bind() gives it a channel later. 0 or
 * TUG_ERR_NO_MEMORY; tug_agreement_fini() is to be called in both cases. Local. */
int tug_agreement_init(struct tug_agreement *agreement, struct tug_team *team, uint32_t count);
void tug_agreement_fini(struct tug_agreement *agreement);

#endif

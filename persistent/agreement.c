#include "persistent/agreement.h"

#include <stdlib.h>

#include "schedule/collectives.h"
#include "tugboat/tugboat.h"

/* Every rank a node of its own: messages only. */
static int compile(struct tug_agreement *agreement, struct tug_team *team) {
    struct tug_places places;
    struct tug_reduce_plan plan = {.elements = agreement->count, .commutes = true};
    int error = tug_places_uniform(&places, (uint32_t)team->nranks, 1);
    if (error)
        return error;
    error = tug_compile_allreduce(&agreement->interpreter.schedule, &places, &plan,
                                  (uint32_t)team->rank);
    tug_places_fini(&places);
    return error;
}

int tug_agreement_init(struct tug_agreement *agreement, struct tug_team *team, uint32_t count) {
    struct tug_interpreter *interpreter = &agreement->interpreter;
    *agreement = (struct tug_agreement){.count = count};
    int error = compile(agreement, team);
    if (error)
        return error;
    size_t scratch = (size_t)interpreter->schedule.scratch;
    agreement->mine = calloc(2 * (size_t)count + scratch, sizeof(double));
    if (agreement->mine == NULL)
        return TUG_ERR_NO_MEMORY;
    agreement->largest = agreement->mine + count;
    double *const bases[TUG_AREA_BLOCKS] = {[TUG_AREA_NONE] = agreement->mine,
                                            [TUG_AREA_INPUT] = agreement->mine,
                                            [TUG_AREA_OUTPUT] = agreement->largest,
                                            [TUG_AREA_SCRATCH] = agreement->largest + count,
                                            [TUG_AREA_LANDING] = agreement->mine};
    for (int a = 0; a < TUG_AREA_BLOCKS; a++)
        agreement->areas[a] = (struct tug_area_memory){.base = (unsigned char *)bases[a],
                                                       .type = MPI_DOUBLE,
                                                       .count = 1,
                                                       .extent = sizeof(double),
                                                       .dense = true};
    interpreter->team = team;
    interpreter->areas = agreement->areas;
    interpreter->op = MPI_MAX;
    interpreter->reduction = tug_reduction_find(MPI_MAX, MPI_DOUBLE);
    return tug_interpreter_init(interpreter);
}

void tug_agreement_fini(struct tug_agreement *agreement) {
    tug_interpreter_fini(&agreement->interpreter);
    free(agreement->mine);
}

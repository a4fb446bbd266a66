/* What the simulator finds for a broadcast of the library's team, for tests that compare it with
 * what broadcasts take. */
#ifndef TUG_TEST_SIMULATED_BCAST_H
#define TUG_TEST_SIMULATED_BCAST_H

#include "check.h"
#include "model/simulate.h"
#include "node/team.h"
#include "schedule/bcast.h"

struct simulated_bcast {
    const struct tug_places *places;
    const struct tug_bcast_plan *plan;
};

static int compile_simulated(void *state, uint32_t rank, struct tug_schedule *schedule) {
    const struct simulated_bcast *bcast = state;
    return tug_compile_bcast(schedule, bcast->places, bcast->plan, rank);
}

/* Seconds until the last rank has it. */
static double simulate_bcast(const struct tug_team *team,
                             const struct tug_model_parameters *parameters,
                             const struct tug_bcast_plan *plan) {
    char why[256] = "";
    struct tug_simulated result;
    struct simulated_bcast bcast = {&team->places, plan};
    const struct tug_simulation simulation = {
        .places = &team->places,
        .parameters = parameters,
        .element_bytes = 1,
        .message_bytes = plan->elements,
        .slots = TUG_SIMULATED_SLOTS,
        .compile = compile_simulated,
        .state = &bcast,
    };
    CHECK(tug_simulate(&simulation, &result, why, sizeof(why)) == 0, "simulator: %s", why);
    return result.seconds;
}

#endif

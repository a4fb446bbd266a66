#include "model/experience.h"

#define NEIGHBOURS 3

static uint32_t size_of(uint64_t bytes) {
    uint32_t size = bytes > 0 ? 63 - (uint32_t)__builtin_clzll(bytes) : 0;
    return size < TUG_EXPERIENCE_SIZES ? size : TUG_EXPERIENCE_SIZES - 1;
}

void tug_experience_note(struct tug_experience *experience, const struct tug_candidate *candidate,
                         uint64_t bytes, double seconds) {
    if (candidate->fitted_s > 0)
        experience->times[candidate->plan.lent][tug_bcast_way(
            candidate->plan.algorithm, candidate->plan.phases)][size_of(bytes)] =
            (float)(seconds / candidate->fitted_s);
}

/* What is known of a size: of the way, or, with TUG_BCAST_WAYS for it, of all on average. */
static double known(const float times[][TUG_EXPERIENCE_SIZES], uint32_t way, uint32_t size) {
    double sum = 0;
    uint32_t n = 0;
    if (way < TUG_BCAST_WAYS)
        return times[way][size];
    for (uint32_t w = 0; w < TUG_BCAST_WAYS; w++) {
        sum += times[w][size];
        n += times[w][size] > 0;
    }
    return n > 0 ? sum / n : 0;
}

/* The one in the middle of three, the mean of two. */
static double middle(const double *values, uint32_t count) {
    double least = values[0], most = values[0], sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
        sum += values[i];
    }
    return count == 3 ? sum - least - most : sum / count;
}

/* What is known of the very size, or else of the three nearest that something is known of: a
 * median, for a run of measurements that the machine has disturbed would spoil its neighbours. */
static double nearest(const float times[][TUG_EXPERIENCE_SIZES], uint32_t way, uint32_t size) {
    double found[NEIGHBOURS + 1];
    uint32_t n = 0;
    found[0] = known(times, way, size);
    if (found[0] > 0)
        return found[0];
    for (uint32_t far = 1; far <= TUG_EXPERIENCE_REACHES && n < NEIGHBOURS; far++) {
        if (far <= size && (found[n] = known(times, way, size - far)) > 0)
            n++;
        if (size + far < TUG_EXPERIENCE_SIZES && (found[n] = known(times, way, size + far)) > 0)
            n++;
    }
    n = n < NEIGHBOURS ? n : NEIGHBOURS;
    return n > 0 ? middle(found, n) : 0;
}

void tug_experience_apply(const struct tug_experience *experience, uint64_t bytes,
                          struct tug_candidate *candidates, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct tug_bcast_plan *plan = &candidates[i].plan;
        double times = nearest(experience->times[plan->lent],
                               tug_bcast_way(plan->algorithm, plan->phases), size_of(bytes));
        if (times == 0)
            times = nearest(experience->times[plan->lent], TUG_BCAST_WAYS, size_of(bytes));
        candidates[i].seconds = candidates[i].fitted_s * (times > 0 ? times : 1);
    }
    tug_candidates_sort(candidates, count);
}

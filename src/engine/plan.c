#include "engine/plan.h"

/* Time to the next beat. Beats are rarer while callers drive, because a beat disturbs them; rarer
 * still if there are no peers to answer. A caller that has started something and has not come back
 * for two beats in a row may have gone to compute. */
static int64_t pace(const struct tug_observed *seen) {
    const unsigned most = seen->services ? TUG_DOUBLINGS - 1 : TUG_DOUBLINGS;
    const unsigned slower = seen->steady < most ? seen->steady : most;
    const bool may_be_deserted = !seen->held && seen->steady <= 1;
    if (seen->out && seen->watched)
        return tug_sleep_slower(seen->still);
    if (seen->out && may_be_deserted)
        return TUG_GLANCE_NS;
    return seen->out || seen->held || !seen->services ? tug_sleep_slower(slower) : TUG_TICK_NS;
}

int64_t tug_sleep_slower(unsigned doublings) {
    return TUG_TICK_NS << (doublings < TUG_DOUBLINGS ? doublings : TUG_DOUBLINGS);
}

/* Are news left to callers? A caller that progresses the host reads the host's sockets, too. */
static bool is_others(const struct tug_observed *seen) {
    return seen->served || (seen->called && seen->host_ns >= 0) || (seen->services && seen->held);
}

bool tug_sleep_is_quiet(const struct tug_observed *seen) {
    return !seen->out && !seen->offered && seen->host_ns < 0 && !seen->called &&
           (!seen->services || (seen->watched && !seen->served));
}

struct tug_sleep_plan tug_sleep_plan(const struct tug_observed *seen) {
    int64_t limit_ns = pace(seen);
    if (seen->quiet >= TUG_QUIET_BEATS && tug_sleep_is_quiet(seen))
        return seen->suspended
                   ? (struct tug_sleep_plan){TUG_SLEEP_WATCH, tug_sleep_slower(TUG_DOUBLINGS - 1)}
                   : (struct tug_sleep_plan){TUG_SLEEP_DEEP, -1};
    if (seen->host_ns >= 0 && seen->told && !is_others(seen) && !seen->out)
        limit_ns = TUG_SELDOM_NS;
    else if (seen->host_ns >= 0 && !(seen->out && limit_ns < seen->host_ns))
        limit_ns = seen->host_ns;
    if (seen->suspended && limit_ns > tug_sleep_slower(TUG_DOUBLINGS - 1))
        limit_ns = tug_sleep_slower(TUG_DOUBLINGS - 1);
    return (struct tug_sleep_plan){is_others(seen) ? TUG_SLEEP_TIMED : TUG_SLEEP_WATCH, limit_ns};
}

bool tug_core_is_spare(double ranks_to_core, bool given) {
    return given || (ranks_to_core > 0 && ranks_to_core <= 0.5);
}

int64_t tug_wait_limit(bool told, bool seldom, int64_t limit_ns) {
    const int64_t most_ns = !told ? TUG_GLANCE_NS : seldom ? TUG_SELDOM_NS : -1;
    return most_ns < 0 || (limit_ns >= 0 && limit_ns < most_ns) ? limit_ns : most_ns;
}

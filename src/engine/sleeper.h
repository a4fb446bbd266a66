/* Where threads of a process sleep until something comes from outside of it.
 *
 * Two do: the holder of the baton while it waits (the *driver*), and the offload thread. Both sleep
 * in tug_sleeper_sleep() and nowhere else: on a bell, which is the sleeper's own or one that peers
 * ring too (that of this process's page), or, in place of the own bell, in a lookout, where sockets
 * wake it. All others who wait are parked inside the process, at slots (waiters.h), and are woken
 * by the holder.
 *
 * Each of the two has a lookout of its own, for both may sleep at once. If one slept there for
 * both, the news would wake that one, and it the other: where all cores compute, a thread that is
 * woken may wait 3 ms to 4 for a core, and then twice.
 *
 * The kernel lets no thread sleep on a bell and at sockets at once. Where some news ring bells and
 * others come at descriptors, the transports' watcher sleeps at the descriptors and rings the bell
 * (transport/watcher.h). Who waits for a lock or barrier in memory of the node sleeps there
 * (node/locks.h): none of what this engine does can end such a wait.
 *
 * To sleep: prepare; with services or jobs out, have them ring (tug_sleeper_watch); look once more
 * at everything; sleep. To wake: change what that look is for, seq_cst; ring.
 *
 * Peers who ring a bell of the node may leave out the fence between the change and the look at the
 * bell, which costs them as much as a short message: it waits until the line with the change is
 * theirs. Their change stays out of sight for a moment only. So the first sleep on such a bell is
 * timed, TUG_TICK_NS, and then everything is looked at again: a change whose writer looked at the
 * bell before the sleeper stood there is in sight by then, and later writers ring. It counts as one
 * stand as long as nobody has rung. tests/model/unfenced.pml checks that.
 */
#ifndef TUG_ENGINE_SLEEPER_H
#define TUG_ENGINE_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/trace.h"
#include "engine/lookout.h"
#include "engine/park.h"

struct tug_sleeper {
    struct tug_bell own;
    _Atomic uintptr_t asleep_on; /* the bell; lowest bit: shared; 0: never slept */
    _Atomic uint32_t ringing;    /* threads between reading asleep_on and having rung it */
    struct tug_lookout lookout;  /* sleeps on its own bell are here while anything is watched */
    struct tug_bell *stands_at;  /* the shared bell that it stood at last, */
    uint32_t stands_with;        /* with this key, */
    uint64_t stands_since;       /* since then (CLOCK_MONOTONIC, ns) */
    uint64_t told_since; /* its bit of tug_notes_wanted is set since (CLOCK_MONOTONIC, ns) */
    _Atomic bool out;    /* it is in the lookout, or about to be: ringing the bell alone
                            does not wake it */
};

/* Where it is about to sleep: a bell that was chosen and prepared. */
struct tug_prepared {
    struct tug_bell *bell;
    uint32_t key;
    bool shared;
};

/* Prepares that bell; NULL: its own. */
struct tug_prepared tug_sleeper_prepare(struct tug_sleeper *sleeper, struct tug_bell *bell,
                                        bool shared);

/* Sleeps there, at most limit_ns (< 0: none). watch: in the lookout, if it is on its own bell and
 * that sees anything. True: there are news at descriptors. */
bool tug_sleeper_sleep(struct tug_sleeper *sleeper, const struct tug_prepared *prepared, bool watch,
                       int64_t limit_ns);

/* What ended that sleep, for the trace; news: what it returned. */
static inline enum tug_trace_why tug_sleeper_ended_by(const struct tug_prepared *prepared,
                                                      bool news) {
    if (news)
        return TUG_TRACE_BY_NEWS;
    /* relaxed: nothing hangs on it */
    return atomic_load_explicit(&prepared->bell->word, memory_order_relaxed) != prepared->key
               ? TUG_TRACE_BY_RUNG
               : TUG_TRACE_BY_LIMIT;
}

/* Wakes it, wherever it sleeps. True if a wake was owed. Any thread. */
bool tug_sleeper_ring(struct tug_sleeper *sleeper);

/* The bell will not be there any more: returns when nobody is about to ring it. Any thread. */
void tug_sleeper_forget(struct tug_sleeper *sleeper, struct tug_bell *bell);

#endif

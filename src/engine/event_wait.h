/* Where threads of a process sleep until news come from outside of it.
 *
 * Two threads do: the holder of the baton while it waits (the *driver*), and the offload thread.
 * Both sleep in tug_sleeper_sleep() and nowhere else: at a bell or in a lookout. The bell is the
 * sleeper's own, or one that peers ring, too (that of this process's page). The lookout takes the
 * place of the own bell if there are sockets to watch. All other threads that wait are parked
 * inside the process (waiters.h), and the holder wakes them.
 *
 * Each of the two has a lookout of its own, for both may sleep at once. With one lookout the woken
 * thread would have to wake the other: where all cores compute, a thread that is woken may wait 3
 * ms to 4 for a core, and then twice.
 *
 * The kernel lets no thread sleep at a bell and at sockets at once. If some news ring bells and
 * others come at descriptors, the transports' watcher sleeps at the descriptors and rings the bell
 * (transport/watcher.h). A thread that waits for a lock or barrier in memory of the node sleeps
 * there (node/locks.h), since the engine cannot end such a wait.
 *
 * To sleep: prepare; if services or jobs are outstanding, make them ring (tug_sleeper_watch); look
 * once more at everything; sleep. To wake: change what that look reads, seq_cst; ring.
 *
 * A peer that rings a bell of the node may leave out the fence between its change and its look at
 * the bell: the fence costs as much as a short message, since it waits until the peer has the cache
 * line of the change. The sleeper executes the fence for all its peers instead (base/membarrier.h),
 * but not before each sleep. Its first sleep at such a bell ends after TUG_TICK_NS. If no thread
 * has rung by then, the sleeper's mark is still at the bell: the sleeper makes the fence, looks at
 * everything again, and sleeps without the limit. That look sees a change made before the fence; a
 * peer that makes a later change sees the mark, and rings. If the kernel refuses the fence, the
 * time of the first sleep takes its place. tests/model/unfenced.pml checks both.
 */
#ifndef TUG_ENGINE_EVENT_WAIT_H
#define TUG_ENGINE_EVENT_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/membarrier.h"
#include "base/trace.h"
#include "engine/park.h"
#include "engine/plan.h"

/* ---- lookouts ----
 *
 * A lookout: a thread sleeps there until sockets have news, the host MPI's or our own, or until it
 * is rung.
 *
 * A host that reaches its peers through sockets waits for them with epoll sets of its own, and one
 * epoll set can watch another. The lookout's set watches those of this process that have connected
 * internet sockets in them, edge-triggered, and a pipe as its bell. It neither reads from a socket
 * nor touches the host's sets: it learns that something has come, and the thread that polls the
 * host next takes it. Sockets that the host opens later are in its sets by themselves.
 *
 * For the host's news it is a hint, no more: hosts also have news without sockets (shared memory,
 * devices), and the program may have sets of its own. So a thread that sleeps here still looks now
 * and then. Our own descriptors (the tcp wire's epoll set) are level-triggered, and nothing is
 * missed: news that come after the thread's last look end its sleep. A lookout whose descriptors
 * the program has closed is *lost*: it sees nothing any more.
 *
 * Threads: open, scan and close by one thread at a time; sleep by one thread at a time; ring, add
 * and remove by any.
 */

struct tug_lookout {
    int set;             /* our epoll set */
    struct tug_own bell; /* a member of it */
    _Atomic bool lost;   /* the program has closed one of them */
    _Atomic bool sees;   /* something of the host's is watched */
    _Atomic int ours;    /* descriptors of our own that are watched */
};

/* Until it is open it sees nothing, and it is not open if the kernel cannot. */
#define TUG_LOOKOUT_SHUT                                                                           \
    { .set = -1, .bell = TUG_OWN_NONE }

void tug_lookout_open(struct tug_lookout *lookout);
void tug_lookout_close(struct tug_lookout *lookout);

/* Looks through this process's descriptors for epoll sets with connected sockets and watches those
 * that are new. Tens of microseconds. */
void tug_lookout_scan(struct tug_lookout *lookout);

/* Watches a descriptor of our own, which is readable while there is something to do. False: it
 * cannot. */
bool tug_lookout_add(struct tug_lookout *lookout, int descriptor);
void tug_lookout_remove(struct tug_lookout *lookout, int descriptor);

/* mute: news at that descriptor of our own end no sleep. Not mute: they do again, and news that
 * came meanwhile end the next one at once. */
void tug_lookout_mute(struct tug_lookout *lookout, int descriptor, bool mute);

/* Does anything but the bell end a sleep here? */
static inline bool tug_lookout_useful(const struct tug_lookout *lookout) {
    return atomic_load_explicit(&lookout->sees, memory_order_relaxed) ||
           atomic_load_explicit(&lookout->ours, memory_order_relaxed) > 0;
}

/* Sleeps until there are news, the bell has been rung, or limit_ns (< 0: none) or TUG_OWN_LOOK_NS
 * is over; not at all, if the lookout is lost. True: news have come since the last sleep. */
bool tug_lookout_sleep(struct tug_lookout *lookout, int64_t limit_ns);

void tug_lookout_ring(struct tug_lookout *lookout);

/* ---- sleepers ---- */

/* A mark that a sleeper has set for writers without a fence, and that no writer has taken since. */
struct tug_stand {
    uint64_t since_ns; /* CLOCK_MONOTONIC */
    bool fenced;       /* the writers have executed a fence since: whatever they do next, they see
                          the mark */
};

struct tug_sleeper {
    struct tug_bell own;
    _Atomic uintptr_t asleep_on; /* the bell; lowest bit: shared; 0: never slept */
    _Atomic uint32_t ringing;    /* threads between reading asleep_on and having rung it */
    struct tug_lookout lookout;  /* sleeps on its own bell are here while anything is watched */
    struct tug_bell *stands_at;  /* the shared bell that it stood at last, */
    uint32_t stands_with;        /* with this key, */
    struct tug_stand stand;      /* since then */
    struct tug_stand told;       /* since its bit of tug_gather_wanted is set */
    _Atomic bool out;            /* it is in the lookout, or about to be: ringing the bell alone
                                    does not wake it */
};

/* The mark has just been set. */
static inline void tug_stand_begin(struct tug_stand *stand) {
    *stand = (struct tug_stand){.since_ns = tug_clock_ns()};
}

/* The mark is still there. Call before the look that precedes a sleep. */
static inline void tug_stand_fence(struct tug_stand *stand) {
    if (stand->fenced || tug_clock_ns() - stand->since_ns < TUG_TICK_NS)
        return;
    tug_membarrier();
    stand->fenced = true;
}

/* The longest sleep that is safe: limit_ns (< 0: no limit) once the writers are fenced, at most
 * TUG_TICK_NS before. */
static inline int64_t tug_stand_limit(const struct tug_stand *stand, int64_t limit_ns) {
    return stand->fenced || (limit_ns >= 0 && limit_ns < TUG_TICK_NS) ? limit_ns : TUG_TICK_NS;
}

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
 * that sees anything. Returns what ended the sleep: TUG_TRACE_BY_NEWS at descriptors,
 * TUG_TRACE_BY_RUNG or TUG_TRACE_BY_LIMIT. The memory of a bell that is not its own may go
 * meanwhile (tug_sleeper_forget()), and is not touched after the sleep. */
enum tug_trace_why tug_sleeper_sleep(struct tug_sleeper *sleeper,
                                     const struct tug_prepared *prepared, bool watch,
                                     int64_t limit_ns);

/* Wakes it, wherever it sleeps. True if a wake was owed. Any thread. */
bool tug_sleeper_ring(struct tug_sleeper *sleeper);

/* The bell will not be there any more: returns when nobody is about to ring it. Any thread. */
void tug_sleeper_forget(struct tug_sleeper *sleeper, struct tug_bell *bell);

#endif

#include "node/spread.h"

#include <sched.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/park.h"
#include "node/neighbour.h"

/* The word has the core in its low bits, in place of the time's, which is right to 4 us. */
#define CORES 4096
#define LASTS_NS 2000000 /* about a time slice: who has been given none since still waits */
#define PAUSE_NS 2000000 /* between two leaves of a thread */
#define LOOK_NS 200000   /* between two looks of it at its neighbours: a cache miss each */

uint64_t tug_spread_word(int core, uint64_t now_ns) {
    return core >= 0 && core < CORES ? (now_ns & ~(uint64_t)(CORES - 1)) | (unsigned)core : 0;
}

bool tug_spread_says(uint64_t word, int core, uint64_t now_ns) {
    return word != 0 && (word & (CORES - 1)) == (unsigned)core &&
           (int64_t)(now_ns - (word | (CORES - 1))) < LASTS_NS;
}

/* What a look finds. */
struct look {
    uint64_t now_ns;
    int core;
    bool leaves;           /* a neighbour waits here, and stays */
    struct tug_cpus *free; /* of one who leaves: where it may go, made less by who waits where */
};

static void see_who_waits_here(const struct tug_neighbour *neighbour, void *argument) {
    struct look *look = argument;
    look->leaves |=
        neighbour->before &&
        tug_spread_says(atomic_load_explicit(&neighbour->page->waits, memory_order_relaxed),
                        look->core, look->now_ns);
}

static void see_where_it_waits(const struct tug_neighbour *neighbour, void *argument) {
    struct look *look = argument;
    const uint64_t word = atomic_load_explicit(&neighbour->page->waits, memory_order_relaxed);
    const int core = (int)(word & (CORES - 1));
    if (tug_spread_says(word, core, look->now_ns))
        CPU_CLR_S((size_t)core, sizeof(*look->free), look->free->sets);
}

static bool set_mask(const struct tug_cpus *cpus) {
    return sched_setaffinity(0, sizeof(*cpus), cpus->sets) == 0;
}

/* Apart, for its masks are long. */
static __attribute__((noinline)) bool leave(struct look *look) {
    static _Thread_local uint64_t last_ns;
    struct tug_cpus mask, free;
    if (look->now_ns - last_ns < PAUSE_NS || !tug_cpus_find(&mask))
        return false;
    last_ns = look->now_ns;
    free = mask;
    look->free = &free;
    CPU_CLR_S((size_t)look->core, sizeof(free), free.sets);
    if (!tug_neighbours_try(see_where_it_waits, look) || tug_cpus_count(&free) == 0 ||
        !set_mask(&free))
        return false;
    (void)set_mask(&mask);
    tug_stat_add(TUG_STAT_SPREADS, 1);
    return true;
}

/* relaxed: a hint; there is nothing but this word behind the page */
static void say(struct tug_node_page *page, uint64_t word) {
    atomic_store_explicit(&page->waits, word, memory_order_relaxed);
}

bool tug_spread(void) {
    static _Thread_local uint64_t last_ns;
    struct tug_node_page *page = tug_node_page_made();
    if (page == NULL || tug_cores_crowded())
        return false;
    struct look look = {.core = sched_getcpu(), .now_ns = tug_clock_ns()};
    say(page, tug_spread_word(look.core, look.now_ns));
    if (look.now_ns - last_ns < LOOK_NS)
        return false;
    last_ns = look.now_ns;
    if (!tug_neighbours_try(see_who_waits_here, &look) || !look.leaves || !leave(&look))
        return false;
    say(page, tug_spread_word(sched_getcpu(), look.now_ns));
    return true;
}

static void give_way(void) {
    (void)tug_spread();
}

void tug_spread_begin(void) {
    if (tug_settings.affinity_mode != TUG_AFFINITY_NONE)
        atomic_store_explicit(&tug_park_gives_way, give_way, memory_order_relaxed);
}

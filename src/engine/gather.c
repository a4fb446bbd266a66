/* Gathered operations, the engine's side: see gather.h. */
#include "engine/gather.h"

#include "engine/private.h"

_Atomic uint32_t tug_gather_wanted __attribute__((aligned(TUG_CACHE_LINE)));

/* ---- before there are any ---- */

static bool start_none(void) {
    return true;
}

static bool has_none(void) {
    return false;
}

static void ignore_position(uint64_t position) {
    (void)position;
}

static void do_nothing(void) {}

static const struct tug_gathering nothing = {start_none, start_none,      has_none,
                                             has_none,   ignore_position, do_nothing};
const struct tug_gathering *_Atomic tug_gathering = &nothing;

void tug_engine_gather(const struct tug_gathering *gathering) {
    atomic_store(&tug_gathering, gathering); /* seq_cst: pairs with the load in tug_gather_want() */
}

/* ---- for the writer ---- */

bool tug_engine_may_gather(uint64_t behind, bool *idle) {
    struct tug_engine *engine = &tug_engine;
    *idle = atomic_load_explicit(&engine->outstanding, memory_order_relaxed) == 0;
    return engine->may_drive &&
           atomic_load_explicit(&engine->ring.head, memory_order_relaxed) >= behind;
}

uint64_t tug_engine_entered(void) {
    return tug_ring_tail(&tug_engine.ring);
}

bool tug_engine_enter_idle(void) {
    struct tug_engine *engine = &tug_engine;
    uint64_t state = atomic_load_explicit(&engine->ring.state, memory_order_relaxed);
    return engine->may_drive && !(state & TUG_BATON_HELD) && tug_baton_take(&engine->ring);
}

static void start_all(void *room) {
    *(bool *)room = tug_gathered_start();
    if (!*(bool *)room)
        (void)tug_services_poll(&tug_engine, false); /* it comes with answers */
}

void tug_engine_start_gathered(bool (*waits)(void)) {
    bool room = !waits();
    while (!room)
        tug_engine_call(start_all, &room);
}

/* ---- those who sleep ---- */

uint32_t tug_engine_take_wanted(void) {
    /* seq_cst: either the sleeper sets its bit after this, and then sees what was written before,
     * or it is told */
    return atomic_fetch_and(&tug_gather_wanted, ~TUG_GATHER_DRIVER);
}

void tug_engine_tell_of_gathered(uint32_t wanted) {
    if (wanted & TUG_GATHER_DRIVER)
        tug_engine_ring_driver(&tug_engine);
    /* the holder may put the baton down without another look */
    if (wanted & TUG_GATHER_OFFLOAD)
        tug_engine_ring_offload(&tug_engine);
}

int64_t tug_gather_want(struct tug_sleeper *sleeper, uint32_t who, int64_t limit_ns) {
    /* seq_cst, before the look that follows: pairs with tug_engine_take_wanted() */
    if (!(atomic_fetch_or(&tug_gather_wanted, who) & who))
        tug_stand_begin(&sleeper->told);
    /* a thread that writes for the first time fences after it has said so */
    if (!atomic_load(&tug_gathering)->has_others())
        return limit_ns;
    tug_stand_fence(&sleeper->told);
    return tug_stand_limit(&sleeper->told, limit_ns);
}

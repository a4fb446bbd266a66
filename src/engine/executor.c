/* The executor: takes commands out of the ring and runs them, in order, as the holder of the baton.
 * A thread that has entered a command may have written notes before, which go ahead of it.
 */
#include "engine/private.h"

unsigned tug_executor_run(struct tug_engine *engine, unsigned limit) {
    struct tug_ring *ring = &engine->ring;
    struct tug_command *cell;
    unsigned executed = 0;
    while (executed < limit && (cell = tug_ring_next(ring)) != NULL && tug_notes_execute()) {
        cell->execute(cell);
        tug_ring_consume(ring, cell);
        executed++;
    }
    if (tug_stats_on && executed > 0)
        tug_stat_max(TUG_STAT_RING_HIGH_WATER,
                     executed + tug_ring_tail(ring) -
                         atomic_load_explicit(&ring->head, memory_order_relaxed));
    tug_engine_stir(engine, executed > 0);
    return executed;
}

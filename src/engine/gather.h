/* Gathered operations: small ones, which threads write down by plain stores and the holder of the
 * baton starts. LLCL's batches (llcl/batch.h) are the ones that there are; this is their contract
 * with the engine.
 *
 * The engine has them started in every round and ahead of every command. A thread that has written
 * one rings nobody, as long as somebody will look soon. A thread that sleeps longer than a beat,
 * the driver or the offload thread, sets its bit in tug_gather_wanted before it looks for gathered
 * operations for the last time, and a thread that has written one looks at these bits. That would
 * be Dekker's way if the writer fenced its store from its load, which costs it as much as the whole
 * operation. It does not. So the sleeper's first sleep after it has set its bit is timed; then the
 * sleeper makes a fence in all threads (base/membarrier.h), and looks once more. What was written
 * before the fence is seen by that look, and the writer of a later one sees the bit.
 * tests/model/batch.pml checks that.
 */
#ifndef TUG_ENGINE_GATHER_H
#define TUG_ENGINE_GATHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the engine calls. */
struct tug_gathering {
    /* Starts what all threads have written. False: something has found no room. Holder only. */
    bool (*start)(void);
    /* The same of what must precede this thread's next command: its own, and what other threads
     * have written in order. Holder only. */
    bool (*start_ahead)(void);
    /* Is there anything to start? What happened before is seen. Any thread. */
    bool (*waits)(void);
    /* Has another thread written anything so far, and is still there? Any thread. */
    bool (*has_others)(void);
    /* This thread's last command is at that position of the ring. */
    void (*come_behind)(uint64_t position);
    /* A new ring. No other thread is in the engine. */
    void (*begin_anew)(void);
};

/* Has the engine call these, from now on. Any thread. */
void tug_engine_gather(const struct tug_gathering *gathering);

/* ---- for the writer ---- */

/* May this thread write one down? Callers may drive, and every command up to position `behind` of
 * the ring has been executed. *idle: nothing is out, so nobody may look soon. Any thread. */
bool tug_engine_may_gather(uint64_t behind, bool *idle);

/* The position behind all commands that have been entered so far. */
uint64_t tug_engine_entered(void);

/* Takes the baton if nobody drives, and no cell of the ring. Then as after TUG_ENTRY_BATON. */
bool tug_engine_enter_idle(void);

/* Has what was gathered started until waits() is false. Any thread, not in callbacks. */
void tug_engine_start_gathered(bool (*waits)(void));

/* The sleepers that want to be told of what is written. */
#define TUG_GATHER_DRIVER 1u
#define TUG_GATHER_OFFLOAD 2u
extern _Atomic uint32_t tug_gather_wanted;

/* Returns the sleepers to wake, and clears the driver's bit; the offload thread's stays until the
 * thread is rung. */
uint32_t tug_engine_take_wanted(void);

/* Wakes those. */
void tug_engine_tell_of_gathered(uint32_t wanted);

/* ---- inside the engine ---- */

/* Is the sleeper's bit set? Then a thread that has made work for it, gathered or not, rings it.
 * seq_cst, after that was made: pairs with the sleeper's look before it sleeps. */
static inline bool tug_gather_wanted_by(uint32_t who) {
    return atomic_load(&tug_gather_wanted) & who;
}

/* Sets the sleeper's bit, `who`: writers ring it from now on. The sleeper looks once more before it
 * sleeps. Returns the longest safe sleep, limit_ns or less (< 0: without a limit). */
struct tug_sleeper;
int64_t tug_gather_want(struct tug_sleeper *sleeper, uint32_t who, int64_t limit_ns);

/* Clears the bit: writers need not ring a sleeper that looks at every beat. */
static inline void tug_gather_want_not(uint32_t who) {
    if (atomic_load_explicit(&tug_gather_wanted, memory_order_relaxed) & who)
        atomic_fetch_and(&tug_gather_wanted, ~who);
}

/* The functions of struct tug_gathering. */
extern const struct tug_gathering *_Atomic tug_gathering;

static inline const struct tug_gathering *tug_gathering_now(void) {
    /* acquire: pairs with the store in tug_engine_gather() */
    return atomic_load_explicit(&tug_gathering, memory_order_acquire);
}

static inline bool tug_gathered_start(void) {
    return tug_gathering_now()->start();
}

static inline bool tug_gathered_start_ahead(void) {
    return tug_gathering_now()->start_ahead();
}

static inline bool tug_gathered_waits(void) {
    return tug_gathering_now()->waits();
}

static inline void tug_gathered_come_behind(uint64_t position) {
    tug_gathering_now()->come_behind(position);
}

static inline void tug_gathered_begin_anew(void) {
    tug_gathering_now()->begin_anew();
}

#endif

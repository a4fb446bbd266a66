/* Batches: small operations that a thread starts one after the other.
 *
 * To hand an operation to the engine takes two atomic read-modify-writes, one for the baton and one
 * to put it down, as long as the rest of what a small operation costs. A thread whose operations
 * are on their way anyhow, a packet at a time, need not pay them for each: it writes them into a
 * *batch* of its own, a ring with one writer, by plain stores. The holder of the baton starts what
 * stands there, in every round and ahead of every command (engine/gather.h); so does the writer,
 * when its batch has become long enough.
 *
 * Operations that follow one another are mostly alike: of the same kind, on the same memory of the
 * same process, of the same length. What they have in common is their *form*; it stands in the
 * batch once, ahead of them. Of each there is what it differs in, a *record*: a distance from the
 * form's offset and some bytes (of a write the data, of a read where what is read goes, of a
 * message what it says). Records stand as the data of a RUN do (transport/packets/packet.h), so
 * that one copy takes many of them into a packet or slot:
 *
 *     | FORM (4) | form | distance (4) | bytes | distance (4) | bytes | ... | FORM (4) | form | ...
 *
 * A record or form that would not fit in front of the end of the ring begins at its beginning; if
 * there is room for it, END says so.
 *
 * Order: the records of a thread are started in the order in which they were written, before
 * whatever the thread enters the engine for afterwards, and behind what it has entered before (as
 * long as that is in the engine's ring, nothing is written here). Between threads:
 * tug_batch_settle() waits for all earlier records of all threads. A command runs after all earlier
 * IN_ORDER records. An IN_ORDER record runs after all earlier records and commands, or is refused;
 * then the thread enters the engine, and comes behind earlier commands and IN_ORDER records.
 * ("Earlier" is happens-before.)
 *
 * A record may lie until the offload thread's next beat, or, without one, for as long as its writer
 * neither enters the engine nor fills its batch, and no thread drives. So batches are only for what
 * need not be done before the writer asks for it (tug_batch_settle()). While no operation is out,
 * no thread may poll soon: the writer then starts its record itself.
 *
 * Pairings: tug_batch_add() releases `written`, the holder acquires it (forms and records); the
 * holder releases `started`, the writer acquires it before it writes there again. A batch goes on
 * to another thread, with what stands in it, when its writer ends: `taken` is released and
 * acquired. How a thread that sleeps hears of a record is in engine/gather.h.
 */
#ifndef TUG_LLCL_BATCH_H
#define TUG_LLCL_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/gather.h"
#include "engine/park.h"

#define TUG_BATCH_BYTES 8192 /* a power of two */
#define TUG_BATCHES 64       /* threads beyond enter the engine */
#define TUG_RECORD_MOST 24   /* bytes of a record, besides the distance */

/* What records have in common. */
struct tug_batch_form {
    /* Of n operations, whose records stand together at `run`, returns how many have been started:
     * the others are for a later call. By the holder of the baton; may not block. */
    uint32_t (*start)(const struct tug_batch_form *form, const unsigned char *run, uint32_t n);
    void *target; /* what start() needs; forms with equal fields are one form */
    uint64_t end;
    uint64_t key;
    uint64_t offset; /* that distances are from */
    uint32_t number;
    uint16_t bytes;  /* of each operation */
    uint16_t record; /* of each record, at most TUG_RECORD_MOST */
};

struct tug_batch {
    _Atomic uint64_t written __attribute__((aligned(TUG_CACHE_LINE))); /* bytes; writer only */
    uint64_t due; /* writer only: records of `form` fit up to here without tug_batch_begin() */
    unsigned how; /* writer only: tug_batch_begin()'s */
    bool shy; /* writer only: no operation was out at tug_batch_begin(), so it starts the record */
    struct tug_batch_form form; /* writer only: of what it has written last */
    uint64_t seen;              /* writer only: at least so much has been started */
    uint64_t part;              /* writer only: behind this it starts what it has written */
    uint64_t entered; /* writer only: the position in the engine's ring behind its last command */
    uint64_t bit;     /* of the masks of batches: this one's */
    _Atomic uint64_t reads; /* behind the last read in it; writer only */
    _Atomic bool taken;
    _Atomic uint64_t started __attribute__((aligned(TUG_CACHE_LINE))); /* bytes; holder only */
    struct tug_batch_form current; /* holder only: of the record that is started next */
    unsigned char ring[TUG_BATCH_BYTES] __attribute__((aligned(TUG_CACHE_LINE)));
};

extern _Thread_local struct tug_batch *tug_batch; /* this thread's, or NULL: it has not begun */

enum tug_batch_how {
    /* It comes behind what other threads have written or entered before. */
    TUG_BATCH_IN_ORDER = 1,
    /* Refused while no operation is out: no completion would have a thread look. */
    TUG_BATCH_PROMPT = 2,
    /* It waits for others, even if nothing is out; the writer starts some of them now and then, so
     * that they travel while it goes on. */
    TUG_BATCH_WAITS = 4,
    TUG_BATCH_READS = 8, /* it is a read: see tug_batch_settle_reads() */
};

/* Makes room for one record of that form, at that offset, to be written by tug_batch_add(), and
 * says how far from the form's offset it is. False: the thread enters the engine instead. May call
 * callbacks, which may write records of this thread. Any thread. */
bool tug_batch_begin(const struct tug_batch_form *form, unsigned how, uint64_t offset,
                     uint32_t *distance);

static inline size_t tug_batch_step(size_t record) {
    return sizeof(uint32_t) + record;
}

/* Is the last form that one? For a thread that has a batch. */
static inline bool tug_batch_has_form(const struct tug_batch *batch,
                                      const struct tug_batch_form *form) {
    const struct tug_batch_form *last = &batch->form;
    return last->start == form->start && last->target == form->target && last->end == form->end &&
           last->key == form->key && last->number == form->number && last->bytes == form->bytes &&
           last->record == form->record;
}

/* Is there room for one more record of the last form, at that offset, without a look? For a thread
 * that has a batch. False: tug_batch_begin() finds it out. */
static inline __attribute__((always_inline)) bool
tug_batch_continues(const struct tug_batch *batch, uint64_t offset, uint32_t *distance) {
    const uint64_t from = offset - batch->form.offset;
    const uint64_t written = atomic_load_explicit(&batch->written, memory_order_relaxed);
    *distance = (uint32_t)from;
    /* the two lowest distances are FORM and END */
    return __builtin_expect((from + ((uint64_t)1 << 31) - 2 <= UINT32_MAX - 2) &
                                (written + tug_batch_step(batch->form.record) <= batch->due),
                            1);
}

/* Starts the thread's batch, or wakes the sleepers that have set their bit. For tug_batch_add(). */
void tug_batch_announce(struct tug_batch *batch);

/* Writes the record for which there is room; bytes: of the form's record. */
static inline __attribute__((always_inline)) void tug_batch_add(uint32_t distance, const void *data,
                                                                size_t bytes) {
    struct tug_batch *batch = tug_batch;
    const uint64_t written = atomic_load_explicit(&batch->written, memory_order_relaxed);
    unsigned char *at = batch->ring + written % TUG_BATCH_BYTES;
    memcpy(at, &distance, sizeof(distance));
    if (__builtin_expect(bytes == 8, 1))
        memcpy(at + sizeof(distance), data, 8);
    else if (bytes > 0)
        memcpy(at + sizeof(distance), data, bytes);
    /* release: pairs with the acquire of the holder */
    atomic_store_explicit(&batch->written, written + tug_batch_step(bytes), memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order, see gather.h */
    if (__builtin_expect(
            batch->shy | (atomic_load_explicit(&tug_gather_wanted, memory_order_relaxed) != 0), 0))
        tug_batch_announce(batch);
}

/* Returns when all that was written before has been started, by this thread and, if that happened
 * before, by others. Any thread, not in callbacks. */
void tug_batch_settle(void);

/* The same of the reads, for one who needs no more. */
void tug_batch_settle_reads(void);

/* Is anything written that has not been started? What happened before is seen. Any thread. */
bool tug_batch_waits(void);

/* Has this thread written reads that have not been started? */
bool tug_batch_has_reads(void);

/* How many batches are looked at: those of the threads that are there. */
unsigned tug_batches_open(void);

#endif

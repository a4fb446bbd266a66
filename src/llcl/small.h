/* Small operations of other floors: many reads, writes and messages of a few bytes each, which a
 * thread starts one after the other and then waits for.
 *
 * A floor keeps a struct tug_peer for each process that it has to do with, and starts operations
 * that count there. How they go is found out here, in this order:
 *
 *   gathered   next to a process of the node that computes, by few calls for all (vector.h)
 *   alone      few, to a process of the node that looks (transport/lone.h)
 *   batched    the thread's batch has it, until the thread that drives starts it (batch.h)
 *   else       a try_ call of LLCL: loads and stores, cross-memory attach, a card, packets
 *
 * Completion: operations end in any order, so that a flush cannot just count. A peer has two
 * *generations*; an operation belongs to the one that is open when it starts, see
 * rma/remote_sync.c. Those in batches count as started when the holder of the baton starts them,
 * so a thread that waits for all calls tug_peer_end_gathering() (vector.h), then
 * tug_batch_settle() first.
 *
 * Any thread, not in callbacks. What is started here may wait for room, and helps meanwhile.
 */
#ifndef TUG_LLCL_SMALL_H
#define TUG_LLCL_SMALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "llcl/batch.h"
#include "llcl/llcl.h"

/* ---- what is out to a peer ---- */

struct tug_generation {
    struct tug_counter ended; /* operations that are complete */
    _Atomic uint64_t started; /* operations that were started; those in `in_hand` are not in it */
    _Atomic uint64_t in_hand; /* operations that the holder of the baton has started */
};

struct tug_outstanding {
    struct tug_generation generations[2];
    _Atomic uint32_t flips; /* the open generation is number flips % 2 */
};

enum tug_gathers { TUG_GATHERS_UNKNOWN, TUG_GATHERS, TUG_GATHERS_NOT };

struct tug_peer {
    struct tug_outstanding remote; /* operations that need no buffers of ours */
    struct tug_outstanding local;  /* operations that need buffers of this process */
    tug_context *context;
    uint32_t process;
    bool beside;                       /* another process of this node */
    _Atomic uint8_t gathers;           /* enum tug_gathers: are operations, since the last flush? */
    _Atomic uint32_t gathered;         /* those that wait in the vector */
    _Atomic uint32_t gathering_ns;     /* each that was done last took; 0: they lay together */
    struct tug_vector *_Atomic vector; /* NULL: none so far */
};

/* Nothing is out, or will be any more. */
void tug_peer_begin(struct tug_peer *peer, tug_context *context, uint32_t process);
void tug_peer_end(struct tug_peer *peer);

static inline struct tug_generation *tug_outstanding_open(struct tug_outstanding *outstanding) {
    return &outstanding
                ->generations[atomic_load_explicit(&outstanding->flips, memory_order_relaxed) % 2];
}

/* Counts an operation that is about to be started; it ends with what is returned. */
static inline struct tug_callback tug_outstanding_start(struct tug_outstanding *outstanding) {
    struct tug_generation *generation = tug_outstanding_open(outstanding);
    /* relaxed: a flush that must wait for it is ordered behind it by the program */
    atomic_fetch_add_explicit(&generation->started, 1, memory_order_relaxed);
    return (struct tug_callback){tug_counter_add, &generation->ended};
}

/* Counts one of which only the memory here is waited for: what goes wrong, its other end says. */
struct tug_callback tug_outstanding_start_reading(struct tug_outstanding *outstanding);

/* `ended` first: what has ended has started, so as many as have started later are all. */
static inline bool tug_generation_is_empty(const struct tug_generation *generation) {
    /* seq_cst: as tug_counter_value(), for waiters look after they have said that they wait */
    const uint64_t ended = __atomic_load_n(&generation->ended.completed, __ATOMIC_SEQ_CST);
    return ended >= atomic_load(&generation->started) + atomic_load(&generation->in_hand);
}

static inline bool tug_outstanding_is_empty(const struct tug_outstanding *outstanding) {
    return tug_generation_is_empty(&outstanding->generations[0]) &&
           tug_generation_is_empty(&outstanding->generations[1]);
}

/* Nothing is out to it, nor waits in batches; what has been gathered is for itself. */
static inline bool tug_peer_is_quiet(const struct tug_peer *peer) {
    return !tug_batch_waits() && tug_outstanding_is_empty(&peer->remote) &&
           tug_outstanding_is_empty(&peer->local);
}

/* ---- reads and writes ---- */

#define TUG_FORM_WORDS 3
#define TUG_NO_FORM UINT64_MAX /* the last word: of no form */

/* Of any number of bytes. The caller has seen that the key is the peer's, and that the bytes lie in
 * what it names. */
struct tug_transfer {
    struct tug_peer *peer;
    const struct tug_key *key;
    uint64_t offset;
    void *here; /* anywhere in this process's memory */
    size_t bytes;
    enum tug_shortcut shortcut; /* to the memory: tug_context_shortcut() */
    /* Called, exactly once, when the memory here may be used again (a write) or is filled (a read).
     * NULL: that counts in peer->local; a write that is copied by the call does not. */
    const struct tug_callback *then;
    /* What the caller knows it by: one of the same form is for the same peer, has as many bytes,
     * and may follow it by tug_small_follow(). */
    uint64_t form[TUG_FORM_WORDS];
};

/* A write counts in peer->remote until it is complete at the peer; what is gathered counts nowhere
 * (tug_peer_settle()). */
void tug_peer_write(const struct tug_transfer *write);
void tug_peer_read(const struct tug_transfer *read);

/* The same of a write, if it can be done so that the memory here may be used again at once. False:
 * it cannot, nothing happened. */
bool tug_peer_write_alone(const struct tug_transfer *write);

/* ---- messages and calls ---- */

struct tug_peer_message {
    struct tug_peer *peer;
    unsigned handler;
    const void *payload; /* with on_local: until that is called; else TUG_COPIED_MOST bytes at most,
                            copied by the call */
    size_t bytes;
    struct tug_callback on_local;    /* may be of nothing */
    const struct tug_callback *then; /* when it has been handled; NULL: counts in peer->remote */
};

/* May the next message or call to it go by itself? Only if it has none to come behind, and the
 * process looks. To be asked before the operation is counted. */
bool tug_peer_is_free(const struct tug_peer *peer);

/* A call that goes by itself, its payload copied. False: it does not, nothing happened. */
bool tug_peer_call_alone(const struct tug_peer *peer, const struct tug_call_params *call);

/* For tug_peer_message(): what those in batches have in common; and one that is in none, by itself
 * if it may. */
uint32_t tug_small_start_messages(const struct tug_batch_form *form, const unsigned char *run,
                                  uint32_t n);
void tug_peer_send(const struct tug_peer_message *message, bool alone);

/* Messages of one thread to one peer are handled in the order in which they were sent; short ones
 * behind what other threads have written or entered before, too. Inline, as a payload that has just
 * been written in pieces is slow to copy whole. */
static inline void tug_peer_message(const struct tug_peer_message *message) {
    const struct tug_batch_form form = {.start = tug_small_start_messages,
                                        .target = message->peer,
                                        .number = message->handler,
                                        .bytes = (uint16_t)message->bytes,
                                        .record = (uint16_t)message->bytes};
    const bool alone = tug_burst.awaited && tug_peer_is_free(message->peer);
    uint32_t distance;
    if (alone || message->bytes > TUG_COPIED_MOST || message->then != NULL ||
        !tug_batch_begin(&form, TUG_BATCH_IN_ORDER, 0, &distance))
        tug_peer_send(message, alone);
    else if (__builtin_expect(message->bytes == TUG_COPIED_MOST, 1))
        tug_batch_add(distance, message->payload, TUG_COPIED_MOST);
    else
        tug_batch_add(distance, message->payload, message->bytes);
}

/* ---- one more like the last ---- */

/* What this thread's last operation in its batch is known by, while tug_burst.follows says that
 * another may follow it. */
extern _Thread_local uint64_t tug_small_form[TUG_FORM_WORDS];

/* Is an operation of that form like the last in this thread's batch? */
static inline bool tug_small_is_like(bool writes, const uint64_t form[TUG_FORM_WORDS]) {
    return tug_burst.follows == (writes ? TUG_FOLLOWS_WRITES : TUG_FOLLOWS_READS) &&
           tug_small_form[0] == form[0] && tug_small_form[1] == form[1] &&
           tug_small_form[2] == form[2];
}

/* The bytes of one that is like it. */
static inline size_t tug_small_bytes(void) {
    return tug_batch->form.bytes;
}

/* tug_batch_begin() of one more of the last form. */
bool tug_small_begin_like(uint64_t offset, uint32_t *distance);

/* One that is like it joins it. False: it goes the long way, nothing happened. */
static inline __attribute__((always_inline)) bool tug_small_follow(bool writes, uint64_t offset,
                                                                   const void *here) {
    const struct tug_batch *batch = tug_batch;
    uint32_t distance;
    if (!tug_batch_continues(batch, offset, &distance) && !tug_small_begin_like(offset, &distance))
        return false;
    tug_burst_add();
    if (!writes) /* where what is read goes */
        tug_batch_add(distance, &here, sizeof(here));
    else if (__builtin_expect(batch->form.record == 8, 1))
        tug_batch_add(distance, here, 8);
    else
        tug_batch_add(distance, here, batch->form.record);
    return true;
}

#endif

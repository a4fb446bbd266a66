/* Small operations of other floors: many reads, writes and messages of a few bytes each, which a
 * thread starts one after the other and then waits for.
 *
 * A floor keeps a struct tug_peer for each process that it has to do with, and starts operations
 * that count there. How they go is found out here, in this order:
 *
 *   gathered     next to a process of the node that computes, by few calls for all (vector.h)
 *   in company   like the one before it, to a process of the node (engine/notes.h)
 *   alone        few, to a process of the node that looks (transport/lone.h)
 *   noted        the thread's notebook has it, until whoever drives puts it in a packet
 *   else         a try_ call of LLCL: loads and stores, cross-memory attach, a card, packets
 *
 * Completion: operations end in any order, so that a flush cannot just count. A peer has two
 * *generations*; an operation belongs to the one that is open when it starts, see
 * rma/remote_sync.c. Those in notes and companies count as started when the holder of the baton
 * starts them, so who waits for all calls tug_peer_end_gathering() (vector.h), then
 * tug_small_settle() first.
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

#include "engine/notes.h"
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

/* Nothing is out to it, nor waits in notes; what has been gathered is for itself. */
static inline bool tug_peer_is_quiet(const struct tug_peer *peer) {
    return !tug_notes_waiting() && tug_outstanding_is_empty(&peer->remote) &&
           tug_outstanding_is_empty(&peer->local);
}

/* Returns when what waits in notes and companies has been started, by this thread and, if that
 * happened before, by others; the reads alone, for one who needs no more. */
static inline void tug_small_settle(void) {
    tug_notes_settle();
}

static inline void tug_small_settle_reads(void) {
    tug_reads_settle();
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
     * and may come by tug_small_is_like(). */
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

/* For tug_peer_message(): one that is noted; and one that is not, by itself if it may. */
struct tug_noted_message {
    struct tug_peer *peer;
    uint32_t handler, bytes;
    unsigned char payload[TUG_COPIED_MOST];
};
_Static_assert(sizeof(struct tug_noted_message) <= TUG_NOTE_PAYLOAD, "it fits a note");
bool tug_small_execute_message(const struct tug_note *note);
void tug_peer_send(const struct tug_peer_message *message, bool alone);

/* Messages of one thread to one peer are handled in the order in which they were sent; short ones
 * behind what other threads have noted or entered before, too. Inline, as a payload that has just
 * been written in pieces is slow to copy whole. */
static inline void tug_peer_message(const struct tug_peer_message *message) {
    const bool alone = tug_burst.awaited && tug_peer_is_free(message->peer);
    struct tug_note *note = alone || message->bytes > TUG_COPIED_MOST || message->then != NULL
                                ? NULL
                                : tug_note_begin(TUG_NOTE_IN_ORDER);
    if (__builtin_expect(note == NULL, 0)) {
        tug_peer_send(message, alone);
        return;
    }
    struct tug_noted_message *noted = (struct tug_noted_message *)note->payload.bytes;
    note->execute = tug_small_execute_message;
    noted->peer = message->peer;
    noted->handler = message->handler;
    noted->bytes = (uint32_t)message->bytes;
    if (__builtin_expect(message->bytes == TUG_COPIED_MOST, 1))
        memcpy(noted->payload, message->payload, TUG_COPIED_MOST);
    else
        memcpy(noted->payload, message->payload, message->bytes);
    tug_note_end();
}

/* ---- one more like the last ---- */

/* The words of a company, and of the last noted write to another node. */
enum {
    TUG_SMALL_PEER,
    TUG_SMALL_KEY,
    TUG_SMALL_OFFSET,
    TUG_SMALL_BYTES, /* of each operation */
    TUG_SMALL_FORM,  /* TUG_FORM_WORDS */
};

extern _Thread_local uint64_t tug_small_noted[TUG_COMPANY_WORDS]; /* while tug_burst.noted */

static inline enum tug_company_kind tug_small_kind(bool writes) {
    return writes ? TUG_COMPANY_WRITES : TUG_COMPANY_READS;
}

/* What this thread's last small writes, or reads, have in common, which another may join. NULL:
 * nothing. */
static inline const uint64_t *tug_small_last(bool writes) {
    const struct tug_company *last = tug_burst.companies[tug_small_kind(writes)];
    if (last != NULL)
        return last->words;
    return writes && tug_burst.noted ? tug_small_noted : NULL;
}

/* Have they that form? */
static inline bool tug_small_is_like(const uint64_t *last, const uint64_t form[TUG_FORM_WORDS]) {
    const uint64_t *theirs = &last[TUG_SMALL_FORM];
    return theirs[0] == form[0] && theirs[1] == form[1] && theirs[2] == form[2];
}

static inline uint64_t tug_small_key(const uint64_t *last) {
    return last[TUG_SMALL_KEY];
}

static inline size_t tug_small_bytes(const uint64_t *last) {
    return last[TUG_SMALL_BYTES];
}

/* A write that is noted: the most common one of many. */
struct tug_noted_write {
    struct tug_peer *peer;
    uint64_t key, offset;
    uint32_t bytes;
    unsigned char data[TUG_COPIED_MOST];
};
_Static_assert(sizeof(struct tug_noted_write) <= TUG_NOTE_PAYLOAD, "it fits a note");
bool tug_small_execute_write(const struct tug_note *note);

/* One more write like the last that was noted, in a note that was begun. True. */
static inline bool tug_small_fill(struct tug_note *note, uint64_t offset, const void *here) {
    const size_t bytes = tug_small_noted[TUG_SMALL_BYTES];
    struct tug_noted_write *noted = (struct tug_noted_write *)note->payload.bytes;
    note->execute = tug_small_execute_write;
    noted->peer = (struct tug_peer *)(uintptr_t)tug_small_noted[TUG_SMALL_PEER];
    noted->key = tug_small_noted[TUG_SMALL_KEY];
    noted->offset = offset;
    noted->bytes = (uint32_t)bytes;
    if (__builtin_expect(bytes == 8, 1))
        memcpy(noted->data, here, 8);
    else
        memcpy(noted->data, here, bytes);
    tug_note_end();
    tug_burst_add();
    return true;
}

/* The same where a note has to be begun. False: it goes the long way, nothing happened. */
bool tug_small_note(uint64_t offset, const void *here);

/* One that is like them joins them, if its offset is near enough and there is room. False: it goes
 * the long way, nothing happened. */
static inline __attribute__((always_inline)) bool tug_small_join(bool writes, uint64_t offset,
                                                                 const void *here) {
    const enum tug_company_kind kind = tug_small_kind(writes);
    struct tug_company *last = tug_burst.companies[kind];
    if (writes && last == NULL) {
        struct tug_note *note = tug_note_next();
        return note != NULL ? tug_small_fill(note, offset, here) : tug_small_note(offset, here);
    }
    const uint64_t distance = offset - last->words[TUG_SMALL_OFFSET];
    if (distance + ((uint64_t)1 << 31) > UINT32_MAX || !tug_company_has_room(last, kind))
        return false;
    tug_burst_add();
    if (!writes) /* where what is read goes */
        tug_company_add(last, kind, (uint32_t)distance, &here, sizeof(here));
    else if (__builtin_expect(last->bytes == 8, 1))
        tug_company_add(last, kind, (uint32_t)distance, here, 8);
    else
        tug_company_add_any(last, kind, (uint32_t)distance, here);
    return true;
}

_Static_assert(TUG_SMALL_FORM + TUG_FORM_WORDS <= TUG_COMPANY_WORDS, "there is room for them");

#endif

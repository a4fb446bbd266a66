/* Notes: small commands that a thread starts one after the other.
 *
 * Entering the ring takes two atomic read-modify-writes, one for the baton and one to put it down,
 * as long as the rest of what a small operation costs. A thread whose operations are on their way
 * anyhow, a packet at a time, need not pay them for each: it writes them into a *notebook* of its
 * own, a ring with one writer, by plain stores. The holder of the baton, whoever that is, executes
 * what stands there, in every round and ahead of every command; so does the writer when its
 * notebook is full.
 *
 * Order: notes of a thread are executed in the order in which they were written, before whatever
 * the thread enters the ring for afterwards, and behind what it has entered before (as long as that
 * is in the ring, it takes no notes). Between threads, one that calls tug_notes_settle() comes
 * behind all notes that were written before (happens-before) by others; one that enters the ring,
 * behind those that were to be in order; and these, behind what others have noted or entered.
 *
 * A note may lie until the offload thread's next beat, or, without one, for as long as its writer
 * neither enters the ring nor fills its notebook, and nobody drives. So they are only for what need
 * not be done before the writer asks for it (tug_notes_settle()). While nothing is out, and nobody
 * would look soon, the writer executes its note itself, so that something is. What notes start may
 * be gathered: it goes with the next beat, when a transport has enough of it, or when it is asked
 * for.
 *
 * A thread that sleeps longer than a beat, the driver or the offload thread, sets its bit in
 * tug_notes_wanted before it looks at the notebooks for the last time, and a thread that has
 * written a note looks at these bits. That would be Dekker's way if the writer fenced its store
 * from its load, which costs it as much as the note. It does not. The first sleep after the bit was
 * set is timed; then the sleeper makes the fence for all writers (base/membarrier.h), and looks
 * once more. A note that was written before the fence is seen by that look, and the writer of a
 * later one sees the bit. tests/model/notes.pml checks that.
 *
 * Operations of a thread that are all alike, one-sided reads or writes of the same length in the
 * same memory, need no note each: they join its *company*, a ring in its notebook of what they
 * differ in, a distance and some bytes (reads: where what is read goes). What they have in common
 * stands there once, and is written while the ring is empty. The holder takes them as it takes
 * notes, many at a time. There is one for reads and one for writes: reads are executed ahead of
 * the notes, and writes behind them, so that a read that waits is not overtaken by what the thread
 * does there next. While nobody drives, the writer has a few of them executed now and then, so that
 * they travel while it goes on. A note takes a cache line and a call, one in company its bytes: 64
 * puts of 8 bytes and a flush took 3.4 us as notes, and take 1.8 so.
 *
 * Pairings: tug_note_end() releases `written`, the holder acquires it (the note's bytes); the
 * holder releases `executed`, the writer acquires it before it writes there again. A notebook goes
 * on to another thread, with what stands in it, when its writer ends: `taken` is released and
 * acquired.
 */
#ifndef TUG_ENGINE_NOTES_H
#define TUG_ENGINE_NOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/ring.h"

#define TUG_NOTES 128    /* in a notebook; a power of two */
#define TUG_NOTEBOOKS 64 /* threads beyond enter the ring */
#define TUG_NOTE_PAYLOAD 56

struct tug_note {
    /* By the holder of the baton; may not block. False: there is no room for what it starts,
     * nothing happened; it is called again. */
    bool (*execute)(const struct tug_note *note);
    union {
        unsigned char bytes[TUG_NOTE_PAYLOAD];
        uint64_t words[TUG_NOTE_PAYLOAD / 8];
    } payload;
} __attribute__((aligned(TUG_CACHE_LINE)));

_Static_assert(sizeof(struct tug_note) == TUG_CACHE_LINE, "a note is a cache line");

#define TUG_COMPANY 256     /* a power of two */
#define TUG_COMPANY_MOST 24 /* bytes of one */
#define TUG_COMPANY_WORDS 7

enum tug_company_kind { TUG_COMPANY_READS, TUG_COMPANY_WRITES, TUG_COMPANIES };

/* One after the other, from where the company was opened; one and all that follow stand together up
 * to the end of the ring:
 *
 *     | distance (4) | bytes | distance (4) | bytes | ...
 */
struct tug_company {
    /* By the holder of the baton; may not block. Of n operations, which stand together at `run`,
     * returns how many have been started: the others are for a later call. */
    uint32_t (*execute)(const struct tug_company *company, const unsigned char *run, uint32_t n);
    uint64_t words[TUG_COMPANY_WORDS]; /* of whoever has opened it */
    uint32_t bytes;                    /* of each in the ring */
    uint32_t opened;                   /* how many had joined then */
    uint32_t seen;                     /* writer only: at least so many have been executed */
    uint32_t due; /* writer only: when so many have joined, some are executed */
    unsigned char ring[TUG_COMPANY * (sizeof(uint32_t) + TUG_COMPANY_MOST)];
};

struct tug_notebook {
    _Atomic uint32_t written __attribute__((aligned(TUG_CACHE_LINE))); /* writer only */
    _Atomic uint32_t joined[TUG_COMPANIES];                            /* writer only */
    uint32_t seen; /* writer only: at least so many notes have been executed */
    uint32_t due; /* writer only: when so many are written, the next one is not tug_note_next()'s */
    uint64_t entered; /* writer only: the position in the ring behind its last command */
    bool idle;        /* writer only: nothing was out when its last note was begun */
    bool later;       /* writer only: its last note is one of TUG_NOTE_LATER */
    uint64_t bit;     /* of the masks of notebooks: this one's */
    _Atomic bool taken;
    _Atomic uint32_t executed __attribute__((aligned(TUG_CACHE_LINE))); /* holder only */
    _Atomic uint32_t gone[TUG_COMPANIES];                               /* likewise, of joined */
    struct tug_note notes[TUG_NOTES] __attribute__((aligned(TUG_CACHE_LINE)));
    struct tug_company companies[TUG_COMPANIES] __attribute__((aligned(TUG_CACHE_LINE)));
};

extern _Thread_local struct tug_notebook *tug_notebook; /* this thread's */

/* Those who want to be told of notes, as they sleep. */
#define TUG_NOTES_DRIVER 1u
#define TUG_NOTES_OFFLOAD 2u
extern _Atomic uint32_t tug_notes_wanted;

/* Does it want to be told, as it sleeps? Of notes, and of anything that it would have to look
 * after. seq_cst, after that was made so: pairs with its look before it sleeps. */
static inline bool tug_notes_wanted_by(uint32_t who) {
    return atomic_load(&tug_notes_wanted) & who;
}

/* This thread has written a note for which nobody may look: executes its notes if nobody drives
 * (and the last is not for later), else wakes those who want to be told. Not in callbacks. */
void tug_notes_announce(void);

enum tug_note_kind {
    TUG_NOTE_ANY,
    TUG_NOTE_IN_ORDER, /* comes behind what other threads have noted or entered before */
    TUG_NOTE_PROMPT,   /* only while something is out, whose end will have somebody look */
    TUG_NOTE_LATER,    /* it waits for the next beat, even if nothing is out */
};

/* Memory for a note, to be filled and ended with tug_note_end(). NULL: the thread enters the
 * ring instead. Not in callbacks. Any thread. */
struct tug_note *tug_note_begin(enum tug_note_kind kind);

/* The same for one more of TUG_NOTE_ANY by a thread that has had a note before, while what was
 * found out for that one still holds, or matters so little that it is found out again every few
 * notes. NULL: tug_note_begin() finds it out now. */
static inline __attribute__((always_inline)) struct tug_note *tug_note_next(void) {
    struct tug_notebook *book = tug_notebook;
    const uint32_t written = atomic_load_explicit(&book->written, memory_order_relaxed);
    return __builtin_expect(written != book->due, 1) ? &book->notes[written % TUG_NOTES] : NULL;
}

static inline void tug_note_end(void) {
    struct tug_notebook *book = tug_notebook;
    uint32_t written = atomic_load_explicit(&book->written, memory_order_relaxed);
    /* release: pairs with the acquire of the holder */
    atomic_store_explicit(&book->written, written + 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order, see above */
    if (__builtin_expect(
            book->idle | (atomic_load_explicit(&tug_notes_wanted, memory_order_relaxed) != 0), 0))
        tug_notes_announce();
}

/* This thread's company of that kind, empty, for operations of which `bytes` (1 to
 * TUG_COMPANY_MOST) stand in the ring each: the caller fills in `execute` and `words`. NULL: there
 * is none, or it is not empty; nothing happened. Not in callbacks. Any thread. */
struct tug_company *tug_company_open(enum tug_company_kind kind, uint32_t bytes);

/* Executes some, or has seen that others have. False: it is full, or not this thread's. */
bool tug_company_go(const struct tug_company *company, enum tug_company_kind kind);

/* As tug_notes_announce(), but for those who want to be told alone. */
void tug_company_announce(void);

static inline __attribute__((always_inline)) unsigned char *
tug_company_at(struct tug_company *company, uint32_t position) {
    return company->ring + (size_t)((position - company->opened) % TUG_COMPANY) *
                               (sizeof(uint32_t) + company->bytes);
}

/* Is it this thread's (which may be about to end), and is there room for one more? */
static inline __attribute__((always_inline)) bool
tug_company_has_room(const struct tug_company *company, enum tug_company_kind kind) {
    const struct tug_notebook *book = tug_notebook;
    return __builtin_expect(
        (company == &book->companies[kind]) &
            (atomic_load_explicit(&book->joined[kind], memory_order_relaxed) != company->due),
        1);
}

/* One more, for which there is room. */
static inline __attribute__((always_inline)) void tug_company_add(struct tug_company *company,
                                                                  enum tug_company_kind kind,
                                                                  uint32_t distance,
                                                                  const void *data, size_t bytes) {
    struct tug_notebook *book = tug_notebook;
    const uint32_t joined = atomic_load_explicit(&book->joined[kind], memory_order_relaxed);
    unsigned char *at = tug_company_at(company, joined);
    memcpy(at, &distance, sizeof(distance));
    memcpy(at + sizeof(distance), data, bytes);
    /* release: pairs with the acquire of the holder */
    atomic_store_explicit(&book->joined[kind], joined + 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* as in tug_note_end() */
    if (__builtin_expect(atomic_load_explicit(&tug_notes_wanted, memory_order_relaxed) != 0, 0))
        tug_company_announce();
}

/* The same of any length. */
void tug_company_add_any(struct tug_company *company, enum tug_company_kind kind, uint32_t distance,
                         const void *data);

/* Returns when all notes that were written before have been executed, by this thread and, if that
 * happened before, by others. Any thread, not in callbacks. */
void tug_notes_settle(void);

/* The same of the reads that have joined a company, for one who needs no more. */
void tug_reads_settle(void);

/* ---- for the engine ---- */

/* A new ring. No other thread is in the engine. */
void tug_notes_begin_anew(void);

/* This thread's last command is at that position of the ring. */
void tug_notes_come_behind(uint64_t position);

/* This sleeper, who is `who`, is told of notes from now on; it looks at them before it sleeps.
 * Returns how long it may sleep at most, limit_ns or less (< 0: without a limit). */
struct tug_sleeper;
int64_t tug_notes_want(struct tug_sleeper *sleeper, uint32_t who, int64_t limit_ns);

/* It looks at every beat. */
static inline void tug_notes_want_not(uint32_t who) {
    if (atomic_load_explicit(&tug_notes_wanted, memory_order_relaxed) & who)
        atomic_fetch_and(&tug_notes_wanted, ~who);
}

/* Does anything stand in a notebook? What happened before is seen. Any thread. */
bool tug_notes_waiting(void);

/* How many notebooks are looked at: those of the threads that are there. */
unsigned tug_notes_open(void);

/* Executes what stands in the notebooks. False: one has found no room. Holder only. */
bool tug_notes_execute(void);

/* Executes the notes that have to go ahead of what this thread is about to do. False: as above. */
bool tug_notes_go_ahead(void);

#endif

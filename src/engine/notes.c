/* Notebooks: see notes.h. They stay for the life of the process, for the next threads. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/notes.h"
#include "engine/private.h"

_Thread_local struct tug_notebook *tug_notebook;

static struct tug_notebook *_Atomic books[TUG_NOTEBOOKS];
static _Atomic uint32_t nbooks;
static struct tug_notebook none = {.written = TUG_NOTES, .due = TUG_NOTES}; /* full for ever */
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned executed_since_look; /* by their writer; holder only */

/* Notebooks by their bits: those that are to be looked at, which a thread has or in which one that
 * has ended has left notes; and those of them in which some note had to be in order. A thread sets
 * its bits before it writes, and takes them away when it leaves an empty notebook behind. */
static _Atomic uint64_t open_books, ordered_books;
_Static_assert(TUG_NOTEBOOKS == 64, "a bit each");
_Atomic uint32_t tug_notes_wanted __attribute__((aligned(TUG_CACHE_LINE)));

/* ---- who has one ---- */

/* acquire, here and below: what was executed is seen; pairs with the release in execute */
static inline bool have_gone(const struct tug_notebook *book, enum tug_company_kind kind) {
    return atomic_load_explicit(&book->joined[kind], memory_order_relaxed) ==
           atomic_load_explicit(&book->gone[kind], memory_order_acquire);
}

static inline uint32_t written_of(const struct tug_notebook *book) {
    return atomic_load_explicit(&book->written, memory_order_relaxed);
}

static bool is_empty(const struct tug_notebook *book) {
    return written_of(book) == atomic_load_explicit(&book->executed, memory_order_acquire) &&
           have_gone(book, TUG_COMPANY_READS) && have_gone(book, TUG_COMPANY_WRITES);
}

static bool has_no_reads(const struct tug_notebook *book) {
    return have_gone(book, TUG_COMPANY_READS);
}

static void leave_book(void *pointer) {
    struct tug_notebook *book = pointer;
    tug_notebook = &none;
    if (is_empty(book)) {
        atomic_fetch_and(&ordered_books, ~book->bit);
        atomic_fetch_and(&open_books, ~book->bit);
    }
    /* release: pairs with the acquire in take_book */
    atomic_store_explicit(&book->taken, false, memory_order_release);
}

static void make_key(void) {
    if (pthread_key_create(&at_thread_end, leave_book) != 0)
        atomic_store(&nbooks, TUG_NOTEBOOKS); /* none are made */
}

/* One that a thread has left. */
static struct tug_notebook *take_book(void) {
    uint32_t n = atomic_load_explicit(&nbooks, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        struct tug_notebook *book = atomic_load_explicit(&books[i], memory_order_acquire);
        bool taken = false;
        if (book != NULL && !atomic_load_explicit(&book->taken, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&book->taken, &taken, true,
                                                    memory_order_acquire, memory_order_relaxed))
            return book;
    }
    return NULL;
}

static struct tug_notebook *make_book(void) {
    uint32_t n = atomic_load(&nbooks);
    do {
        if (n == TUG_NOTEBOOKS)
            return NULL;
    } while (!atomic_compare_exchange_weak(&nbooks, &n, n + 1));
    struct tug_notebook *book = aligned_alloc(TUG_CACHE_LINE, sizeof(*book));
    if (book == NULL)
        return NULL;
    atomic_init(&book->written, 0);
    atomic_init(&book->executed, 0);
    for (unsigned kind = 0; kind < TUG_COMPANIES; kind++) {
        atomic_init(&book->joined[kind], 0);
        atomic_init(&book->gone[kind], 0);
        memset(&book->companies[kind], 0, offsetof(struct tug_company, ring)); /* of nothing */
    }
    atomic_init(&book->taken, true);
    book->seen = book->due = 0;
    book->entered = 0;
    book->bit = (uint64_t)1 << n;
    /* release: pairs with the acquire of whoever goes through the books */
    atomic_store_explicit(&books[n], book, memory_order_release);
    return book;
}

static struct tug_notebook *open_book(void) {
    (void)pthread_once(&once, make_key);
    struct tug_notebook *book = take_book();
    if (book == NULL)
        book = make_book();
    if (book != NULL && pthread_setspecific(at_thread_end, book) != 0) {
        leave_book(book);
        book = NULL;
    }
    if (book == NULL)
        return &none;
    book->entered = tug_ring_tail(&tug_engine.ring); /* some of that is this thread's */
    atomic_fetch_or(&open_books, book->bit); /* seq_cst: pairs with the load in tug_notes_want */
    return book;
}

void tug_notes_begin_anew(void) {
    const uint32_t n = atomic_load(&nbooks);
    for (uint32_t i = 0; i < n; i++) {
        struct tug_notebook *book = atomic_load(&books[i]);
        if (book != NULL) {
            book->entered = 0;
            book->due = written_of(book);
        }
    }
}

void tug_notes_come_behind(uint64_t position) {
    if (tug_notebook == NULL || tug_notebook == &none)
        return;
    tug_notebook->entered = position + 1;
    tug_notebook->due = written_of(tug_notebook);
}

/* ---- executing ---- */

static uint64_t bit_of(const struct tug_notebook *book) {
    return book != NULL && book != &none ? book->bit : 0;
}

/* The first notebook of a set that is not empty. It was published before its bit was set. */
static struct tug_notebook *book_at(uint64_t set) {
    return atomic_load_explicit(&books[__builtin_ctzll(set)], memory_order_relaxed);
}

unsigned tug_notes_open(void) {
    return (unsigned)__builtin_popcountll(atomic_load(&open_books));
}

/* What has joined, as far as it goes. The writer changes nothing of what they have in common before
 * it has seen that they have gone. */
static bool execute_company(struct tug_notebook *book, enum tug_company_kind kind) {
    struct tug_company *company = &book->companies[kind];
    uint32_t gone = atomic_load_explicit(&book->gone[kind], memory_order_relaxed);
    /* acquire: pairs with the release in tug_company_join */
    const uint32_t joined = atomic_load_explicit(&book->joined[kind], memory_order_acquire);
    while (gone != joined) {
        const uint32_t to_end = TUG_COMPANY - (gone - company->opened) % TUG_COMPANY;
        const uint32_t n = joined - gone < to_end ? joined - gone : to_end;
        const uint32_t done = company->execute(company, tug_company_at(company, gone), n);
        gone += done;
        /* release: pairs with the acquires in have_gone and of the writer */
        atomic_store_explicit(&book->gone[kind], gone, memory_order_release);
        executed_since_look += done;
        if (__builtin_expect(done < n, 0))
            return false;
    }
    return true;
}

static bool execute_notes(struct tug_notebook *book) {
    uint32_t executed = atomic_load_explicit(&book->executed, memory_order_relaxed);
    /* acquire: pairs with the release in tug_note_end */
    const uint32_t written = atomic_load_explicit(&book->written, memory_order_acquire);
    bool room = true;
    for (; executed != written; executed++) {
        const struct tug_note *note = &book->notes[executed % TUG_NOTES];
        room = note->execute(note);
        if (__builtin_expect(!room, 0))
            break;
        executed_since_look++;
    }
    /* release: pairs with the acquire in has_room */
    atomic_store_explicit(&book->executed, executed, memory_order_release);
    return room;
}

static bool execute(struct tug_notebook *book) {
    bool room = execute_company(book, TUG_COMPANY_READS);
    room &= execute_notes(book);
    return execute_company(book, TUG_COMPANY_WRITES) && room;
}

static bool execute_books(uint64_t set) {
    bool room = true;
    for (; set != 0; set &= set - 1) {
        struct tug_notebook *book = book_at(set);
        if (!is_empty(book))
            room &= execute(book);
    }
    return room;
}

/* acquire, here and below: pairs with the change in open_book */
bool tug_notes_execute(void) {
    return execute_books(atomic_load_explicit(&open_books, memory_order_acquire));
}

bool tug_notes_go_ahead(void) {
    return execute_books(atomic_load_explicit(&ordered_books, memory_order_acquire) |
                         bit_of(tug_notebook));
}

/* Is there anything in some notebook of a set? */
static inline bool any_waits(uint64_t set, bool (*has_none)(const struct tug_notebook *book)) {
    for (; set != 0; set &= set - 1)
        if (!has_none(book_at(set)))
            return true;
    return false;
}

/* In notebooks but this thread's. */
static bool others_wait(const struct tug_notebook *mine) {
    return any_waits(atomic_load_explicit(&open_books, memory_order_acquire) & ~bit_of(mine),
                     is_empty);
}

bool tug_notes_waiting(void) {
    return others_wait(NULL);
}

/* ---- writing ---- */

/* So many of a company are executed at a time while the writer goes on, and so many notes written
 * without a look. 64 puts of 8 bytes in company and a flush took 3.4 us with 8, 3.1 with 16,
 * and 2.9 with 32, 64 and 128; 256 of them 10.9, 8.8, 7.8, 9.8, 9.5. */
#define PART 32

static inline uint32_t part_of(uint32_t room) {
    return room < PART ? room : PART;
}

static bool has_room(struct tug_notebook *book) {
    /* acquire: pairs with the release in execute */
    book->seen = atomic_load_explicit(&book->executed, memory_order_acquire);
    return written_of(book) - book->seen < TUG_NOTES;
}

/* As the holder, who goes on writing and is given room by answers. */
static void execute_as_writer(struct tug_notebook *book) {
    const bool room = execute(book);
    if (!room || executed_since_look >= 2 * TUG_BATCH) {
        executed_since_look = 0;
        tug_engine_look(room);
    }
}

/* The notebook is full as far as its writer has seen. */
static __attribute__((noinline)) bool make_room(struct tug_notebook *book) {
    if (book == &none)
        return false;
    if (has_room(book))
        return true;
    if (!tug_engine_enter_idle())
        return false;
    execute_as_writer(book);
    tug_engine_leave();
    return has_room(book);
}

/* Does anything that it has to come behind stand elsewhere? */
static inline bool comes_too_early(const struct tug_notebook *book, bool in_order) {
    if (in_order &&
        __builtin_expect(!(atomic_load_explicit(&ordered_books, memory_order_relaxed) & book->bit),
                         0))
        atomic_fetch_or(&ordered_books, book->bit);
    const uint64_t entered = in_order ? tug_ring_tail(&tug_engine.ring) : book->entered;
    return atomic_load_explicit(&tug_engine.ring.head, memory_order_relaxed) < entered ||
           (in_order && others_wait(book));
}

struct tug_note *tug_note_begin(enum tug_note_kind kind) {
    struct tug_notebook *book = tug_notebook;
    if (__builtin_expect(book == NULL, 0))
        tug_notebook = book = open_book();
    const bool idle = atomic_load_explicit(&tug_engine.outstanding, memory_order_relaxed) == 0;
    if (!tug_engine.may_drive || (idle && kind == TUG_NOTE_PROMPT))
        return NULL;
    if (__builtin_expect(written_of(book) - book->seen == TUG_NOTES, 0) && !make_room(book))
        return NULL;
    if (__builtin_expect(comes_too_early(book, kind == TUG_NOTE_IN_ORDER), 0))
        return NULL;
    book->later = kind == TUG_NOTE_LATER;
    book->idle = idle && !book->later;
    const uint32_t written = written_of(book); /* callbacks may have noted more meanwhile */
    book->due =
        written + (idle || kind != TUG_NOTE_ANY ? 1 : part_of(TUG_NOTES - (written - book->seen)));
    return &book->notes[written % TUG_NOTES];
}

/* ---- the company ---- */

static uint32_t joined_of(const struct tug_notebook *book, enum tug_company_kind kind) {
    return atomic_load_explicit(&book->joined[kind], memory_order_relaxed);
}

struct tug_company *tug_company_open(enum tug_company_kind kind, uint32_t bytes) {
    struct tug_notebook *book = tug_notebook;
    if (__builtin_expect(book == NULL, 0))
        tug_notebook = book = open_book();
    struct tug_company *company = &book->companies[kind];
    if (!tug_engine.may_drive || book == &none || comes_too_early(book, false))
        return NULL;
    /* acquire: pairs with the release in execute_company */
    company->seen = atomic_load_explicit(&book->gone[kind], memory_order_acquire);
    if (company->seen != joined_of(book, kind))
        return NULL;
    company->opened = company->seen;
    company->due = company->seen + PART;
    company->bytes = bytes;
    return company;
}

bool tug_company_go(const struct tug_company *opened, enum tug_company_kind kind) {
    struct tug_notebook *book = tug_notebook;
    struct tug_company *company = &book->companies[kind];
    const uint32_t joined = joined_of(book, kind);
    if (opened != company)
        return false;
    if (tug_engine_enter_idle()) {
        execute_as_writer(book);
        tug_engine_leave();
    }
    company->seen = atomic_load_explicit(&book->gone[kind], memory_order_acquire);
    const uint32_t room = TUG_COMPANY - (joined - company->seen);
    company->due = joined + part_of(room);
    return room > 0;
}

void tug_company_add_any(struct tug_company *company, enum tug_company_kind kind, uint32_t distance,
                         const void *data) {
    tug_company_add(company, kind, distance, data, company->bytes);
}

/* ---- told ---- */

/* Who wants to be told. The driver wants it once. */
static uint32_t take_wanted(void) {
    /* seq_cst: either the sleeper sets its bit after this, and then sees the note, or it is told */
    return atomic_fetch_and(&tug_notes_wanted, ~TUG_NOTES_DRIVER);
}

static void tell(uint32_t wanted) {
    if (wanted & TUG_NOTES_DRIVER)
        tug_engine_ring_driver(&tug_engine);
    /* the holder may put the baton down without another look */
    if (wanted & TUG_NOTES_OFFLOAD)
        tug_engine_ring_offload(&tug_engine);
}

void tug_company_announce(void) {
    tell(take_wanted());
}

void tug_notes_announce(void) {
    const uint32_t wanted = take_wanted();
    if (!tug_notebook->later && tug_engine_enter_idle()) {
        (void)execute(tug_notebook);
        tug_engine_leave();
        return;
    }
    tell(wanted);
}

int64_t tug_notes_want(struct tug_sleeper *sleeper, uint32_t who, int64_t limit_ns) {
    /* seq_cst, before the look that follows: pairs with tug_notes_announce */
    if (!(atomic_fetch_or(&tug_notes_wanted, who) & who))
        tug_stand_begin(&sleeper->told);
    /* a thread that gets its first notebook fences, in open_book */
    if (!(atomic_load(&open_books) & ~bit_of(tug_notebook)))
        return limit_ns;
    tug_stand_fence(&sleeper->told);
    return tug_stand_limit(&sleeper->told, limit_ns);
}

static void execute_all(void *room) {
    *(bool *)room = tug_notes_execute();
    if (!*(bool *)room)
        (void)tug_services_poll(&tug_engine, false); /* it comes with answers */
}

static inline void settle(bool (*has_none)(const struct tug_notebook *book)) {
    bool room = !any_waits(atomic_load_explicit(&open_books, memory_order_acquire), has_none);
    while (!room)
        tug_engine_call(execute_all, &room);
}

void tug_notes_settle(void) {
    settle(is_empty);
}

void tug_reads_settle(void) {
    settle(has_no_reads);
}

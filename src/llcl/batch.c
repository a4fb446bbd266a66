/* Batches: see batch.h. They stay for the life of the process, for the next threads. */
#include "llcl/batch.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/service.h"
#include "llcl/llcl.h"

/* What stands where a record's distance would. */
#define FORM 0x80000000u
#define END 0x80000001u

#define FORM_BYTES (sizeof(uint32_t) + sizeof(struct tug_batch_form))

/* The most bytes of the ring that one record can use: its form, itself, and what both leave unused
 * in front of the ring's end. */
#define NEED_MOST (2 * (FORM_BYTES + sizeof(uint32_t) + TUG_RECORD_MOST))

/* So many bytes are written without a look, and started at a time while the writer goes on. 64 puts
 * of 8 bytes and a flush took 3.4 us with 8 puts, 3.1 with 16, and 2.9 with 32, 64 and 128; 256 of
 * them 10.9, 8.8, 7.8, 9.8, 9.5. */
#define PART 384

#define RUN_MOST 255 /* records that are started by one call */

/* So many records that writers have started make them look for answers: 8-byte writes over TCP had
 * 8.5 M/s with a look every 128, 10.5 to 12 with one every 512 (and fewer acknowledgements). */
#define LOOK_EVERY 512

_Thread_local struct tug_batch *tug_batch;

static struct tug_batch *_Atomic batches[TUG_BATCHES];
static _Atomic uint32_t nbatches;
static struct tug_batch none; /* full for ever */
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned started_since_look; /* by their writer; holder only */

/* Batches by their bits: those that are to be looked at, which a thread has or in which one that
 * has ended has left something; and those of them in which some record had to be in order. A thread
 * sets its bits before it writes, and takes them away when it leaves an empty batch behind. */
static _Atomic uint64_t open_batches, ordered_batches;
_Static_assert(TUG_BATCHES == 64, "a bit each");

/* ---- the threads that have one ---- */

static inline uint64_t written_of(const struct tug_batch *batch) {
    return atomic_load_explicit(&batch->written, memory_order_relaxed);
}

/* acquire: what was started is seen; pairs with the release in start_batch() */
static inline uint64_t started_of(const struct tug_batch *batch) {
    return atomic_load_explicit(&batch->started, memory_order_acquire);
}

static bool is_empty(const struct tug_batch *batch) {
    return written_of(batch) == started_of(batch);
}

static bool has_no_reads(const struct tug_batch *batch) {
    const uint64_t reads = atomic_load_explicit(&batch->reads, memory_order_relaxed);
    return started_of(batch) >= reads || is_empty(batch);
}

static void leave_batch(void *pointer) {
    struct tug_batch *batch = pointer;
    tug_batch = &none;
    if (is_empty(batch)) {
        atomic_fetch_and(&ordered_batches, ~batch->bit);
        atomic_fetch_and(&open_batches, ~batch->bit);
    }
    /* release: pairs with the acquire in take_batch() */
    atomic_store_explicit(&batch->taken, false, memory_order_release);
}

static const struct tug_gathering gathering;

static void begin(void) {
    if (pthread_key_create(&at_thread_end, leave_batch) != 0)
        atomic_store(&nbatches, TUG_BATCHES); /* none are made */
    tug_engine_gather(&gathering);
}

/* One that a thread has left. */
static struct tug_batch *take_batch(void) {
    const uint32_t n = atomic_load_explicit(&nbatches, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        struct tug_batch *batch = atomic_load_explicit(&batches[i], memory_order_acquire);
        bool taken = false;
        if (batch != NULL && !atomic_load_explicit(&batch->taken, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&batch->taken, &taken, true,
                                                    memory_order_acquire, memory_order_relaxed))
            return batch;
    }
    return NULL;
}

static struct tug_batch *make_batch(void) {
    uint32_t n = atomic_load(&nbatches);
    do {
        if (n == TUG_BATCHES)
            return NULL;
    } while (!atomic_compare_exchange_weak(&nbatches, &n, n + 1));
    struct tug_batch *batch = aligned_alloc(TUG_CACHE_LINE, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    memset((void *)batch, 0, offsetof(struct tug_batch, ring));
    atomic_init(&batch->taken, true);
    batch->bit = (uint64_t)1 << n;
    /* release: pairs with the acquire of a thread that goes through the batches */
    atomic_store_explicit(&batches[n], batch, memory_order_release);
    return batch;
}

static struct tug_batch *open_batch(void) {
    (void)pthread_once(&once, begin);
    struct tug_batch *batch = take_batch();
    if (batch == NULL)
        batch = make_batch();
    if (batch != NULL && pthread_setspecific(at_thread_end, batch) != 0) {
        leave_batch(batch);
        batch = NULL;
    }
    if (batch == NULL)
        return &none;
    batch->entered = tug_engine_entered(); /* some of that is this thread's */
    atomic_fetch_or(&open_batches, batch->bit);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with a sleeper's: tug_gather_want() */
    return batch;
}

static void begin_anew(void) {
    const uint32_t n = atomic_load(&nbatches);
    for (uint32_t i = 0; i < n; i++) {
        struct tug_batch *batch = atomic_load(&batches[i]);
        if (batch != NULL) {
            batch->entered = 0;
            batch->due = written_of(batch);
        }
    }
}

static void come_behind(uint64_t position) {
    struct tug_batch *batch = tug_batch;
    if (batch == NULL || batch == &none)
        return;
    batch->entered = position + 1;
    batch->due = written_of(batch);
}

/* ---- starting what is written ---- */

static inline uint64_t bit_of(const struct tug_batch *batch) {
    return batch != NULL ? batch->bit : 0; /* that of `none` is 0 */
}

/* The first of a set that is not empty. It was published before its bit was set. */
static inline struct tug_batch *batch_at(uint64_t set) {
    return atomic_load_explicit(&batches[__builtin_ctzll(set)], memory_order_relaxed);
}

unsigned tug_batches_open(void) {
    return (unsigned)__builtin_popcountll(atomic_load(&open_batches));
}

static inline uint32_t mark_at(const unsigned char *at) {
    uint32_t mark;
    memcpy(&mark, at, sizeof(mark));
    return mark;
}

static inline size_t to_end(uint64_t position) {
    return TUG_BATCH_BYTES - position % TUG_BATCH_BYTES;
}

/* How many records stand together there, of the first `left` bytes. */
static inline uint32_t records_at(const unsigned char *at, size_t left, size_t step) {
    uint32_t n = 0;
    for (; left >= step && n < RUN_MOST && mark_at(at) != FORM && mark_at(at) != END;
         left -= step) {
        n++;
        at += step;
    }
    return n;
}

/* The next form, or run of records. False: there was no room for all of it. */
static inline bool start_next(struct tug_batch *batch, uint64_t *position, uint64_t written) {
    const unsigned char *at = batch->ring + *position % TUG_BATCH_BYTES;
    const size_t end = to_end(*position);
    if (end < sizeof(uint32_t) || mark_at(at) == END) {
        *position += end;
        return true;
    }
    if (mark_at(at) == FORM) {
        memcpy(&batch->current, at + sizeof(uint32_t), sizeof(batch->current));
        *position += FORM_BYTES;
        return true;
    }
    const size_t step = tug_batch_step(batch->current.record);
    const uint32_t n = records_at(at, written - *position < end ? written - *position : end, step);
    const uint32_t started = batch->current.start(&batch->current, at, n);
    started_since_look += started;
    *position += started * step;
    return started == n;
}

static bool start_batch(struct tug_batch *batch) {
    uint64_t position = atomic_load_explicit(&batch->started, memory_order_relaxed);
    /* acquire: pairs with the release in tug_batch_add() */
    const uint64_t written = atomic_load_explicit(&batch->written, memory_order_acquire);
    bool room = true;
    while (room && position != written) {
        room = start_next(batch, &position, written);
        /* release: pairs with the acquire in started_of() */
        atomic_store_explicit(&batch->started, position, memory_order_release);
    }
    return room;
}

static bool start_set(uint64_t set) {
    bool room = true;
    for (; set != 0; set &= set - 1) {
        struct tug_batch *batch = batch_at(set);
        if (!is_empty(batch))
            room &= start_batch(batch);
    }
    return room;
}

/* acquire, here and below: pairs with the change in open_batch() */
static bool start_all(void) {
    return start_set(atomic_load_explicit(&open_batches, memory_order_acquire));
}

static bool start_ahead(void) {
    return start_set(atomic_load_explicit(&ordered_batches, memory_order_acquire) |
                     bit_of(tug_batch));
}

/* Is there anything in some batch of a set? */
static inline bool any_waits(uint64_t set, bool (*has_none)(const struct tug_batch *batch)) {
    for (; set != 0; set &= set - 1)
        if (!has_none(batch_at(set)))
            return true;
    return false;
}

static uint64_t but_for(const struct tug_batch *mine) {
    return atomic_load_explicit(&open_batches, memory_order_acquire) & ~bit_of(mine);
}

bool tug_batch_waits(void) {
    return any_waits(but_for(NULL), is_empty);
}

static bool reads_wait(void) {
    return any_waits(but_for(NULL), has_no_reads);
}

bool tug_batch_has_reads(void) {
    return tug_batch != NULL && !has_no_reads(tug_batch);
}

void tug_batch_settle(void) {
    tug_engine_start_gathered(tug_batch_waits);
}

void tug_batch_settle_reads(void) {
    tug_engine_start_gathered(reads_wait);
}

/* ---- writing ---- */

static bool has_room(struct tug_batch *batch) {
    batch->seen = started_of(batch);
    return written_of(batch) - batch->seen <= TUG_BATCH_BYTES - NEED_MOST;
}

/* As the holder, which goes on writing and is given room by answers. */
static void start_as_writer(struct tug_batch *batch) {
    if (!tug_engine_enter_idle())
        return;
    const bool room = start_batch(batch);
    if (!room || started_since_look >= LOOK_EVERY) {
        started_since_look = 0;
        tug_engine_look(room);
    }
    tug_engine_leave();
}

/* For whatever is written next. Starts some of what is written, if that is much. */
static bool make_room(struct tug_batch *batch, unsigned how) {
    if (batch == &none)
        return false;
    const bool room = has_room(batch);
    const uint64_t written = written_of(batch);
    if (room && batch->seen == written)
        batch->part = written + PART;
    if (room && (!(how & TUG_BATCH_WAITS) || written < batch->part))
        return true;
    start_as_writer(batch);
    batch->part = written_of(batch) + PART;
    return has_room(batch);
}

/* Does anything that it has to come behind stand elsewhere, or is nothing out for one that is
 * PROMPT? */
static bool comes_too_early(struct tug_batch *batch, unsigned how, bool *idle) {
    const bool in_order = how & TUG_BATCH_IN_ORDER;
    if (in_order &&
        __builtin_expect(
            !(atomic_load_explicit(&ordered_batches, memory_order_relaxed) & batch->bit), 0))
        atomic_fetch_or(&ordered_batches, batch->bit);
    const uint64_t behind = in_order ? tug_engine_entered() : batch->entered;
    return !tug_engine_may_gather(behind, idle) || (*idle && how & TUG_BATCH_PROMPT) ||
           (in_order && any_waits(but_for(batch), is_empty));
}

static void publish(struct tug_batch *batch, size_t bytes) {
    /* release: pairs with the acquire in start_batch() */
    atomic_store_explicit(&batch->written, written_of(batch) + bytes, memory_order_release);
}

/* Where the next `bytes` stand, which are not parted by the end of the ring. */
static unsigned char *place_for(struct tug_batch *batch, size_t bytes) {
    static const uint32_t mark = END;
    const size_t end = to_end(written_of(batch));
    if (bytes > end) {
        if (end >= sizeof(mark))
            memcpy(batch->ring + written_of(batch) % TUG_BATCH_BYTES, &mark, sizeof(mark));
        publish(batch, end);
    }
    return batch->ring + written_of(batch) % TUG_BATCH_BYTES;
}

static void write_form(struct tug_batch *batch, const struct tug_batch_form *form,
                       uint64_t offset) {
    static const uint32_t mark = FORM;
    tug_burst.follows = TUG_FOLLOWS_NOTHING;
    batch->form = *form;
    batch->form.offset = offset;
    unsigned char *at = place_for(batch, FORM_BYTES);
    memcpy(at, &mark, sizeof(mark));
    memcpy(at + sizeof(mark), &batch->form, sizeof(batch->form));
    publish(batch, FORM_BYTES);
}

static inline uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* There is room: how far it goes without another look. */
static void set_due(struct tug_batch *batch) {
    const uint64_t written = written_of(batch);
    const bool one = batch->shy || batch->how & TUG_BATCH_IN_ORDER;
    const uint64_t most = written + (one ? tug_batch_step(batch->form.record) : PART);
    batch->due =
        least(most, least(written + to_end(written), batch->seen + (uint64_t)TUG_BATCH_BYTES));
    if (batch->how & TUG_BATCH_READS)
        atomic_store_explicit(&batch->reads, batch->due, memory_order_relaxed);
}

bool tug_batch_begin(const struct tug_batch_form *form, unsigned how, uint64_t offset,
                     uint32_t *distance) {
    struct tug_batch *batch = tug_batch;
    bool idle;
    if (__builtin_expect(batch == NULL, 0))
        tug_batch = batch = open_batch();
    /* callbacks may write more meanwhile */
    if (!make_room(batch, how) || comes_too_early(batch, how, &idle))
        return false;
    batch->how = how;
    batch->shy = idle && !(how & TUG_BATCH_WAITS);
    batch->due = UINT64_MAX;
    if (!tug_batch_has_form(batch, form) || !tug_batch_continues(batch, offset, distance)) {
        write_form(batch, form, offset);
        *distance = 0;
    }
    (void)place_for(batch, tug_batch_step(form->record));
    set_due(batch);
    return true;
}

void tug_batch_announce(struct tug_batch *batch) {
    const uint32_t wanted = tug_engine_take_wanted();
    if (!(batch->how & TUG_BATCH_WAITS) && tug_engine_enter_idle()) {
        (void)start_batch(batch);
        tug_engine_leave();
    } else {
        tug_engine_tell_of_gathered(wanted);
    }
}

/* ---- what the engine calls ---- */

/* seq_cst: pairs with open_batch() */
static bool has_others(void) {
    return atomic_load(&open_batches) & ~bit_of(tug_batch);
}

static const struct tug_gathering gathering = {.start = start_all,
                                               .start_ahead = start_ahead,
                                               .waits = tug_batch_waits,
                                               .has_others = has_others,
                                               .come_behind = come_behind,
                                               .begin_anew = begin_anew};

/* Vectors: see vector.h.
 *
 * A peer's vector holds what waits for all threads of this process, under a mutex. It keeps the
 * registration that it is about from ending (tug_reach_begin()) while there is anything: programs
 * end registrations when operations are complete. A record in a batch has the engine's thread
 * do what nobody flushes.
 */
#include "llcl/vector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "llcl/llcl.h"
#include "node/cma.h"

#define GAP_MOST 256 /* bytes: to copy them takes a tenth of what a piece does */

/* In one direction. What continues the piece before it is one with it. */
struct moves {
    size_t nhere, nthere;
    struct iovec here[TUG_CMA_PIECES], there[TUG_CMA_PIECES];
};

#define GATHERING_MOST_NS 8000 /* an operation; else others had the core */

#define COMBINATIONS 64 /* some ten microseconds under the target's mutex */
#define PLACES 128      /* of a table by address: twice as many */

struct combination {
    tug_reduction reduce;
    void *result; /* NULL: nothing is fetched */
    uint64_t origin, compare;
    uint8_t element; /* its number */
    bool changes, compares;
};

/* On elements of `bytes` each, of which none overlaps another: they are aligned. */
struct combinations {
    unsigned n, nelements;
    size_t bytes;
    uint8_t places[PLACES]; /* 1 + number of an element with that hash, or behind it; 0: none */
    uint64_t addresses[COMBINATIONS], values[COMBINATIONS];
    bool changed[COMBINATIONS];
    struct combination list[COMBINATIONS];
};

struct tug_vector {
    struct tug_mutex mutex;
    struct tug_peer *peer;
    struct tug_mutex *atomicity; /* of the combinations; the peer's */
    _Atomic bool noted;          /* a record stands in some batch, or is about to */
    struct tug_key key;          /* of the registration; while there are any: */
    struct tug_reach reach;      /* it */
    struct combinations combinations;
    size_t nmoved;  /* pieces over there, since there are any */
    size_t ncopied; /* bytes of small writes: programs use such buffers again too early */
    struct moves writes, reads;
    unsigned char copied[TUG_CMA_PIECES * TUG_COPIED_MOST];
};

static struct tug_vector *vector_of(struct tug_peer *peer) {
    /* acquire: pairs with the exchange below */
    struct tug_vector *vector = atomic_load_explicit(&peer->vector, memory_order_acquire);
    if (__builtin_expect(vector != NULL, 1))
        return vector;
    struct tug_vector *mine = aligned_alloc(TUG_CACHE_LINE, sizeof(*mine));
    if (mine == NULL)
        return NULL;
    memset(mine, 0, offsetof(struct tug_vector, writes));
    mine->writes.nhere = mine->writes.nthere = mine->reads.nhere = mine->reads.nthere = 0;
    mine->peer = peer;
    if (atomic_compare_exchange_strong(&peer->vector, &vector, mine))
        return mine;
    free(mine);
    return vector;
}

size_t tug_vector_footprint(void) {
    return sizeof(struct tug_vector);
}

void tug_peer_end(struct tug_peer *peer) {
    free(atomic_load(&peer->vector));
}

/* ---- pieces ---- */

static void append(struct iovec *pieces, size_t *n, struct iovec piece) {
    struct iovec *last = *n > 0 ? &pieces[*n - 1] : NULL;
    if (last != NULL && (char *)last->iov_base + last->iov_len == piece.iov_base)
        last->iov_len += piece.iov_len;
    else
        pieces[(*n)++] = piece;
}

/* The kernel takes a quarter of a microsecond and more for each piece over there, wherever it is:
 * what lies between two that are read is read as well, and forgotten. All of it is in one
 * registration. */
static void bridge(struct moves *reads, uint64_t there) {
    static unsigned char forgotten[GAP_MOST];
    const struct iovec *last = reads->nthere > 0 ? &reads->there[reads->nthere - 1] : NULL;
    const uint64_t end = last != NULL ? (uint64_t)(uintptr_t)last->iov_base + last->iov_len : 0;
    const uint64_t gap = there - end;
    if (last == NULL || there <= end || gap > sizeof(forgotten))
        return;
    reads->here[reads->nhere++] = (struct iovec){forgotten, gap};
    append(reads->there, &reads->nthere, (struct iovec){(void *)(uintptr_t)end, gap});
}

static void add(struct moves *moves, void *here, uint64_t there, size_t bytes, bool writes) {
    if (!writes)
        bridge(moves, there);
    append(moves->here, &moves->nhere, (struct iovec){here, bytes});
    append(moves->there, &moves->nthere, (struct iovec){(void *)(uintptr_t)there, bytes});
}

/* ---- doing what waits; under the mutex ---- */

/* What comes back is TUG_ERR_RANGE: the owner may have protected its pages. True: they have been
 * accessed there, and the rest may be tried once more. */
static bool try_again(struct tug_vector *vector, const struct tug_cma_pieces *here,
                      const struct tug_cma_pieces *there, bool writes) {
    const struct tug_peer *peer = vector->peer;
    return tug_reach_touch(peer->context, &vector->reach, &vector->key, (int)peer->process,
                           (uintptr_t)there->at->iov_base, here->at->iov_base, writes);
}

/* Does them once, as far as it comes: *here and *there get what is left. */
static int move_once(struct tug_vector *vector, struct moves *moves, bool writes,
                     struct tug_cma_pieces *here, struct tug_cma_pieces *there) {
    *here = (struct tug_cma_pieces){moves->here, moves->nhere};
    *there = (struct tug_cma_pieces){moves->there, moves->nthere};
    vector->nmoved += there->n;
    moves->nhere = moves->nthere = 0;
    if (here->n == 0)
        return 0;
    return (writes ? tug_reach_write_pieces : tug_reach_read_pieces)(&vector->reach, here, there);
}

/* Puts the pieces that are not moved back into `moves`: a caller that may wait for the owner
 * continues with them. */
static void keep(struct moves *moves, const struct tug_cma_pieces *here,
                 const struct tug_cma_pieces *there) {
    memmove(moves->here, here->at, here->n * sizeof(moves->here[0]));
    memmove(moves->there, there->at, there->n * sizeof(moves->there[0]));
    moves->nhere = here->n;
    moves->nthere = there->n;
}

/* Moves the pieces. If `waits` is false, TUG_ERR_RANGE leaves the pieces that are not moved in
 * `moves`. */
static int move(struct tug_vector *vector, struct moves *moves, bool writes, bool waits) {
    struct tug_cma_pieces here, there;
    int status = move_once(vector, moves, writes, &here, &there);
    while (status == TUG_ERR_RANGE && waits && try_again(vector, &here, &there, writes)) {
        const void *first = there.at->iov_base;
        status = (writes ? tug_reach_write_pieces : tug_reach_read_pieces)(&vector->reach, &here,
                                                                           &there);
        if (status != 0 && there.at->iov_base == first)
            return status;
    }
    if (status == TUG_ERR_RANGE && !waits)
        keep(moves, &here, &there);
    return status;
}

/* All elements, or (writes) those that are changed; after the writes and reads, whose pieces
 * serve. */
static int move_elements(struct tug_vector *vector, bool writes, struct tug_cma_pieces *here,
                         struct tug_cma_pieces *there) {
    struct combinations *c = &vector->combinations;
    struct moves *moves = writes ? &vector->writes : &vector->reads;
    for (unsigned i = 0; i < c->nelements; i++)
        if (!writes || c->changed[i])
            add(moves, &c->values[i], c->addresses[i], c->bytes, writes);
    return move_once(vector, moves, writes, here, there);
}

static void combine(struct combinations *all, const struct combination *c) {
    const struct tug_update update = {.reduce = c->reduce,
                                      .origin = c->changes ? &c->origin : NULL,
                                      .compare = c->compares ? &c->compare : NULL,
                                      .result = c->result,
                                      .n = 1,
                                      .extent = all->bytes,
                                      .bytes = all->bytes};
    all->changed[c->element] |= tug_update_apply(&all->values[c->element], &update);
}

static uint8_t element_at(struct combinations *c, uint64_t address);

static void forget_combinations(struct combinations *c) {
    c->n = c->nelements = 0;
    memset(c->places, 0, sizeof(c->places));
}

/* Keeps the combinations that must be repeated, and drops the others: those on changed elements
 * that lie in the first `moved` bytes written. A combination that is kept has changed nothing, and
 * fetches its element again. */
static void leave_undone(struct combinations *c, size_t moved) {
    bool done[COMBINATIONS] = {false};
    uint64_t addresses[COMBINATIONS];
    const unsigned n = c->n;
    for (unsigned i = 0; i < c->nelements; i++)
        if (c->changed[i] && moved >= c->bytes) {
            done[i] = true;
            moved -= c->bytes;
        }
    memcpy(addresses, c->addresses, sizeof(addresses));
    forget_combinations(c);
    for (unsigned k = 0; k < n; k++) {
        struct combination one = c->list[k];
        if (done[one.element])
            continue;
        one.element = element_at(c, addresses[one.element]);
        c->list[c->n++] = one;
    }
}

/* Under the mutex of the target's accumulates, which its engine may want while it is waited for. */
static int combine_once(struct tug_vector *vector, struct tug_cma_pieces *here,
                        struct tug_cma_pieces *there, bool *writes) {
    struct combinations *c = &vector->combinations;
    size_t all = 0, left = 0;
    *writes = false;
    tug_mutex_lock(vector->atomicity);
    int status = move_elements(vector, false, here, there);
    for (unsigned i = 0; status == 0 && i < c->n; i++)
        combine(c, &c->list[i]);
    if (status == 0) {
        *writes = true;
        status = move_elements(vector, true, here, there);
    }
    tug_mutex_unlock(vector->atomicity);
    for (unsigned i = 0; i < c->nelements; i++)
        all += c->changed[i] ? c->bytes : 0;
    for (size_t i = 0; *writes && i < there->n; i++)
        left += there->at[i].iov_len;
    if (status == TUG_ERR_RANGE)
        leave_undone(c, *writes ? all - left : 0);
    return status;
}

static int combine_all(struct tug_vector *vector, bool waits) {
    struct tug_cma_pieces here, there;
    const void *last = NULL;
    bool writes;
    int status = 0;
    while (vector->combinations.n > 0) {
        status = combine_once(vector, &here, &there, &writes);
        if (status != TUG_ERR_RANGE)
            break;
        if (!waits)
            return status;
        const void *first = (char *)there.at->iov_base + writes;
        if (first == last || !try_again(vector, &here, &there, writes))
            break;
        last = first;
    }
    forget_combinations(&vector->combinations);
    return status;
}

/* waits: it may wait for the owner of protected memory. False, if it may not: something is left. */
static bool submit(struct tug_vector *vector, bool waits) {
    struct tug_peer *peer = vector->peer;
    const uint32_t n = atomic_load_explicit(&peer->gathered, memory_order_relaxed);
    if (n == 0)
        return true;
    int statuses[3];
    const uint64_t begin_ns = tug_clock_ns();
    statuses[0] = move(vector, &vector->writes, true, waits);
    if (statuses[0] == TUG_ERR_RANGE && !waits)
        return false;
    statuses[1] = move(vector, &vector->reads, false, waits);
    if (statuses[1] == TUG_ERR_RANGE && !waits)
        return false;
    statuses[2] = combine_all(vector, waits); /* reuses the pieces of both */
    if (statuses[2] == TUG_ERR_RANGE && !waits)
        return false;
    const uint64_t each_ns = vector->nmoved < n ? 0 : (tug_clock_ns() - begin_ns) / n;
    atomic_store_explicit(&peer->gathering_ns,
                          (uint32_t)(each_ns < GATHERING_MOST_NS ? each_ns : GATHERING_MOST_NS),
                          memory_order_relaxed);
    vector->nmoved = vector->ncopied = 0;
    tug_reach_end(&vector->reach);
    for (int i = 0; i < 3; i++)
        if (statuses[i] != 0) /* an operation that has ended so */
            tug_counter_add(tug_outstanding_start(&peer->local).d, statuses[i]);
    /* release: pairs with the acquire in tug_peer_has_gathered() */
    atomic_store_explicit(&peer->gathered, 0, memory_order_release);
    return true;
}

void tug_vector_submit(struct tug_peer *peer) {
    struct tug_vector *vector = atomic_load_explicit(&peer->vector, memory_order_acquire);
    tug_mutex_lock(&vector->mutex);
    (void)submit(vector, true);
    tug_mutex_unlock(&vector->mutex);
}

/* ---- gathering ---- */

/* Nobody has flushed, or has by now. As the holder of the baton, who waits for nobody: whoever has
 * the mutex does what waits, or adds to it and looks at `noted` after that (note_submit()). Either
 * it sees that there is no record any more, or this try comes behind it. */
static uint32_t start_submit(const struct tug_batch_form *form, const unsigned char *run,
                             uint32_t n) {
    struct tug_vector *vector = form->target;
    (void)run;
    atomic_store(&vector->noted, false);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in note_submit() */
    if (tug_mutex_try(&vector->mutex)) {
        (void)submit(vector, false); /* what is left a flush does, which may wait */
        tug_mutex_unlock(&vector->mutex);
    }
    return n;
}

/* The vector has one more, and the mutex is free again: sees to it that there is a record. */
static void note_submit(struct tug_vector *vector) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&vector->noted, memory_order_relaxed) ||
        atomic_exchange(&vector->noted, true))
        return;
    const struct tug_batch_form form = {.start = start_submit, .target = vector};
    uint32_t distance;
    if (!tug_batch_begin(&form, TUG_BATCH_WAITS, 0, &distance)) {
        atomic_store(&vector->noted, false);
        /* each would be a call of its own: packets, until the next flush */
        atomic_store_explicit(&vector->peer->gathers, TUG_GATHERS_NOT, memory_order_relaxed);
        tug_vector_submit(vector->peer);
        return;
    }
    tug_batch_add(distance, NULL, 0);
}

/* Makes the vector one of operations on what the key names. False: it is mapped here, or cannot be
 * reached now. */
static bool open(struct tug_vector *vector, const struct tug_key *key) {
    const struct tug_peer *peer = vector->peer;
    if (tug_peer_has_gathered(peer)) {
        if (vector->key.word[0] == key->word[0])
            return true;
        (void)submit(vector, true);
    }
    if (!tug_reach_begin(peer->context, key, peer->process, 0, 0, &vector->reach))
        return false;
    vector->key = *key;
    if (vector->reach.mapped != NULL)
        tug_reach_end(&vector->reach);
    return vector->reach.mapped == NULL;
}

/* Is what it had last of those kinds that take long? */
static bool was_scattered(const struct tug_vector *vector) {
    return atomic_load_explicit(&vector->peer->gathering_ns, memory_order_relaxed) > 0;
}

/* Submits what there is. If it was scattered, whether the peer comes is asked again. */
static void make_room(struct tug_vector *vector) {
    (void)submit(vector, true);
    if (was_scattered(vector))
        atomic_store_explicit(&vector->peer->gathers, TUG_GATHERS_UNKNOWN, memory_order_relaxed);
}

/* Lets the mutex go. good: the vector has one more, which it returns. */
static bool end_gathering(struct tug_vector *vector, bool good) {
    const bool says_so =
        good && atomic_fetch_add_explicit(&vector->peer->gathered, 1, memory_order_relaxed) == 0 &&
        was_scattered(vector);
    tug_mutex_unlock(&vector->mutex);
    if (says_so)
        tug_context_pass(vector->peer->context);
    if (good) {
        tug_burst_add();
        note_submit(vector);
    }
    return good;
}

bool tug_vector_move(const struct tug_transfer *t, bool writes) {
    struct tug_vector *vector = vector_of(t->peer);
    if (vector == NULL)
        return false;
    struct moves *moves = writes ? &vector->writes : &vector->reads;
    void *here = t->here;
    tug_mutex_lock(&vector->mutex);
    const size_t copied = writes && t->bytes <= TUG_COPIED_MOST ? t->bytes : 0;
    if (vector->ncopied + copied > sizeof(vector->copied) || moves->nhere >= TUG_CMA_PIECES - 1 ||
        moves->nthere == TUG_CMA_PIECES)
        make_room(vector);
    const bool good = open(vector, t->key);
    if (good) {
        if (copied > 0)
            here = memcpy(vector->copied + vector->ncopied, here, copied);
        vector->ncopied += copied;
        add(moves, here, vector->reach.address + t->offset, t->bytes, writes);
    }
    return end_gathering(vector, good);
}

/* ---- combinations ---- */

/* The number of the element at the address. */
static uint8_t element_at(struct combinations *c, uint64_t address) {
    unsigned place = (unsigned)(address / c->bytes * UINT64_C(0x9e3779b97f4a7c15) >> 57);
    _Static_assert(PLACES == 128, "seven bits");
    while (c->places[place] != 0 && c->addresses[c->places[place] - 1] != address)
        place = (place + 1) % PLACES;
    if (c->places[place] == 0) {
        c->addresses[c->nelements] = address;
        c->changed[c->nelements] = false;
        c->places[place] = (uint8_t)++c->nelements;
    }
    return (uint8_t)(c->places[place] - 1);
}

static void append_combination(struct combinations *all, const struct tug_update *c,
                               uint64_t address) {
    all->bytes = c->extent;
    struct combination *one = &all->list[all->n++];
    *one = (struct combination){.reduce = c->reduce,
                                .result = c->result,
                                .element = element_at(all, address),
                                .changes = c->origin != NULL,
                                .compares = c->compare != NULL};
    if (one->changes)
        memcpy(&one->origin, c->origin, all->bytes);
    if (one->compares)
        memcpy(&one->compare, c->compare, all->bytes);
}

static bool add_combination(struct tug_vector *vector, const struct tug_update *c,
                            const struct tug_key *key, uint64_t offset) {
    struct combinations *all = &vector->combinations;
    if (all->n == 0 && !tug_peer_is_quiet(vector->peer)) /* it comes behind what was sent */
        return false;
    if (all->n == COMBINATIONS || (all->n > 0 && all->bytes != c->extent))
        make_room(vector);
    if (!open(vector, key))
        return false;
    const uint64_t address = vector->reach.address + offset;
    if (address % c->extent == 0) {
        append_combination(all, c, address);
        return true;
    }
    if (!tug_peer_has_gathered(vector->peer))
        tug_reach_end(&vector->reach);
    return false;
}

bool tug_vector_combine(struct tug_peer *peer, const struct tug_key *key, uint64_t offset,
                        const struct tug_update *c, struct tug_mutex *mutex) {
    struct tug_vector *vector = vector_of(peer);
    if (vector == NULL)
        return false;
    tug_mutex_lock(&vector->mutex);
    if (vector->combinations.n == 0 &&
        atomic_load(&vector->noted)) { /* else what is noted is not quiet */
        tug_mutex_unlock(&vector->mutex);
        tug_batch_settle();
        tug_mutex_lock(&vector->mutex);
    }
    vector->atomicity = mutex;
    return end_gathering(vector, add_combination(vector, c, key, offset));
}

#include "request/request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/host_progress.h"
#include "host/host.h"
#include "tugboat/tugboat.h"

/* Handles index pages of pointers, so that finding needs no lock while the table grows. */
#define PAGE_BITS 10
#define PAGE_SIZE (1u << PAGE_BITS)
#define PAGES (TUG_REQUEST_MOST >> PAGE_BITS)

struct entry {
    struct tug_request *_Atomic request; /* NULL: the handle is free, or never was given */
    _Atomic uint32_t below;              /* in the stack of free ones: 1 + index; 0: the last */
    struct tug_request *spare;           /* of a free one: memory for a request that ends once */
};
typedef struct entry request_page[PAGE_SIZE];

_Atomic uint32_t tug_request_limit;
#ifdef OPEN_MPI
struct tug_request_entry tug_request_entries[TUG_REQUEST_ENTRIES];
MPI_Request tug_request_handles[TUG_REQUEST_MOST];
#endif
static request_page *_Atomic pages[PAGES];

#define SPARE_MOST 1024u /* indices below keep memory for requests that end once */

static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

/* Free indices, a stack: 1 + the uppermost in the low half. The high half counts what was pushed,
 * so that a thread that pops sees when it has changed and is what it was again. */
static _Atomic uint64_t free_top;

static struct entry *entry_of(uint32_t index) {
    request_page *page = atomic_load(&pages[index >> PAGE_BITS]);
    return &(*page)[index & (PAGE_SIZE - 1)];
}

struct tug_request *tug_request_find(MPI_Request handle) {
    return atomic_load_explicit(&entry_of(tug_request_index(handle))->request,
                                memory_order_acquire);
}

static void push(uint32_t index) {
    struct entry *entry = entry_of(index);
    uint64_t top = atomic_load_explicit(&free_top, memory_order_relaxed), pushed;
    do {
        atomic_store_explicit(&entry->below, (uint32_t)top, memory_order_relaxed);
        pushed = ((top >> 32) + 1) << 32 | (index + 1);
        /* release: pairs with the acquire in pop(): the entry */
    } while (!atomic_compare_exchange_weak_explicit(&free_top, &top, pushed, memory_order_release,
                                                    memory_order_relaxed));
}

/* False: there is none. Entries stay, so one that another thread pops meanwhile can be read. */
static bool pop(uint32_t *index) {
    uint64_t top = atomic_load_explicit(&free_top, memory_order_acquire), below;
    do {
        if ((uint32_t)top == 0)
            return false;
        *index = (uint32_t)top - 1;
        below = (top >> 32) << 32 |
                atomic_load_explicit(&entry_of(*index)->below, memory_order_relaxed);
        /* acquire: pairs with the release in push() */
    } while (!atomic_compare_exchange_weak_explicit(&free_top, &top, below, memory_order_acquire,
                                                    memory_order_acquire));
    return true;
}

/* Gives the index a handle of its own, where that is not the same. */
static bool enter_handle(uint32_t index) {
#ifdef OPEN_MPI
    MPI_Request *handle = &tug_request_handles[index];
    if (tug_host.Send_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, handle) !=
        MPI_SUCCESS)
        return false;
    uint32_t i = tug_request_hash(*handle);
    while (atomic_load_explicit(&tug_request_entries[i].handle, memory_order_relaxed) != NULL)
        i = (i + 1) % TUG_REQUEST_ENTRIES;
    tug_request_entries[i].index = index;
    /* release: pairs with the acquire in tug_request_index() */
    atomic_store_explicit(&tug_request_entries[i].handle, *handle, memory_order_release);
#else
    (void)index;
#endif
    return true;
}

/* The host's requests behind the handles end with it: handles of a second start are others. */
void tug_requests_finalize(void) {
#ifdef OPEN_MPI
    pthread_mutex_lock(&growing);
    uint32_t limit = atomic_load(&tug_request_limit);
    for (uint32_t index = 0; index < limit; index++)
        tug_host.Request_free(&tug_request_handles[index]);
    if (limit > 0)
        memset(tug_request_entries, 0, sizeof(tug_request_entries));
    atomic_store(&tug_request_limit, 0);
    atomic_store(&free_top, 0);
    pthread_mutex_unlock(&growing);
#endif
}

/* One more index. With the lock. */
static bool grow(uint32_t *index) {
    uint32_t limit = atomic_load(&tug_request_limit);
    if (limit == TUG_REQUEST_MOST)
        return false;
    request_page *_Atomic *page = &pages[limit >> PAGE_BITS];
    if (atomic_load(page) == NULL) {
        request_page *fresh = calloc(1, sizeof(*fresh));
        if (fresh == NULL)
            return false;
        atomic_store(page, fresh);
    }
    if (!enter_handle(limit))
        return false;
    atomic_store(&tug_request_limit, limit + 1);
    *index = limit;
    return true;
}

static bool take_index(uint32_t *index) {
    if (pop(index))
        return true;
    pthread_mutex_lock(&growing);
    const bool got = grow(index);
    pthread_mutex_unlock(&growing);
    return got;
}

/* Its handle, if it was given one, is free only now: what keeps its memory has the index. */
static void destroy(struct tug_request *request) {
    const MPI_Request handle = request->handle;
    const bool once = request->once;
    request->destroy(request);
    if (!handle)
        return;
    const uint32_t index = tug_request_index(handle);
    if (once && index < SPARE_MOST)
        entry_of(index)->spare = request;
    else if (once)
        free(request);
    push(index);
}

/* A request that the program has freed goes with its operation. */
void tug_request_complete(struct tug_request *request) {
    if (atomic_fetch_or(&request->state, TUG_REQUEST_COMPLETE) & TUG_REQUEST_FREED)
        destroy(request);
}

static void completed(struct tug_job *job) {
    tug_request_complete((struct tug_request *)job);
}

/* The handle is the request's. */
static void enter(struct tug_request *request, uint32_t index) {
    request->handle = tug_request_handle(index);
    request->job.completed = completed;
    request->active = request->once;
    request->error = MPI_SUCCESS;
    request->passes = false;
    atomic_store_explicit(&request->keeping, TUG_RUN_LAUNCHED, memory_order_relaxed);
    atomic_store_explicit(&request->state, 0, memory_order_relaxed);
    /* release: pairs with the acquire in tug_request_find() */
    atomic_store_explicit(&entry_of(index)->request, request, memory_order_release);
}

int tug_request_register(struct tug_request *request) {
    uint32_t index;
    if (!take_index(&index))
        return TUG_ERR_NO_MEMORY;
    enter(request, index);
    return 0;
}

struct tug_request *tug_request_begin_once(void (*let_go)(struct tug_request *)) {
    uint32_t index;
    if (!take_index(&index))
        return NULL;
    struct entry *entry = entry_of(index);
    struct tug_request *request = entry->spare;
    entry->spare = NULL;
    if (request == NULL)
        request = malloc(TUG_REQUEST_ONCE_BYTES);
    if (request == NULL) {
        push(index);
        return NULL;
    }
    *request = (struct tug_request){.once = true, .destroy = let_go};
    enter(request, index);
    return request;
}

/* ---- runs that are kept ---- */

/* By the thread that starts the run or holds it. True if it is over now. */
static bool advance(struct tug_request *request) {
    bool done = false;
    (void)request->job.advance(&request->job, &done);
    if (done) /* release: what it has brought, for a thread that looks at the state */
        atomic_store_explicit(&request->state, TUG_REQUEST_COMPLETE, memory_order_release);
    return done;
}

/* Makes the first moves of a run without the engine. False: the rest is the engine's. */
static bool begin_here(struct tug_request *request) {
    if (advance(request))
        return true;
    if (!request->may_keep(request))
        return false;
    /* release: pairs with the acquire of a thread that looks */
    atomic_store_explicit(&request->keeping, TUG_RUN_KEPT, memory_order_release);
    return true;
}

bool tug_request_look(struct tug_request *request) {
    uint32_t keeping = TUG_RUN_KEPT;
    /* acquire: pairs with the release of the thread that started the run or held it before */
    if (!atomic_compare_exchange_strong_explicit(&request->keeping, &keeping, TUG_RUN_HELD,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    const bool done = advance(request);
    atomic_store_explicit(&request->keeping, done ? TUG_RUN_LAUNCHED : TUG_RUN_KEPT,
                          memory_order_release);
    return done;
}

void tug_request_look_in_vain(void) {
    static _Thread_local unsigned looks;
    if (++looks % 8 == 0)
        tug_engine_poll_host();
}

static void launch_kept(struct tug_request *request) {
    struct tug_backoff backoff = {0};
    uint32_t keeping = TUG_RUN_KEPT;
    while (!atomic_compare_exchange_strong_explicit(&request->keeping, &keeping, TUG_RUN_LAUNCHED,
                                                    memory_order_acquire, memory_order_relaxed)) {
        if (keeping == TUG_RUN_LAUNCHED)
            return;
        keeping = TUG_RUN_KEPT;
        tug_backoff_relax(&backoff);
    }
    tug_engine_launch(&request->job);
}

/* A peer that is on its way is worth so many looks; fewer while the engine has work to do. */
#define LOOKS_MOST 512
#define LOOKS_BESIDE_WORK 32

bool tug_request_hand_over(struct tug_request *request, bool patient) {
    struct tug_backoff backoff = {0};
    unsigned looks = 0;
    while (tug_request_is_kept(request) && !tug_request_look(request)) {
        const unsigned most = tug_engine_has_work() ? LOOKS_BESIDE_WORK : LOOKS_MOST;
        patient = patient && ++looks < most;
        if (!patient || !tug_backoff_step(&backoff)) {
            launch_kept(request);
            return false;
        }
    }
    return true;
}

/* The host's error handler may throw or jump out of start(), which leaves the request inactive. */
void tug_request_start(struct tug_request *request) {
    request->error = MPI_SUCCESS;
    /* relaxed: who gets it on or looks at it has been told so by this thread */
    atomic_store_explicit(&request->state, 0, memory_order_relaxed);
    request->start(request);
    if (request->passes)
        return;
    request->active = true;
    if (request->may_keep == NULL || !begin_here(request))
        tug_engine_launch(&request->job);
}

static bool is_over(void *argument) {
    return !tug_request_pending(argument);
}

/* ---- waiting ---- */

#define NAP_NS 200000 /* between looks of the host while the thread sleeps: Linux adds 50 us */

void tug_request_wait_until(bool (*done)(void *), void *argument) {
    tug_engine_wait(done, argument, NAP_NS, TUG_WAIT_HOST);
}

static __attribute__((noinline)) void wait_for_pending(struct tug_request *request) {
    (void)tug_request_hand_over(request, true);
    tug_request_wait_until(is_over, request);
}

void tug_request_wait(struct tug_request *request) {
    if (tug_request_pending(request))
        wait_for_pending(request);
    else
        tug_engine_pass();
}

/* A caller that sees the end before the engine does waits for it, which lets the engine's thread
 * have the core; but not for ever, since a call that tests may not block. */
#define CATCH_UP_NS 1000000000u

struct catch_up {
    struct tug_request *request;
    uint64_t until_ns;
};

static bool has_caught_up(void *argument) {
    const struct catch_up *catch_up = argument;
    return !tug_request_pending(catch_up->request) || tug_clock_ns() > catch_up->until_ns;
}

static __attribute__((noinline)) void catch_up(struct tug_request *request) {
    struct catch_up with = {request, tug_clock_ns() + CATCH_UP_NS};
    tug_request_wait_until(has_caught_up, &with);
}

void tug_request_look_at(struct tug_request *request) {
    if (tug_request_is_kept(request))
        (void)tug_request_look(request);
    if (request->is_here != NULL && tug_request_pending(request) && request->is_here(request) &&
        !tug_request_is_kept(request))
        catch_up(request);
}

void tug_request_poll(struct tug_request *request) {
    if (!tug_request_is_kept(request))
        tug_engine_poll();
    tug_request_look_at(request);
}

/* The host's request may be active, which MPICH 4.0.2 crashes over when it is freed: the engine
 * looks until it is not. */
static void take_back(struct tug_request *request) {
    request->passes = false;
    request->active = true;
    atomic_store_explicit(&request->state, 0, memory_order_relaxed);
    tug_engine_launch(&request->job);
}

void tug_request_release(struct tug_request *request) {
    if (request->passes)
        take_back(request);
    if (request->active && tug_request_is_kept(request))
        launch_kept(request);
    if (request->handle)
        atomic_store_explicit(&entry_of(tug_request_index(request->handle))->request, NULL,
                              memory_order_relaxed);
    /* who of this and completed() comes second destroys */
    if (!request->active ||
        (atomic_fetch_or(&request->state, TUG_REQUEST_FREED) & TUG_REQUEST_COMPLETE))
        destroy(request);
}

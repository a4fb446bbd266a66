#include "request/request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/host.h"
#include "request/twin.h"
#include "tugboat/tugboat.h"

/* Handles index pages of pointers, so that finding needs no lock while the table grows. */
#define PAGE_BITS 10
#define PAGE_SIZE (1u << PAGE_BITS)
#define PAGES (TUG_REQUEST_MOST >> PAGE_BITS)

typedef struct tug_request *_Atomic request_page[PAGE_SIZE];

_Atomic uint32_t tug_request_limit;
#ifdef OPEN_MPI
struct tug_request_entry tug_request_entries[TUG_REQUEST_ENTRIES];
MPI_Request tug_request_handles[TUG_REQUEST_MOST];
#endif
static request_page *_Atomic pages[PAGES];

/* Free indices, a stack under a lock: init and free of requests are not hot. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *free_indices;
static uint32_t nfree;
static uint32_t free_capacity;

static struct tug_request *_Atomic *slot(uint32_t index) {
    request_page *page = atomic_load(&pages[index >> PAGE_BITS]);
    return &(*page)[index & (PAGE_SIZE - 1)];
}

struct tug_request *tug_request_find(MPI_Request handle) {
    return atomic_load_explicit(slot(tug_request_index(handle)), memory_order_acquire);
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
    pthread_mutex_lock(&lock);
    uint32_t limit = atomic_load(&tug_request_limit);
    for (uint32_t index = 0; index < limit; index++)
        tug_host.Request_free(&tug_request_handles[index]);
    if (limit > 0)
        memset(tug_request_entries, 0, sizeof(tug_request_entries));
    atomic_store(&tug_request_limit, 0);
    nfree = 0;
    pthread_mutex_unlock(&lock);
#endif
}

/* One more index; the stack of free ones grows first, so that giving back cannot fail. */
static bool grow(uint32_t *index) {
    uint32_t limit = atomic_load(&tug_request_limit);
    if (limit == TUG_REQUEST_MOST)
        return false;
    if (limit == free_capacity) {
        uint32_t capacity = free_capacity + PAGE_SIZE;
        uint32_t *grown = realloc(free_indices, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        free_indices = grown;
        free_capacity = capacity;
    }
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

static void destroy(struct tug_request *request) {
    tug_twin_free(request);
    request->destroy(request);
}

/* A request that the program has freed goes with its operation. */
void tug_request_complete(struct tug_request *request) {
    if (__builtin_expect(request->twin != NULL, 0))
        tug_twin_complete(request);
    if (atomic_fetch_or(&request->state, TUG_REQUEST_COMPLETE) & TUG_REQUEST_FREED)
        destroy(request);
}

static void completed(struct tug_job *job) {
    tug_request_complete((struct tug_request *)job);
}

int tug_request_register(struct tug_request *request) {
    uint32_t index;
    pthread_mutex_lock(&lock);
    bool got = nfree > 0;
    if (got)
        index = free_indices[--nfree];
    else
        got = grow(&index);
    pthread_mutex_unlock(&lock);
    if (!got)
        return TUG_ERR_NO_MEMORY;
    request->handle = tug_request_handle(index);
    request->job.completed = completed;
    request->active = request->once;
    request->error = MPI_SUCCESS;
    request->passes = false;
    request->twin = NULL;
    atomic_store_explicit(&request->keeping, TUG_RUN_LAUNCHED, memory_order_relaxed);
    atomic_store_explicit(&request->state, 0, memory_order_relaxed);
    /* release: pairs with the acquire in tug_request_find() */
    atomic_store_explicit(slot(index), request, memory_order_release);
    return 0;
}

static void start_with_twin(struct tug_request *request) {
    uint64_t begin_ns = tug_clock_ns();
    bool host;
    tug_twin_start(request);
    host = tug_twin_is_host(request);
    tug_engine_launch(&request->job); /* it may be over by now */
    if (!host)
        tug_twin_called(begin_ns);
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

void tug_request_poll(struct tug_request *request) {
    if (!tug_request_is_kept(request) || !tug_request_look(request))
        tug_engine_poll();
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

void tug_request_start(struct tug_request *request) {
    request->active = true;
    request->error = MPI_SUCCESS;
    /* relaxed: who gets it on or looks at it has been told so by this thread */
    atomic_store_explicit(&request->state, 0, memory_order_relaxed);
    if (__builtin_expect(request->twin != NULL, 0)) {
        start_with_twin(request);
        return;
    }
    request->start(request);
    if (request->passes) {
        request->active = false;
        return;
    }
    if (request->may_keep == NULL || !begin_here(request))
        tug_engine_launch(&request->job);
}

static bool is_over(void *argument) {
    return !tug_request_pending(argument);
}

/* ---- waiting ---- */

#define NAP_NS 200000 /* between looks of the host while the thread sleeps: Linux adds 50 us */

void tug_request_wait_until(bool (*done)(void *), void *argument) {
    struct tug_vigil vigil = {.done = done, .argument = argument};
    tug_engine_wait(tug_vigil_is_over, &vigil, NAP_NS);
}

void tug_request_wait(struct tug_request *request) {
    (void)tug_request_hand_over(request, true);
    if (!tug_request_pending(request)) {
        tug_engine_pass();
        return;
    }
    uint64_t begin_ns = __builtin_expect(request->twin != NULL, 0) ? tug_clock_ns() : 0;
    tug_request_wait_until(is_over, request);
    if (begin_ns != 0 && !tug_twin_is_host(request))
        tug_twin_called(begin_ns);
}

static void give_back(uint32_t index) {
    atomic_store_explicit(slot(index), NULL, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    free_indices[nfree++] = index;
    pthread_mutex_unlock(&lock);
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
        give_back(tug_request_index(request->handle));
    /* who of this and completed() comes second destroys */
    if (!request->active ||
        (atomic_fetch_or(&request->state, TUG_REQUEST_FREED) & TUG_REQUEST_COMPLETE))
        destroy(request);
}

#include "llcl/batch.h"
#include "llcl/copies.h"
#include "llcl/long.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/system_page.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/level.h"
#include "host/spin.h"
#include "node/cma.h"
#include "node/page.h"
#include "node/team.h"
#include "transport/packets/packets.h"

static struct tug_context *contexts;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- getting on ---- */

void tug_context_flush(struct tug_context *context) {
    tug_fabric_flush(&context->fabric);
}

bool tug_context_poll(struct tug_context *context) {
    context->posts = 0;
    tug_context_flush(context);
    return tug_fabric_poll(&context->fabric);
}

void tug_context_look(tug_context *context) {
    (void)tug_copies_poll(context);
    (void)tug_context_poll(context);
    tug_engine_service_changed(&context->service);
}

void tug_context_ask(struct tug_context *context) {
    tug_packets_ask(context->fabric.packets);
    tug_engine_service_changed(&context->service);
}

bool tug_context_busy(const struct tug_context *context) {
    return context->fabric.out > 0 || tug_fabric_busy(&context->fabric);
}

static struct tug_context *of_service(struct tug_service *service) {
    return (struct tug_context *)((char *)service - offsetof(struct tug_context, service));
}

static bool service_poll(struct tug_service *service, bool more_comes) {
    struct tug_context *context = of_service(service);
    context->fabric.more_comes = more_comes;
    const bool copied = tug_copies_poll(context);
    const bool moved = tug_context_poll(context) || copied;
    context->fabric.more_comes = false;
    if (__builtin_expect(!context->fabric.packets->inside, 0)) /* some go by the host */
        tug_engine_serve_outside(service);
    return moved;
}

static bool service_poll_inside(struct tug_service *service, bool *left) {
    return tug_packets_poll_inside(of_service(service)->fabric.packets, left);
}

static void service_flush(struct tug_service *service) {
    tug_context_flush(of_service(service));
}

/* What rests ends when it ends: nobody is woken for it. */
static bool service_busy(struct tug_service *service) {
    const struct tug_fabric *fabric = &of_service(service)->fabric;
    return fabric->out > atomic_load_explicit(&fabric->resting, memory_order_relaxed) ||
           tug_fabric_busy(fabric);
}

static bool service_arm(struct tug_service *service) {
    struct tug_fabric *fabric = &of_service(service)->fabric;
    const bool armed = tug_fabric_arm(fabric);
    service->seldom = fabric->seldom;
    return armed;
}

static void served(struct tug_fabric *fabric) {
    tug_packets_served(fabric->packets);
    tug_engine_service_changed(&fabric->context->service);
}

static int deliver(struct tug_fabric *fabric, uint32_t source, unsigned id, const void *payloads,
                   size_t bytes, size_t n) {
    const struct tug_handler *handler = &fabric->context->handlers[id];
    const unsigned char *payload = payloads;
    if (handler->f == NULL)
        return TUG_ERR_INVALID;
    if (n > 1 && handler->run != NULL) {
        handler->run(fabric->context, (int)source, payload, bytes, n, handler->d);
        return 0;
    }
    for (; n > 0; n--, payload += bytes)
        handler->f(fabric->context, (int)source, payload, bytes, handler->d);
    return 0;
}

static int64_t deliver_part(struct tug_fabric *fabric, uint32_t source, unsigned id,
                            const uint64_t head[2], uint64_t position, const void *data,
                            size_t bytes) {
    if (id == TUG_PART_AM)
        return tug_long_deliver(fabric->context, source, head, position, data, bytes);
    if (id >= TUG_PART_HANDLERS || fabric->context->parts[id].f == NULL)
        return TUG_ERR_INVALID;
    const struct tug_part_entry *entry = &fabric->context->parts[id];
    return (int64_t)entry->f(fabric->context, (int)source, head, position, data, bytes, entry->d);
}

static void peer_ended(struct tug_fabric *fabric, uint32_t peer) {
    tug_long_forget(fabric->context, peer);
}

static int called(struct tug_fabric *fabric, struct tug_caller caller, unsigned id,
                  const void *payload, size_t bytes) {
    const struct tug_call_entry *entry = &fabric->context->callees[id];
    if (entry->f == NULL)
        return TUG_ERR_INVALID;
    entry->f(fabric->context, caller, payload, bytes, entry->d);
    return 0;
}

/* An entry of one of the tables of handlers. */
struct setting {
    void *slot;
    const void *entry;
    size_t bytes;
};

static void set(void *argument) {
    const struct setting *setting = argument;
    memcpy(setting->slot, setting->entry, setting->bytes);
}

int tug_am_register_run(tug_context *context, unsigned id, tug_am_handler handler,
                        tug_am_run_handler run, void *d) {
    const struct tug_handler entry = {handler, d, run};
    if (context == NULL || id >= TUG_AM_HANDLERS)
        return TUG_ERR_INVALID;
    tug_engine_call(set, &(struct setting){&context->handlers[id], &entry, sizeof(entry)});
    return 0;
}

int tug_am_register(tug_context *context, unsigned id, tug_am_handler handler, void *d) {
    return tug_am_register_run(context, id, handler, NULL, d);
}

int tug_call_register(tug_context *context, unsigned id, tug_call_handler handler, void *d) {
    const struct tug_call_entry entry = {handler, d};
    if (context == NULL || id >= TUG_AM_HANDLERS)
        return TUG_ERR_INVALID;
    tug_engine_call(set, &(struct setting){&context->callees[id], &entry, sizeof(entry)});
    return 0;
}

void tug_am_register_part(tug_context *context, unsigned id, tug_am_part_handler handler, void *d) {
    const struct tug_part_entry entry = {handler, d};
    tug_engine_call(set, &(struct setting){&context->parts[id], &entry, sizeof(entry)});
}

/* ---- creation ---- */

/* Collective calls of a context may meet those of others of its team: it has a communicator of its
 * own. False: the host has none. */
static bool join_team(struct tug_fabric *fabric) {
    struct tug_team *team = fabric->team;
    fabric->rank = (uint32_t)team->rank;
    fabric->nranks = (uint32_t)team->nranks;
    fabric->node_rank = (uint32_t)team->node_rank;
    fabric->node_size = (uint32_t)team->node_size;
    fabric->node_ranks =
        &team->places.ranks[team->places.node_first[team->places.node_of[team->rank]]];
    fabric->node_comm = team->node_comm;
    fabric->id = tug_team_draw(team);
    return tug_host.Comm_dup(team->comm, &fabric->comm) == MPI_SUCCESS;
}

/* Whole pages: a device may keep them out of the children of a fork. */
static size_t operations_bytes(uint32_t n) {
    return tug_page_up(n * sizeof(struct tug_operation));
}

/* Zeroed, and each page there from its first use on: to touch all takes 0.3 ms, longer than the
 * rest of a context, and most programs use few. NULL without memory. */
static struct tug_operation *map_operations(uint32_t n) {
    void *memory =
        mmap(NULL, operations_bytes(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static int make_tables(struct tug_context *context) {
    struct tug_fabric *fabric = &context->fabric;
    uint32_t n = (uint32_t)tug_settings.operations;
    fabric->operations = map_operations(n);
    if (fabric->operations == NULL)
        return TUG_ERR_NO_MEMORY;
    fabric->noperations = n;
    int error = tug_tags_init(&fabric->tags, n);
    if (error == 0)
        error = tug_tags_keep_in_hand(&fabric->tags, n / 4);
    return error ? error : tug_memory_table_init(&fabric->memory);
}

/* What packets through shared memory and cross-memory attach need of the node. False: it cannot be
 * had, or is not wanted. */
static bool have_lists(struct tug_context *context) {
    struct tug_team *team = context->fabric.team;
    if (!(tug_settings.transports & (TUG_WAY_SHM | TUG_WAY_CMA)) ||
        tug_team_share_memory(team) != 0)
        return false;
    context->fabric.live = team->neighbours[team->node_rank]->live;
    return true;
}

static int open_transports(struct tug_context *context) {
    struct tug_fabric *fabric = &context->fabric;
    fabric->ways = tug_settings.transports;
    char reason[256];
    if ((fabric->ways & TUG_WAY_CMA) && tug_cma_missing(reason)) {
        fabric->ways &= ~(unsigned)TUG_WAY_CMA;
        tug_log(TUG_VERBOSE_INFO, "no cross-memory attach: %s", reason);
    }
    if (!have_lists(context))
        fabric->ways &= ~(unsigned)(TUG_WAY_SHM | TUG_WAY_CMA);
    return tug_fabric_open(fabric);
}

static void destroy(struct tug_context *context) {
    struct tug_fabric *fabric = &context->fabric;
    tug_fabric_close(fabric);
    if (context->node_comm != MPI_COMM_NULL)
        tug_host.Comm_free(&context->node_comm);
    if (context->holds_team)
        tug_team_leave(fabric->team, fabric->comm);
    if (fabric->comm != MPI_COMM_NULL)
        tug_host.Comm_free(&fabric->comm);
    if (fabric->noperations > 0) {
        tug_tags_fini(&fabric->tags);
        tug_memory_table_fini(&fabric->memory);
    }
    if (fabric->operations != NULL)
        munmap(fabric->operations, operations_bytes(fabric->noperations));
    free(context);
}

/* Has some context of this process news that ring that bell? With the lock. */
static bool is_rung(const struct tug_bell *bell) {
    for (const struct tug_context *context = contexts; context != NULL; context = context->next)
        if (context->service.bell == bell)
            return true;
    return false;
}

/* Inboxes and devices ring a bell, that of this process's page if it can be. News by sockets come
 * at a descriptor, on which the engine sleeps unless there is a bell to sleep on. With the lock. */
static void find_bell(struct tug_fabric *fabric) {
    static struct tug_bell devices;
    struct tug_offer offer;
    if (fabric->bell != NULL)
        return;
    struct tug_node_page *page = tug_node_page_own(&offer);
    const bool by_device = fabric->ntakers > 0;
    if (page != NULL && (by_device || is_rung(&page->bell))) {
        fabric->bell = &page->bell;
        fabric->bell_shared = true;
    } else if (by_device) {
        fabric->bell = &devices;
    }
}

/* Asks as the holder: what tells of news may be others' too. */
struct arming {
    struct tug_service *service;
    bool armed;
};

static void arm(void *argument) {
    struct arming *arming = argument;
    arming->armed = service_arm(arming->service);
}

/* With the lock. */
static void use_bell(struct tug_context *context) {
    struct tug_fabric *fabric = &context->fabric;
    struct arming arming = {.service = &context->service};
    find_bell(fabric);
    const bool rung = fabric->bell != NULL;
    if (!rung)
        fabric->bell = &tug_engine_own_bell;
    context->service =
        (struct tug_service){.poll = service_poll,
                             .flush = service_flush,
                             .busy = service_busy,
                             .arm = service_arm,
                             .bell = fabric->bell,
                             .bell_shared = fabric->bell_shared,
                             .descriptor = tug_packets_descriptor(fabric->packets, rung)};
    tug_engine_call(arm, &arming);
    context->service.attended = !arming.armed;
}

static void use_other_bell(struct tug_context *context) {
    const bool with_jobs = context->service.state.with_jobs;
    if (context->service.bell != &tug_engine_own_bell)
        return;
    tug_engine_unserve(&context->service);
    context->fabric.bell = NULL;
    use_bell(context);
    tug_engine_serve(&context->service);
    if (with_jobs)
        tug_engine_serve_with_jobs(&context->service);
}

/* A new context is served. The engine sleeps in one place: if that is a bell from now on, contexts
 * whose news come at descriptors have them ring it too. */
static void begin_service(struct tug_context *context) {
    pthread_mutex_lock(&contexts_lock);
    use_bell(context);
    context->next = contexts;
    contexts = context;
    tug_engine_serve(&context->service);
    if (context->service.bell != &tug_engine_own_bell)
        for (struct tug_context *other = context->next; other != NULL; other = other->next)
            use_other_bell(other);
    pthread_mutex_unlock(&contexts_lock);
}

static bool usable(MPI_Comm comm) {
    int inter = 1;
    return comm != MPI_COMM_NULL && tug_host.Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter;
}

/* NULL: no memory. */
static struct tug_context *make(struct tug_team *team) {
    struct tug_context *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return NULL;
    context->fabric.context = context;
    context->here_most = TUG_COPY_HERE_MOST;
    context->fabric.team = team;
    context->everything = (struct tug_registration){.context = context, .bytes = SIZE_MAX};
    context->fabric.comm = context->node_comm = MPI_COMM_NULL;
    context->fabric.deliver = deliver;
    context->fabric.peer_ended = peer_ended;
    context->fabric.deliver_part = deliver_part;
    context->fabric.called = called;
    context->fabric.served = served;
    context->fabric.counter = tug_counter_add;
    context->fabric.count = tug_counter_add_many;
    if (make_tables(context) == 0)
        return context;
    destroy(context);
    return NULL;
}

/* Makes all parts of a context. Collective, the same answer on all ranks. */
static int build(struct tug_context *context, struct tug_team *team) {
    if (!tug_all_agree(team->comm, context != NULL))
        return TUG_ERR_NO_MEMORY;
    return join_team(&context->fabric) ? open_transports(context) : TUG_ERR_MPI;
}

int tug_context_create_on(struct tug_team *team, tug_context **result) {
    int status = tug_team_share(team);
    if (status != 0)
        return status;
    struct tug_context *context = make(team);
    tug_spin_meeting_begin(tug_engine_driving);
    status = build(context, team);
    tug_spin_meeting_end();
    if (status != 0) {
        if (context != NULL)
            destroy(context);
        return status;
    }
    begin_service(context);
    *result = context;
    return 0;
}

int tug_context_create(MPI_Comm comm, tug_context **result) {
    struct tug_team *team;
    if (!tug_engine_bring_up() && !tug_level.active) /* else all ranks hear of it by the team */
        return TUG_ERR_STATE;
    if (result == NULL || !usable(comm))
        return TUG_ERR_INVALID;
    int status = tug_team_get(comm, &team);
    if (status == 0)
        status = tug_context_create_on(team, result);
    if (status != 0)
        return status;
    tug_team_hold(team);
    (*result)->holds_team = true;
    return 0;
}

/* ---- the end ---- */

struct look {
    struct tug_context *context;
    struct tug_context *all; /* all of them end, and are looked at; NULL: only that one */
    bool busy;
};

static void look(void *argument) {
    struct look *what = argument;
    tug_context_ask(what->context);
    tug_engine_look(false); /* others' packets come by the same inbox and sockets */
    if (what->all == NULL)
        tug_context_look(what->context); /* it may be left alone otherwise */
    for (struct tug_context *context = what->all; context != NULL; context = context->next)
        tug_context_look(context); /* others may still wait for an answer by one that is left */
    what->busy = tug_context_busy(what->context);
}

/* Ends this process's operations, and says so to the others. */
static void begin_to_leave(struct tug_context *context, struct tug_context *all) {
    struct look what = {context, all, true};
    tug_batch_settle(); /* what other threads have written, too */
    for (;;) {
        tug_engine_call(look, &what);
        if (!what.busy)
            break;
        sched_yield();
    }
    tug_host.Ibarrier(context->fabric.comm, &context->all_leave);
}

/* Serves the others until all leave. */
static void await_all(struct tug_context *context, struct tug_context *all) {
    struct look what = {context, all, true};
    int all_leave = 0;
    for (;;) {
        tug_host.Test(&context->all_leave, &all_leave, MPI_STATUS_IGNORE);
        if (all_leave)
            return;
        tug_engine_call(look, &what);
        sched_yield();
    }
}

static void end_registration(struct tug_registration *registration, void *argument) {
    (void)argument;
    tug_registration_end(registration);
}

static void forget(struct tug_context *context) {
    pthread_mutex_lock(&contexts_lock);
    struct tug_context **at = &contexts;
    while (*at != NULL && *at != context)
        at = &(*at)->next;
    if (*at != NULL)
        *at = context->next;
    pthread_mutex_unlock(&contexts_lock);
}

/* All leave. */
static void end_context(struct tug_context *context) {
    forget(context); /* first: a new context looks at the services of those that there are */
    if (context->at_end != NULL)
        context->at_end(context->at_end_d);
    tug_engine_unserve(&context->service);
    tug_packets_leave(context->fabric.packets);
    tug_memory_each(&context->fabric.memory, end_registration, NULL);
    tug_registration_close(context);
    tug_long_close(context);
    destroy(context);
}

int tug_context_free(tug_context **handle) {
    if (handle == NULL || *handle == NULL)
        return TUG_ERR_INVALID;
    begin_to_leave(*handle, NULL);
    await_all(*handle, NULL);
    end_context(*handle);
    *handle = NULL;
    return 0;
}

/* Where several threads made contexts, they stand in another order in each process: all are left
 * before any is waited for. */
void tug_llcl_finalize(void) {
    for (struct tug_context *context = contexts; context != NULL; context = context->next) {
        if (!context->internal)
            tug_warn_once("MPI is finalised while LLCL contexts are open, so they are freed: free "
                          "them before MPI_Finalize");
        begin_to_leave(context, contexts);
    }
    for (struct tug_context *context = contexts; context != NULL; context = context->next)
        await_all(context, contexts);
    while (contexts != NULL)
        end_context(contexts);
}

/* ---- contexts of other floors ---- */

static void make_internal(void *packets) {
    tug_packets_set_internal(packets);
}

static void be_internal(tug_context *context) {
    context->internal = true;
    context->here_most = UINT64_MAX;
    tug_engine_call(make_internal, context->fabric.packets);
}

void tug_context_set_internal(tug_context *context) {
    be_internal(context);
    if (context->fabric.ntakers == 0 && context->fabric.packets->inside)
        tug_engine_serve_inside(&context->service, service_poll_inside);
}

void tug_context_set_with_jobs(tug_context *context) {
    be_internal(context);
    context->fabric.with_jobs = true;
    tug_engine_serve_with_jobs(&context->service);
}

void tug_context_set_end(tug_context *context, void (*at_end)(void *d), void *d) {
    context->at_end = at_end;
    context->at_end_d = d;
}

/* ---- facts ---- */

MPI_Comm tug_context_comm(const tug_context *context) {
    return context->fabric.comm;
}

MPI_Comm tug_context_node_comm(const tug_context *context) {
    return context->node_comm;
}

uint64_t tug_context_id(const tug_context *context) {
    return context->fabric.id;
}

uint32_t tug_context_operations(const tug_context *context) {
    return context->fabric.noperations;
}

_Static_assert(TUG_ORDERED_BELOW <= TUG_LONG_LEAST && TUG_ORDERED_BELOW <= TUG_MPI_LONG_LEAST,
               "what is shorter is copied into packets");

bool tug_context_ordered(const tug_context *context) {
    return context->fabric.ntakers == 0;
}

bool tug_context_has_inboxes(const tug_context *context) {
    return context->fabric.live != NULL;
}

bool tug_context_maps(const tug_context *context) {
    return context->fabric.ways & TUG_WAY_MAPPED;
}

bool tug_context_has_network(const tug_context *context) {
    return context->fabric.ways & (TUG_WAY_VERBS | TUG_WAY_OFI | TUG_WAY_TCP);
}

struct tug_bell *tug_context_bell(const tug_context *context) {
    return context->service.attended ? NULL : context->service.bell;
}

struct tug_context_footprint tug_context_footprint(void) {
    return (struct tug_context_footprint){.context = sizeof(struct tug_context),
                                          .node_process = sizeof(struct tug_segment_part)};
}

int tug_context_rank(const tug_context *context) {
    return (int)context->fabric.rank;
}

int tug_context_size(const tug_context *context) {
    return (int)context->fabric.nranks;
}

bool tug_context_open_to_cards(tug_context *context) {
    context->fabric.open_to_atomics |= context->fabric.card_atomics;
    return context->fabric.card_atomics;
}

bool tug_context_cpu_atomics(const tug_context *context) {
    return !context->fabric.device_atomics;
}

const char *tug_context_transport(const tug_context *context, int process, size_t size_in_bytes) {
    const struct tug_fabric *fabric = &context->fabric;
    /* to memory that devices know */
    struct tug_operation operation = {
        .kind = TUG_OPERATION_WRITE, .bytes = size_in_bytes, .rkey = 1};
    if (process < 0 || (uint32_t)process >= fabric->nranks)
        return "none";
    operation.peer = (uint32_t)process;
    if (operation.peer == fabric->rank && (fabric->ways & TUG_WAY_SELF))
        return "self";
    void *state;
    const struct tug_transport *row = tug_fabric_route(fabric, &operation, 0, &state);
    return row != NULL ? row->name : tug_packets_wire_name(fabric->packets, operation.peer);
}

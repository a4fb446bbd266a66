/* LLCL, the engine and the host below the arrays of all processes. */
#include "played.h"

#include "engine/engine.h"
#include "engine/service.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "node/segment.h"
#include "transport/atomic.h"
#include "transport/memory.h"

#define NOBODY UINT32_MAX
#define REGISTRATIONS 256u

/* A call that has not been answered, at its caller. */
struct call {
    bool live, answered, forged;
    bool dropped; /* it has not been sent */
    uint32_t from, to;
    unsigned kind;
    void *answer;
    size_t answer_bytes;
    struct tug_callback on_complete;
};

/* A copy or an atomic under way. */
struct copying {
    struct copying *next;
    enum { READ, WRITE, FETCH, COMPARE } kind;
    uint32_t from, to;
    struct tug_key key;
    size_t offset, bytes;
    unsigned char *local;
    enum tug_atomic_op op;
    uint64_t operand, expected;
    struct tug_callback on_complete;
};

struct waiting {
    struct waiting *next;
    struct message message;
};

/* From one process to another; answers may overtake calls. */
struct queue {
    struct waiting *first, **last;
};

struct tug_settings tug_settings;
struct tug_host tug_host;
uint32_t creating, acting;

static struct tug_context contexts[RANKS];
static struct tug_registration registrations[REGISTRATIONS];
static uint32_t registration_owner[REGISTRATIONS];
static unsigned nregistrations;
static struct tug_registration pools[RANKS];
static struct tug_registration everything;
static struct call calls[CALLS];
static struct queue queues[2][RANKS][RANKS];
static struct copying *copies[RANKS];
static struct tug_service *services[RANKS];
static bool liar_is_lost;
static bool job_has_cards; /* their atomics count, and not those of processors */

/* ---- the engine ---- */

enum tug_entry tug_engine_enter(struct tug_ticket *ticket) {
    (void)ticket;
    return TUG_ENTRY_BATON;
}

void tug_engine_leave(void) {}

void tug_engine_commit(const struct tug_ticket *ticket) {
    (void)ticket;
    REQUIRE(false);
}

void tug_engine_call(void (*function)(void *), void *argument) {
    function(argument);
}

void tug_engine_look(bool more_comes) {
    (void)more_comes;
}

void tug_engine_serve(struct tug_service *service) {
    services[creating] = service;
}

void tug_engine_unserve(struct tug_service *service) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (services[rank] == service)
            services[rank] = NULL;
}

void tug_engine_service_changed(struct tug_service *service) {
    (void)service;
}

/* ---- the host: each process is asked alone, and all say the same ---- */

static int comm_size(MPI_Comm comm, int *size) {
    (void)comm;
    *size = creating < NODE ? (int)NODE : 1;
    return MPI_SUCCESS;
}

static int allreduce(const void *mine, void *all, int n, MPI_Datatype type, MPI_Op op,
                     MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)op, (void)comm, (void)request;
    memcpy(all, mine, (size_t)n * 8);
    return MPI_SUCCESS;
}

static struct tug_key key_of(uint32_t owner, uint32_t index) {
    struct tug_key key = {{index + 1}};
    key.word[4] = (uint64_t)owner << 32;
    return key;
}

static int allgather(const void *mine, int bytes, MPI_Datatype type, void *all, int each,
                     MPI_Datatype all_type, MPI_Comm comm, MPI_Request *request) {
    struct tug_key *keys = all;
    (void)mine, (void)type, (void)all_type, (void)comm, (void)request;
    REQUIRE(bytes == each && bytes == sizeof(*keys));
    if (creating >= NODE)
        keys[0] = key_of(creating, creating);
    for (uint32_t rank = 0; creating < NODE && rank < NODE; rank++)
        keys[rank] = key_of(rank, rank);
    return MPI_SUCCESS;
}

bool tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

int tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n) {
    (void)comm, (void)how, (void)words, (void)n;
    return MPI_SUCCESS;
}

bool tug_pending_is_over(void *pending) {
    (void)pending;
    return true;
}

void tug_polite_until(bool (*done)(void *), void *argument) {
    REQUIRE(done(argument));
}

int tug_polite_wait(MPI_Request *request) {
    (void)request;
    return MPI_SUCCESS;
}

/* ---- memory ---- */

bool tug_shm_populate(unsigned char *base, size_t bytes, const char *what) {
    (void)base, (void)bytes, (void)what;
    return true;
}

/* All pools are made with the first: their keys are known before their arrays are there. */
int tug_mem_reserve(tug_context *context, size_t bytes, size_t real, tug_registration **result) {
    (void)real;
    if (pools[0].base == NULL)
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            pools[rank].base = malloc(bytes);
            REQUIRE(pools[rank].base != NULL);
            memset(pools[rank].base, 0x77, bytes);
            pools[rank].bytes = bytes;
        }
    REQUIRE(bytes == pools[0].bytes);
    *result = &pools[context->rank];
    return 0;
}

void *tug_mem_address(const tug_registration *registration) {
    return registration->base;
}

int tug_mem_register(tug_context *context, void *address, size_t bytes, tug_registration **result) {
    REQUIRE(nregistrations < REGISTRATIONS);
    struct tug_registration *new = &registrations[nregistrations];
    registration_owner[nregistrations++] = context->rank;
    new->base = address;
    new->bytes = bytes;
    *result = new;
    return 0;
}

int tug_mem_deregister(tug_registration **registration) {
    (*registration)->base = NULL;
    *registration = NULL;
    return 0;
}

size_t tug_mem_size(const tug_registration *registration) {
    return registration->bytes;
}

bool tug_mem_is_locked(const tug_registration *registration) {
    (void)registration;
    return true;
}

void tug_mem_key(const tug_registration *registration, struct tug_key *key) {
    if (registration >= pools && registration < pools + RANKS)
        *key = key_of((uint32_t)(registration - pools), (uint32_t)(registration - pools));
    else
        *key = key_of(registration_owner[registration - registrations],
                      RANKS + (uint32_t)(registration - registrations));
}

/* The memory of a key of that process, or NULL and a status. */
static unsigned char *memory_of(uint32_t owner, const struct tug_key *key, size_t offset,
                                size_t bytes, int *status) {
    const uint64_t index = key->word[0] - 1;
    const struct tug_registration *found = NULL;
    if (index < RANKS && index == owner)
        found = &pools[index];
    else if (index >= RANKS && index - RANKS < nregistrations &&
             registration_owner[index - RANKS] == owner)
        found = &registrations[index - RANKS];
    if (found == NULL || found->base == NULL || tug_key_owner(key) != owner) {
        *status = TUG_ERR_KEY;
        return NULL;
    }
    *status = offset > found->bytes || bytes > found->bytes - offset ? TUG_ERR_RANGE : 0;
    return *status == 0 ? found->base + offset : NULL;
}

void *tug_mem_map(const tug_context *context, const struct tug_key *key) {
    const uint32_t owner = tug_key_owner(key);
    const bool near = owner == context->rank || (owner < NODE && context->rank < NODE);
    return near ? pools[owner].base : NULL;
}

tug_registration *tug_context_everything(tug_context *context) {
    (void)context;
    return &everything;
}

/* What an array passes as local memory is its own, or its program's. */
static unsigned char *local_memory(const struct tug_local_address *at, size_t bytes) {
    if (at->registration == &everything)
        return (unsigned char *)(uintptr_t)at->offset;
    REQUIRE(at->registration->base != NULL && at->offset <= at->registration->bytes &&
            bytes <= at->registration->bytes - at->offset);
    return at->registration->base + at->offset;
}

/* ---- the context ---- */

int tug_context_create(MPI_Comm comm, tug_context **context) {
    (void)comm;
    *context = &contexts[creating];
    memset(*context, 0, sizeof(**context));
    (*context)->rank = creating;
    return 0;
}

int tug_context_free(tug_context **context) {
    if ((*context)->at_end != NULL)
        (*context)->at_end((*context)->end_argument);
    *context = NULL;
    return 0;
}

void tug_context_set_end(tug_context *context, void (*at_end)(void *d), void *d) {
    context->at_end = at_end;
    context->end_argument = d;
}

int tug_context_rank(const tug_context *context) {
    return (int)context->rank;
}

int tug_context_size(const tug_context *context) {
    (void)context;
    return RANKS;
}

uint32_t tug_context_operations(const tug_context *context) {
    (void)context;
    return 64;
}

MPI_Comm tug_context_comm(const tug_context *context) {
    (void)context;
    return MPI_COMM_WORLD;
}

MPI_Comm tug_context_node_comm(const tug_context *context) {
    (void)context;
    return MPI_COMM_WORLD;
}

bool tug_context_maps(const tug_context *context) {
    return context->rank < NODE;
}

bool tug_context_cpu_atomics(const tug_context *context) {
    (void)context;
    return !job_has_cards;
}

enum tug_shortcut tug_context_shortcut(tug_context *context, uint32_t peer,
                                       const struct tug_key *key) {
    (void)context, (void)peer, (void)key;
    return job_has_cards ? TUG_SHORTCUT_DEVICE : TUG_SHORTCUT_NONE;
}

int tug_call_register(tug_context *context, unsigned id, tug_call_handler handler, void *d) {
    REQUIRE(id < TUG_CALL_KINDS);
    context->handlers[id].f = handler;
    context->handlers[id].d = d;
    return 0;
}

void tug_progress(tug_context *context) {
    (void)context;
}

/* Nothing that waits is called here: the end of an array is alone in waiting, for nothing. */
void tug_wait(tug_context *context, bool (*done)(void *d), void *d) {
    (void)context;
    REQUIRE(done(d));
}

void tug_counter_add(void *counter, int status) {
    (void)counter, (void)status;
    REQUIRE(false);
}

int tug_counter_wait(tug_context *context, struct tug_counter *counter, uint64_t target) {
    (void)context, (void)counter, (void)target;
    REQUIRE(false);
    return 0;
}

/* The same as LLCL's, but for the line in the log. */
void tug_message_complain(int source, const char *what) {
    (void)what;
    REQUIRE(source == (int)LIAR || acting == LIAR);
    reached.refused++;
}

int tug_message_status(int source, const char *what, int32_t told, bool right) {
    if (told < 0 ? told >= TUG_ERR_DEVICE : told == 0 && right)
        return told;
    tug_message_complain(source, what);
    return TUG_ERR_INVALID;
}

/* ---- calls ---- */

void job_post(const struct message *message) {
    struct queue *queue = &queues[message->is_answer][message->from][message->to];
    struct waiting *new = calloc(1, sizeof(*new));
    REQUIRE(new != NULL);
    new->message = *message;
    *queue->last = new;
    queue->last = &new->next;
}

static void post(const struct message *message) {
    if (message->from == LIAR && !liar_is_lost)
        liar_sends(*message);
    else
        job_post(message);
}

static struct call *free_call(void) {
    for (struct call *call = calls; call < calls + CALLS; call++)
        if (!call->live)
            return call;
    return NULL;
}

bool tug_try_call_async(tug_context *context, const struct tug_call_params *params) {
    struct call *call = free_call();
    if (call == NULL || take() % 16 == 15)
        return false;
    struct message message = {.from = context->rank,
                              .to = (uint32_t)params->dest_proc,
                              .tag = (uint32_t)(call - calls),
                              .kind = params->handler,
                              .bytes = params->size_in_bytes};
    REQUIRE(message.to < RANKS && message.kind < TUG_CALL_KINDS);
    *call = (struct call){.live = true,
                          .from = message.from,
                          .to = message.to,
                          .kind = message.kind,
                          .answer = params->answer,
                          .answer_bytes = params->answer_in_bytes,
                          .on_complete = params->on_complete};
    memcpy(message.data, params->payload, message.bytes);
    reached.calls++;
    post(&message);
    return true;
}

void job_forge(unsigned kind, uint32_t to, const void *data, size_t bytes) {
    struct call *call = free_call();
    if (call == NULL)
        return;
    *call = (struct call){.live = true, .forged = true, .from = LIAR, .to = to, .kind = kind};
    struct message message = {
        .from = LIAR, .to = to, .tag = (uint32_t)(call - calls), .kind = kind, .bytes = bytes};
    memcpy(message.data, data, bytes);
    job_post(&message);
}

void tug_answer(tug_context *context, struct tug_caller caller, const void *answer, size_t bytes) {
    struct call *call = &calls[caller.tag];
    if (context->rank == LIAR && liar_is_lost)
        return; /* the call has ended */
    REQUIRE(caller.tag < CALLS && call->live && !call->answered);
    REQUIRE(call->from == (uint32_t)caller.process && call->to == context->rank);
    call->answered = true;
    struct message message = {.from = context->rank,
                              .to = call->from,
                              .tag = caller.tag,
                              .kind = call->kind,
                              .is_answer = true,
                              .bytes = bytes};
    REQUIRE(bytes <= sizeof(message.data));
    if (bytes > 0)
        memcpy(message.data, answer, bytes);
    post(&message);
}

static void end_call(struct call *call, int status, const void *answer) {
    const struct call ended = *call;
    acting = ended.from;
    call->live = false;
    if (ended.forged)
        return;
    if (status == 0)
        memcpy(ended.answer, answer, ended.answer_bytes);
    if (ended.on_complete.f != NULL)
        ended.on_complete.f(ended.on_complete.d, status);
}

static void note_where_pages_go(const struct message *message) {
    struct tug_message step;
    if (message->bytes != sizeof(step))
        return;
    memcpy(&step, message->data, sizeof(step));
    if (message->kind == TUG_CALL_FETCH && step.page < PAGES && message->to == LIAR)
        spoiled[step.page] = true;
    reached.moved += message->kind == TUG_CALL_CHANGE;
}

static void deliver(const struct message *message) {
    struct call *call = &calls[message->tag];
    if (message->is_answer) {
        const bool fits = call->forged || message->bytes == call->answer_bytes;
        end_call(call, fits ? 0 : TUG_ERR_RANGE, message->data);
        return;
    }
    if (message->from == LIAR ? liar_is_lost : message->to == LIAR && liar_is_lost) {
        end_call(call, TUG_ERR_PEER, NULL);
        return;
    }
    acting = message->to;
    note_where_pages_go(message);
    struct tug_context *context = &contexts[message->to];
    unsigned char *copy = malloc(message->bytes); /* its bounds are known */
    REQUIRE(copy != NULL || message->bytes == 0);
    if (message->bytes > 0)
        memcpy(copy, message->data, message->bytes);
    const unsigned long refused = reached.refused;
    context->handlers[message->kind].f(context,
                                       (struct tug_caller){(int)message->from, message->tag}, copy,
                                       message->bytes, context->handlers[message->kind].d);
    if (reached.refused != refused)
        reached.kinds |= 1u << message->kind;
    free(copy);
}

/* ---- copies ---- */

static bool begin_copy(struct tug_context *context, struct copying one) {
    REQUIRE(one.to < RANKS);
    if (take() % 16 == 15)
        return false;
    struct copying *copying = malloc(sizeof(one));
    REQUIRE(copying != NULL);
    *copying = one;
    copying->from = context->rank;
    copying->next = copies[context->rank];
    copies[context->rank] = copying;
    return true;
}

bool tug_try_read_async(tug_context *context, const struct tug_read_params *params) {
    return begin_copy(
        context, (struct copying){.kind = READ,
                                  .to = (uint32_t)params->src_proc,
                                  .key = *params->src_raddr.key,
                                  .offset = params->src_raddr.offset,
                                  .bytes = params->size_in_bytes,
                                  .local = local_memory(&params->dest_laddr, params->size_in_bytes),
                                  .on_complete = params->on_complete});
}

bool tug_try_write_async(tug_context *context, const struct tug_write_params *params) {
    return begin_copy(
        context, (struct copying){.kind = WRITE,
                                  .to = (uint32_t)params->dest_proc,
                                  .key = *params->dest_raddr.key,
                                  .offset = params->dest_raddr.offset,
                                  .bytes = params->size_in_bytes,
                                  .local = local_memory(&params->src_laddr, params->size_in_bytes),
                                  .on_complete = params->on_complete});
}

bool tug_try_fetch_and_op_async(tug_context *context,
                                const struct tug_fetch_and_op_params *params) {
    return begin_copy(context, (struct copying){.kind = FETCH,
                                                .to = (uint32_t)params->dest_proc,
                                                .key = *params->dest_raddr.key,
                                                .offset = params->dest_raddr.offset,
                                                .bytes = params->size_in_bytes,
                                                .op = params->op,
                                                .operand = params->operand,
                                                .on_complete = params->on_complete});
}

bool tug_try_compare_and_swap_async(tug_context *context,
                                    const struct tug_compare_and_swap_params *params) {
    return begin_copy(context, (struct copying){.kind = COMPARE,
                                                .to = (uint32_t)params->dest_proc,
                                                .key = *params->dest_raddr.key,
                                                .offset = params->dest_raddr.offset,
                                                .bytes = params->size_in_bytes,
                                                .local = local_memory(&params->result_laddr,
                                                                      params->size_in_bytes),
                                                .expected = params->expected,
                                                .operand = params->desired,
                                                .on_complete = params->on_complete});
}

static void end_copy(const struct copying *one) {
    int status;
    unsigned char *there = memory_of(one->to, &one->key, one->offset, one->bytes, &status);
    if (one->to == LIAR && liar_is_lost)
        status = TUG_ERR_PEER;
    else if (there != NULL && one->kind == READ)
        memcpy(one->local, there, one->bytes);
    else if (there != NULL && one->kind == WRITE)
        memcpy(there, one->local, one->bytes);
    else if (there != NULL && one->kind == COMPARE)
        memcpy(one->local,
               &(uint64_t){
                   tug_atomic_compare(there, (unsigned)one->bytes, one->expected, one->operand)},
               one->bytes);
    else if (there != NULL)
        (void)tug_atomic_fetch(there, (unsigned)one->bytes, one->op, one->operand);
    acting = one->from;
    one->on_complete.f(one->on_complete.d, status);
}

/* ---- steps ---- */

static bool step_queue(struct queue *queue) {
    struct waiting *one = queue->first;
    if (one == NULL)
        return false;
    queue->first = one->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    deliver(&one->message);
    free(one);
    return true;
}

/* The oldest copy of a process, or the newest. */
static bool step_copy(uint32_t rank, bool oldest) {
    struct copying **at = &copies[rank], *one;
    if (*at == NULL)
        return false;
    while (oldest && (*at)->next != NULL)
        at = &(*at)->next;
    one = *at;
    *at = one->next;
    end_copy(one);
    free(one);
    return true;
}

static bool step_service(uint32_t rank) {
    struct tug_service *service = services[rank];
    acting = rank;
    return service != NULL && service->busy(service) && service->poll(service, false);
}

bool job_step(unsigned choice) {
    const unsigned kinds = 2 * RANKS * RANKS + 2 * RANKS;
    for (unsigned i = 0; i < kinds; i++) {
        const unsigned at = (choice + i) % kinds, way = at / RANKS / RANKS;
        if (way < 2               ? step_queue(&queues[way][at / RANKS % RANKS][at % RANKS])
            : at / RANKS % 2 == 0 ? step_copy(at % RANKS, choice & 64)
                                  : step_service(at % RANKS))
            return true;
    }
    return false;
}

static bool is_on_its_way(uint32_t tag, const struct queue *queue) {
    for (const struct waiting *one = queue->first; one != NULL; one = one->next)
        if (one->message.tag == tag)
            return true;
    return false;
}

void job_drop(const struct message *message) {
    calls[message->tag].dropped |= !message->is_answer;
}

/* Calls and answers that are on their way arrive; calls then fail. */
void job_lose_liar(void) {
    liar_is_lost = true;
    for (uint32_t tag = 0; tag < CALLS; tag++) {
        struct call *call = &calls[tag];
        if (call->live && (call->to == LIAR || call->dropped) &&
            !is_on_its_way(tag, &queues[0][call->from][call->to]) &&
            !is_on_its_way(tag, &queues[1][call->to][call->from]))
            end_call(call, TUG_ERR_PEER, NULL);
    }
}

void job_begin(void) {
    tug_host.Comm_size = comm_size;
    tug_host.Iallreduce = allreduce;
    tug_host.Iallgather = allgather;
    memset(calls, 0, sizeof(calls));
    memset(pools, 0, sizeof(pools));
    memset(registrations, 0, sizeof(registrations));
    nregistrations = 0;
    liar_is_lost = false;
    job_has_cards = take() % 2;
    for (unsigned way = 0; way < 2; way++)
        for (uint32_t from = 0; from < RANKS; from++)
            for (uint32_t to = 0; to < RANKS; to++)
                queues[way][from][to] = (struct queue){.last = &queues[way][from][to].first};
}

void job_end(void) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        free(pools[rank].base);
}

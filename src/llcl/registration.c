/* Memory: registered where it is, or allocated so that the node maps it. */
#include <stdlib.h>
#include <string.h>

#include "host/agreement.h"
#include "host/device.h"
#include "host/host.h"
#include "llcl/copies.h"
#include "node/live.h"
#include "transport/packets/packets.h"

/* ---- beginning ---- */

/* Undoes what transports have done, from number n - 1 down. */
static void withdraw(struct tug_registration *registration, unsigned n) {
    struct tug_fabric *fabric = &registration->context->fabric;
    while (n-- > 0)
        if (fabric->states[n] != NULL && tug_transports[n]->deregister_memory != NULL)
            tug_transports[n]->deregister_memory(fabric->states[n], registration);
}

static int announce(struct tug_registration *registration, bool to_devices) {
    struct tug_fabric *fabric = &registration->context->fabric;
    int status = tug_memory_add(&fabric->memory, registration); /* its id, which nobody knows yet */
    for (unsigned i = 0; status == 0 && to_devices && i < TUG_TRANSPORT_COUNT; i++) {
        if (fabric->states[i] == NULL || tug_transports[i]->register_memory == NULL)
            continue;
        status = tug_transports[i]->register_memory(fabric->states[i], registration);
        if (status != 0) {
            withdraw(registration, i);
            tug_memory_remove(&fabric->memory, registration);
        }
    }
    return status;
}

static struct tug_registration *make(struct tug_context *context, void *address, size_t bytes) {
    struct tug_registration *registration = calloc(1, sizeof(*registration));
    if (registration == NULL)
        return NULL;
    registration->context = context;
    registration->base = address;
    registration->bytes = bytes;
    return registration;
}

int tug_mem_register(tug_context *context, void *address, size_t size_in_bytes,
                     tug_registration **result) {
    if (context == NULL || result == NULL || (address == NULL && size_in_bytes > 0) ||
        size_in_bytes > PTRDIFF_MAX || (uintptr_t)address > UINTPTR_MAX - size_in_bytes)
        return TUG_ERR_INVALID;
    tug_device_look();
    if (size_in_bytes > 0 && tug_is_device(address))
        return TUG_ERR_UNSUPPORTED;
    struct tug_registration *registration = make(context, address, size_in_bytes);
    if (registration == NULL)
        return TUG_ERR_NO_MEMORY;
    int status = announce(registration, true);
    if (status != 0) {
        free(registration);
        return status;
    }
    const struct tug_offer offer = tug_lent_offer(address, size_in_bytes);
    registration->entry =
        tug_live_publish(context->fabric.live, context->fabric.id, registration->id, &offer);
    *result = registration;
    return 0;
}

/* ---- allocated memory ---- */

/* A free number of a segment, the same on all processes: allocation and release are collective. */
static uint32_t free_number(struct tug_context *context) {
    uint32_t i = 0;
    while (i < TUG_SEGMENTS && atomic_load(&context->fabric.mapped[i]) != NULL)
        i++;
    return i;
}

static int allocate(struct tug_context *context, size_t bytes, bool to_devices,
                    struct tug_mapped *mapped, struct tug_registration **result) {
    struct tug_fabric *fabric = &context->fabric;
    struct tug_segment_part *part = &mapped->segment.parts[fabric->node_rank];
    struct tug_registration *registration = make(context, part->base + TUG_MAPPED_HEAD, bytes);
    int status = registration == NULL ? TUG_ERR_NO_MEMORY : announce(registration, to_devices);
    if (!tug_all_agree(fabric->comm, status == 0)) {
        if (status == 0)
            tug_registration_end(registration);
        else
            free(registration);
        return TUG_ERR_NO_MEMORY;
    }
    registration->segment = mapped->index + 1;
    struct tug_mapped_head *head = (struct tug_mapped_head *)part->base;
    struct tug_key key;
    tug_mem_key(registration, &key);
    memcpy(head->rest, key.word + 1, sizeof(head->rest));
    registration->live = &head->live;
    atomic_store(registration->live, registration->id);
    registration->entry = tug_live_publish(context->fabric.live, fabric->id, registration->id,
                                           &(struct tug_offer){0});
    *result = registration;
    return 0;
}

/* Collective calls over the node may meet those of others of the team, too. */
static bool have_node_comm(struct tug_context *context) {
    const struct tug_fabric *fabric = &context->fabric;
    return context->node_comm != MPI_COMM_NULL ||
           tug_host.Comm_split(fabric->comm, (int)fabric->node_ranks[0], (int)fabric->rank,
                               &context->node_comm) == MPI_SUCCESS;
}

int tug_mem_allocate(tug_context *context, size_t size_in_bytes, tug_registration **result) {
    return tug_mem_reserve(context, size_in_bytes, size_in_bytes, result);
}

bool tug_mem_is_locked(const tug_registration *registration) {
    for (size_t i = 0; i < TUG_TRANSPORTS; i++)
        if (registration->of_transport[i] != NULL)
            return true;
    return registration->rkeys[0] != 0;
}

int tug_mem_reserve(tug_context *context, size_t size_in_bytes, size_t real_in_bytes,
                    tug_registration **result) {
    if (context == NULL || result == NULL)
        return TUG_ERR_INVALID;
    struct tug_fabric *fabric = &context->fabric;
    struct tug_mapped *mapped = calloc(1, sizeof(*mapped));
    uint32_t number = free_number(context);
    bool possible = mapped != NULL && number < TUG_SEGMENTS &&
                    size_in_bytes < PTRDIFF_MAX - 2 * (size_t)TUG_MAPPED_HEAD;
    int status = TUG_ERR_NO_MEMORY;
    if (!tug_all_agree(fabric->comm, possible))
        goto fail;
    if (!have_node_comm(context)) {
        status = TUG_ERR_MPI;
        goto fail;
    }
    status = tug_segment_reserve(fabric->comm, context->node_comm, size_in_bytes + TUG_MAPPED_HEAD,
                                 real_in_bytes + TUG_MAPPED_HEAD, &mapped->segment);
    if (status != 0)
        goto fail;
    mapped->index = number;
    status = allocate(context, size_in_bytes, real_in_bytes == size_in_bytes, mapped, result);
    if (status != 0) {
        tug_segment_free(&mapped->segment);
        goto fail;
    }
    /* release: pairs with the acquire in tug_mapped_address */
    atomic_store_explicit(&context->fabric.mapped[number], mapped, memory_order_release);
    /* whoever leaves may use a key at once: everybody has mapped everything by then */
    (void)tug_all_agree(fabric->comm, true);
    return 0;
fail:
    free(mapped);
    return status;
}

/* ---- the end ---- */

void tug_registration_end(struct tug_registration *registration) {
    struct tug_context *context = registration->context;
    if (registration->live != NULL)
        atomic_store(registration->live, 0);
    tug_live_end(registration->entry);
    tug_memory_remove(&context->fabric.memory, registration);
    withdraw(registration, TUG_TRANSPORT_COUNT);
    free(registration);
}

static bool in_use(const struct tug_registration *registration) {
    if (registration->users > 0 && atomic_load(&registration->context->fabric.resting) > 0)
        tug_context_ask(registration->context);
    if (registration->serving > 0)
        tug_engine_look(false); /* it may have ended, and nobody has looked */
    return tug_copies_use(registration) || registration->serving > 0 || registration->users > 0;
}

struct ending {
    struct tug_registration *registration;
    bool ask_only;
    int status;
};

static void end(void *argument) {
    struct ending *ending = argument;
    struct tug_live *entry = ending->registration->entry;
    if (in_use(ending->registration) || !tug_live_withdraw(entry))
        ending->status = TUG_ERR_STATE;
    else if (!ending->ask_only)
        tug_registration_end(ending->registration);
    else
        tug_live_restore(entry, ending->registration->id);
}

int tug_mem_deregister(tug_registration **handle) {
    if (handle == NULL || *handle == NULL)
        return TUG_ERR_INVALID;
    struct ending ending = {.registration = *handle};
    tug_engine_call(end, &ending);
    if (ending.status == 0)
        *handle = NULL;
    return ending.status;
}

int tug_mem_free(tug_registration **handle) {
    if (handle == NULL || *handle == NULL || (*handle)->segment == 0)
        return TUG_ERR_INVALID;
    struct tug_context *context = (*handle)->context;
    uint32_t number = (*handle)->segment - 1;
    struct ending ending = {.registration = *handle, .ask_only = true};
    tug_engine_call(end, &ending);
    if (!tug_all_agree(context->fabric.comm, ending.status == 0))
        return TUG_ERR_STATE;
    ending.ask_only = false;
    tug_engine_call(end, &ending);
    struct tug_mapped *mapped = atomic_exchange(&context->fabric.mapped[number], NULL);
    (void)tug_all_agree(context->fabric.comm, true);
    tug_segment_free(&mapped->segment);
    free(mapped);
    *handle = NULL;
    return 0;
}

void tug_registration_close(struct tug_context *context) {
    for (uint32_t i = 0; i < TUG_SEGMENTS; i++) {
        struct tug_mapped *mapped = atomic_exchange(&context->fabric.mapped[i], NULL);
        if (mapped == NULL)
            continue;
        tug_segment_free(&mapped->segment);
        free(mapped);
    }
}

/* ---- facts ---- */

tug_registration *tug_context_everything(tug_context *context) {
    return &context->everything;
}

void *tug_mem_address(const tug_registration *registration) {
    return registration->base;
}

size_t tug_mem_size(const tug_registration *registration) {
    return registration->bytes;
}

void tug_mem_key(const tug_registration *registration, struct tug_key *key) {
    const struct tug_fabric *fabric = &registration->context->fabric;
    key->word[0] = registration->id;
    key->word[1] = fabric->id;
    key->word[2] = (uint64_t)(uintptr_t)registration->base;
    key->word[3] = registration->bytes;
    key->word[4] = (uint64_t)fabric->rank << 32;
    const uint64_t most = TUG_KEY_NODE_RANK_MOST;
    const uint64_t node_rank = fabric->node_rank < most ? fabric->node_rank : most;
    const struct tug_live *entry = registration->entry;
    key->word[5] = node_rank << 16 | registration->segment;
    if (entry != NULL && entry->offer.name != 0)
        key->word[5] |= TUG_KEY_LENT;
    key->word[6] = 0;
    key->word[7] = (uint64_t)registration->port << 32;
    tug_key_add_rkeys(key, registration->rkeys);
    key->word[5] |= (uint64_t)tug_key_check(key) << 32;
}

void tug_mem_set_port(tug_registration *registration, uint32_t port) {
    registration->port = (uint8_t)port;
}

uint32_t tug_context_ports(const tug_context *context) {
    const struct tug_fabric *fabric = &context->fabric;
    uint32_t most = 1;
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        const struct tug_wire *wire = fabric->states[i];
        if (wire != NULL && wire->ports > most)
            most = wire->ports;
    }
    return most;
}

void *tug_mem_map(const tug_context *context, const struct tug_key *key) {
    int status;
    uint32_t owner = tug_key_owner(key);
    if (tug_key_allows(key, context->fabric.id, owner, 0, 0) != 0)
        return NULL;
    if (owner != context->fabric.rank)
        return tug_mapped_address(&context->fabric, key, owner, 0, 0);
    struct tug_registration *registration = tug_memory_find(
        (struct tug_memory_table *)&context->fabric.memory, key->word[0], 0, 0, &status);
    return registration != NULL ? registration->base : NULL;
}

/* ---- opening keys ---- */

struct contact {
    struct tug_context *context;
    uint32_t peer;
    bool there;
};

/* What leads to a process, for packets. Holder only. */
static void make_contact(void *argument) {
    struct contact *contact = argument;
    contact->there = tug_stream_to(contact->context->fabric.packets, contact->peer) != NULL;
}

int tug_mem_open(tug_context *context, const struct tug_key *key) {
    const uint32_t owner = key != NULL ? tug_key_owner(key) : 0;
    struct contact contact = {.context = context, .peer = owner};
    struct tug_counter counter = {0};
    struct tug_reach there;
    if (key == NULL || owner >= context->fabric.nranks ||
        tug_key_allows(key, context->fabric.id, owner, 0, 0) != 0)
        return TUG_ERR_KEY;
    tug_engine_call(make_contact, &contact);
    if (!contact.there)
        return TUG_ERR_NO_MEMORY;
    if (owner != context->fabric.rank && tug_key_is_lent(key) &&
        tug_fabric_reach(&context->fabric, key, owner, 0, 0, &there)) /* makes a view of it */
        tug_reach_end(&there);
    /* what else a row does first, it does for this */
    const struct tug_read_params nothing = {.src_proc = (int)owner,
                                            .src_raddr = {.key = key},
                                            .on_complete = {tug_counter_add, &counter}};
    while (!tug_try_read_async(context, &nothing))
        tug_progress(context);
    return tug_counter_wait(context, &counter, 1);
}

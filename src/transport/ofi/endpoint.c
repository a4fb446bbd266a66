/* The endpoint of the row ofi: one of libfabric's reliable datagram endpoints, for all contexts.
 * Their wires are views of it: ofi.c.
 *
 * Receives are always posted, and are looked at in the order of their posting, in which packets of
 * one source are matched (FI_ORDER_SAS): so they stay in order whatever order their completions
 * have. A packet for a view that is not ready is kept until it is; peers that are not answered send
 * so many and no more (packets.h). One for a context that is not here is passed over.
 *
 * The providers are let make progress when the queue is read, and by no thread of theirs. What
 * they wait for (the sockets of tcp, say) makes the queue's descriptor readable, if they have
 * one, after fi_trywait() has said so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "base/sockets.h"
#include "transport/ofi/private.h"

#define ENTRIES 32                   /* completions looked at in one poll */
#define GREETING 0x31696f6662677574u /* "tugbfoi1" */

/* Shorter than any packet. */
struct greeting {
    uint64_t magic, context;
};

_Static_assert(sizeof(struct greeting) < sizeof(struct tug_packet_header), "told by their length");

/* ---- peers ---- */

fi_addr_t tug_ofi_find(struct tug_ofi_endpoint *endpoint, const struct tug_ofi_address *address) {
    const uintptr_t known = (uintptr_t)tug_table_find(&endpoint->peers, address->id);
    fi_addr_t found = FI_ADDR_NOTAVAIL;
    if (known != 0)
        return known - 1;
    if (fi_av_insert(endpoint->av, address->name, 1, &found, 0, NULL) != 1 ||
        !tug_table_add(&endpoint->peers, address->id, (void *)(uintptr_t)(found + 1)))
        return FI_ADDR_NOTAVAIL;
    return found;
}

/* Nothing goes there any more: all contexts are told. */
static void tell_ended(struct tug_ofi_endpoint *endpoint, fi_addr_t peer) {
    for (struct tug_turn *turn = endpoint->turns.first; turn != NULL; turn = turn->next) {
        struct tug_ofi_view *view = (struct tug_ofi_view *)turn->wire;
        if (!turn->ready)
            continue;
        tug_turns_note(&endpoint->turns, turn);
        for (uint32_t rank = 0; rank < view->wire.fabric->nranks; rank++)
            if (view->addresses[rank] == peer)
                view->wire.ended(view->wire.receiver, rank);
    }
}

/* ---- sending ---- */

static struct tug_ofi_send *take_send(struct tug_ofi_view *view, uint32_t peer,
                                      struct tug_buffer *buffer) {
    struct tug_ofi_send *send = view->endpoint->free;
    if (send == NULL)
        return NULL;
    view->endpoint->free = send->next;
    send->buffer = buffer;
    send->view = view;
    send->peer = peer;
    send->out = true;
    return send;
}

static void free_send(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send) {
    send->out = false;
    send->next = endpoint->free;
    endpoint->free = send;
}

/* Its bytes are on their way, or never will be. */
static void end_send(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send) {
    if (send->view == NULL)
        free(send->buffer);
    else if (send->buffer == NULL)
        send->view->greeted = true;
    else
        tug_pool_give(&send->view->wire.pool, send->buffer);
    free_send(endpoint, send);
}

static void fail_send(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send, int error) {
    const struct tug_ofi_view *view = send->view;
    if (view != NULL) {
        const fi_addr_t peer = view->addresses[send->peer];
        tug_log(TUG_VERBOSE_INFO, "ofi: to process %u: %s", send->peer, tug_ofi.strerror(error));
        end_send(endpoint, send);
        tell_ended(endpoint, peer);
    } else {
        end_send(endpoint, send);
    }
}

/* What libfabric refuses for good fails in the next poll. */
static bool post_send(struct tug_ofi_view *view, struct tug_ofi_send *send, const void *memory,
                      size_t bytes) {
    struct tug_ofi_endpoint *endpoint = view->endpoint;
    const ssize_t status = fi_send(endpoint->ep, memory, bytes, NULL, view->addresses[send->peer],
                                   &send->request.context);
    if (status == -FI_EAGAIN) {
        free_send(endpoint, send);
        return false;
    }
    if (status != 0) {
        send->next = endpoint->failed;
        endpoint->failed = send;
    }
    return true;
}

bool tug_ofi_send(struct tug_ofi_view *view, uint32_t peer, struct tug_buffer *buffer) {
    struct tug_ofi_send *send = take_send(view, peer, buffer);
    return send != NULL && post_send(view, send, buffer->memory, buffer->packet.used);
}

bool tug_ofi_greet(struct tug_ofi_view *view, uint32_t peer) {
    struct tug_ofi_send *send = take_send(view, peer, NULL);
    view->greeting[0] = GREETING;
    view->greeting[1] = view->wire.fabric->id;
    return send != NULL && post_send(view, send, view->greeting, sizeof(struct greeting));
}

void tug_ofi_forget(struct tug_ofi_view *view) {
    for (uint32_t i = 0; i < TUG_OFI_SENDS; i++)
        if (view->endpoint->sends[i].out && view->endpoint->sends[i].view == view)
            view->endpoint->sends[i].view = NULL;
}

/* ---- receiving ---- */

static bool post_receives(struct tug_ofi_endpoint *endpoint) {
    while (endpoint->posted < endpoint->taken + TUG_OFI_RECEIVES) {
        struct tug_ofi_receive *receive = &endpoint->receives[endpoint->posted % TUG_OFI_RECEIVES];
        receive->done = false;
        if (fi_recv(endpoint->ep, receive->memory, TUG_OFI_PACKET_BYTES, NULL, FI_ADDR_UNSPEC,
                    &receive->request.context) != 0)
            return false;
        endpoint->posted++;
    }
    return true;
}

/* False: no memory. */
static bool hold(struct tug_ofi_view *view, const void *memory, size_t bytes) {
    struct tug_ofi_held *held = malloc(sizeof(*held) + bytes);
    if (held == NULL)
        return false;
    held->next = NULL;
    held->bytes = bytes;
    memcpy(held->memory, memory, bytes);
    *view->held_end = held;
    view->held_end = &held->next;
    return true;
}

static void be_greeted(struct tug_ofi_endpoint *endpoint, const struct greeting *greeting) {
    struct tug_ofi_view *view = tug_table_find(&endpoint->turns.wires, greeting->context);
    if (view != NULL && greeting->magic == GREETING)
        view->heard = true;
}

/* False: it cannot be handed up now. */
static bool hand_up(struct tug_ofi_endpoint *endpoint, const void *memory, size_t bytes) {
    const struct tug_packet_header *header = memory;
    if (bytes == sizeof(struct greeting))
        be_greeted(endpoint, memory);
    if (bytes < sizeof(*header))
        return true;
    struct tug_ofi_view *view = tug_table_find(&endpoint->turns.wires, header->context);
    if (view == NULL)
        return true;
    if (!view->turn.ready)
        return hold(view, memory, bytes);
    tug_turns_note(&endpoint->turns, &view->turn);
    view->wire.receive(view->wire.receiver, &view->wire, memory, bytes);
    return true;
}

/* As many as were posted before, at most. */
static bool take_receives(struct tug_ofi_endpoint *endpoint) {
    const uint64_t before = endpoint->taken;
    while (endpoint->taken < endpoint->posted) {
        const struct tug_ofi_receive *receive =
            &endpoint->receives[endpoint->taken % TUG_OFI_RECEIVES];
        if (!receive->done || !hand_up(endpoint, receive->memory, receive->bytes))
            break;
        endpoint->taken++;
    }
    (void)post_receives(endpoint);
    return endpoint->taken != before;
}

/* ---- polling ---- */

static void complete(struct tug_ofi_endpoint *endpoint, void *context, size_t bytes) {
    struct tug_ofi_request *request = context;
    if (request->sends) {
        end_send(endpoint, context);
    } else {
        struct tug_ofi_receive *receive = context;
        receive->done = true;
        receive->bytes = bytes;
    }
}

/* One that has failed. A receive is posted again. */
static void take_error(struct tug_ofi_endpoint *endpoint) {
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(endpoint->cq, &error, 0) != 1 || error.op_context == NULL)
        return;
    struct tug_ofi_request *request = error.op_context;
    if (request->sends) {
        fail_send(endpoint, error.op_context, error.err);
        return;
    }
    tug_log(TUG_VERBOSE_WARN, "ofi: a packet has not come whole: %s", tug_ofi.strerror(error.err));
    complete(endpoint, request, 0);
}

static bool end_failed(struct tug_ofi_endpoint *endpoint) {
    const bool any = endpoint->failed != NULL;
    while (endpoint->failed != NULL) {
        struct tug_ofi_send *send = endpoint->failed;
        endpoint->failed = send->next;
        fail_send(endpoint, send, FI_EOTHER);
    }
    return any;
}

bool tug_ofi_poll(struct tug_ofi_endpoint *endpoint) {
    struct fi_cq_msg_entry entries[ENTRIES];
    const ssize_t n = fi_cq_read(endpoint->cq, entries, ENTRIES);
    for (ssize_t i = 0; i < n; i++)
        complete(endpoint, entries[i].op_context, entries[i].len);
    if (n == -FI_EAVAIL)
        take_error(endpoint);
    else if (n < 0 && n != -FI_EAGAIN)
        tug_warn_once("ofi: the completion queue cannot be read");
    bool moved = n > 0 || n == -FI_EAVAIL;
    moved |= end_failed(endpoint);
    moved |= take_receives(endpoint);
    endpoint->turns.polls++;
    return moved;
}

/* Contexts are armed one after the other, and polled after that: once is enough. */
bool tug_ofi_arm(struct tug_ofi_endpoint *endpoint) {
    struct fid *queue = &endpoint->cq->fid;
    if (endpoint->armed == endpoint->turns.polls + 1)
        return true;
    if (endpoint->descriptor < 0 || endpoint->failed != NULL ||
        endpoint->posted < endpoint->taken + TUG_OFI_RECEIVES ||
        fi_trywait(endpoint->fabric, &queue, 1) != 0)
        return false;
    if (!tug_turns_arm(&endpoint->turns))
        return false;
    endpoint->armed = endpoint->turns.polls + 1;
    return true;
}

/* ---- opening and closing ---- */

static void close_object(struct fid *object) {
    if (object != NULL && fi_close(object) != 0)
        tug_log(TUG_VERBOSE_INFO, "ofi: an object of libfabric is still in use");
}

void tug_ofi_endpoint_close(struct tug_ofi_endpoint *endpoint) {
    tug_turns_fini(&endpoint->turns);
    if (endpoint->claimed)
        tug_sockets_disclaim(endpoint->descriptor);
#define CLOSE(member)                                                                              \
    if (endpoint->member != NULL)                                                                  \
    close_object(&endpoint->member->fid)
    CLOSE(ep);
    CLOSE(av);
    CLOSE(cq);
    CLOSE(domain);
    CLOSE(fabric);
#undef CLOSE
    for (uint32_t i = 0; i < TUG_OFI_SENDS; i++)
        if (endpoint->sends[i].out) /* of a view that has left */
            free(endpoint->sends[i].buffer);
    if (endpoint->info != NULL)
        tug_ofi.freeinfo(endpoint->info);
    tug_table_fini(&endpoint->peers);
    free(endpoint);
}

/* With a descriptor to sleep at, if the provider has such. */
static bool open_queue(struct tug_ofi_endpoint *endpoint) {
    struct fi_cq_attr attributes = {.size = 2 * (TUG_OFI_SENDS + TUG_OFI_RECEIVES),
                                    .format = FI_CQ_FORMAT_MSG,
                                    .wait_obj = FI_WAIT_FD};
    if (fi_cq_open(endpoint->domain, &attributes, &endpoint->cq, NULL) == 0) {
        if (fi_control(&endpoint->cq->fid, FI_GETWAIT, &endpoint->descriptor) != 0)
            endpoint->descriptor = -1;
        endpoint->claimed = endpoint->descriptor >= 0 && tug_sockets_claim(endpoint->descriptor);
        return true;
    }
    attributes.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(endpoint->domain, &attributes, &endpoint->cq, NULL) == 0;
}

static bool open_objects(struct tug_ofi_endpoint *endpoint) {
    struct fi_av_attr vector = {.type = FI_AV_UNSPEC};
    struct fi_info *info = endpoint->info;
    size_t bytes = TUG_OFI_NAME_MOST;
    if (tug_ofi.fabric(info->fabric_attr, &endpoint->fabric, NULL) != 0 ||
        fi_domain(endpoint->fabric, info, &endpoint->domain, NULL) != 0 || !open_queue(endpoint) ||
        fi_av_open(endpoint->domain, &vector, &endpoint->av, NULL) != 0 ||
        fi_endpoint(endpoint->domain, info, &endpoint->ep, NULL) != 0)
        return false;
    if (fi_ep_bind(endpoint->ep, &endpoint->cq->fid, FI_SEND | FI_RECV) != 0 ||
        fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0) != 0 || fi_enable(endpoint->ep) != 0 ||
        fi_getname(&endpoint->ep->fid, endpoint->address.name, &bytes) != 0)
        return false;
    return post_receives(endpoint);
}

struct tug_ofi_endpoint *tug_ofi_endpoint_make(char *reason) {
    struct fi_info *info = tug_ofi_choose(reason);
    struct tug_ofi_endpoint *endpoint = info != NULL ? calloc(1, sizeof(*endpoint)) : NULL;
    if (endpoint == NULL) {
        if (info != NULL)
            tug_ofi.freeinfo(info);
        return NULL;
    }
    endpoint->info = info;
    endpoint->descriptor = -1;
    tug_turns_init(&endpoint->turns);
    for (uint32_t i = 0; i < TUG_OFI_RECEIVES; i++)
        endpoint->receives[i].memory = endpoint->memory[i];
    for (uint32_t i = 0; i < TUG_OFI_SENDS; i++) {
        endpoint->sends[i].request.sends = true;
        free_send(endpoint, &endpoint->sends[i]);
    }
    if (tug_random_draw(&endpoint->address.id, sizeof(endpoint->address.id)) &&
        open_objects(endpoint)) {
        tug_log(TUG_VERBOSE_INFO, "ofi: provider %s, %s, %s", info->fabric_attr->prov_name,
                info->domain_attr->name,
                endpoint->descriptor >= 0 ? "which wakes" : "which is polled");
        return endpoint;
    }
    snprintf(reason, 256, "libfabric's provider %s cannot be opened", info->fabric_attr->prov_name);
    tug_ofi_endpoint_close(endpoint);
    return NULL;
}

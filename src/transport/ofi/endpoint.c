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
 *
 * Trailers are not sent: they are read, by RMA, by who receives the packet, which tells where:
 *
 *      sender                                 receiver
 *        registered  -- packet, where ------->  checks it, knows where the data go
 *                    <===== fi_read() ========
 *        its own     <---- note: read --------  arrived
 *
 * So nobody is let at memory by what a key once allowed: the memory is registered for one reading,
 * and by whom it is wanted has been checked. (Providers answer a key that has ended by ending the
 * connection, with all that is on it, or not at all.) What comes from a process while its trailer
 * is read waits. What libfabric reads into is its own until it says that it has done: only then is
 * a lost source told. Where nobody wants the data they are not read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sockets.h"
#include "transport/ofi/private.h"

#define ENTRIES 32                   /* completions looked at in one poll */
#define GREETING 0x31696f6662677574u /* "tugbfoi1"; of a context */
#define READ 0x32696f6662677574u     /* "tugbfoi2": what was sent with that id has been read */

/* Shorter than any packet. */
struct note {
    uint64_t magic, id;
};

_Static_assert(sizeof(struct note) == TUG_OFI_NOTE_BYTES &&
                   sizeof(struct note) < sizeof(struct tug_packet_header),
               "told by their length");

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

static struct tug_ofi_read *find_read(const struct tug_ofi_view *view, uint32_t source) {
    struct tug_ofi_read *read = view->reads;
    while (read != NULL && read->source != source)
        read = read->next;
    return read;
}

static void end_read(struct tug_ofi_read *read, bool whole);

static void tell_ended_to(struct tug_ofi_view *view, uint32_t rank) {
    struct tug_ofi_read *read = find_read(view, rank);
    if (read != NULL && !read->waits) {
        read->lost = true; /* libfabric still has the memory */
        return;
    }
    if (read != NULL)
        end_read(read, false);
    view->wire.ended(view->wire.receiver, rank);
}

/* Nothing goes there any more: all contexts are told. */
static void tell_ended(struct tug_ofi_endpoint *endpoint, fi_addr_t peer) {
    for (struct tug_wire *wire = endpoint->base.first; wire != NULL; wire = wire->next) {
        struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
        if (!wire->ready)
            continue;
        tug_endpoint_note(wire);
        for (uint32_t rank = 0; rank < view->wire.fabric->nranks; rank++)
            if (view->addresses[rank] == peer)
                tell_ended_to(view, rank);
    }
}

/* ---- sending ---- */

void tug_ofi_close_object(struct fid *object) {
    if (object != NULL && fi_close(object) != 0)
        tug_log(TUG_VERBOSE_INFO, "ofi: an object of libfabric is still in use");
}

static void hide(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send) {
    if (send->region != NULL && send == endpoint->copied)
        endpoint->copied = NULL;
    else if (send->region != NULL)
        tug_ofi_close_object(&send->region->fid);
    send->region = NULL;
}

struct fid_mr *tug_ofi_open_region(struct tug_ofi_endpoint *endpoint, const void *memory,
                                   size_t bytes, uint64_t access, uint64_t key, int *error) {
    struct fid_mr *region;
    *error = -fi_mr_reg(endpoint->domain, memory, bytes, access, 0, key, 0, &region, NULL);
    if (*error != 0)
        return NULL;
    if (endpoint->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
        *error = -fi_mr_bind(region, &endpoint->ep->fid, 0);
        *error = *error == 0 ? -fi_mr_enable(region) : *error;
    }
    if (*error == 0)
        return region;
    tug_ofi_close_object(&region->fid);
    return NULL;
}

/* Lets others read a trailer there. The keys differ from those of registrations. */
static struct fid_mr *open_trailer(struct tug_ofi_endpoint *endpoint, const void *memory,
                                   size_t bytes) {
    const uint32_t key = (uint32_t)++endpoint->keys | TUG_OFI_TRAILER_KEY;
    int error;
    return tug_ofi_open_region(endpoint, memory, bytes, FI_REMOTE_READ, key, &error);
}

/* Lets the peer read the trailer, or a copy of it where that is refused (too much is locked).
 * False: not now. */
static bool expose(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send) {
    const struct tug_buffer *buffer = send->buffer;
    const unsigned char *memory = buffer->trailer;
    send->region = open_trailer(endpoint, memory, buffer->packet.trailer);
    if (send->region == NULL) {
        if (endpoint->copied != NULL)
            return false;
        endpoint->copied = send;
        send->region = endpoint->copy_region;
        memory = memcpy(endpoint->copy, memory, buffer->packet.trailer);
    }
    const bool addressed = endpoint->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    send->where.address = addressed ? (uintptr_t)memory : 0;
    send->where.key = fi_mr_key(send->region);
    send->where.id = endpoint->keys * TUG_OFI_SENDS + (uint64_t)(send - endpoint->sends);
    return true;
}

static void free_send(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send) {
    hide(endpoint, send);
    send->out = false;
    send->next = endpoint->free;
    endpoint->free = send;
}

/* Its bytes are on their way, and have been read, or never will be. */
static void end_send(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send) {
    if (send->view == NULL)
        free(send->buffer);
    else
        tug_pool_give(&send->view->wire.pool, send->buffer);
    free_send(endpoint, send);
}

static void fail_send(struct tug_ofi_endpoint *endpoint, struct tug_ofi_send *send, int error) {
    const struct tug_ofi_view *view = send->view;
    const fi_addr_t peer = view != NULL ? view->addresses[send->peer] : FI_ADDR_UNSPEC;
    tug_log(TUG_VERBOSE_INFO, "ofi: to process %u: %s", send->peer, tug_ofi.strerror(error));
    end_send(endpoint, send);
    if (view != NULL)
        tell_ended(endpoint, peer);
}

/* What libfabric refuses for good fails in the next poll. */
bool tug_ofi_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
    struct tug_ofi_endpoint *endpoint = view->endpoint;
    struct tug_ofi_send *send = endpoint->free;
    if (send == NULL)
        return false;
    endpoint->free = send->next;
    send->buffer = buffer;
    send->view = view;
    send->peer = peer;
    send->out = true;
    send->gone = false;
    const bool trails = buffer->packet.trailer > 0;
    const struct iovec parts[] = {{buffer->memory, buffer->packet.used},
                                  {&send->where, sizeof(send->where)}};
    ssize_t status = -FI_EAGAIN;
    if (!trails || expose(endpoint, send))
        status = fi_sendv(endpoint->ep, parts, NULL, trails ? 2 : 1, view->addresses[peer],
                          &send->request.context);
    if (status == -FI_EAGAIN) {
        free_send(endpoint, send);
        return false;
    }
    endpoint->trailers += trails;
    if (status != 0) {
        send->next = endpoint->failed;
        endpoint->failed = send;
    }
    return true;
}

static ssize_t tell(const struct tug_ofi_view *view, uint32_t peer, uint64_t magic, uint64_t id) {
    const struct note note = {magic, id};
    return fi_inject(view->endpoint->ep, &note, sizeof(note), view->addresses[peer]);
}

bool tug_ofi_greet(struct tug_ofi_view *view, uint32_t peer) {
    return tell(view, peer, GREETING, view->wire.fabric->id) == 0;
}

void tug_ofi_abandon(struct tug_wire *wire, uint32_t peer) {
    struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
    for (uint32_t i = 0; i < TUG_OFI_SENDS; i++) {
        struct tug_ofi_send *send = &view->endpoint->sends[i];
        if (!send->out || send->view != view || send->peer != peer || send->region == NULL)
            continue;
        hide(view->endpoint, send);
        if (send->gone)
            end_send(view->endpoint, send);
    }
}

/* ---- receiving ---- */

static bool post_receives(struct tug_ofi_endpoint *endpoint) {
    while (endpoint->posted < endpoint->taken + TUG_OFI_RECEIVES) {
        struct tug_ofi_receive *receive = &endpoint->receives[endpoint->posted % TUG_OFI_RECEIVES];
        receive->done = false;
        if (fi_recv(endpoint->ep, receive->memory, TUG_OFI_RECEIVE_BYTES, NULL, FI_ADDR_UNSPEC,
                    &receive->request.context) != 0)
            return false;
        endpoint->posted++;
    }
    return true;
}

/* False: no memory. */
static bool hold(struct tug_ofi_queue *queue, const void *memory, size_t bytes) {
    struct tug_ofi_held *held = malloc(sizeof(*held) + bytes);
    if (held == NULL)
        return false;
    held->next = NULL;
    held->bytes = bytes;
    memcpy(held->memory, memory, bytes);
    *(queue->first == NULL ? &queue->first : queue->end) = held;
    queue->end = &held->next;
    return true;
}

static void drop(struct tug_ofi_queue *queue) {
    while (queue->first != NULL) {
        struct tug_ofi_held *held = queue->first;
        queue->first = held->next;
        free(held);
    }
}

static void be_told(struct tug_ofi_endpoint *endpoint, const struct note *note) {
    struct tug_ofi_send *send = &endpoint->sends[note->id % TUG_OFI_SENDS];
    struct tug_ofi_view *view = tug_endpoint_find(&endpoint->base, note->id);
    if (view != NULL && note->magic == GREETING)
        view->heard = true;
    if (note->magic != READ || !send->out || send->region == NULL || send->where.id != note->id)
        return;
    hide(endpoint, send);
    view = send->view;
    if (view != NULL) {
        tug_endpoint_note(&view->wire);
        view->wire.sent(view->wire.receiver, send->peer, send->buffer);
    }
    if (send->gone)
        end_send(endpoint, send);
}

static void go_on_reading(struct tug_ofi_read *read);
static void unlink_read(struct tug_ofi_read *read);

/* False: it cannot be handed up now. */
static bool hand_up(struct tug_ofi_endpoint *endpoint, const void *memory, size_t bytes) {
    const struct tug_packet_header *header = memory;
    if (bytes == sizeof(struct note))
        be_told(endpoint, memory);
    if (bytes < sizeof(*header))
        return true;
    struct tug_ofi_view *view = tug_endpoint_find(&endpoint->base, header->context);
    if (view == NULL)
        return true;
    if (!view->wire.ready)
        return hold(&view->held, memory, bytes);
    struct tug_ofi_read *read = find_read(view, header->source);
    if (read != NULL)
        return hold(&read->held, memory, bytes);
    if (view->stuck)
        return hold(&view->held, memory, bytes);
    if (header->trailer > 0 && bytes == header->bytes + sizeof(read->where) &&
        header->source < view->wire.fabric->nranks) {
        read = calloc(1, sizeof(*read));
        if (read == NULL)
            return false;
        bytes = header->bytes;
        read->request.kind = TUG_OFI_READ;
        read->view = view;
        read->source = header->source;
        read->all = header->trailer;
        memcpy(&read->where, (const char *)memory + bytes, sizeof(read->where));
        read->next = view->reads;
        view->reads = read;
    }
    tug_endpoint_note(&view->wire);
    if (!view->wire.receive(view->wire.receiver, &view->wire, memory, bytes)) {
        if (read != NULL)
            unlink_read(read);
        free(read);
        return false;
    }
    if (read != NULL)
        go_on_reading(read);
    return true;
}

/* What cannot be handed up now, for want of memory, the view holds, ahead of what it has. */
static void hand_up_held(struct tug_ofi_view *view, struct tug_ofi_queue queue) {
    while (queue.first != NULL) {
        struct tug_ofi_held *held = queue.first;
        if (view->stuck || !hand_up(view->endpoint, held->memory, held->bytes)) {
            *queue.end = view->held.first;
            if (view->held.first == NULL)
                view->held.end = queue.end;
            view->held.first = held;
            view->endpoint->nstuck += !view->stuck;
            view->stuck = true;
            return;
        }
        queue.first = held->next;
        free(held);
    }
}

static void hand_up_views(struct tug_ofi_view *view) {
    const struct tug_ofi_queue held = view->held;
    view->held.first = NULL;
    view->endpoint->nstuck -= view->stuck;
    view->stuck = false;
    hand_up_held(view, held);
}

static void become_ready(struct tug_wire *wire) {
    hand_up_views((struct tug_ofi_view *)wire);
}

/* Is there memory now for what could not be taken? */
static void hand_up_stuck(struct tug_ofi_endpoint *endpoint) {
    for (struct tug_wire *wire = endpoint->base.first; wire != NULL; wire = wire->next) {
        struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
        if (view->stuck)
            hand_up_views(view);
    }
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

/* ---- trailers ---- */

static void unlink_read(struct tug_ofi_read *read) {
    TUG_LIST_TAKE_OUT(read->view->reads, read);
    read->view->endpoint->waiting -= read->waits;
}

/* It has come whole, or never will. What has come since is handed up. */
static void end_read(struct tug_ofi_read *read, bool whole) {
    struct tug_ofi_view *view = read->view;
    unlink_read(read);
    tug_endpoint_note(&view->wire);
    view->wire.arrived(view->wire.receiver, read->source, whole);
    if (whole)
        hand_up_held(view, read->held);
    else
        drop(&read->held);
    free(read);
}

static void fail_read(struct tug_ofi_read *read, int error) {
    struct tug_ofi_view *view = read->view;
    const fi_addr_t peer = view->addresses[read->source];
    tug_log(TUG_VERBOSE_INFO, "ofi: of process %u: %s", read->source, tug_ofi.strerror(error));
    end_read(read, false);
    tell_ended(view->endpoint, peer);
}

/* Asks for what may come next. When all is there the source is told so, before it can hear of it by
 * a packet. */
static void go_on_reading(struct tug_ofi_read *read) {
    const struct tug_ofi_view *view = read->view;
    struct tug_ofi_endpoint *endpoint = view->endpoint;
    size_t room = read->all - read->come;
    void *to =
        room > 0 ? view->wire.trailer_address(view->wire.receiver, read->source, read->come, &room)
                 : NULL;
    ssize_t status;
    if (room > endpoint->info->ep_attr->max_msg_size)
        room = endpoint->info->ep_attr->max_msg_size;
    read->now = room;
    if (to != NULL)
        status = fi_read(endpoint->ep, to, room, NULL, view->addresses[read->source],
                         read->where.address + read->come, read->where.key, &read->request.context);
    else
        status = tell(view, read->source, READ, read->where.id);
    endpoint->waiting += (status == -FI_EAGAIN) - read->waits;
    read->waits = status == -FI_EAGAIN;
    if (status != 0 && !read->waits)
        fail_read(read, (int)-status);
    else if (to == NULL && !read->waits)
        end_read(read, true);
}

/* libfabric has done. */
static void take_read(struct tug_ofi_read *read, int error) {
    if (read->view == NULL) {
        free(read);
        return;
    }
    read->come += read->now;
    if (error != 0 || read->lost)
        fail_read(read, error != 0 ? error : FI_ENOTCONN);
    else
        go_on_reading(read);
}

/* One that waits may have ended when the next is looked for. */
static void wake_reads(struct tug_ofi_endpoint *endpoint) {
    for (struct tug_wire *wire = endpoint->base.first; wire != NULL; wire = wire->next)
        for (struct tug_ofi_read *read = ((struct tug_ofi_view *)wire)->reads, *next; read != NULL;
             read = next) {
            next = read->next;
            if (read->waits)
                go_on_reading(read);
        }
}

/* What the view has sent, and has not gone, is nobody's, nor what it was to read. */
static void leave(struct tug_wire *wire) {
    struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
    while (view->out > 0) /* a handler has started it while the others left: libfabric ends it */
        (void)wire->endpoint->kind->poll(wire->endpoint);
    for (uint32_t i = 0; i < TUG_OFI_SENDS; i++) {
        struct tug_ofi_send *send = &view->endpoint->sends[i];
        if (!send->out || send->view != view)
            continue;
        tug_ofi_abandon(&view->wire, send->peer);
        if (send->out)
            send->view = NULL;
    }
    while (view->reads != NULL) {
        struct tug_ofi_read *read = view->reads;
        unlink_read(read);
        read->view = NULL;
        drop(&read->held);
        if (read->waits)
            free(read);
    }
    view->endpoint->nstuck -= view->stuck;
    view->stuck = false;
    drop(&view->held);
}

/* ---- polling ---- */

/* error, 0: none. A receive that fails is posted again. */
static void complete(struct tug_ofi_endpoint *endpoint, void *context, size_t bytes, int error) {
    struct tug_ofi_request *request = context;
    struct tug_ofi_send *send = context;
    struct tug_ofi_receive *receive = context;
    if (request->kind == TUG_OFI_READ) {
        take_read(context, error);
    } else if (request->kind == TUG_OFI_OPERATION) {
        tug_ofi_job_ended(context, error);
    } else if (request->kind == TUG_OFI_RECEIVE) {
        if (error != 0)
            tug_log(TUG_VERBOSE_WARN,
                    "ofi: a packet has not come whole, and its operations may fail: %s; look at "
                    "the network, or leave ofi out of TUGBOAT_TRANSPORTS",
                    tug_ofi.strerror(error));
        receive->done = true;
        receive->bytes = bytes;
    } else if (error != 0) {
        fail_send(endpoint, send, error);
    } else {
        send->gone = true;
        if (send->region == NULL)
            end_send(endpoint, send);
    }
}

static void take_error(struct tug_ofi_endpoint *endpoint) {
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(endpoint->cq, &error, 0) == 1 && error.op_context != NULL)
        complete(endpoint, error.op_context, 0, error.err);
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

static bool poll_queue(struct tug_endpoint *base) {
    struct tug_ofi_endpoint *endpoint = (struct tug_ofi_endpoint *)base;
    struct fi_cq_msg_entry entries[ENTRIES];
    const ssize_t n = fi_cq_read(endpoint->cq, entries, ENTRIES);
    for (ssize_t i = 0; i < n; i++)
        complete(endpoint, entries[i].op_context, entries[i].len, 0);
    if (n == -FI_EAVAIL)
        take_error(endpoint);
    else if (n < 0 && n != -FI_EAGAIN)
        tug_warn_once("ofi: the provider's completion queue cannot be read, so operations of this "
                      "process may not end: leave ofi out of TUGBOAT_TRANSPORTS");
    bool moved = n > 0 || n == -FI_EAVAIL;
    moved |= end_failed(endpoint);
    moved |= tug_ofi_send_jobs(endpoint);
    if (endpoint->nstuck > 0)
        hand_up_stuck(endpoint);
    moved |= take_receives(endpoint);
    if (endpoint->waiting > 0)
        wake_reads(endpoint);
    return moved;
}

/* Contexts are armed one after the other, and polled after that: once is enough. */
bool tug_ofi_arm(void *state) {
    struct tug_ofi_endpoint *endpoint = ((struct tug_ofi_view *)state)->endpoint;
    struct fid *queue = &endpoint->cq->fid;
    if (endpoint->armed == endpoint->base.polls + 1)
        return true;
    if (endpoint->base.descriptor < 0 || endpoint->failed != NULL || endpoint->waiting > 0 ||
        endpoint->unsent != NULL || endpoint->posted < endpoint->taken + TUG_OFI_RECEIVES ||
        endpoint->nstuck > 0 || endpoint->receives[endpoint->taken % TUG_OFI_RECEIVES].done ||
        fi_trywait(endpoint->fabric, &queue, 1) != 0)
        return false;
    if (!tug_endpoint_arm(&endpoint->base))
        return false;
    endpoint->armed = endpoint->base.polls + 1;
    return true;
}

/* ---- opening and closing ---- */

static bool enter(struct tug_wire *wire) {
    struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
    for (uint32_t rank = 0; rank < wire->fabric->nranks; rank++) {
        view->addresses[rank] = tug_ofi_find(view->endpoint, &view->told[rank]);
        if (view->addresses[rank] == FI_ADDR_NOTAVAIL)
            return false;
    }
    return true;
}

static void close_wire(struct tug_wire *wire) {
    struct tug_ofi_view *view = (struct tug_ofi_view *)wire;
    free(view->addresses);
    free(view->told);
}

static void close_endpoint(struct tug_endpoint *base) {
    struct tug_ofi_endpoint *endpoint = (struct tug_ofi_endpoint *)base;
    tug_endpoint_fini(base);
    if (endpoint->claimed)
        tug_sockets_disclaim(endpoint->base.descriptor);
#define CLOSE(member)                                                                              \
    if (endpoint->member != NULL)                                                                  \
    tug_ofi_close_object(&endpoint->member->fid)
    CLOSE(copy_region);
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
    tug_ofi_free_jobs(endpoint);
    tug_table_fini(&endpoint->peers);
    free(endpoint->copy);
    free(endpoint);
}

/* With a descriptor to sleep at, if the provider has such. */
static bool open_queue(struct tug_ofi_endpoint *endpoint) {
    struct fi_cq_attr attributes = {.size = 2 * (TUG_OFI_SENDS + TUG_OFI_RECEIVES),
                                    .format = FI_CQ_FORMAT_MSG,
                                    .wait_obj = FI_WAIT_FD};
    if (fi_cq_open(endpoint->domain, &attributes, &endpoint->cq, NULL) == 0) {
        if (fi_control(&endpoint->cq->fid, FI_GETWAIT, &endpoint->base.descriptor) != 0)
            endpoint->base.descriptor = -1;
        endpoint->claimed =
            endpoint->base.descriptor >= 0 && tug_sockets_claim(endpoint->base.descriptor);
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
    if (tug_ofi_reads(endpoint)) {
        endpoint->copy = malloc(TUG_LONG_PIECE);
        if (endpoint->copy != NULL)
            endpoint->copy_region = open_trailer(endpoint, endpoint->copy, TUG_LONG_PIECE);
        if (endpoint->copy_region == NULL)
            return false;
    }
    return post_receives(endpoint);
}

static const struct tug_endpoint_kind kind = {.poll = poll_queue,
                                              .ready = become_ready,
                                              .enter = enter,
                                              .leave = leave,
                                              .close_wire = close_wire,
                                              .close = close_endpoint};

struct tug_ofi_endpoint *tug_ofi_endpoint_make(char *reason) {
    struct fi_info *info = tug_ofi_choose(!tug_settings.transports_named, reason);
    struct tug_ofi_endpoint *endpoint = info != NULL ? calloc(1, sizeof(*endpoint)) : NULL;
    if (endpoint == NULL) {
        if (info != NULL)
            tug_ofi.freeinfo(info);
        return NULL;
    }
    endpoint->info = info = tug_ofi_refine(info);
    info->tx_attr->op_flags = 0; /* what was asked for is the default of writes alone */
    tug_endpoint_init(&endpoint->base, &kind);
    for (uint32_t i = 0; i < TUG_OFI_RECEIVES; i++)
        endpoint->receives[i].memory = endpoint->memory[i];
    for (uint32_t i = 0; i < TUG_OFI_SENDS; i++) {
        endpoint->sends[i].request.kind = TUG_OFI_SEND;
        free_send(endpoint, &endpoint->sends[i]);
    }
    if (tug_random_draw(&endpoint->address.id, sizeof(endpoint->address.id)) &&
        open_objects(endpoint)) {
        tug_log(TUG_VERBOSE_INFO, "ofi: provider %s, %s, %s, %s", info->fabric_attr->prov_name,
                info->domain_attr->name,
                endpoint->base.descriptor >= 0 ? "which wakes" : "which is polled",
                !tug_ofi_operates(endpoint)     ? "for packets"
                : tug_ofi_has_atomics(endpoint) ? "with RMA and atomics"
                                                : "with RMA");
        return endpoint;
    }
    snprintf(reason, 256, "libfabric's provider %s cannot be opened", info->fabric_attr->prov_name);
    close_endpoint(&endpoint->base);
    return NULL;
}

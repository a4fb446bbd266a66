/* The endpoint: the device of a rail of this process, and what its contexts share of it.
 *
 * It is made with the first context and closed with the last. One whose device has failed is
 * replaced: contexts that are made later have a new one. Threading: see private.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "base/system_page.h"
#include "transport/verbs/origin.h"
#include "transport/verbs/private.h"
#include "transport/verbs/verbs.h"

#define LEAST_CQE 256
#define MOST_CQE 16384

/* As many completions as there can be operations of a context, and some more for their pieces and
 * for messages. What has no room waits. */
static uint32_t cq_size(uint32_t operations) {
    const uint32_t size = operations + operations / 4;
    return size < LEAST_CQE ? LEAST_CQE : size > MOST_CQE ? MOST_CQE : size;
}

/* The device spreads interrupts over its completion vectors: the node's ranks take different ones.
 * Only the first rail receives packets. */
static bool make_queues(struct tug_verbs *verbs, uint32_t operations) {
    const struct tug_verbs_device *device = &verbs->device;
    const uint32_t receives = verbs->rail > 0 ? 0
                              : device->most_receives < TUG_VERBS_RECEIVES_MOST
                                  ? device->most_receives
                                  : TUG_VERBS_RECEIVES_MOST;
    struct ibv_srq_init_attr attributes = {.attr = {.max_wr = receives, .max_sge = 1}};
    const int most = device->most_cqe - (int)receives, vectors = device->context->num_comp_vectors;
    const int vector = vectors > 0 ? (int)(device->place.node_rank % (uint32_t)vectors) : 0;
    int size = (int)cq_size(operations);
    size = size < most ? size : most;
    verbs->channel = tug_ibv.create_comp_channel(device->context);
    if (verbs->channel != NULL)
        verbs->cq =
            tug_ibv.create_cq(device->context, size + (int)receives, NULL, verbs->channel, vector);
    if (receives > 0)
        verbs->srq = tug_ibv.create_srq(device->pd, &attributes);
    verbs->most_receives = receives;
    verbs->chain = calloc(TUG_VERBS_DEPTH, sizeof *verbs->chain);
    verbs->pieces = calloc(TUG_VERBS_DEPTH, sizeof *verbs->pieces);
    verbs->joined = calloc(TUG_VERBS_DEPTH, sizeof *verbs->joined);
    verbs->cq_size = verbs->cq_room = (uint32_t)size;
    while (UINT32_C(1) << verbs->shift < operations)
        verbs->shift++;
    return verbs->cq != NULL && verbs->chain != NULL && verbs->pieces != NULL &&
           verbs->joined != NULL;
}

struct tug_verbs *tug_verbs_endpoint_make(uint32_t operations, uint32_t rail,
                                          const struct tug_verbs_place *place,
                                          struct tug_verbs_device *first, char *reason) {
    struct tug_verbs *verbs = calloc(1, sizeof *verbs);
    snprintf(reason, 256, "no memory");
    if (verbs == NULL)
        return NULL;
    tug_endpoint_init(&verbs->base, &tug_verbs_kind);
    verbs->rail = rail;
    verbs->finished.first = TUG_NO_TAG;
    bool made = tug_random_draw(&verbs->id, sizeof verbs->id) && verbs->id != 0 &&
                (rail == 0 ? tug_verbs_device_open(&verbs->device, place, reason)
                           : tug_verbs_device_open_other(&verbs->device, first, rail - 1, reason));
    if (made && !make_queues(verbs, operations)) {
        snprintf(reason, 256, "%s has no room for a completion queue", verbs->device.name);
        made = false;
    }
    const struct tug_verbs_device *device = &verbs->device;
    if (made) {
        tug_log(TUG_VERBOSE_INFO,
                "verbs: %s port %u has %u Gbit/s; GID %u, partition %u, traffic class %u",
                device->name, device->port, device->rate / 10, device->path.gid_index,
                device->path.pkey_index, device->path.traffic_class);
        return verbs;
    }
    tug_verbs_endpoint_close(&verbs->base);
    return NULL;
}

void tug_verbs_endpoint_close(struct tug_endpoint *base) {
    struct tug_verbs *verbs = (struct tug_verbs *)base;
    tug_verbs_pairs_free(verbs);
    tug_origin_close(verbs);
    tug_verbs_unwatch(verbs);
    tug_verbs_messages_close(verbs);
    if (verbs->srq != NULL)
        tug_ibv.destroy_srq(verbs->srq);
    if (verbs->cq != NULL)
        tug_ibv.destroy_cq(verbs->cq);
    if (verbs->channel != NULL)
        tug_ibv.destroy_comp_channel(verbs->channel);
    tug_verbs_device_close(&verbs->device);
    tug_endpoint_fini(base);
    free((void *)verbs->views);
    free(verbs->chain);
    free(verbs->pieces);
    free(verbs->joined);
    free(verbs);
}

/* ---- numbers of operations ---- */

bool tug_verbs_number(struct tug_verbs_view *view) {
    struct tug_verbs *verbs = view->verbs;
    uint32_t at = 0;
    while (at < verbs->nviews && verbs->views[at] != NULL)
        at++;
    if (at >= TUG_SLOT_TAG >> verbs->shift || view->wire.fabric->noperations > UINT32_C(1)
                                                                                   << verbs->shift)
        return false;
    if (at == verbs->nviews) {
        struct tug_verbs_view **views = realloc((void *)verbs->views, (at + 1) * sizeof *views);
        if (views == NULL)
            return false;
        verbs->views = views;
        verbs->nviews++;
    }
    verbs->views[at] = view;
    view->first = at << verbs->shift;
    return true;
}

void tug_verbs_number_not(struct tug_verbs_view *view) {
    view->verbs->views[view->first >> view->verbs->shift] = NULL;
}

/* ---- memory ---- */

#define REQUEST_HEAD 36 /* bytes of control, remote address, and length of the inline data */

/* A work request is its head and the inline data, in units of 64 bytes; each queue begins at a
 * page; a completion has 64 bytes: so the common devices have it. */
bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint) {
    const size_t request = (REQUEST_HEAD + TUG_VERBS_INLINE + 63) / 64 * 64,
                 page = tug_page_bytes();
    const size_t sender = TUG_VERBS_DEPTH * request, server = page;
    const size_t connected = active < tug_settings.verbs_pairs ? active : tug_settings.verbs_pairs;
    const uint32_t most = TUG_VERBS_KNOWN_MOST(tug_settings.verbs_pairs);
    const size_t known = active < most ? active : most;
    size_t capacity = 8;
    while (capacity < known)
        capacity *= 2;
    footprint->known = known;
    footprint->view = sizeof(struct tug_verbs_view);
    footprint->contacts = known * sizeof(struct tug_verbs_contact) + tug_table_footprint(known);
    footprint->kept = TUG_VERBS_KEPT;
    footprint->packet = sizeof(struct tug_buffer) + TUG_VERBS_PACKET_BYTES;
    footprint->messages =
        sizeof(struct tug_verbs_messages) + sizeof(struct tug_verbs_block) +
        TUG_VERBS_SENDS * TUG_VERBS_MESSAGE_BYTES +
        tug_verbs_receives(known) / TUG_VERBS_RECEIVES *
            (sizeof(struct tug_verbs_block) + TUG_VERBS_RECEIVES * TUG_VERBS_MESSAGE_BYTES);
    footprint->endpoint =
        sizeof(struct tug_verbs) +
        TUG_VERBS_DEPTH * (sizeof(struct ibv_send_wr) + sizeof(struct ibv_sge) + TUG_VERBS_INLINE);
    footprint->pairs = known * sizeof(struct tug_verbs_pair) +
                       connected * sizeof(struct tug_verbs_server) +
                       capacity * sizeof(struct tug_verbs_pair *) + tug_table_footprint(known) +
                       tug_table_footprint(connected);
    footprint->connected = connected;
    footprint->connection = 2 * sizeof(struct ibv_qp) + sender + server;
    footprint->completions = (size_t)(cq_size(operations) + TUG_VERBS_RECEIVES_MOST) * 64;
    return true;
}

/* The verbs transport: InfiniBand and RoCE by libibverbs.
 *
 * Reads and writes are RDMA, 8-byte atomics the device's, without the peer's processor; packets are
 * SENT. Everybody or nobody has it: open is agreed, so every process reaches every process, itself
 * included. Packets go by it where all have shared receive queues and no row before it goes to all.
 * private.h tells how the parts go together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "host/agreement.h"
#include "host/host.h"
#include "transport/verbs/private.h"
#include "transport/verbs/verbs.h"

#define LEAST_CQE 256
#define MOST_CQE 16384

static bool missing(char *reason) {
    struct tug_verbs_device device;
    if (!tug_verbs_device_open(&device, reason))
        return true;
    tug_verbs_device_close(&device);
    return false;
}

/* As many completions as there can be operations, and some more for their pieces. */
static uint32_t cq_size(uint32_t operations) {
    const uint32_t size = operations * 2;
    return size < LEAST_CQE ? LEAST_CQE : size > MOST_CQE ? MOST_CQE : size;
}

static bool open_here(struct tug_verbs *verbs, char *reason) {
    struct tug_fabric *fabric = verbs->fabric;
    if (!tug_verbs_device_open(&verbs->device, reason))
        return false;
    verbs->operations_mr =
        tug_ibv.reg_mr(verbs->device.pd, fabric->operations,
                       fabric->noperations * sizeof(struct tug_operation), IBV_ACCESS_LOCAL_WRITE);
    if (verbs->operations_mr == NULL) {
        snprintf(reason, 256, "%s cannot register memory (ulimit -l?)", verbs->device.name);
        return false;
    }
    const int receives = fabric->to_be_carried ? (int)TUG_VERBS_RECEIVES : 0;
    const int most = verbs->device.most_cqe - receives;
    int size = (int)cq_size(fabric->noperations);
    size = size < most ? size : most;
    verbs->wire = (struct tug_wire){.row = &tug_transport_verbs, .fabric = fabric};
    verbs->wire.pool.bytes = TUG_VERBS_PACKET_BYTES;
    verbs->wire.pool.keeps = TUG_VERBS_KEPT;
    verbs->channel = tug_ibv.create_comp_channel(verbs->device.context);
    if (verbs->channel != NULL)
        verbs->cq =
            tug_ibv.create_cq(verbs->device.context, size + receives, NULL, verbs->channel, 0);
    verbs->chain = calloc(TUG_VERBS_DEPTH, sizeof *verbs->chain);
    verbs->pieces = calloc(TUG_VERBS_DEPTH, sizeof *verbs->pieces);
    verbs->joined = calloc(TUG_VERBS_DEPTH, sizeof *verbs->joined);
    if (verbs->cq == NULL || verbs->chain == NULL || verbs->pieces == NULL ||
        verbs->joined == NULL) {
        snprintf(reason, 256, "%s has no room for a completion queue", verbs->device.name);
        return false;
    }
    verbs->cq_size = verbs->cq_room = (uint32_t)size;
    verbs->atomics = verbs->device.atomics;
    if (receives > 0 && tug_verbs_watch(verbs))
        (void)tug_verbs_messages_open(verbs);
    return true;
}

static void verbs_close(void *state) {
    struct tug_verbs *verbs = state;
    tug_verbs_pairs_free(verbs);
    tug_verbs_unwatch(verbs);
    tug_verbs_messages_close(verbs);
    tug_pool_fini(&verbs->wire.pool);
    if (verbs->cq != NULL)
        tug_ibv.destroy_cq(verbs->cq);
    if (verbs->channel != NULL)
        tug_ibv.destroy_comp_channel(verbs->channel);
    if (verbs->operations_mr != NULL)
        tug_ibv.dereg_mr(verbs->operations_mr);
    tug_verbs_device_close(&verbs->device);
    free(verbs->chain);
    free(verbs->pieces);
    free(verbs->joined);
    free(verbs);
}

/* All processes have a device, and on the same kind of link; atomics and messages if all have them.
 */
static bool agreed(struct tug_verbs *verbs, bool here) {
    enum { NOT_HERE, NO_ATOMICS, NO_MESSAGES, LINK, NOT_LINK, VOTES };
    const int64_t link = verbs->device.link_layer;
    int64_t votes[VOTES] = {!here, !verbs->atomics, verbs->messages == NULL, link, ~link};
    if (verbs->fabric->comm != MPI_COMM_NULL &&
        tug_agree(verbs->fabric->comm, MPI_MAX, votes, VOTES) != MPI_SUCCESS)
        return false;
    verbs->atomics = !votes[NO_ATOMICS];
    if (votes[NO_MESSAGES])
        tug_verbs_messages_close(verbs);
    return !votes[NOT_HERE] && votes[LINK] == ~votes[NOT_LINK];
}

static int verbs_open(struct tug_fabric *fabric, void **state, char *reason) {
    struct tug_verbs *verbs = calloc(1, sizeof *verbs);
    struct tug_verbs nothing = {.fabric = fabric};
    bool here = false;
    snprintf(reason, 256, "no memory");
    if (verbs != NULL) {
        verbs->fabric = fabric;
        verbs->finished = verbs->finished_tail = TUG_NO_TAG;
        here = open_here(verbs, reason);
    }
    if (!agreed(verbs != NULL ? verbs : &nothing, here)) {
        if (here)
            snprintf(reason, 256, "other processes have no such device");
        if (verbs != NULL)
            verbs_close(verbs);
        return TUG_ERR_UNSUPPORTED;
    }
    tug_log(TUG_VERBOSE_INFO, "verbs: %s port %u, %s", verbs->device.name, verbs->device.port,
            verbs->atomics ? "with atomics" : "without atomics");
    *state = verbs;
    return 0;
}

static bool verbs_atomics(const void *state) {
    const struct tug_verbs *verbs = state;
    return verbs->atomics;
}

static int verbs_register(void *state, struct tug_registration *registration) {
    const struct tug_verbs *verbs = state;
    tug_verbs_memory_register(&verbs->device, registration);
    return 0;
}

static void verbs_deregister(void *state, struct tug_registration *registration) {
    (void)state;
    tug_verbs_memory_deregister(registration);
}

static bool verbs_takes(void *state, const struct tug_operation *operation) {
    const struct tug_verbs *verbs = state;
    const struct tug_registration *registration = operation->registration;
    if (registration != NULL && registration->bytes > 0 &&
        registration->of_transport[TUG_BY_VERBS] == NULL)
        return false; /* local memory that the device does not know */
    if (operation->rkey == 0)
        return false; /* neither does the peer's know its */
    switch (operation->kind) {
    case TUG_OPERATION_READ:
    case TUG_OPERATION_WRITE:
        return true;
    case TUG_OPERATION_FETCH:
    case TUG_OPERATION_COMPARE: /* 4 bytes: see queue.c */
        return verbs->fabric->device_atomics && operation->bytes == 8 &&
               operation->address % 8 == 0;
    default:
        return false;
    }
}

static void verbs_post(void *state, struct tug_operation *operation) {
    tug_verbs_post(state, operation);
}

static void verbs_flush(void *state) {
    struct tug_verbs *verbs = state;
    if (verbs->touched != NULL)
        tug_verbs_flush(verbs, false);
}

static bool verbs_poll(void *state) {
    return tug_verbs_poll(state);
}

static bool verbs_busy(void *state) {
    const struct tug_verbs *verbs = state;
    return verbs->out > 0 || (verbs->messages != NULL && verbs->messages->used > 0);
}

static bool verbs_arm(void *state) {
    struct tug_verbs *verbs = state;
    const bool unsent = verbs->touched != NULL && verbs->cq_room > 0;
    if (verbs->finished != TUG_NO_TAG || unsent || verbs->asked_again > 0 || verbs->words > 0)
        return false;
    if (verbs->cq_room < verbs->cq_size || verbs->messages != NULL)
        return tug_watcher_sees() && ibv_req_notify_cq(verbs->cq, 0) == 0;
    return true; /* what else can come is a control message */
}

static void verbs_control(void *state, uint32_t peer, const void *data, size_t bytes) {
    struct tug_verbs *verbs = state;
    tug_verbs_pair_control(verbs, peer, data, bytes);
    if (verbs->touched != NULL)
        tug_verbs_flush(verbs, true);
}

static void verbs_lost(void *state, uint32_t peer) {
    tug_verbs_pair_gone(state, peer);
}

static bool verbs_carries(const void *state) {
    return ((const struct tug_verbs *)state)->messages != NULL;
}

/* The end of a message that is under way is reported, and so is the answer of a peer that has been
 * asked: arm() has them ring. */
static bool verbs_tells_of_room(struct tug_wire *wire, uint32_t peer) {
    const struct tug_verbs *verbs = (const struct tug_verbs *)wire;
    const struct tug_verbs_pair *pair = tug_verbs_pair_find(verbs, peer);
    return pair != NULL && (pair->met || verbs->messages->used > 0);
}

const struct tug_transport tug_transport_verbs = {
    .name = "verbs",
    .help = "InfiniBand and RoCE: RDMA and the device's atomics",
    .missing = missing,
    .open = verbs_open,
    .close = verbs_close,
    .register_memory = verbs_register,
    .deregister_memory = verbs_deregister,
    .takes = verbs_takes,
    .atomics = verbs_atomics,
    .post = verbs_post,
    .flush = verbs_flush,
    .poll = verbs_poll,
    .busy = verbs_busy,
    .arm = verbs_arm,
    .control = verbs_control,
    .lost = verbs_lost,
    .send = tug_verbs_send,
    .carries = verbs_carries,
    .wired_by_host = true,
    .tells_of_room = verbs_tells_of_room,
    .meet = tug_verbs_meet,
};

/* A work request is its control, its address and the data in line, in units of 64 bytes; each queue
 * begins at a page; a completion has 64 bytes: so the common devices have it. */
bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint) {
    const size_t request = (64 + TUG_VERBS_INLINE + 63) / 64 * 64, page = 4096;
    const size_t sender = TUG_VERBS_DEPTH * request, server = page;
    size_t capacity = 8;
    while (capacity < active)
        capacity *= 2;
    footprint->messages = sizeof(struct tug_verbs_messages) +
                          (TUG_VERBS_SENDS + TUG_VERBS_RECEIVES) * TUG_VERBS_MESSAGE_BYTES;
    footprint->kept = TUG_VERBS_KEPT;
    footprint->packet = sizeof(struct tug_buffer) + TUG_VERBS_PACKET_BYTES;
    footprint->fixed =
        sizeof(struct tug_verbs) +
        TUG_VERBS_DEPTH * (sizeof(struct ibv_send_wr) + sizeof(struct ibv_sge) + TUG_VERBS_INLINE);
    footprint->pairs = active * sizeof(struct tug_verbs_pair) +
                       capacity * (sizeof(struct tug_verbs_pair *) + 2 * sizeof(uint32_t));
    footprint->queues = active * (2 * sizeof(struct ibv_qp) + sender + server) +
                        (size_t)(cq_size(operations) + TUG_VERBS_RECEIVES) * 64;
    return true;
}

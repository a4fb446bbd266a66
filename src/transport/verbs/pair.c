/* Pairs: the table of those there are, and their connections.
 *
 * A pair is made at first contact, from either side, and found by a hash table over the peers; a
 * process that talks to few of a million others keeps only those. See private.h for senders,
 * servers and the two messages. Threading: the holder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/verbs/private.h"

#define MAGIC 0x5456
#define VERSION 1
/* 4.096 us x 2^17: half a second to an acknowledgement, six times more, then the peer is lost.
 * (Seven would mean for ever on Soft-RoCE.) */
#define ACK_TIMEOUT 17
#define ACK_RETRIES 6
#define ANSWER_NS 10000000000u
/* Where no connection could be had, it is tried again after so long. */
#define CLOSED_NS 1000000000u

enum kind { ASK = 1, ANSWER = 2, REFUSE = 3 };

/* ASK and ANSWER, as they travel. */
struct hello {
    uint16_t magic;
    uint8_t version;
    uint8_t kind;
    uint32_t number; /* of the sender; an answer repeats it */
    uint32_t qpn;
    uint32_t psn;
    uint16_t lid;
    uint8_t mtu;
    uint8_t reads; /* in an ASK: wanted at most; in an ANSWER: granted */
    uint8_t gid[16];
};

_Static_assert(sizeof(struct hello) == 36, "no holes");
_Static_assert(sizeof(struct hello) <= TUG_CONTROL_MAX, "fits a control message");

/* ---- the table ---- */

static uint32_t slot_of(const struct tug_verbs *verbs, uint32_t peer) {
    uint32_t at = (peer * 0x9e3779b1u) & (verbs->map_size - 1);
    while (verbs->map[at] != 0 && verbs->pairs[verbs->map[at] - 1]->peer != peer)
        at = (at + 1) & (verbs->map_size - 1);
    return at;
}

struct tug_verbs_pair *tug_verbs_pair_find(const struct tug_verbs *verbs, uint32_t peer) {
    if (verbs->map_size == 0)
        return NULL;
    const uint32_t index = verbs->map[slot_of(verbs, peer)];
    return index == 0 ? NULL : verbs->pairs[index - 1];
}

/* Room for one more: pairs doubles, the map is at most half full. */
static bool grow(struct tug_verbs *verbs) {
    if (verbs->npairs < verbs->pairs_capacity)
        return true;
    const uint32_t capacity = verbs->pairs_capacity == 0 ? 8 : verbs->pairs_capacity * 2;
    if (capacity > TUG_VERBS_PAIRS)
        return false;
    struct tug_verbs_pair **pairs =
        realloc(verbs->pairs, capacity * sizeof(struct tug_verbs_pair *));
    if (pairs == NULL)
        return false;
    verbs->pairs = pairs;
    uint32_t *map = calloc(capacity * 2, sizeof *map);
    if (map == NULL)
        return false;
    free(verbs->map);
    verbs->map = map;
    verbs->map_size = capacity * 2;
    verbs->pairs_capacity = capacity;
    for (uint32_t i = 0; i < verbs->npairs; i++)
        map[slot_of(verbs, pairs[i]->peer)] = i + 1;
    return true;
}

struct tug_verbs_pair *tug_verbs_pair_of(struct tug_verbs *verbs, uint32_t peer) {
    struct tug_verbs_pair *pair = tug_verbs_pair_find(verbs, peer);
    if (pair != NULL)
        return pair;
    if (!tug_verbs_watch(verbs) || !grow(verbs))
        return NULL;
    pair = calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    pair->peer = peer;
    pair->index = verbs->npairs;
    pair->head = pair->tail = TUG_NO_TAG;
    pair->message_first = pair->message_last = TUG_NO_MESSAGE;
    verbs->pairs[verbs->npairs++] = pair;
    verbs->map[slot_of(verbs, peer)] = verbs->npairs;
    return pair;
}

void tug_verbs_pairs_free(struct tug_verbs *verbs) {
    tug_verbs_drop_retired(verbs);
    for (uint32_t i = 0; i < verbs->npairs; i++) {
        struct tug_verbs_pair *pair = verbs->pairs[i];
        if (pair->sender != NULL)
            tug_ibv.destroy_qp(pair->sender);
        if (pair->server != NULL)
            tug_ibv.destroy_qp(pair->server);
        free(pair);
    }
    free(verbs->pairs);
    free(verbs->map);
}

/* ---- queue pairs ---- */

void tug_verbs_drop_retired(struct tug_verbs *verbs) {
    while (verbs->retired != NULL) {
        struct tug_verbs_retired *retired = verbs->retired;
        verbs->retired = retired->next;
        tug_ibv.destroy_qp(retired->server);
        free(retired);
    }
}

/* The server goes, once what it has received has been taken: nothing comes by it any more. */
static void retire_server(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct tug_verbs_retired *retired = verbs->messages != NULL ? malloc(sizeof *retired) : NULL;
    if (pair->server == NULL || retired == NULL ||
        tug_ibv.modify_qp(pair->server, &error, IBV_QP_STATE) != 0) {
        free(retired);
        if (pair->server != NULL)
            tug_ibv.destroy_qp(pair->server);
    } else {
        *retired = (struct tug_verbs_retired){verbs->retired, pair->server};
        verbs->retired = retired;
    }
    pair->server = NULL;
}

/* A queue pair in its initial state, or NULL. depth: of its send queue. */
static struct ibv_qp *make_queue_pair(struct tug_verbs *verbs, uint32_t depth,
                                      uint32_t *most_inline) {
    struct ibv_qp_init_attr init = {.send_cq = verbs->cq,
                                    .recv_cq = verbs->cq,
                                    .srq = verbs->messages != NULL ? verbs->messages->srq : NULL,
                                    .cap = {.max_send_wr = depth,
                                            .max_recv_wr = verbs->messages == NULL,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = *most_inline},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = tug_ibv.create_qp(verbs->device.pd, &init);
    if (qp == NULL && verbs->retired != NULL) {
        tug_verbs_drop_retired(verbs);
        qp = tug_ibv.create_qp(verbs->device.pd, &init);
    }
    if (qp == NULL && *most_inline > 0) { /* then without, whatever the device's limit is */
        init.cap.max_inline_data = 0;
        qp = tug_ibv.create_qp(verbs->device.pd, &init);
    }
    if (qp == NULL)
        return NULL;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = verbs->device.port,
                                     .qp_access_flags =
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                         IBV_ACCESS_REMOTE_WRITE |
                                         (verbs->device.atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0)};
    if (tug_ibv.modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
        0) {
        tug_ibv.destroy_qp(qp);
        return NULL;
    }
    *most_inline = init.cap.max_inline_data;
    return qp;
}

/* Joins it to the other end: ready to receive, then to send. */
static bool join(const struct tug_verbs *verbs, struct ibv_qp *qp, uint32_t psn,
                 const struct hello *peer) {
    const struct tug_verbs_device *device = &verbs->device;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = peer->mtu < device->mtu ? (enum ibv_mtu)peer->mtu : (enum ibv_mtu)device->mtu,
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = device->serves,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = peer->lid, .port_num = device->port}};
    if (device->link_layer == IBV_LINK_LAYER_ETHERNET || peer->lid == 0) {
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.hop_limit = 64;
        attributes.ah_attr.grh.sgid_index = device->gid_index;
        memcpy(attributes.ah_attr.grh.dgid.raw, peer->gid, 16);
    }
    if (tug_ibv.modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) !=
        0)
        return false;
    attributes = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                      .sq_psn = psn,
                                      .timeout = ACK_TIMEOUT,
                                      .retry_cnt = ACK_RETRIES,
                                      .rnr_retry = 7, /* for ever: who has no room is not lost */
                                      .max_rd_atomic = peer->reads < device->reads ? peer->reads
                                                                                   : device->reads};
    return tug_ibv.modify_qp(qp, &attributes,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

/* ---- the two messages ---- */

static struct hello hello_of(const struct tug_verbs *verbs, enum kind kind, uint32_t number,
                             const struct ibv_qp *qp, uint32_t psn) {
    struct hello hello = {.magic = MAGIC,
                          .version = VERSION,
                          .kind = (uint8_t)kind,
                          .number = number,
                          .qpn = qp != NULL ? qp->qp_num : 0,
                          .psn = psn,
                          .lid = verbs->device.lid,
                          .mtu = verbs->device.mtu,
                          .reads = kind == ASK ? verbs->device.reads : verbs->device.serves};
    memcpy(hello.gid, verbs->device.gid.raw, 16);
    return hello;
}

/* Makes the server that the peer asks for, in the place of an older one. */
static struct hello serve(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                          const struct hello *ask) {
    retire_server(verbs, pair);
    uint32_t no_inline = 0, psn = ++verbs->numbers * 0x9e3779b1u >> 8;
    pair->server = make_queue_pair(verbs, 1, &no_inline);
    if (pair->server != NULL && !join(verbs, pair->server, psn, ask)) {
        tug_ibv.destroy_qp(pair->server);
        pair->server = NULL;
    }
    if (pair->server == NULL)
        tug_warn_once(
            "verbs: %s has no connection left for what rank %u asks for, so its work takes other "
            "ways, more slowly: fewer ranks a node, or leave verbs out of TUGBOAT_TRANSPORTS",
            verbs->device.name, pair->peer);
    return hello_of(verbs, pair->server != NULL ? ANSWER : REFUSE, ask->number, pair->server, psn);
}

static void forget_deadline(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (pair->deadline_ns != 0)
        verbs->asked_again--;
    pair->deadline_ns = 0;
}

/* No connection can be had: the work takes the next row. */
static void close_pair(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    pair->closed_ns = tug_clock_ns() + CLOSED_NS;
    tug_verbs_pass_waiting(verbs, pair);
    tug_verbs_messages_drop(verbs, pair);
}

static void answered(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                     const struct hello *answer) {
    if (pair->phase != TUG_PAIR_ASKED || answer->number != pair->number)
        return; /* to a sender that is gone */
    forget_deadline(verbs, pair);
    if (answer->kind == ANSWER && join(verbs, pair->sender, pair->psn, answer)) {
        pair->phase = TUG_PAIR_UP;
        pair->lost = false;
        if (pair->met)
            tug_verbs_say(verbs, pair, TUG_WORD_LEADS);
        tug_verbs_touch(verbs, pair);
        return;
    }
    tug_warn_once("verbs: rank %u refuses a connection, so work for it takes other ways, more "
                  "slowly: its own lines say why",
                  pair->peer);
    tug_verbs_pair_drop_sender(verbs, pair);
    close_pair(verbs, pair);
}

void tug_verbs_pair_connect(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    uint32_t most_inline = TUG_VERBS_INLINE;
    if (pair->gone) {
        tug_verbs_fail_waiting(verbs, pair, TUG_ERR_PEER);
        tug_verbs_messages_drop(verbs, pair);
        return;
    }
    pair->sender = make_queue_pair(verbs, TUG_VERBS_DEPTH, &most_inline);
    if (pair->sender == NULL) {
        tug_warn_once(
            "verbs: %s has no connection left to rank %u, so work for it takes other ways, more "
            "slowly: fewer ranks a node, or leave verbs out of TUGBOAT_TRANSPORTS",
            verbs->device.name, pair->peer);
        close_pair(verbs, pair);
        return;
    }
    pair->most_inline = most_inline;
    pair->number = ++verbs->numbers;
    pair->psn = pair->number * 0x9e3779b1u >> 8; /* 24 bits */
    pair->phase = TUG_PAIR_ASKED;
    pair->sent = pair->done = 0;
    if (pair->lost) {
        pair->deadline_ns = tug_clock_ns() + ANSWER_NS;
        verbs->asked_again++;
    }
    struct hello ask = hello_of(verbs, ASK, pair->number, pair->sender, pair->psn);
    if (pair->peer == verbs->fabric->rank) {
        struct hello answer = serve(verbs, pair, &ask);
        answered(verbs, pair, &answer);
        return;
    }
    if (tug_fabric_control(verbs->fabric, pair->peer, TUG_BY_VERBS, &ask, sizeof ask) == 0)
        return;
    tug_verbs_pair_drop_sender(verbs, pair); /* the peer cannot be asked; the next row tells why */
    close_pair(verbs, pair);
}

void tug_verbs_pair_control(struct tug_verbs *verbs, uint32_t peer, const void *data,
                            size_t bytes) {
    struct hello hello;
    if (bytes != sizeof hello || peer >= verbs->fabric->nranks) {
        tug_warn_once("verbs: a message of %zu bytes from rank %u is not of this version, and is "
                      "dropped: run the same version of the library on all ranks",
                      bytes, peer);
        return;
    }
    memcpy(&hello, data, sizeof hello);
    if (hello.magic != MAGIC || hello.version != VERSION || hello.kind < ASK ||
        hello.kind > REFUSE) {
        tug_warn_once("verbs: a message from rank %u is not of this version, and is dropped: run "
                      "the same version of the library on all ranks",
                      peer);
        return;
    }
    if (hello.kind == ASK) {
        struct tug_verbs_pair *pair = tug_verbs_pair_of(verbs, peer);
        struct hello answer = pair != NULL ? serve(verbs, pair, &hello)
                                           : hello_of(verbs, REFUSE, hello.number, NULL, 0);
        tug_fabric_control(verbs->fabric, peer, TUG_BY_VERBS, &answer, sizeof answer);
        return;
    }
    struct tug_verbs_pair *pair = tug_verbs_pair_find(verbs, peer);
    if (pair != NULL)
        answered(verbs, pair, &hello);
}

void tug_verbs_pair_drop_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    forget_deadline(verbs, pair);
    if (pair->sender != NULL)
        tug_ibv.destroy_qp(pair->sender);
    pair->sender = NULL;
    pair->phase = TUG_PAIR_IDLE;
    verbs->cq_room += pair->sent - pair->done;
    pair->sent = pair->done = 0;
}

void tug_verbs_pair_gone(struct tug_verbs *verbs, uint32_t peer) {
    struct tug_verbs_pair *pair = tug_verbs_pair_of(verbs, peer);
    if (pair == NULL)
        return;
    pair->gone = true;
    if (pair->phase != TUG_PAIR_ASKED)
        return;
    tug_verbs_pair_drop_sender(verbs, pair);
    tug_verbs_fail_waiting(verbs, pair, TUG_ERR_PEER);
    tug_verbs_messages_drop(verbs, pair);
}

bool tug_verbs_pairs_expire(struct tug_verbs *verbs) {
    if (verbs->asked_again == 0)
        return false;
    const uint64_t now = tug_clock_ns();
    bool any = false;
    for (uint32_t i = 0; i < verbs->npairs; i++) {
        struct tug_verbs_pair *pair = verbs->pairs[i];
        if (pair->deadline_ns == 0 || now < pair->deadline_ns)
            continue;
        tug_verbs_pair_drop_sender(verbs, pair);
        tug_verbs_fail_waiting(verbs, pair, TUG_ERR_PEER);
        tug_verbs_messages_drop(verbs, pair);
        any = true;
    }
    return any;
}

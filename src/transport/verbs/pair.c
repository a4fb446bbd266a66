/* Pairs: what there is of them, and their connections.
 *
 * A pair is made at first contact, from either side; a process that talks to few of a million
 * others keeps only those. See private.h for senders, servers and messages. Threading: the holder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/verbs/private.h"

#define MAGIC 0x54
#define VERSION 7
/* So often a request is sent again, then the connection has failed. (Seven would mean for ever on
 * Soft-RoCE.) */
#define ACK_RETRIES 6
#define ANSWER_NS 10000000000u
/* After so long without the device's report a server takes no receives any more. */
#define DRAIN_NS 100000000u
/* Where no connection could be had, it is tried again after so long. */
#define CLOSED_NS 1000000000u

enum kind { ASK = 1, ANSWER, REFUSE, WHO, IAM, CLOSED, CLOSE, MOVE, MOVED };

/* All messages, as they travel. */
struct hello {
    uint8_t magic;
    uint8_t version;
    uint8_t kind;
    uint8_t rail;    /* the same on both sides */
    uint32_t number; /* of the sender, in all but WHO and IAM; an answer, and MOVED, repeats it */
    uint64_t id;     /* of the process that says it, on that rail */
    uint32_t qpn;
    uint32_t psn;
    uint32_t last;  /* in an ANSWER and a MOVED: the number of the last message taken */
    uint32_t first; /* in an ASK: the number of the next message; in a MOVED: packets taken */
    uint16_t lid;
    uint8_t mtu;
    uint8_t reads; /* in an ASK: wanted at most; in an ANSWER: granted */
    uint8_t gid[16];
    uint32_t anew; /* in an ASK: 1: the asker's first sender: its message numbers begin at 1 */
    uint32_t rank; /* in a MOVE and a MOVED: the sender's rank in `context` */
    uint32_t unused;
    uint64_t context; /* in a MOVE and a MOVED: the id of the context whose packets move */
};

_Static_assert(sizeof(struct hello) == 72, "no holes");
_Static_assert(sizeof(struct hello) <= TUG_CONTROL_MAX, "fits a control message");

/* ---- the table ---- */

/* Room for one more. */
static bool grow(struct tug_verbs *verbs) {
    if (verbs->npairs < verbs->pairs_capacity)
        return true;
    const uint32_t capacity = verbs->pairs_capacity == 0 ? 8 : verbs->pairs_capacity * 2;
    if (capacity > TUG_VERBS_INDICES)
        return false;
    struct tug_verbs_pair **pairs =
        realloc(verbs->pairs, capacity * sizeof(struct tug_verbs_pair *));
    if (pairs == NULL)
        return false;
    verbs->pairs = pairs;
    verbs->pairs_capacity = capacity;
    return true;
}

struct tug_verbs_pair *tug_verbs_pair_make(struct tug_verbs *verbs) {
    struct tug_verbs_pair *pair = verbs->spare;
    if (pair != NULL) {
        verbs->spare = pair->next_touched;
        verbs->nspare--;
    } else {
        pair = grow(verbs) ? malloc(sizeof *pair) : NULL;
        if (pair == NULL)
            return NULL;
        pair->index = verbs->npairs;
        verbs->pairs[verbs->npairs++] = pair;
    }
    *pair = (struct tug_verbs_pair){.index = pair->index,
                                    .fresh = true,
                                    .blank = true,
                                    .closed = true,
                                    .operations = {TUG_NO_TAG, TUG_NO_TAG},
                                    .message_first = TUG_NO_MESSAGE,
                                    .message_last = TUG_NO_MESSAGE};
    return pair;
}

/* No message has gone yet by a pair without id, since its peer has not been heard of. */
void tug_verbs_pair_join(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                         struct tug_verbs_pair *into) {
    struct tug_verbs_pair **at = &verbs->touched;
    tug_verbs_pair_drop_sender(verbs, pair);
    while (pair->touched && *at != pair)
        at = &(*at)->next_touched;
    if (pair->touched)
        *at = pair->next_touched;
    if (into != NULL) {
        tug_verbs_wait_with(verbs, pair, into);
        tug_verbs_touch(verbs, into);
    }
    pair->touched = false;
    pair->next_touched = verbs->spare;
    verbs->spare = pair;
    verbs->nspare++;
}

/* ---- queue pairs ---- */

/* What it has received has been taken. */
static void destroy_server(struct tug_verbs *verbs, struct tug_verbs_server *server) {
    if (server->restarts)
        server->pair->received = server->first - 1;
    tug_table_remove(&verbs->servers, server->qp->qp_num);
    tug_ibv.destroy_qp(server->qp);
    free(server);
}

bool tug_verbs_drop_retired(struct tug_verbs *verbs) {
    struct tug_verbs_server **at = &verbs->retired, *server;
    bool done = true;
    if (verbs->messages != NULL && verbs->messages->nheld > 0)
        return true; /* they may be by one of these */
    while ((server = *at) != NULL) {
        if (server->seen) {
            *at = server->next;
            server->pair->retired--;
            destroy_server(verbs, server);
            continue;
        }
        /* seq_cst: pairs with the watcher's store; the next look at the queue finds all that the
         * device has put there before its report */
        server->seen = atomic_load(&server->reported) || tug_clock_ns() > server->until_ns;
        done &= !server->seen;
        at = &server->next;
    }
    return done;
}

/* The server goes, once what it has received has been taken: nothing comes by it any more. */
static void retire_server(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct tug_verbs_server *server = pair->server;
    if (server == NULL)
        return;
    if (verbs->messages == NULL || tug_ibv.modify_qp(server->qp, &error, IBV_QP_STATE) != 0) {
        destroy_server(verbs, server);
    } else {
        server->until_ns = tug_clock_ns() + DRAIN_NS;
        server->next = verbs->retired;
        verbs->retired = server;
        pair->retired++;
    }
    pair->server = NULL;
    verbs->nservers--;
}

void tug_verbs_pairs_free(struct tug_verbs *verbs) {
    for (struct tug_verbs_server *server = verbs->retired, *next; server != NULL; server = next) {
        next = server->next;
        destroy_server(verbs, server);
    }
    for (uint32_t i = 0; i < verbs->npairs; i++) {
        struct tug_verbs_pair *pair = verbs->pairs[i];
        if (pair->sender != NULL)
            tug_ibv.destroy_qp(pair->sender);
        if (pair->server != NULL)
            destroy_server(verbs, pair->server);
        free(pair);
    }
    free(verbs->pairs);
    tug_table_fini(&verbs->ids);
    tug_table_fini(&verbs->servers);
}

/* A queue pair in its initial state, or NULL. server: it is one; NULL: a sender. */
static struct ibv_qp *make_queue_pair(struct tug_verbs *verbs, struct tug_verbs_server *server,
                                      uint32_t *most_inline) {
    struct ibv_qp_init_attr init = {.qp_context = server,
                                    .send_cq = verbs->cq,
                                    .recv_cq = verbs->cq,
                                    .srq = verbs->srq,
                                    .cap = {.max_send_wr = server != NULL ? 1 : TUG_VERBS_DEPTH,
                                            .max_recv_wr = verbs->srq == NULL,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = *most_inline},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = tug_ibv.create_qp(verbs->device.pd, &init);
    if (qp == NULL) { /* somebody else may have more use for one that nobody needs now */
        tug_verbs_pairs_shed(verbs, verbs->nsenders > 0 ? verbs->nsenders - 1 : 0);
        qp = tug_ibv.create_qp(verbs->device.pd, &init);
    }
    if (qp == NULL && *most_inline > 0) { /* then without, whatever the device's limit is */
        init.cap.max_inline_data = 0;
        qp = tug_ibv.create_qp(verbs->device.pd, &init);
    }
    if (qp == NULL)
        return NULL;
    /* seq_cst: pairs with the watcher's store; a port that is not up yet is read the next time */
    if (atomic_exchange(&verbs->port_changed, false) && !tug_verbs_device_read_path(&verbs->device))
        atomic_store(&verbs->port_changed, true);
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .pkey_index = verbs->device.path.pkey_index,
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

/* As libibverbs has it: 4.096 us x 2^n. */
static uint8_t ack_timeout(void) {
    const uint64_t ns = tug_settings.verbs_timeout_ms * 1000000;
    uint8_t n = 1;
    while (n < 31 && UINT64_C(4096) << n < ns)
        n++;
    return n;
}

/* Is the peer's port on another subnet, as far as both have a GID? */
static bool is_far(const struct tug_verbs_path *path, const struct hello *peer) {
    static const unsigned char none[8];
    return memcmp(path->gid.raw, peer->gid, 8) != 0 && memcmp(path->gid.raw, none, 8) != 0 &&
           memcmp(peer->gid, none, 8) != 0;
}

/* Joins it to the other end: ready to receive, then to send. */
static bool join(const struct tug_verbs *verbs, struct ibv_qp *qp, uint32_t psn,
                 const struct hello *peer) {
    const struct tug_verbs_device *device = &verbs->device;
    const struct tug_verbs_path *path = &device->path;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)(peer->mtu < path->mtu ? peer->mtu : path->mtu),
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = device->serves,
        .min_rnr_timer = 1, /* 10 us */
        .ah_attr = {.dlid = peer->lid,
                    .sl = path->sl,
                    .src_path_bits = path->bits,
                    .port_num = device->port}};
    if (device->link_layer == IBV_LINK_LAYER_ETHERNET || peer->lid == 0 || is_far(path, peer)) {
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.hop_limit = 64;
        attributes.ah_attr.grh.sgid_index = path->gid_index;
        attributes.ah_attr.grh.traffic_class = path->traffic_class;
        memcpy(attributes.ah_attr.grh.dgid.raw, peer->gid, 16);
    }
    if (tug_ibv.modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) !=
        0)
        return false;
    attributes = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                      .sq_psn = psn,
                                      .timeout = ack_timeout(),
                                      .retry_cnt = ACK_RETRIES,
                                      .rnr_retry = 7, /* for ever: who has no room is not lost */
                                      .max_rd_atomic = peer->reads < device->reads ? peer->reads
                                                                                   : device->reads};
    return tug_ibv.modify_qp(qp, &attributes,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

/* ---- messages ---- */

static struct hello hello_of(const struct tug_verbs *verbs, enum kind kind, uint32_t number,
                             const struct ibv_qp *qp, uint32_t psn) {
    struct hello hello = {.magic = MAGIC,
                          .version = VERSION,
                          .kind = (uint8_t)kind,
                          .rail = (uint8_t)verbs->rail,
                          .number = number,
                          .id = verbs->id,
                          .qpn = qp != NULL ? qp->qp_num : 0,
                          .psn = psn,
                          .lid = verbs->device.path.lid,
                          .mtu = verbs->device.path.mtu,
                          .reads = kind == ASK ? verbs->device.reads : verbs->device.serves};
    memcpy(hello.gid, verbs->device.path.gid.raw, 16);
    return hello;
}

static bool say(const struct tug_verbs_contact *contact, const struct hello *hello) {
    return tug_fabric_control(contact->view->wire.fabric, contact->rank, TUG_BY_VERBS, hello,
                              sizeof *hello) == 0;
}

static bool say_only(const struct tug_verbs_contact *contact, enum kind kind, uint32_t number) {
    const struct hello hello = hello_of(contact->view->verbs, kind, number, NULL, 0);
    return say(contact, &hello);
}

/* Sends a MOVE or MOVED about the contact's context. The peer may poll that context only while it
 * has jobs, so any other context shared with the peer carries the message, if there is one. */
static bool say_of_packets(const struct tug_verbs_contact *contact, struct hello *hello) {
    const struct tug_fabric *fabric = contact->view->wire.fabric;
    const struct tug_verbs_contact *by = tug_verbs_contact_open(contact->pair);
    hello->context = fabric->id;
    hello->rank = fabric->rank;
    return say(by != NULL && contact->view->verbs->rail == 0 ? by : contact, hello);
}

/* ---- closing what is least used ---- */

/* Nothing is under way to the peer, nor waits, nor is about to. */
static bool is_idle(const struct tug_verbs_pair *pair) {
    return pair->phase == TUG_PAIR_UP && pair->sent == pair->done &&
           pair->operations.first == TUG_NO_TAG && pair->messages == 0;
}

/* The peer takes what it has received and drops its server. One that cannot be told keeps it until
 * it is asked again. */
static void close_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    const struct tug_verbs_contact *contact = tug_verbs_contact_open(pair);
    const uint32_t number = pair->number;
    tug_verbs_pair_drop_sender(verbs, pair);
    if (pair->id == verbs->id)
        retire_server(verbs, pair);
    else if (contact != NULL)
        (void)say_only(contact, CLOSED, number);
}

void tug_verbs_pairs_shed(struct tug_verbs *verbs, uint32_t most) {
    while (verbs->nsenders > most) {
        struct tug_verbs_pair *least = NULL;
        for (uint32_t i = 0; i < verbs->npairs; i++) {
            struct tug_verbs_pair *pair = verbs->pairs[i];
            if (is_idle(pair) && (least == NULL || pair->used < least->used))
                least = pair;
        }
        if (least == NULL)
            return; /* all are in use: there are more for a while */
        close_sender(verbs, least);
    }
}

/* There are too many servers: the peer of which nothing has been heard for longest is told. */
static void shed_server(struct tug_verbs *verbs, const struct tug_verbs_pair *but) {
    struct tug_verbs_pair *least = NULL;
    for (uint32_t i = 0; i < verbs->npairs; i++) {
        struct tug_verbs_pair *pair = verbs->pairs[i];
        if (pair->server != NULL && pair != but && !pair->told && pair->id != verbs->id &&
            tug_verbs_contact_open(pair) != NULL && (least == NULL || pair->heard < least->heard))
            least = pair;
    }
    if (least != NULL)
        least->told = say_only(tug_verbs_contact_open(least), CLOSE, least->served);
}

/* ---- forgetting ---- */

static bool is_at_rest(const struct tug_verbs_contact *contact) {
    return contact->word == TUG_WORD_NONE && !contact->met && !contact->gone && !contact->moving &&
           contact->due == 0;
}

/* May the pair be freed? A new connection brings all that it knows. */
static bool can_forget(const struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (pair->id == 0 || pair->id == verbs->id || pair->sender != NULL || pair->server != NULL ||
        pair->retired > 0 || !pair->closed || pair->touched ||
        pair->operations.first != TUG_NO_TAG || pair->messages > 0 || tug_verbs_pair_closed(pair) ||
        pair->lost || pair->failed > 0)
        return false;
    const struct tug_verbs_contact *contact = pair->contacts;
    while (contact != NULL && is_at_rest(contact))
        contact = contact->next;
    return contact == NULL;
}

static void forget(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    while (pair->contacts != NULL) {
        struct tug_verbs_contact *contact = pair->contacts;
        pair->contacts = contact->next;
        tug_table_remove(&contact->view->contacts, contact->rank);
        free(contact);
    }
    tug_table_remove(&verbs->ids, pair->id);
    tug_verbs_pair_join(verbs, pair, NULL);
}

void tug_verbs_pairs_forget(struct tug_verbs *verbs) {
    const uint32_t least = TUG_VERBS_KNOWN(tug_settings.verbs_pairs);
    if (verbs->npairs - verbs->nspare <= (verbs->forget_at > least ? verbs->forget_at : least))
        return;
    for (uint32_t i = 0; i < verbs->npairs; i++)
        if (can_forget(verbs, verbs->pairs[i]))
            forget(verbs, verbs->pairs[i]);
    verbs->forget_at = verbs->npairs - verbs->nspare + (uint32_t)tug_settings.verbs_pairs / 2;
}

/* ---- connecting ---- */

/* The number of a queue pair's first packet: an outsider's packets do not fit in. */
static uint32_t draw_psn(uint32_t otherwise) {
    uint32_t psn;
    return (tug_random_draw(&psn, sizeof psn) ? psn : otherwise) & 0xffffff;
}

/* A server that is ready, or NULL. */
static struct tug_verbs_server *make_server(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                                            const struct hello *ask, uint32_t psn) {
    uint32_t no_inline = 0;
    struct tug_verbs_server *server = calloc(1, sizeof *server);
    if (server != NULL)
        server->qp = make_queue_pair(verbs, server, &no_inline);
    if (server == NULL || server->qp == NULL) {
        free(server);
        return NULL;
    }
    tug_table_remove(&verbs->servers, server->qp->qp_num);
    server->pair = pair;
    if (join(verbs, server->qp, psn, ask) &&
        tug_table_add(&verbs->servers, server->qp->qp_num, server)) {
        server->first = ask->first;
        server->restarts = ask->anew != 0 || pair->blank;
        pair->blank = pair->closed = false;
        return server;
    }
    destroy_server(verbs, server);
    return NULL;
}

/* Makes the server that the peer asks for, in the place of an older one. */
static void serve(struct tug_verbs *verbs, struct tug_verbs_pair *pair, const struct hello *ask) {
    retire_server(verbs, pair);
    pair->server_psn = draw_psn(++verbs->numbers);
    pair->served = ask->number;
    pair->told = false;
    pair->heard = ++verbs->uses;
    pair->server = make_server(verbs, pair, ask, pair->server_psn);
    if (pair->server == NULL)
        tug_warn_once(
            "verbs: %s has no connection left for what rank %u asks for, so its work takes other "
            "ways, more slowly: fewer ranks a node, or leave verbs out of TUGBOAT_TRANSPORTS",
            verbs->device.name, tug_verbs_rank(pair));
    else if (++verbs->nservers > tug_settings.verbs_pairs)
        shed_server(verbs, pair);
    if (verbs->messages != NULL)
        (void)tug_verbs_messages_expect(verbs, verbs->nservers);
}

/* The number of the last message taken, in the numbering that the peer uses now. */
static uint32_t last_taken(const struct tug_verbs_pair *pair) {
    const struct tug_verbs_server *server = pair->server;
    return server != NULL && server->restarts ? server->first - 1 : pair->received;
}

/* What the peer is told then. */
static struct hello answer_of(const struct tug_verbs *verbs, const struct tug_verbs_pair *pair) {
    const bool served = pair->server != NULL;
    struct hello answer = hello_of(verbs, served ? ANSWER : REFUSE, pair->served,
                                   served ? pair->server->qp : NULL, pair->server_psn);
    answer.last = last_taken(pair);
    return answer;
}

static void forget_deadline(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (pair->deadline_ns != 0)
        verbs->asked_again--;
    pair->deadline_ns = 0;
}

/* ---- moving ---- */

/* Nobody can be asked. */
static void give_up(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    for (struct tug_verbs_contact *contact = pair->contacts; contact; contact = contact->next)
        contact->moving = false;
    pair->moving = 0;
    forget_deadline(verbs, pair);
    tug_verbs_fail_waiting(verbs, pair, TUG_ERR_PEER);
    tug_verbs_messages_drop(verbs, pair);
}

/* A peer that was lost before must answer in time. */
static void set_deadline(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (!pair->lost || pair->deadline_ns != 0)
        return;
    pair->deadline_ns = tug_clock_ns() + ANSWER_NS;
    verbs->asked_again++;
}

static bool say_move(const struct tug_verbs_contact *contact) {
    struct hello move = hello_of(contact->view->verbs, MOVE, contact->pair->number, NULL, 0);
    return say_of_packets(contact, &move);
}

static void ask_to_move(struct tug_verbs *verbs, struct tug_verbs_contact *contact) {
    struct tug_verbs_pair *pair = contact->pair;
    if (pair->number == 0) /* it has had no sender since it was forgotten */
        pair->number = ++verbs->numbers;
    contact->moving = say_move(contact);
    pair->moving += contact->moving;
}

/* Has no message been given to the pair? Then there is nothing to move. */
static bool is_untouched(const struct tug_verbs_pair *pair) {
    const struct tug_verbs_contact *contact = pair->contacts;
    while (contact != NULL && !contact->leads)
        contact = contact->next;
    return pair->fresh && contact == NULL;
}

void tug_verbs_pair_move(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint64_t until_ns) {
    pair->closed_ns = until_ns;
    if (pair->moving > 0)
        return;
    if (is_untouched(pair)) {
        tug_verbs_pass_waiting(verbs, pair);
        tug_verbs_messages_drop(verbs, pair);
        return;
    }
    tug_verbs_say_all(pair, TUG_WORD_LEADS_NOT);
    for (struct tug_verbs_contact *contact = pair->contacts; contact; contact = contact->next)
        if (contact->leads && !contact->gone)
            ask_to_move(verbs, contact);
    struct tug_verbs_contact *other = tug_verbs_contact_open(pair);
    if (pair->moving == 0 && pair->operations.first != TUG_NO_TAG && other != NULL)
        ask_to_move(verbs, other);
    if (pair->moving > 0)
        set_deadline(verbs, pair);
    else
        give_up(verbs, pair);
}

void tug_verbs_pair_move_again(struct tug_verbs_pair *pair) {
    for (struct tug_verbs_contact *contact = pair->contacts; contact; contact = contact->next)
        if (contact->moving && !say_move(contact))
            tug_verbs_contact_moved(contact);
}

/* What is left of its messages is of contexts that could not be asked. */
void tug_verbs_contact_moved(struct tug_verbs_contact *contact) {
    struct tug_verbs_pair *pair = contact->pair;
    struct tug_verbs *verbs = contact->view->verbs;
    if (!contact->moving)
        return;
    contact->moving = false;
    if (--pair->moving > 0)
        return;
    forget_deadline(verbs, pair);
    tug_verbs_pass_waiting(verbs, pair);
    tug_verbs_messages_drop(verbs, pair);
}

/* The peer has taken what has come and drops what comes by the old sender: operations go, and the
 * packets of that context when its side has been told. */
static void moved(struct tug_verbs *verbs, struct tug_verbs_contact *contact,
                  const struct hello *answer) {
    if (!contact->moving || answer->number != contact->pair->number)
        return;
    contact->pair->lost = false;
    contact->taken = answer->first;
    tug_verbs_say(contact, TUG_WORD_MOVES);
    tug_verbs_received(verbs, contact->pair, answer->last);
    tug_verbs_pass_waiting(verbs, contact->pair);
}

static void owe(struct tug_verbs_contact *contact, enum kind due) {
    contact->view->verbs->untold += contact->due == 0;
    contact->due = (uint8_t)due;
}

/* The peer's sender is gone: its server goes too. */
static void yield(struct tug_verbs *verbs, struct tug_verbs_contact *contact,
                  const struct hello *move) {
    struct tug_verbs_pair *pair = contact->pair;
    if (pair->served != 0 && (int32_t)(move->number - pair->served) < 0)
        return; /* it has asked anew since */
    pair->served = move->number;
    retire_server(verbs, pair);
    pair->closed = true;
    owe(contact, MOVED);
}

/* Without memory for a MOVED it is tried again. */
void tug_verbs_tell_due(struct tug_verbs_contact *contact) {
    struct tug_verbs *verbs = contact->view->verbs;
    const struct tug_wire *wire = &contact->view->wire;
    struct hello answer;
    if (contact->due == ANSWER) {
        answer = answer_of(verbs, contact->pair);
        (void)say(contact, &answer);
    } else {
        answer = hello_of(verbs, MOVED, contact->pair->served, NULL, 0);
        answer.last = last_taken(contact->pair);
        answer.first = wire->yields != NULL ? wire->yields(wire->receiver, contact->rank) : 0;
        if (!say_of_packets(contact, &answer) && !contact->gone)
            return;
    }
    contact->due = 0;
    verbs->untold--;
}

/* No connection can be had: the work takes the next row. */
static void close_pair(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    tug_verbs_pair_move(verbs, pair, tug_clock_ns() + CLOSED_NS);
}

/* ---- answers ---- */

static void answered(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                     const struct hello *answer) {
    if (answer->kind == IAM || pair->phase != TUG_PAIR_ASKED || answer->number != pair->number)
        return; /* or to a sender that is gone */
    forget_deadline(verbs, pair);
    if (answer->kind == ANSWER && join(verbs, pair->sender, pair->psn, answer)) {
        pair->phase = TUG_PAIR_UP;
        pair->fresh = false;
        pair->lost = false;
        tug_verbs_received(verbs, pair, answer->last);
        tug_verbs_say_all(pair, TUG_WORD_LEADS);
        tug_verbs_touch(verbs, pair);
        return;
    }
    tug_warn_once("verbs: rank %u refuses a connection, so work for it takes other ways, more "
                  "slowly: its own lines say why",
                  tug_verbs_rank(pair));
    tug_verbs_pair_drop_sender(verbs, pair);
    close_pair(verbs, pair);
}

/* The number of the first message that goes by the next sender. */
static uint32_t first_of(const struct tug_verbs *verbs, const struct tug_verbs_pair *pair) {
    return tug_verbs_message_waits(pair)
               ? tug_verbs_slot(verbs->messages, pair->message_first)->number
               : pair->numbered + 1;
}

/* False: no queue pair can be had. */
static bool make_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    uint32_t most_inline = TUG_VERBS_INLINE;
    tug_verbs_pairs_shed(verbs, (uint32_t)tug_settings.verbs_pairs - 1);
    pair->sender = make_queue_pair(verbs, NULL, &most_inline);
    if (pair->sender == NULL)
        return false;
    verbs->nsenders++;
    pair->most_inline = most_inline;
    pair->number = ++verbs->numbers;
    pair->psn = draw_psn(pair->number);
    pair->phase = TUG_PAIR_ASKED;
    pair->sent = pair->done = 0;
    pair->used = ++verbs->uses;
    set_deadline(verbs, pair);
    return true;
}

void tug_verbs_pair_connect(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    struct tug_verbs_contact *contact = tug_verbs_contact_open(pair);
    if (contact == NULL) {
        give_up(verbs, pair);
        return;
    }
    if (tug_verbs_contact_may_be_known(contact)) {
        if (!contact->asked)
            contact->asked = say_only(contact, WHO, 0);
        if (!contact->asked)
            close_pair(verbs, pair);
        return;
    }
    if (!make_sender(verbs, pair)) {
        tug_warn_once(
            "verbs: %s has no connection left to rank %u, so work for it takes other ways, more "
            "slowly: fewer ranks a node, or leave verbs out of TUGBOAT_TRANSPORTS",
            verbs->device.name, contact->rank);
        close_pair(verbs, pair);
        return;
    }
    struct hello ask = hello_of(verbs, ASK, pair->number, pair->sender, pair->psn);
    ask.first = first_of(verbs, pair);
    ask.anew = pair->fresh;
    pair->asker = contact;
    if (pair->id == verbs->id) {
        serve(verbs, pair, &ask);
        const struct hello answer = answer_of(verbs, pair);
        answered(verbs, pair, &answer);
        return;
    }
    if (say(contact, &ask))
        return;
    tug_verbs_pair_drop_sender(verbs, pair); /* the peer cannot be asked; the next row tells why */
    close_pair(verbs, pair);
}

static bool is_hello(const struct tug_verbs_view *view, uint32_t peer, const void *data,
                     size_t bytes, struct hello *hello) {
    if (bytes == sizeof *hello && peer < view->wire.fabric->nranks) {
        memcpy(hello, data, sizeof *hello);
        if (hello->magic == MAGIC && hello->version == VERSION && hello->kind >= ASK &&
            hello->kind <= MOVED && hello->rail < view->nrails)
            return true;
    }
    tug_warn_once("verbs: a message from rank %u is not of this version, and is dropped: run "
                  "the same version of the library on all ranks",
                  peer);
    return false;
}

/* A question older than the last one is of a sender that is gone. */
static void asked(struct tug_verbs *verbs, struct tug_verbs_contact *contact,
                  const struct hello *ask) {
    struct tug_verbs_pair *pair = contact->pair;
    if (pair->served != 0 && (int32_t)(ask->number - pair->served) <= 0)
        return;
    serve(verbs, pair, ask);
    owe(contact, ANSWER);
    if (verbs->retired == NULL)
        tug_verbs_tell_due(contact);
}

/* The view that the message is about. For a MOVE or MOVED: that of hello->context, and *peer
 * becomes the sender's rank there. NULL: there is no such context here, or no such rank. */
static struct tug_verbs_view *view_of(struct tug_verbs_view *view, const struct hello *hello,
                                      uint32_t *peer) {
    view = view->rails[hello->rail];
    if ((hello->kind != MOVE && hello->kind != MOVED) || hello->context == view->wire.fabric->id)
        return view;
    view = tug_endpoint_find(&view->verbs->base, hello->context);
    if (view == NULL || hello->rank >= view->wire.fabric->nranks)
        return NULL;
    *peer = hello->rank;
    return view;
}

void tug_verbs_pair_control(struct tug_verbs_view *view, uint32_t peer, const void *data,
                            size_t bytes) {
    struct hello hello;
    if (!is_hello(view, peer, data, bytes, &hello))
        return;
    view = view_of(view, &hello, &peer);
    if (view == NULL)
        return;
    struct tug_verbs *verbs = view->verbs;
    struct tug_verbs_contact *contact = tug_verbs_contact_of(view, peer);
    if (contact == NULL || !tug_verbs_contact_is(contact, hello.id)) {
        const struct hello refusal = hello_of(verbs, REFUSE, hello.number, NULL, 0);
        if (hello.kind == ASK)
            tug_fabric_control(view->wire.fabric, peer, TUG_BY_VERBS, &refusal, sizeof refusal);
        return;
    }
    struct tug_verbs_pair *pair = contact->pair;
    switch (hello.kind) {
    case ASK:
        asked(verbs, contact, &hello);
        break;
    case WHO:
        (void)say_only(contact, IAM, 0);
        break;
    case CLOSED:
        if (pair->served == hello.number) {
            retire_server(verbs, pair);
            pair->closed = true;
        }
        break;
    case CLOSE:
        if (is_idle(pair) && pair->number == hello.number)
            close_sender(verbs, pair);
        break;
    case MOVE:
        yield(verbs, contact, &hello);
        break;
    case MOVED:
        moved(verbs, contact, &hello);
        break;
    default:
        answered(verbs, pair, &hello);
    }
    tug_verbs_touch(verbs, pair); /* what waited for the id gets on */
}

void tug_verbs_pair_drop_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    forget_deadline(verbs, pair);
    if (pair->sender != NULL) {
        tug_ibv.destroy_qp(pair->sender);
        verbs->nsenders--;
    }
    pair->sender = NULL;
    pair->asker = NULL;
    pair->phase = TUG_PAIR_IDLE;
    verbs->cq_room += pair->sent - pair->done;
    pair->sent = pair->done = 0;
}

void tug_verbs_pair_gone(struct tug_verbs_view *view, uint32_t peer) {
    struct tug_verbs *verbs = view->verbs;
    struct tug_verbs_contact *contact = tug_verbs_contact_of(view, peer);
    if (contact == NULL)
        return;
    struct tug_verbs_pair *pair = contact->pair;
    contact->gone = true;
    tug_verbs_contact_moved(contact);
    tug_verbs_pair_move_again(pair);
    if (pair->phase == TUG_PAIR_ASKED && pair->asker == contact)
        tug_verbs_pair_drop_sender(verbs, pair);
    if (pair->phase != TUG_PAIR_IDLE)
        return;
    if (tug_verbs_contact_open(pair) == NULL)
        give_up(verbs, pair);
    else
        tug_verbs_touch(verbs, pair);
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
        give_up(verbs, pair);
        any = true;
    }
    return any;
}

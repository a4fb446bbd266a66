/* Messages: packets by SEND, see private.h.
 *
 * A number that was seen is dropped: its sender did not learn that it had arrived. A gap cannot be,
 * since a server is drained before it goes and a sender starts again at the first message that has
 * not been reported; if there is one, the peer is lost. Threading: the holder. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "transport/verbs/private.h"

/* ---- memory ---- */

static unsigned char *send_memory(const struct tug_verbs_messages *messages, uint32_t slot) {
    return messages->memory + (size_t)slot * TUG_VERBS_MESSAGE_BYTES;
}

static unsigned char *receive_memory(const struct tug_verbs_messages *messages, uint32_t slot) {
    return send_memory(messages, TUG_VERBS_SENDS + slot);
}

static void post_receive(struct tug_verbs_messages *messages, uint32_t slot) {
    struct ibv_sge piece = {(uint64_t)(uintptr_t)receive_memory(messages, slot),
                            TUG_VERBS_MESSAGE_BYTES, messages->mr->lkey};
    struct ibv_recv_wr receive = {
        .wr_id = TUG_REQUEST_RECEIVES | slot, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr *bad = NULL;
    if (ibv_post_srq_recv(messages->srq, &receive, &bad) != 0)
        tug_warn_once("verbs: the device does not take a receive back, and packets come more "
                      "slowly: look at the device (ibv_devinfo)");
}

void tug_verbs_messages_renew(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = verbs->messages;
    while (messages->ntaken > 0)
        post_receive(messages, messages->taken[--messages->ntaken]);
}

static bool make(struct tug_verbs *verbs, struct tug_verbs_messages *messages) {
    struct ibv_srq_init_attr attributes = {.attr = {.max_wr = TUG_VERBS_RECEIVES, .max_sge = 1}};
    void *memory = mmap(NULL, messages->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    messages->memory = memory;
    messages->srq = tug_ibv.create_srq(verbs->device.pd, &attributes);
    if (messages->srq != NULL)
        messages->mr = tug_ibv.reg_mr(verbs->device.pd, memory, messages->mapped_bytes,
                                      IBV_ACCESS_LOCAL_WRITE);
    return messages->mr != NULL;
}

bool tug_verbs_messages_open(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = calloc(1, sizeof *messages);
    verbs->messages = messages;
    if (messages == NULL)
        return false;
    messages->mapped_bytes =
        (size_t)(TUG_VERBS_SENDS + TUG_VERBS_RECEIVES) * TUG_VERBS_MESSAGE_BYTES;
    if (!make(verbs, messages)) {
        tug_verbs_messages_close(verbs);
        return false;
    }
    for (uint32_t slot = 0; slot < TUG_VERBS_SENDS; slot++)
        messages->next[slot] = slot + 1 < TUG_VERBS_SENDS ? slot + 1 : TUG_NO_MESSAGE;
    for (uint32_t slot = 0; slot < TUG_VERBS_RECEIVES; slot++)
        post_receive(messages, slot);
    return true;
}

void tug_verbs_messages_close(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = verbs->messages;
    if (messages == NULL)
        return;
    if (messages->mr != NULL)
        tug_ibv.dereg_mr(messages->mr);
    if (messages->srq != NULL)
        tug_ibv.destroy_srq(messages->srq);
    if (messages->memory != NULL)
        munmap(messages->memory, messages->mapped_bytes);
    free(messages);
    verbs->messages = NULL;
}

/* ---- what the packets' side is told ---- */

void tug_verbs_say(struct tug_verbs *verbs, struct tug_verbs_pair *pair, enum tug_verbs_word word) {
    verbs->words += pair->word == TUG_WORD_NONE;
    pair->word = (uint8_t)word;
    pair->met = false;
}

bool tug_verbs_tell(struct tug_verbs *verbs) {
    struct tug_wire *wire = &verbs->wire;
    if (verbs->words == 0)
        return false;
    for (uint32_t i = 0; i < verbs->npairs && verbs->words > 0; i++) {
        struct tug_verbs_pair *pair = verbs->pairs[i];
        const enum tug_verbs_word word = pair->word;
        if (word == TUG_WORD_NONE)
            continue;
        pair->word = TUG_WORD_NONE;
        verbs->words--;
        if (word == TUG_WORD_ENDED)
            wire->ended(wire->receiver, pair->peer);
        else
            wire->settled(wire->receiver, pair->peer, word == TUG_WORD_LEADS);
    }
    return true;
}

/* Without memory for a pair it may lead there: sending tries again. */
bool tug_verbs_meet(struct tug_wire *wire, uint32_t peer) {
    struct tug_verbs *verbs = (struct tug_verbs *)wire;
    struct tug_verbs_pair *pair = tug_verbs_pair_of(verbs, peer);
    if (pair == NULL || pair->phase == TUG_PAIR_UP)
        return true;
    if (pair->phase == TUG_PAIR_IDLE && !verbs->device_given_up && !tug_verbs_pair_closed(pair))
        tug_verbs_pair_connect(verbs, pair);
    if (pair->phase == TUG_PAIR_UP)
        return true;
    if (pair->phase == TUG_PAIR_IDLE)
        tug_verbs_say(verbs, pair, TUG_WORD_LEADS_NOT);
    else
        pair->met = true;
    return false;
}

/* ---- sending ---- */

static void give_slot(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot) {
    struct tug_verbs_messages *messages = verbs->messages;
    messages->next[slot] = messages->spare;
    messages->spare = slot;
    messages->used--;
    pair->messages--;
}

static void append(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot) {
    struct tug_verbs_messages *messages = verbs->messages;
    messages->next[slot] = TUG_NO_MESSAGE;
    if (pair->message_first == TUG_NO_MESSAGE)
        pair->message_first = slot;
    else
        messages->next[pair->message_last] = slot;
    pair->message_last = slot;
    pair->urgent = true;
    tug_verbs_touch(verbs, pair);
}

/* Nothing goes to a peer that has been met and is not there any more. */
static bool has_ended(const struct tug_verbs *verbs, const struct tug_verbs_pair *pair) {
    return verbs->device_given_up || (pair->gone && pair->phase == TUG_PAIR_IDLE);
}

bool tug_verbs_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tug_verbs *verbs = (struct tug_verbs *)wire;
    struct tug_verbs_messages *messages = verbs->messages;
    struct tug_verbs_pair *pair = tug_verbs_pair_of(verbs, peer);
    if (pair == NULL || pair->met || pair->word == TUG_WORD_LEADS_NOT)
        return false;
    if (has_ended(verbs, pair)) {
        tug_verbs_say(verbs, pair, TUG_WORD_ENDED);
        tug_pool_give(&wire->pool, buffer);
        return true;
    }
    const uint32_t slot = messages->spare;
    if (slot == TUG_NO_MESSAGE || pair->messages == TUG_VERBS_SENDS_EACH)
        return false;
    messages->spare = messages->next[slot];
    messages->used++;
    pair->messages++;
    messages->bytes[slot] = buffer->packet.used;
    messages->number[slot] = ++pair->numbered;
    memcpy(send_memory(messages, slot), buffer->packet.memory, buffer->packet.used);
    append(verbs, pair, slot);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

uint32_t tug_verbs_message_fill(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                                struct ibv_send_wr *request, struct ibv_sge *piece) {
    const struct tug_verbs_messages *messages = verbs->messages;
    const uint32_t slot = pair->message_first;
    pair->message_first = messages->next[slot];
    *piece = (struct ibv_sge){(uint64_t)(uintptr_t)send_memory(messages, slot),
                              messages->bytes[slot], messages->mr->lkey};
    request->sg_list = piece;
    request->num_sge = 1;
    request->opcode = IBV_WR_SEND_WITH_IMM;
    request->imm_data = htonl(messages->number[slot]);
    request->send_flags = messages->bytes[slot] <= pair->most_inline ? IBV_SEND_INLINE : 0;
    return slot;
}

void tug_verbs_message_arrived(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                               uint32_t slot) {
    give_slot(verbs, pair, slot);
}

void tug_verbs_message_again(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot) {
    if (pair->message_first == TUG_NO_MESSAGE)
        pair->message_last = slot;
    verbs->messages->next[slot] = pair->message_first;
    pair->message_first = slot;
    pair->urgent = true;
}

void tug_verbs_messages_drop(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (verbs->messages == NULL)
        return;
    while (pair->message_first != TUG_NO_MESSAGE) {
        const uint32_t slot = pair->message_first;
        pair->message_first = verbs->messages->next[slot];
        give_slot(verbs, pair, slot);
    }
    if (pair->met)
        tug_verbs_say(verbs, pair, TUG_WORD_LEADS_NOT);
    else if (pair->numbered > 0 || pair->received > 0)
        tug_verbs_say(verbs, pair, TUG_WORD_ENDED);
}

/* ---- receiving ---- */

/* The pair from which a message is the next one. NULL: it has come before, or is none. */
static struct tug_verbs_pair *next_of(struct tug_verbs *verbs, const struct ibv_wc *completion,
                                      const unsigned char *memory) {
    struct tug_packet_header header;
    if (completion->byte_len < sizeof header)
        return NULL;
    memcpy(&header, memory, sizeof header);
    struct tug_verbs_pair *pair = tug_verbs_pair_find(verbs, header.source);
    const uint32_t number = ntohl(completion->imm_data);
    if (pair == NULL || (int32_t)(number - pair->received) <= 0)
        return NULL;
    if (number != pair->received + 1) {
        tug_log(TUG_LOG_ERROR,
                "verbs: packets from rank %u are missing, so that peer is lost and operations on "
                "it fail: look at the device (ibv_devinfo)",
                pair->peer);
        tug_verbs_say(verbs, pair, TUG_WORD_ENDED);
        return NULL;
    }
    pair->received = number;
    return pair;
}

void tug_verbs_message_came(struct tug_verbs *verbs, const struct ibv_wc *completion) {
    struct tug_verbs_messages *messages = verbs->messages;
    const uint32_t slot = (uint32_t)completion->wr_id & ~TUG_REQUEST_RECEIVES;
    const unsigned char *memory = receive_memory(messages, slot);
    if (completion->status == IBV_WC_SUCCESS && next_of(verbs, completion, memory) != NULL)
        verbs->wire.receive(verbs->wire.receiver, &verbs->wire, memory, completion->byte_len);
    messages->taken[messages->ntaken++] = slot;
}

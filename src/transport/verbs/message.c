/* Messages: packets by SEND, see private.h.
 *
 * A number that was seen is dropped: its sender did not learn that it had arrived. A gap cannot be,
 * since a server is drained before it goes and a sender starts again at the first message that has
 * not been reported, whose number it says when it asks; if there is one, the peer is lost.
 * Threading: the holder. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/copy.h"
#include "base/log.h"
#include "transport/verbs/private.h"

/* ---- memory ---- */

static unsigned char *send_memory(const struct tug_verbs_messages *messages, uint32_t slot) {
    return tug_verbs_block(messages, slot)->memory +
           (size_t)(slot % TUG_VERBS_SENDS) * TUG_VERBS_MESSAGE_BYTES;
}

static unsigned char *receive_memory(const struct tug_verbs_messages *messages, uint32_t slot) {
    return messages->receives[slot / TUG_VERBS_RECEIVES]->memory +
           (size_t)(slot % TUG_VERBS_RECEIVES) * TUG_VERBS_MESSAGE_BYTES;
}

static void post_receive(struct tug_verbs *verbs, uint32_t slot) {
    const struct tug_verbs_messages *messages = verbs->messages;
    struct ibv_sge piece = {(uint64_t)(uintptr_t)receive_memory(messages, slot),
                            TUG_VERBS_MESSAGE_BYTES,
                            messages->receives[slot / TUG_VERBS_RECEIVES]->mr->lkey};
    struct ibv_recv_wr receive = {
        .wr_id = TUG_REQUEST_RECEIVES | slot, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr *bad = NULL;
    if (ibv_post_srq_recv(verbs->srq, &receive, &bad) != 0)
        tug_warn_once("verbs: the device does not take a receive back, and packets come more "
                      "slowly: look at the device (ibv_devinfo)");
}

void tug_verbs_messages_renew(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = verbs->messages;
    while (messages->ntaken > 0)
        post_receive(verbs, messages->taken[--messages->ntaken]);
}

static void end_block(struct tug_verbs_block *block) {
    if (block->mr != NULL)
        tug_ibv.dereg_mr(block->mr);
    if (block->memory != NULL)
        munmap(block->memory, block->mapped_bytes);
    free(block);
}

static struct tug_verbs_block *make_block(struct tug_verbs *verbs, uint32_t slots) {
    struct tug_verbs_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return NULL;
    block->mapped_bytes = (size_t)slots * TUG_VERBS_MESSAGE_BYTES;
    void *memory =
        mmap(NULL, block->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        block->memory = memory;
        block->mr = tug_verbs_device_register(&verbs->device, memory, block->mapped_bytes,
                                              (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
    }
    if (block->mr != NULL)
        return block;
    end_block(block);
    return NULL;
}

/* Another block, whose slots are spare, when none is. False: it cannot be had. */
static bool add_block(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = verbs->messages;
    const uint32_t n = messages->nblocks, first = n * TUG_VERBS_SENDS;
    struct tug_verbs_block **blocks =
        realloc(messages->blocks, (n + 1) * sizeof(struct tug_verbs_block *));
    if (blocks == NULL)
        return false;
    messages->blocks = blocks;
    blocks[n] = make_block(verbs, TUG_VERBS_SENDS);
    if (blocks[n] == NULL)
        return false;
    messages->nblocks++;
    for (uint32_t i = 0; i < TUG_VERBS_SENDS; i++)
        blocks[n]->slots[i].next = i + 1 < TUG_VERBS_SENDS ? first + i + 1 : TUG_NO_MESSAGE;
    messages->spare = first;
    return true;
}

bool tug_verbs_messages_expect(struct tug_verbs *verbs, uint32_t peers) {
    struct tug_verbs_messages *messages = verbs->messages;
    const uint32_t wanted = tug_verbs_receives(peers);
    while (messages->nreceives < wanted &&
           messages->nreceives + TUG_VERBS_RECEIVES <= verbs->most_receives) {
        struct tug_verbs_block *block = make_block(verbs, TUG_VERBS_RECEIVES);
        if (block == NULL)
            break;
        messages->receives[messages->nreceives / TUG_VERBS_RECEIVES] = block;
        for (uint32_t i = 0; i < TUG_VERBS_RECEIVES; i++)
            post_receive(verbs, messages->nreceives++);
    }
    return messages->nreceives > 0;
}

bool tug_verbs_messages_open(struct tug_verbs *verbs) {
    if (verbs->messages != NULL)
        return true;
    verbs->messages = calloc(1, sizeof *verbs->messages);
    if (verbs->messages == NULL)
        return false;
    if (add_block(verbs) && tug_verbs_messages_expect(verbs, verbs->nservers))
        return true;
    tug_verbs_messages_close(verbs);
    return false;
}

void tug_verbs_messages_close(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = verbs->messages;
    if (messages == NULL)
        return;
    for (uint32_t i = 0; i < messages->nblocks; i++)
        end_block(messages->blocks[i]);
    for (uint32_t i = 0; i < messages->nreceives / TUG_VERBS_RECEIVES; i++)
        end_block(messages->receives[i]);
    free((void *)messages->blocks);
    free(messages);
    verbs->messages = NULL;
}

/* ---- what the packets' side is told ---- */

void tug_verbs_say(struct tug_verbs_contact *contact, enum tug_verbs_word word) {
    contact->view->verbs->untold += contact->word == TUG_WORD_NONE;
    contact->word = (uint8_t)word;
    contact->met = false;
    contact->leads |= word == TUG_WORD_LEADS;
}

void tug_verbs_say_all(const struct tug_verbs_pair *pair, enum tug_verbs_word word) {
    for (struct tug_verbs_contact *contact = pair->contacts; contact; contact = contact->next)
        if (word == TUG_WORD_ENDED ? contact->leads : contact->met)
            tug_verbs_say(contact, word);
}

void tug_verbs_message_give(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot) {
    struct tug_verbs_messages *messages = verbs->messages;
    tug_verbs_slot(messages, slot)->next = messages->spare;
    messages->spare = slot;
    verbs->base.under_way--;
    pair->messages--;
}

/* A packet in a slot, in a buffer again. NULL: no memory. */
static struct tug_buffer *unslot(const struct tug_verbs_messages *messages, struct tug_wire *wire,
                                 uint32_t slot) {
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    if (buffer == NULL)
        return NULL;
    memcpy(buffer->memory, send_memory(messages, slot), tug_verbs_slot(messages, slot)->bytes);
    buffer->packet.used = tug_verbs_slot(messages, slot)->bytes;
    buffer->number = ((const struct tug_packet_header *)buffer->memory)->number;
    return buffer;
}

/* Behind those that wait for the pair. */
static void enqueue(struct tug_verbs_messages *messages, struct tug_verbs_pair *pair,
                    uint32_t slot) {
    tug_verbs_slot(messages, slot)->next = TUG_NO_MESSAGE;
    if (pair->message_first == TUG_NO_MESSAGE)
        pair->message_first = slot;
    else
        tug_verbs_slot(messages, pair->message_last)->next = slot;
    pair->message_last = slot;
}

/* Takes the context's messages that wait for the pair, in their order, out of the slots. False: no
 * memory, some are lost. */
static bool take_back(struct tug_verbs_contact *contact, struct tug_buffer **back) {
    struct tug_wire *wire = &contact->view->wire;
    struct tug_verbs *verbs = contact->view->verbs;
    struct tug_verbs_messages *messages = verbs->messages;
    struct tug_verbs_pair *pair = contact->pair;
    uint32_t slot = pair->message_first;
    bool all = true;
    *back = NULL;
    pair->message_first = pair->message_last = TUG_NO_MESSAGE;
    while (slot != TUG_NO_MESSAGE) {
        const uint32_t next = tug_verbs_slot(messages, slot)->next;
        const struct tug_packet_header *header = (const void *)send_memory(messages, slot);
        if (header->context != wire->fabric->id) { /* another's stays, where it is */
            enqueue(messages, pair, slot);
        } else {
            *back = unslot(messages, wire, slot);
            all &= *back != NULL;
            back = *back != NULL ? &(*back)->next : back;
            tug_verbs_message_give(verbs, pair, slot);
        }
        slot = next;
    }
    return all;
}

/* The packets' side goes on by the next row. */
static void hand_back(struct tug_verbs_contact *contact) {
    struct tug_wire *wire = &contact->view->wire;
    struct tug_buffer *back = NULL;
    const bool all = take_back(contact, &back);
    contact->leads = false;
    if (!all)
        tug_log(
            TUG_LOG_ERROR,
            "verbs: no memory for packets to rank %u, so that peer is lost and operations on it "
            "fail: give this process more memory",
            contact->rank);
    wire->moves(wire->receiver, contact->rank, all ? contact->taken : ~contact->taken, back);
}

static void tell(struct tug_verbs_contact *contact) {
    struct tug_verbs_view *view = contact->view;
    struct tug_wire *wire = &view->wire;
    const enum tug_verbs_word word = contact->word;
    contact->word = TUG_WORD_NONE;
    view->verbs->untold--;
    tug_endpoint_note(&view->wire);
    if (word == TUG_WORD_MOVES && contact->leads)
        hand_back(contact);
    else if (word == TUG_WORD_ENDED)
        wire->ended(wire->receiver, contact->rank);
    else if (word != TUG_WORD_MOVES)
        wire->settled(wire->receiver, contact->rank, word == TUG_WORD_LEADS);
    if (word == TUG_WORD_MOVES || word == TUG_WORD_ENDED)
        tug_verbs_contact_moved(contact);
}

bool tug_verbs_tell(struct tug_verbs *verbs) {
    bool any = false;
    for (uint32_t i = 0; i < verbs->npairs && verbs->untold > 0; i++)
        for (struct tug_verbs_contact *contact = verbs->pairs[i]->contacts; contact != NULL;
             contact = contact->next) {
            const bool is_due = contact->due != 0 && verbs->retired == NULL;
            any |= is_due || contact->word != TUG_WORD_NONE;
            if (is_due)
                tug_verbs_tell_due(contact);
            if (contact->word != TUG_WORD_NONE)
                tell(contact);
        }
    return any;
}

/* Without memory for a contact it may lead there: sending tries again. */
int tug_verbs_meet(struct tug_wire *wire, uint32_t peer) {
    struct tug_verbs_view *view = (struct tug_verbs_view *)wire;
    struct tug_verbs *verbs = view->verbs;
    struct tug_verbs_contact *contact = tug_verbs_contact_of(view, peer);
    if (contact == NULL)
        return 1;
    contact->met = true;
    if (contact->pair->phase == TUG_PAIR_IDLE) {
        if (verbs->device_given_up || tug_verbs_pair_closed(contact->pair))
            tug_verbs_say(contact, TUG_WORD_LEADS_NOT);
        else
            tug_verbs_pair_connect(verbs, contact->pair);
    }
    if (contact->pair->phase != TUG_PAIR_UP)
        return 0;
    if (contact->word == TUG_WORD_LEADS) { /* to itself: this call says it */
        contact->word = TUG_WORD_NONE;
        verbs->untold--;
    }
    contact->met = false;
    contact->leads = true;
    return 1;
}

/* ---- sending ---- */

static void append(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot) {
    enqueue(verbs->messages, pair, slot);
    pair->urgent = true;
    tug_verbs_touch(verbs, pair);
}

/* Nothing goes to a peer that has been met and is not there any more. */
static bool has_ended(const struct tug_verbs *verbs, const struct tug_verbs_contact *contact) {
    return verbs->device_given_up || (contact->gone && contact->pair->phase == TUG_PAIR_IDLE);
}

bool tug_verbs_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tug_verbs_view *view = (struct tug_verbs_view *)wire;
    struct tug_verbs *verbs = view->verbs;
    struct tug_verbs_messages *messages = verbs->messages;
    struct tug_verbs_contact *contact = tug_verbs_contact_of(view, peer);
    if (contact == NULL || contact->met || contact->word == TUG_WORD_LEADS_NOT)
        return false;
    struct tug_verbs_pair *pair = contact->pair;
    if (pair->moving > 0)
        return false;
    contact->leads = true; /* a new contact: it was forgotten, or meet() had no memory */
    if (pair->id == 0 && !has_ended(verbs, contact)) {
        tug_verbs_touch(verbs, pair);
        if (pair->phase == TUG_PAIR_IDLE)
            tug_verbs_pair_connect(verbs, pair);
        return false;
    }
    if (has_ended(verbs, contact)) {
        tug_verbs_say(contact, TUG_WORD_ENDED);
        tug_pool_give(&wire->pool, buffer);
        return true;
    }
    if (messages->spare == TUG_NO_MESSAGE && pair->messages < TUG_VERBS_SENDS_LEAST &&
        !messages->no_more)
        messages->no_more = !add_block(verbs);
    const uint32_t slot = messages->spare;
    if (slot == TUG_NO_MESSAGE || pair->messages == TUG_VERBS_SENDS_EACH)
        return false;
    messages->spare = tug_verbs_slot(messages, slot)->next;
    verbs->base.under_way++;
    pair->messages++;
    tug_verbs_slot(messages, slot)->bytes = buffer->packet.used;
    tug_verbs_slot(messages, slot)->number = ++pair->numbered;
    tug_copy(send_memory(messages, slot), buffer->packet.memory, buffer->packet.used);
    append(verbs, pair, slot);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

uint32_t tug_verbs_message_fill(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                                struct ibv_send_wr *request, struct ibv_sge *piece) {
    const struct tug_verbs_messages *messages = verbs->messages;
    const uint32_t slot = pair->message_first;
    pair->message_first = tug_verbs_slot(messages, slot)->next;
    *piece = (struct ibv_sge){(uint64_t)(uintptr_t)send_memory(messages, slot),
                              tug_verbs_slot(messages, slot)->bytes,
                              tug_verbs_block(messages, slot)->mr->lkey};
    request->sg_list = piece;
    request->num_sge = 1;
    request->opcode = IBV_WR_SEND_WITH_IMM;
    request->imm_data = htonl(tug_verbs_slot(messages, slot)->number);
    request->send_flags =
        tug_verbs_slot(messages, slot)->bytes <= pair->most_inline ? IBV_SEND_INLINE : 0;
    return slot;
}

void tug_verbs_message_again(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot) {
    if (pair->message_first == TUG_NO_MESSAGE)
        pair->message_last = slot;
    tug_verbs_slot(verbs->messages, slot)->next = pair->message_first;
    pair->message_first = slot;
    pair->urgent = true;
}

/* A slot without a message may have been one of this context, and is not read any more. */
void tug_verbs_messages_void(const struct tug_verbs_view *view, uint32_t tag) {
    const struct tug_verbs_messages *messages = view->verbs->messages;
    for (uint32_t slot = 0; slot < messages->nblocks * TUG_VERBS_SENDS; slot++) {
        unsigned char *memory = send_memory(messages, slot);
        if (tug_verbs_slot(messages, slot)->bytes > 0 &&
            ((const struct tug_packet_header *)memory)->context == view->wire.fabric->id)
            (void)tug_packet_void_signal(memory, tug_verbs_slot(messages, slot)->bytes, tag);
    }
}

void tug_verbs_messages_drop(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (verbs->messages == NULL)
        return;
    while (pair->message_first != TUG_NO_MESSAGE) {
        const uint32_t slot = pair->message_first;
        pair->message_first = tug_verbs_slot(verbs->messages, slot)->next;
        tug_verbs_message_give(verbs, pair, slot);
    }
    tug_verbs_say_all(pair, TUG_WORD_ENDED);
    tug_verbs_say_all(pair, TUG_WORD_LEADS_NOT);
}

/* ---- receiving ---- */

/* Is the message the pair's next one? If not it has come before. What an old server has received
 * was taken before the first one of the new server, which is behind all that its sender has given
 * up. */
static bool is_next(struct tug_verbs_server *server, uint32_t number) {
    struct tug_verbs_pair *pair = server->pair;
    if (server->restarts || (int32_t)(server->first - 1 - pair->received) > 0)
        pair->received = server->first - 1;
    server->restarts = false;
    if ((int32_t)(number - pair->received) <= 0)
        return false;
    if (number != pair->received + 1) {
        tug_log(TUG_LOG_ERROR,
                "verbs: packets from rank %u are missing, so that peer is lost and operations on "
                "it fail: look at the device (ibv_devinfo)",
                tug_verbs_rank(pair));
        tug_verbs_say_all(pair, TUG_WORD_ENDED);
        return false;
    }
    pair->received = number;
    return true;
}

/* A packet that has come by a server of that pair, of a context that may have ended here. It may be
 * the first thing that is heard of the pair's process in that context. False: not now. */
static bool hand_up(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                    const unsigned char *memory, uint32_t bytes) {
    struct tug_packet_header header;
    if (bytes < sizeof header)
        return true;
    memcpy(&header, memory, sizeof header);
    struct tug_verbs_view *view = tug_endpoint_find(&verbs->base, header.context);
    if (view == NULL || view->wire.receive == NULL)
        return true;
    if (header.source >= view->wire.fabric->nranks)
        return true;
    struct tug_verbs_contact *contact = tug_verbs_contact_of(view, header.source);
    if (contact == NULL || !tug_verbs_contact_is(contact, pair->id))
        return true;
    tug_endpoint_note(&view->wire);
    return view->wire.receive(view->wire.receiver, &view->wire, memory, bytes);
}

/* False: not now; nothing has been received. */
static bool take(struct tug_verbs *verbs, const struct ibv_wc *completion) {
    struct tug_verbs_messages *messages = verbs->messages;
    const uint32_t slot = (uint32_t)completion->wr_id & ~TUG_REQUEST_RECEIVES;
    const unsigned char *memory = receive_memory(messages, slot);
    struct tug_verbs_server *server = tug_table_find(&verbs->servers, completion->qp_num);
    if (completion->status == IBV_WC_SUCCESS && server != NULL &&
        is_next(server, ntohl(completion->imm_data))) {
        struct tug_verbs_pair *pair = server->pair;
        pair->heard = ++verbs->uses;
        pair->told = false;
        if (!hand_up(verbs, pair, memory, completion->byte_len)) {
            pair->received--;
            return false;
        }
    }
    messages->taken[messages->ntaken++] = slot;
    return true;
}

void tug_verbs_message_came(struct tug_verbs *verbs, const struct ibv_wc *completion) {
    struct tug_verbs_messages *messages = verbs->messages;
    if (messages->nheld == 0 && take(verbs, completion))
        return;
    messages->held[(messages->first_held + messages->nheld) % TUG_VERBS_RECEIVES_MOST] =
        *completion;
    messages->nheld++;
}

void tug_verbs_messages_resume(struct tug_verbs *verbs) {
    struct tug_verbs_messages *messages = verbs->messages;
    while (messages->nheld > 0 && take(verbs, &messages->held[messages->first_held])) {
        messages->first_held = (messages->first_held + 1) % TUG_VERBS_RECEIVES_MOST;
        messages->nheld--;
    }
}

/* Streams: what goes to one peer, and in which packets. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "base/trace.h"
#include "node/words.h"
#include "transport/packets/packets.h"

/* ---- streams ---- */

void tug_stream_take_credit(struct tug_stream *stream, uint64_t credit) {
    stream->credit = credit < tug_credit_least() ? tug_credit_least() : credit;
    stream->window =
        stream->wire->row->piles_up ? tug_piling_window(stream->credit) : TUG_STREAM_WINDOW;
}

/* By the first that reaches it; the last one reaches all. */
static struct tug_wire *wire_to(const struct tug_packets *packets, uint32_t peer) {
    unsigned i = 0;
    while (packets->wires[i]->row->reaches != NULL &&
           !packets->wires[i]->row->reaches(packets->wires[i], peer))
        i++;
    return packets->wires[i];
}

const char *tug_packets_wire_name(const struct tug_packets *packets, uint32_t peer) {
    return wire_to(packets, peer)->row->name;
}

/* The folded stream to the peer, or NULL. */
static struct tug_folded *folded_to(const struct tug_packets *packets, uint32_t peer) {
    struct tug_folded *folded = packets->folded != NULL ? &packets->folded[peer] : NULL;
    return folded != NULL && (folded->number | folded->applied | folded->sent | folded->taken) != 0
               ? folded
               : NULL;
}

bool tug_stream_is_known(const struct tug_packets *packets, uint32_t peer) {
    return packets->streams[peer] != NULL || folded_to(packets, peer) != NULL;
}

/* The new stream takes over the counters of the folded one. */
static void unfold(struct tug_packets *packets, struct tug_stream *stream,
                   struct tug_folded *folded) {
    stream->number = stream->acked = stream->heard = folded->number;
    stream->applied = stream->told = folded->applied;
    stream->sent = folded->sent;
    stream->taken = folded->taken;
    *folded = (struct tug_folded){0};
    packets->nfolded--;
}

struct tug_stream *tug_stream_to(struct tug_packets *packets, uint32_t peer) {
    struct tug_stream *stream = packets->streams[peer];
    if (__builtin_expect(stream != NULL, 1))
        return stream;
    struct tug_folded *folded = folded_to(packets, peer);
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->peer = peer;
    stream->wire = wire_to(packets, peer);
    packets->detours |= stream->wire->row->make != NULL;
    stream->settled = true;
    stream->waiting_first = stream->waiting_last = TUG_NO_TAG;
    stream->open_first = stream->open_last = TUG_NO_TAG;
    tug_stream_take_credit(stream, 0);
    stream->next = packets->all;
    packets->all = stream;
    packets->nstreams++;
    packets->streams[peer] = stream;
    if (folded != NULL) {
        unfold(packets, stream, folded);
        return stream;
    }
    atomic_fetch_add(&packets->load->streams, 1);
    if (stream->wire->row->meet == NULL)
        return stream;
    stream->settled = false;
    const int met = stream->wire->row->meet(stream->wire, peer);
    stream->settled |= met > 0;
    if (met >= 0)
        return stream;
    packets->all = stream->next;
    packets->nstreams--;
    packets->streams[peer] = NULL;
    atomic_fetch_sub(&packets->load->streams, 1);
    free(stream);
    return NULL;
}

/* ---- streams that have nothing to do ---- */

/* Does neither side owe the other an acknowledgement? Otherwise the next flush asks for it or sends
 * it. That is traffic, so the stream is folded two runs later at the earliest. */
static bool is_square(struct tug_packets *packets, struct tug_stream *stream) {
    stream->asks = stream->resting > 0;
    stream->pressed = stream->told != stream->applied;
    if (stream->asks || stream->pressed)
        tug_stream_touch(packets, stream);
    return !stream->asks && !stream->pressed;
}

/* Is struct tug_folded enough to continue the stream later? */
static bool can_fold(const struct tug_packets *packets, const struct tug_stream *stream) {
    return (stream->sent | stream->taken) != 0 && stream->settled && !stream->one_way &&
           !stream->touched && !stream->listed && !tug_stream_outstanding(stream) &&
           stream->requests == NULL && stream->answers == NULL && stream->control_first == NULL &&
           stream->served == 0 && stream->owed == 0 && stream->nexpected == 0 &&
           stream->unsignalled == 0 && stream->wire == wire_to(packets, stream->peer);
}

static void fold(struct tug_packets *packets, struct tug_stream *stream) {
    packets->folded[stream->peer] = (struct tug_folded){.number = tug_wire_number(stream->number),
                                                        .applied = tug_wire_number(stream->applied),
                                                        .sent = stream->sent,
                                                        .taken = stream->taken};
    packets->streams[stream->peer] = NULL;
    packets->nstreams--;
    packets->nfolded++;
    free(stream);
}

/* Unlists streams without unacknowledged packets, so that they can be freed. */
static void leave_under_way(struct tug_packets *packets) {
    struct tug_stream **at = &packets->under_way, *stream;
    while ((stream = *at) != NULL) {
        stream->listed = stream->number != stream->acked;
        if (stream->listed)
            at = &stream->next_under_way;
        else
            *at = stream->next_under_way;
    }
}

void tug_packets_fold(struct tug_packets *packets) {
    struct tug_stream **at = &packets->all, *stream;
    if (packets->folded == NULL)
        packets->folded = calloc(packets->fabric->nranks, sizeof(struct tug_folded));
    leave_under_way(packets);
    while (packets->folded != NULL && (stream = *at) != NULL) {
        const bool idle = stream->seen == stream->sent + stream->taken;
        stream->seen = stream->sent + stream->taken;
        if (idle && !stream->lost && is_square(packets, stream) && can_fold(packets, stream)) {
            *at = stream->next;
            fold(packets, stream);
        } else {
            at = &stream->next;
        }
    }
    packets->fold_at = packets->nstreams + TUG_STREAMS_KEPT / 2;
    if (packets->fold_at < TUG_STREAMS_KEPT)
        packets->fold_at = TUG_STREAMS_KEPT;
}

/* What is to go to the peer goes by the next row that takes it. False: the peer is lost, as there
 * is no memory for that. */
static bool change_wire(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_wire *to = tug_packets_detour(packets, stream->wire);
    if (to == NULL || !tug_pool_owe(&to->pool, stream->owed)) {
        tug_stream_lose(packets, stream);
        return false;
    }
    tug_log(TUG_VERBOSE_INFO, "packets to process %u go by %s: there is no connection by %s",
            stream->peer, to->row->name, stream->wire->row->name);
    for (const struct tug_buffer *buffer = stream->unsent_first; buffer != NULL;
         buffer = buffer->next)
        tug_pool_pass(&stream->wire->pool, &to->pool);
    if (stream->requests != NULL)
        tug_pool_pass(&stream->wire->pool, &to->pool);
    if (stream->answers != NULL)
        tug_pool_pass(&stream->wire->pool, &to->pool);
    tug_pool_settle(&stream->wire->pool, stream->owed);
    stream->one_way = stream->wire->row->wired_by_host;
    stream->wire = to;
    packets->detours = true;
    tug_stream_take_credit(stream, stream->credit);
    stream->settled = true;
    tug_stream_touch(packets, stream);
    return true;
}

void tug_stream_detour(struct tug_packets *packets, struct tug_stream *stream) {
    if (!stream->settled && !stream->lost)
        (void)change_wire(packets, stream);
}

static uint32_t count_buffers(const struct tug_buffer *buffer) {
    uint32_t n = 0;
    for (; buffer != NULL; buffer = buffer->next)
        n++;
    return n;
}

static struct tug_buffer *give_first(struct tug_pool *pool, struct tug_buffer *buffer) {
    struct tug_buffer *next = buffer->next;
    tug_pool_give(pool, buffer);
    return next;
}

/* Takes the packets back that the peer has not taken, ahead of what waits. False: the peer misses
 * some that are not there, or has more than were sent. Its packets are numbered by `sent`. */
static bool take_back(struct tug_stream *stream, uint32_t taken, struct tug_buffer *back) {
    const uint32_t n = count_buffers(back);
    const uint32_t behind = stream->sent - count_buffers(stream->unsent_first) - n;
    const uint32_t there = taken - behind; /* of those that are back */
    const bool whole = there <= n;
    for (uint32_t i = 0; back != NULL && (i < there || !whole); i++)
        back = give_first(&stream->wire->pool, back);
    if (back == NULL)
        return whole;
    struct tug_buffer *last = back;
    while (last->next != NULL)
        last = last->next;
    last->next = stream->unsent_first;
    if (stream->unsent_first == NULL)
        stream->unsent_last = last;
    stream->unsent_first = back;
    return true;
}

void tug_stream_take_next_row(struct tug_packets *packets, struct tug_stream *stream,
                              uint32_t taken, struct tug_buffer *back) {
    const bool whole = take_back(stream, taken, back);
    if (stream->lost) {
        tug_stream_drop(stream, true);
        return;
    }
    if (whole) {
        (void)change_wire(packets, stream);
        return;
    }
    tug_log(TUG_LOG_ERROR,
            "packets to process %u are missing, so that peer is lost and operations on it fail: "
            "look at the device that carried them",
            stream->peer);
    tug_stream_lose(packets, stream);
}

/* ---- sending ---- */

static void add_unsent(struct tug_stream *stream, struct tug_buffer *buffer) {
    buffer->next = NULL;
    if (stream->unsent_first == NULL)
        stream->unsent_first = buffer;
    else
        stream->unsent_last->next = buffer;
    stream->unsent_last = buffer;
}

static void drain(struct tug_stream *stream) {
    while (stream->unsent_first != NULL) {
        struct tug_buffer *buffer = stream->unsent_first;
        struct tug_buffer *next = buffer->next;
        if (!stream->wire->row->send(stream->wire, stream->peer, buffer))
            return;
        stream->unsent_first = next;
    }
}

static void send(struct tug_packets *packets, struct tug_stream *stream, struct tug_buffer *buffer,
                 uint64_t number) {
    stream->told = stream->applied;
    stream->pressed = false;
    stream->sent++;
    buffer->packet.credit =
        tug_credit(atomic_load_explicit(&packets->load->streams, memory_order_relaxed));
    buffer->number = number;
    tug_packet_end(&buffer->packet, packets->fabric->rank, tug_wire_number(number),
                   tug_wire_number(stream->applied), packets->fabric->id);
    tug_stat_add(TUG_STAT_PACKETS, 1);
    tug_trace_count(TUG_TRACE_SENT, 1);
    add_unsent(stream, buffer);
    drain(stream);
    if (stream->unsent_first != NULL)
        tug_stream_touch(packets, stream);
}

static void send_answers(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = stream->answers;
    stream->answers = NULL;
    send(packets, stream, buffer, 0);
}

/* ---- packets that rest ---- */

static uint32_t count_list(const struct tug_fabric *fabric, uint32_t first) {
    uint32_t n = 0;
    for (uint32_t tag = first; tag != TUG_NO_TAG; tag = fabric->operations[tag].next)
        n++;
    return n;
}

void tug_stream_unrest(struct tug_packets *packets, struct tug_stream *stream, uint64_t number) {
    bool *late = &stream->sent_late[number % TUG_STREAM_WINDOW];
    if (!*late)
        return;
    *late = false;
    stream->resting--;
    packets->resting--;
    atomic_fetch_sub(&packets->fabric->resting,
                     count_list(packets->fabric, stream->sent_first[number % TUG_STREAM_WINDOW]));
}

/* The request packet that is about to be sent rests from now on, unless somebody waits. */
static bool rest(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_fabric *fabric = packets->fabric;
    const uint64_t at = stream->number % TUG_STREAM_WINDOW;
    stream->sent_late[at] = true;
    stream->resting++;
    packets->resting++;
    /* seq_cst: who begins to wait has said so before it looks whether something rests; either this
     * thread sees that, or that one asks */
    atomic_fetch_add(&fabric->resting, count_list(fabric, stream->sent_first[at]));
    if (atomic_load(&fabric->awaiting) > 0)
        tug_stream_unrest(packets, stream, stream->number);
    return stream->sent_late[at];
}

/* What rests is to be acknowledged now; without memory for the packet that says so, at the next
 * look. */
static void ask(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = NULL;
    stream->asks = stream->resting > 0;
    if (stream->asks)
        buffer = tug_pool_take(&stream->wire->pool);
    if (buffer == NULL) {
        if (stream->asks)
            tug_stream_touch(packets, stream);
        return;
    }
    stream->asks = false;
    for (uint64_t number = stream->acked + 1; number <= stream->number; number++)
        tug_stream_unrest(packets, stream, number);
    buffer->packet.flags = TUG_PACKET_ASKS;
    send(packets, stream, buffer, 0);
}

void tug_packets_ask(struct tug_packets *packets) {
    if (packets->resting == 0)
        return;
    for (struct tug_stream *stream = packets->under_way; stream != NULL;
         stream = stream->next_under_way)
        ask(packets, stream);
}

/* Does what is to go to the peer wait for others' acknowledgement? */
static bool is_held_up(struct tug_packets *packets, const struct tug_stream *stream) {
    return stream->waiting_first != TUG_NO_TAG ||
           (stream->requests != NULL && stream->requests->packet.records > 0 &&
            !tug_stream_window_open(packets, stream));
}

/* The window is open. Answers go ahead: a failure must be known before its packet counts as
 * applied. */
void tug_stream_send_requests(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = stream->requests;
    if (stream->answers != NULL)
        send_answers(packets, stream);
    stream->requests = NULL;
    stream->hurries = false;
    stream->number++;
    tug_stream_list(packets, stream);
    tug_packets_count(packets, 1);
    stream->sent_first[stream->number % TUG_STREAM_WINDOW] = stream->open_first;
    stream->open_first = stream->open_last = TUG_NO_TAG;
    stream->sent_long[stream->number % TUG_STREAM_WINDOW] = buffer->packet.trailer;
    stream->longs += buffer->packet.trailer > 0;
    stream->long_bytes += buffer->packet.trailer;
    if (!stream->presses && rest(packets, stream))
        buffer->packet.flags = TUG_PACKET_LATE;
    stream->presses = false;
    send(packets, stream, buffer, stream->number);
}

/* Acknowledges by a word. False: only a packet can, or packets wait that are to go ahead. */
static bool tell(struct tug_stream *stream) {
    const struct tug_fabric *fabric = stream->wire->fabric;
    if (stream->wire->words == NULL || stream->unsent_first != NULL)
        return false;
    stream->told = stream->applied;
    stream->pressed = false;
    const uint32_t node_rank = tug_fabric_node_rank(fabric, stream->peer);
    tug_words_tell(stream->wire->words, node_rank,
                   (uint64_t)stream->sent << 32 | tug_wire_number(stream->applied));
    (void)tug_bell_ring(tug_team_bell(fabric->team, (int)node_rank), true);
    return true;
}

static void acknowledge(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = tug_pool_take(&stream->wire->pool);
    if (buffer == NULL) {
        tug_stream_touch(packets, stream); /* the next packet to it says it too */
        return;
    }
    tug_stat_add(TUG_STAT_ACKNOWLEDGEMENTS, 1);
    send(packets, stream, buffer, 0);
}

/* The end of a batch, for one peer. */
void tug_stream_flush(struct tug_packets *packets, struct tug_stream *stream, bool wanted) {
    if (stream->unsent_first != NULL)
        drain(stream);
    if (stream->unsent_first != NULL) {
        tug_stream_touch(packets, stream); /* the wire is full: what is to go gathers */
        return;
    }
    if (stream->answers != NULL)
        send_answers(packets, stream);
    if (stream->requests == NULL)
        tug_stream_pump(packets, stream); /* there was no memory for a packet for what waits */
    if (stream->requests != NULL && stream->requests->packet.records > 0 &&
        tug_stream_window_open(packets, stream)) {
        const bool idle = tug_stream_idle(stream);
        if (wanted || stream->hurries || !tug_settings.aggregate ||
            (idle && !packets->fabric->more_comes))
            tug_stream_send_requests(packets, stream);
        else if (idle)
            tug_stream_touch(packets, stream); /* more is coming */
    }
    if (stream->resting > 0 && (stream->asks || is_held_up(packets, stream)))
        ask(packets, stream);
    if (stream->told == stream->applied ||
        (!stream->pressed && stream->applied - stream->told < TUG_STREAM_LATE) || tell(stream))
        return;
    const bool goes_with_more = packets->fabric->more_comes && stream->requests != NULL;
    if ((stream->patient || goes_with_more) &&
        stream->applied - stream->told < TUG_STREAM_PATIENCE) {
        stream->patient = false; /* until the next packet, or the next look */
        tug_stream_touch(packets, stream);
    } else {
        acknowledge(packets, stream);
    }
}

/* ---- losing a peer ---- */

/* But for those whose memory the wire has: they end when it lets go of that. */
static void fail_list(struct tug_fabric *fabric, uint32_t first) {
    uint32_t others_first = TUG_NO_TAG, others_last = TUG_NO_TAG;
    while (first != TUG_NO_TAG) {
        struct tug_operation *operation = &fabric->operations[first];
        first = operation->next;
        operation->status = TUG_ERR_PEER;
        if (operation->scratch != TUG_PACKETS_ENDING)
            tug_fabric_line_up(fabric, &others_first, &others_last, operation);
    }
    tug_fabric_complete_list(fabric, others_first);
}

/* What is in packets. */
static void fail_sent(struct tug_packets *packets, struct tug_stream *stream) {
    uint32_t open = stream->open_first;
    stream->open_first = stream->open_last = TUG_NO_TAG;
    for (; stream->acked < stream->number; tug_packets_count(packets, -1)) {
        stream->acked++;
        tug_stream_unrest(packets, stream, stream->acked);
        fail_list(packets->fabric, stream->sent_first[stream->acked % TUG_STREAM_WINDOW]);
    }
    packets->early -= stream->early;
    stream->early = false;
    fail_list(packets->fabric, open);
}

/* What waits, in its order: the memory of a write is free before its signal is over. */
static void fail_waiting(struct tug_fabric *fabric, struct tug_stream *stream) {
    uint32_t tag = stream->waiting_first;
    stream->waiting_first = TUG_NO_TAG;
    while (tag != TUG_NO_TAG) {
        struct tug_operation *operation = &fabric->operations[tag];
        tag = operation->next;
        operation->status = TUG_ERR_PEER;
        if (operation->scratch != TUG_PACKETS_ENDING)
            tug_fabric_complete(fabric, operation);
    }
}

void tug_stream_drop(struct tug_stream *stream, bool answers_too) {
    struct tug_buffer *buffer = stream->unsent_first;
    if (stream->answers != NULL && (answers_too || stream->answers->packet.trailer > 0)) {
        tug_pool_give(&stream->wire->pool, stream->answers);
        stream->answers = NULL;
    }
    stream->unsent_first = NULL;
    while (buffer != NULL) {
        struct tug_buffer *next = buffer->next;
        if (answers_too || buffer->number != 0 || buffer->packet.trailer > 0)
            tug_pool_give(&stream->wire->pool, buffer);
        else
            add_unsent(stream, buffer);
        buffer = next;
    }
}

/* Is the operation in packets to that peer, or does it wait for an answer from there? */
static bool is_to(const struct tug_operation *operation, uint32_t peer) {
    return operation->kind != TUG_OPERATION_NONE && operation->scratch != 0 &&
           operation->scratch <= TUG_PACKETS_SENT && operation->peer == peer;
}

bool tug_packets_awaits(const struct tug_packets *packets, uint32_t peer) {
    const struct tug_fabric *fabric = packets->fabric;
    for (uint32_t tag = 0; tag < fabric->noperations; tag++)
        if (is_to(&fabric->operations[tag], peer))
            return true;
    return false;
}

/* Everything that was to be done there fails, now and later. */
void tug_stream_lose(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_fabric *fabric = packets->fabric;
    stream->lost = true;
    /* release: who has counted it finds the stream lost (tug_context_has_lost()) */
    atomic_fetch_add_explicit(&fabric->lost, 1, memory_order_release);
    tug_trailer_drop(stream);
    if (stream->wire->row->lost != NULL)
        stream->wire->row->lost(stream->wire, stream->peer);
    fail_sent(packets, stream);
    if (stream->requests != NULL)
        tug_pool_give(&stream->wire->pool, stream->requests);
    stream->requests = NULL;
    tug_stream_drop(stream, false); /* answers go: one may be the refusal */
    tug_stream_settle(stream, stream->owed);
    stream->served = 0;
    while (stream->control_first != NULL) {
        struct tug_control_message *message = stream->control_first;
        stream->control_first = message->next;
        free(message);
    }
    fail_waiting(fabric, stream);
    for (uint32_t tag = 0; tag < fabric->noperations; tag++) {
        struct tug_operation *operation = &fabric->operations[tag];
        if (!is_to(operation, stream->peer))
            continue;
        operation->status = TUG_ERR_PEER;
        tug_fabric_complete(fabric, operation);
    }
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        struct tug_wire *wire = fabric->states[i];
        if (wire != NULL && wire != stream->wire && wire->row->lost != NULL)
            wire->row->lost(wire, stream->peer);
    }
    if (fabric->peer_ended != NULL)
        fabric->peer_ended(fabric, stream->peer);
}

/* ---- signals that are recalled ---- */

/* Takes the operation out of a list of tags, if it is there. last: of the list, NULL: nobody needs
 * it. */
static bool take_out(struct tug_fabric *fabric, uint32_t *first, uint32_t *last, uint32_t tag) {
    uint32_t *at = first, before = TUG_NO_TAG;
    while (*at != TUG_NO_TAG && *at != tag) {
        before = *at;
        at = &fabric->operations[*at].next;
    }
    if (*at == TUG_NO_TAG)
        return false;
    *at = fabric->operations[tag].next;
    if (last != NULL && *last == tag)
        *last = before;
    return true;
}

/* Of a packet that has been sent and is not acknowledged; one that rests has one operation less
 * that does. */
static void take_out_of_sent(struct tug_packets *packets, struct tug_stream *stream, uint32_t tag) {
    for (uint64_t number = stream->acked + 1; number <= stream->number; number++) {
        const uint64_t at = number % TUG_STREAM_WINDOW;
        if (!take_out(packets->fabric, &stream->sent_first[at], NULL, tag))
            continue;
        if (stream->sent_late[at])
            atomic_fetch_sub(&packets->fabric->resting, 1);
        return;
    }
}

void tug_packets_recall(void *receiver, struct tug_operation *signal) {
    struct tug_packets *packets = receiver;
    struct tug_fabric *fabric = packets->fabric;
    struct tug_stream *stream = packets->streams[signal->peer];
    const uint32_t tag = tug_fabric_tag(fabric, signal);
    if (!take_out(fabric, &stream->waiting_first, &stream->waiting_last, tag)) {
        if (stream->requests != NULL)
            (void)tug_packet_void_signal(stream->requests->packet.memory,
                                         stream->requests->packet.used, tag);
        for (struct tug_buffer *buffer = stream->unsent_first; buffer != NULL;
             buffer = buffer->next)
            (void)tug_packet_void_signal(buffer->packet.memory, buffer->packet.used, tag);
        if (!take_out(fabric, &stream->open_first, &stream->open_last, tag))
            take_out_of_sent(packets, stream, tag);
    }
    signal->scratch = 0;
}

/* ---- answers ---- */

uint64_t *tug_packets_answer(struct tug_packets *packets, uint32_t peer, unsigned kind, int status,
                             uint32_t tag, size_t length) {
    struct tug_stream *stream = packets->streams[peer];
    if (stream->answers != NULL && !tug_packet_has_room(&stream->answers->packet, kind, length))
        send_answers(packets, stream);
    if (stream->answers == NULL)
        stream->answers = tug_pool_take_owed(&stream->wire->pool);
    tug_stream_touch(packets, stream);
    return tug_packet_add(&stream->answers->packet, kind, (unsigned)-status, tag, length);
}

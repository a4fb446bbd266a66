/* The row shm: packets through the inboxes of the node's processes (node/inbox.h),
 * acknowledgements by words (node/words.h).
 *
 * A process has one inbox for all contexts; those of teams whose pages are not the processes' own
 * have one a team. A context's wire is a *view* of it, which is handed the packets that bear its
 * id, by whichever of them is polled.
 *
 * What follows a packet begins in its slot, and goes on in slots of its own, of which each says
 * whose it is. The sender copies it from where it lies to the inbox, slot by slot, as far as there
 * is room, and the rest when the buffer is sent again; the reader copies each slot to where it
 * shall lie, while the sender fills the next.
 *
 * A slot that its context may not be handed yet stays where it is, and so do those behind it: it
 * comes from a process that has been quicker to make the context, or is for one of the program, and
 * who looks does so from inside the host. A slot for a context that is not here is passed over.
 *
 * Who puts something into an inbox rings the bell in its owner's page (node/page.h). Who finds it
 * full is rung for by the owner when there is room: processes outnumber its slots.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "host/agreement.h"
#include "node/inbox.h"
#include "node/segment.h"
#include "node/words.h"
#include "transport/endpoint.h"
#include "transport/lone.h"
#include "transport/packets/wire.h"

#define PACKETS_A_POLL 16
#define SLOTS_A_POLL 64
#define LONG_PIECE (128u << 10)

/* The endpoint of an inbox of this process. Holder only. */
struct reader {
    struct tug_endpoint base; /* the first member */
    struct tug_inbox *inbox;
    struct view *last; /* the view last handed something; NULL: it has left */
    bool stuck;        /* the first slot could not be handed up, for want of memory */
    struct tug_lone lone;
    uint64_t packet[TUG_INBOX_PACKET_BYTES / 8];
};

/* What follows the last packet of a process. */
struct trail {
    uint32_t left, come; /* bytes */
};

struct view {
    struct tug_wire wire;
    struct reader *reader;
    uint32_t trailing;     /* trails of which something is left */
    uint32_t next;         /* the rank that is next asked whether it waits for room */
    struct trail trails[]; /* by node rank */
};

/* ---- sending ---- */

/* Puts the next bytes of a buffer and its trailer into a slot. */
static void fill(const struct tug_wire *wire, struct tug_slot *slot, struct tug_buffer *buffer) {
    const struct tug_label label = {wire->fabric->id, wire->fabric->rank, 0};
    const uint32_t used = buffer->packet.used;
    uint32_t head = sizeof(label);
    if (buffer->sent == 0) {
        tug_copy(slot->head, buffer->packet.memory, used);
        slot->bytes = head = buffer->sent = used;
    } else {
        memcpy(slot->head, &label, sizeof(label));
        slot->bytes = 0;
    }
    const uint32_t gone = buffer->sent - used, left = buffer->packet.trailer - gone;
    const uint32_t room = tug_slot_room(head), now = left < room ? left : room;
    if (now > 0)
        tug_copy((unsigned char *)slot + tug_slot_data_at(head), buffer->trailer + gone, now);
    slot->behind = now;
    buffer->sent += now;
}

static bool shm_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    const struct tug_team *team = wire->fabric->team;
    const uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    struct tug_inbox *inbox = team->neighbours[node_rank]->inbox;
    do {
        struct tug_slot *slot = tug_inbox_reserve(inbox);
        if (slot == NULL)
            return false;
        fill(wire, slot, buffer);
        tug_inbox_commit(slot, tug_team_bell(team, (int)node_rank));
    } while (buffer->sent < buffer->packet.used + buffer->packet.trailer);
    tug_inbox_expect(inbox);
    if (buffer->packet.trailer > 0)
        wire->sent(wire->receiver, peer, buffer);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

static bool shm_tells_of_room(struct tug_wire *wire, uint32_t peer) {
    const uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    tug_words_wait(wire->words, node_rank);
    tug_inbox_await(wire->fabric->team->neighbours[node_rank]->inbox);
    return true;
}

/* ---- receiving ---- */

/* The view that a slot is for, whose head has so many bytes. NULL: none. */
static struct view *view_of(struct reader *reader, const struct tug_slot *slot, uint32_t bytes) {
    const struct tug_packet_header *header = (const struct tug_packet_header *)slot->head;
    const struct tug_label *label = (const struct tug_label *)slot->head;
    if (bytes > 0 && bytes < sizeof(*header))
        return NULL;
    const uint64_t id = bytes > 0 ? header->context : label->context;
    if (reader->last == NULL || reader->last->wire.fabric->id != id)
        reader->last = tug_endpoint_find(&reader->base, id);
    return reader->last;
}

/* A packet has come of which so many bytes follow. What followed the one before it, and has not
 * come, never will. */
static void begin_trail(struct view *view, uint32_t source, uint32_t bytes) {
    const uint32_t node_rank = tug_fabric_node_rank(view->wire.fabric, source);
    if (node_rank == TUG_ELSEWHERE)
        return;
    struct trail *trail = &view->trails[node_rank];
    const bool over = trail->left > 0;
    view->trailing += (uint32_t)(bytes > 0) - (uint32_t)over;
    *trail = (struct trail){bytes, 0};
    if (over)
        view->wire.arrived(view->wire.receiver, source, false);
}

/* Copies what has come behind a packet, at most `bytes`, to where it shall lie. True: that was all
 * of it. */
static bool take_trailer(struct view *view, uint32_t source, const unsigned char *data,
                         uint32_t bytes) {
    const uint32_t node_rank = tug_fabric_node_rank(view->wire.fabric, source);
    if (node_rank == TUG_ELSEWHERE)
        return false;
    struct trail *trail = &view->trails[node_rank];
    const uint32_t all = bytes < trail->left ? bytes : trail->left;
    if (all == 0)
        return false;
    for (uint32_t at = 0; at < all;) {
        size_t now = all - at;
        unsigned char *to =
            view->wire.trailer_address(view->wire.receiver, source, trail->come, &now);
        if (to != NULL)
            tug_copy(to, data + at, now);
        trail->come += (uint32_t)now;
        at += (uint32_t)now;
    }
    trail->left -= all;
    view->trailing -= trail->left == 0;
    return trail->left == 0;
}

/* By the C library: of at most so many bytes compilers make a string instruction, whose start takes
 * longer than most packets. */
static inline void copy_packet(uint64_t *packet, const unsigned char *head, size_t bytes) {
    __asm__("" : "+r"(bytes));
    tug_copy(packet, head, bytes);
}

/* Hands a view the packet of so many bytes that has been copied out of the first slot. False: not
 * now. */
static bool hand_up_packet(const struct reader *reader, struct view *view, uint32_t bytes) {
    const struct tug_packet_header *header = (const struct tug_packet_header *)reader->packet;
    const uint32_t source = header->source;
    if (view->trailing > 0)
        begin_trail(view, source, 0);
    if (!view->wire.receive(view->wire.receiver, &view->wire, reader->packet, bytes))
        return false;
    if (header->trailer > 0)
        begin_trail(view, source, header->trailer);
    return true;
}

/* Hands a view the first slot, whose head has so many bytes, and gives the slot back. False: not
 * now; nothing happened. */
static bool hand_up(struct reader *reader, struct view *view, struct tug_slot *slot,
                    uint32_t bytes) {
    const uint32_t room = tug_slot_room(bytes > 0 ? bytes : sizeof(struct tug_label));
    const uint32_t told = __atomic_load_n(&slot->behind, __ATOMIC_RELAXED); /* by a peer: once */
    const uint32_t behind = told < room ? told : room;
    uint32_t source = ((const struct tug_label *)slot->head)->source;
    if (bytes > 0) {
        copy_packet(reader->packet, slot->head, bytes);
        source = ((const struct tug_packet_header *)reader->packet)->source;
        tug_inbox_settle(reader->inbox);
        if (!hand_up_packet(reader, view, bytes))
            return false;
        if (behind == 0) {
            tug_inbox_pass(reader->inbox);
            return true;
        }
    }
    const unsigned char *data = (const unsigned char *)slot +
                                tug_slot_data_at(bytes > 0 ? bytes : sizeof(struct tug_label));
    const bool whole = take_trailer(view, source, data, behind);
    tug_inbox_release(reader->inbox);
    if (whole)
        view->wire.arrived(view->wire.receiver, source, true);
    return true;
}

/* The first slot, in that view's poll. False: there is none, or it may not be handed up now.
 * *packet: it had a packet. */
static bool take(struct reader *reader, const struct view *polled, bool *packet) {
    struct tug_slot *slot = tug_inbox_first(reader->inbox);
    if (slot == NULL)
        return false;
    uint32_t bytes = slot->bytes;
    const bool lone = bytes == TUG_SLOT_LONE;
    if (lone)
        bytes = 0; /* of a packet */
    else if (bytes > TUG_INBOX_PACKET_BYTES)
        bytes = TUG_INBOX_PACKET_BYTES; /* its header will not agree */
    struct view *view = view_of(reader, slot, bytes);
    if (view != NULL && (!view->wire.ready || (polled->wire.inside && !view->wire.internal)))
        return false;
    *packet = bytes > 0;
    if (view == NULL) {
        tug_inbox_release(reader->inbox);
        return true;
    }
    if (lone) { /* the answer first, then the slot */
        tug_lone_serve(view->wire.fabric, slot);
        tug_inbox_pass(reader->inbox);
        return true;
    }
    if (view != polled)
        tug_endpoint_note(&view->wire);
    reader->stuck = !hand_up(reader, view, slot, bytes);
    return !reader->stuck;
}

/* Rings for who waits for room, in each context for so many who sleep. */
struct payment {
    uint32_t most;
    bool complete;
};

static void pay(struct view *view, struct payment *payment) {
    const struct tug_fabric *fabric = view->wire.fabric;
    uint32_t left = payment->most;
    for (uint32_t i = 0; i < fabric->node_size; i++) {
        if (left == 0) {
            payment->complete = false;
            return;
        }
        if (tug_words_waits(view->wire.words, view->next))
            left -= tug_bell_ring(tug_team_bell(fabric->team, (int)view->next), true);
        view->next = view->next + 1 < fabric->node_size ? view->next + 1 : 0;
    }
}

/* One sleeper a round: who is woken puts what it has, while many would find it full again (80
 * producers on 2 cores: 0.9 M packets in half a second, 0.12 M with a sleeper for each slot). All
 * when it is empty, as nothing else brings the owner back to it. */
static void tell_of_room(struct reader *reader) {
    struct payment payment = {tug_inbox_has(reader->inbox) ? 1 : UINT32_MAX, true};
    for (struct tug_wire *wire = reader->base.first; wire != NULL; wire = wire->next)
        pay((struct view *)wire, &payment);
    if (!payment.complete)
        tug_inbox_still_owes(reader->inbox);
}

static bool shm_poll(void *state) {
    struct view *view = state;
    struct reader *reader = view->reader;
    unsigned packets = 0, slots = 0;
    bool moved = view->wire.came, packet;
    view->wire.came = false;
    view->wire.ready = true;
    while (packets < PACKETS_A_POLL && slots < SLOTS_A_POLL && take(reader, view, &packet)) {
        packets += packet;
        slots++;
        moved = true;
    }
    if (slots == 0)
        tug_inbox_settle(reader->inbox);
    if (__builtin_expect(tug_inbox_owes(reader->inbox), 0))
        tell_of_room(reader);
    moved |= tug_lone_collect(view->wire.fabric);
    if (__builtin_expect(reader->base.came, 0))
        tug_endpoint_serve_others(&reader->base, &view->wire);
    return moved;
}

/* Who brings more rings, but for what is here already. */
static bool shm_arm(void *state) {
    return !((const struct view *)state)->reader->stuck;
}

/* ---- opening and closing ---- */

static void leave(struct tug_wire *wire) {
    ((struct view *)wire)->reader->last = NULL;
    wire->fabric->lone = NULL;
}

static void close_wire(struct tug_wire *wire) {
    tug_words_give(wire->fabric->team, wire->words);
    wire->fabric->bell = NULL;
}

static void close_reader(struct tug_endpoint *base) {
    tug_endpoint_fini(base);
    free(base);
}

static const struct tug_endpoint_kind kind = {
    .leave = leave, .close_wire = close_wire, .close = close_reader};

/* That of this process's inbox in the team. NULL: no memory. */
static struct tug_endpoint *make_reader(void *d) {
    const struct tug_neighbour *own = d;
    struct reader *reader = calloc(1, sizeof(*reader));
    if (reader != NULL) {
        tug_endpoint_init(&reader->base, &kind);
        reader->inbox = own->inbox;
        reader->lone.tray = own->tray;
        reader->lone.inbox = own->inbox;
    }
    return (struct tug_endpoint *)reader;
}

static bool shm_reaches(void *state, uint32_t peer) {
    const struct view *view = state;
    return tug_fabric_node_rank(view->wire.fabric, peer) != TUG_ELSEWHERE;
}

static size_t view_bytes(uint32_t node_size) {
    return sizeof(struct view) + node_size * sizeof(struct trail);
}

/* NULL: no memory. */
static struct view *open_view(struct tug_fabric *fabric) {
    static struct tug_endpoint *home;
    struct tug_team *team = fabric->team;
    struct tug_neighbour *own = team->neighbours[team->node_rank];
    struct view *view = calloc(1, view_bytes(fabric->node_size));
    struct tug_words *words = tug_words_take(team);
    struct tug_endpoint *endpoint = tug_endpoint_share(&home, own->inbox, make_reader, own);
    if (view == NULL || words == NULL || endpoint == NULL) {
        if (words != NULL)
            tug_words_give(team, words);
        if (endpoint != NULL)
            tug_endpoint_release(endpoint);
        free(view);
        return NULL;
    }
    tug_endpoint_add(endpoint, &view->wire, &tug_transport_shm, fabric, TUG_INBOX_PACKET_BYTES);
    tug_endpoint_release(endpoint);
    view->reader = (struct reader *)endpoint;
    view->wire.words = words;
    return view;
}

static int shm_open(struct tug_fabric *fabric, void **state, char *reason) {
    struct tug_team *team = fabric->team;
    struct view *view = open_view(fabric);
    /* nobody sends before all have entered */
    if (!tug_all_agree(fabric->comm, view != NULL && tug_endpoint_call_enter(&view->wire))) {
        if (view != NULL)
            tug_endpoint_close_wire(view);
        snprintf(reason, 256, "no memory, perhaps none that is shared");
        return TUG_ERR_UNSUPPORTED; /* packets can go by the rows behind */
    }
    fabric->lone = &view->reader->lone;
    if (fabric->node_size > 1) { /* one who is alone rings for nobody but itself */
        fabric->bell = tug_team_bell(team, (int)fabric->node_rank);
        fabric->bell_shared = true;
    }
    *state = view;
    return 0;
}

const struct tug_transport tug_transport_shm = {
    .name = "shm",
    .packet_bytes = TUG_INBOX_PACKET_BYTES,
    .help = "packets through inboxes in memory shared by the node",
    .missing = tug_shm_missing,
    .open = shm_open,
    .close = tug_endpoint_close_wire,
    .reaches = shm_reaches,
    .poll = shm_poll,
    .arm = shm_arm,
    .send = shm_send,
    .tells_of_room = shm_tells_of_room,
    .longs = {TUG_SHM_LONG_LEAST, TUG_SHM_LONG_LEAST, LONG_PIECE, LONG_PIECE, 32},
    .inside = true};

size_t tug_wire_shm_footprint(uint32_t node_size) {
    return view_bytes(node_size) + sizeof(struct tug_words) +
           node_size * (sizeof(uint64_t) + sizeof(uint8_t));
}

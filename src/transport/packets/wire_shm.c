/* The shm wire: packets through the inboxes of the node's processes (node/inbox.h),
 * acknowledgements by words (node/words.h).
 *
 * A process has one inbox for all contexts; those of teams whose pages are not the processes' own
 * have one a team. A context's wire is a *view* of it, which is handed the packets that bear its
 * id, by whichever of them is polled.
 *
 * A packet that its context may not be handed yet is kept, and nothing more is taken meanwhile: it
 * comes from a process that has been quicker to make the context, or is for one of the program, and
 * who looks does so from inside the host. A packet for a context that is not here is passed over.
 *
 * Who puts something into an inbox rings the bell in its owner's page (node/page.h).
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/table.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "node/inbox.h"
#include "node/words.h"
#include "transport/packets/wire.h"

#define PACKETS_A_POLL 16

/* Who takes from an inbox of this process, for all of its views. Holder only, but for `users`. */
struct reader {
    struct tug_inbox *inbox;
    struct tug_table views; /* by their contexts' ids */
    struct view *last;      /* the view last handed a packet; NULL: it has been closed */
    unsigned users;         /* views, entered or not */
    struct reader *next;
    bool others;   /* something has been handed to others than the view that is polled */
    uint32_t kept; /* bytes of the packet that was taken last and is to be handed up; 0: none */
    uint64_t packet[TUG_INBOX_PACKET_BYTES / 8];
};

struct view {
    struct tug_wire wire;
    struct tug_words *words;
    struct reader *reader; /* NULL: not entered */
    bool served;           /* it has been polled: packets may be handed up */
    bool came;             /* something has, by another's poll, since it was polled */
};

static struct reader *readers;
static pthread_mutex_t readers_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- sending ---- */

static bool shm_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    const struct tug_team *team = wire->fabric->team;
    const uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    if (!tug_inbox_put(team->neighbours[node_rank]->inbox, tug_team_bell(team, (int)node_rank),
                       buffer->packet.memory, buffer->packet.used))
        return false;
    tug_pool_give(&wire->pool, buffer);
    return true;
}

static void shm_tell(struct tug_wire *wire, uint32_t peer, uint64_t word) {
    const uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    tug_words_tell(((struct view *)wire)->words, node_rank, word);
    (void)tug_bell_ring(tug_team_bell(wire->fabric->team, (int)node_rank), true);
}

static uint64_t shm_told(const struct tug_wire *wire, uint32_t peer) {
    return tug_words_told(((const struct view *)wire)->words,
                          tug_fabric_node_rank(wire->fabric, peer));
}

/* ---- receiving ---- */

/* NULL: none. */
static struct view *view_of(struct reader *reader, uint32_t bytes) {
    const struct tug_packet_header *header = (const struct tug_packet_header *)reader->packet;
    if (bytes < sizeof(*header))
        return NULL;
    if (reader->last == NULL || reader->last->wire.fabric->id != header->context)
        reader->last = tug_table_find(&reader->views, header->context);
    return reader->last;
}

/* The packet that is kept, in that view's poll. False: not now. */
static bool hand_up(struct reader *reader, const struct view *polled) {
    const uint32_t bytes = reader->kept;
    struct view *view = view_of(reader, bytes);
    if (view != NULL && (!view->served || (polled->wire.inside && !view->wire.internal)))
        return false;
    reader->kept = 0;
    if (view == NULL)
        return true;
    view->came = view != polled;
    reader->others |= view->came;
    view->wire.receive(view->wire.receiver, &view->wire, reader->packet, bytes);
    return true;
}

static void serve_other(void *value, void *d) {
    const struct view *view = value;
    (void)d;
    if (view->came)
        view->wire.fabric->served(view->wire.fabric);
}

static bool shm_poll(struct tug_wire *wire) {
    struct view *view = (struct view *)wire;
    struct reader *reader = view->reader;
    unsigned taken = view->came ? 1 : 0;
    view->came = false;
    view->served = true;
    for (; taken < PACKETS_A_POLL; taken++) {
        if (reader->kept == 0)
            reader->kept = tug_inbox_take(reader->inbox, reader->packet);
        if (reader->kept == 0 || !hand_up(reader, view))
            break;
    }
    if (__builtin_expect(reader->others, 0)) {
        reader->others = false;
        tug_table_each(&reader->views, serve_other, NULL);
    }
    return taken > 0;
}

/* ---- opening and closing ---- */

/* With the lock. NULL: no memory. */
static struct reader *reader_of(struct tug_inbox *inbox) {
    struct reader *reader = readers;
    while (reader != NULL && reader->inbox != inbox)
        reader = reader->next;
    if (reader == NULL && (reader = calloc(1, sizeof(*reader))) != NULL) {
        reader->inbox = inbox;
        reader->next = readers;
        readers = reader;
    }
    return reader;
}

/* With the lock. */
static void release(struct reader *reader) {
    struct reader **at = &readers;
    if (--reader->users > 0)
        return;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    tug_table_fini(&reader->views);
    free(reader);
}

static void enter(void *argument) {
    struct view *view = argument;
    struct tug_table *views = &view->reader->views;
    const uint64_t id = view->wire.fabric->id;
    if (tug_table_find(views, id) != NULL || !tug_table_add(views, id, view))
        view->reader = NULL;
}

/* False: no memory. */
static bool enter_reader(struct view *view) {
    const struct tug_team *team = view->wire.fabric->team;
    pthread_mutex_lock(&readers_lock);
    struct reader *reader = reader_of(team->neighbours[team->node_rank]->inbox);
    if (reader != NULL) {
        reader->users++;
        view->reader = reader;
        tug_engine_call(enter, view);
        if (view->reader == NULL)
            release(reader);
    }
    pthread_mutex_unlock(&readers_lock);
    return view->reader != NULL;
}

static void take_out(void *argument) {
    struct view *view = argument;
    tug_table_remove(&view->reader->views, view->wire.fabric->id);
    view->reader->last = NULL;
}

/* What is kept, and is for it, is nobody's then. */
static void shm_leave(struct tug_wire *wire) {
    struct view *view = (struct view *)wire;
    if (view->reader == NULL)
        return;
    pthread_mutex_lock(&readers_lock);
    tug_engine_call(take_out, view);
    release(view->reader);
    view->reader = NULL;
    pthread_mutex_unlock(&readers_lock);
}

static void shm_close(struct tug_wire *wire) {
    struct view *view = (struct view *)wire;
    shm_leave(wire);
    if (view->words != NULL)
        tug_words_give(wire->fabric->team, view->words);
    wire->fabric->bell = NULL;
    tug_pool_fini(&wire->pool);
    free(view);
}

static const struct tug_wire_type shm_type = {.name = "shm",
                                              .send = shm_send,
                                              .poll = shm_poll,
                                              .tell = shm_tell,
                                              .told = shm_told,
                                              .leave = shm_leave,
                                              .close = shm_close};

struct tug_wire *tug_wire_shm_open(struct tug_fabric *fabric, int *status) {
    struct tug_team *team = fabric->team;
    struct view *view = calloc(1, sizeof(*view));
    *status = TUG_ERR_NO_MEMORY;
    if (view != NULL) {
        view->wire = (struct tug_wire){.type = &shm_type, .fabric = fabric};
        view->wire.pool.bytes = TUG_INBOX_PACKET_BYTES;
    }
    struct tug_words *words = tug_words_take(team);
    /* nobody sends before all have entered */
    if (!tug_all_agree(fabric->comm, view != NULL && words != NULL && enter_reader(view))) {
        if (words != NULL)
            tug_words_give(team, words);
        if (view != NULL)
            shm_close(&view->wire);
        return NULL;
    }
    *status = 0;
    view->words = words;
    if (fabric->node_size > 1) { /* one who is alone rings for nobody but itself */
        fabric->bell = tug_team_bell(team, (int)fabric->node_rank);
        fabric->bell_shared = true;
    }
    return &view->wire;
}

size_t tug_wire_shm_footprint(uint32_t node_size) {
    return sizeof(struct view) + sizeof(struct tug_words) + node_size * sizeof(uint64_t);
}

size_t tug_wire_shm_packet(void) {
    return sizeof(struct tug_buffer) + TUG_INBOX_PACKET_BYTES;
}

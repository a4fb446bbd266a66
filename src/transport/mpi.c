/* The row mpi: a packet is a message of the host MPI on the fabric's communicator.
 *
 * Receives for any source are always posted, and are looked at in the order of their posting, in
 * which MPI matches them: packets of one source stay in order.
 *
 * The trailer of a packet is a message of its own, from memory to memory:
 *
 *      sender                              receiver
 *        | -- the packet ------------------> |  checks it, knows where the data go,
 *        | -- the trailer =================> |  and receives them there
 *
 * Both are sent at once. All trailers have one tag, so those of one source are matched in the order
 * of their packets, and what comes from a source while its trailer is received waits here. A
 * trailer that nobody wants is received all the same, and thrown away, so that its sender gets on.
 *
 * Memory that the host has is its own until the message has ended. A send cannot be taken back: a
 * peer that is lost still receives what was sent to it, and until then its operations' memory is
 * kept. Nothing else comes from a source meanwhile that this side could refuse, so no receive has
 * to be taken back either.
 */
#include <stdlib.h>

#include "base/list.h"
#include "base/stats.h"
#include "engine/host_progress.h"
#include "host/agreement.h"
#include "host/host.h"
#include "transport/packets/packets.h"

#define RECEIVES 16u
#define SENDS 64u /* looked at in one poll */
#define LONGS_AT_ONCE 16

/* The message of a trailer. */
struct trailing {
    struct trailing *next;
    uint32_t peer;
    bool failed;             /* the host has said so */
    bool dropped;            /* the packet before it was no packet: no stream expects it */
    unsigned char *unwanted; /* where it is received that nobody wants; NULL: it is not */
    bool over; /* it has ended, which has been told; what has waited for it is to be handed up */
    struct tug_buffer *buffer;                       /* that it follows; NULL: it is received */
    struct tug_buffer *waiting_first, *waiting_last; /* packets that its source has sent since */
    MPI_Request request;
};

struct mpi_wire {
    struct tug_wire wire;
    struct trailing *trailing; /* in the order in which they have been begun */
    /* receives, then sends: all are looked at by one call, since each makes a pass of progress */
    MPI_Request requests[RECEIVES + SENDS];
    struct tug_buffer *buffers[RECEIVES + SENDS];
    int came[RECEIVES]; /* bytes of a receive that is done, -1: it is not */
    uint32_t from[RECEIVES];
    uint32_t oldest; /* receive */
    uint32_t nsends;
    struct tug_buffer *more_first, *more_last; /* sends for which there was no room */
};

static void post_receive(struct mpi_wire *mpi, uint32_t i) {
    mpi->came[i] = -1;
    tug_host.Irecv(mpi->buffers[i]->memory, TUG_MPI_PACKET_BYTES, MPI_BYTE, MPI_ANY_SOURCE,
                   TUG_MPI_TAG_PACKET, mpi->wire.fabric->comm, &mpi->requests[i]);
}

static void look_at(struct mpi_wire *mpi, struct tug_buffer *buffer) {
    uint32_t i = RECEIVES + mpi->nsends++;
    mpi->buffers[i] = buffer;
    mpi->requests[i] = buffer->request;
}

/* NULL: no memory. */
static struct trailing *add_trailing(struct mpi_wire *mpi, uint32_t peer,
                                     struct tug_buffer *buffer) {
    struct trailing *one = malloc(sizeof(*one));
    if (one == NULL)
        return NULL;
    struct trailing **at = &mpi->trailing;
    while (*at != NULL)
        at = &(*at)->next;
    *one = (struct trailing){.peer = peer, .buffer = buffer};
    *at = one;
    return one;
}

/* It is given up, as nothing has been sent. */
static void remove_trailing(struct mpi_wire *mpi, struct trailing *one) {
    TUG_LIST_TAKE_OUT(mpi->trailing, one);
    free(one);
}

static void send_trailer(const struct mpi_wire *mpi, struct trailing *one) {
    const struct tug_buffer *buffer = one->buffer;
    one->failed = tug_host.Isend_c(buffer->trailer, (MPI_Count)buffer->packet.trailer, MPI_BYTE,
                                   (int)one->peer, TUG_MPI_TAG_LONG, mpi->wire.fabric->comm,
                                   &one->request) != MPI_SUCCESS;
    tug_stat_add(TUG_STAT_HOST_MESSAGES, 1);
}

/* The packet has gone, or its trailer: with the second the buffer is given back. */
static void give_when_both(struct mpi_wire *mpi, struct tug_buffer *buffer) {
    if (buffer->packet.trailer > 0 && !buffer->half)
        buffer->half = true;
    else
        tug_pool_give(&mpi->wire.pool, buffer);
}

static bool mpi_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct mpi_wire *mpi = (struct mpi_wire *)wire;
    struct trailing *trailing = NULL;
    if (buffer->packet.trailer > 0 && (trailing = add_trailing(mpi, peer, buffer)) == NULL)
        return false;
    if (tug_host.Isend(buffer->memory, (int)buffer->packet.used, MPI_BYTE, (int)peer,
                       TUG_MPI_TAG_PACKET, wire->fabric->comm, &buffer->request) != MPI_SUCCESS) {
        if (trailing != NULL)
            remove_trailing(mpi, trailing);
        return false;
    }
    tug_stat_add(TUG_STAT_HOST_MESSAGES, 1);
    if (trailing != NULL)
        send_trailer(mpi, trailing);
    if (mpi->nsends < SENDS)
        look_at(mpi, buffer);
    else
        TUG_LIST_PUT(mpi->more_first, mpi->more_last, buffer);
    return true;
}

/* Closes the gaps that ended sends have left. */
static void close_gaps(struct mpi_wire *mpi) {
    uint32_t end = RECEIVES + mpi->nsends;
    for (uint32_t i = RECEIVES; i < end;) {
        if (mpi->buffers[i] != NULL) {
            i++;
            continue;
        }
        end--;
        mpi->buffers[i] = mpi->buffers[end];
        mpi->requests[i] = mpi->requests[end];
    }
    mpi->nsends = end - RECEIVES;
    while (mpi->more_first != NULL && mpi->nsends < SENDS) {
        struct tug_buffer *buffer = mpi->more_first;
        mpi->more_first = buffer->next;
        look_at(mpi, buffer);
    }
}

/* One look at everything. True if anything ended. */
static bool look(struct mpi_wire *mpi) {
    int indices[RECEIVES + SENDS], done = 0;
    MPI_Status statuses[RECEIVES + SENDS];
    bool sent = false;
    if (!tug_engine_enter_host())
        return false;
    tug_host.Testsome((int)(RECEIVES + mpi->nsends), mpi->requests, &done, indices, statuses);
    tug_engine_leave_host();
    if (done <= 0) /* MPI_UNDEFINED is negative */
        return false;
    for (int i = 0; i < done; i++) {
        uint32_t which = (uint32_t)indices[i];
        if (which < RECEIVES) {
            tug_host.Get_count(&statuses[i], MPI_BYTE, &mpi->came[which]);
            if ((unsigned)mpi->came[which] > TUG_MPI_PACKET_BYTES) /* it was cut off: no packet */
                mpi->came[which] = 0;
            mpi->from[which] = (uint32_t)statuses[i].MPI_SOURCE;
        } else {
            give_when_both(mpi, mpi->buffers[which]);
            mpi->buffers[which] = NULL;
            sent = true;
        }
    }
    if (sent)
        close_gaps(mpi);
    return true;
}

/* ---- trailers ---- */

/* The oldest trailer but that one that is received from that source; NULL: none is. */
static struct trailing *find(const struct mpi_wire *mpi, uint32_t source,
                             const struct trailing *but) {
    struct trailing *one = mpi->trailing;
    while (one != NULL && (one->buffer != NULL || one->peer != source || one == but))
        one = one->next;
    return one;
}

/* A packet of its source has come, of so many bytes. */
static void wait_for(struct trailing *one, struct tug_buffer *buffer, uint32_t bytes) {
    buffer->packet.used = bytes;
    TUG_LIST_PUT(one->waiting_first, one->waiting_last, buffer);
}

static void receive_trailer(struct mpi_wire *mpi, struct trailing *one, uint32_t bytes) {
    struct tug_wire *wire = &mpi->wire;
    size_t room = bytes;
    unsigned char *to = NULL;
    if (!one->dropped)
        to = wire->trailer_address(wire->receiver, one->peer, 0, &room);
    if (to == NULL)
        to = one->unwanted = malloc(bytes);
    /* there is no memory, or who sends so much has other settings */
    one->failed = to == NULL || room < bytes;
    if (!one->failed)
        one->failed =
            tug_host.Irecv_c(to, (MPI_Count)bytes, MPI_BYTE, (int)one->peer, TUG_MPI_TAG_LONG,
                             wire->fabric->comm, &one->request) != MPI_SUCCESS;
}

/* Bytes that follow what may be a packet of that source. */
static uint32_t trailer_of(const struct mpi_wire *mpi, uint32_t source, const void *memory,
                           size_t bytes) {
    const struct tug_packet_header *header = memory;
    if (bytes < sizeof(*header) || header->magic != TUG_PACKET_MAGIC ||
        header->version != TUG_PACKET_VERSION || header->context != mpi->wire.fabric->id ||
        header->source != source)
        return 0;
    return header->trailer;
}

/* Hands a packet up. False: not now, for want of memory. */
static bool hand_up(struct mpi_wire *mpi, uint32_t source, const void *memory, size_t bytes) {
    struct tug_wire *wire = &mpi->wire;
    const uint32_t trailer = trailer_of(mpi, source, memory, bytes);
    struct trailing *one = trailer > 0 ? add_trailing(mpi, source, NULL) : NULL;
    if (trailer > 0 && one == NULL)
        return false;
    if (!wire->receive(wire->receiver, wire, memory, bytes)) {
        if (one != NULL)
            remove_trailing(mpi, one);
        return false;
    }
    if (one != NULL) {
        struct tug_packet_reader reader;
        one->dropped = tug_packet_open(&reader, memory, bytes, wire->fabric->id,
                                       wire->fabric->nranks) != TUG_PACKET_GOOD;
        wire->pool.nout++; /* something is under way */
        receive_trailer(mpi, one, trailer);
    }
    return true;
}

/* Is it the oldest that is sent to its peer, or received from it, and has not ended? */
static bool is_next(const struct mpi_wire *mpi, const struct trailing *one) {
    const struct trailing *other = mpi->trailing;
    while (other->over || other->peer != one->peer ||
           (other->buffer == NULL) != (one->buffer == NULL))
        other = other->next;
    return other == one;
}

/* Has its message ended? */
static bool is_done(struct trailing *one) {
    int done = 0;
    if (!one->failed)
        one->failed = tug_host.Test(&one->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    return done || one->failed;
}

static void free_trailing(struct trailing *one) {
    free(one->unwanted);
    free(one);
}

/* May a packet of that source be handed up, while that trailer is the oldest that is received?
 * Behind one for which there was no receive the next would be taken for it. */
static bool may_pass(const struct mpi_wire *mpi, const struct trailing *one, uint32_t source,
                     const void *memory, size_t bytes) {
    for (const struct trailing *other = one; other != NULL; other = other->next)
        if (other->failed && other->buffer == NULL && other->peer == source)
            return false;
    return one == NULL || (one->waiting_first == NULL &&
                           mpi->wire.lets_pass(mpi->wire.receiver, source, memory, bytes));
}

/* What has come behind a trailer is handed up, as far as it may be. False: some cannot be now, for
 * want of memory. */
static bool hand_up_waiting(struct mpi_wire *mpi, struct trailing *before) {
    while (before->waiting_first != NULL) {
        struct tug_buffer *buffer = before->waiting_first, *next = buffer->next;
        struct trailing *one = find(mpi, before->peer, before);
        const uint32_t bytes = buffer->packet.used;
        const bool passes = may_pass(mpi, one, before->peer, buffer->memory, bytes);
        if (passes && !hand_up(mpi, before->peer, buffer->memory, bytes))
            return false;
        before->waiting_first = next;
        if (passes)
            tug_pool_give(&mpi->wire.pool, buffer);
        else
            wait_for(one, buffer, bytes);
    }
    return true;
}

static void end_message(struct mpi_wire *mpi, const struct trailing *one) {
    struct tug_wire *wire = &mpi->wire;
    if (one->buffer != NULL) {
        wire->sent(wire->receiver, one->peer, one->buffer);
        give_when_both(mpi, one->buffer);
    } else {
        wire->pool.nout--;
        if (!one->dropped)
            wire->arrived(wire->receiver, one->peer, !one->failed);
    }
    if (one->failed)
        wire->ended(wire->receiver, one->peer);
}

/* Has its message just ended? The host is asked only about the next of each peer and direction. */
static bool ends(const struct mpi_wire *mpi, struct trailing *one) {
    if (one->over || !is_next(mpi, one) || !tug_engine_enter_host())
        return false;
    one->over = is_done(one);
    tug_engine_leave_host();
    return one->over;
}

/* True if any has ended. What they end may begin others, which come behind them. One behind which
 * something waits that cannot be handed up stays where it is. */
static bool look_at_trailers(struct mpi_wire *mpi) {
    struct trailing **at = &mpi->trailing, *one;
    bool any = false;
    while ((one = *at) != NULL) {
        if (ends(mpi, one)) {
            any = true;
            end_message(mpi, one);
        }
        if (one->over && hand_up_waiting(mpi, one)) {
            *at = one->next;
            free_trailing(one);
        } else {
            at = &one->next;
        }
    }
    return any;
}

/* Of sends: who has not begun to receive them will do so when it looks, lost or not. */
static void mpi_lost(struct tug_wire *wire, uint32_t peer) {
    const struct mpi_wire *mpi = (const struct mpi_wire *)wire;
    for (const struct trailing *one = mpi->trailing; one != NULL; one = one->next)
        if (one->buffer != NULL && !one->over && one->peer == peer)
            wire->keeps(wire->receiver, one->buffer);
}

/* ---- polling ---- */

/* Hands up what that receive has brought, or lets it wait for a trailer. False: no memory. */
static bool take(struct mpi_wire *mpi, uint32_t i) {
    struct trailing *one = find(mpi, mpi->from[i], NULL);
    const void *memory = mpi->buffers[i]->memory;
    const size_t bytes = (size_t)mpi->came[i];
    if (may_pass(mpi, one, mpi->from[i], memory, bytes))
        return hand_up(mpi, mpi->from[i], memory, bytes);
    struct tug_buffer *other = tug_pool_take(&mpi->wire.pool);
    if (other == NULL)
        return false;
    wait_for(one, mpi->buffers[i], (uint32_t)bytes);
    mpi->buffers[i] = other;
    return true;
}

static bool mpi_poll(void *state) {
    struct mpi_wire *mpi = state;
    bool moved = look(mpi);
    for (uint32_t taken = 0; taken < RECEIVES && mpi->came[mpi->oldest] >= 0; taken++) {
        uint32_t i = mpi->oldest;
        if (!take(mpi, i))
            break;
        post_receive(mpi, i);
        mpi->oldest = (i + 1) % RECEIVES;
        moved = true;
    }
    moved |= look_at_trailers(mpi); /* last: one that has just been begun may be there already */
    return moved;
}

/* The host tells nobody that something has come. */
static bool mpi_arm(void *state) {
    (void)state;
    return false;
}

static void mpi_close(void *state) {
    struct mpi_wire *mpi = state;
    for (uint32_t i = 0; i < RECEIVES; i++) {
        tug_host.Cancel(&mpi->requests[i]);
        tug_host.Wait(&mpi->requests[i], MPI_STATUS_IGNORE);
        free(mpi->buffers[i]);
    }
    while (mpi->trailing != NULL) {
        struct trailing *one = mpi->trailing;
        mpi->trailing = one->next;
        if (!one->failed && !one->over)
            tug_host.Request_free(&one->request);
        while (one->waiting_first != NULL) {
            struct tug_buffer *buffer = one->waiting_first;
            one->waiting_first = buffer->next;
            free(buffer);
        }
        free_trailing(one);
    }
    tug_pool_fini(&mpi->wire.pool);
    free(mpi);
}

static void release(struct mpi_wire *mpi) {
    for (uint32_t i = 0; i < RECEIVES; i++)
        free(mpi->buffers[i]);
    free(mpi);
}

static struct mpi_wire *make(struct tug_fabric *fabric) {
    struct mpi_wire *mpi = calloc(1, sizeof(*mpi));
    if (mpi == NULL)
        return NULL;
    mpi->wire = (struct tug_wire){.row = &tug_transport_mpi, .fabric = fabric};
    mpi->wire.pool.bytes = TUG_MPI_PACKET_BYTES;
    for (uint32_t i = 0; i < RECEIVES; i++) {
        mpi->buffers[i] = tug_pool_take(&mpi->wire.pool);
        if (mpi->buffers[i] == NULL) {
            release(mpi);
            return NULL;
        }
    }
    return mpi;
}

static void begin(struct mpi_wire *mpi) {
    for (uint32_t i = 0; i < RECEIVES; i++)
        post_receive(mpi, i);
    mpi->wire.pool.nout = 0; /* what is under way: receives always are */
}

static void *mpi_make(struct tug_fabric *fabric) {
    struct mpi_wire *mpi = make(fabric);
    if (mpi != NULL)
        begin(mpi);
    return mpi;
}

static int mpi_open(struct tug_fabric *fabric, void **state, char *reason) {
    struct mpi_wire *mpi = make(fabric);
    (void)reason;
    if (tug_all_agree(fabric->comm, mpi != NULL)) {
        begin(mpi);
        *state = mpi;
        return 0;
    }
    if (mpi != NULL)
        release(mpi);
    return TUG_ERR_NO_MEMORY;
}

const struct tug_transport tug_transport_mpi = {.name = "mpi",
                                                .packet_bytes = TUG_MPI_PACKET_BYTES,
                                                .help = "packets by messages of the host MPI",
                                                .open = mpi_open,
                                                .make = mpi_make,
                                                .close = mpi_close,
                                                .poll = mpi_poll,
                                                .arm = mpi_arm,
                                                .send = mpi_send,
                                                .longs = {TUG_MPI_LONG_LEAST, TUG_MPI_LONG_LEAST,
                                                          TUG_TRAILER_MOST, TUG_STAGE_BYTES,
                                                          LONGS_AT_ONCE},
                                                .piles_up = true,
                                                .lost = mpi_lost};

size_t tug_wire_mpi_footprint(void) {
    return sizeof(struct mpi_wire) + RECEIVES * (sizeof(struct tug_buffer) + TUG_MPI_PACKET_BYTES);
}

/* The row mpi: a packet is a message of the host MPI on the fabric's communicator.
 *
 * Receives for any source are always posted, and are looked at in the order of their posting, in
 * which MPI matches them: packets of one source stay in order. Large blocks go by themselves, from
 * memory to memory: see bulk.c.
 */
#include <stdlib.h>

#include "base/stats.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "transport/packets/wire.h"

#define RECEIVES 16u
#define SENDS 64u /* looked at in one poll */

struct mpi_wire {
    struct tug_wire wire;
    /* receives, then sends: all are looked at by one call, since each makes a pass of progress */
    MPI_Request requests[RECEIVES + SENDS];
    struct tug_buffer *buffers[RECEIVES + SENDS];
    int came[RECEIVES]; /* bytes of a receive that is done, -1: it is not */
    uint32_t oldest;    /* receive */
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

static bool mpi_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct mpi_wire *mpi = (struct mpi_wire *)wire;
    if (tug_host.Isend(buffer->memory, (int)buffer->packet.used, MPI_BYTE, (int)peer,
                       TUG_MPI_TAG_PACKET, wire->fabric->comm, &buffer->request) != MPI_SUCCESS)
        return false;
    tug_stat_add(TUG_STAT_HOST_MESSAGES, 1);
    buffer->next = NULL;
    if (mpi->nsends < SENDS) {
        look_at(mpi, buffer);
        return true;
    }
    if (mpi->more_first == NULL)
        mpi->more_first = buffer;
    else
        mpi->more_last->next = buffer;
    mpi->more_last = buffer;
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
        } else {
            tug_pool_give(&mpi->wire.pool, mpi->buffers[which]);
            mpi->buffers[which] = NULL;
            sent = true;
        }
    }
    if (sent)
        close_gaps(mpi);
    return true;
}

static bool mpi_poll(void *state) {
    struct mpi_wire *mpi = state;
    struct tug_wire *wire = &mpi->wire;
    bool moved = look(mpi);
    for (uint32_t taken = 0; taken < RECEIVES && mpi->came[mpi->oldest] >= 0; taken++) {
        uint32_t i = mpi->oldest;
        wire->receive(wire->receiver, wire, mpi->buffers[i]->memory, (size_t)mpi->came[i]);
        post_receive(mpi, i);
        mpi->oldest = (i + 1) % RECEIVES;
        moved = true;
    }
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
    tug_pool_fini(&mpi->wire.pool);
    free(mpi);
}

/* The pool counts what is under way; receives always are. */
static bool take_receives(struct mpi_wire *mpi) {
    for (uint32_t i = 0; i < RECEIVES; i++) {
        mpi->buffers[i] = tug_pool_take(&mpi->wire.pool);
        if (mpi->buffers[i] == NULL)
            return false;
    }
    return true;
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
    if (take_receives(mpi))
        return mpi;
    release(mpi);
    return NULL;
}

static void begin(struct mpi_wire *mpi) {
    for (uint32_t i = 0; i < RECEIVES; i++)
        post_receive(mpi, i);
    mpi->wire.pool.nout = 0;
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
                                                .help = "packets by messages of the host MPI",
                                                .open = mpi_open,
                                                .make = mpi_make,
                                                .close = mpi_close,
                                                .poll = mpi_poll,
                                                .arm = mpi_arm,
                                                .send = mpi_send,
                                                .blocks = true,
                                                .piles_up = true};

size_t tug_wire_mpi_footprint(void) {
    return sizeof(struct mpi_wire) + RECEIVES * (sizeof(struct tug_buffer) + TUG_MPI_PACKET_BYTES);
}

size_t tug_wire_mpi_packet(void) {
    return sizeof(struct tug_buffer) + TUG_MPI_PACKET_BYTES;
}

/* The mpi wire: a packet is a message of the host MPI on the fabric's communicator.
 *
 * Receives for any source are always posted, and are looked at in the order of their posting, in
 * which MPI matches them: packets of one source stay in order. Large blocks go by themselves, from
 * memory to memory: see bulk.c.
 */
#include <stdlib.h>

#include "host/host.h"
#include "transport/segment.h"
#include "transport/wire.h"

#define PACKET_BYTES 32768u
#define RECEIVES 16u
#define PACKETS_A_POLL 16
#define SENDS_LOOKED_AT 4 /* that are not done, a poll */

struct mpi_wire {
    struct tug_wire wire;
    struct tug_buffer *receives[RECEIVES];
    uint32_t oldest; /* receive */
    struct tug_buffer *sent_first, *sent_last;
};

static void post_receive(struct mpi_wire *mpi, uint32_t i) {
    struct tug_buffer *buffer = mpi->receives[i];
    tug_host.Irecv(buffer->memory, PACKET_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TUG_MPI_TAG_PACKET,
                   mpi->wire.fabric->comm, &buffer->request);
}

static bool mpi_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct mpi_wire *mpi = (struct mpi_wire *)wire;
    if (tug_host.Isend(buffer->memory, (int)buffer->packet.used, MPI_BYTE, (int)peer,
                       TUG_MPI_TAG_PACKET, wire->fabric->comm, &buffer->request) != MPI_SUCCESS)
        return false;
    buffer->next = NULL;
    if (mpi->sent_first == NULL)
        mpi->sent_first = buffer;
    else
        mpi->sent_last->next = buffer;
    mpi->sent_last = buffer;
    return true;
}

/* Gives back the buffers of sends that are done. */
static bool collect_sent(struct mpi_wire *mpi) {
    struct tug_buffer **at = &mpi->sent_first, *last = NULL;
    unsigned under_way = 0;
    bool moved = false;
    while (*at != NULL && under_way < SENDS_LOOKED_AT) {
        struct tug_buffer *buffer = *at;
        int done = 0;
        tug_host.Test(&buffer->request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            under_way++;
            last = buffer;
            at = &buffer->next;
            continue;
        }
        *at = buffer->next;
        if (buffer == mpi->sent_last)
            mpi->sent_last = last;
        tug_pool_give(&mpi->wire.pool, buffer);
        moved = true;
    }
    return moved;
}

static bool mpi_poll(struct tug_wire *wire) {
    struct mpi_wire *mpi = (struct mpi_wire *)wire;
    bool moved = mpi->sent_first != NULL && collect_sent(mpi);
    for (int taken = 0; taken < PACKETS_A_POLL; taken++) {
        uint32_t i = mpi->oldest;
        MPI_Status status;
        int done = 0, bytes = 0;
        tug_host.Test(&mpi->receives[i]->request, &done, &status);
        if (!done)
            break;
        tug_host.Get_count(&status, MPI_BYTE, &bytes);
        wire->receive(wire->receiver, wire, mpi->receives[i]->memory, (size_t)bytes);
        post_receive(mpi, i);
        mpi->oldest = (i + 1) % RECEIVES;
        moved = true;
    }
    return moved;
}

static bool mpi_busy(struct tug_wire *wire) {
    return ((struct mpi_wire *)wire)->sent_first != NULL;
}

static void mpi_close(struct tug_wire *wire) {
    struct mpi_wire *mpi = (struct mpi_wire *)wire;
    for (uint32_t i = 0; i < RECEIVES; i++) {
        struct tug_buffer *buffer = mpi->receives[i];
        if (buffer == NULL)
            continue;
        tug_host.Cancel(&buffer->request);
        tug_host.Wait(&buffer->request, MPI_STATUS_IGNORE);
        free(buffer);
    }
    tug_pool_fini(&wire->pool);
    free(mpi);
}

static const struct tug_wire_type mpi_type = {
    .name = "mpi", .send = mpi_send, .poll = mpi_poll, .busy = mpi_busy, .close = mpi_close};

/* The pool counts what is under way; receives always are. */
static bool take_receives(struct mpi_wire *mpi) {
    for (uint32_t i = 0; i < RECEIVES; i++) {
        mpi->receives[i] = tug_pool_take(&mpi->wire.pool);
        if (mpi->receives[i] == NULL)
            return false;
    }
    return true;
}

struct tug_wire *tug_wire_mpi_open(struct tug_fabric *fabric, int *status) {
    struct mpi_wire *mpi = calloc(1, sizeof(*mpi));
    bool good = mpi != NULL;
    if (good) {
        mpi->wire = (struct tug_wire){.type = &mpi_type, .fabric = fabric};
        mpi->wire.pool.bytes = PACKET_BYTES;
        good = take_receives(mpi);
    }
    *status = tug_all_agree(fabric->comm, good) ? 0 : TUG_ERR_NO_MEMORY;
    if (*status != 0) {
        for (uint32_t i = 0; mpi != NULL && i < RECEIVES; i++)
            free(mpi->receives[i]);
        free(mpi);
        return NULL;
    }
    for (uint32_t i = 0; i < RECEIVES; i++)
        post_receive(mpi, i);
    mpi->wire.pool.nout = 0;
    return &mpi->wire;
}

size_t tug_wire_mpi_footprint(void) {
    return sizeof(struct mpi_wire) + RECEIVES * (sizeof(struct tug_buffer) + PACKET_BYTES);
}

size_t tug_wire_mpi_packet(void) {
    return sizeof(struct tug_buffer) + PACKET_BYTES;
}

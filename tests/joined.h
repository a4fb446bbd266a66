/* One of two processes that are both in this one, for tests without MPI: a fabric as
 * tug_context_create() makes it, and its packets over one wire of the test's own. The rest of it is
 * the test's to fill in. False: no memory. */
#ifndef TUG_TEST_JOINED_H
#define TUG_TEST_JOINED_H

#include <stdlib.h>
#include <string.h>

#include "transport/packets/packets.h"
#include "transport/transport.h"

#define JOINED_ID 77

static inline bool joined_begin(struct tug_fabric *fabric, uint32_t rank, uint32_t noperations) {
    static uint32_t both[2] = {0, 1};
    const size_t bytes = noperations * sizeof(struct tug_operation);
    fabric->comm = fabric->node_comm = MPI_COMM_NULL;
    fabric->rank = fabric->node_rank = rank;
    fabric->nranks = fabric->node_size = 2;
    fabric->node_ranks = both;
    fabric->id = JOINED_ID;
    fabric->noperations = noperations;
    fabric->operations = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (fabric->operations == NULL || tug_tags_init(&fabric->tags, noperations) != 0 ||
        tug_tags_keep_in_hand(&fabric->tags, noperations / 4) != 0 ||
        tug_memory_table_init(&fabric->memory) != 0)
        return false;
    memset((void *)fabric->operations, 0, bytes);
    return true;
}

static inline void joined_end(struct tug_fabric *fabric) {
    tug_tags_fini(&fabric->tags);
    tug_memory_table_fini(&fabric->memory);
    free((void *)fabric->operations);
}

/* Packets of at most packet_bytes go by the wire, which is of that type; streams has two places. */
static inline void joined_by(struct tug_fabric *fabric, struct tug_packets *packets,
                             struct tug_stream **streams, struct tug_wire *wire,
                             const struct tug_transport *type, uint32_t packet_bytes) {
    static struct tug_load loads[2]; /* each process's own */
    fabric->ways |= TUG_WAY_SHM;
    fabric->packets = packets;
    packets->fabric = fabric;
    packets->load = &loads[fabric->rank];
    *packets->load = (struct tug_load){0};
    packets->streams = streams;
    packets->fold_at = TUG_STREAMS_KEPT;
    *wire = (struct tug_wire){.row = type, .fabric = fabric, .pool = {.bytes = packet_bytes}};
    packets->nwires = 0;
    tug_packets_attach(packets, wire);
}

#endif

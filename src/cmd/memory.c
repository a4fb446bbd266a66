/*
 * `tugboat info --memory`: what LLCL keeps in one process of a large job, use by use.
 *
 * In the manner of Saga et al., HPC-148 (2015), table 3. Every figure is computed from the sizes of
 * the structures themselves, which their rooms tell, and from the settings; nothing is measured and
 * no MPI is initialised. Counted is what stays when nothing is under way, after the first contact
 * with all the peers in use; the host MPI's own memory is not known here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acp/layer.h"
#include "base/rankset.h"
#include "base/settings.h"
#include "base/system_page.h"
#include "cmd/cmd.h"
#include "engine/ring.h"
#include "gas/array.h"
#include "llcl/batch.h"
#include "llcl/llcl.h"
#include "llcl/vector.h"
#include "rma/rma.h"
#include "node/page.h"
#include "node/view.h"
#include "transport/packets/packets.h"
#include "transport/verbs/verbs.h"
#include "transport/packets/wire.h"

#define ACTIVE_DEFAULT 1024
#define RANKS_MOST ((uint64_t)INT32_MAX)
#define REGISTRATIONS 255 /* as the paper counts */
#define NODE 128          /* processes of a node */

struct table {
    size_t part, total;
};

static void print_bytes(const char *use, size_t bytes, const char *how) {
    printf("%-36s %12zu%s%s\n", use, bytes, how[0] != '\0' ? "  " : "", how);
}

static void row(struct table *table, const char *use, size_t bytes, const char *how) {
    char indented[64];
    snprintf(indented, sizeof indented, "  %s", use);
    print_bytes(indented, bytes, how);
    table->part += bytes;
}

/* A row of so many of that size. */
static void row_of(struct table *table, const char *use, uint64_t count, size_t bytes,
                   const char *what) {
    char how[80];
    snprintf(how, sizeof how, "%llu %s of %zu", (unsigned long long)count, what, bytes);
    row(table, use, count * bytes, how);
}

/* Ends a part of the table. */
static void sum(struct table *table, const char *name) {
    print_bytes(name, table->part, "");
    table->total += table->part;
    table->part = 0;
}

/* The table is of zero pages: those become memory that hold the entry of a peer in use. */
static void print_entries(struct table *table, const char *use, size_t bytes, uint32_t active) {
    const size_t pages = tug_page_up(bytes) / tug_page_bytes();
    char how[80];
    snprintf(how, sizeof how, "at most %zu pages in use, of %zu bytes",
             pages < active ? pages : active, bytes);
    row(table, use, (pages < active ? pages : active) * tug_page_bytes(), how);
}

/* What every context has. */
static void print_context(struct table *table, uint64_t ranks, uint32_t active) {
    const uint64_t operations = tug_settings.operations;
    const size_t bare = tug_packets_footprint(0, 0);
    const struct tug_context_footprint context = tug_context_footprint();
    row_of(table, "operation table", operations, sizeof(struct tug_operation), "operations");
    row_of(table, "free tags", operations, sizeof(uint32_t), "tags");
    row(table, "context", context.context + bare,
        "handlers, allocated segments, chunks of registrations");
    row_of(table, "node's processes", NODE, context.node_process, "entries");
    row_of(table, "registered memory", REGISTRATIONS,
           tug_memory_footprint(REGISTRATIONS) / REGISTRATIONS, "registrations");
    row(table, "others' registered memory", 0, "none: keys are the program's");
    print_entries(table, "pointers to peers", tug_packets_footprint(ranks, 0) - bare, active);
    const uint32_t kept = active < TUG_STREAMS_KEPT_MOST ? active : TUG_STREAMS_KEPT_MOST;
    row_of(table, "peers in use", kept, tug_packets_footprint(0, 1) - bare, "streams");
    if (active > kept)
        print_entries(table, "folded streams", ranks * sizeof(struct tug_folded), active);
    sum(table, "every context");
}

/* What a pool keeps: so many buffers, and small ones. */
static void print_kept(struct table *table, size_t most, size_t packet) {
    row_of(table, "packets kept for later, at most", most, packet, "packets");
    row_of(table, "small ones, for answers, at most", TUG_SMALL_KEPT,
           sizeof(struct tug_buffer) + TUG_SMALL_PACKET_BYTES, "packets");
}

/* Of a packet, with what it is kept in. */
static size_t packet_of(const struct tug_transport *row) {
    return sizeof(struct tug_buffer) + row->packet_bytes;
}

static void print_wires(struct table *table, uint64_t ranks, uint32_t active) {
    const size_t shm = packet_of(&tug_transport_shm), mpi = packet_of(&tug_transport_mpi);
    const size_t tcp = packet_of(&tug_transport_tcp), all = tug_wire_tcp_footprint(ranks, 0);
    const size_t endpoint = tug_wire_tcp_endpoint_footprint(0);
    row(table, "page, registrations and inbox", sizeof(struct tug_node_memory),
        "what is used of it");
    sum(table, "every process of a node");
    row(table, "wire", tug_wire_shm_footprint(0), "");
    row_of(table, "node's processes", NODE,
           (tug_wire_shm_footprint(NODE) - tug_wire_shm_footprint(0)) / NODE, "words");
    print_kept(table, tug_pool_spare_most(shm), shm);
    sum(table, "packets by shm");
    row(table, "receive buffers", tug_wire_mpi_footprint(), "always posted");
    print_kept(table, tug_pool_spare_most(mpi), mpi);
    sum(table, "packets by mpi");
    if (all == 0) /* so large a job goes by mpi */
        return;
    row(table, "addresses", all, "where the host goes by sockets");
    row_of(table, "peers in use", active, (tug_wire_tcp_footprint(ranks, active) - all) / active,
           "entries");
    print_kept(table, tug_pool_spare_most(tcp), tcp);
    sum(table, "packets by tcp");
    row(table, "receive buffer", endpoint, "once, for all contexts");
    row_of(table, "connected peers", active,
           (tug_wire_tcp_endpoint_footprint(active) - endpoint) / active, "links");
    sum(table, "endpoint of tcp");
}

/* Only where it is used. */
static void print_ofi(struct table *table, uint64_t ranks) {
    const size_t packet = packet_of(&tug_transport_ofi);
    char reason[256];
    if (!(tug_settings.transports & TUG_WAY_OFI) || tug_transport_ofi.missing(reason))
        return;
    row_of(table, "addresses", ranks,
           (tug_wire_ofi_footprint(ranks) - tug_wire_ofi_footprint(0)) / ranks, "libfabric's");
    print_kept(table, tug_pool_spare_most(packet), packet);
    sum(table, "packets by ofi");
    row(table, "receive buffers", tug_wire_ofi_endpoint_footprint(),
        "once, for all contexts; the provider's memory is not in it");
    sum(table, "endpoint of ofi");
}

static void print_devices(struct table *table, uint32_t active) {
    struct tug_verbs_footprint verbs;
    if (tug_verbs_footprint((uint32_t)tug_settings.operations, active, &verbs)) {
        row(table, "verbs transport", verbs.view, "");
        row_of(table, "verbs peers in use", verbs.known, verbs.contacts / verbs.known, "entries");
        print_kept(table, verbs.kept, verbs.packet);
        sum(table, "verbs");
        row(table, "device and queues", verbs.endpoint, "once, for all contexts");
        row(table, "packets' registered memory", verbs.messages, "where packets go by it");
        row_of(table, "peers known", verbs.known, verbs.pairs / verbs.known, "pairs");
        row_of(table, "connected peers", verbs.connected, verbs.connection,
               "queue pairs, an estimate of the driver's");
        row(table, "completions, an estimate", verbs.completions, "the driver's, in this process");
        sum(table, "endpoint of verbs");
    }
}

/* Starter memory is the program's. */
static void print_acp(uint64_t ranks, uint32_t active) {
    struct table table = {0};
    const uint32_t tables = active < TUG_ACP_TABLES ? active : TUG_ACP_TABLES;
    const uint64_t group = (ranks - 1) / tug_settings.acp_keys + 1,
                   leaders = (ranks - 1) / group + 1;
    row_of(&table, "ACP commands", TUG_ACP_COMMANDS, sizeof(struct tug_acp_slot), "slots");
    row_of(&table, "others' ACP commands", TUG_ACP_RELAYED, sizeof(struct tug_acp_command),
           "commands");
    row_of(&table, "others' ACP keys", tables, sizeof(struct tug_acp_table), "tables");
    row_of(&table, "who has a table", ranks, sizeof(uint16_t), "ranks");
    row_of(&table, "starter keys", leaders, sizeof(struct tug_key), "ranks");
    row_of(&table, "entries that others read", TUG_ACP_KEYS + group, sizeof(struct tug_acp_entry),
           "entries");
    print_bytes("and if ACP runs", table.part, "");
}

/* Pages themselves are the program's. */
static void print_array(uint64_t ranks, uint32_t active) {
    struct table table = {0};
    const struct tug_array_footprint array = tug_array_footprint((uint32_t)tug_settings.operations);
    row_of(&table, "orders of an array", array.norders, array.order, "orders");
    print_entries(&table, "pointers to others' pools", ranks * array.pointer, active);
    row_of(&table, "others' pools in use", active, array.pool, "keys and addresses");
    row_of(&table, "others' pages, by default", TUG_ARRAY_PLACES, array.entry, "places");
    print_bytes("and for each array", table.part + array.bare, "beside its context");
    row(&table, "and for each further part of a pool in use", array.part, "of 64, or 1 MiB");
    row(&table, "and for each page with room here", array.entry + array.slot, "place");
    row(&table, "and for each page whose home it is", array.record, "record");
    row(&table, "and if the peers in use know that page", tug_rankset_bytes(ranks, active), "list");
}

/* Windows share a context. Their memory is the program's. */
static void print_window(uint64_t ranks, uint32_t active) {
    struct table table = {0};
    const size_t bare = tug_remote_footprint(0, 0);
    row_of(&table, "ranks of a window", ranks, tug_remote_footprint(1, 0) - bare,
           "keys, sizes and pointers");
    row_of(&table, "targets in use", active, tug_remote_footprint(0, 1) - bare, "targets");
    print_bytes("and for each window", table.part + bare, "in the packet lane");
    row(&table, "and for each target of the node", tug_vector_footprint(),
        "at most, if small operations are gathered for it");
}

static void print_table(uint64_t ranks, uint32_t active) {
    struct table table = {0};
    printf("memory of LLCL in one of %llu processes that has to do with %u others, in bytes\n",
           (unsigned long long)ranks, active);
    row_of(&table, "command ring", tug_settings.ring_size, sizeof(struct tug_command), "commands");
    row(&table, "batch of one thread", sizeof(struct tug_batch), "small operations that it starts");
    sum(&table, "engine");
    print_context(&table, ranks, active);
    print_wires(&table, ranks, active);
    print_ofi(&table, ranks);
    print_devices(&table, active);
    print_bytes("all of it", table.total, "");
    table.total = 0;
    const size_t packet =
        packet_of(tug_wire_tcp_footprint(ranks, 0) > 0 ? &tug_transport_tcp : &tug_transport_mpi);
    row_of(&table, "and on its way to one peer, at most", TUG_STREAM_WINDOW + 1, packet, "packets");
    row(&table, "and to all of them, at most", tug_packets_under_way(active, packet),
        "over all contexts, if none answers");
    row(&table, "and theirs to us, at most", tug_packets_unexpected(active),
        "with the host, if we do not look and it carries packets");
    row(&table, "and answers that nobody takes, at most", tug_packets_withheld(active, packet),
        "withheld from all of them");
    row_of(&table, "and long messages that come, at most", active, TUG_STAGE_BYTES,
           "stages, while they come");
    row(&table, "and views of lent memory", tug_views_footprint(),
        "for each process of the node that lends any");
    print_window(ranks, active);
    print_acp(ranks, active);
    print_array(ranks, active);
}

int tug_cmd_memory(const char *text) {
    uint64_t ranks = 0, active = 0;
    const char *at = text != NULL ? text : "";
    bool good = tug_take_number(&at, RANKS_MOST, &ranks);
    if (good && *at == ',') {
        at++;
        good = tug_take_number(&at, ranks, &active);
    }
    if (!good || *at != '\0') {
        tug_cmd_say("info --memory needs RANKS or RANKS,ACTIVE, for example 1000000,1024");
        return TUG_EXIT_USAGE;
    }
    if (tug_cmd_load_settings() != 0)
        return 1;
    if (active == 0)
        active = ranks < ACTIVE_DEFAULT ? ranks : ACTIVE_DEFAULT;
    print_table(ranks, (uint32_t)active);
    return 0;
}

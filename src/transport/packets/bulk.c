/* Large blocks by messages of their own, from registered memory to registered memory, over MPI.
 *
 *      WRITE    origin                     target
 *                 | -- BULK_WRITE ----------> |  the memory is looked up, a receive posted
 *                 | <---------- BULK_READY -- |
 *                 | == the block ===========> |
 *                 | <----------- BULK_DONE -- |
 *
 *      READ     a receive is posted
 *                 | -- BULK_READ -----------> |  the memory is looked up
 *                 | <=========== the block == |
 *
 * or FAILED instead of the first answer. The messages' tags come from the operation's: the origin's
 * operations are all its own, so no two blocks between a pair have one tag.
 *
 * Memory that the host has is its own until its message has ended, also when the peer is lost. Of
 * two who have lost each other who receives takes the receive back, and puts a *sink* in its place,
 * which takes a block that is sent all the same, and keeps nothing of it: so the sender's message
 * ends as well.
 */
#include <stdlib.h>

#include "base/stats.h"
#include "host/host.h"
#include "engine/engine.h"
#include "transport/packets/apply.h"
#include "transport/packets/packets.h"

enum role { WRITE_OUT, READ_IN, SERVE_WRITE, SERVE_READ };

struct tug_bulk {
    struct tug_bulk *next;
    enum role role;
    bool under_way; /* the message is posted */
    bool dropped;   /* nobody waits for it */
    bool failed;    /* the host reported an error */
    bool lost;      /* the peer is lost */
    bool taken_back;
    uint32_t peer;
    uint32_t tag; /* of the operation at its origin */
    MPI_Request request;
    struct tug_registration *registration; /* SERVE_* */
};

static int mpi_tag(uint32_t tag, bool read) {
    return TUG_MPI_TAG_BULK + (int)(2 * tag) + read;
}

static struct tug_bulk *add(struct tug_packets *packets, enum role role, uint32_t peer,
                            uint32_t tag) {
    struct tug_bulk *bulk = malloc(sizeof(*bulk));
    if (bulk == NULL)
        return NULL;
    *bulk = (struct tug_bulk){.next = packets->bulk, .role = role, .peer = peer, .tag = tag};
    packets->bulk = bulk;
    return bulk;
}

static void receive(const struct tug_packets *packets, struct tug_bulk *bulk, void *block,
                    uint64_t bytes, bool read) {
    bulk->failed = tug_host.Irecv_c(block, (MPI_Count)bytes, MPI_BYTE, (int)bulk->peer,
                                    mpi_tag(bulk->tag, read), packets->fabric->comm,
                                    &bulk->request) != MPI_SUCCESS;
    bulk->under_way = true;
}

static void send(const struct tug_packets *packets, struct tug_bulk *bulk, const void *block,
                 uint64_t bytes, bool read) {
    bulk->failed = tug_host.Isend_c(block, (MPI_Count)bytes, MPI_BYTE, (int)bulk->peer,
                                    mpi_tag(bulk->tag, read), packets->fabric->comm,
                                    &bulk->request) != MPI_SUCCESS;
    bulk->under_way = true;
    tug_stat_add(TUG_STAT_HOST_MESSAGES, 1);
}

/* NULL: the block of that operation of ours has moved. */
static struct tug_bulk *find(const struct tug_packets *packets,
                             const struct tug_operation *operation) {
    uint32_t tag = tug_fabric_tag(packets->fabric, operation);
    struct tug_bulk *bulk = packets->bulk;
    while (bulk != NULL && ((bulk->role != READ_IN && bulk->role != WRITE_OUT) ||
                            bulk->tag != tag || bulk->dropped))
        bulk = bulk->next;
    return bulk;
}

bool tug_bulk_announce(struct tug_packets *packets, struct tug_operation *operation) {
    bool read = operation->kind == TUG_OPERATION_READ;
    struct tug_bulk *bulk = add(packets, read ? READ_IN : WRITE_OUT, operation->peer,
                                tug_fabric_tag(packets->fabric, operation));
    if (bulk == NULL)
        return false;
    if (read)
        receive(packets, bulk, operation->local, operation->bytes, true);
    operation->scratch = TUG_PACKETS_BULK;
    packets->bulk_out++;
    return true;
}

static void finish(struct tug_packets *packets, struct tug_operation *operation) {
    packets->bulk_out--;
    packets->bulk_ended = true;
    tug_fabric_complete(packets->fabric, operation);
}

void tug_bulk_ready(struct tug_packets *packets, struct tug_operation *operation) {
    struct tug_bulk *bulk = find(packets, operation);
    if (bulk != NULL && !bulk->under_way)
        send(packets, bulk, operation->local, operation->bytes, false);
}

/* Nobody waits for the block any more. One that was never begun ends like a message. */
static void drop(struct tug_bulk *bulk) {
    bulk->dropped = true;
    if (!bulk->under_way)
        bulk->request = MPI_REQUEST_NULL;
    else if (bulk->role == READ_IN || bulk->role == SERVE_WRITE)
        tug_host.Cancel(&bulk->request);
    bulk->under_way = true;
}

/* The operation is over; its memory is the message's until that has ended too, which a receive that
 * is cancelled does soon. */
static void end_with_message(struct tug_bulk *bulk, struct tug_operation *operation) {
    if (bulk->role == READ_IN)
        tug_host.Cancel(&bulk->request);
    operation->scratch = TUG_PACKETS_ENDING;
}

void tug_bulk_done(struct tug_packets *packets, struct tug_operation *operation, int status) {
    operation->status = (int8_t)status;
    tug_bulk_refused(packets, operation);
}

void tug_bulk_refused(struct tug_packets *packets, struct tug_operation *operation) {
    struct tug_bulk *bulk = find(packets, operation);
    if (bulk != NULL && bulk->under_way) {
        end_with_message(bulk, operation);
        return;
    }
    if (bulk != NULL)
        drop(bulk);
    finish(packets, operation);
}

bool tug_bulk_serve(struct tug_packets *packets, uint32_t peer, const struct tug_record *record,
                    const struct tug_applied *applied) {
    bool write = record->kind == TUG_RECORD_BULK_WRITE;
    struct tug_bulk *bulk = add(packets, write ? SERVE_WRITE : SERVE_READ, peer, record->tag);
    if (bulk == NULL)
        return false;
    bulk->registration = applied->registration;
    bulk->registration->serving++;
    if (write) {
        receive(packets, bulk, (void *)(uintptr_t)applied->data, applied->bytes, false);
        (void)tug_packets_answer(packets, peer, TUG_RECORD_BULK_READY, 0, record->tag, 0);
    } else {
        send(packets, bulk, applied->data, applied->bytes, true);
    }
    return true;
}

/* The block has moved, or never will. (If nobody waits for it, its receive was cancelled.) */
static void moved(struct tug_packets *packets, const struct tug_bulk *bulk) {
    int status = bulk->failed ? TUG_ERR_MPI : 0;
    if (bulk->registration != NULL)
        bulk->registration->serving--;
    if (bulk->dropped)
        return;
    if (bulk->role == SERVE_WRITE)
        (void)tug_packets_answer(packets, bulk->peer, TUG_RECORD_BULK_DONE, status, bulk->tag, 0);
    if (bulk->registration != NULL)
        return;
    struct tug_operation *operation = &packets->fabric->operations[bulk->tag];
    if (operation->status == 0)
        operation->status = (int8_t)status;
    if (bulk->role == WRITE_OUT && operation->scratch != TUG_PACKETS_ENDING && !bulk->failed)
        tug_fabric_local(operation);
    else
        finish(packets, operation);
}

/* Has the message of a block ended? */
static bool has_ended(struct tug_bulk *bulk) {
    int done = 0, taken_back = 0;
    MPI_Status status;
    if (bulk->failed || !bulk->under_way || bulk->request == MPI_REQUEST_NULL)
        return bulk->failed || bulk->under_way;
    if (tug_host.Test(&bulk->request, &done, &status) != MPI_SUCCESS)
        return bulk->failed = true;
    if (done && bulk->lost)
        (void)tug_host.Test_cancelled(&status, &taken_back);
    bulk->taken_back = taken_back;
    return done;
}

/* Makes a sink, in place of a receive that was taken back. */
static void make_sink(struct tug_packets *packets, struct tug_bulk *bulk) {
    static char nothing;
    const bool read = bulk->role == READ_IN;
    bulk->request = MPI_REQUEST_NULL;
    receive(packets, bulk, &nothing, 0, read);
    bulk->next = packets->sinks;
    packets->sinks = bulk;
}

bool tug_bulk_poll(struct tug_packets *packets) {
    struct tug_bulk *done_list = NULL;
    if (packets->bulk == NULL || !tug_engine_enter_host())
        return false;
    for (struct tug_bulk **at = &packets->bulk; *at != NULL;) {
        struct tug_bulk *bulk = *at;
        if (!has_ended(bulk)) {
            at = &bulk->next;
            continue;
        }
        *at = bulk->next;
        bulk->next = done_list;
        done_list = bulk;
    }
    tug_engine_leave_host();
    bool any = done_list != NULL;
    while (done_list != NULL) {
        struct tug_bulk *bulk = done_list;
        done_list = bulk->next;
        moved(packets, bulk);
        if (bulk->taken_back)
            make_sink(packets, bulk);
        else
            free(bulk);
    }
    return any;
}

void tug_bulk_drop(struct tug_packets *packets, uint32_t peer) {
    for (struct tug_bulk *bulk = packets->bulk; bulk != NULL; bulk = bulk->next) {
        if (bulk->peer != peer || bulk->dropped)
            continue;
        bulk->lost = true;
        if (bulk->registration != NULL || !bulk->under_way) {
            drop(bulk);
            continue;
        }
        struct tug_operation *operation = &packets->fabric->operations[bulk->tag];
        operation->status = TUG_ERR_PEER;
        end_with_message(bulk, operation);
    }
}

void tug_bulk_close(struct tug_packets *packets) {
    while (packets->sinks != NULL) {
        struct tug_bulk *sink = packets->sinks;
        packets->sinks = sink->next;
        if (sink->request != MPI_REQUEST_NULL) {
            tug_host.Cancel(&sink->request);
            tug_host.Wait(&sink->request, MPI_STATUS_IGNORE);
        }
        free(sink);
    }
    while (packets->bulk != NULL) {
        struct tug_bulk *bulk = packets->bulk;
        packets->bulk = bulk->next;
        if (bulk->under_way && bulk->request != MPI_REQUEST_NULL)
            tug_host.Request_free(&bulk->request);
        free(bulk);
    }
}

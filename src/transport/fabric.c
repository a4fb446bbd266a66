/* The fabric: its rows, which of them an operation takes, and how it ends. */
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "host/agreement.h"
#include "transport/atomic.h"
#include "transport/lone.h"
#include "transport/packets/packets.h"
#include "transport/transport.h"
#include "tugboat/tugboat.h"

const struct tug_transport *const tug_transports[] = {
    [TUG_BY_SELF] = &tug_transport_self,   [TUG_BY_MAPPED] = &tug_transport_mapped,
    [TUG_BY_CMA] = &tug_transport_cma,     [TUG_BY_SHM] = &tug_transport_shm,
    [TUG_BY_VERBS] = &tug_transport_verbs, [TUG_BY_OFI] = &tug_transport_ofi,
    [TUG_BY_TCP] = &tug_transport_tcp,     [TUG_BY_MPI] = &tug_transport_mpi,
    [TUG_TRANSPORT_COUNT] = NULL,
};

/* ---- opening and closing ---- */

bool tug_fabric_carries(const struct tug_fabric *fabric, unsigned number) {
    const struct tug_wire *wire = fabric->states[number];
    return wire != NULL && tug_transports[number]->send != NULL && !wire->no_packets;
}

/* Do packets go from here to all by that row? */
static bool goes_to_all(const struct tug_fabric *fabric, unsigned number) {
    const struct tug_transport *row = tug_transports[number];
    for (uint32_t peer = 0; peer < fabric->nranks; peer++)
        if (!row->reaches(fabric->states[number], peer))
            return false;
    return true;
}

/* Do packets go from everybody to everybody? The same on all. */
static bool all_reached(const struct tug_fabric *fabric, unsigned number) {
    if (!tug_fabric_carries(fabric, number))
        return false;
    return tug_transports[number]->reaches == NULL ||
           tug_all_agree(fabric->comm, goes_to_all(fabric, number));
}

static bool always_carries(const struct tug_transport *row) {
    return row->send != NULL && !row->wired_by_host;
}

/* May the user miss the row, which cannot be had? One that is allowed by default only, or inside a
 * node, where others carry packets too. */
static bool may_be_missed(const struct tug_fabric *fabric, unsigned number) {
    const struct tug_transport *row = tug_transports[number];
    return !tug_settings.transports_named ||
           (always_carries(row) && (row->reaches != NULL || (fabric->ways & TUG_WAY_MPI)));
}

/* Bits of the rows that need a device and that some process cannot have. The same on all. */
static unsigned missing_rows(const struct tug_fabric *fabric) {
    char reason[256];
    int64_t missing = 0;
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        const struct tug_transport *row = tug_transports[i];
        const bool is_device = row->register_memory != NULL || row->send == NULL; /* or not built */
        if ((fabric->ways & 1u << i) && row->open != NULL && row->missing != NULL && is_device &&
            row->missing(reason))
            missing |= 1 << i;
    }
    return tug_agree(fabric->comm, MPI_BOR, &missing, 1) == MPI_SUCCESS
               ? (unsigned)missing
               : TUG_WAY_VERBS | TUG_WAY_OFI;
}

static int open_row(struct tug_fabric *fabric, unsigned number, bool missing) {
    const struct tug_transport *row = tug_transports[number];
    char reason[256] = "";
    int status = TUG_ERR_UNSUPPORTED;
    if (!missing)
        status = row->open(fabric, &fabric->states[number], reason);
    else
        (void)row->missing(reason);
    if (status == 0)
        return 0;
    fabric->ways &= ~(1u << number);
    if (status != TUG_ERR_UNSUPPORTED)
        return status;
    if (reason[0] == '\0')
        memcpy(reason, "not on every process", sizeof("not on every process"));
    if (!may_be_missed(fabric, number)) {
        tug_log(TUG_LOG_ERROR,
                "TUGBOAT_TRANSPORTS names %s, which cannot be had here, so no context is made: %s; "
                "take it out of the list, or mend that (tugboat info -d)",
                row->name, reason);
        return TUG_ERR_SETTING;
    }
    tug_log(TUG_VERBOSE_INFO, "nothing goes by %s: %s", row->name, reason);
    return 0;
}

/* Has this row atomics, and may it do all of them? Cards and CPUs are not atomic to each other: the
 * card's only where nobody uses a CPU's. The same on all. */
static void learn_atomics(struct tug_fabric *fabric, unsigned number) {
    const struct tug_wire *wire = fabric->states[number];
    if (!wire->atomics)
        return;
    fabric->card_atomics = wire->row->orders_atomics;
    fabric->device_atomics =
        tug_all_agree(fabric->comm, !(fabric->ways & (TUG_WAY_SELF | TUG_WAY_MAPPED)));
    fabric->open_to_atomics = fabric->device_atomics;
}

/* By messages of the host go those packets that nothing else carries, named or not, and those that
 * wire rows. */
int tug_fabric_open(struct tug_fabric *fabric) {
    const unsigned missing = missing_rows(fabric);
    bool everywhere = false, by_host = false;
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        const struct tug_transport *row = tug_transports[i];
        const bool is_host = i == TUG_BY_MPI;
        if (row->open == NULL || (always_carries(row) && everywhere && !(is_host && by_host)) ||
            (!(fabric->ways & 1u << i) && !is_host))
            continue;
        fabric->to_be_carried = !everywhere;
        const int status = open_row(fabric, i, missing & 1u << i);
        if (status != 0)
            return status;
        everywhere |= all_reached(fabric, i);
        by_host |= row->wired_by_host && tug_fabric_carries(fabric, i);
        const struct tug_wire *wire = fabric->states[i];
        if (wire == NULL || wire->ports == 0)
            continue;
        fabric->takers[fabric->ntakers++] = (unsigned char)i;
        learn_atomics(fabric, i);
    }
    return tug_packets_open(fabric);
}

void tug_fabric_close(struct tug_fabric *fabric) {
    if (fabric->packets != NULL)
        tug_packets_close(fabric->packets);
    fabric->packets = NULL;
    for (unsigned i = TUG_TRANSPORT_COUNT; i-- > 0;) {
        if (fabric->states[i] != NULL)
            tug_transports[i]->close(fabric->states[i]);
        fabric->states[i] = NULL;
    }
}

/* ---- getting on ---- */

/* Rows that carry packets are flushed and polled with these: both share a doorbell. */
void tug_fabric_flush(struct tug_fabric *fabric) {
    tug_packets_flush(fabric->packets);
    for (unsigned i = 0; i < fabric->ntakers; i++) {
        const unsigned number = fabric->takers[i];
        if (tug_transports[number]->flush != NULL && !tug_fabric_carries(fabric, number))
            tug_transports[number]->flush(fabric->states[number]);
    }
}

bool tug_fabric_poll(struct tug_fabric *fabric) {
    bool moved = false;
    for (unsigned i = 0; i < fabric->ntakers; i++) {
        const unsigned number = fabric->takers[i];
        if (!tug_fabric_carries(fabric, number))
            moved |= tug_transports[number]->poll(fabric->states[number]);
    }
    return tug_packets_poll(fabric->packets) || moved;
}

bool tug_fabric_busy(const struct tug_fabric *fabric) {
    return tug_packets_busy(fabric->packets) || (fabric->lone != NULL && tug_lone_out(fabric));
}

/* Does nothing go by that row but what wires another, which is wired? */
static bool has_wired(const struct tug_fabric *fabric, unsigned number) {
    if (tug_transports[number]->make == NULL ||
        tug_packets_use(fabric->packets, fabric->states[number]))
        return false;
    for (unsigned i = 0; i < number; i++)
        if (tug_fabric_carries(fabric, i) && ((struct tug_wire *)fabric->states[i])->wired)
            return true;
    return false;
}

bool tug_fabric_arm(struct tug_fabric *fabric) {
    bool all = true;
    fabric->seldom = false;
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        if (fabric->states[i] == NULL || tug_transports[i]->arm == NULL ||
            tug_transports[i]->arm(fabric->states[i]))
            continue;
        if (has_wired(fabric, i))
            fabric->seldom = true;
        else
            all = false;
    }
    return all && tug_packets_arm(fabric->packets);
}

/* ---- operations ---- */

const struct tug_transport *tug_fabric_route(const struct tug_fabric *fabric,
                                             const struct tug_operation *operation, unsigned from,
                                             void **state) {
    for (unsigned i = 0; i < fabric->ntakers; i++) {
        const unsigned number = fabric->takers[i];
        const struct tug_transport *row = tug_transports[number];
        *state = fabric->states[number];
        if (number >= from && (row->reaches == NULL || row->reaches(*state, operation->peer)) &&
            row->takes(*state, operation))
            return row;
    }
    return NULL;
}

static void post_from(struct tug_fabric *fabric, struct tug_operation *operation, unsigned from) {
    void *state;
    const struct tug_transport *row = tug_fabric_route(fabric, operation, from, &state);
    if (row != NULL)
        row->post(state, operation);
    else
        tug_packets_post(fabric->packets, operation);
}

void tug_fabric_post(struct tug_fabric *fabric, struct tug_operation *operation) {
    post_from(fabric, operation, 0);
}

void tug_fabric_pass_on(struct tug_fabric *fabric, struct tug_operation *operation, unsigned from) {
    post_from(fabric, operation, from + 1);
}

/* The write is over, behind which no packet with its signal could be sent. left: the fabric. */
static void raise_signal(void *pointer, int status) {
    struct tug_operation *signal = pointer;
    struct tug_fabric *fabric = (struct tug_fabric *)(uintptr_t)signal->left;
    if (status == 0) {
        tug_packets_post(fabric->packets, signal);
        return;
    }
    signal->status = (int8_t)status;
    tug_fabric_complete(fabric, signal);
}

void tug_fabric_follow(struct tug_fabric *fabric, struct tug_operation *write,
                       struct tug_operation *signal) {
    write->op = 0;
    write->on_complete = (struct tug_callback){raise_signal, signal};
    signal->left = (uintptr_t)fabric;
}

uint32_t tug_fabric_search_node(const struct tug_fabric *fabric, uint32_t peer) {
    uint32_t low = 0, high = fabric->node_size;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (fabric->node_ranks[middle] < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < fabric->node_size && fabric->node_ranks[low] == peer ? low : TUG_ELSEWHERE;
}

void tug_fabric_result(struct tug_operation *operation, uint64_t value) {
    if (operation->local != NULL)
        tug_atomic_result(operation->local, (unsigned)operation->bytes, value);
}

static inline void release(struct tug_fabric *fabric, struct tug_operation *operation) {
    operation->kind = TUG_OPERATION_NONE;
    operation->scratch = 0;
    if (operation->registration != NULL)
        operation->registration->users--;
    fabric->out--;
    tug_tags_give(&fabric->tags, tug_fabric_tag(fabric, operation));
}

void tug_fabric_complete(struct tug_fabric *fabric, struct tug_operation *operation) {
    struct tug_callback local = operation->on_local;
    struct tug_callback complete = operation->on_complete;
    int status = operation->status;
    release(fabric, operation); /* before the callbacks, which may want the tag */
    if (local.f != NULL)
        local.f(local.d, status);
    if (complete.f != NULL)
        complete.f(complete.d, status);
}

void tug_fabric_join(struct tug_fabric *fabric, struct tug_operation *operation,
                     struct tug_operation *with) {
    with->left++;
    tug_fabric_local(operation);
    release(fabric, operation);
}

/* Completes one operation of a list. */
static void complete_one(struct tug_fabric *fabric, struct tug_operation *operation) {
    void *counter = operation->on_complete.d;
    uint64_t joined = operation->left;
    tug_fabric_complete(fabric, operation); /* first: its status is theirs */
    if (joined > 0)
        fabric->count(counter, joined);
}

void tug_fabric_complete_list(struct tug_fabric *fabric, uint32_t first) {
    void *counter = NULL;
    uint64_t n = 0;
    for (uint32_t tag = first; tag != TUG_NO_TAG;) {
        struct tug_operation *operation = &fabric->operations[tag];
        tag = operation->next;
        if (tag != TUG_NO_TAG)
            __builtin_prefetch(&fabric->operations[tag]);
        if (operation->on_complete.f != fabric->counter || operation->on_complete.f == NULL ||
            operation->status != 0 || operation->on_local.f != NULL) {
            complete_one(fabric, operation);
            continue;
        }
        if (operation->on_complete.d != counter) {
            if (n > 0)
                fabric->count(counter, n);
            counter = operation->on_complete.d;
            n = 0;
        }
        n += 1 + operation->left;
        release(fabric, operation);
    }
    if (n > 0)
        fabric->count(counter, n);
}

/* The row ofi's own: what its files share.
 *
 *      context      context            each has a wire of its own, a view of the endpoint
 *         |            |
 *       view         view              where its processes are, by rank
 *         |            |
 *       +-+------------+-+
 *       |    endpoint    |             one a process: libfabric's endpoint, its completion queue,
 *       +----------------+             and receives for packets of all contexts
 *
 * Threading: the holder of the baton alone calls libfabric, with two exceptions. Any thread
 * registers and deregisters memory, therefore FI_THREAD_SAFE. The endpoint is made and closed while
 * no other thread knows it. The watcher only sleeps at the queue's descriptor.
 */
#ifndef TUG_TRANSPORT_OFI_PRIVATE_H
#define TUG_TRANSPORT_OFI_PRIVATE_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/table.h"
#include "transport/endpoint.h"
#include "transport/packets/wire.h"

/* ---- library.c ---- */

#define TUG_OFI_FUNCTIONS(X) X(getinfo) X(freeinfo) X(dupinfo) X(fabric) X(strerror)

struct tug_ofi_library {
#define TUG_OFI_MEMBER(name) __typeof__(fi_##name) *name;
    TUG_OFI_FUNCTIONS(TUG_OFI_MEMBER)
#undef TUG_OFI_MEMBER
};
extern struct tug_ofi_library tug_ofi;

/* False, and why (256 bytes): libfabric cannot be had. Any thread. */
bool tug_ofi_load(char *reason);

/* The first entry of libfabric's list that this row can use; with by_card only entries of providers
 * whose card executes RMA without the target's processor. NULL: there is none. Any thread. */
const struct fi_info *tug_ofi_pick(const struct fi_info *all, bool by_card);

/* The best provider, one with RMA if any has it. by_card: see tug_ofi_pick(); libfabric is not
 * loaded then if the machine has no such card. The caller frees it by tug_ofi.freeinfo(). NULL, and
 * why: there is none. Any thread. */
struct fi_info *tug_ofi_choose(bool by_card, char *reason);

/* Does a card execute the provider's RMA without the target's processor? */
bool tug_ofi_is_by_card(const struct fi_info *info);

/* Replaces the entry by one of the same provider and domain that suits operations better: keys that
 * this process chooses, which have 31 bits, and atomics, if the provider has them. */
struct fi_info *tug_ofi_refine(struct fi_info *info);

/* ---- endpoint.c ---- */

/* Where the trailer of a packet is, which it stands behind, for who receives it to read. */
struct tug_ofi_where {
    uint64_t address, key;
    uint64_t id; /* of the send: the reader tells that it has read */
};

/* rxm sends up to 16 KiB at once, its header included; more takes a round trip. */
#define TUG_OFI_RECEIVE_BYTES 16000u
#define TUG_OFI_PACKET_BYTES (TUG_OFI_RECEIVE_BYTES - (uint32_t)sizeof(struct tug_ofi_where))
#define TUG_OFI_LONG_LEAST 65536u /* less is there sooner in packets, over sockets */
#define TUG_OFI_RECEIVES 64u
#define TUG_OFI_SENDS 256u
#define TUG_OFI_NAME_MOST 256u
#define TUG_OFI_TRAILER_KEY 0x80000000u /* this bit is in no key of a registration */
#define TUG_OFI_NOTE_BYTES 16u          /* sent with nothing to be kept */

/* Where a process is, as it is told to the others. The provider knows where the name ends. */
struct tug_ofi_address {
    uint64_t id; /* random */
    unsigned char name[TUG_OFI_NAME_MOST];
};

struct tug_ofi_endpoint;
struct tug_ofi_job;

/* Packets that have come and cannot be handed up yet. */
struct tug_ofi_held {
    struct tug_ofi_held *next;
    size_t bytes;
    uint64_t memory[];
};

struct tug_ofi_queue {
    struct tug_ofi_held *first, **end; /* all zeros: it is empty */
};

/* A context's wire. */
struct tug_ofi_view {
    struct tug_wire wire;
    struct tug_ofi_endpoint *endpoint;
    struct tug_ofi_address *told; /* [nranks] where all are, until it is entered */
    fi_addr_t *addresses;         /* [nranks] */
    struct tug_ofi_queue held;    /* what has come before the view was ready, or there was memory */
    struct tug_ofi_read *reads; /* trailers that have not come whole, at most one of each process */
    uint32_t out;               /* operations that have not ended */
    bool greeted, heard;        /* the next process has been greeted, this one has been */
    bool stuck;                 /* what it holds could not be handed up, for want of memory */
};

/* What libfabric is asked to do; it has `context` until it has done it. */
struct tug_ofi_request {
    struct fi_context2 context; /* the first member */
    enum { TUG_OFI_RECEIVE, TUG_OFI_SEND, TUG_OFI_READ, TUG_OFI_OPERATION } kind;
};

struct tug_ofi_receive {
    struct tug_ofi_request request; /* the first member */
    bool done;
    size_t bytes; /* 0: nothing has come after all */
    uint64_t *memory;
};

struct tug_ofi_send {
    struct tug_ofi_request request; /* the first member */
    struct tug_buffer *buffer;
    struct tug_ofi_view *view; /* NULL: it has left */
    uint32_t peer;
    bool out, gone;        /* gone: libfabric has done with the packet */
    struct fid_mr *region; /* the trailer, while it is to be read; NULL: there is none */
    struct tug_ofi_where where;
    struct tug_ofi_send *next; /* in the list of those that are free, or that have failed */
};

/* A trailer that is read from where it is. */
struct tug_ofi_read {
    struct tug_ofi_request request; /* the first member */
    struct tug_ofi_read *next;
    struct tug_ofi_view *view; /* NULL: it has left */
    struct tug_ofi_queue held; /* what has come from the source since */
    struct tug_ofi_where where;
    uint32_t source;
    bool waits;            /* for room to get on; else libfabric reads */
    bool lost;             /* the source, which is told when libfabric is done */
    size_t come, now, all; /* bytes */
};

struct tug_ofi_endpoint {
    struct tug_endpoint base; /* the first member; its descriptor is the queue's; -1: the provider
                                 has none, and is polled */
    struct tug_ofi_address address;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    bool claimed;
    struct tug_table peers; /* by their ids: their addresses, + 1 */
    /* Receives are a ring, in the order of their posting, in which packets are matched. */
    struct tug_ofi_receive receives[TUG_OFI_RECEIVES];
    uint64_t posted, taken;
    struct tug_ofi_send sends[TUG_OFI_SENDS];
    struct tug_ofi_send *free, *failed;
    uint64_t trailers, keys;                  /* sent, and tried to be registered, so far */
    _Atomic uint32_t names;                   /* registration keys chosen so far */
    struct tug_ofi_job *jobs;                 /* all that there are, see rma.c */
    struct tug_ofi_job *unused;               /* those that are free */
    struct tug_ofi_job *unsent, *unsent_last; /* those that wait for room, in order */
    unsigned char *copy;         /* [TUG_LONG_PIECE] of a trailer that cannot be registered */
    struct fid_mr *copy_region;  /* of copy */
    struct tug_ofi_send *copied; /* has its trailer there; NULL: none */
    uint32_t waiting;            /* reads that wait */
    uint32_t nstuck;             /* views that are */
    uint64_t armed;              /* `base.polls` + 1 when it was last armed well */
    uint64_t memory[TUG_OFI_RECEIVES][TUG_OFI_RECEIVE_BYTES / 8];
};

/* NULL, and why: it cannot be had. */
struct tug_ofi_endpoint *tug_ofi_endpoint_make(char *reason);

/* The address of that process. FI_ADDR_NOTAVAIL: it cannot be had. Holder only, as all below. */
fi_addr_t tug_ofi_find(struct tug_ofi_endpoint *endpoint, const struct tug_ofi_address *address);

/* Does the provider read what others have in memory? */
static inline bool tug_ofi_reads(const struct tug_ofi_endpoint *endpoint) {
    return endpoint->info->caps & FI_RMA;
}

/* Registers memory that others may then access so (FI_REMOTE_*), by that key if the provider takes
 * keys. NULL, and *error says why: the provider refuses. Any thread. */
struct fid_mr *tug_ofi_open_region(struct tug_ofi_endpoint *endpoint, const void *memory,
                                   size_t bytes, uint64_t access, uint64_t key, int *error);
void tug_ofi_close_object(struct fid *object);

/* As a row's. False: there is no room now. */
bool tug_ofi_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer);

/* A greeting to that process of the context, whose view then has `heard`. False: no room now. */
bool tug_ofi_greet(struct tug_ofi_view *view, uint32_t peer);

/* What was to be read from here by that process is not, any more. */
void tug_ofi_abandon(struct tug_wire *wire, uint32_t peer);

bool tug_ofi_arm(void *state);

/* ---- rma.c ---- */

/* Are operations wanted of the provider, and can it do them? */
bool tug_ofi_operates(const struct tug_ofi_endpoint *endpoint);
bool tug_ofi_has_atomics(const struct tug_ofi_endpoint *endpoint);

/* As a row's. */
int tug_ofi_register(void *state, struct tug_registration *registration);
void tug_ofi_deregister(void *state, struct tug_registration *registration);
bool tug_ofi_takes(void *state, const struct tug_operation *operation);
void tug_ofi_post(void *state, struct tug_operation *operation);

/* libfabric has executed a job's request, or has failed to: then error is not 0. */
void tug_ofi_job_ended(struct tug_ofi_job *job, int error);

/* Tries again what had no room. True if anything was sent. */
bool tug_ofi_send_jobs(struct tug_ofi_endpoint *endpoint);

/* The endpoint closes. */
void tug_ofi_free_jobs(struct tug_ofi_endpoint *endpoint);

/* ---- ofi.c ---- */

/* A view of the endpoint, which is to be told the addresses of all of its context's processes
 * before it enters. NULL: no memory. */
struct tug_ofi_view *tug_ofi_view_make(struct tug_ofi_endpoint *endpoint,
                                       struct tug_fabric *fabric);

#endif

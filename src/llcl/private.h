/* What the files of LLCL share: the context. What other floors may ask is in llcl.h.
 *
 *   context.c       creation, end, and the choice of transports
 *   registration.c  memory: registered, allocated, mapped; keys
 *   operation.c     the try_ calls: checks, the caller's own way where memory is mapped, the ring
 *   reach.c         memory of the node's other processes, where this one can reach it
 *   wait.c          helping and waiting
 */
#ifndef TUG_LLCL_PRIVATE_H
#define TUG_LLCL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "engine/engine.h"
#include "llcl/llcl.h"
#include "node/segment.h"
#include "transport/transport.h"

#define TUG_SEGMENTS 1024

/* Memory of tug_mem_allocate(). Each process's part begins with a page for its registration's key:
 * another key that names the part is the right one if it is the same. */
struct tug_mapped {
    struct tug_segment segment;
    uint32_t index;
};

struct tug_mapped_head {
    _Atomic uint64_t live; /* the key's first word, the registration's id; 0 when that has ended */
    uint64_t rest[sizeof(struct tug_key) / 8 - 1]; /* the key's other words */
};
#define TUG_MAPPED_HEAD 4096

struct tug_handler {
    tug_am_handler f; /* holder only */
    void *d;
    tug_am_run_handler run; /* NULL: messages are handled one by one */
};

struct tug_call_entry {
    tug_call_handler f; /* holder only */
    void *d;
};

struct tug_context {
    struct tug_fabric fabric;
    bool internal;                      /* see tug_context_set_internal() */
    bool holds_team;                    /* the team is nobody else's to keep */
    MPI_Comm node_comm;                 /* made by the first tug_mem_allocate(); null before */
    struct tug_registration everything; /* see tug_context_everything() */
    struct tug_service service;
    unsigned posts;        /* operations posted since the last poll; holder only */
    bool packets_alone;    /* packets are the only transport that takes operations */
    struct tug_live *live; /* this process's list of registrations; NULL: none, nor others' */
    struct tug_mapped *_Atomic mapped[TUG_SEGMENTS]; /* segments, by their numbers */
    struct tug_handler handlers[TUG_AM_HANDLERS];
    struct tug_call_entry callees[TUG_AM_HANDLERS];
    void (*at_end)(void *d); /* another floor's, called when everything is complete; or NULL */
    void *at_end_d;
    struct tug_context *next; /* of all, for MPI_Finalize */
};

/* The end of a batch: what was posted goes. Holder only. */
void tug_context_flush(struct tug_context *context);

/* One poll of all transports. Holder only. True if anything moved. */
bool tug_context_poll(struct tug_context *context);

/* True while something of ours is out. Holder only. */
bool tug_context_busy(const struct tug_context *context);

/* tug_counter_add(counter, 0), n times. */
void tug_counter_add_many(void *counter, uint64_t n);

/* Ends a registration without asking. Holder only. */
void tug_registration_end(struct tug_registration *registration);

/* Frees the segments that are left. Collective. */
void tug_registration_close(struct tug_context *context);

/* This process's address of the part of a mapped segment that a key names, if the key is right and
 * [offset, offset + bytes) lies inside; NULL otherwise. Any thread. */
static inline unsigned char *tug_mapped_address(const struct tug_context *context,
                                                const struct tug_key *key, uint32_t owner,
                                                uint64_t offset, uint64_t bytes) {
    const struct tug_fabric *fabric = &context->fabric;
    uint32_t number = tug_key_segment(key), node_rank = tug_key_node_rank(key);
    if (number == 0 || number > TUG_SEGMENTS || node_rank >= fabric->node_size ||
        fabric->node_ranks[node_rank] != owner)
        return NULL;
    /* acquire: pairs with the release in tug_mem_allocate */
    struct tug_mapped *mapped =
        atomic_load_explicit(&context->mapped[number - 1], memory_order_acquire);
    if (mapped == NULL)
        return NULL;
    const struct tug_segment_part *part = &mapped->segment.parts[node_rank];
    const struct tug_mapped_head *head = (const struct tug_mapped_head *)part->base;
    /* relaxed: the rest was there before anybody had the key, and stays */
    if (atomic_load_explicit(&head->live, memory_order_relaxed) != key->word[0] ||
        memcmp(head->rest, key->word + 1, sizeof(head->rest)) != 0 || offset > key->word[3] ||
        bytes > key->word[3] - offset)
        return NULL;
    return part->base + TUG_MAPPED_HEAD + offset;
}

/* ---- reach.c ---- */

/* May cross-memory attach and views go to this process of the node? *node_rank: where the key says
 * that its owner is. Any thread. */
bool tug_attachable(const struct tug_context *context, const struct tug_key *key, uint32_t owner,
                    uint32_t *node_rank);

/* May cross-memory attach reach that memory, and loads and stores not? Any thread. */
bool tug_only_attachable(const struct tug_context *context, const struct tug_key *key,
                         uint32_t owner);

#endif

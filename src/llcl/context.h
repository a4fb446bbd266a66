/* What the files of LLCL share: the context.
 *
 *   context.c       creation, end, and the choice of transports
 *   registration.c  memory: registered, allocated, mapped; keys
 *   operation.c     the try_ calls: checks, the caller's own way where memory is mapped, the ring
 *   reach.c         memory of the node's other processes, where this one can reach it
 *   wait.c          helping and waiting
 */
#ifndef TUG_LLCL_CONTEXT_H
#define TUG_LLCL_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "node/segment.h"
#include "transport/transport.h"

#define TUG_SEGMENTS 1024
/* Bytes from which cross-memory attach is worth a system call in company too. */
#define TUG_CMA_LEAST 4096

struct tug_wire;

/* Memory of tug_mem_allocate(). Each process's part begins with a page of which the first word is
 * the id of its registration, 0 when that has ended. */
struct tug_mapped {
    struct tug_segment segment;
    uint32_t index;
};
#define TUG_MAPPED_HEAD 4096

/* May we attach to a process of this node? Found out at first use. */
enum tug_attachable { TUG_ATTACH_UNKNOWN, TUG_ATTACH_YES, TUG_ATTACH_NO };

struct tug_views;

/* Handles n messages of `bytes` each, one behind the other, that came together. */
typedef void (*tug_am_run_handler)(tug_context *context, int source, const unsigned char *payloads,
                                   size_t bytes, size_t n, void *d);

struct tug_handler {
    tug_am_handler f; /* holder only */
    void *d;
    tug_am_run_handler run; /* NULL: one by one */
};

struct tug_call_entry {
    tug_call_handler f; /* holder only */
    void *d;
};

struct tug_context {
    struct tug_fabric fabric;
    bool internal;                      /* another floor's, not the program's */
    struct tug_registration everything; /* see tug_context_everything() */
    struct tug_service service;         /* TUG_DRIVE_ENGINE */
    enum tug_drive drive;
    unsigned posts;           /* since the last poll; holder only */
    bool packets_alone;       /* no other transport takes operations */
    pthread_mutex_t lock;     /* TUG_DRIVE_DIRECT: its baton */
    _Atomic uintptr_t driver; /* ... and the thread that has it, 0: none */
    uint32_t deferred_first;  /* ... and what callbacks started while it was held */
    uint32_t deferred_last;
    struct tug_wire *shm;                            /* NULL: no inboxes */
    _Atomic unsigned char *attachable;               /* [node_size] enum tug_attachable */
    struct tug_views *_Atomic *views;                /* [node_size] of lent memory; NULL: none */
    struct tug_mapped *_Atomic mapped[TUG_SEGMENTS]; /* by segment number */
    struct tug_handler handlers[TUG_AM_HANDLERS];
    struct tug_call_entry callees[TUG_AM_HANDLERS];
    void (*at_end)(void *d); /* another floor's, called when everything is complete; or NULL */
    void *at_end_d;
    struct tug_context *next; /* of all, for MPI_Finalize */
};

/* Runs function(argument) as the holder of the baton, or of the direct context's lock, and returns.
 * Not in callbacks. */
void tug_context_call(struct tug_context *context, void (*function)(void *), void *argument);

/* The end of a batch: what was posted goes. Holder only. */
void tug_context_flush(struct tug_context *context);

/* One poll of all transports. Holder only. True if anything moved. */
bool tug_context_poll(struct tug_context *context);

/* True while something of ours is out. Holder only. */
bool tug_context_busy(const struct tug_context *context);

/* Posts what callbacks started while the direct context's lock was held. Holder only. */
void tug_context_post_deferred(struct tug_context *context);

/* What notes (engine/notes.h) start: a write of at most TUG_OPERATION_INLINE bytes to memory that
 * only packets reach (below), for which the key's first word does, and a message of as many; data
 * are copied. The caller has seen that
 * peer, key, range and handler are right. on_complete is tug_counter_add on the counter. False: no
 * room, nothing happened. The batch's end is the caller's. Holder only; not of direct contexts. */
bool tug_context_write_noted(struct tug_context *context, uint32_t peer, const struct tug_key *key,
                             uint64_t offset, const void *data, size_t bytes,
                             struct tug_counter *counter);
bool tug_context_message_noted(struct tug_context *context, uint32_t peer, unsigned handler,
                               const void *payload, size_t bytes, struct tug_counter *counter);

/* tug_am_register() of a handler that takes several at a time, besides the one for a single
 * message. */
int tug_am_register_run(tug_context *context, unsigned id, tug_am_handler handler,
                        tug_am_run_handler run, void *d);

/* Is there a way to a registration of that process that is shorter than packets? */
enum tug_shortcut {
    TUG_SHORTCUT_NONE,
    TUG_SHORTCUT_LONE, /* for what goes alone, see tug_company_lone() */
    TUG_SHORTCUT_ANY,
};
enum tug_shortcut tug_context_shortcut(struct tug_context *context, uint32_t peer,
                                       const struct tug_key *key);

/* All memory of this process, as local memory only: offset is the address. For floors whose users
 * register nothing; devices do not take it. */
static inline struct tug_registration *tug_context_everything(struct tug_context *context) {
    return &context->everything;
}

/* tug_counter_add(counter, 0), n times. */
void tug_counter_add_many(void *counter, uint64_t n);

/* Ends a registration without asking. Holder only. */
void tug_registration_end(struct tug_registration *registration);

/* Frees the segments that are left. Collective. */
void tug_registration_close(struct tug_context *context);

/* This process's place in the part of a mapped segment that a key names, if the key is right and
 * [offset, offset + bytes) lies inside; NULL otherwise. Any thread. */
static inline unsigned char *tug_mapped_place(const struct tug_context *context,
                                              const struct tug_key *key, uint32_t owner,
                                              uint64_t offset, uint64_t bytes) {
    const struct tug_fabric *fabric = &context->fabric;
    uint32_t number = tug_key_segment(key), node_rank = tug_key_node_rank(key);
    if (number == 0 || number > TUG_SEGMENTS || node_rank >= fabric->node_size ||
        fabric->node_ranks[node_rank] != owner ||
        tug_key_allows(key, fabric->session, owner, offset, bytes) != 0)
        return NULL;
    /* acquire: pairs with the release in tug_mem_allocate */
    struct tug_mapped *mapped =
        atomic_load_explicit(&context->mapped[number - 1], memory_order_acquire);
    if (mapped == NULL)
        return NULL;
    const struct tug_segment_part *part = &mapped->segment.parts[node_rank];
    uint64_t size = part->bytes - TUG_MAPPED_HEAD;
    if (offset > size || bytes > size - offset ||
        atomic_load_explicit((_Atomic uint64_t *)part->base, memory_order_relaxed) != key->word[0])
        return NULL;
    return part->base + TUG_MAPPED_HEAD + offset;
}

/* ---- operation.c ---- */

/* A call of cross-memory attach is over sooner than a round trip of packets, which wakes the other
 * engine; of many small operations together each is cheaper in packets. What a thread is about to
 * start it has mostly told by what it started between its last two waits. */
struct tug_company {
    unsigned started; /* operations on the node's memory that is not mapped, since it last waited */
    bool had;         /* before that it was more than one */
};
extern _Thread_local struct tug_company tug_company __attribute__((tls_model("initial-exec")));

/* Will the operation that this thread is about to start go alone? */
static inline bool tug_company_lone(void) {
    return tug_company.started == 0 && !tug_company.had;
}

static inline void tug_company_started(void) {
    tug_company.started++;
}

/* This thread waits for what it has started, or asks after it. */
static inline void tug_company_pause(void) {
    if (tug_company.started == 0)
        return;
    tug_company.had = tug_company.started > 1;
    tug_company.started = 0;
}

/* ---- reach.c ---- */

/* Memory of another process of this node, mapped or lent, that stays where it is until
 * tug_reach_end(). */
struct tug_reach {
    unsigned char *place; /* here; NULL: for cross-memory attach alone */
    uint64_t address;     /* at its owner */
    uint64_t id;          /* of the registration that is kept; 0: none */
    uint32_t node_rank;
};

/* May cross-memory attach and views go to this process of the node? *node_rank: where the key says
 * that its owner is. Any thread. */
bool tug_attachable(struct tug_context *context, const struct tug_key *key, uint32_t owner,
                    uint32_t *node_rank);

/* [offset, offset + bytes) of what the key names, if the key is right and this process can reach it
 * by loads and stores, or by cross-memory attach. False: another way. Any thread; not for long: who
 * ends the registration waits. */
bool tug_reach_begin(struct tug_context *context, const struct tug_key *key, uint32_t owner,
                     uint64_t offset, uint64_t bytes, struct tug_reach *reach);
void tug_reach_end(const struct tug_context *context, const struct tug_reach *reach);

/* Copies between there and this process's memory: 0, or an error of cross-memory attach (cma.h). */
int tug_reach_read(const struct tug_context *context, const struct tug_reach *from, void *to,
                   size_t bytes);
int tug_reach_write(const struct tug_context *context, const struct tug_reach *to, const void *from,
                    size_t bytes);

/* Unmaps all. */
void tug_reach_close(struct tug_context *context);

/* Bytes of the views of one process's registrations. */
size_t tug_reach_footprint(void);

#endif

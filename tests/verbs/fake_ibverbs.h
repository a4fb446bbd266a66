/* Inside the stand-in for libibverbs.
 *
 *   fake_ibverbs.c    devices, ports, contexts
 *   fake_queues.c     memory, completion queues, receives, queue pairs
 *   fake_requests.c   work requests
 *   fake_card.c       the card: the state of all of them
 *
 * All processes that use one card map one file, which FAKE_CARD names; its first user makes it. A
 * process without FAKE_CARD has a card of its own. What a program holds (struct ibv_qp, ...) is
 * private to its process and names an entry of a table in the file.
 *
 *      process A                    FAKE_CARD                     process B
 *      ibv_qp, ibv_cq  ------->  processes, regions,  <-------  ibv_qp, ibv_cq
 *                                pairs, queues, rings
 *      memory  <-------- process_vm_readv, process_vm_writev -------->  memory
 *
 * There is no card that works by itself: the thread that posts a request carries it out, at both
 * ends, and so does the thread that posts a receive for which a request has waited.
 * (FAKE_CARD_LATE: a thread of the stand-in, later.) An entry names its *owner*, a process, which
 * may have died: then a request to it ends as a card's does to which nobody answers.
 *
 * Threading: everything in the file is touched under card_lock(), which survives the death of its
 * holder, unless it says otherwise. Completions are polled without it, under a lock of their own.
 * Entries are changed in an order that leaves at worst something unused when the holder dies. */
#ifndef TUG_TEST_FAKE_IBVERBS_H
#define TUG_TEST_FAKE_IBVERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fake_card.h"

/* Entries of the tables. A key is the index of a region and 16 bits that change with each use of
 * the entry; the number of a queue pair has 24 bits, of which 10 change. */
#define CARD_PROCESSES 256u
#define CARD_REGIONS (1u << 16)
#define CARD_PAIRS (1u << 14)
#define CARD_QUEUES 4096u
#define CARD_RINGS (1u << 14)
#define CARD_CLASSES 28

#define CARD_INLINE 512u        /* bytes of a request in line */
#define CARD_PIECES 4u          /* of the memory of a request, or of a receive */
#define CARD_MESSAGE (8u << 20) /* bytes of a request */

/* A process that has opened a device. */
struct card_process {
    atomic_int pid;    /* 0: the entry is free */
    uint64_t proof;    /* lies in its memory too: another process of that pid does not have it */
    uint64_t proof_at; /* there */
    struct fake_card_counts counts;
};

/* Registered memory. */
struct card_region {
    uint32_t key; /* 0: free */
    uint32_t generation, owner, pd;
    int access;
    uint64_t address; /* in the owner's memory */
    uint64_t at;      /* where the device has it */
    uint64_t bytes;
};

/* A completion, and how far the send queue is free when it has been polled. */
struct card_completion {
    struct ibv_wc wc;
    bool sends;
    uint32_t freed;
};

/* A completion queue. */
struct card_queue {
    bool taken, armed;
    uint32_t owner;
    uint32_t channel; /* 0: none */
    uint64_t handle;  /* the owner's struct ibv_cq */
    uint64_t entries; /* struct card_completion [size], in the heap */
    uint32_t head, size;
    atomic_uint used; /* read without the lock: an empty queue costs its poller nothing */
};

struct card_receive {
    uint64_t wr_id;
    uint32_t npieces;
    struct ibv_sge pieces[CARD_PIECES];
};

/* Receives of a shared queue, or of one queue pair. */
struct card_ring {
    bool taken;
    uint32_t owner, pd, users; /* queue pairs */
    uint64_t entries;          /* struct card_receive [size], in the heap */
    uint32_t head, used, size;
};

/* A posted work request. */
struct card_request {
    uint64_t wr_id, address, compare_add, swap;
    uint32_t opcode, flags, imm, rkey;
    uint32_t npieces, bytes;
    struct ibv_sge pieces[CARD_PIECES];
    unsigned char data[]; /* those in line */
};

/* A queue pair. Requests first..posted wait, in order; those up to freed make room. */
struct card_pair {
    uint32_t number; /* 0: free */
    uint32_t generation, owner, pd;
    uint32_t state; /* enum ibv_qp_state */
    int access;
    uint32_t other;       /* number of the queue pair at the other end */
    uint16_t lid, dlid;   /* its own port's, and where requests go */
    uint64_t guid, dguid; /* the same, of the GID; dguid 0: by LID */
    uint32_t send_queue, receive_queue, ring;
    bool has_ring, shared; /* with others */
    bool patient;          /* rnr_retry 7 */
    bool waits;            /* counted in card->waiting */
    struct ibv_qp_cap room;
    uint32_t request_bytes;
    uint64_t requests; /* [room.max_send_wr], in the heap */
    uint32_t first, posted, freed;
};

enum card_table { CARD_OF_REGIONS, CARD_OF_PAIRS, CARD_OF_QUEUES, CARD_OF_RINGS, CARD_TABLES };

struct card {
    uint64_t ready; /* the file is set up */
    uint64_t id;    /* random */
    pthread_mutex_t lock;
    pthread_mutex_t reports;    /* of completions in queues, whether they are armed, pair->freed */
    uint32_t channels, pds;     /* numbers given so far */
    uint32_t waiting;           /* queue pairs with requests that wait for room */
    uint32_t top[CARD_TABLES];  /* of each table, where used entries end */
    uint32_t from[CARD_TABLES]; /* where a free one is looked for first */
    uint64_t heap, spare[CARD_CLASSES];
    struct card_process processes[CARD_PROCESSES];
    struct card_region regions[CARD_REGIONS];
    struct card_pair pairs[CARD_PAIRS];
    struct card_queue queues[CARD_QUEUES];
    struct card_ring rings[CARD_RINGS];
};

extern struct card *card;
extern uint32_t card_self; /* this process's entry, once it has opened a device */

/* ---- fake_card.c ---- */

/* This process takes part, from the first call on. False, with errno: it cannot. */
bool card_join(void);
void card_lock(void);
void card_unlock(void);

/* Of one of the two, taken in the order in which they stand: that of completions can be had while a
 * card works. */
void card_lock_one(pthread_mutex_t *lock);

/* Memory of the file, not cleared. 0: none is left. */
uint64_t card_take(uint64_t bytes);
void card_give(uint64_t at, uint64_t bytes);
static inline void *card_at(uint64_t at) {
    return (unsigned char *)card + at;
}

static inline struct fake_card_counts *card_counts(uint32_t process) {
    return &card->processes[process].counts;
}

/* Does the process live? */
bool card_lives(uint32_t process);

/* Pieces of a process's memory, or of the file: what is copied from or to. */
struct card_memory {
    uint32_t process;
    uint32_t n;
    uint64_t bytes;
    struct iovec pieces[CARD_PIECES];
};

/* Copies from->bytes; one of the two is this process. 0, or ESRCH: the process is gone, or EFAULT:
 * the memory is. */
int card_copy(const struct card_memory *to, const struct card_memory *from);

/* Wakes the process that sleeps at the queue's channel. */
void card_wake(const struct card_queue *queue);
/* The descriptor of a new channel, and its number. -1, with errno. */
int card_channel(uint32_t *number);

/* ---- fake_queues.c ---- */

/* Queue pair, or NULL: there is none of that number. */
struct card_pair *card_pair_of(uint32_t number);
/* Adds that memory if the key allows such an access to it, to one byte at least. False: it does
 * not. */
bool card_find_memory(struct card_memory *memory, uint32_t pd, uint32_t key, uint64_t at,
                      uint64_t bytes, int access);
void card_report(uint32_t queue, const struct card_completion *completion);
/* Frees what the process has on the card. */
void card_forget(uint32_t process);

int fake_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *found);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad);

/* Of a port of this process's device, by its name and number. */
uint16_t fake_lid(const struct ibv_context *context, unsigned port);
uint64_t fake_guid(uint16_t lid);

/* ---- fake_requests.c ---- */

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad);
/* Carries out what waits at the queue pair, as far as there is room. */
void card_progress(struct card_pair *pair);
/* The same, of all queue pairs that wait for that ring. */
void card_progress_at(uint32_t ring);
/* The same, of all of a process; false: none waits. */
bool card_progress_of(uint32_t process);

#endif

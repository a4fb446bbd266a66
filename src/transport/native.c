/* The native transport: large reads and writes by the host MPI's one-sided calls.
 *
 * Every block is moved by MPI_Rget of the process that receives it: the completion of a get is
 * the only one that says that the data are there and needs no call that waits. The window is
 * dynamic; registered memory is attached to it. MPI does not check what a get addresses, so its
 * owner does, before:
 *
 *     read     origin: ASK ----> owner: looks it up, counts registration->serving
 *              origin <--- GRANT (address), gets; RELEASE ---> owner: counts down
 *              origin <--- DONE, completes
 *     write    origin: OFFER (address) ---> owner: looks it up, counts, gets, counts down
 *              origin <--- DONE, completes
 *
 * Memory that overlaps attached memory without lying inside it cannot be attached (MPI-4.0,
 * 12.2.4). It is not offered, and when it is asked for, the answer is NATIVE_ELSEWHERE and the
 * origin hands the operation to the packets.
 *
 * An operation is complete when the owner counts it no more, so that an owner who is told of it can
 * end the registration. Where one has lost the other neither will be told: at once the operations
 * fail and what was granted counts no more, but for blocks that come, of which no further piece is
 * asked for, and which end with those that are under way.
 *
 * Threading: the table of attached ranges has a lock; all else belongs to the holder, see
 * transport.h.
 */
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "transport/native.h"

#include "transport/transport.h"
#include "tugboat/tugboat.h"

/* MPICH 4.0.2 over UCX 1.13 answers a get from a dynamic window at 15 GB/s up to this size and at
 * 1 to 2 GB/s above it. May go with the last host of that kind. */
#define PIECE ((uint64_t)65536)
/* Pieces under way at a time. An owner that seldom calls MPI serves all of them at once. */
#define PIECES_PER_BLOCK 16
#define REQUESTS 128
#define ASKED_MOST 64 /* operations of this process that others know of */

enum message_kind { ASK = 1, GRANT, OFFER, DONE, RELEASE };

#define NATIVE_ELSEWHERE 1 /* instead of a TUG_ERR_*: packets must do it */

struct message {
    uint32_t kind;
    uint32_t tag; /* the operation's tag at its origin */
    uint64_t key; /* the registration's id at its owner */
    uint64_t offset;
    uint64_t bytes;
    uint64_t address; /* where the get reads */
    int64_t status;
};

_Static_assert(sizeof(struct message) <= TUG_CONTROL_MAX, "a message is one control message");

/* Memory attached to the window: disjoint. */
struct range {
    unsigned char *base;
    size_t bytes;
    uint32_t users; /* registrations inside */
    bool ended;     /* the registration that brought it has ended: what is outside the others may
                       have been unmapped since, so nobody else joins */
    const struct tug_registration *first;
};

/* A block on its way into this process: a read of ours or a write of a peer. */
struct block {
    struct block *next;
    unsigned char *to;
    uint64_t from;   /* address at the peer */
    uint64_t left;   /* bytes not asked for */
    uint32_t pieces; /* under way */
    uint32_t peer;
    uint32_t tag; /* the origin's */
    int status;
    uint64_t key;                          /* read: what to release */
    struct tug_registration *registration; /* write: where it goes; NULL: a read */
};

/* A peer may get from that registration until it says that it has. */
struct grant {
    struct grant *next;
    struct tug_registration *registration;
    uint32_t peer, tag;
};

struct list {
    uint32_t first, last; /* tags; first == TUG_NO_TAG: empty */
};

struct native {
    struct tug_fabric *fabric;
    MPI_Win window;

    pthread_mutex_t lock; /* of ranges */
    void *ranges;         /* tsearch */

    struct list waiting;  /* operations that the others do not know of yet */
    uint32_t nasked;      /* operations that the others know of */
    uint32_t noffered;    /* the writes among them, which peers get from here */
    struct grant *grants; /* reads of peers from here */
    uint8_t *due;         /* by tag: the kind of the answer that must come, 0: none */

    struct block *blocks; /* in order of arrival */
    struct block **blocks_end;
    struct block *free_blocks;
    int nrequests;
    MPI_Request requests[REQUESTS];
    struct block *block_of[REQUESTS];
};

/* ---- attached memory ---- */

/* Order of disjoint ranges; ranges that overlap are equal. */
static int compare_ranges(const void *left, const void *right) {
    const struct range *a = left;
    const struct range *b = right;
    if (a->base + a->bytes <= b->base)
        return -1;
    return b->base + b->bytes <= a->base ? 1 : 0;
}

static bool joins(const struct range *range, const struct tug_registration *registration) {
    return !range->ended && registration->base >= range->base &&
           registration->base + registration->bytes <= range->base + range->bytes;
}

static int attach(struct native *native, struct tug_registration *registration) {
    struct range *range = malloc(sizeof(*range));
    if (range == NULL)
        return TUG_ERR_NO_MEMORY;
    *range = (struct range){.base = registration->base,
                            .bytes = registration->bytes,
                            .users = 1,
                            .first = registration};
    struct range **found = tsearch(range, &native->ranges, compare_ranges);
    if (found == NULL) {
        free(range);
        return TUG_ERR_NO_MEMORY;
    }
    if (*found != range) {
        free(range);
        if (joins(*found, registration)) {
            (*found)->users++;
            registration->of_transport[TUG_BY_NATIVE] = *found;
        }
        return 0;
    }
    if (tug_host.Win_attach(native->window, range->base, (MPI_Aint)range->bytes) != MPI_SUCCESS) {
        tdelete(range, &native->ranges, compare_ranges);
        free(range);
        tug_warn_once("the host MPI does not attach memory to a window: it goes by packets");
        return 0;
    }
    registration->of_transport[TUG_BY_NATIVE] = range;
    return 0;
}

static int native_register(void *state, struct tug_registration *registration) {
    struct native *native = state;
    registration->of_transport[TUG_BY_NATIVE] = NULL;
    if (registration->bytes < TUG_NATIVE_MIN)
        return 0;
    pthread_mutex_lock(&native->lock);
    int status = attach(native, registration);
    pthread_mutex_unlock(&native->lock);
    return status;
}

static void native_deregister(void *state, struct tug_registration *registration) {
    struct native *native = state;
    struct range *range = registration->of_transport[TUG_BY_NATIVE];
    if (range == NULL)
        return;
    registration->of_transport[TUG_BY_NATIVE] = NULL;
    pthread_mutex_lock(&native->lock);
    if (range->first == registration)
        range->ended = true;
    if (--range->users == 0) {
        tdelete(range, &native->ranges, compare_ranges);
        (void)tug_host.Win_detach(native->window, range->base);
        free(range);
    }
    pthread_mutex_unlock(&native->lock);
}

/* ---- start and end ---- */

static bool native_missing(char *reason) {
    (void)reason; /* every MPI that the library works with has it */
    return false;
}

static int open_window(struct native *native) {
    if (tug_host.Win_create_dynamic(MPI_INFO_NULL, native->fabric->comm, &native->window) !=
        MPI_SUCCESS)
        return TUG_ERR_MPI;
    if (tug_host.Win_set_errhandler(native->window, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
        /* all locks of this window are shared, so none need be checked: no messages */
        tug_host.Win_lock_all(MPI_MODE_NOCHECK, native->window) == MPI_SUCCESS)
        return 0;
    (void)tug_host.Win_free(&native->window);
    return TUG_ERR_MPI;
}

static int native_open(struct tug_fabric *fabric, void **state) {
    struct native *native = calloc(1, sizeof(*native));
    if (native != NULL) {
        native->fabric = fabric;
        native->due = calloc(fabric->noperations, 1);
        native->waiting.first = TUG_NO_TAG;
        native->blocks_end = &native->blocks;
    }
    int status = TUG_ERR_NO_MEMORY;
    if (tug_all_agree(fabric->comm, native != NULL && native->due != NULL))
        status = open_window(native);
    if (status != 0) {
        if (native != NULL)
            free(native->due);
        free(native);
        return status;
    }
    pthread_mutex_init(&native->lock, NULL);
    *state = native;
    return 0;
}

static void free_blocks(struct block *block) {
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

/* Ends a grant: its memory is no longer served by it. */
static void end_grant(struct grant **at) {
    struct grant *grant = *at;
    *at = grant->next;
    grant->registration->serving--;
    free(grant);
}

static void native_close(void *state) {
    struct native *native = state;
    (void)tug_host.Win_unlock_all(native->window);
    while (native->ranges != NULL) {
        struct range *range = *(struct range **)native->ranges;
        tdelete(range, &native->ranges, compare_ranges);
        (void)tug_host.Win_detach(native->window, range->base);
        free(range);
    }
    (void)tug_host.Win_free(&native->window);
    free_blocks(native->blocks);
    free_blocks(native->free_blocks);
    while (native->grants != NULL)
        end_grant(&native->grants);
    pthread_mutex_destroy(&native->lock);
    free(native->due);
    free(native);
}

static bool native_reaches(void *state, uint32_t peer) {
    const struct native *native = state;
    return peer < native->fabric->nranks;
}

/* ---- operations of this process ---- */

static bool native_takes(void *state, const struct tug_operation *operation) {
    (void)state;
    if (operation->bytes < TUG_NATIVE_MIN)
        return false;
    if (operation->kind != TUG_OPERATION_WRITE)
        return operation->kind == TUG_OPERATION_READ;
    if (operation->local == NULL)
        return true; /* no block without memory comes: somebody asks what would be taken */
    const struct tug_registration *registration = operation->registration;
    return registration != NULL && registration->of_transport[TUG_BY_NATIVE] != NULL;
}

static int tell(struct native *native, uint32_t peer, const struct message *message) {
    return tug_fabric_control(native->fabric, peer, TUG_BY_NATIVE, message, sizeof(*message));
}

/* Nothing is due for the operation any more, of which others knew. */
static void forget(struct native *native, const struct tug_operation *operation) {
    native->due[tug_fabric_tag(native->fabric, operation)] = 0;
    native->nasked--;
    native->noffered -= operation->kind == TUG_OPERATION_WRITE;
}

static void fail(struct native *native, struct tug_operation *operation, int status) {
    operation->status = (int8_t)status;
    tug_fabric_complete(native->fabric, operation);
}

static void ask(struct native *native, struct tug_operation *operation) {
    const uint32_t tag = tug_fabric_tag(native->fabric, operation);
    const bool writes = operation->kind == TUG_OPERATION_WRITE;
    native->due[tag] = writes ? DONE : GRANT;
    native->nasked++;
    native->noffered += writes;
    const int status = tell(native, operation->peer,
                            &(struct message){.kind = writes ? OFFER : ASK,
                                              .tag = tag,
                                              .key = operation->key,
                                              .offset = operation->offset,
                                              .bytes = operation->bytes,
                                              .address = writes ? (uintptr_t)operation->local : 0});
    if (status == 0)
        return;
    forget(native, operation);
    fail(native, operation, status);
}

static void native_post(void *state, struct tug_operation *operation) {
    struct native *native = state;
    if (native->nasked < ASKED_MOST) {
        ask(native, operation);
        return;
    }
    tug_fabric_line_up(native->fabric, &native->waiting.first, &native->waiting.last, operation);
}

/* There may be room for those that wait. */
static void ask_more(struct native *native) {
    while (native->waiting.first != TUG_NO_TAG && native->nasked < ASKED_MOST) {
        struct tug_operation *operation = &native->fabric->operations[native->waiting.first];
        native->waiting.first = operation->next;
        ask(native, operation);
    }
}

/* The others are through with an operation: the next one's turn. */
static void settle(struct native *native, const struct tug_operation *operation) {
    forget(native, operation);
    ask_more(native);
}

static void finish(struct native *native, struct tug_operation *operation, int status) {
    settle(native, operation);
    fail(native, operation, status);
}

/* ---- blocks ---- */

static struct block *new_block(struct native *native) {
    struct block *block = native->free_blocks;
    if (block == NULL)
        return malloc(sizeof(*block));
    native->free_blocks = block->next;
    return block;
}

static void enqueue(struct native *native, struct block *block) {
    block->next = NULL;
    *native->blocks_end = block;
    native->blocks_end = &block->next;
}

/* Asks for the next piece of a block. */
static void get_piece(struct native *native, struct block *block) {
    const uint64_t bytes = block->left < PIECE ? block->left : PIECE;
    const int slot = native->nrequests;
    if (tug_host.Rget_c(block->to, (MPI_Count)bytes, MPI_BYTE, (int)block->peer,
                        (MPI_Aint)block->from, (MPI_Count)bytes, MPI_BYTE, native->window,
                        &native->requests[slot]) != MPI_SUCCESS) {
        tug_warn_once("MPI_Rget of %llu bytes from process %u failed", (unsigned long long)bytes,
                      block->peer);
        block->status = TUG_ERR_MPI;
        block->left = 0;
        return;
    }
    native->block_of[slot] = block;
    native->nrequests++;
    block->pieces++;
    block->to += bytes;
    block->from += bytes;
    block->left -= bytes;
}

/* A read is over; its owner may forget it. */
static void give_back(struct native *native, struct tug_operation *operation, uint64_t key,
                      int status) {
    const uint32_t tag = tug_fabric_tag(native->fabric, operation);
    operation->status = (int8_t)status;
    native->due[tag] = DONE;
    const int told =
        tell(native, operation->peer, &(struct message){.kind = RELEASE, .tag = tag, .key = key});
    if (told != 0)
        finish(native, operation, told);
}

/* All data of the block have come, or will never come. */
static void end_block(struct native *native, struct block *block) {
    if (block->registration != NULL) {
        block->registration->serving--;
        (void)tell(native, block->peer,
                   &(struct message){.kind = DONE, .tag = block->tag, .status = block->status});
    } else {
        give_back(native, &native->fabric->operations[block->tag], block->key, block->status);
    }
    block->next = native->free_blocks;
    native->free_blocks = block;
}

/* Asks for pieces while there is room, first come, first served. */
static void get_pieces(struct native *native) {
    for (struct block *block = native->blocks; block != NULL && native->nrequests < REQUESTS;
         block = block->next)
        while (block->left > 0 && block->pieces < PIECES_PER_BLOCK && native->nrequests < REQUESTS)
            get_piece(native, block);
}

/* Takes the blocks that are through out of the list. Callbacks may add others at its end. */
static bool end_blocks(struct native *native) {
    bool ended = false;
    for (struct block **at = &native->blocks; *at != NULL;) {
        struct block *block = *at;
        if (block->left > 0 || block->pieces > 0) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        if (block->next == NULL)
            native->blocks_end = at;
        end_block(native, block);
        ended = true;
    }
    return ended;
}

/* ---- messages ---- */

/* A peer asks to read: checks, and grants it. */
static void asked_for(struct native *native, uint32_t peer, const struct message *message) {
    struct message answer = {.kind = GRANT, .tag = message->tag, .key = message->key};
    struct grant *grant = NULL;
    int status = 0;
    struct tug_registration *registration = tug_memory_find(
        &native->fabric->memory, message->key, message->offset, message->bytes, &status);
    if (registration == NULL) {
        answer.status = status;
    } else if (registration->of_transport[TUG_BY_NATIVE] == NULL) {
        answer.status = NATIVE_ELSEWHERE;
    } else if ((grant = malloc(sizeof(*grant))) == NULL) {
        answer.status = TUG_ERR_NO_MEMORY;
    } else {
        *grant = (struct grant){native->grants, registration, peer, message->tag};
        native->grants = grant;
        registration->serving++;
        answer.address = (uintptr_t)registration->base + message->offset;
    }
    if (tell(native, peer, &answer) != 0 && grant != NULL)
        end_grant(&native->grants);
}

/* A write of a peer: the data are fetched. */
static void offered(struct native *native, uint32_t peer, const struct message *message) {
    int status = 0;
    struct tug_registration *registration = tug_memory_find(
        &native->fabric->memory, message->key, message->offset, message->bytes, &status);
    struct block *block = registration != NULL ? new_block(native) : NULL;
    if (block == NULL) {
        status = registration != NULL ? TUG_ERR_NO_MEMORY : status;
        (void)tell(native, peer,
                   &(struct message){.kind = DONE, .tag = message->tag, .status = status});
        return;
    }
    registration->serving++;
    *block = (struct block){.to = registration->base + message->offset,
                            .from = message->address,
                            .left = message->bytes,
                            .peer = peer,
                            .tag = message->tag,
                            .registration = registration};
    enqueue(native, block);
}

/* The operation that an answer is for; NULL: none of that kind is due. */
static struct tug_operation *answered(struct native *native, uint32_t peer,
                                      const struct message *message) {
    if (message->tag >= native->fabric->noperations || native->due[message->tag] != message->kind)
        return NULL;
    struct tug_operation *operation = &native->fabric->operations[message->tag];
    if (operation->peer != peer)
        return NULL;
    native->due[message->tag] = 0;
    return operation;
}

static void granted(struct native *native, struct tug_operation *operation,
                    const struct message *message) {
    if (message->status == NATIVE_ELSEWHERE) {
        settle(native, operation);
        tug_transports[TUG_BY_PACKETS]->post(native->fabric->states[TUG_BY_PACKETS], operation);
        return;
    }
    struct block *block = message->status == 0 ? new_block(native) : NULL;
    if (block == NULL) {
        if (message->status == 0)
            give_back(native, operation, message->key, TUG_ERR_NO_MEMORY);
        else
            finish(native, operation, (int)message->status);
        return;
    }
    *block = (struct block){.to = operation->local,
                            .from = message->address,
                            .left = operation->bytes,
                            .peer = operation->peer,
                            .tag = message->tag,
                            .key = message->key};
    enqueue(native, block);
}

/* The peer has read what it asked for. */
static bool release(struct native *native, uint32_t peer, const struct message *message) {
    struct grant **at = &native->grants;
    while (*at != NULL && ((*at)->peer != peer || (*at)->tag != message->tag ||
                           (*at)->registration->id != message->key))
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    end_grant(at);
    (void)tell(native, peer, &(struct message){.kind = DONE, .tag = message->tag});
    return true;
}

static void done(struct native *native, struct tug_operation *operation, int status) {
    if (operation->kind == TUG_OPERATION_READ)
        status = operation->status;
    finish(native, operation, status);
}

/* False: the message makes no sense. */
static bool understand(struct native *native, uint32_t peer, const struct message *message) {
    struct tug_operation *operation;
    if (message->status > NATIVE_ELSEWHERE || message->status < INT8_MIN)
        return false;
    switch (message->kind) {
    case ASK:
        asked_for(native, peer, message);
        return true;
    case OFFER:
        offered(native, peer, message);
        return true;
    case GRANT:
        operation = answered(native, peer, message);
        if (operation != NULL)
            granted(native, operation, message);
        return operation != NULL;
    case DONE:
        operation = message->status <= 0 ? answered(native, peer, message) : NULL;
        if (operation != NULL)
            done(native, operation, (int)message->status);
        return operation != NULL;
    case RELEASE:
        return release(native, peer, message);
    default:
        return false;
    }
}

static void native_control(void *state, uint32_t peer, const void *data, size_t bytes) {
    struct native *native = state;
    struct message message;
    bool good = bytes == sizeof(message);
    if (good) {
        memcpy(&message, data, sizeof(message));
        good = understand(native, peer, &message);
    }
    if (!good)
        tug_warn_once("process %u sent a message about large blocks that makes no sense", peer);
}

/* ---- losing a peer ---- */

/* Moves those of a list that are for that peer to another. */
static struct list take_out(struct native *native, struct list *from, uint32_t peer) {
    struct tug_fabric *fabric = native->fabric;
    struct list kept = {TUG_NO_TAG, TUG_NO_TAG}, taken = kept;
    for (uint32_t tag = from->first; tag != TUG_NO_TAG;) {
        struct tug_operation *operation = &fabric->operations[tag];
        struct list *to = operation->peer == peer ? &taken : &kept;
        tag = operation->next;
        tug_fabric_line_up(fabric, &to->first, &to->last, operation);
    }
    *from = kept;
    return taken;
}

static void native_lost(void *state, uint32_t peer) {
    struct native *native = state;
    struct tug_fabric *fabric = native->fabric;
    struct list failed = take_out(native, &native->waiting, peer);
    for (uint32_t tag = 0; tag < fabric->noperations; tag++) {
        struct tug_operation *operation = &fabric->operations[tag];
        if (native->due[tag] == 0 || operation->peer != peer)
            continue;
        forget(native, operation);
        tug_fabric_line_up(fabric, &failed.first, &failed.last, operation);
    }
    for (struct grant **at = &native->grants; *at != NULL;)
        if ((*at)->peer == peer)
            end_grant(at);
        else
            at = &(*at)->next;
    for (struct block *block = native->blocks; block != NULL; block = block->next) {
        if (block->peer != peer)
            continue;
        block->left = 0;
        block->status = TUG_ERR_PEER;
    }
    while (failed.first != TUG_NO_TAG) {
        struct tug_operation *operation = &fabric->operations[failed.first];
        failed.first = operation->next;
        fail(native, operation, TUG_ERR_PEER);
    }
    ask_more(native);
}

/* ---- getting on ---- */

/* Looks which pieces have come. */
static bool test_pieces(struct native *native) {
    int indices[REQUESTS];
    MPI_Status statuses[REQUESTS];
    int ready = 0;
    const int error =
        tug_host.Testsome(native->nrequests, native->requests, &ready, indices, statuses);
    if (ready == MPI_UNDEFINED || ready <= 0)
        return false;
    for (int i = 0; i < ready; i++) {
        struct block *block = native->block_of[indices[i]];
        block->pieces--;
        if (error != MPI_SUCCESS &&
            (error != MPI_ERR_IN_STATUS || statuses[i].MPI_ERROR != MPI_SUCCESS)) {
            block->status = TUG_ERR_MPI;
            block->left = 0;
        }
    }
    int kept = 0;
    for (int i = 0; i < native->nrequests; i++)
        if (native->requests[i] != MPI_REQUEST_NULL) {
            native->requests[kept] = native->requests[i];
            native->block_of[kept++] = native->block_of[i];
        }
    native->nrequests = kept;
    return true;
}

static bool native_poll(void *state) {
    struct native *native = state;
    bool moved = false;
    if (!tug_engine_enter_host())
        return false;
    if (native->nrequests > 0) {
        moved = test_pieces(native);
    } else if (native->grants != NULL || native->noffered > 0) {
        /* the host answers the peers' gets when it is called */
        int flag;
        (void)tug_host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, native->fabric->comm, &flag,
                              MPI_STATUS_IGNORE);
    }
    tug_engine_leave_host();
    if (native->blocks != NULL) {
        get_pieces(native);
        moved |= end_blocks(native);
    }
    return moved;
}

static bool native_busy(void *state) {
    const struct native *native = state;
    return native->nasked > 0 || native->grants != NULL || native->blocks != NULL;
}

/* The host MPI rings no bell: it must be asked. */
static bool native_arm(void *state) {
    return !native_busy(state);
}

const struct tug_transport tug_transport_native = {
    .name = "native",
    .help = "large blocks by the one-sided calls of the host MPI",
    .missing = native_missing,
    .open = native_open,
    .close = native_close,
    .reaches = native_reaches,
    .register_memory = native_register,
    .deregister_memory = native_deregister,
    .takes = native_takes,
    .post = native_post,
    .poll = native_poll,
    .busy = native_busy,
    .arm = native_arm,
    .control = native_control,
    .lost = native_lost,
};

size_t tug_native_footprint(uint32_t operations) {
    return sizeof(struct native) + operations;
}

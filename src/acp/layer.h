/* What the files of ACP share. ACP stands on LLCL: one context, and MPI only to begin and to end.
 *
 *   layer.c    beginning, end, who is who
 *   options.c  the --acp-* options of a program
 *   region.c   this process's registrations
 *   lookup.c   reading others'
 *   cache.c    what is known of them
 *   command.c  the GMA calls: handles, order, completion
 *   start.c    how a command goes: by LLCL's operations, or to the rank of the source
 *   queue.c    commands that cannot start yet
 *   relay.c    what the ranks ask of one another: commands of third parties
 *   sync.c     the barrier
 *
 * A *command* is one GMA. Those that this process issues are in a ring of TUG_ACP_COMMANDS, by
 * handle; those that others have sent here, because the source is here, in a pool of
 * TUG_ACP_RELAYED that all of them share. Both are registered, so that a command can hold the
 * old value of its atomic on the way to another rank; behind them, entries that are being read.
 *
 * Threads: a command that can start at once is started by the thread that issues it. Everything
 * else (waiting for order, keys and room) is done by the holder of the engine's baton, who alone
 * touches the queues.
 */
#ifndef TUG_ACP_LAYER_H
#define TUG_ACP_LAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "acp/address.h"
#include "acp/cache.h"
#include "engine/engine.h"
#include "llcl/llcl.h"

#define TUG_ACP_COMMANDS 4096
#define TUG_ACP_RELAYED 4096

/* ---- commands ---- */

/* Entries that are being read at once. */
#define TUG_ACP_LOOKUPS 64

enum tug_acp_kind { TUG_ACP_COPY, TUG_ACP_FETCH, TUG_ACP_COMPARE };

/* What is to be done: this is also what is sent to the rank of a source. */
struct tug_acp_request {
    acp_ga_t dst;
    acp_ga_t src;
    uint64_t bytes;
    uint64_t operand; /* FETCH: the operand; COMPARE: the new value */
    uint64_t compare;
    uint32_t kind;
    uint32_t op; /* FETCH: enum tug_atomic_op */
};

struct tug_acp_command {
    struct tug_acp_request request;
    struct tug_acp_command *next; /* the next in its queue */
    acp_handle_t handle;          /* 0: the command is another rank's */
    acp_handle_t order;           /* the last handle that has to be complete before it starts */
    struct tug_caller caller;     /* another rank's command: whom to answer */
    uint64_t used;                /* id of the key that the operation went with; 0: our own */
    uint64_t stale;               /* id of a key that was refused */
    acp_ga_t missing;             /* TUG_ACP_LOOK_UP: whose key */
    bool looked_up;               /* a key has been read for this command */
    uint64_t old;                 /* an atomic's result on its way to another rank */
    bool fetched;                 /* `old` has come */
    bool leave;                   /* a copy between others that the rank of the source shall do */
    int32_t answer;               /* the answer of the rank of the source */
};

struct tug_acp_list {
    struct tug_acp_command *first, *last;
};

struct tug_acp_slot {
    _Atomic acp_handle_t done;   /* the last handle of this slot that is complete */
    struct tug_acp_list waiting; /* who waits for it and all before; holder only */
    struct tug_acp_command command;
} __attribute__((aligned(64)));

/* ---- the state ---- */

struct tug_acp_memory {
    struct tug_acp_slot slots[TUG_ACP_COMMANDS];
    struct tug_acp_command relayed[TUG_ACP_RELAYED];
    struct tug_acp_entry copies[TUG_ACP_LOOKUPS]; /* of others' entries */
};

struct tug_acp {
    _Atomic bool running;
    bool initialised_mpi;
    tug_context *context;
    uint32_t rank, nranks;
    uint32_t ncolors;
    struct tug_acp_cache cache;
    struct tug_acp_memory *memory;
    tug_registration *registration; /* of that */
    struct tug_acp_entry *entries;  /* [TUG_ACP_KEYS, and a group's], in front of starter memory */
    size_t front_bytes;             /* that it begins behind them, the same on all ranks */
};
extern struct tug_acp tug_acp;

/* Offset of a GA in the memory that its registration's key names. */
static inline uint64_t tug_acp_offset(acp_ga_t ga) {
    return tug_acp_ga_offset(ga) + (tug_acp_ga_number(ga) == 0 ? tug_acp.front_bytes : 0);
}

/* The reason of a failure: ACP_ERRNO of this thread, and a line. `what` begins the line. */
void tug_acp_fail(const char *what, int status);

/* Sets ACP_ERRNO of this thread and says nothing. */
void tug_acp_set_errno(int status);

/* True while ACP runs; else it fails with TUG_ERR_STATE. */
bool tug_acp_runs(const char *what);

/* ---- options.c ---- */

/* Takes --acp-* out of a program's arguments (NULL: none). 0, or TUG_ERR_INVALID, which has been
 * told, and the arguments are as they were. */
int tug_acp_options(int *argc, char ***argv);

/* Bytes of starter memory: as the options or the settings say. */
size_t tug_acp_starter_bytes(void);

/* What tug_message_complain() calls the messages of ACP. */
#define TUG_ACP_MESSAGE "a message of ACP"

/* ---- region.c: this process's memory ---- */

struct tug_acp_pinned {
    tug_registration *registration;
    unsigned char *address;
    size_t offset; /* its offset in the registration */
    uint32_t number;
    struct tug_key key;
};

/* For groups of so many ranks. */
int tug_acp_regions_open(uint32_t group);
void tug_acp_regions_close(void);

/* Where [ga, ga + bytes), which is ours, lies; it stays registered until tug_acp_unpin(). 0,
 * TUG_ERR_KEY, TUG_ERR_RANGE. Any thread. */
int tug_acp_pin(acp_ga_t ga, uint64_t bytes, struct tug_acp_pinned *pinned);
void tug_acp_unpin(const struct tug_acp_pinned *pinned);

/* ---- command.c ---- */

int tug_acp_commands_open(void);
void tug_acp_commands_close(void);

/* How far everything is complete. Any thread. */
acp_handle_t tug_acp_complete_until(void);

/* acp_complete(), and the status of a failure that it has passed, or 0. */
int tug_acp_complete(acp_handle_t handle);

/* The status of a failed command that this one is ordered behind, or 0. */
int tug_acp_order_failed(const struct tug_acp_command *command);

/* The command is complete. Any thread; another rank's: holder only. */
void tug_acp_end(struct tug_acp_command *command, int status);

static inline struct tug_acp_slot *tug_acp_slot_of(acp_handle_t handle) {
    return &tug_acp.memory->slots[handle & (TUG_ACP_COMMANDS - 1)];
}

/* ---- start.c ---- */

enum tug_acp_outcome {
    TUG_ACP_TAKEN,   /* it is under way, or complete: it may not be looked at any more */
    TUG_ACP_FULL,    /* there is no room now */
    TUG_ACP_LOOK_UP, /* the key of command->missing is not known */
    TUG_ACP_RELAY,   /* it is for the rank of the source */
};

/* Starts a command as far as this rank can. Any thread. */
enum tug_acp_outcome tug_acp_start(struct tug_acp_command *command);

/* Can this be a request? 0, or TUG_ERR_INVALID. What its memory is worth is found out at its start.
 */
int tug_acp_check(const struct tug_acp_request *request);

/* ---- queue.c ---- */

void tug_acp_queue_open(void);
void tug_acp_queue_close(void);

/* Hands a command over to the holder, to be started when it can be. Any thread, callbacks too:
 * does not wait. */
void tug_acp_hand_over(struct tug_acp_command *command);

/* A handle has been completed, and published by a seq_cst store. Any thread, callbacks too. */
void tug_acp_order_moved(void);

/* Holder only. */
void tug_acp_start_queued(struct tug_acp_command *command);
void tug_acp_append(struct tug_acp_list *list, struct tug_acp_command *command);

/* ---- lookup.c: holder only ---- */

/* Reads the key of command->missing; then the command starts again, or fails. False: no room now.
 */
bool tug_acp_look_up(struct tug_acp_command *command);

/* ---- relay.c: holder only ---- */

int tug_acp_relay_open(void);

/* Sends it to the rank of the source. */
enum tug_acp_relay { TUG_ACP_SENT, TUG_ACP_NO_CREDIT, TUG_ACP_NO_ROOM };
enum tug_acp_relay tug_acp_relay(struct tug_acp_command *command);

/* Ends a command that another rank has sent. */
void tug_acp_relay_end(struct tug_acp_command *command, int status);

/* The relayed command was refused for want of room at the source, and is to be sent again. */
void tug_acp_relay_again(struct tug_acp_command *command);

/* ---- sync.c ---- */

int tug_acp_sync_open(void);
int tug_acp_sync_all(void);

#endif

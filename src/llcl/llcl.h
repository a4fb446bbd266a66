/* LLCL, for the other floors: what they ask of it beyond its public header.
 *
 * Windows, ACP and arrays have contexts of their own, made by tug_context_create(), and use the
 * public calls. Here stands what programs have no use for. A context is opaque: a floor that wants
 * a fact of one asks for it, seldom, and keeps what it wants often. What is asked for every
 * operation (tug_burst_is_single() and the like) does not look into the context and is inline.
 *
 * Threading: any thread, if nothing else is said. "Holder only": whoever has the engine's baton.
 */
#ifndef TUG_LLCL_LLCL_H
#define TUG_LLCL_LLCL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/reach.h"
#include "tugboat/llcl.h"

struct tug_bell;
struct tug_live;

/* ---- contexts of other floors ---- */

/* tug_context_create() on a team, which the caller keeps for as long as the context is there.
 * Collective, the same answer on all ranks. */
struct tug_team;
int tug_context_create_on(struct tug_team *team, tug_context **context);

/* The context is not the program's, who is not told that it was left open at MPI_Finalize. Its
 * handlers and callbacks call nothing of the host's. */
void tug_context_set_internal(tug_context *context);

/* One look for its news, whether anything is out or not. Holder only. */
void tug_context_look(tug_context *context);

/* The same, and its operations are those of jobs of the engine: its peers wait for none of its
 * answers while no job is out. */
void tug_context_set_with_jobs(tug_context *context);

/* Has at_end(d) called when the context is freed, by whomever, and everything is complete. */
void tug_context_set_end(tug_context *context, void (*at_end)(void *d), void *d);

/* MPI is about to be finalised, on all processes: contexts that are left are freed. */
void tug_llcl_finalize(void);

/* tug_mem_allocate(), where only the first real_in_bytes bytes take memory and are zeros. Others
 * take none until tug_shm_populate() or their first use; if there are any, no device is told of the
 * memory, which it would lock: register what of it devices shall know. */
int tug_mem_reserve(tug_context *context, size_t size_in_bytes, size_t real_in_bytes,
                    tug_registration **registration);

/* Does a device know where the memory is, so that it has to stay there? */
bool tug_mem_is_locked(const tug_registration *registration);

/* The ports of network cards that every process has and operations can be dealt out to, at least 1;
 * the same on all. Any thread. */
uint32_t tug_context_ports(const tug_context *context);

/* Short reads and writes of the registration by other processes, and whatever they wait for at a
 * card, go by that port, by keys that are made from now on; 0 to begin with. What has an order, as
 * writes with signals, atomics and packets, goes by the first; long ones go by all in any case. Who
 * has made the registration, before others see it. */
void tug_mem_set_port(tug_registration *registration, uint32_t port);

/* ---- facts ---- */

/* Its private communicator, of all its processes: for collective calls of the floor that made it.
 * LLCL itself uses it in collective calls only. */
MPI_Comm tug_context_comm(const tug_context *context);

/* Another, of its processes of this node, or MPI_COMM_NULL before the first tug_mem_reserve(). */
MPI_Comm tug_context_node_comm(const tug_context *context);

/* Names the context: random, and the same on all its processes. */
uint64_t tug_context_id(const tug_context *context);

/* Operations that can be out at once. */
uint32_t tug_context_operations(const tug_context *context);

/* True if operations of fewer than TUG_ORDERED_BELOW bytes that are not done at once are copied
 * into packets, as messages are, and so are their answers: no device takes any of them. Then they
 * are done at the peer, and what was read has been copied, before it handles a message sent later.
 */
bool tug_context_ordered(const tug_context *context);
#define TUG_ORDERED_BELOW 16384

/* Do the processes of a node have inboxes in shared memory, for packets or at least for the list of
 * what is registered? */
bool tug_context_has_inboxes(const tug_context *context);

/* May loads and stores go to the memory of the node's other processes? */
bool tug_context_maps(const tug_context *context);

/* Is there a way to other nodes that is not the host's messages? The same everywhere. */
bool tug_context_has_network(const tug_context *context);

/* The bell that all of its news ring, see tug_service.bell; NULL: it has to be polled. */
struct tug_bell *tug_context_bell(const tug_context *context);

/* Bytes of a context, and of what it keeps of each process of its node; operations, registrations
 * and transports apart. */
struct tug_context_footprint {
    size_t context, node_process;
};
struct tug_context_footprint tug_context_footprint(void);

/* ---- messages ---- */

/* Logs that a message of that process is dropped: it is `what`, and makes no sense here. */
void tug_message_complain(int source, const char *what);

/* The status that an answer of that process tells. TUG_ERR_INVALID, with a complaint: there is no
 * such status, or it is 0 and the rest of the answer is not right. */
int tug_message_status(int source, const char *what, int32_t told, bool right);

/* ---- memory ---- */

/* All memory of this process, as local memory only: offset is the address. For floors whose users
 * register nothing; devices do not take it. */
tug_registration *tug_context_everything(tug_context *context);

/* Is there a way to a registration of that process that is shorter than packets? */
enum tug_shortcut {
    TUG_SHORTCUT_NONE,
    TUG_SHORTCUT_SINGLE, /* for single operations, see tug_burst_is_single() */
    TUG_SHORTCUT_DEVICE, /* for any reads and writes: a card does them */
    TUG_SHORTCUT_ANY,
};
enum tug_shortcut tug_context_shortcut(tug_context *context, uint32_t peer,
                                       const struct tug_key *key);

/* ---- waiting ---- */

/* Around the wait of a thread that will send something to those that it hears from: that can
 * acknowledge their packets. Several threads may be taken for one. Any thread. */
void tug_context_replies(tug_context *context, bool soon);

/* That a counter has reached a value: a done() for what waits for it. */
struct tug_counter_goal {
    const struct tug_counter *counter;
    uint64_t value;
};
bool tug_counter_reached(void *goal);

/* tug_wait() for a done() that does more than look, or that only this thread may call: the thread
 * itself waits, whatever the program has set by tug_wait_hooks_set(). how: 0 or TUG_WAIT_HOST, see
 * tug_engine_wait(). */
void tug_context_wait(tug_context *context, bool (*done)(void *d), void *d, unsigned how);

/* How many processes have been lost so far: whoever waits for a message looks whether it grows. Any
 * thread. */
uint32_t tug_context_lost(const tug_context *context);

/* Is that process lost, so that nothing comes from it any more? Any thread, not in callbacks. */
bool tug_context_has_lost(tug_context *context, int process);

/* Is done(d) true? If not, helps. Any thread. */
bool tug_context_test(tug_context *context, bool (*done)(void *d), void *d);

/* ---- operations ---- */

/* Bytes of a write or message that are copied by the call that starts it. */
#define TUG_COPIED_MOST 24

/* Handles n messages of `bytes` each, one behind the other, that came together. */
typedef void (*tug_am_run_handler)(tug_context *context, int source, const unsigned char *payloads,
                                   size_t bytes, size_t n, void *d);

/* tug_am_register() of a handler that takes several at a time, besides the one for a single
 * message. */
int tug_am_register_run(tug_context *context, unsigned id, tug_am_handler handler,
                        tug_am_run_handler run, void *d);

/* A *long message* is data of any length, of whole elements of `element` bytes (at most 64), with a
 * head of two words. The handler is given the head and what has come of the data, from byte
 * `position` of them on, while more is on its way, and says how many bytes it has taken: all whole
 * elements. A message is not handled before all of this one has been. */
typedef size_t (*tug_am_part_handler)(tug_context *context, int source, const uint64_t head[2],
                                      uint64_t position, const void *data, size_t bytes, void *d);

/* Sets the handler of an id of long messages, of which there are few: no message is under way. The
 * id behind them is that of the program's long active messages (long.h). */
#define TUG_PART_HANDLERS 1
void tug_am_register_part(tug_context *context, unsigned id, tug_am_part_handler handler, void *d);

/* Sends more than TUG_COPIED_MOST bytes so. The memory may be used again when on_local is called.
 * False: no room, nothing happened. Any thread. */
struct tug_long_message {
    int dest_proc;
    unsigned handler;
    uint64_t head[2];
    const void *data;
    size_t bytes, element;
    struct tug_callback on_local, on_complete;
};
bool tug_context_long_message(tug_context *context, const struct tug_long_message *message);

/* Bytes from which cross-memory attach is worth a system call for one of many operations too; and
 * from which it is where the peer looks for packets, or is about to. There packets are faster at
 * all sizes (512 KiB, 1 MiB, 4 MiB, 16 MiB take 38, 76, 321, 2 340 us by attach, and 38 to 42, 63
 * to 79, 138, 930 in packets, on two cores far apart and near), but one who has looked may compute
 * before all has come, and one who is about to come may take long. */
#define TUG_CMA_LEAST 4096
#define TUG_CMA_LEAST_SERVED (16 << 20)
#define TUG_CMA_LEAST_COMING (384 << 10)

/* A call of cross-memory attach is over sooner than a round trip of packets, which wakes the other
 * engine; of many small operations together each is cheaper in packets. A thread's *burst* is what
 * it starts between two waits; the last one mostly tells how long the next will be. */
struct tug_burst {
    unsigned started; /* operations on the node's memory that is not mapped, in this burst */
    unsigned last;    /* the same of the last burst that had any */
    bool peers_come;  /* its peers are about to wait for it, too (MPI_Win_fence) */
    bool awaited;     /* the last flush waited until everything was done at the peers */
    /* it ends with a message to its peers: packets that are not full wait for it */
    bool gathers;
    bool pieces;     /* more of the same operation follows at once: they wait for that */
    uint8_t follows; /* enum tug_follows */
};

/* What may follow the thread's last operation in its batch without a look (small.h): writes or
 * reads of other floors, or the program's writes. */
enum tug_follows { TUG_FOLLOWS_NOTHING, TUG_FOLLOWS_WRITES, TUG_FOLLOWS_READS, TUG_FOLLOWS_TRIES };

extern _Thread_local struct tug_burst tug_burst;

/* Will the operation that this thread is about to start be one of so many at most? */
static inline bool tug_burst_is_at_most(unsigned most) {
    return tug_burst.started < most && tug_burst.last <= most && !tug_burst.peers_come;
}

/* Will the operation that this thread is about to start be the only one of its burst? */
static inline bool tug_burst_is_single(void) {
    return tug_burst_is_at_most(1);
}

/* How many operations the burst has, as far as one can tell. */
static inline unsigned tug_burst_expected(void) {
    return tug_burst.started > tug_burst.last ? tug_burst.started : tug_burst.last;
}

static inline void tug_burst_add(void) {
    tug_burst.started++;
}

/* The operation that this thread is about to start belongs to an epoch. */
static inline void tug_burst_in_epoch(bool peers_come, bool gathers) {
    tug_burst.peers_come |= peers_come;
    tug_burst.gathers |= gathers;
}

/* More of the operation that this thread is about to start follows at once, or (false) this is the
 * last of it. Who has said true says false behind it. */
static inline void tug_burst_more_follows(bool more) {
    tug_burst.pieces = more;
}

/* This thread waits for what it has started, or asks after it. */
static inline void tug_burst_end(void) {
    tug_burst.peers_come = tug_burst.gathers = tug_burst.pieces = false;
    tug_burst.follows = TUG_FOLLOWS_NOTHING;
    if (tug_burst.started == 0)
        return;
    tug_burst.last = tug_burst.started;
    tug_burst.started = 0;
}

/* ---- atomics by the card, beside the CPU's ---- */

/* Opens memory that is registered from now on to tug_context_card_atomic(). False: some process's
 * card has no ordered atomics, and nothing changes. The same on all. */
bool tug_context_open_to_cards(tug_context *context);

/* An atomic of 8 aligned bytes that a card executes; atomic only to others of this kind. The
 * owner's card knows the key (tug_key_is_at_card()). Atomics of one thread to one process are
 * executed in the order in which they are started. If no card reaches it: TUG_ERR_DEVICE, nothing
 * was done. */
struct tug_card_atomic {
    bool loads;    /* does not write to the memory */
    bool compares; /* what is there with compare, and writes operand; else adds operand */
    int process;
    struct tug_remote_address remote;
    uint64_t operand, compare;
    void *result; /* anywhere in this process's memory; NULL: nothing is fetched */
    struct tug_callback on_local, on_complete; /* both when it has ended, in this order */
};

/* False: no room, nothing happened. Any thread. */
bool tug_context_card_atomic(tug_context *context, const struct tug_card_atomic *atomic);

bool tug_key_is_at_card(const struct tug_key *key);

/* ---- memory of the node's other processes (transport/reach.h) ---- */

/* Will a packet to that process be seen within about a microsecond, as one of its threads waits and
 * looks right now, or is in and out of the library (node/page.h)? False: its threads compute, or
 * sleep until they are woken; it is on another node, or on one of more processes than cores, where
 * who looks may wait for a core; or nothing is known of it. A hint, for choosing between ways that
 * are all right. Any thread. */
bool tug_peer_serves(const struct tug_context *context, uint32_t process);

/* Does it, or has it in the last `ns`? Such a one works on memory as well, and is likely to be back
 * before as much time is over again. A hint, too. Any thread. */
bool tug_peer_comes(const struct tug_context *context, uint32_t process, uint64_t ns);

/* The caller goes on without having waited: looks for the node's other processes, and says so to
 * them, when it is time. Two that work on each other's memory, and do not wait for it, see each
 * other look so. Any thread, not in callbacks. */
void tug_context_pass(const struct tug_context *context);

/* Can tug_reach_begin() find memory of that process at all? */
bool tug_reach_possible(const tug_context *context, uint32_t process);

/* tug_fabric_reach() */
bool tug_reach_begin(const tug_context *context, const struct tug_key *key, uint32_t owner,
                     uint64_t offset, uint64_t bytes, struct tug_reach *reach);

/* Has the owner access protected memory at an address where a read (or write) by attach has failed.
 * The owner changes nothing, but its thread faults as its program expects. This process accesses
 * its own memory `here` likewise. True: attach may be tried again. False: another try is useless.
 * Waits; not in callbacks. */
bool tug_reach_touch(tug_context *context, const struct tug_reach *reach, const struct tug_key *key,
                     int owner, uint64_t address, void *here, bool writes);

/* Copies from there to there, as one operation of the thread's burst, and sets *status as
 * tug_reach_read() would. False: it is cheaper for the owner of either; nothing happened. */
bool tug_reach_copy(const struct tug_reach *to, const struct tug_reach *from, size_t bytes,
                    int *status);

#endif

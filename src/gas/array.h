/* What the files of the relocatable global arrays share.
 *
 *   array.c     creation, end, facts
 *   access.c    the public calls: what memory in reach allows is done by the caller, the rest is an
 *               order
 *   order.c     orders: what has to ask, wait or send, by the holder of the baton
 *   homes.c     which process is the home of a page
 *   home.c      the directory of the pages whose home is here, and their moves
 *   pages.c     where pages are, as this process remembers it
 *   pools.c     the memory of each process's pages: its keys, and where it is mapped
 *   slots.c     the memory of single pages
 *   follow.c    pages that come without being asked to
 *   rent.c      when that is worth its cost
 *   grow.c      pages at the end come and go
 *   copies.c    the read cache
 *
 * A page moves in five steps, led by its home; the messages are LLCL calls, so every step ends when
 * all have answered:
 *
 *   own, move    asker -> home      queues behind earlier ones
 *   stop         home -> all who know the place: no puts from now on; answered when those under
 *                way are complete. Gets go on.
 *   fetch        home -> new owner  reads the page into a slot of its own
 *   change       home -> all who know the place: gets go to the new one; answered when those from
 *                the old one are complete. Puts still ask the home, who answers when all have
 *                changed: no put can be missed by a get that finds the old place.
 *   free         home -> old owner  the slot may be used again: nobody reads there any more
 *
 * tests/model/relocation.pml checks this.
 *
 * Turns: the home moves a page for one after the other, in the order in which they ask; those who
 * ask where it is are answered between two moves and cost nobody a turn. An owner needs nobody's
 * leave to go on owning a page, and would do so for as long as the home does not run. So whoever
 * can reach the home's memory counts its move there before it asks (*wants*, in the page's record),
 * and the home takes it off when it answers; an owner who finds wants asks the home too,
 * and stands behind those who were there before. Owners on other nodes are told by the stop.
 * tests/model/turns.pml checks that.
 *
 * Operations of a context are limited, and a question may wait for a move that needs some at other
 * processes. So that they never wait for one another for ever, orders have half of them at
 * most, and fetches, which wait for a read there, a quarter; all others end by themselves.
 */
#ifndef TUG_GAS_ARRAY_H
#define TUG_GAS_ARRAY_H

#include "base/divide.h"
#include "base/tags.h"
#include "engine/deferred.h"
#include "gas/pages.h"
#include "gas/rent.h"
#include "llcl/llcl.h"
#include "tugboat/gas.h"

#define TUG_ARRAY_ORDERS 256 /* at most, a power of two: calls that ask, wait or send */
#define TUG_ORDER_TASKS 8    /* pages of one call under way at once */

/* ---- messages ---- */

enum tug_gas_call {
    TUG_CALL_ASK,
    TUG_CALL_MOVE,
    TUG_CALL_STOP,
    TUG_CALL_FETCH,
    TUG_CALL_CHANGE,
    TUG_CALL_FREE,
    TUG_CALL_POOL, /* the key of a part of the pool, to whoever uses a page there first */
    TUG_CALL_KINDS
};

/* Messages are input. Each is checked in full before it changes anything: its length, its sender,
 * its fields, and that the page is in a state in which its home sends it. A message that fails is
 * dropped: take_call() logs it and answers it with no bytes, which is an error for the sender. A
 * false answer ends its order with TUG_ERR_INVALID. So a process that lies loses the pages that it
 * is the home or the owner of, and no others. */

struct tug_question { /* ask, move: to the home */
    uint64_t page;
    uint32_t to;    /* move: the new owner; ask: TUG_NO_OWNER */
    uint8_t puts;   /* ask: the answer must allow puts */
    uint8_t wanted; /* move: is among the page's wants (see below) */
    uint8_t gently; /* move: not if it would have to wait for a hold */
};

struct tug_reply {
    struct tug_page_slot place;
    int32_t status;
    uint32_t puts; /* allowed: no process knows another place */
};

struct tug_message { /* stop, fetch, free: the place it leaves; change: the new one */
    uint64_t page;
    struct tug_page_slot place;
    uint64_t gently; /* stop: is answered at once if the page is held, and the move is given up */
};

struct tug_fetched {
    int32_t status;
    uint32_t slot;
};

/* Pool: what the key names, from which slot on. */
struct tug_pool_key {
    struct tug_key key;
    uint64_t first;
};

/* Takes a message of its kind's length. False: the message makes no sense, and nothing has been
 * changed. Holder only. */
typedef bool (*tug_receive)(struct tug_array *array, struct tug_caller caller, const void *payload);

struct tug_receiver {
    struct tug_array *array;
    tug_receive receive;
};

/* ---- records ---- */

/* The record of a page, at its home: behind the slots of the pool, by ordinal. Others read it.
 *
 *       0            8        16      24      28     32                     64
 *      +------------+--------+-------+-------+------+----------------------+
 *      | generation | place  | check | wants | 0    | askers, or 0         |
 *      +------------+--------+-------+-------+------+----------------------+
 *
 * A process that reaches the record by loads or by a card first enters itself in `askers`, then
 * reads the place. Before a move the home zeroes the generation, then adds the askers to its list.
 * So the home sees the asker, or the asker sees 0 and asks by a message. tests/model/askers.pml
 * checks this. */
#define TUG_RECORD_ASKERS 4
struct tug_page_record {
    struct tug_seen {                  /* what is read */
        _Atomic uint64_t generation;   /* of the place, + 1; 0: ask the home */
        _Atomic uint64_t place, check; /* owner (high half) and slot */
    } seen;
    _Atomic uint32_t wants; /* moves, see above */
    uint32_t unused;
    _Atomic uint64_t askers[TUG_RECORD_ASKERS]; /* rank + 1; a rank's is number rank % ASKERS */
};
_Static_assert(sizeof(struct tug_page_record) == 64, "see the drawing");

/* Detects words of two different places, read in any order. */
static inline uint64_t tug_record_check(uint64_t generation, uint64_t place) {
    return generation * 0x9e3779b97f4a7c15u ^ place;
}

/* Publishes the place. The generation is 0, or no process reads the record now (grow.c). */
static inline void tug_record_show(struct tug_seen *shown, const struct tug_page_slot *place) {
    const uint64_t there = (uint64_t)place->owner << 32 | place->slot;
    atomic_store(&shown->place, there);
    atomic_store(&shown->check, tug_record_check(place->generation + 1, there));
    atomic_store(&shown->generation, place->generation + 1);
}

/* False: the page moves, or has moved during the reading. */
static inline bool tug_record_read(const struct tug_seen *seen, struct tug_page_slot *place) {
    const uint64_t generation = seen->generation, there = seen->place;
    *place = (struct tug_page_slot){generation - 1, (uint32_t)(there >> 32), (uint32_t)there};
    return generation != 0 && seen->check == tug_record_check(generation, there);
}

/* ---- orders ---- */

enum tug_order_kind {
    TUG_ORDER_GET,
    TUG_ORDER_PUT,
    TUG_ORDER_FETCH,  /* fetch and op */
    TUG_ORDER_MOVE,   /* a move to the process `to` */
    TUG_ORDER_LOCATE, /* the place shall be known */
    TUG_ORDER_HOLD,   /* the place shall be known, and puts allowed if the page is here */
};

struct tug_order;

/* One page of an order at a time; holder only. */
struct tug_task {
    struct tug_deferred work; /* tries again when there was no room */
    struct tug_order *order;
    struct tug_task *next; /* the next task that waits for the entry */
    struct tug_page *entry;
    uint64_t page;
    union {
        struct { /* asking the home */
            struct tug_question question;
            struct tug_reply reply;
        };
        struct { /* looking: the asker's word as it was before, and what is read of the record */
            uint64_t had;
            struct tug_seen seen;
        };
    };
    uint64_t begun_ns; /* follow.c: the access that is under way */
    bool thought;      /* follow.c: about this access */
};

struct tug_order {
    struct tug_deferred work;
    struct tug_array *array;
    struct tug_callback on_complete;
    enum tug_order_kind kind;
    int status; /* the first thing that went wrong */
    size_t index, bytes;
    void *buffer;          /* GET: to; PUT: from; FETCH: the result, or NULL;
                              LOCATE, HOLD: to the place */
    uint64_t operand;      /* FETCH: the operation's operand */
    enum tug_atomic_op op; /* FETCH: the operation */
    uint32_t to;           /* MOVE: the process that shall own the page */
    uint64_t leave;        /* MOVE: of the first 64 pages those that stay, a bit each */
    bool gently;           /* MOVE: not of pages that are held */
    uint64_t first;        /* page */
    uint64_t next, end;    /* pages that no task has taken */
    unsigned tasks_out;
    struct tug_task tasks[TUG_ORDER_TASKS];
};

/* ---- the array ---- */

/* A network card pins what it is told of. So it is told of a pool in parts, each when a process
 * that cannot map it uses a page there for the first time. */
#define TUG_POOL_PARTS 64                     /* at most */
#define TUG_POOL_PART_LEAST ((size_t)1 << 20) /* bytes, but of the last */

enum tug_pool_state { TUG_POOL_UNKNOWN, TUG_POOL_ASKED, TUG_POOL_KNOWN };

/* A part of a pool, of which this process has used pages. Holder only. */
struct tug_pool_part {
    struct tug_pool_key at;
    uint32_t owner, number; /* of another process's part */
    enum tug_pool_state state;
    int status;                   /* once it is known: 0, or why there is no key */
    struct tug_deferred *waiting; /* for the key */
    struct tug_array *array;
};

/* The pool of one process, of which this one has used pages. Holder only. */
struct tug_array_pool {
    unsigned char *mapped;        /* in this process, or NULL */
    struct tug_pool_key whole;    /* of a process of this node */
    struct tug_pool_part **parts; /* [nparts + 1], the last: records; NULL: none is known */
    struct tug_array_pool *next;  /* of all */
};

#define TUG_RUNS 4 /* may be coming at once */

/* A run of pages that is on its way here by itself. npages is 0: none. */
struct tug_coming {
    struct tug_array *array;
    struct tug_run_of_pages run;
    uint64_t left_out; /* pages, by bits, that do not come */
    uint64_t over;     /* those that have come, and may have left again, and those that do not */
    uint64_t since_ns;
};

/* Of follow.c; holder only. */
struct tug_follow {
    bool on;
    bool idle; /* nothing here was used between the last two accesses elsewhere */
    uint64_t accesses_out, moves_out; /* under way */
    struct tug_rent rent;
    struct tug_coming coming[TUG_RUNS];
};

struct tug_home;
struct tug_copies;

/* Who the home of a page is, and how many pages before this one have the same home. */
struct tug_page_home {
    uint32_t rank;
    uint64_t ordinal;
};

struct tug_array {
    tug_context *context;
    size_t bytes, page_bytes, npages; /* change in tug_array_grow() and _shrink() only */
    size_t npages_most;
    struct tug_divisor by_page; /* page_bytes */
    uint32_t rank, nranks;
    struct tug_page_home *homes; /* [npages_most]; NULL: page % nranks */
    size_t nhomed;               /* pages whose home is here */
    bool cpu_atomics;
    _Atomic bool used_here; /* memory in reach, since the last access elsewhere (follow.c) */
    struct tug_pages pages;

    tug_registration *pool; /* slots of page_bytes each; no card is told of it */
    size_t nslots;
    uint32_t part_slots, nparts;
    tug_registration
        *registered[TUG_POOL_PARTS + 1]; /* parts that one may know, or NULL; records */
    struct tug_array_pool **pools;       /* [nranks]; NULL: nothing is known; holder only */
    struct tug_array_pool *first_pool;
    size_t records_at;    /* behind each pool's slots: those of the pages whose home is there */
    unsigned char *real;  /* [nslots] does the slot have memory? This and these: holder only */
    uint64_t *slot_pages; /* [nslots] the page that has the slot; TUG_NO_PAGE: it is free */
    uint32_t *free_slots; /* [nfree] */
    size_t nfree;

    struct tug_follow follow;
    struct tug_home *home;
    struct tug_receiver receivers[TUG_CALL_KINDS];
    struct tug_deferred_list deferred;
    struct tug_tags tags; /* of orders */
    struct tug_order *orders;
    _Atomic uint32_t orders_out;
    _Atomic uint32_t holds;
    _Atomic uint32_t owns;     /* calls; two at once may count one */
    struct tug_copies *copies; /* NULL: none */
};

/* Any thread; written to once only between two accesses elsewhere. */
static inline void tug_array_used_here(struct tug_array *array) {
    if (__builtin_expect(!atomic_load_explicit(&array->used_here, memory_order_relaxed), 0))
        atomic_store_explicit(&array->used_here, true, memory_order_relaxed);
}

/* The page of an index, and where in it. */
struct tug_spot {
    uint64_t page;
    size_t offset;
};

static inline struct tug_spot tug_array_spot(const struct tug_array *array, size_t index) {
    const struct tug_division division = tug_divide(&array->by_page, index);
    return (struct tug_spot){division.quotient, division.rest};
}

/* The page of an index. */
static inline uint64_t tug_array_page(const struct tug_array *array, size_t index) {
    return tug_divide(&array->by_page, index).quotient;
}

static inline struct tug_page_home tug_array_home(const struct tug_array *array, uint64_t page) {
    if (array->homes != NULL)
        return array->homes[page];
    return (struct tug_page_home){(uint32_t)(page % array->nranks), page / array->nranks};
}

/* Is that process the home of a page that the array has now? */
static inline bool tug_array_is_home(const struct tug_array *array, uint64_t page, uint32_t rank) {
    return page < array->npages && tug_array_home(array, page).rank == rank;
}

/* Can a page be there? */
static inline bool tug_array_has_place(const struct tug_array *array,
                                       const struct tug_page_slot *place) {
    return place->owner < array->nranks && place->slot < array->nslots;
}

/* Most pages that a process owns at creation. */
static inline size_t tug_array_share(const struct tug_array *array) {
    return (array->npages - 1) / array->nranks + 1;
}

/* The pool of a process in this one, or NULL. Holder only, as what follows. */
static inline unsigned char *tug_pool_mapped(const struct tug_array *array, uint32_t rank) {
    const struct tug_array_pool *pool = array->pools[rank];
    return pool != NULL ? pool->mapped : NULL;
}

static inline unsigned char *tug_array_address(const struct tug_array *array,
                                               const struct tug_page_slot *place) {
    unsigned char *pool = tug_pool_mapped(array, place->owner);
    return pool != NULL ? pool + place->slot * array->page_bytes : NULL;
}

/* The record of a page, or NULL: its home's memory is out of reach. */
static inline struct tug_page_record *tug_array_record(const struct tug_array *array,
                                                       uint64_t page) {
    const struct tug_page_home home = tug_array_home(array, page);
    unsigned char *pool = tug_pool_mapped(array, home.rank);
    return pool != NULL ? (struct tug_page_record *)(pool + array->records_at) + home.ordinal
                        : NULL;
}

#define TUG_ARRAY_PLACES 4096 /* of others' pages, unless the program says how many */

/* What one process keeps for an array, in bytes; its pages and their copies apart. */
struct tug_array_footprint {
    size_t bare;
    uint32_t norders;
    size_t order;
    size_t pointer, pool; /* bytes for each rank, and for each whose pages are used */
    size_t part;          /* bytes more for each other part of such a pool */
    size_t entry;         /* bytes for a page that there is room for here, or that is elsewhere and
                             remembered */
    size_t slot;          /* bytes more for one that there is room for here */
    size_t record;        /* bytes for a page whose home is here; its list apart */
};
struct tug_array_footprint tug_array_footprint(uint32_t noperations);

/* One process's slots, and the place of each page, at the beginning. */
uint64_t tug_array_first_page(size_t npages, uint32_t nranks, uint32_t rank);
struct tug_page_slot tug_array_first_place(const struct tug_array *array,
                                           enum tug_placement placement, uint64_t page);

/* From now on calls of that kind go there. */
void tug_array_receive(struct tug_array *array, enum tug_gas_call kind, tug_receive receive);

/* Logs that a call makes no sense, and ends it at its caller with an error. */
void tug_array_refuse(struct tug_array *array, struct tug_caller caller);

/* The status of a call that has ended with `status` and whose answer contains the status `told`:
 * the first of the two that is not 0. If both are 0: 0 if the answer is valid (`right`), else
 * TUG_ERR_INVALID. */
int tug_array_status(int status, uint32_t process, int32_t told, bool right);

/* ---- order.c ---- */

/* A free order, or NULL. Any thread. */
struct tug_order *tug_order_take(struct tug_array *array);

/* Fills in what is left, runs it, and calls on_complete once. Any thread. */
void tug_order_start(struct tug_order *order);

/* The requester's side of moves. */
void tug_order_register(struct tug_array *array);

/* ---- homes.c ---- */

/* Asks the program's function, if there is one, and counts the pages whose home is here.
 * Collective, with the same result: 0, TUG_ERR_INVALID (what it returns), TUG_ERR_NO_MEMORY. */
int tug_array_find_homes(struct tug_array *array, const struct tug_array_params *params);

/* ---- pools.c ---- */

/* Is the memory of that place known, or lost (*status)? If not it is being asked for, and the work
 * is run again when that is over. Holder only. */
bool tug_pool_find(struct tug_array *array, const struct tug_page_slot *place,
                   struct tug_deferred *work, int *status);

/* Bytes from `offset` on of the page in that place, whose memory is known. Holder only. */
struct tug_remote_address tug_pool_there(const struct tug_array *array,
                                         const struct tug_page_slot *place, size_t offset);

/* That process's records, if loads or a card reach them. No key: they do not, or the key is being
 * asked for. Holder only. */
struct tug_remote_address tug_pool_records(struct tug_array *array, uint32_t rank);

/* A slot of this process, for what comes from that one. Holder only. */
struct tug_local_address tug_pool_here(struct tug_array *array, uint32_t from, uint32_t slot);

/* May the slot's memory be given back to the system: does no card know it? Holder only. */
bool tug_pool_is_loose(const struct tug_array *array, uint32_t slot);

/* Cards forget the parts in which no slot is used, here and at all others: everybody asks again.
 * The program's thread; nothing is under way, and it calls before anybody uses a page again. */
void tug_pools_forget(struct tug_array *array);

/* Makes this process's pool, with memory for its first pages, and meets those of its node.
 * Collective: 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_pools_open(struct tug_array *array);
void tug_pools_close(struct tug_array *array);

/* ---- follow.c ---- */

/* An access is about to be sent to a page that is elsewhere, in memory out of reach. True: the page
 * is on its way here, or sets out now, and the access had better wait in the entry. It is woken
 * when the page is here, or does not come; then it does not wait again. Holder only, as all here.
 */
bool tug_follow_waits(struct tug_page *entry, struct tug_task *task);

/* The move of a page by itself has ended, well or not: nobody waits for it from now on. */
void tug_follow_over(struct tug_array *array, uint64_t page);

/* The access begins; has not begun; has ended. */
void tug_follow_begin(struct tug_page *entry, struct tug_task *task);
void tug_follow_cancel(struct tug_page *entry);
void tug_follow_end(struct tug_page *entry, const struct tug_task *task, int status);

/* The page has come here; was here, and is no more. */
void tug_follow_came(struct tug_page *entry);
void tug_follow_left(struct tug_page *entry);

/* ---- slots.c ---- */

/* The first `taken` slots are taken. The caller names their pages. */
void tug_slots_open(struct tug_array *array, size_t taken);

/* A slot for the page, with memory behind it. False: there is none. Holder only. */
bool tug_slot_take(struct tug_array *array, uint64_t page, uint32_t *slot);
void tug_slot_give(struct tug_array *array, uint32_t slot);

/* Gives the memory of all free slots back to the system, where that can be done. Holder only. */
void tug_slots_trim(struct tug_array *array);

/* How many slots are used of each part of the pool. Holder only. */
void tug_slots_count(const struct tug_array *array, uint32_t used[TUG_POOL_PARTS]);

static inline unsigned char *tug_slot_address(const struct tug_array *array, uint32_t slot) {
    return tug_pool_mapped(array, array->rank) + slot * array->page_bytes;
}

/* ---- array.c ---- */

/* Do all agree? Serves the others meanwhile. Collective. */
bool tug_array_agree(struct tug_array *array, bool mine);

/* Are these n numbers, at most TUG_ARRAY_FACTS, the same on all processes? Serves the others
 * meanwhile. Collective. */
#define TUG_ARRAY_FACTS 9
bool tug_array_alike(struct tug_array *array, const uint64_t facts[], int n);

/* Waits for this process's own operations, on the program's thread. */
void tug_array_settle(struct tug_array *array);

/* ---- home.c ---- */

/* A page whose home is here comes to be, in that slot of this process: its place. Holder only. */
struct tug_page_slot tug_home_begin(struct tug_array *array, uint64_t page, uint32_t slot);

/* Others see where the pages are, from now on. The pool is there. */
void tug_home_show(struct tug_array *array);

/* Bytes of a record, here and as others see it; who knows the page apart (base/rankset.h). */
size_t tug_home_footprint(void);

/* And receives what others ask. 0 or TUG_ERR_NO_MEMORY. */
int tug_home_open(struct tug_array *array, enum tug_placement placement);
void tug_home_close(struct tug_array *array);

/* ---- copies.c ---- */

int tug_copies_open(struct tug_array *array, size_t copies);
void tug_copies_close(struct tug_array *array);

#endif

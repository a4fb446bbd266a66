/* Lone operations: short reads and writes of the memory of other processes of the node, messages
 * and calls, each by itself.
 *
 * Operations that go in packets have a tag, a stream, a record in a packet, and are acknowledged a
 * packet at a time. That is worth its while for many at once. One of which the caller waits for the
 * end goes in as few steps as there are:
 *
 *     origin, any thread                      target, the holder of its baton
 *     takes a cell of its tray (tray.h)
 *     fills a slot of the target's inbox  ->  reads or writes what the key names, or handles it
 *     waits, and takes what has come      <-  fills the cell
 *
 * No baton is taken at the origin, and nothing is kept but the cell. Whoever looks first calls the
 * operation's callback: one that waits, or the next poll. In front of the inbox all are in order,
 * lone ones and packets; what waits in an open packet is overtaken.
 *
 * Why there are both: a put of 8 bytes and its flush took 0.53 us in a packet, 3 100 instructions
 * at the origin, and takes 0.34 us so, a get 0.69 and 0.32, a put of 4 KiB 0.85 and 0.69 (2 ranks
 * that look, 60 to 100 ns a cache line). Streams of short writes are faster in packets.
 *
 * Any thread, if nothing else is said.
 */
#ifndef TUG_TRANSPORT_LONE_H
#define TUG_TRANSPORT_LONE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/inbox.h"
#include "node/tray.h"
#include "tugboat/llcl.h"

struct tug_fabric;

/* What a slot of an inbox begins with that has no packet: its context, and who has filled it. */
struct tug_label {
    uint64_t context;
    uint32_t source;
    uint32_t bytes; /* lone operations: of data */
};

enum tug_lone_what {
    TUG_LONE_WRITE,
    TUG_LONE_READ,
    TUG_LONE_MESSAGE,
    TUG_LONE_CALL,
    TUG_LONE_RUN,     /* of writes */
    TUG_LONE_READ_RUN /* its data are distances; what has been read comes one behind the other */
};

struct tug_lone_head {
    struct tug_label label;
    uint64_t key; /* the first word of one; messages and calls: 0, as the offset */
    uint64_t offset;
    uint16_t cell; /* of the source's tray */
    uint8_t what;  /* enum tug_lone_what; but for a READ, data follow */
    uint8_t handler;
    uint8_t length; /* runs: of each, and how many; as the data of a RUN, packets/packet.h */
    uint8_t unused;
    uint16_t count;
};

_Static_assert(sizeof(struct tug_lone_head) == 40, "with 8 bytes of data it fills a cache line");

#define TUG_LONE_WRITE_MOST ((uint32_t)(TUG_INBOX_PACKET_BYTES - sizeof(struct tug_lone_head)))
#define TUG_LONE_READ_MOST ((uint32_t)TUG_CELL_ROOM)
#define TUG_LONE_READS 32u /* in a run */

/* The operation that a cell is for. */
struct tug_lone_asked {
    _Atomic uint32_t turn; /* odd: its answer is to be taken */
    uint32_t more;         /* runs: all but the first, which end with it */
    struct tug_fabric *_Atomic fabric;
    unsigned char *to; /* where what is read, or the answer, goes; NULL: nothing comes, or a run */
    uint32_t bytes;    /* so many must come */
    uint32_t each;     /* runs of reads: to each place; else 0 */
    /* runs of reads: called for each; NULL: on_complete, for all */
    void (*each_ends)(void *d, int status);
    struct tug_callback on_complete;
};

/* What a process keeps of a tray of its own. Zeroed, with the tray, it is ready. */
struct tug_lone {
    struct tug_tray *tray;
    const struct tug_inbox *inbox;
    _Atomic uint64_t taken; /* cells: bits */
    struct tug_lone_asked cells[TUG_TRAY_CELLS];
    /* runs of reads: where what is read goes, and each_ends's pointers. Nobody else may say that.
     */
    unsigned char *places[TUG_TRAY_CELLS][TUG_LONE_READS];
    void *ends[TUG_TRAY_CELLS][TUG_LONE_READS];
};

/* Begins a read or write of `bytes`, at most TUG_LONE_x_MOST, of memory of that process; key and
 * range are right. A write's data are copied by the call. False: it is not of this node, the fabric
 * has no such operations, or there is no room; nothing happened. */
bool tug_lone_read(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                   void *to, uint32_t bytes, struct tug_callback on_complete);
bool tug_lone_write(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                    const void *from, uint32_t bytes, const struct tug_callback *on_local,
                    struct tug_callback on_complete);

/* Begins `count` writes of `length` bytes each to one registration: run is the data of a RUN with
 * distances from `offset`. They end together, each by counting at `counter` (fabric->counter).
 * False: as above, or it is too much. */
bool tug_lone_write_run(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                        const void *run, uint32_t count, uint32_t length, void *counter);

/* Begins `count` reads, at most TUG_LONE_READS, of `length` bytes each: where what is read goes
 * stands at `run`, an address behind each distance. Ends and returns as above; or, if each_ends is
 * not NULL, each by a call with a pointer of its own, which stands behind the address. */
bool tug_lone_read_run(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                       const void *run, uint32_t count, uint32_t length, void *counter,
                       void (*each_ends)(void *d, int status));

/* Begins a message of `bytes`, at most TUG_LONE_WRITE_MOST, or a call (answer_bytes at most
 * TUG_LONE_READ_MOST, answer not NULL if it is not 0), for a handler of that process.
 * It overtakes messages that wait in packets. The payload is copied by the call. False: as above.
 */
bool tug_lone_message(struct tug_fabric *fabric, uint32_t peer, unsigned handler,
                      const void *payload, uint32_t bytes, struct tug_callback on_complete);
bool tug_lone_call(struct tug_fabric *fabric, uint32_t peer, unsigned handler, const void *payload,
                   uint32_t bytes, void *answer, uint32_t answer_bytes,
                   struct tug_callback on_complete);

/* The tag of a caller whose call was a lone one. */
#define TUG_LONE_CALLER 0x80000000u

/* Answers one. status: 0 or a TUG_ERR_*. Holder only. */
void tug_lone_answer(struct tug_fabric *fabric, struct tug_caller caller, int status,
                     const void *answer, size_t bytes);

/* Does the inbox hold anything that comes to this process? Costs a cache line at most. */
static inline bool tug_lone_has_come(const struct tug_lone *lone) {
    return tug_inbox_has(lone->inbox);
}

/* Takes the answers that have come for the fabric's operations, and calls their callbacks. True if
 * there were any. */
bool tug_lone_collect(struct tug_fabric *fabric);

/* Has the fabric operations whose answers have not been taken? */
bool tug_lone_out(const struct tug_fabric *fabric);

/* Does what a slot asks of this process and answers it. Holder only. */
void tug_lone_serve(struct tug_fabric *fabric, const struct tug_slot *slot);

#endif

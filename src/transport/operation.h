/* One operation on its way: what a tug_try_*_async() call became.
 *
 * A context has a fixed table of them. A *tag* is an index into it: taken by the requester, who
 * fills the operation in; carried in packets and work requests; given back by the holder of the
 * baton when the operation is complete. Between the two the holder alone touches it.
 */
#ifndef TUG_TRANSPORT_OPERATION_H
#define TUG_TRANSPORT_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/memory.h"
#include "tugboat/llcl.h"

enum tug_operation_kind {
    TUG_OPERATION_NONE, /* not in use */
    TUG_OPERATION_READ,
    TUG_OPERATION_WRITE,
    TUG_OPERATION_FETCH,   /* fetch and op */
    TUG_OPERATION_COMPARE, /* compare and swap */
    TUG_OPERATION_AM,
    TUG_OPERATION_CALL,    /* an active message with an answer */
    TUG_OPERATION_LONG_AM, /* a long message, handled part by part */
    /* What follows a write, once its data are in place: only where that has not failed. */
    TUG_OPERATION_SIGNAL,    /* adds to an integer of 8 bytes */
    TUG_OPERATION_SIGNAL_AM, /* an active message */
};

#define TUG_OPERATION_INLINE 24   /* bytes of a write or message that are copied at once */
#define TUG_OPERATION_LONG 131072 /* bytes from which on a read or write knows all rkeys */
#define TUG_NO_TAG UINT32_MAX

struct tug_operation {
    struct tug_callback on_complete;
    struct tug_callback on_local; /* f is NULL when it has been called */
    uint64_t key;                 /* the remote registration's id, see memory.h */
    uint64_t offset;              /* the offset in what the key names; CALL: bytes of the answer;
                                     LONG_AM: bytes of an element, which no part ends inside of */
    uint64_t address;             /* the same byte in the peer's address space; CALL: the answer's
                                     in ours */
    uint32_t rkey;                /* what the peer's device calls the registration; SIGNAL,
                                     SIGNAL_AM: TUG_SIGNAL_*, or 0 */
    uint32_t peer;
    /* 64 bytes */
    unsigned char *local;                  /* NULL: the data are in `data` */
    struct tug_registration *registration; /* of local; NULL: none */
    uint64_t bytes;
    uint64_t left; /* the transport's own: bytes that have not moved; in a list to be completed,
                      operations that end with this one, see tug_fabric_join() */
    union {
        unsigned char data[TUG_OPERATION_INLINE]; /* writes and messages with local == NULL */
        struct {
            uint64_t operand; /* FETCH, SIGNAL: the operand; COMPARE: the new value */
            uint64_t compare; /* LONG_AM: both are the head that every part has */
        };
        struct {                       /* READ, WRITE of TUG_OPERATION_LONG bytes and more */
            uint32_t rkeys[TUG_RKEYS]; /* what the peer's devices call the registration */
            uint64_t own;              /* the transport's own */
        };
        struct {                           /* a WRITE that is TUG_WRITE_AHEAD */
            struct tug_callback when_both; /* of its signal: called when both have ended */
            uint32_t signal;               /* the signal's tag; TUG_NO_TAG: it has ended */
            uint32_t behind;               /* the transport's own */
        };
    };
    uint32_t next; /* the transport's own: tag of the next in a list */
    uint8_t kind;
    uint8_t op;    /* FETCH: enum tug_atomic_op; messages: the handler; WRITE: TUG_WRITE_*, or 0 */
    int8_t status; /* the first thing that went wrong */
    uint8_t scratch; /* the transport's own; 0 to begin with, 1-7 mean packets' (packets.h) */
} __attribute__((aligned(128)));

_Static_assert(sizeof(struct tug_operation) == 128, "an operation is two cache lines");

/* A write with a signal behind it; one that is late, as its signal is; one whose signal has been
 * posted, too (post_signalled in transport.h), and of that one, the transport's own. */
#define TUG_WRITE_SIGNALLED 1u
#define TUG_WRITE_LATE 2u
#define TUG_WRITE_AHEAD 4u
#define TUG_WRITE_PASSED 8u
#define TUG_WRITE_FLAGS 15u

/* A READ or plain WRITE of less than TUG_OPERATION_LONG bytes whose rkey is that of another port
 * than the first: which one, in the upper bits of `op`. 0: none. */
#define TUG_PORT_SHIFT 4
static inline uint32_t tug_operation_port(const struct tug_operation *operation) {
    return operation->op >> TUG_PORT_SHIFT;
}

/* A signal that is late; one that does not wait in a packet for more, as a job at its target waits
 * for it. */
#define TUG_SIGNAL_LATE 1u
#define TUG_SIGNAL_AT_ONCE 2u

/* `op` of an aligned FETCH or COMPARE of 8 bytes that only a card may execute. BY_CARD: it adds, or
 * compares and swaps. LOADS: it reads the word and writes nothing. Others have an enum
 * tug_atomic_op. */
#define TUG_ATOMIC_BY_CARD 8u
#define TUG_ATOMIC_LOADS 9u

/* Does nobody wait for its end soon? */
static inline bool tug_operation_is_late(const struct tug_operation *operation) {
    if (operation->kind == TUG_OPERATION_WRITE)
        return operation->op & TUG_WRITE_LATE;
    return operation->kind >= TUG_OPERATION_SIGNAL && (operation->rkey & TUG_SIGNAL_LATE) != 0;
}

static inline bool tug_operation_is_atomic(const struct tug_operation *operation) {
    return operation->kind == TUG_OPERATION_FETCH || operation->kind == TUG_OPERATION_COMPARE;
}

static inline const unsigned char *tug_operation_data(const struct tug_operation *operation) {
    return operation->local != NULL ? operation->local : operation->data;
}

#endif

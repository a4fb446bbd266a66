/* Far: a ring in the memory of a rank of another node, written by LLCL's writes with a signal.
 *
 * A *ring* leads from its writer to its reader. The reader has a *word* and a *slot* for each of a
 * few segments, the writer a *gate*, at which the reader gives slots back:
 *
 *     reader:  | word 0 | word 1 | ...        | slot 0 | slot 1 | ...     written by the writer
 *     writer:  gate: | segments read | what else the user of the ring has | written by the reader
 *
 *     word:    | how often the slot has been filled (32 bits) | segments from here on (32) |
 *
 * Every segment has a position; nothing is ever reset. Position p uses word and slot p % slots. A
 * write of one segment, or of several that lie side by side, ends with a signal, which adds (new
 * word - old word) to the word of the first one. Slots may be anywhere in the reader's memory:
 * behind the words, or where the program wants the data.
 *
 * What is written is acknowledged late (tug_write_signal_params): a run ends when its data are on
 * their way and its memory may be used again. A peer that is lost is an error of a later run
 * (tug_far_error()).
 *
 * Partitioned messages use a ring for each request (partitioned_far.c). Persistent collectives have
 * *streams* on top: a ring that carries the messages of one queue (schedule/schedule.h), of any
 * length. A message that fits a slot is one segment. A longer one is a segment too where the
 * reader's memory is registered: the reader offers the place at the writer's gate when its turn to
 * receive begins, and the writer writes there. Elsewhere it goes as several segments, each through
 * a slot. Both ends know the sizes.
 *
 * Streams belong to a channel (channel.h), whose requests use them one after another. A team has
 * one context for all of them.
 *
 * Threading: opening is collective, under MPI's rules; a ring by one thread at a time.
 */
#ifndef TUG_PERSISTENT_FAR_H
#define TUG_PERSISTENT_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tugboat/llcl.h"

struct tug_bell;
struct tug_channel;
struct tug_collectives;
struct tug_far;
struct tug_team;

/* Slots of a stream; messages begun at an end, too. */
#define TUG_FAR_SLOTS 16

/* Messages of fewer bytes need no registered memory: as many fit a slot, or they go in several. */
#define TUG_FAR_DIRECT_LEAST ((size_t)4097)

/* Memory of a request that is registered. */
struct tug_far_memory {
    tug_registration *registration; /* NULL: it is not registered */
    unsigned char *base;            /* its first byte */
    bool owned; /* from tug_far_allocate(), and freed when it is not registered any more */
};

/* A place in the other end's memory. */
struct tug_far_place {
    struct tug_key key;
    uint64_t at;
};

/* ---- the ring ---- */

struct tug_far_ring {
    struct tug_far *far; /* the team's */
    uint32_t peer;
    uint32_t slots;
    uint32_t tell_every; /* of a reader: it gives so many segments back at once */
    bool may_miss;       /* of a reader: the writer may have freed the gate, so that errors of
                            writes to it are ignored */
    size_t slot_bytes;
    unsigned char *here;        /* words or gate of this end; NULL: none yet */
    struct tug_far_place there; /* the other end's */
    struct tug_far_place into;  /* of a writer: slot 0 */
    uint64_t *said;             /* [slots] of a writer: what the words are */
    uint64_t read;              /* of a writer: segments that the reader is known to have read; of a
                                   reader: that it has read */
    uint64_t told;              /* of a reader: what it has told of that */
};

/* Of a writer: segments up to (not with) a position fit the slots. */
bool tug_far_has_room(struct tug_far_ring *ring, uint64_t end);

/* Writes `bytes` of data, which are n segments from a position on, that have room; to the slots or,
 * if it is not NULL, to that place. *local counts one when their memory may be used again. memory:
 * what the data are part of, or NULL. False: no room for the operation now. */
bool tug_far_fill(struct tug_far_ring *ring, uint64_t position, uint32_t n, const void *data,
                  size_t bytes, const struct tug_far_memory *memory,
                  const struct tug_far_place *place, struct tug_counter *local);

/* Of a reader: the segments that have come together from that position on; 0: none. Acquire: their
 * data. seq_cst: the second look before sleeping on the bell. */
uint32_t tug_far_filled(const struct tug_far_ring *ring, uint64_t position);

/* Of a reader: gives back what it has read, when that is worth a packet; again, if there was no
 * room for it. */
void tug_far_give_back(struct tug_far_ring *ring);

/* Writes to words or gate of the other end, and adds to an integer there; both are bytes from its
 * beginning. The data stay until `on_local`. False: no room for the operation now. */
bool tug_far_tell(const struct tug_far_ring *ring, size_t at, const void *data, size_t bytes,
                  size_t word, uint64_t value, struct tug_callback on_local);

/* The first error that writes of the team have ended with; TUG_ERR_STATE: MPI has ended; or 0. */
int tug_far_error(const struct tug_far_ring *ring);

/* ---- streams ---- */

/* One end of a stream, as a request wants it. */
struct tug_far_need {
    uint32_t peer;
    uint8_t tag;
    bool sends;
    bool direct;    /* of a reader: where messages go may be written by others */
    size_t longest; /* bytes of a message */
};

/* What each end says of itself. */
struct tug_far_end {
    struct tug_far_place place; /* of its words, with the slots behind them, or its gate */
    uint64_t slot_bytes, direct;
};

/* A message that has begun at this end. */
struct tug_far_message {
    unsigned char *data; /* its bytes, here */
    size_t bytes;
    const struct tug_far_memory *memory; /* of the data; or NULL */
    uint64_t position;                   /* of its first segment */
    uint32_t segments, done;             /* done: written, or read */
    bool offered;                        /* of a reader */
    struct tug_counter local;            /* of a writer: segments whose memory may be used again */
    void *aside;                         /* the interpreter's, while it packs or unpacks; or NULL */
};

struct tug_far_stream {
    struct tug_far_ring ring;
    uint8_t tag;
    bool sends;
    bool direct;          /* longer messages are written to where they go */
    uint64_t position;    /* of the next message's first segment */
    uint64_t begun, over; /* messages */
    struct tug_far_message messages[TUG_FAR_SLOTS]; /* by their numbers */
    uint64_t said[TUG_FAR_SLOTS];
    struct tug_far_offer *offers; /* [TUG_FAR_SLOTS] of a reader, on their way */
    /* while it is opened */
    struct tug_far_stream *next; /* that the request wants */
    bool wanted;
    size_t longest;    /* bytes of a message of the request */
    size_t slot_bytes; /* that are wanted for them */
    struct tug_far_end mine, theirs;
};

/* Is there a way for streams of the team, better than messages of the host's? Makes the context, if
 * need be. Collective, the same answer on all ranks. */
bool tug_far_prepare(struct tug_team *team);

/* A stream of the channel that a request wants, for it to open; what is wanted of a stream several
 * times is the most of that. NULL: no memory. Local, after tug_far_prepare(). */
struct tug_far_stream *tug_far_want(const struct tug_team *team, struct tug_channel *channel,
                                    const struct tug_far_need *need);

/* Opens the streams that are wanted of the channel, or uses those that are there. Both ends of a
 * stream want it. ready: false, and this rank can do none of it after all. Collective over the
 * team, the same answer on all ranks: 0, TUG_ERR_NO_MEMORY (of any of them), TUG_ERR_MPI. */
int tug_far_open(struct tug_team *team, struct tug_channel *channel, bool ready);

/* The channel goes. */
void tug_far_close(struct tug_channel *channel);

/* The team goes. Collective. Before its channels. */
void tug_far_end(struct tug_collectives *own);

/* What tells of news; NULL: nothing does, they are to be polled. */
struct tug_bell *tug_far_bell(const struct tug_team *team);

/* A ring of the team's, of which no more is known than the peer. */
struct tug_far_ring tug_far_ring_to(const struct tug_team *team, uint32_t peer);

/* Memory of a request, for others to write to: sets memory->base and registration. False: it cannot
 * be. Local. */
bool tug_far_register(struct tug_team *team, void *base, size_t bytes,
                      struct tug_far_memory *memory);

/* The same of new memory of zeros. */
bool tug_far_allocate(struct tug_team *team, size_t bytes, struct tug_far_memory *memory);

/* No run uses it any more. Local; any thread, the holder of the baton too. */
void tug_far_release(struct tug_team *team, struct tug_far_memory *memory);

/* Looks for news once, for who does not run as a job. Any thread. */
void tug_far_look(const struct tug_team *team);

/* ---- a run ---- */

/* Begins a message: its number. At most TUG_FAR_SLOTS are begun and not over. Tries what
 * tug_far_move() does. */
uint64_t tug_far_begin(struct tug_far_stream *stream, void *data, size_t bytes,
                       const struct tug_far_memory *memory);

static inline struct tug_far_message *tug_far_at(struct tug_far_stream *stream, uint64_t number) {
    return &stream->messages[number % TUG_FAR_SLOTS];
}

/* Gets a message on. Those of a reader are read in the order of their numbers; those of a writer
 * are begun so. True when it is over: all of it has come, or its memory may be used again. Sets
 * *moved if anything did. */
bool tug_far_move(struct tug_far_stream *stream, uint64_t number, bool *moved);

/* Hands over what there is room for of a writer's message. True if that was anything. */
bool tug_far_push(struct tug_far_stream *stream, uint64_t number);

/* A writer's message has been handed over; what is left is its end. */
static inline bool tug_far_is_written(struct tug_far_stream *stream, uint64_t number) {
    const struct tug_far_message *message = tug_far_at(stream, number);
    return message->done == message->segments;
}

#endif

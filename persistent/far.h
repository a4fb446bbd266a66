/* Far: messages from one rank to a rank of another node, by LLCL's writes with a signal.
 *
 * A *stream* carries the messages of one queue (schedule/schedule.h) from one rank to another. Its
 * reader has *slots* for what is short, its writer a *gate* at which the reader tells how far it is
 * and where it wants what is long:
 *
 *     reader's landing: | a number a slot | slot 0 | slot 1 | ...       written by the writer
 *     writer's gate:    | segments read | offer 0 | offer 1 | ...       written by the reader
 *
 * Every segment has a position, counted by both ends over all runs of all requests; nothing is ever
 * reset. Position p uses slot p % TUG_FAR_SLOTS, whose number the signal behind its data adds one
 * to. A message that fits a slot is one segment. A longer one is a segment too where the reader's
 * memory is registered: the reader offers the place when its turn to receive begins, and the writer
 * writes there. Elsewhere it goes as several segments, each through a slot. Both ends know the
 * sizes.
 *
 * What is written is acknowledged late (tug_write_signal_params): a run ends when its data are on
 * their way and its memory may be used again. A peer that is lost is an error of a later run.
 *
 * Streams belong to a channel (channel.h), whose requests use them one after another. A team has
 * one context for all of them.
 *
 * Threading: opening is collective, under MPI's rules; a stream by one thread at a time.
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
struct tug_team;

/* Segments that the writer may be ahead; messages begun at an end, too. */
#define TUG_FAR_SLOTS 16

/* Messages of fewer bytes need no registered memory: as many fit a slot, or they go in several. */
#define TUG_FAR_DIRECT_LEAST ((size_t)4097)

/* What the memory of a request is for its streams, by area. */
struct tug_far_memory {
    tug_registration *registration; /* NULL: it is not registered */
    unsigned char *base;            /* its first byte */
    bool owned; /* from malloc(), and freed when it is not registered any more */
};

/* One end of a stream, as a request wants it. */
struct tug_far_need {
    uint32_t peer;
    uint8_t tag;
    bool sends;
    bool direct;    /* of a reader: where messages go may be written by others */
    size_t longest; /* bytes of a message */
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
    uint32_t peer;
    uint8_t tag;
    bool sends;
    bool direct; /* longer messages are written to where they go */
    size_t slot_bytes;
    tug_context *context;
    struct tug_counter *ended;      /* of all streams of the team: writes that are over */
    unsigned char *here;            /* landing or gate of this end; NULL: none yet */
    tug_registration *registration; /* of `here` */
    size_t here_at;                 /* its offset there */
    struct tug_key there;           /* of the other end's */
    size_t there_at;
    uint64_t position; /* of the next message's first segment */
    uint64_t read;     /* of a writer: segments that the reader is known to have read; of a reader:
                          that it has read */
    uint64_t told;     /* of a reader: what it has told of that */
    uint64_t begun, over;                           /* messages */
    struct tug_far_message messages[TUG_FAR_SLOTS]; /* by their numbers */
    struct tug_far_offer *offers;                   /* [TUG_FAR_SLOTS] of a reader, on their way */
};

/* Is there a way for streams of the team, better than messages of the host's? Makes the context, if
 * need be. Collective, the same answer on all ranks. */
bool tug_far_prepare(struct tug_team *team);

/* Opens the streams that a request needs in its channel, or uses those that are there. Both ends
 * of a stream name it. ready: false, and this rank can do none of it after all. Collective over the
 * team, the same answer on all ranks: 0, TUG_ERR_NO_MEMORY (of any of them), TUG_ERR_MPI. After
 * tug_far_prepare(). */
int tug_far_open(struct tug_team *team, struct tug_channel *channel,
                 const struct tug_far_need *needs, uint32_t n, bool ready);

/* An open stream; NULL: there is none. */
struct tug_far_stream *tug_far_find(const struct tug_channel *channel, uint32_t peer, uint8_t tag,
                                    bool sends);

/* The channel goes. */
void tug_far_close(struct tug_channel *channel);

/* The team goes. Collective. Before its channels. */
void tug_far_end(struct tug_collectives *own);

/* What tells of news; NULL: nothing does, they are to be polled. */
struct tug_bell *tug_far_bell(const struct tug_team *team);

/* The team's context, NULL when MPI has ended, and what counts the writes that are over, with the
 * first error of any. For messages between two of its ranks that are not streams. */
tug_context *tug_far_context(const struct tug_team *team);
struct tug_counter *tug_far_ended(const struct tug_team *team);

/* Memory of a request, for others to write to: sets memory->base and registration. False: it cannot
 * be. Local. */
bool tug_far_register(struct tug_team *team, void *base, size_t bytes,
                      struct tug_far_memory *memory);

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

/* The first error that writes of the team have ended with, or 0. */
static inline int tug_far_error(const struct tug_far_stream *stream) {
    return __atomic_load_n(&stream->ended->status, __ATOMIC_RELAXED);
}

#endif

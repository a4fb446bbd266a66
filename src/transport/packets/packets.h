/* Packets: requests and answers between processes, many operations in one packet.
 *
 * A *stream* is what this process keeps of one peer: made when the two first have to do with each
 * other, found by the peer's rank. Its operations are written into the open request packet, which
 * is sent
 *   - at the end of the batch if no request packet is under way to the peer (unless more comes at
 *     once: fabric->more_comes),
 *   - when it is full,
 *   - when the answer to the one under way arrives (Nagle's rule, and self-clocking: the busier the
 *     peer, the more operations share a packet), and
 *   - on demand (fabric->flush_wanted).
 * Writes and messages that only count, all with one counter, end together: the first of them in a
 * packet bears the others, whose tags are free at once, and short writes among them share a record.
 *
 * The peer's engine applies it while its program computes, and acknowledges packets, not
 * operations: by one number in the header of whatever goes back or, inside a node, by one store to
 * a word that this process reads (wire.h). Failures and results are records of their own and go
 * ahead of it: the word says how many packets did, and counts when they have been taken.
 *
 * Where nobody waits for the end of anything in a packet (tug_operation_is_late()), its
 * acknowledgement is *late*: it rides with what goes back anyway, or goes when TUG_STREAM_LATE
 * packets have come without one. Until then the packet and its operations *rest* here: nobody is
 * woken for them, and more may be sent as if nothing was under way. Who waits for an end after all
 * asks (tug_packets_ask()), and so does what they hold up: a packet without number that says so is
 * sent, and they rest no more. Where TUG_STREAM_LATE packets are not acknowledged, whether they
 * rest or not, the peer will do so unasked: it knows of no fewer.
 *
 * Flow control: at most TUG_STREAM_WINDOW request packets to a peer are unacknowledged, and at most
 * so many bytes of answers to reads and atomics asked for as the peer has given *credit* for; other
 * operations wait in the table of operations, so a slow peer costs bounded memory here and there.
 * Over all peers TUG_UNDER_WAY_MOST request packets are unacknowledged; where so many are, each
 * peer is still sent TUG_UNDER_WAY_LEAST, so that everybody gets on. What is sent by the host's
 * messages piles up at a peer that does not look: there the window is the smaller, the less credit
 * the peer has given (tug_packets_unexpected()). Receiving never waits for sending, so two
 * processes cannot wait for each other. The contexts of a process that its engine drives count as
 * one: their peers share what is to be shared.
 *
 * Answers that a peer does not take are withheld here, in as few packets as they fit. What that can
 * cost over all peers is bounded by the credit: TUG_ANSWERS_MOST shared by the streams there are,
 * told anew in every packet, and never less than one piece of a read, so that everybody gets on.
 * A process begins with that least credit. Peers that have not heard of newer ones yet may ask for
 * what they were promised: the k-th to come TUG_ANSWERS_MOST / k, in all ln(n) times as much for n
 * peers (tug_packets_withheld(); `tugboat info --memory` prints it). Not counted are the answers of
 * calls, which the callee gives when it likes and for which it keeps TUG_SMALL_PACKET_BYTES each
 * meanwhile, and failures: of these the table of operations of the peer is the bound. Long answers
 * to reads have their data behind the packet, and cost that.
 *
 * A write and its signal are posted right behind each other by one holder, whom nobody interrupts
 * (callbacks' operations go through the ring), and a stream keeps its order: so one field tells
 * the target whether the write before a signal has failed.
 *
 * Nothing is taken from a peer whose answer there might be no memory for: the buffer of an answer
 * is there first (struct tug_pool), and what is to be answered later, a call or data that follow a
 * packet, keeps a small one until then. Without memory the rest of a packet stays in the wire
 * (tug_wire.receive), and is looked at again.
 *
 * A packet that makes no sense is logged and refused; its sender then fails all operations to this
 * peer, TUG_ERR_PEER. Holder of the baton only.
 */
#ifndef TUG_TRANSPORT_PACKETS_H
#define TUG_TRANSPORT_PACKETS_H

#include "transport/packets/wire.h"

/* 1 MiB of packets: a peer that computes looks seldom, and no more come before it has looked. */
#define TUG_STREAM_WINDOW 128

/* tug_packets_fold() runs when this many streams exist, and again after half as many new ones. It
 * folds streams (struct tug_folded) that have sent and received nothing since the last run. A
 * stream with an acknowledgement outstanding takes two runs more. So about KEPT_MOST streams exist
 * at most, unless more are in use. */
#define TUG_STREAMS_KEPT 1024u
#define TUG_STREAMS_KEPT_MOST (TUG_STREAMS_KEPT + TUG_STREAMS_KEPT / 2)

/* Request packets that are not acknowledged: over all peers, and to each whatever there are. */
#define TUG_UNDER_WAY_MOST 1024
#define TUG_UNDER_WAY_LEAST 2

/* A packet is acknowledged at the end of the poll that took it; full ones, since more will come,
 * and those for one who will send something back (fabric->replies), so many at a time, or by the
 * first poll that finds no more. */
#define TUG_STREAM_PATIENCE 4

/* Late ones: so many at a time. Over every wire the window is wider, or what waits asks. Such as
 * bring long data are acknowledged at once: more of them wait for that. */
#define TUG_STREAM_LATE 12
#define TUG_LATE_MOST 65536u /* bytes behind a packet that is acknowledged late */

/* Credit, in bytes of records: the most for one peer, and for all of them. */
#define TUG_CREDIT_MOST ((uint64_t)256 << 10)
#define TUG_ANSWERS_MOST ((uint64_t)8 << 20)

/* What a READ asks for at a time: its answer fits every wire's packets, and parts of an operation
 * are told apart by their position alone. */
#define TUG_READ_PIECE 7168u

static inline uint64_t tug_credit_least(void) {
    return tug_record_bytes(TUG_RECORD_DATA, TUG_READ_PIECE);
}

/* The credit of each of so many peers. */
static inline uint32_t tug_credit(uint64_t npeers) {
    uint64_t share = npeers > 0 ? TUG_ANSWERS_MOST / npeers : TUG_CREDIT_MOST;
    if (share < tug_credit_least())
        share = tug_credit_least();
    return (uint32_t)(share < TUG_CREDIT_MOST ? share : TUG_CREDIT_MOST);
}

/* Request packets to one peer, by the host's messages, for which it has given so much credit: as
 * many as carry four times that. */
static inline uint32_t tug_piling_window(uint64_t credit) {
    uint64_t packets = 4 * credit / TUG_MPI_PACKET_BYTES;
    return (uint32_t)(packets < TUG_STREAM_WINDOW ? packets : TUG_STREAM_WINDOW);
}

/* How an operation stands here: tug_operation.scratch. */
enum tug_packets_state {
    TUG_PACKETS_WAITING = 1, /* not all of it is in packets */
    TUG_PACKETS_SENT,
    TUG_PACKETS_ENDING, /* the peer is lost, but the wire has its memory */
};

_Static_assert(TUG_CONTROL_MAX == TUG_RECORD_CONTROL_MOST, "a message fits its record");

/* A message of a transport's own, waiting for room. */
struct tug_control_message {
    struct tug_control_message *next;
    uint32_t bytes;
    uint8_t transport;
    unsigned char data[TUG_CONTROL_MAX];
};

struct tug_staging;

/* A trailer whose packet has been served, and which has not come whole. All zeros: none is. */
struct tug_expected {
    unsigned char *memory;            /* where it belongs; NULL: nowhere, or it is staged */
    struct tug_staging *staging;      /* of a LONG_PART; NULL: it is none */
    struct tug_registration *awaited; /* its memory, served until it has come */
    uint64_t signal[3];               /* key, offset, value */
    uint32_t signal_tag;
    uint32_t reading; /* the tag, + 1, of the operation it answers; 0: its packet has a number */
    bool is_signed;   /* there is a signal for it */
    bool owes;        /* an answer, if something fails */
    bool late;        /* its packet is late */
    int8_t failed;    /* a write that is signalled: how it has; or 0 */
};

/* So many from one peer, where the wire can have several on their way at a time. */
#define TUG_EXPECTED_MOST 8

struct tug_stream {
    uint32_t peer;
    bool touched; /* it is in the list of streams to be flushed */
    bool listed;  /* it is in the list of streams with packets under way */
    bool lost;
    bool patient; /* the packet that has just come from the peer need not be acknowledged at once */
    bool settled; /* it is certain which wire leads to the peer */
    bool one_way; /* perhaps only to it, as what comes from it is wired by itself */
    bool hurries; /* the open request packet asks for long data, has some, or a signal that a job
                     waits for: no waiting */
    bool presses; /* it holds what somebody may wait for: it is not late */
    bool pressed; /* a packet from the peer that is not late, or asks, is to be acknowledged */
    bool asks;    /* what rests is to be asked for */
    bool early;   /* `heard` is ahead of `acked` */
    int8_t
        unsignalled; /* how a write from the peer has failed whose signal has not come yet; or 0 */
    struct tug_wire *wire; /* what goes to the peer goes by it; */
    struct tug_wire *from; /* what has come has come by this one; NULL: nothing has */
    struct tug_buffer *requests, *answers;         /* open ones, or NULL */
    struct tug_buffer *unsent_first, *unsent_last; /* the wire had no room */
    struct tug_control_message *control_first, *control_last;
    uint32_t waiting_first, waiting_last;   /* operations, TUG_NO_TAG: none */
    uint32_t open_first, open_last;         /* operations in the open packet */
    uint32_t sent_first[TUG_STREAM_WINDOW]; /* operations in the packets under way, by number */
    uint32_t sent_long[TUG_STREAM_WINDOW];  /* by number: bytes that follow that packet */
    bool sent_late[TUG_STREAM_WINDOW];      /* by number: that packet rests */
    uint32_t resting;                       /* packets that rest */
    uint32_t longs;                         /* packets with a trailer, not acknowledged, */
    uint64_t long_bytes;                    /* and the bytes of these */
    uint64_t gone;                          /* last such packet that has been sent whole */
    uint64_t number, acked;                 /* request packets sent, acknowledged */
    uint64_t heard; /* the last that the peer has acknowledged: it may know sooner than the wire
                       that a trailer has gone */
    uint64_t applied, told; /* received and applied, acknowledged */
    uint32_t sent, taken;   /* packets of any kind */
    uint32_t served; /* records of the next packet, of which the rest has to wait for memory */
    uint32_t owed; /* answers: of calls, of trailers that are to come, of the packet being served */
    uint64_t asked;      /* bytes of answers that are to come */
    uint64_t credit;     /* the most that asked may be */
    uint32_t window;     /* request packets that may be unacknowledged */
    uint32_t long_reads; /* answers to come that follow their packets */
    /* trailers from the peer, the oldest first, and behind them what is known so far of that of the
     * packet which is being served */
    struct tug_expected expected[TUG_EXPECTED_MOST + 1];
    uint32_t nexpected;
    struct tug_stream *next_touched;
    struct tug_stream *next_under_way;
    struct tug_stream *next; /* the next in the list of all streams */
    uint32_t seen;           /* sent + taken when streams were folded last */
};

/* The counters of a folded stream; the next packet to or from the peer continues them. All that it
 * sent is acknowledged, it has acknowledged all that it took, and it uses the wire that it began
 * with. All zeros: none. */
struct tug_folded {
    uint32_t number, applied; /* as they travel */
    uint32_t sent, taken;
};

/* What peers share. */
struct tug_load {
    _Atomic uint32_t streams;
    uint64_t under_way; /* request packets that are not acknowledged; holder only */
};

struct tug_packets {
    struct tug_fabric *fabric;
    struct tug_load *load;                       /* shared by all contexts of this process */
    struct tug_wire *wires[TUG_TRANSPORT_COUNT]; /* [nwires] of rows that carry packets, best first;
                                                    behind them those made as detours */
    unsigned nwires;
    bool hears_words;            /* peers tell words by some wire */
    bool batches;                /* what goes by some wire waits there for the end of a batch */
    bool detours;                /* something goes or comes by a row that can be made alone */
    bool inside;                 /* all wires may be polled from inside the host */
    bool internal;               /* handlers and callbacks call nothing of the host's */
    struct tug_stream **streams; /* by rank; NULL: nothing went or came so far, or it is folded */
    struct tug_folded *folded;   /* by rank; NULL: no stream has been folded so far */
    struct tug_stream *all;
    uint32_t nstreams; /* in that list */
    uint32_t nfolded;  /* those that are folded now */
    uint32_t fold_at;  /* the next poll folds when nstreams reaches this */
    struct tug_stream *touched;
    struct tug_stream *under_way; /* all that have request packets under way, and some that had */
    uint64_t unacked;             /* request packets of ours, over all streams */
    uint64_t resting;             /* of these, those that rest */
    uint32_t early;               /* streams that are */
};

/* Packets of a fabric whose rows are open. 0, TUG_ERR_NO_MEMORY. Collective, as is closing them,
 * which is done before the rows are closed. */
int tug_packets_open(struct tug_fabric *fabric);
void tug_packets_close(struct tug_packets *packets);

/* As in a row (transport.h): the end of a batch, a poll of all wires, is something out that does
 * not rest?, will what is held back be told of room? */
void tug_packets_flush(struct tug_packets *packets);
bool tug_packets_poll(struct tug_packets *packets);
bool tug_packets_busy(const struct tug_packets *packets);
bool tug_packets_arm(const struct tug_packets *packets);

/* Has anything gone or come by that wire, of a row that can be made alone, but what wires rows? */
bool tug_packets_use(const struct tug_packets *packets, const struct tug_wire *wire);

/* Somebody waits for the end of operations: nothing rests any more. */
void tug_packets_ask(struct tug_packets *packets);

/* The descriptor that is readable while there are news, of a wire whose news ring no bell; -1:
 * there is none. Asked for when all rows are open, and again when the bell becomes another one.
 * watch: have the bell rung instead. */
int tug_packets_descriptor(struct tug_packets *packets, bool watch);

/* Nothing comes any more, by the polls of other contexts either: the context is not served any
 * more, and is about to be closed. Any thread of the program. */
void tug_packets_leave(struct tug_packets *packets);

/* Bytes a process of a job of nranks keeps with `active` streams, packets and folded streams apart.
 */
size_t tug_packets_footprint(uint64_t nranks, uint64_t active);

/* The most bytes that answers keep if none of `active` peers takes any, calls and failures apart.
 */
size_t tug_packets_withheld(uint64_t active, size_t packet_bytes);
/* The most bytes that requests of ours keep if none of `active` peers takes any. */
size_t tug_packets_under_way(uint64_t active, size_t packet_bytes);
/* The most bytes that requests of `active` peers keep in the host while nobody receives them. */
size_t tug_packets_unexpected(uint64_t active);

/* No handler or callback of these calls the host: they may be handed up from inside of it, by the
 * polls of others, too. Holder only. */
void tug_packets_set_internal(struct tug_packets *packets);

/* tug_packets_poll() from inside the host, see tug_engine_serve_inside(), for internal packets of
 * which none goes by it (`inside`). *left: there was something that only a poll from outside may
 * do. */
bool tug_packets_poll_inside(struct tug_packets *packets, bool *left);

/* Packets have been handed up by the poll of another context: what waited for them goes. Holder
 * only. */
void tug_packets_served(struct tug_packets *packets);

/* Is the peer lost? Holder only. */
bool tug_packets_has_lost(const struct tug_packets *packets, uint32_t peer);

/* The wire to a peer. Any thread. */
const char *tug_packets_wire_name(const struct tug_packets *packets, uint32_t peer);

/* ---- stream.c ---- */

/* The stream to the peer, which is made or unfolded if need be. NULL: no memory. */
struct tug_stream *tug_stream_to(struct tug_packets *packets, uint32_t peer);

/* Is any operation in packets to the peer, or does one wait for an answer from there? */
bool tug_packets_awaits(const struct tug_packets *packets, uint32_t peer);

/* Has anything gone to the peer or come from it? */
bool tug_stream_is_known(const struct tug_packets *packets, uint32_t peer);

/* Folds idle streams, which frees them. The caller, and its callers, must not keep a pointer to a
 * stream. */
void tug_packets_fold(struct tug_packets *packets);

/* The stream has something to send: it is looked at when the batch ends. */
static inline void tug_stream_touch(struct tug_packets *packets, struct tug_stream *stream) {
    if (stream->touched)
        return;
    stream->touched = true;
    stream->next_touched = packets->touched;
    packets->touched = stream;
}

/* The stream has a request packet under way. */
static inline void tug_stream_list(struct tug_packets *packets, struct tug_stream *stream) {
    if (stream->listed)
        return;
    stream->listed = true;
    stream->next_under_way = packets->under_way;
    packets->under_way = stream;
}

/* Are data of so many bytes, in one piece or several, long ones by its wire? */
static inline bool tug_stream_trails(const struct tug_stream *stream, uint64_t bytes) {
    const uint32_t least = stream->wire->row->longs.least;
    return least > 0 && bytes >= least;
}

static inline bool tug_stream_window_open(struct tug_packets *packets,
                                          const struct tug_stream *stream) {
    const uint64_t under_way = stream->number - stream->acked;
    return under_way < TUG_UNDER_WAY_LEAST ||
           (under_way < stream->window && packets->load->under_way < TUG_UNDER_WAY_MOST);
}

/* Is nothing under way to the peer whose acknowledgement is about to come? */
static inline bool tug_stream_idle(const struct tug_stream *stream) {
    const uint64_t under_way = stream->number - stream->acked;
    return under_way == stream->resting && under_way < TUG_STREAM_LATE;
}

/* The request packet of that number does not rest any more, if it did. */
void tug_stream_unrest(struct tug_packets *packets, struct tug_stream *stream, uint64_t number);

/* So many packets more, or fewer, are under way. */
static inline void tug_packets_count(struct tug_packets *packets, int64_t change) {
    packets->unacked += (uint64_t)change;
    packets->load->under_way += (uint64_t)change;
}

/* The peer has given so much credit. */
void tug_stream_take_credit(struct tug_stream *stream, uint64_t credit);

/* Does anything of ours wait for the peer? */
static inline bool tug_stream_outstanding(const struct tug_stream *stream) {
    return stream->number != stream->acked || stream->asked > 0 || stream->unsent_first != NULL ||
           stream->waiting_first != TUG_NO_TAG || stream->open_first != TUG_NO_TAG ||
           (stream->requests != NULL && stream->requests->packet.records > 0);
}

/* A packet's number as it travels: 1, 2, ... 2^32 - 1, 1, ...; 0 for none. */
static inline uint32_t tug_wire_number(uint64_t number) {
    return number == 0 ? 0 : (uint32_t)((number - 1) % UINT32_MAX) + 1;
}

/* A request packet from the peer has been applied: it is acknowledged at the end of the batch, or
 * at the next look if that can wait (patient), or late. */
static inline void tug_stream_applied(struct tug_packets *packets, struct tug_stream *stream,
                                      bool late, bool patient) {
    stream->applied++;
    stream->patient = patient;
    stream->pressed |= !late;
    if (!late || stream->applied - stream->told >= TUG_STREAM_LATE)
        tug_stream_touch(packets, stream);
}

/* The end of a batch, for one peer; wanted: a packet that waits for more records goes too. */
void tug_stream_flush(struct tug_packets *packets, struct tug_stream *stream, bool wanted);

/* The wire does not go to the peer, to which nothing has gone so far: what is to goes by the host's
 * messages. Without memory for that the peer is lost. */
void tug_stream_detour(struct tug_packets *packets, struct tug_stream *stream);

/* The wire to the peer has ended: what is to go there goes by the next row, from the packet on that
 * follows the `taken` ones that the peer has. back: see wire.h. A packet that is neither there nor
 * here any more, or no memory: the peer is lost. */
void tug_stream_take_next_row(struct tug_packets *packets, struct tug_stream *stream,
                              uint32_t taken, struct tug_buffer *back);

/* Sends the open request packet. The window is open. */
void tug_stream_send_requests(struct tug_packets *packets, struct tug_stream *stream);

/* A signal comes whose writes have been done or have failed: a SIGNAL or SIGNAL_AM. */
void tug_packets_signalled(struct tug_packets *packets, struct tug_stream *stream,
                           const struct tug_record *record);

/* Everything that was to be done at the peer fails, now and later. */
void tug_stream_lose(struct tug_packets *packets, struct tug_stream *stream);

/* Packets that have not gone stay here: requests, data of ours, and other answers if that is said.
 */
void tug_stream_drop(struct tug_stream *stream, bool answers_too);

/* So many answers to the peer are owed more, or are owed no more (tug_pool_owe()). False: no
 * memory.
 */
static inline bool tug_stream_owe(struct tug_stream *stream, uint32_t n) {
    const bool owes = tug_pool_owe(&stream->wire->pool, n);
    stream->owed += owes ? n : 0;
    return owes;
}

/* Where the peer has been lost meanwhile, nothing is owed any more. */
static inline void tug_stream_settle(struct tug_stream *stream, uint32_t n) {
    if (n > stream->owed)
        n = stream->owed;
    stream->owed -= n;
    tug_pool_settle(&stream->wire->pool, n);
}

/* An answer for the peer, which is owed one, or whose wire has a spare buffer; returns where the
 * record's words go. */
uint64_t *tug_packets_answer(struct tug_packets *packets, uint32_t peer, unsigned kind, int status,
                             uint32_t tag, size_t length);

/* A call has come, perhaps from this process itself: hands it up. Others are owed an answer. */
void tug_packets_called(struct tug_packets *packets, struct tug_caller caller, unsigned handler,
                        const void *payload, size_t bytes);

/* Answers a call. */
void tug_packets_reply(struct tug_packets *packets, struct tug_caller caller, int status,
                       const void *answer, size_t bytes);

/* ---- write.c ---- */

/* Bytes of the next part of a READ of which so many are left, to be asked for or to come. A trailer
 * has whole words: odd bytes go ahead of it. */
static inline uint64_t tug_read_piece(const struct tug_stream *stream,
                                      const struct tug_operation *operation, uint64_t left) {
    uint64_t most = TUG_READ_PIECE;
    if (!stream->one_way && tug_stream_trails(stream, operation->bytes))
        most = left % 8 > 0 ? left % 8 : stream->wire->row->longs.most;
    return left < most ? left : most;
}

/* Its answer is a LONG_DATA, otherwise DATA. */
static inline bool tug_read_is_long(const struct tug_stream *stream, uint64_t piece) {
    return tug_stream_trails(stream, piece) ||
           (stream->wire->row->longs.least > 0 && piece > TUG_READ_PIECE);
}

/* What counts of its answer: a long one has a packet to itself, at most. */
static inline uint64_t tug_read_cost(const struct tug_stream *stream, uint64_t piece) {
    return tug_record_bytes(TUG_RECORD_DATA,
                            tug_read_is_long(stream, piece) ? TUG_READ_PIECE : piece);
}

/* Is a signal that is posted right behind a write done at the peer after it, and not at all where
 * the write has failed? Not in this process, which hands itself signals at once; nor if there is no
 * memory, so that the write may fail and the signal not.
 * Holder only. */
bool tug_packets_keep_order(struct tug_packets *packets, const struct tug_operation *write);

/* Do packets go to the peer by that wire, and is that settled? Not to this process, where it hands
 * itself what is for it. Holder only. */
bool tug_packets_go_by(struct tug_packets *packets, uint32_t peer, const void *wire);

/* Takes an operation over. */
void tug_packets_post(struct tug_packets *packets, struct tug_operation *operation);

/* The operation that ends with this counter and bears the last record of the packet that is open
 * for the peer, does not rest, and will be looked at: when one that is under way is acknowledged,
 * or when the batch ends. NULL: there is none. */
static inline struct tug_operation *tug_stream_bearer(const struct tug_packets *packets,
                                                      const struct tug_stream *stream,
                                                      const void *counter) {
    const struct tug_fabric *fabric = packets->fabric;
    if (stream->open_last == TUG_NO_TAG || stream->waiting_first != TUG_NO_TAG ||
        !stream->presses || (tug_stream_idle(stream) && !stream->touched))
        return NULL;
    struct tug_operation *bearer = &fabric->operations[stream->open_last];
    return bearer->on_complete.f == fabric->counter && bearer->on_complete.d == counter ? bearer
                                                                                        : NULL;
}

/* Short writes that only count need not become operations behind one that does: of n that stand
 * together, with their distances from the offset, returns how many have been written. 0: the first
 * has to become one. */
static inline uint32_t tug_packets_write_run(const struct tug_packets *packets, uint32_t peer,
                                             uint64_t key, uint64_t offset, const void *writes,
                                             uint32_t n, size_t bytes, void *counter) {
    const struct tug_stream *stream = packets->streams[peer];
    if (stream == NULL || stream->requests == NULL)
        return 0;
    struct tug_packet *packet = &stream->requests->packet;
    struct tug_operation *bearer = tug_stream_bearer(packets, stream, counter);
    if (bearer == NULL || (!tug_packet_runs(packet, key, offset, bytes) &&
                           !tug_packet_begin_run(packet, tug_fabric_tag(packets->fabric, bearer),
                                                 key, offset, bytes)))
        return 0;
    n = tug_packet_run_on(packet, writes, n, bytes);
    bearer->left += n;
    return n;
}

/* A short message need not become an operation if the last one was as long, and for the same
 * handler. False: it must. */
static inline bool tug_packets_message_on(struct tug_packets *packets, uint32_t peer,
                                          unsigned handler, const void *payload, size_t bytes,
                                          void *counter) {
    const struct tug_stream *stream = packets->streams[peer];
    if (stream == NULL || stream->requests == NULL)
        return false;
    struct tug_packet *packet = &stream->requests->packet;
    if (!tug_packet_am_runs(packet, handler, bytes))
        return false;
    struct tug_operation *bearer = tug_stream_bearer(packets, stream, counter);
    if (bearer == NULL)
        return false;
    tug_packet_am_run_on(packet, payload, bytes);
    bearer->left++;
    return true;
}

/* Writes what waits into packets, as far as it goes. */
void tug_stream_pump(struct tug_packets *packets, struct tug_stream *stream);

/* ---- serve.c ---- */

/* What a wire calls when a packet has come; receiver is the struct tug_packets. */
bool tug_packets_receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes);

/* The next part of a READ is where it shall lie, or has failed. */
void tug_packets_have_read(struct tug_packets *packets, struct tug_stream *stream,
                           struct tug_operation *operation);

/* serve.c: ends what is in packets that the peer has acknowledged, as far as their trailers have
 * gone. */
void tug_stream_end_acknowledged(struct tug_packets *packets, struct tug_stream *stream);

/* serve.c: by a wire with words, the peer has told what it has applied. True if that is news. */
bool tug_stream_take_word(struct tug_packets *packets, struct tug_stream *stream);

/* packets.c: what comes by the wire comes here. */
void tug_packets_attach(struct tug_packets *packets, struct tug_wire *wire);

/* packets.c: the wire of the next row that takes peers to which this wire does not go, made when
 * it is wanted first. NULL: no memory. */
struct tug_wire *tug_packets_detour(struct tug_packets *packets, const struct tug_wire *from);

/* packets.c: what a wire calls when it is known whether it leads to a peer. */
void tug_packets_settled(void *receiver, uint32_t peer, bool by_wire);

/* packets.c: what a wire calls when the way to a peer, or from it, has ended. */
void tug_packets_ended(void *receiver, uint32_t peer);

/* stream.c: what a wire calls when the write of a signal does not go ahead of it, see wire.h. */
void tug_packets_recall(void *receiver, struct tug_operation *signal);

/* packets.c: what a wire calls when it goes on by the next row, see wire.h. */
uint32_t tug_packets_yields(void *receiver, uint32_t peer);
void tug_packets_moves(void *receiver, uint32_t peer, uint32_t taken, struct tug_buffer *back);

/* ---- trailer.c: data that follow packets ---- */

/* Of a long message, bytes that are kept here until they are handed up; and how long its elements
 * may be. */
#define TUG_STAGE_BYTES ((size_t)64 << 10)
#define TUG_ELEMENT_MOST 64

/* A LONG_WRITE or LONG_PART has come, its data will. */
void tug_trailer_serve(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record);

/* A READ of memory that was found is answered by a LONG_DATA; the memory is served until its data
 * have gone. */
struct tug_applied;
void tug_trailer_answer(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record, const struct tug_applied *applied);

/* A SIGNAL has come, of the LONG_WRITE that ends its packet. False: one has before. */
bool tug_trailer_sign(struct tug_stream *stream, const struct tug_record *record);

/* A LONG_DATA has come, of the next part of a READ; its data will. */
void tug_trailer_expect(struct tug_stream *stream, const struct tug_operation *operation,
                        uint32_t tag);

/* All of a packet has been served, which so many bytes follow. owes: what the stream owes for the
 * packet is owed until they have come. False: none do, and there is a signal for them. */
bool tug_trailer_begin(struct tug_stream *stream, uint32_t bytes, bool late, bool owes);

/* The number of the next packet with one from the peer. */
uint32_t tug_trailer_next_number(const struct tug_stream *stream);

/* What is expected will not come. */
void tug_trailer_drop(struct tug_stream *stream);

/* What a wire calls, see wire.h; receiver is the struct tug_packets. */
bool tug_trailer_lets_pass(void *receiver, uint32_t source, const void *memory, size_t bytes);
unsigned char *tug_trailer_address(void *receiver, uint32_t source, size_t come, size_t *room);
void tug_trailer_arrived(void *receiver, uint32_t source, bool whole);
void tug_trailer_sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer);
void tug_trailer_keeps(void *receiver, const struct tug_buffer *buffer);

#endif

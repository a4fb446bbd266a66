/* Packets: the format of what travels between the packet transports of two processes, and its
 * checked decoding. Pure: no MPI, no state.
 *
 * Everything is in host byte order (a job's processes run on one kind of machine; the magic number
 * tells if not). A packet is a header and records, each at a multiple of 8 bytes:
 *
 *        0        2     3      4            8            12           16
 *       +--------+-----+------+------------+------------+------------+
 *       | magic  | ver | flag | bytes      | source     | records    |    header, 40 bytes
 *       +--------+-----+------+------------+------------+------------+
 *       | number     | applied    | context                          |
 *       +------------+------------+----------------------------------+
 *       | credit     | trailer    |
 *       +------------+------------+
 *
 *   bytes    of the packet, header included
 *   number   of this packet among those of its source to its destination that hold requests, from
 *            1 to 2^32 - 1 and then from 1 again; 0: there are no requests in it
 *   applied  the number of the last request packet from there that has been applied here
 *   credit   bytes of answers that may be asked for from here at a time, see packets.h
 *   trailer  bytes that follow the packet on its wire: the data of its last record, a LONG_WRITE,
 *            LONG_PART or LONG_DATA; 0 if that is none
 *   flag     REQUESTS: it has a number, and wants to be acknowledged; LATE, besides: by what goes
 *            back anyway, or when some have come (packets.h). ASKS, of a packet without number: the
 *            late ones are to be acknowledged now. WIRES, alone: it is none of those that the two
 *            processes count, and holds CONTROL, by which a row finds its peer; applied and credit
 *            say nothing
 *
 *        0      1     2        4            8
 *       +------+-----+--------+------------+
 *       | kind | sub | length | tag        |                              record, 8 bytes, then
 *       +------+-----+--------+------------+
 *
 *   length   bytes of data at the record's end, which is filled up to a multiple of 8
 *   tag      of the operation at its origin
 *
 *   kind         sub         words (8 bytes each)               data
 *   WRITE        signalled   key, offset                        yes
 *   RUN          (below)     key, offset                        yes
 *   AM_RUN       (below)     handler                            yes
 *   READ         -           key, offset, position, bytes       -
 *   FETCH        op | width  key, offset, operand               -
 *   COMPARE      width       key, offset, new value, expected   -
 *   AM           handler     -                                  yes
 *   CALL         handler     -                                  yes
 *   LONG_WRITE   signalled   key, offset, bytes                 behind the packet
 *   SIGNAL       (below)     key, offset, value                 -
 *   SIGNAL_AM    handler     -                                  yes
 *   PART         handler     head (2 words), position           yes
 *   LONG_PART    handler     head (2 words), position, bytes    behind the packet
 *   CONTROL      transport   -                                  yes
 *
 *   and the answers, which need no number (nor does CONTROL in a packet that WIRES):
 *   DATA         status      position                           yes
 *   LONG_DATA    -           position, bytes                    behind the packet
 *   VALUE        status      value                              -
 *   FAILED       status      -                                  -
 *   REFUSED      status      -                                  -
 *
 * A RUN is several short writes to one registration, all of one length and under one tag. They
 * stand as the records of a batch do (llcl/batch.h), each with its distance from the offset:
 *
 *        0      1        2       4     8     16       24         28
 *       +------+--------+-------+-----+-----+--------+----------+--------------+----------+---
 *       | kind | length | count | tag | key | offset | distance | length bytes | distance |
 *       +------+--------+-------+-----+-----+--------+----------+--------------+----------+---
 *
 * An AM_RUN is several short AM for one handler, all of one length (a multiple of 8) and under one
 * tag: length and count stand where a RUN has them, the messages one behind the other.
 *
 * A LONG_WRITE is the last record of its packet, which is applied when its data have come: whole
 * words, so that the next packet is aligned like this one. So is a LONG_DATA, of a packet without
 * number, and a LONG_PART. Packets of which all is done when their data have come may come while
 * others' are on their way; any other packet comes behind the data of those before it.
 *
 * A long message travels in parts, of which each has its head and says how many bytes of the
 * message are before it.
 *
 * A SIGNAL adds its value to an integer of 8 bytes, a SIGNAL_AM is a message; neither is done if
 * one of the writes since the last of them that say that they are signalled (sub is 1) has failed.
 * A SIGNAL that trails (sub is 1) is that of the LONG_WRITE which ends its packet, and is done when
 * its data have come. One that is void (sub is 2) has been recalled by its sender, and is not done.
 *
 * A READ may ask for a part of its operation, at that position; DATA or LONG_DATA brings the part,
 * DATA alone says that it could not be read. A CALL is answered by DATA, at position 0, when the
 * callee has an answer. FAILED is of a WRITE, SIGNAL, AM or run and goes ahead of the
 * acknowledgement. REFUSED: a packet made no sense, no more of them.
 *
 * A status is the positive value of a TUG_ERR_*; op | width is op << 4 | width.
 */
#ifndef TUG_TRANSPORT_PACKET_H
#define TUG_TRANSPORT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/copy.h"

#define TUG_PACKET_MAGIC 0x5447
#define TUG_PACKET_VERSION 12
#define TUG_PACKET_REQUESTS 1
#define TUG_PACKET_LATE 2
#define TUG_PACKET_ASKS 4
#define TUG_PACKET_WIRES 8

struct tug_packet_header {
    uint16_t magic;
    uint8_t version;
    uint8_t flags;
    uint32_t bytes;
    uint32_t source;
    uint32_t records;
    uint32_t number;
    uint32_t applied;
    uint64_t context;
    uint32_t credit;
    uint32_t trailer;
};

_Static_assert(sizeof(struct tug_packet_header) == 40, "see the drawing");

enum tug_record_kind {
    TUG_RECORD_WRITE = 1,
    TUG_RECORD_READ,
    TUG_RECORD_FETCH,
    TUG_RECORD_COMPARE,
    TUG_RECORD_AM,
    TUG_RECORD_CALL,
    TUG_RECORD_RUN,
    TUG_RECORD_AM_RUN,
    TUG_RECORD_LONG_WRITE,
    TUG_RECORD_SIGNAL,
    TUG_RECORD_SIGNAL_AM,
    TUG_RECORD_PART,
    TUG_RECORD_LONG_PART,
    TUG_RECORD_CONTROL,
    /* answers */
    TUG_RECORD_DATA,
    TUG_RECORD_LONG_DATA,
    TUG_RECORD_VALUE,
    TUG_RECORD_FAILED,
    TUG_RECORD_REFUSED,
    TUG_RECORD_KINDS
};

#define TUG_SIGNAL_TRAILS 1
#define TUG_SIGNAL_VOID 2

struct tug_record_head {
    uint8_t kind;
    uint8_t sub;
    uint16_t length;
    uint32_t tag;
};

#define TUG_RECORD_WORDS_MOST 4
#define TUG_RECORD_DATA_MOST 65528u
#define TUG_RECORD_CONTROL_MOST 256u
#define TUG_TRAILER_MOST (16u << 20)

/* 8-byte words between a record's head and its data, by kind. */
extern const uint8_t tug_record_words[TUG_RECORD_KINDS];

static inline size_t tug_record_bytes(unsigned kind, size_t length) {
    return sizeof(struct tug_record_head) + (size_t)tug_record_words[kind] * 8 +
           ((length + 7) & ~(size_t)7);
}

/* Bytes of one write of a RUN, and of all of it. */
static inline size_t tug_run_step(size_t length) {
    return sizeof(uint32_t) + length;
}

static inline size_t tug_run_bytes(size_t count, size_t length) {
    return tug_record_bytes(TUG_RECORD_RUN, count * tug_run_step(length));
}

/* Bytes of an AM_RUN. */
static inline size_t tug_am_run_bytes(size_t count, size_t length) {
    return sizeof(struct tug_record_head) + sizeof(uint64_t) + count * length;
}

/* ---- building ---- */

/* A packet being filled. */
struct tug_packet {
    unsigned char *memory; /* aligned to 8 */
    uint32_t used;         /* bytes so far, header included; no multiple of 8 behind a RUN */
    uint32_t capacity;     /* a multiple of 8, below 256 KiB */
    uint32_t records;
    uint32_t credit;             /* for its receiver; 0 unless said otherwise */
    uint32_t trailer;            /* bytes that follow it */
    uint8_t flags;               /* LATE or ASKS; 0 unless said otherwise */
    bool is_signed;              /* a SIGNAL for what follows it is in it */
    struct tug_record_head *run; /* the last record, if it is a RUN or AM_RUN; NULL */
};

static inline void tug_packet_begin(struct tug_packet *packet, void *memory, uint32_t capacity) {
    packet->memory = memory;
    packet->capacity = capacity;
    packet->used = sizeof(struct tug_packet_header);
    packet->records = 0;
    packet->credit = packet->trailer = 0;
    packet->flags = 0;
    packet->is_signed = false;
    packet->run = NULL;
}

/* Bytes that the next record may have. */
static inline size_t tug_packet_room(const struct tug_packet *packet) {
    return (packet->capacity - packet->used) & ~(size_t)7;
}

static inline bool tug_packet_has_room(const struct tug_packet *packet, unsigned kind,
                                       size_t length) {
    return tug_packet_room(packet) >= tug_record_bytes(kind, length);
}

/* No more of it: what is missing to a multiple of 8 becomes zeros. */
static inline void tug_packet_end_run(struct tug_packet *packet) {
    if (packet->run == NULL)
        return;
    size_t rest = -(size_t)packet->used & 7;
    if (rest > 0)
        memset(packet->memory + packet->used, 0, rest);
    packet->used += (uint32_t)rest;
    packet->run = NULL;
}

/* The head of a new record of so many bytes. */
static inline struct tug_record_head *tug_packet_begin_record(struct tug_packet *packet,
                                                              size_t bytes) {
    tug_packet_end_run(packet);
    struct tug_record_head *head = (struct tug_record_head *)(packet->memory + packet->used);
    packet->used += (uint32_t)bytes;
    packet->records++;
    return head;
}

/* Appends a record that has room. Returns its words, to be filled by the caller; its data go
 * behind them (the caller fills them up with zeros: tug_packet_data() does). */
static inline uint64_t *tug_packet_add(struct tug_packet *packet, unsigned kind, unsigned sub,
                                       uint32_t tag, size_t length) {
    struct tug_record_head *head = tug_packet_begin_record(packet, tug_record_bytes(kind, length));
    *head = (struct tug_record_head){(uint8_t)kind, (uint8_t)sub, (uint16_t)length, tag};
    return (uint64_t *)(head + 1);
}

/* So many bytes (a multiple of 8, at most TUG_TRAILER_MOST) follow the record that was appended
 * last, a LONG_WRITE, LONG_PART or LONG_DATA: its last word says so, and the packet is full. */
static inline void tug_packet_trail(struct tug_packet *packet, uint32_t bytes) {
    ((uint64_t *)(packet->memory + packet->used))[-1] = packet->trailer = bytes;
    packet->capacity = packet->used;
}

/* Does the packet end with a LONG_WRITE that has no signal yet, and is there room for one, in
 * memory of so many bytes? */
static inline bool tug_packet_can_sign(const struct tug_packet *packet, uint32_t memory_bytes) {
    const unsigned char *last =
        packet->memory + packet->used - tug_record_bytes(TUG_RECORD_LONG_WRITE, 0);
    return !packet->is_signed &&
           ((const struct tug_record_head *)last)->kind == TUG_RECORD_LONG_WRITE &&
           packet->used + tug_record_bytes(TUG_RECORD_SIGNAL, 0) <= memory_bytes;
}

/* Puts a SIGNAL that trails ahead of it. Returns its words. */
static inline uint64_t *tug_packet_sign(struct tug_packet *packet, uint32_t tag) {
    const size_t write = tug_record_bytes(TUG_RECORD_LONG_WRITE, 0);
    const size_t signal = tug_record_bytes(TUG_RECORD_SIGNAL, 0);
    unsigned char *last = packet->memory + packet->used - write;
    memmove(last + signal, last, write);
    struct tug_record_head *head = (struct tug_record_head *)last;
    *head = (struct tug_record_head){TUG_RECORD_SIGNAL, TUG_SIGNAL_TRAILS, 0, tag};
    packet->used += (uint32_t)signal;
    packet->capacity = packet->used;
    packet->is_signed = true;
    packet->records++;
    return (uint64_t *)(head + 1);
}

/* Is nothing in the packet, of so many bytes, done before its trailer has come? It has been ended,
 * and perhaps not been checked. */
static inline bool tug_packet_only_trails(const void *memory, size_t bytes) {
    const struct tug_packet_header *header = memory;
    const struct tug_record_head *first = (const struct tug_record_head *)(header + 1);
    if (bytes < sizeof(*header) + sizeof(*first) || header->trailer == 0)
        return false;
    return header->records == 1 ||
           (header->records == 2 && first->kind == TUG_RECORD_SIGNAL && first->sub != 0);
}

/* The offset of the RUN that is open, if `offset` is within 2 GiB of it; else `offset`. */
static inline uint64_t tug_packet_run_base(const struct tug_packet *packet, uint64_t offset) {
    if (packet->run == NULL || packet->run->kind != TUG_RECORD_RUN)
        return offset;
    const uint64_t base = ((const uint64_t *)(packet->run + 1))[1];
    return offset - base + ((uint64_t)1 << 31) <= UINT32_MAX ? base : offset;
}

/* Is the last record a RUN of that length from that offset, with room for one more? */
static inline bool tug_packet_runs(const struct tug_packet *packet, uint64_t key, uint64_t offset,
                                   size_t length) {
    const uint64_t words[] = {key, offset};
    return packet->run != NULL && packet->run->kind == TUG_RECORD_RUN &&
           packet->run->sub == length && memcmp(packet->run + 1, words, sizeof(words)) == 0 &&
           packet->capacity - packet->used >= tug_run_step(length);
}

/* Begins an empty RUN, if there can be one and room for one write. */
static inline bool tug_packet_begin_run(struct tug_packet *packet, uint32_t tag, uint64_t key,
                                        uint64_t offset, size_t length) {
    const uint64_t words[] = {key, offset};
    if (length - 1 >= UINT8_MAX || tug_packet_room(packet) < tug_run_bytes(1, length))
        return false;
    struct tug_record_head *head = tug_packet_begin_record(packet, sizeof(*head) + sizeof(words));
    *head = (struct tug_record_head){TUG_RECORD_RUN, (uint8_t)length, 0, tag};
    memcpy(head + 1, words, sizeof(words));
    packet->run = head;
    return true;
}

/* Appends n writes that stand together, or as many as there is room for, to that RUN. Returns how
 * many. */
static inline uint32_t tug_packet_run_on(struct tug_packet *packet, const void *writes, uint32_t n,
                                         size_t length) {
    const size_t step = tug_run_step(length);
    const size_t room = (packet->capacity - packet->used) / step;
    n = n < room ? n : (uint32_t)room;
    memcpy(packet->memory + packet->used, writes, n * step);
    packet->used += (uint32_t)(n * step);
    packet->run->length += (uint16_t)n;
    return n;
}

/* Is the last record an AM_RUN for that handler, of that length, with room for one more? */
static inline bool tug_packet_am_runs(const struct tug_packet *packet, unsigned handler,
                                      size_t length) {
    return packet->run != NULL && packet->run->kind == TUG_RECORD_AM_RUN &&
           packet->run->sub == length && *(const uint64_t *)(packet->run + 1) == handler &&
           packet->capacity - packet->used >= length;
}

/* Appends a message to that AM_RUN. */
static inline void tug_packet_am_run_on(struct tug_packet *packet, const void *payload,
                                        size_t length) {
    unsigned char *at = packet->memory + packet->used;
    if (__builtin_expect(length == 24, 1)) /* a short head and a word */
        memcpy(at, payload, 24);
    else
        memcpy(at, payload, length);
    packet->used += (uint32_t)length;
    packet->run->length++;
}

/* Begins an empty AM_RUN, if there can be one and room for one message. */
static inline bool tug_packet_begin_am_run(struct tug_packet *packet, uint32_t tag,
                                           unsigned handler, size_t length) {
    if (length - 1 >= UINT8_MAX || length % 8 != 0 ||
        tug_packet_room(packet) < tug_am_run_bytes(1, length))
        return false;
    struct tug_record_head *head =
        tug_packet_begin_record(packet, sizeof(*head) + sizeof(uint64_t));
    *head = (struct tug_record_head){TUG_RECORD_AM_RUN, (uint8_t)length, 0, tag};
    *(uint64_t *)(head + 1) = handler;
    packet->run = head;
    return true;
}

/* Copies a record's data into the packet, padded with zeros to 8 bytes. */
static inline void tug_packet_data(uint64_t *at, const void *data, size_t length) {
    if (__builtin_expect(length == 8, 1)) {
        memcpy(at, data, 8);
        return;
    }
    if (length % 8 != 0)
        at[length / 8] = 0;
    if (length > 0)
        tug_copy(at, data, length);
}

/* Writes the header. */
static inline void tug_packet_end(struct tug_packet *packet, uint32_t source, uint32_t number,
                                  uint32_t applied, uint64_t context) {
    tug_packet_end_run(packet);
    struct tug_packet_header header = {.magic = TUG_PACKET_MAGIC,
                                       .version = TUG_PACKET_VERSION,
                                       .flags = number != 0 ? packet->flags | TUG_PACKET_REQUESTS
                                                            : packet->flags,
                                       .bytes = packet->used,
                                       .source = source,
                                       .records = packet->records,
                                       .number = number,
                                       .applied = applied,
                                       .context = context,
                                       .credit = packet->credit,
                                       .trailer = packet->trailer};
    memcpy(packet->memory, &header, sizeof(header));
}

/* The SIGNAL of that tag in a packet of our own, of so many bytes, which has been ended or is still
 * being filled, becomes void. False: there is none. */
bool tug_packet_void_signal(void *memory, size_t bytes, uint32_t tag);

/* ---- reading ---- */

/* A record as read: words[] and data point into the packet. length is a run's count. */
struct tug_record {
    uint8_t kind;
    uint8_t sub;
    uint16_t length;
    uint32_t tag;
    const uint64_t *words;
    const unsigned char *data;
};

struct tug_packet_reader {
    struct tug_packet_header header;
    const unsigned char *next;
    const unsigned char *end;
    uint32_t left; /* records */
};

enum tug_packet_fault {
    TUG_PACKET_GOOD,
    TUG_PACKET_SHORT,   /* fewer bytes than a header, or than the header says */
    TUG_PACKET_FOREIGN, /* magic, version or flags */
    TUG_PACKET_CONTEXT, /* of another context */
    TUG_PACKET_SOURCE,  /* a source that is not there */
    TUG_PACKET_LENGTH,  /* a record goes beyond the packet, or bytes are left; a trailer that is
                           not its record's, or too long */
    TUG_PACKET_KIND,    /* a record of no kind, a request in a packet without number, or a number
                           and no requests */
    TUG_PACKET_WIDTH,   /* an atomic that does not exist */
    TUG_PACKET_STATUS,  /* a status that does not exist */
};

/* A sentence. */
const char *tug_packet_fault_text(enum tug_packet_fault fault);

/* Looks at the whole packet before anything of it is used: header and every record's structure.
 * GOOD, and the reader stands before the first record. memory is aligned to 8 and not changed by
 * others meanwhile; the reader may be used as long as it is there. */
enum tug_packet_fault tug_packet_open(struct tug_packet_reader *reader, const void *memory,
                                      size_t bytes, uint64_t context, uint32_t nranks);

/* The next record of a packet that was found good. False: that was all. */
static inline bool tug_packet_next(struct tug_packet_reader *reader, struct tug_record *record) {
    if (reader->left == 0)
        return false;
    reader->left--;
    const struct tug_record_head *head = (const struct tug_record_head *)reader->next;
    record->kind = head->kind;
    record->sub = head->sub;
    record->length = head->length;
    record->tag = head->tag;
    record->words = (const uint64_t *)(head + 1);
    record->data = (const unsigned char *)(record->words + tug_record_words[head->kind]);
    if (head->kind == TUG_RECORD_RUN) {
        reader->next += tug_run_bytes(head->length, head->sub);
        return true;
    }
    if (head->kind == TUG_RECORD_AM_RUN) {
        reader->next += tug_am_run_bytes(head->length, head->sub);
        return true;
    }
    reader->next += tug_record_bytes(head->kind, head->length);
    return true;
}

#endif

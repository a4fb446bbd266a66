/* The checked decoding of packets.
 *
 * A packet is input: it may come from a damaged wire, another version or another program. Nothing
 * of it is used before tug_packet_open() has seen the whole structure, so that whoever reads the
 * records afterwards need not think of the packet's bounds any more. What a record asks for (keys,
 * offsets, tags, positions) is still to be checked against registrations and operations.
 *
 * What a record may look like is one table row per kind. Padding is not looked at. No state: any
 * thread.
 */
#include "transport/packets/packet.h"

#include "tugboat/llcl.h"

/* Sets of values that sub may have: a bit each. */
#define SUB_NONE                                                                                   \
    { 1, 0, 0, 0 }
#define SUB_FLAG                                                                                   \
    { 3, 0, 0, 0 }
#define SUB_SIGNAL                                                                                 \
    { 7, 0, 0, 0 }
#define SUB_ANY                                                                                    \
    { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX }
#define SUB_SOME                                                                                   \
    { UINT64_MAX - 1, UINT64_MAX, UINT64_MAX, UINT64_MAX }
#define EIGHTHS UINT64_C(0x0101010101010101)
#define SUB_WORDS                                                                                  \
    { EIGHTHS - 1, EIGHTHS, EIGHTHS, EIGHTHS }
#define SUB_STATUS                                                                                 \
    { (UINT64_C(2) << -TUG_ERR_DEVICE) - 1, 0, 0, 0 }
#define WIDTHS (UINT64_C(1) << 4 | UINT64_C(1) << 8)
#define SUB_WIDTH                                                                                  \
    { WIDTHS, 0, 0, 0 }
#define SUB_FETCH                                                                                  \
    { WIDTHS | WIDTHS << 16 | WIDTHS << 32 | WIDTHS << 48, WIDTHS, 0, 0 }
_Static_assert(TUG_ADD == 0 && TUG_SWAP == 4, "SUB_FETCH has five operations");

struct shape {
    uint32_t length_most;
    uint32_t fault; /* what it is when sub is not in the set */
    uint64_t subs[4];
};

static const struct shape shapes[TUG_RECORD_KINDS] = {
    [TUG_RECORD_WRITE] = {TUG_RECORD_DATA_MOST, TUG_PACKET_KIND, SUB_FLAG},
    [TUG_RECORD_READ] = {0, TUG_PACKET_KIND, SUB_NONE},
    [TUG_RECORD_FETCH] = {0, TUG_PACKET_WIDTH, SUB_FETCH},
    [TUG_RECORD_COMPARE] = {0, TUG_PACKET_WIDTH, SUB_WIDTH},
    [TUG_RECORD_AM] = {TUG_AM_MAX_PAYLOAD, TUG_PACKET_KIND, SUB_ANY},
    [TUG_RECORD_CALL] = {TUG_AM_MAX_PAYLOAD, TUG_PACKET_KIND, SUB_ANY},
    [TUG_RECORD_RUN] = {UINT16_MAX, TUG_PACKET_LENGTH, SUB_SOME},
    [TUG_RECORD_AM_RUN] = {UINT16_MAX, TUG_PACKET_LENGTH, SUB_WORDS},
    [TUG_RECORD_LONG_WRITE] = {0, TUG_PACKET_KIND, SUB_FLAG},
    [TUG_RECORD_SIGNAL] = {0, TUG_PACKET_KIND, SUB_SIGNAL},
    [TUG_RECORD_SIGNAL_AM] = {TUG_AM_MAX_PAYLOAD, TUG_PACKET_KIND, SUB_ANY},
    [TUG_RECORD_PART] = {TUG_RECORD_DATA_MOST, TUG_PACKET_KIND, SUB_ANY},
    [TUG_RECORD_LONG_PART] = {0, TUG_PACKET_KIND, SUB_ANY},
    [TUG_RECORD_CONTROL] = {TUG_RECORD_CONTROL_MOST, TUG_PACKET_KIND, SUB_ANY},
    [TUG_RECORD_DATA] = {TUG_RECORD_DATA_MOST, TUG_PACKET_STATUS, SUB_STATUS},
    [TUG_RECORD_LONG_DATA] = {0, TUG_PACKET_KIND, SUB_NONE},
    [TUG_RECORD_VALUE] = {0, TUG_PACKET_STATUS, SUB_STATUS},
    [TUG_RECORD_FAILED] = {0, TUG_PACKET_STATUS, SUB_STATUS},
    [TUG_RECORD_REFUSED] = {0, TUG_PACKET_STATUS, SUB_STATUS},
};

const uint8_t tug_record_words[TUG_RECORD_KINDS] = {
    [TUG_RECORD_WRITE] = 2,     [TUG_RECORD_READ] = 4,       [TUG_RECORD_FETCH] = 3,
    [TUG_RECORD_COMPARE] = 4,   [TUG_RECORD_LONG_WRITE] = 3, [TUG_RECORD_DATA] = 1,
    [TUG_RECORD_RUN] = 2,       [TUG_RECORD_LONG_DATA] = 2,  [TUG_RECORD_VALUE] = 1,
    [TUG_RECORD_AM_RUN] = 1,    [TUG_RECORD_SIGNAL] = 3,     [TUG_RECORD_PART] = 3,
    [TUG_RECORD_LONG_PART] = 4,
};

static const char *const fault_texts[] = {
    [TUG_PACKET_GOOD] = "the packet is good",
    [TUG_PACKET_SHORT] = "fewer bytes than a header, or than the header says",
    [TUG_PACKET_FOREIGN] = "no packet, or one of another version",
    [TUG_PACKET_CONTEXT] = "a packet of another context",
    [TUG_PACKET_SOURCE] = "a packet from a process that is not there",
    [TUG_PACKET_LENGTH] = "a record of a wrong length, a wrong number, or not its data follow",
    [TUG_PACKET_KIND] =
        "a record that does not exist, or not at that place, or a number and no requests",
    [TUG_PACKET_WIDTH] = "an atomic that does not exist",
    [TUG_PACKET_STATUS] = "a status that does not exist",
};

const char *tug_packet_fault_text(enum tug_packet_fault fault) {
    const size_t count = sizeof(fault_texts) / sizeof(fault_texts[0]);
    if ((size_t)fault >= count)
        return "an unknown fault";
    return fault_texts[fault];
}

static enum tug_packet_fault check_header(const struct tug_packet_header *header, size_t bytes,
                                          uint64_t context, uint32_t nranks) {
    const uint8_t flags = header->number != 0 ? TUG_PACKET_REQUESTS : 0;
    const uint8_t more = header->number != 0 ? TUG_PACKET_LATE : TUG_PACKET_ASKS;
    const bool wires = header->flags == TUG_PACKET_WIRES && header->number == 0;
    if (header->magic != TUG_PACKET_MAGIC || header->version != TUG_PACKET_VERSION ||
        (!wires && (header->flags & ~more) != flags))
        return TUG_PACKET_FOREIGN;
    if (header->context != context)
        return TUG_PACKET_CONTEXT;
    if (header->source >= nranks)
        return TUG_PACKET_SOURCE;
    if (header->bytes < sizeof(*header) || header->bytes > bytes)
        return TUG_PACKET_SHORT;
    if (header->bytes < bytes)
        return TUG_PACKET_LENGTH;
    return TUG_PACKET_GOOD;
}

/* Everything about a record but where it ends. kinds: a bit for each kind that may be here. */
static enum tug_packet_fault check_record(const struct tug_record_head *head, uint32_t kinds) {
    if (head->kind >= TUG_RECORD_KINDS || (kinds >> head->kind & 1) == 0)
        return TUG_PACKET_KIND;
    const struct shape *shape = &shapes[head->kind];
    if ((shape->subs[head->sub >> 6] >> (head->sub & 63) & 1) == 0)
        return (enum tug_packet_fault)shape->fault;
    if (head->length > shape->length_most)
        return TUG_PACKET_LENGTH;
    return TUG_PACKET_GOOD;
}

/* Kind, sub and length in one word. */
static inline uint32_t look_of(const void *record) {
    struct tug_record_head head;
    memcpy(&head, record, sizeof(head));
    return head.kind | (uint32_t)head.sub << 8 | (uint32_t)head.length << 16;
}

/* Bytes to the next record. */
static uint32_t step_of(const struct tug_record_head *head) {
    if (head->kind == TUG_RECORD_RUN)
        return (uint32_t)tug_run_bytes(head->length, head->sub);
    if (head->kind == TUG_RECORD_AM_RUN)
        return (uint32_t)tug_am_run_bytes(head->length, head->sub);
    return (uint32_t)tug_record_bytes(head->kind, head->length);
}

/* What has been checked holds for every record of the same look. Most records look like the last or
 * the one before it: their step is known before they have been loaded, and they cost less than one
 * nanosecond instead of three. */
struct known {
    uint32_t look;
    uint32_t step;
};

/* What follows the packet are the data of its last record, if that has any there: the packet's last
 * word says how many. */
static bool trails(const unsigned char *end, bool is_long, uint32_t trailer) {
    uint64_t bytes;
    if (!is_long)
        return trailer == 0;
    memcpy(&bytes, end - sizeof(bytes), sizeof(bytes));
    return bytes == trailer && trailer > 0 && trailer <= TUG_TRAILER_MOST && trailer % 8 == 0;
}

static enum tug_packet_fault check_records(const unsigned char *next, const unsigned char *end,
                                           const struct tug_packet_header *header) {
    uint32_t records = header->records;
    const bool numbered = header->number != 0;
    const uint32_t answers = (1u << TUG_RECORD_KINDS) - (1u << TUG_RECORD_DATA);
    const uint32_t alone = 1u << TUG_RECORD_LONG_DATA; /* among answers only */
    bool requests = false, is_long = false;
    const bool wires = header->flags & TUG_PACKET_WIRES;
    const uint32_t kinds = numbered ? ((1u << TUG_RECORD_KINDS) - 2) & ~alone
                           : wires  ? 1u << TUG_RECORD_CONTROL
                                    : answers;
    /* to begin with, a record that is good here */
    const struct tug_record_head good = {.kind = wires ? TUG_RECORD_CONTROL : TUG_RECORD_FAILED};
    struct known last = {look_of(&good), sizeof(good)}, other = last;
    for (; records > 0; records--) {
        uint32_t step;
        if ((size_t)(end - next) < sizeof(struct tug_record_head))
            return TUG_PACKET_LENGTH;
        const uint32_t look = look_of(next);
        if (look == last.look) {
            step = last.step;
        } else if (look == other.look) {
            step = other.step;
        } else {
            struct tug_record_head head;
            memcpy(&head, next, sizeof(head));
            const enum tug_packet_fault fault = check_record(&head, kinds);
            if (fault != TUG_PACKET_GOOD)
                return fault;
            is_long = head.kind == TUG_RECORD_LONG_WRITE || head.kind == TUG_RECORD_LONG_PART ||
                      head.kind == TUG_RECORD_LONG_DATA;
            if (is_long && records > 1)
                return TUG_PACKET_KIND;
            requests |= head.kind < TUG_RECORD_DATA;
            step = step_of(&head);
            other = last;
            last = (struct known){look, step};
        }
        if ((size_t)(end - next) < step)
            return TUG_PACKET_LENGTH;
        next += step;
    }
    if (next != end || !trails(end, is_long, header->trailer))
        return TUG_PACKET_LENGTH;
    return numbered && !requests ? TUG_PACKET_KIND : TUG_PACKET_GOOD;
}

bool tug_packet_void_signal(void *memory, size_t bytes, uint32_t tag) {
    for (size_t at = sizeof(struct tug_packet_header);
         at + sizeof(struct tug_record_head) <= bytes;) {
        struct tug_record_head *head = (struct tug_record_head *)((unsigned char *)memory + at);
        if (head->kind == TUG_RECORD_SIGNAL && head->tag == tag && head->sub == 0) {
            head->sub = TUG_SIGNAL_VOID;
            return true;
        }
        at += step_of(head);
    }
    return false;
}

/* On a fault the header stands in the reader if there are as many bytes, for those who want to say
 * whose packet it was, and there are no records. */
enum tug_packet_fault tug_packet_open(struct tug_packet_reader *reader, const void *memory,
                                      size_t bytes, uint64_t context, uint32_t nranks) {
    const unsigned char *packet = memory;
    memset(reader, 0, sizeof(*reader));
    if (bytes < sizeof(reader->header))
        return TUG_PACKET_SHORT;
    memcpy(&reader->header, packet, sizeof(reader->header));
    enum tug_packet_fault fault = check_header(&reader->header, bytes, context, nranks);
    if (fault != TUG_PACKET_GOOD)
        return fault;
    const unsigned char *first = packet + sizeof(reader->header);
    const unsigned char *end = packet + bytes;
    fault = check_records(first, end, &reader->header);
    if (fault != TUG_PACKET_GOOD)
        return fault;
    reader->next = first;
    reader->end = end;
    reader->left = reader->header.records;
    return TUG_PACKET_GOOD;
}

/* Packets: what is built is what is read, and everything else is refused. What a record may look
 * like is said here a second time, in other words than in the decoder, and compared for every kind
 * and sub. */
#include "check.h"
#include "transport/packets/packet.h"
#include "tugboat/llcl.h"

#define CONTEXT UINT64_C(0x0123456789abcdef)
#define RANKS 7
#define CAPACITY (512 * 1024)
#define HEADER (uint32_t)sizeof(struct tug_packet_header)

static unsigned char memory[CAPACITY] __attribute__((aligned(64)));

/* A good sub for each kind. */
static const uint8_t good_sub[TUG_RECORD_KINDS] = {
    [TUG_RECORD_FETCH] = TUG_XOR << 4 | 8,
    [TUG_RECORD_COMPARE] = 4,
    [TUG_RECORD_AM] = 255,
    [TUG_RECORD_CALL] = 1,
    [TUG_RECORD_CONTROL] = 2,
    [TUG_RECORD_DATA] = -TUG_ERR_RANGE,
    [TUG_RECORD_FAILED] = -TUG_ERR_KEY,
    [TUG_RECORD_REFUSED] = -TUG_ERR_INVALID,
};

static bool is_request(unsigned kind) {
    return kind >= TUG_RECORD_WRITE && kind <= TUG_RECORD_CONTROL;
}

static size_t most_data(unsigned kind) {
    switch (kind) {
    case TUG_RECORD_WRITE:
    case TUG_RECORD_PART:
    case TUG_RECORD_DATA:
        return TUG_RECORD_DATA_MOST;
    case TUG_RECORD_CONTROL:
        return 256;
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
    case TUG_RECORD_SIGNAL_AM:
        return TUG_AM_MAX_PAYLOAD;
    default:
        return 0;
    }
}

/* Built in a way of its own. */
static bool is_special(unsigned kind) {
    return kind == TUG_RECORD_RUN || kind == TUG_RECORD_AM_RUN || kind == TUG_RECORD_LONG_WRITE ||
           kind == TUG_RECORD_LONG_PART || kind == TUG_RECORD_LONG_DATA;
}

static unsigned words_of(unsigned kind) {
    switch (kind) {
    case TUG_RECORD_READ:
    case TUG_RECORD_COMPARE:
    case TUG_RECORD_LONG_PART:
        return 4;
    case TUG_RECORD_FETCH:
    case TUG_RECORD_LONG_WRITE:
    case TUG_RECORD_SIGNAL:
    case TUG_RECORD_PART:
        return 3;
    case TUG_RECORD_WRITE:
    case TUG_RECORD_RUN:
    case TUG_RECORD_LONG_DATA:
        return 2;
    case TUG_RECORD_DATA:
    case TUG_RECORD_VALUE:
    case TUG_RECORD_AM_RUN:
        return 1;
    default:
        return 0;
    }
}

static enum tug_packet_fault fault_of_record(unsigned kind, unsigned sub, size_t length,
                                             bool numbered) {
    if (kind == 0 || kind >= TUG_RECORD_KINDS || (is_request(kind) && !numbered) ||
        (kind == TUG_RECORD_LONG_DATA && numbered))
        return TUG_PACKET_KIND;
    switch (kind) {
    case TUG_RECORD_RUN:
        return sub > 0 && (length * (4 + sub) + 7) / 8 == (length + 7) / 8 ? TUG_PACKET_GOOD
                                                                           : TUG_PACKET_LENGTH;
    case TUG_RECORD_AM_RUN:
        return sub > 0 && sub % 8 == 0 && length * sub == (length + 7) / 8 * 8 ? TUG_PACKET_GOOD
                                                                               : TUG_PACKET_LENGTH;
    case TUG_RECORD_FETCH:
        if (sub / 16 > TUG_SWAP)
            return TUG_PACKET_WIDTH;
        if (sub % 16 != 4 && sub % 16 != 8)
            return TUG_PACKET_WIDTH;
        break;
    case TUG_RECORD_COMPARE:
        if (sub != 4 && sub != 8)
            return TUG_PACKET_WIDTH;
        break;
    case TUG_RECORD_DATA:
    case TUG_RECORD_VALUE:
    case TUG_RECORD_FAILED:
    case TUG_RECORD_REFUSED:
        if (sub > 14)
            return TUG_PACKET_STATUS;
        break;
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
    case TUG_RECORD_SIGNAL_AM:
    case TUG_RECORD_PART:
    case TUG_RECORD_CONTROL:
        break;
    case TUG_RECORD_WRITE:
    case TUG_RECORD_SIGNAL:
        if (sub > (kind == TUG_RECORD_WRITE ? 1 : TUG_SIGNAL_VOID))
            return TUG_PACKET_KIND;
        break;
    case TUG_RECORD_LONG_WRITE:
        return sub > 1 ? TUG_PACKET_KIND : TUG_PACKET_LENGTH; /* and nothing follows */
    case TUG_RECORD_LONG_PART:
        return TUG_PACKET_LENGTH;
    case TUG_RECORD_LONG_DATA:
        return sub != 0 ? TUG_PACKET_KIND : TUG_PACKET_LENGTH;
    default:
        if (sub != 0)
            return TUG_PACKET_KIND;
    }
    return length <= most_data(kind) ? TUG_PACKET_GOOD : TUG_PACKET_LENGTH;
}

static uint64_t *add(struct tug_packet *packet, unsigned kind, size_t length) {
    assert_true(tug_packet_has_room(packet, kind, length));
    uint64_t *words = tug_packet_add(packet, kind, good_sub[kind], kind * 1000, length);
    for (unsigned i = 0; i < words_of(kind); i++)
        words[i] = kind * UINT64_C(0x0101010101010101) + i;
    return words;
}

static enum tug_packet_fault open_packet(struct tug_packet_reader *reader, const void *at,
                                         size_t bytes) {
    return tug_packet_open(reader, at, bytes, CONTEXT, RANKS);
}

static enum tug_packet_fault verdict(size_t bytes) {
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    const enum tug_packet_fault fault = open_packet(&reader, memory, bytes);
    if (fault != TUG_PACKET_GOOD)
        assert_false(tug_packet_next(&reader, &record)); /* nothing of it can be read */
    return fault;
}

static struct tug_packet_header *header(void) {
    return (struct tug_packet_header *)memory;
}

/* ---- what is built is what is read ---- */

static void every_kind_and_length_comes_through(void **state) {
    static const uint16_t lengths[] = {0, 1, 7, 8, 9, 24, 4095, 4096, 4097, 65521, 65528};
    static unsigned char data[TUG_RECORD_DATA_MOST];
    struct tug_packet packet;
    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 31 + 7);
    memset(memory, 0xee, sizeof(memory));
    for (unsigned kind = 1; kind < TUG_RECORD_KINDS; kind++) {
        if (is_special(kind)) /* by themselves below */
            continue;
        tug_packet_begin(&packet, memory, CAPACITY);
        unsigned records = 0;
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            if (lengths[i] > most_data(kind))
                continue;
            uint64_t *words = add(&packet, kind, lengths[i]);
            tug_packet_data(words + words_of(kind), data, lengths[i]);
            records++;
        }
        const uint32_t number = is_request(kind) ? UINT32_MAX : 0;
        tug_packet_end(&packet, RANKS - 1, number, 17, CONTEXT);

        struct tug_packet_reader reader;
        struct tug_record record = {0};
        assert_int_equal(open_packet(&reader, memory, packet.used), TUG_PACKET_GOOD);
        assert_int_equal(reader.header.source, RANKS - 1);
        assert_int_equal(reader.header.number, number);
        assert_int_equal(reader.header.applied, 17);
        assert_int_equal(reader.header.records, records);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            if (lengths[i] > most_data(kind))
                continue;
            assert_true(tug_packet_next(&reader, &record));
            assert_int_equal(record.kind, kind);
            assert_int_equal(record.sub, good_sub[kind]);
            assert_int_equal(record.length, lengths[i]);
            assert_int_equal(record.tag, kind * 1000);
            for (unsigned word = 0; word < words_of(kind); word++)
                assert_int_equal(record.words[word], kind * UINT64_C(0x0101010101010101) + word);
            assert_ptr_equal(record.data, record.words + words_of(kind));
            assert_memory_equal(record.data, data, lengths[i]);
            for (unsigned pad = lengths[i]; pad % 8 != 0; pad++)
                assert_int_equal(record.data[pad], 0);
        }
        assert_false(tug_packet_next(&reader, &record));
        assert_ptr_equal(reader.next, reader.end);
    }
}

static void records_of_all_kinds_mix(void **state) {
    struct tug_packet packet;
    unsigned kinds[4000], seed = 20160809, count = 0;
    (void)state;
    tug_packet_begin(&packet, memory, CAPACITY);
    for (; count < 4000; count++) {
        seed = seed * 1103515245 + 12345;
        /* runs of one kind, then of two in turn, then of all */
        unsigned kind = count < 1000   ? TUG_RECORD_WRITE
                        : count < 2000 ? TUG_RECORD_WRITE + count % 2
                                       : 1 + (seed >> 16) % (TUG_RECORD_KINDS - 1);
        if (is_special(kind))
            kind = TUG_RECORD_WRITE;
        const size_t length = most_data(kind) > 0 ? (seed >> 20) % 80 : 0;
        uint64_t *words = add(&packet, kind, length);
        memset(words + words_of(kind), (int)kind, length);
        kinds[count] = kind;
    }
    tug_packet_end(&packet, 0, 1, 0, CONTEXT);
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    assert_int_equal(open_packet(&reader, memory, packet.used), TUG_PACKET_GOOD);
    for (unsigned i = 0; i < count; i++) {
        assert_true(tug_packet_next(&reader, &record));
        assert_int_equal(record.kind, kinds[i]);
        assert_int_equal(record.tag, kinds[i] * 1000);
        for (unsigned at = 0; at < record.length; at++)
            assert_int_equal(record.data[at], kinds[i]);
    }
    assert_false(tug_packet_next(&reader, &record));
}

#define BASE (UINT64_C(1) << 33)
#define RUN_OFFSET(i) (BASE + (uint64_t)((i) % 2 ? -1 : 1) * (i)*1000)

/* `count` writes of that length, as they stand in a run. */
static const unsigned char *writes_of(unsigned count, size_t length) {
    static unsigned char writes[1 << 20];
    unsigned char *next = writes;
    for (unsigned i = 0; i < count && next + 4 + length <= writes + sizeof(writes); i++) {
        const uint32_t distance = (uint32_t)(RUN_OFFSET(i) - BASE);
        memcpy(next, &distance, sizeof(distance));
        memset(next + sizeof(distance), (int)i + 1, length);
        next += sizeof(distance) + length;
    }
    return writes;
}

/* A packet with a RUN between a WRITE and a message: so many writes of that length, as fit, in two
 * parts. Returns how many do. */
static unsigned make_run(struct tug_packet *packet, uint32_t capacity, unsigned count,
                         size_t length) {
    const unsigned char *writes = writes_of(count, length);
    unsigned added = 0;
    memset(memory, 0xee, capacity);
    tug_packet_begin(packet, memory, capacity);
    assert_false(tug_packet_runs(packet, 5, BASE, length));
    (void)tug_packet_add(packet, TUG_RECORD_WRITE, 0, 3, 0);
    assert_false(tug_packet_runs(packet, 5, BASE, length));
    if (count > 0 && tug_packet_begin_run(packet, 77777, 5, BASE, length)) {
        assert_false(tug_packet_runs(packet, 5, BASE, length % 255 + 1));
        assert_false(tug_packet_runs(packet, 6, BASE, length));
        assert_false(tug_packet_runs(packet, 5, BASE + 1, length));
        const unsigned first = count / 2;
        added = tug_packet_run_on(packet, writes, first, length);
        added += tug_packet_run_on(packet, writes + added * (4 + length), count - added, length);
        assert_int_equal(tug_packet_runs(packet, 5, BASE, length),
                         packet->capacity - packet->used >= 4 + length);
    }
    if (tug_packet_has_room(packet, TUG_RECORD_AM, 8))
        *tug_packet_add(packet, TUG_RECORD_AM, 9, 4, 8) = 1234567;
    assert_true(packet->used <= capacity);
    tug_packet_end(packet, 0, 1, 0, CONTEXT);
    assert_int_equal(packet->used % 8, 0);
    return added;
}

/* A near write goes on with the run that is open, one that is far away begins one. */
static void a_run_goes_on_where_it_began(void **state) {
    struct tug_packet packet;
    (void)state;
    tug_packet_begin(&packet, memory, CAPACITY);
    assert_int_equal(tug_packet_run_base(&packet, 17), 17);
    assert_false(tug_packet_begin_run(&packet, 1, 5, BASE, 0));
    assert_false(tug_packet_begin_run(&packet, 1, 5, BASE, 256));
    assert_true(tug_packet_begin_run(&packet, 1, 5, BASE, 8));
    for (int side = -1; side < 2; side += 2) {
        const uint64_t far = BASE + (uint64_t)(int64_t)(side > 0 ? INT32_MAX : INT32_MIN);
        assert_int_equal(tug_packet_run_base(&packet, far), BASE);
        assert_int_equal(tug_packet_run_base(&packet, far + (uint64_t)side), far + (uint64_t)side);
    }
    (void)tug_packet_add(&packet, TUG_RECORD_WRITE, 0, 3, 0);
    assert_int_equal(tug_packet_run_base(&packet, BASE + 8), BASE + 8);
}

static void writes_in_a_run_come_through(void **state) {
    static const size_t lengths[] = {1, 4, 7, 8, 9, 24, 255};
    struct tug_packet packet;
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    (void)state;
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
        for (unsigned count = 1; count < 20; count++) {
            const size_t length = lengths[l];
            assert_int_equal(make_run(&packet, CAPACITY, count, length), count);
            assert_int_equal(open_packet(&reader, memory, packet.used), TUG_PACKET_GOOD);
            assert_true(tug_packet_next(&reader, &record));
            assert_true(tug_packet_next(&reader, &record));
            assert_int_equal(record.kind, TUG_RECORD_RUN);
            assert_int_equal(record.sub, length);
            assert_int_equal(record.length, count);
            assert_int_equal(record.tag, 77777);
            assert_int_equal(record.words[0], 5);
            assert_int_equal(record.words[1], BASE);
            for (unsigned i = 0; i < count; i++) {
                const unsigned char *one = record.data + i * (4 + length);
                int32_t distance;
                memcpy(&distance, one, 4);
                assert_int_equal(BASE + (uint64_t)(int64_t)distance, RUN_OFFSET(i));
                assert_int_equal(one[4], i + 1);
                assert_int_equal(one[3 + length], i + 1);
            }
            for (const unsigned char *pad = record.data + count * (4 + length);
                 (uintptr_t)pad % 8 != 0; pad++)
                assert_int_equal(*pad, 0);
            assert_true(tug_packet_next(&reader, &record));
            assert_int_equal(record.kind, TUG_RECORD_AM);
            assert_int_equal(*(const uint64_t *)(const void *)record.data, 1234567);
            assert_false(tug_packet_next(&reader, &record));
        }
}

static void a_run_fills_its_packet_and_no_more(void **state) {
    struct tug_packet packet;
    (void)state;
    const uint32_t before = HEADER + 24; /* a WRITE of nothing */
    for (uint32_t room = 0; room <= 512; room += 8) {
        const unsigned fit = room < 24 + 16 ? 0 : (room - 24) / 12;
        assert_int_equal(make_run(&packet, before + room, UINT16_MAX, 8), fit);
        assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
    }
}

/* The run at that place is good in a packet of so many bytes and with parts of that length only,
 * and has not more of them. */
static void expect_only(size_t at, unsigned kind, unsigned good_length, uint32_t bytes) {
    struct tug_record_head *head = (struct tug_record_head *)(memory + at);
    assert_int_equal(head->kind, kind);
    for (uint32_t cut = HEADER; cut < bytes; cut++) {
        header()->bytes = cut;
        assert_int_equal(verdict(cut), TUG_PACKET_LENGTH);
    }
    header()->bytes = bytes;
    for (unsigned length = 0; length < 256; length++) {
        head->sub = (uint8_t)length;
        assert_int_equal(verdict(bytes) == TUG_PACKET_GOOD, length == good_length);
    }
    head->sub = (uint8_t)good_length;
    head->length = UINT16_MAX;
    assert_int_equal(verdict(bytes), TUG_PACKET_LENGTH);
}

static void a_wrong_run_is_refused(void **state) {
    struct tug_packet packet;
    (void)state;
    make_run(&packet, CAPACITY, 5, 8);
    expect_only(HEADER + 24, TUG_RECORD_RUN, 8, packet.used);
}

/* A packet of one AM_RUN of so many messages, and a good record behind it. Returns how many fit. */
static unsigned make_am_run(struct tug_packet *packet, uint32_t capacity, unsigned count,
                            size_t length) {
    unsigned char data[248];
    unsigned added = 0;
    tug_packet_begin(packet, memory, capacity);
    assert_false(tug_packet_am_runs(packet, 9, length));
    if (tug_packet_begin_am_run(packet, 77777, 9, length)) {
        assert_false(tug_packet_am_runs(packet, 8, length)); /* another handler, another length */
        assert_false(tug_packet_am_runs(packet, 9, length % 248 + 8));
        assert_false(tug_packet_runs(packet, 5, BASE, length));
        for (; added < count && tug_packet_am_runs(packet, 9, length); added++) {
            memset(data, (int)added + 1, sizeof(data));
            tug_packet_am_run_on(packet, data, length);
        }
    }
    if (tug_packet_has_room(packet, TUG_RECORD_AM, 8))
        *tug_packet_add(packet, TUG_RECORD_AM, 9, 4, 8) = 1234567;
    assert_true(packet->used <= capacity);
    tug_packet_end(packet, 0, packet->records > 0, 0, CONTEXT);
    return added;
}

static void messages_in_a_run_come_through(void **state) {
    struct tug_packet packet;
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    (void)state;
    for (size_t length = 8; length <= 248; length += 8)
        for (unsigned count = 1; count < 20; count++) {
            assert_int_equal(make_am_run(&packet, CAPACITY, count, length), count);
            assert_int_equal(open_packet(&reader, memory, packet.used), TUG_PACKET_GOOD);
            assert_true(tug_packet_next(&reader, &record));
            assert_int_equal(record.kind, TUG_RECORD_AM_RUN);
            assert_int_equal(record.sub, length);
            assert_int_equal(record.length, count);
            assert_int_equal(record.tag, 77777);
            assert_int_equal(record.words[0], 9);
            for (unsigned i = 0; i < count; i++) {
                assert_int_equal(record.data[i * length], i + 1);
                assert_int_equal(record.data[(i + 1) * length - 1], i + 1);
            }
            assert_true(tug_packet_next(&reader, &record));
            assert_int_equal(record.kind, TUG_RECORD_AM);
            assert_false(tug_packet_next(&reader, &record));
        }
    for (size_t length = 0; length <= 300; length++)
        if (length == 0 || length % 8 != 0 || length > 248)
            assert_int_equal(make_am_run(&packet, CAPACITY, 3, length), 0);
}

static void a_run_of_messages_fills_its_packet_and_no_more(void **state) {
    struct tug_packet packet;
    (void)state;
    for (uint32_t room = 0; room <= 512; room += 8) {
        const unsigned fit = room < 16 + 24 ? 0 : (room - 16) / 24;
        assert_int_equal(make_am_run(&packet, HEADER + room, UINT16_MAX, 24), fit);
        assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
    }
}

static void a_wrong_run_of_messages_is_refused(void **state) {
    struct tug_packet packet;
    (void)state;
    make_am_run(&packet, CAPACITY, 5, 24);
    expect_only(HEADER, TUG_RECORD_AM_RUN, 24, packet.used);
}

static void a_run_follows_any_record(void **state) {
    struct tug_packet packet;
    (void)state;
    for (unsigned kind = 1; kind < TUG_RECORD_KINDS; kind++) {
        if (is_special(kind))
            continue;
        tug_packet_begin(&packet, memory, CAPACITY);
        add(&packet, kind, 0);
        struct tug_record_head *run = (struct tug_record_head *)(memory + packet.used);
        assert_true(tug_packet_begin_run(&packet, 1, 5, BASE, 8));
        assert_int_equal(tug_packet_run_on(&packet, writes_of(1, 8), 1, 8), 1);
        tug_packet_end(&packet, 0, 1, 0, CONTEXT);
        assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
        run->sub = 0; /* of no length */
        assert_int_equal(verdict(packet.used), TUG_PACKET_LENGTH);
    }
}

static void add_long(struct tug_packet *packet, unsigned kind, uint32_t bytes) {
    uint64_t *words = tug_packet_add(packet, kind, 0, 33, 0);
    for (unsigned word = 0; word + 1 < words_of(kind); word++)
        words[word] = BASE;
    tug_packet_trail(packet, bytes);
}

/* A packet with another record and a long one; returns its bytes. */
static uint32_t make_long(unsigned kind, uint32_t bytes) {
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, CAPACITY);
    add(&packet, is_request(kind) ? TUG_RECORD_WRITE : TUG_RECORD_FAILED, 0);
    add_long(&packet, kind, bytes);
    assert_false(tug_packet_has_room(&packet, TUG_RECORD_FAILED, 0));
    tug_packet_end(&packet, 2, is_request(kind), 0, CONTEXT);
    assert_int_equal(header()->trailer, bytes);
    return packet.used;
}

static const unsigned long_kinds[] = {TUG_RECORD_LONG_WRITE, TUG_RECORD_LONG_PART,
                                      TUG_RECORD_LONG_DATA};

static void long_records_come_through(void **state) {
    static const uint32_t most[] = {8, 16, 4096, TUG_TRAILER_MOST};
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    (void)state;
    for (size_t i = 0; i < 3 * sizeof(most) / sizeof(most[0]); i++) {
        const unsigned kind = long_kinds[i % 3], last = words_of(kind) - 1;
        assert_int_equal(open_packet(&reader, memory, make_long(kind, most[i / 3])),
                         TUG_PACKET_GOOD);
        assert_true(tug_packet_next(&reader, &record));
        assert_true(tug_packet_next(&reader, &record));
        assert_int_equal(record.kind, kind);
        assert_int_equal(record.tag, 33);
        for (unsigned word = 0; word < last; word++)
            assert_int_equal(record.words[word], BASE);
        assert_int_equal(record.words[last], most[i / 3]);
        assert_false(tug_packet_next(&reader, &record));
    }
}

/* What follows belongs to the last record, and is as long as that says. */
static void wrong_trailers_are_refused(unsigned kind) {
    static const uint32_t wrong[] = {0, 1, 4, 12, TUG_TRAILER_MOST + 8, UINT32_MAX - 7};
    struct tug_packet packet;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(verdict(make_long(kind, wrong[i])), TUG_PACKET_LENGTH);
    const uint32_t bytes = make_long(kind, 4096);
    for (uint32_t bit = 0; bit < 32; bit++) {
        header()->trailer = 4096 ^ UINT32_C(1) << bit;
        assert_int_equal(verdict(bytes), TUG_PACKET_LENGTH);
    }
    header()->trailer = 4096;
    assert_int_equal(verdict(bytes), TUG_PACKET_GOOD);
    /* a request in a packet without number, or an answer in one that has one */
    header()->number = header()->flags = !is_request(kind);
    assert_int_equal(verdict(bytes), TUG_PACKET_KIND);
    for (unsigned next = 1; next < TUG_RECORD_KINDS; next++) {
        if (next == TUG_RECORD_RUN)
            continue;
        tug_packet_begin(&packet, memory, CAPACITY);
        add_long(&packet, kind, 4096);
        packet.capacity = CAPACITY;
        if (next == TUG_RECORD_LONG_WRITE || next == TUG_RECORD_LONG_PART ||
            next == TUG_RECORD_LONG_DATA)
            add_long(&packet, next, 4096);
        else
            add(&packet, next, 0);
        tug_packet_end(&packet, 2, is_request(kind), 0, CONTEXT);
        assert_int_equal(verdict(packet.used), TUG_PACKET_KIND);
    }
}

static void a_wrong_trailer_is_refused(void **state) {
    (void)state;
    wrong_trailers_are_refused(TUG_RECORD_LONG_WRITE);
    wrong_trailers_are_refused(TUG_RECORD_LONG_PART);
    wrong_trailers_are_refused(TUG_RECORD_LONG_DATA);
}

static void a_packet_without_records_is_good(void **state) {
    struct tug_packet packet;
    (void)state;
    tug_packet_begin(&packet, memory, HEADER);
    tug_packet_end(&packet, 0, 0, 5, CONTEXT);
    assert_int_equal(packet.used, HEADER);
    assert_int_equal(verdict(HEADER), TUG_PACKET_GOOD);
}

static void room_is_counted_to_the_byte(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < TUG_RECORD_KINDS; kind++) {
        if (is_special(kind))
            continue;
        const uint32_t length = most_data(kind) > 0 ? 13 : 0;
        const uint32_t needed = 8 + 8 * words_of(kind) + (length > 0 ? 16 : 0);
        struct tug_packet packet;
        assert_int_equal(tug_record_bytes(kind, length), needed);
        tug_packet_begin(&packet, memory, HEADER + needed - 1);
        assert_false(tug_packet_has_room(&packet, kind, length));
        tug_packet_begin(&packet, memory, HEADER + needed);
        assert_true(tug_packet_has_room(&packet, kind, length));
        add(&packet, kind, length);
        assert_int_equal(packet.used, packet.capacity);
        assert_false(tug_packet_has_room(&packet, TUG_RECORD_FAILED, 0));
    }
}

/* ---- what is refused ---- */

/* A good packet with a request and an answer; returns its bytes. */
static uint32_t make_good(void) {
    struct tug_packet packet;
    memset(memory, 0, 4096);
    tug_packet_begin(&packet, memory, CAPACITY);
    add(&packet, TUG_RECORD_WRITE, 12);
    add(&packet, TUG_RECORD_VALUE, 0);
    tug_packet_end(&packet, 3, 9, 8, CONTEXT);
    assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
    return packet.used;
}

static void every_field_of_the_header_is_looked_at(void **state) {
    const uint32_t bytes = make_good();
    (void)state;
#define CHECK_FIELD(field, value, fault)                                                           \
    do {                                                                                           \
        make_good();                                                                               \
        header()->field = (value);                                                                 \
        assert_int_equal(verdict(bytes), fault);                                                   \
    } while (0)
    CHECK_FIELD(magic, 0x4754, TUG_PACKET_FOREIGN); /* the other byte order */
    CHECK_FIELD(version, TUG_PACKET_VERSION + 1, TUG_PACKET_FOREIGN);
    CHECK_FIELD(version, 0, TUG_PACKET_FOREIGN);
    CHECK_FIELD(flags, 0, TUG_PACKET_FOREIGN); /* it has a number */
    for (unsigned bit = 1; bit < 8; bit++)
        CHECK_FIELD(flags, (uint8_t)(TUG_PACKET_REQUESTS | 1u << bit),
                    1u << bit == TUG_PACKET_LATE ? TUG_PACKET_GOOD : TUG_PACKET_FOREIGN);
    CHECK_FIELD(flags, TUG_PACKET_LATE, TUG_PACKET_FOREIGN);
    CHECK_FIELD(number, 0, TUG_PACKET_FOREIGN); /* the flag says that there is one */
    for (unsigned bit = 0; bit < 64; bit++) {
        CHECK_FIELD(trailer, UINT32_C(1) << bit % 32, TUG_PACKET_LENGTH);
        CHECK_FIELD(context, CONTEXT ^ UINT64_C(1) << bit, TUG_PACKET_CONTEXT);
    }
    CHECK_FIELD(source, RANKS - 1, TUG_PACKET_GOOD);
    CHECK_FIELD(source, RANKS, TUG_PACKET_SOURCE);
    CHECK_FIELD(source, UINT32_MAX, TUG_PACKET_SOURCE);
    for (uint32_t said = 0; said < HEADER; said++)
        CHECK_FIELD(bytes, said, TUG_PACKET_SHORT);
    CHECK_FIELD(bytes, bytes + 1, TUG_PACKET_SHORT);
    CHECK_FIELD(bytes, UINT32_MAX, TUG_PACKET_SHORT);
    CHECK_FIELD(bytes, bytes - 8, TUG_PACKET_LENGTH);
    CHECK_FIELD(records, 0, TUG_PACKET_LENGTH);
    CHECK_FIELD(records, 1, TUG_PACKET_LENGTH);
    CHECK_FIELD(records, 3, TUG_PACKET_LENGTH);
    CHECK_FIELD(records, UINT32_MAX, TUG_PACKET_LENGTH);
    CHECK_FIELD(applied, 12345, TUG_PACKET_GOOD);
#undef CHECK_FIELD
}

/* Beside the stream goes nothing but control, without a number, and nothing else is said. */
static void a_packet_that_wires_holds_control_alone(void **state) {
    struct tug_packet packet;
    (void)state;
    for (unsigned before = 0; before < 3; before++)
        for (unsigned kind = 1; kind < TUG_RECORD_KINDS; kind++) {
            if (is_special(kind))
                continue;
            tug_packet_begin(&packet, memory, CAPACITY);
            for (unsigned i = 0; i < before; i++)
                add(&packet, TUG_RECORD_CONTROL, 8 * i);
            add(&packet, kind, 0);
            packet.flags = TUG_PACKET_WIRES;
            tug_packet_end(&packet, 2, 0, 0, CONTEXT);
            assert_int_equal(verdict(packet.used),
                             kind == TUG_RECORD_CONTROL ? TUG_PACKET_GOOD : TUG_PACKET_KIND);
        }
    tug_packet_begin(&packet, memory, CAPACITY);
    add(&packet, TUG_RECORD_CONTROL, 36);
    packet.flags = TUG_PACKET_WIRES;
    tug_packet_end(&packet, 2, 0, 0, CONTEXT);
    header()->number = 1;
    assert_int_equal(verdict(packet.used), TUG_PACKET_FOREIGN);
    header()->number = 0;
    for (unsigned bit = 0; bit < 8; bit++) {
        header()->flags = (uint8_t)(TUG_PACKET_WIRES | 1u << bit);
        assert_int_equal(verdict(packet.used),
                         1u << bit == TUG_PACKET_WIRES ? TUG_PACKET_GOOD : TUG_PACKET_FOREIGN);
    }
}

static void a_packet_cut_anywhere_is_refused(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < TUG_RECORD_KINDS; kind++) {
        struct tug_packet packet;
        if (is_special(kind))
            continue;
        tug_packet_begin(&packet, memory, CAPACITY);
        for (int i = 0; i < 4; i++)
            add(&packet, kind, most_data(kind) > 0 ? 21 : 0);
        tug_packet_end(&packet, 0, is_request(kind), 0, CONTEXT);
        for (uint32_t bytes = 0; bytes < packet.used; bytes++) {
            /* a copy of its own size, so that a look behind it is seen by the address sanitizer */
            unsigned char *cut = malloc(bytes + 1);
            memcpy(cut, memory, bytes);
            struct tug_packet_reader reader;
            assert_int_equal(open_packet(&reader, cut, bytes), TUG_PACKET_SHORT);
            if (bytes >= HEADER) { /* and the header says so */
                memcpy(cut + offsetof(struct tug_packet_header, bytes), &bytes, sizeof(bytes));
                assert_int_equal(open_packet(&reader, cut, bytes), TUG_PACKET_LENGTH);
                assert_int_equal(reader.left, 0);
            }
            free(cut);
        }
        header()->bytes += 8; /* more than the records use up */
        assert_int_equal(verdict(packet.used + 8), TUG_PACKET_LENGTH);
        header()->bytes -= 8;
        assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
        assert_int_equal(verdict(packet.used + 1), TUG_PACKET_LENGTH);
    }
}

/* A packet that is one record of this look, or a good one and then it. */
static enum tug_packet_fault verdict_of_record(unsigned kind, unsigned sub, uint16_t length,
                                               bool numbered, unsigned before) {
    const unsigned words = kind < TUG_RECORD_KINDS ? words_of(kind) : 0;
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, CAPACITY);
    for (unsigned i = 0; i < before; i++)
        add(&packet, TUG_RECORD_VALUE, 0);
    *(struct tug_record_head *)(memory + packet.used) =
        (struct tug_record_head){(uint8_t)kind, (uint8_t)sub, length, 0};
    packet.used += 8 + 8 * words + (length + 7u) / 8 * 8;
    packet.records++;
    tug_packet_end(&packet, 0, numbered, 0, CONTEXT);
    return verdict(packet.used);
}

static void every_kind_and_sub_is_judged(void **state) {
    static const uint16_t lengths[] = {0, 1, 8, 4096, 4097, 65528, 65529, 65535};
    unsigned good = 0;
    (void)state;
    for (unsigned kind = 0; kind < 256; kind++)
        for (unsigned sub = 0; sub < 256; sub++)
            for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
                for (unsigned numbered = 0; numbered < 2; numbered++) {
                    enum tug_packet_fault expected =
                        fault_of_record(kind, sub, lengths[i], numbered != 0);
                    if (expected == TUG_PACKET_GOOD && numbered && !is_request(kind))
                        expected = TUG_PACKET_KIND;
                    const enum tug_packet_fault fault =
                        verdict_of_record(kind, sub, lengths[i], numbered != 0, i % 3);
                    if (fault != expected)
                        fail_msg("kind %u sub %u length %u number %u: %d, expected %d", kind, sub,
                                 lengths[i], numbered, (int)fault, (int)expected);
                    good += fault == TUG_PACKET_GOOD;
                }
    assert_true(good > 1000);
}

static void one_bad_record_among_many_is_found(void **state) {
    (void)state;
    for (unsigned bad = 0; bad < 50; bad++) {
        struct tug_packet packet;
        struct tug_record_head *heads[50];
        tug_packet_begin(&packet, memory, CAPACITY);
        for (unsigned i = 0; i < 50; i++) {
            heads[i] = (struct tug_record_head *)(memory + packet.used);
            add(&packet, i % 7 == 3 ? TUG_RECORD_FETCH : TUG_RECORD_WRITE, i % 7 == 3 ? 0 : 8);
        }
        tug_packet_end(&packet, 0, 1, 0, CONTEXT);
        assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
        const struct tug_record_head kept = *heads[bad];
        *heads[bad] = (struct tug_record_head){0}; /* kind 0 */
        assert_int_equal(verdict(packet.used), TUG_PACKET_KIND);
        *heads[bad] = kept;
        heads[bad]->sub ^= 2;
        assert_int_equal(verdict(packet.used),
                         kept.kind == TUG_RECORD_FETCH ? TUG_PACKET_WIDTH : TUG_PACKET_KIND);
        *heads[bad] = kept;
        heads[bad]->length = kept.kind == TUG_RECORD_FETCH ? 8 : 60000; /* beyond the end */
        assert_int_equal(verdict(packet.used), TUG_PACKET_LENGTH);
    }
}

/* A record may not end beyond the packet even if one of the same look was good before it. */
static void the_last_of_many_alike_must_fit(void **state) {
    struct tug_packet packet;
    (void)state;
    for (unsigned count = 1; count < 6; count++) {
        tug_packet_begin(&packet, memory, CAPACITY);
        for (unsigned i = 0; i < count; i++) {
            add(&packet, TUG_RECORD_WRITE, 8);
            add(&packet, TUG_RECORD_READ, 0);
        }
        tug_packet_end(&packet, 0, 1, 0, CONTEXT);
        for (uint32_t less = 1; less < tug_record_bytes(TUG_RECORD_READ, 0); less++) {
            header()->bytes = packet.used - less;
            assert_int_equal(verdict(packet.used - less), TUG_PACKET_LENGTH);
        }
    }
}

static void padding_is_not_looked_at(void **state) {
    struct tug_packet packet;
    (void)state;
    tug_packet_begin(&packet, memory, CAPACITY);
    uint64_t *words = add(&packet, TUG_RECORD_WRITE, 3);
    memset(words + 2, 0xff, 8);
    tug_packet_end(&packet, 0, 1, 0, CONTEXT);
    assert_int_equal(verdict(packet.used), TUG_PACKET_GOOD);
}

static void who_sent_a_bad_packet_can_be_said(void **state) {
    const uint32_t bytes = make_good();
    struct tug_packet_reader reader;
    (void)state;
    header()->records = 5;
    assert_int_equal(open_packet(&reader, memory, bytes), TUG_PACKET_LENGTH);
    assert_int_equal(reader.header.source, 3);
    assert_int_equal(reader.header.number, 9);
}

static void every_fault_has_its_sentence(void **state) {
    (void)state;
    for (int fault = TUG_PACKET_GOOD; fault <= TUG_PACKET_STATUS; fault++) {
        const char *text = tug_packet_fault_text((enum tug_packet_fault)fault);
        assert_non_null(text);
        assert_true(strlen(text) > 10);
        for (int other = TUG_PACKET_GOOD; other < fault; other++)
            assert_string_not_equal(text, tug_packet_fault_text((enum tug_packet_fault)other));
    }
    assert_non_null(tug_packet_fault_text((enum tug_packet_fault)(TUG_PACKET_STATUS + 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_length_comes_through),
        cmocka_unit_test(records_of_all_kinds_mix),
        cmocka_unit_test(a_run_goes_on_where_it_began),
        cmocka_unit_test(writes_in_a_run_come_through),
        cmocka_unit_test(a_run_fills_its_packet_and_no_more),
        cmocka_unit_test(a_wrong_run_is_refused),
        cmocka_unit_test(messages_in_a_run_come_through),
        cmocka_unit_test(a_run_of_messages_fills_its_packet_and_no_more),
        cmocka_unit_test(a_wrong_run_of_messages_is_refused),
        cmocka_unit_test(a_run_follows_any_record),
        cmocka_unit_test(long_records_come_through),
        cmocka_unit_test(a_wrong_trailer_is_refused),
        cmocka_unit_test(a_packet_without_records_is_good),
        cmocka_unit_test(room_is_counted_to_the_byte),
        cmocka_unit_test(every_field_of_the_header_is_looked_at),
        cmocka_unit_test(a_packet_that_wires_holds_control_alone),
        cmocka_unit_test(a_packet_cut_anywhere_is_refused),
        cmocka_unit_test(every_kind_and_sub_is_judged),
        cmocka_unit_test(one_bad_record_among_many_is_found),
        cmocka_unit_test(the_last_of_many_alike_must_fit),
        cmocka_unit_test(padding_is_not_looked_at),
        cmocka_unit_test(who_sent_a_bad_packet_can_be_said),
        cmocka_unit_test(every_fault_has_its_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Any bytes as a packet: what is found good is read to the last byte and applied to registered
 * memory; nothing outside of the packet and of the registrations may be touched.
 *
 * The packet lies in an allocation of exactly its size, under the address sanitizer. Registrations
 * end at a page that cannot be touched. A second decoder and a second way to apply, slow and in
 * other words, must come to the same verdict and leave the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fuzz/require.h"
#include "tests/fuzz/world.h"
#include "transport/packets/apply.h"
#include "transport/memory.h"
#include "transport/packets/packet.h"
#include "tugboat/llcl.h"

#define PAGE 4096u
#define CANARY 0xc5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t bytes_most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t bytes_most);

/* ---- the world ---- */

static struct tug_memory_table table;
static struct tug_registration registrations[WORLD_REGISTRATIONS];
static unsigned char *pages[WORLD_REGISTRATIONS];        /* two each: the second is closed */
static unsigned char shadows[WORLD_REGISTRATIONS][PAGE]; /* how the first should look */

static unsigned long good, bad[TUG_PACKET_STATUS + 1], seen[TUG_RECORD_KINDS], applied_well,
    refused;

/* The script that runs this looks for the last word. */
static void report(void) {
    int kinds = 0, faults = 0;
    for (int kind = 1; kind < TUG_RECORD_KINDS; kind++)
        kinds += seen[kind] > 0;
    for (int fault = TUG_PACKET_SHORT; fault <= TUG_PACKET_STATUS; fault++)
        faults += bad[fault] > 0;
    const bool enough = good > 1000 && kinds == TUG_RECORD_KINDS - 1 &&
                        faults == TUG_PACKET_STATUS && applied_well > 0 && refused > 0;
    fprintf(stderr,
            "reached: %lu good packets, %d kinds, %d faults, %lu applied, %lu refused: %s\n", good,
            kinds, faults, applied_well, refused, enough ? "enough" : "too little");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    memset(shadows, CANARY, sizeof(shadows));
    REQUIRE(tug_memory_table_init(&table) == 0);
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        pages[i] = mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
        REQUIRE(pages[i] != MAP_FAILED);
        REQUIRE(mprotect(pages[i] + PAGE, PAGE, PROT_NONE) == 0);
        memset(pages[i], CANARY, PAGE);
        registrations[i].bytes = world_bytes[i];
        registrations[i].base = pages[i] + PAGE - world_bytes[i];
        REQUIRE(tug_memory_add(&table, &registrations[i]) == 0);
        REQUIRE(registrations[i].id == world_id(i));
    }
    tug_memory_remove(&table, &registrations[WORLD_REGISTRATIONS - 1]);
    atexit(report);
    return 0;
}

static void look_at_the_world(void) {
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++)
        REQUIRE(memcmp(pages[i], shadows[i], PAGE) == 0);
}

/* ---- the second decoder ---- */

static uint64_t number_at(const unsigned char *at, unsigned bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* The bytes of the record there, or 0 if it is none. */
static size_t slow_record(const unsigned char *at, size_t left, bool numbered) {
    static const struct {
        unsigned words, most;
        const char *sub;
    } rules[TUG_RECORD_KINDS] = {
        {0, 0, ""}, /* by kind */
        {2, 65528, "flag"}, {4, 0, "zero"},   {3, 0, "fetch"},      {4, 0, "width"},
        {0, 4096, "any"},   {0, 4096, "any"}, {2, 65535, ""},       {1, 65535, ""},
        {3, 0, "flag"},     {3, 0, "signal"}, {0, 4096, "any"},     {3, 65528, "any"},
        {4, 0, "any"},      {0, 256, "any"},  {1, 65528, "status"}, {2, 0, "zero"},
        {1, 0, "status"},   {0, 0, "status"}, {0, 0, "status"},
    };
    if (left < 8 || at[0] == 0 || at[0] > 19 || (at[0] < 15 && !numbered) ||
        (at[0] == 16 && numbered))
        return 0;
    if (at[0] == 7 || at[0] == 8) { /* runs */
        const size_t each = at[0] == 7 ? 4u + at[1] : at[1];
        const size_t all =
            8 + 8 * (size_t)rules[at[0]].words + (number_at(at + 2, 2) * each + 7) / 8 * 8;
        return at[1] == 0 || (at[0] == 8 && at[1] % 8 != 0) || all > left ? 0 : all;
    }
    const unsigned sub = at[1], length = (unsigned)number_at(at + 2, 2), width = sub % 16;
    const char *rule = rules[at[0]].sub;
    if ((strcmp(rule, "zero") == 0 && sub != 0) || (strcmp(rule, "flag") == 0 && sub > 1) ||
        (strcmp(rule, "signal") == 0 && sub > 2) || (strcmp(rule, "status") == 0 && sub > 14) ||
        (strcmp(rule, "width") == 0 && sub != 4 && sub != 8) ||
        (strcmp(rule, "fetch") == 0 && (sub >= 0x50 || (width != 4 && width != 8))))
        return 0;
    const size_t all = 8 + 8 * (size_t)rules[at[0]].words + (length + 7) / 8 * 8;
    return length > rules[at[0]].most || all > left ? 0 : all;
}

static bool slow_verdict(const unsigned char *packet, size_t bytes) {
    if (bytes < 40)
        return false;
    const bool numbered = number_at(packet + 16, 4) != 0, wires = packet[3] == 8;
    if (number_at(packet, 2) != 0x5447 || packet[2] != 12 ||
        (numbered ? packet[3] != 1 && packet[3] != 3
                  : packet[3] != 0 && packet[3] != 4 && !wires) ||
        number_at(packet + 4, 4) != bytes || number_at(packet + 8, 4) >= WORLD_RANKS ||
        number_at(packet + 24, 8) != WORLD_CONTEXT)
        return false;
    size_t at = 40;
    bool asked = false;
    uint64_t follows = 0;
    for (uint64_t records = number_at(packet + 12, 4); records > 0; records--) {
        const size_t step = slow_record(packet + at, bytes - at, numbered || wires);
        if (step == 0 || (wires && packet[at] != 14))
            return false;
        asked |= packet[at] < 15 && !wires;
        if (packet[at] == 9 || packet[at] == 13 || packet[at] == 16) {
            /* LONG_WRITE, LONG_PART, LONG_DATA: nothing after it */
            follows = number_at(packet + at + step - 8, 8);
            if (records > 1 || follows == 0 || follows % 8 != 0 || follows > 16777216)
                return false;
        }
        at += step;
    }
    return at == bytes && asked == numbered && follows == number_at(packet + 36, 4);
}

/* ---- the second way to apply ---- */

static uint64_t operate(unsigned op, uint64_t old, uint64_t operand) {
    const uint64_t results[] = {old + operand, old & operand, old | operand, old ^ operand,
                                operand};
    return results[op];
}

/* Does to the shadow what the record asks for. Sets the status, the old value of an atomic and, if
 * the memory is there, the offset in the page. */
static int slow_apply(const struct tug_record *record, uint32_t *index, size_t *place,
                      uint64_t *bytes, uint64_t *old) {
    const uint64_t offset = record->words[1];
    const unsigned width = record->kind == TUG_RECORD_SIGNAL ? 8 : record->sub % 16;
    *bytes = record->kind == TUG_RECORD_WRITE     ? record->length
             : record->kind == TUG_RECORD_READ    ? record->words[3]
             : record->kind == TUG_RECORD_FETCH   ? width
             : record->kind == TUG_RECORD_COMPARE ? width
             : record->kind == TUG_RECORD_SIGNAL  ? width
                                                  : record->words[2];
    for (*index = 0; *index < WORLD_REGISTRATIONS - 1; ++*index)
        if (record->words[0] == world_id(*index))
            break;
    if (*index == WORLD_REGISTRATIONS - 1)
        return TUG_ERR_KEY;
    if (offset > PAGE || *bytes > PAGE || offset + *bytes > world_bytes[*index])
        return TUG_ERR_RANGE;
    *place = PAGE - world_bytes[*index] + offset;
    unsigned char *at = shadows[*index] + *place;
    if (record->kind == TUG_RECORD_WRITE)
        memcpy(at, record->data, record->length);
    if (record->kind != TUG_RECORD_FETCH && record->kind != TUG_RECORD_COMPARE &&
        record->kind != TUG_RECORD_SIGNAL)
        return 0;
    if (*place % width != 0)
        return TUG_ERR_INVALID;
    const uint64_t was = number_at(at, width);
    uint64_t value = record->words[2];
    if (record->kind != TUG_RECORD_SIGNAL)
        *old = was;
    if (record->kind == TUG_RECORD_SIGNAL)
        value += was;
    else if (record->kind == TUG_RECORD_FETCH)
        value = operate(record->sub / 16, *old, value);
    else if (*old != (width == 4 ? (uint32_t)record->words[3] : record->words[3]))
        return 0;
    memcpy(at, &value, width);
    return 0;
}

static uint64_t sum;

static void touch(const unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 31 + at[i];
}

/* One write after the other, each as if it had come alone. */
static void apply_run(const struct tug_record *record) {
    const unsigned char *next = record->data;
    int status = 0;
    for (unsigned i = 0; i < record->length; i++, next += 4 + record->sub) {
        const uint64_t distance = number_at(next, 4);
        const uint64_t words[] = {record->words[0], record->words[1] + distance -
                                                        (distance >> 31 ? UINT64_C(1) << 32 : 0)};
        const struct tug_record one = {
            .kind = TUG_RECORD_WRITE, .length = record->sub, .words = words, .data = next + 4};
        uint64_t bytes = 0, old = 0;
        uint32_t index = 0;
        size_t place = 0;
        const int its = slow_apply(&one, &index, &place, &bytes, &old);
        status = its != 0 ? its : status;
    }
    const int found = tug_apply_run(&table, record);
    look_at_the_world();
    REQUIRE(found == status || (record->length == 0 && found != 0));
    applied_well += status == 0;
    refused += status != 0;
}

static void apply(const struct tug_record *record) {
    uint64_t bytes = 0, old = 0;
    uint32_t index = 0;
    size_t place = 0;
    if (record->kind >= TUG_RECORD_DATA || record->kind == TUG_RECORD_AM ||
        record->kind == TUG_RECORD_AM_RUN || record->kind == TUG_RECORD_CALL ||
        record->kind == TUG_RECORD_SIGNAL_AM || record->kind == TUG_RECORD_CONTROL)
        return;
    if (record->kind == TUG_RECORD_RUN) {
        apply_run(record);
        return;
    }
    const int status = slow_apply(record, &index, &place, &bytes, &old);
    const struct tug_applied applied = tug_apply(&table, record);
    look_at_the_world();
    REQUIRE(applied.status == status);
    if (status != 0) {
        refused++;
        return;
    }
    applied_well++;
    REQUIRE(applied.registration == &registrations[index]);
    REQUIRE(applied.bytes == bytes && applied.value == old);
    REQUIRE(applied.data == pages[index] + place);
    touch(applied.data, applied.bytes);
}

static void read_records(struct tug_packet_reader *reader, const unsigned char *packet,
                         size_t bytes) {
    const unsigned char *next = packet + sizeof(struct tug_packet_header);
    struct tug_record record;
    uint32_t records = 0;
    size_t step;
    while (tug_packet_next(reader, &record)) {
        records++;
        seen[next[0]]++;
        REQUIRE((const unsigned char *)record.words == next + 8);
        REQUIRE(record.kind == next[0] && record.sub == next[1]);
        touch((const unsigned char *)record.words, (size_t)tug_record_words[record.kind] * 8);
        step = record.length;
        if (record.kind == TUG_RECORD_RUN)
            step *= 4 + (size_t)record.sub;
        if (record.kind == TUG_RECORD_AM_RUN)
            step *= record.sub;
        touch(record.data, step);
        apply(&record);
        next = record.data + (step + 7) / 8 * 8;
    }
    REQUIRE(next == packet + bytes);
    REQUIRE(reader->next == reader->end && reader->end == next);
    REQUIRE(records == reader->header.records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    unsigned char *packet = malloc(bytes);
    struct tug_packet_reader reader;
    struct tug_record record;
    REQUIRE(packet != NULL || bytes == 0);
    if (bytes > 0)
        memcpy(packet, data, bytes);
    const enum tug_packet_fault fault =
        tug_packet_open(&reader, packet, bytes, WORLD_CONTEXT, WORLD_RANKS);
    REQUIRE((fault == TUG_PACKET_GOOD) == slow_verdict(packet, bytes));
    if (fault == TUG_PACKET_GOOD) {
        good++;
        read_records(&reader, packet, bytes);
    } else {
        REQUIRE(fault > TUG_PACKET_GOOD && fault <= TUG_PACKET_STATUS);
        bad[fault]++;
        REQUIRE(!tug_packet_next(&reader, &record));
    }
    if (bytes > 0)
        REQUIRE(memcmp(packet, data, bytes) == 0);
    free(packet);
    return 0;
}

/* ---- mutation ---- */

/* Makes a header that fits what is behind it, up to the first thing that is no record at all:
 * otherwise nearly everything would end at the first check. */
static size_t mend(uint8_t *data, size_t bytes) {
    struct tug_packet_header header;
    size_t end = sizeof(header);
    bool asks = false, controls = true;
    if (bytes < sizeof(header))
        return bytes;
    memcpy(&header, data, sizeof(header));
    header.magic = TUG_PACKET_MAGIC;
    header.version = TUG_PACKET_VERSION;
    header.source %= WORLD_RANKS;
    header.context = WORLD_CONTEXT;
    header.trailer = 0;
    header.records = 0;
    while (bytes - end >= sizeof(struct tug_record_head)) {
        struct tug_record_head head;
        memcpy(&head, data + end, sizeof(head));
        if (head.kind == 0 || head.kind >= TUG_RECORD_KINDS)
            break;
        size_t step = tug_record_bytes(head.kind, head.length);
        if (head.kind == TUG_RECORD_RUN)
            step = tug_run_bytes(head.length, head.sub);
        if (head.kind == TUG_RECORD_AM_RUN)
            step = tug_am_run_bytes(head.length, head.sub & ~7u);
        if (step > bytes - end)
            break;
        end += step;
        header.records++;
        if (head.kind == TUG_RECORD_LONG_WRITE || head.kind == TUG_RECORD_LONG_PART ||
            head.kind == TUG_RECORD_LONG_DATA) {
            uint64_t follows;
            memcpy(&follows, data + end - sizeof(follows), sizeof(follows));
            follows = header.trailer = (uint32_t)follows % TUG_TRAILER_MOST & ~7u;
            memcpy(data + end - sizeof(follows), &follows, sizeof(follows));
        }
        asks |= head.kind < TUG_RECORD_DATA;
        controls &= head.kind == TUG_RECORD_CONTROL;
    }
    header.bytes = (uint32_t)end;
    if (header.flags == TUG_PACKET_WIRES && controls) {
        header.number = 0;
        memcpy(data, &header, sizeof(header));
        return end;
    }
    header.number = asks ? header.number | 1 : 0;
    header.flags &= asks ? TUG_PACKET_LATE : TUG_PACKET_ASKS;
    header.flags |= asks ? TUG_PACKET_REQUESTS : 0;
    memcpy(data, &header, sizeof(header));
    return end;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t bytes_most, unsigned seed) {
    bytes = LLVMFuzzerMutate(data, bytes, bytes_most);
    return seed % 4 == 0 ? bytes : mend(data, bytes);
}

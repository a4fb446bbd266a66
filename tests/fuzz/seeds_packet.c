/* Writes the seeds of the fuzz target: good packets by the library's own builder, one for each kind
 * of record and some that mix them. Usage: fuzz_seeds_packet FOLDER */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/world.h"
#include "transport/packets/packet.h"
#include "tugboat/llcl.h"

#define CAPACITY 4096

static unsigned char memory[CAPACITY] __attribute__((aligned(8)));
static unsigned seed = 1;

static unsigned draw(unsigned below) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

static unsigned sub_of(unsigned kind) {
    switch (kind) {
    case TUG_RECORD_FETCH:
        return draw(TUG_SWAP + 1) << 4 | (draw(2) ? 8 : 4);
    case TUG_RECORD_COMPARE:
        return draw(2) ? 8 : 4;
    case TUG_RECORD_WRITE:
    case TUG_RECORD_SIGNAL:
        return draw(2);
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
    case TUG_RECORD_SIGNAL_AM:
    case TUG_RECORD_PART:
        return draw(256);
    case TUG_RECORD_CONTROL:
        return draw(3);
    case TUG_RECORD_DATA:
    case TUG_RECORD_VALUE:
    case TUG_RECORD_FAILED:
    case TUG_RECORD_REFUSED:
        return draw(2) ? draw(-TUG_ERR_DEVICE + 1) : 0;
    default:
        return 0;
    }
}

static size_t length_of(unsigned kind) {
    switch (kind) {
    case TUG_RECORD_WRITE:
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
    case TUG_RECORD_SIGNAL_AM:
    case TUG_RECORD_PART:
    case TUG_RECORD_CONTROL:
    case TUG_RECORD_DATA:
        return draw(3) == 0 ? 8 : draw(40);
    default:
        return 0;
    }
}

static void add(struct tug_packet *packet, unsigned kind) {
    static const unsigned char data[64] = "The quick brown fox jumps over the lazy dog.";
    const size_t length = length_of(kind);
    if (packet->trailer > 0) /* it is full */
        return;
    if (kind == TUG_RECORD_RUN) {
        const size_t each = 1 + draw(20);
        if (tug_packet_begin_run(packet, draw(64), world_id(draw(WORLD_REGISTRATIONS)), draw(64),
                                 each))
            for (unsigned i = draw(6); i > 0; i--) {
                unsigned char one[sizeof(uint32_t) + sizeof(data)];
                const uint32_t distance = 8 * draw(3) - 8;
                memcpy(one, &distance, sizeof(distance));
                memcpy(one + sizeof(distance), data, each);
                (void)tug_packet_run_on(packet, one, 1, each);
            }
        return;
    }
    if (kind == TUG_RECORD_AM_RUN) {
        const size_t each = 8 * (1 + draw(5));
        if (tug_packet_begin_am_run(packet, draw(64), draw(256), each))
            for (unsigned i = draw(6); i > 0 && tug_packet_room(packet) >= each; i--)
                tug_packet_am_run_on(packet, data, each);
        return;
    }
    if (!tug_packet_has_room(packet, kind, length))
        return;
    const uint32_t registration = draw(WORLD_REGISTRATIONS);
    if (kind == TUG_RECORD_LONG_WRITE) {
        uint64_t *words = tug_packet_add(packet, kind, 0, draw(64), 0);
        words[0] = world_id(registration);
        words[1] = draw(64);
        tug_packet_trail(packet, 8 * (1 + draw(9)));
        return;
    }
    if (kind == TUG_RECORD_LONG_PART) {
        uint64_t *words = tug_packet_add(packet, kind, draw(256), draw(64), 0);
        words[0] = words[1] = words[2] = draw(64);
        tug_packet_trail(packet, 8 * (1 + draw(9)));
        return;
    }
    if (kind == TUG_RECORD_LONG_DATA) {
        *tug_packet_add(packet, kind, 0, draw(64), 0) = draw(64);
        tug_packet_trail(packet, 8 * (1 + draw(9)));
        return;
    }
    uint64_t *words = tug_packet_add(packet, kind, sub_of(kind), draw(64), length);
    uint64_t values[TUG_RECORD_WORDS_MOST] = {
        world_id(registration), draw(world_bytes[registration]) & ~7u, draw(64), draw(128)};
    if (!(kind >= TUG_RECORD_WRITE && kind <= TUG_RECORD_CONTROL))
        values[0] = draw(64);
    if (kind == TUG_RECORD_COMPARE && draw(2))
        values[3] = UINT64_C(0xc5c5c5c5c5c5c5c5); /* what the memory holds at first */
    memcpy(words, values, (size_t)tug_record_words[kind] * 8);
    tug_packet_data(words + tug_record_words[kind], data, length);
}

static int end(struct tug_packet *packet, bool numbered, const char *folder, const char *name,
               unsigned which) {
    char path[4096];
    if (which % 2 == 1 && packet->flags == 0)
        packet->flags = numbered ? TUG_PACKET_LATE : TUG_PACKET_ASKS;
    tug_packet_end(packet, draw(WORLD_RANKS), numbered ? 1 + draw(9) : 0, draw(9), WORLD_CONTEXT);
    snprintf(path, sizeof(path), "%s/%s-%u", folder, name, which);
    FILE *file = fopen(path, "wb");
    const bool good = file != NULL && fwrite(memory, packet->used, 1, file) == 1;
    if (file == NULL || fclose(file) != 0 || !good) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct tug_packet packet;
    int failed = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (unsigned kind = 1; kind < TUG_RECORD_KINDS; kind++) {
        tug_packet_begin(&packet, memory, CAPACITY);
        for (unsigned i = 0; i < 3; i++)
            add(&packet, kind);
        failed |= end(&packet, kind < TUG_RECORD_DATA, argv[1], "kind", kind);
    }
    for (unsigned which = 0; which < 20; which++) {
        tug_packet_begin(&packet, memory, CAPACITY);
        for (unsigned i = 0; i < 2 + which * 2; i++) {
            const unsigned kind = 1 + draw(TUG_RECORD_KINDS - 1);
            add(&packet, kind != TUG_RECORD_LONG_DATA ? kind : TUG_RECORD_DATA);
        }
        failed |= end(&packet, true, argv[1], "mixed", which);
    }
    tug_packet_begin(&packet, memory, CAPACITY);
    packet.flags = TUG_PACKET_WIRES;
    for (unsigned i = 0; i < 2; i++)
        add(&packet, TUG_RECORD_CONTROL);
    failed |= end(&packet, false, argv[1], "wires", 0);
    tug_packet_begin(&packet, memory, CAPACITY);
    return failed | end(&packet, false, argv[1], "empty", 0);
}

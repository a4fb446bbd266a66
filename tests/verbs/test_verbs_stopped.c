/* Peers that do not look do not stop the packets to others. One process of 65, all in this one, is
 * connected to all others. It sends to some of them, which are not polled, until nothing more is
 * taken; then the last one, which looks, gets its packets as fast as beside one. And where all send
 * to one that does not look, there is room for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"

enum { PEERS = FAKE_PROCESSES - 1, LAST = PEERS, BYTES = 4096, PACKETS = 200, TRIES = 200 };

static unsigned came[FAKE_PROCESSES];

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    unsigned *mine = receiver;
    uint32_t number;
    (void)wire;
    memcpy(&number, (const unsigned char *)memory + sizeof(struct tug_packet_header),
           sizeof number);
    assert_int_equal(bytes, BYTES);
    assert_int_equal(number, *mine);
    ++*mine;
    return true;
}

static void settled(void *receiver, uint32_t peer, bool by_wire) {
    (void)receiver, (void)peer;
    assert_true(by_wire);
}

static bool send_from(uint32_t rank, uint32_t peer, uint32_t number) {
    struct tug_wire *wire = &fakes[rank].view->wire;
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    assert_non_null(buffer);
    const struct tug_packet_header header = {
        .source = rank, .bytes = BYTES, .context = fakes[rank].fabric.id};
    memset(buffer->packet.memory, 0, BYTES);
    memcpy(buffer->packet.memory, &header, sizeof header);
    memcpy(buffer->packet.memory + sizeof header, &number, sizeof number);
    buffer->packet.used = BYTES;
    const bool sent = tug_verbs_send(wire, peer, buffer);
    if (!sent)
        tug_pool_give(&wire->pool, buffer);
    return sent;
}

static bool send_one(uint32_t peer, uint32_t number) {
    return send_from(0, peer, number);
}

static void look(struct fake *fake) {
    fake_acting = fake;
    (void)tug_transport_verbs.poll(fake->view);
    fake_acting = NULL;
}

/* Until it takes no more for long. Returns how many. */
static unsigned send_until_full(uint32_t peer) {
    unsigned sent = 0;
    for (unsigned refused = 0; refused < TRIES;)
        if (send_one(peer, sent)) {
            sent++;
            refused = 0;
        } else {
            refused++;
            fake_flush(&fakes[0]);
            look(&fakes[0]);
        }
    return sent;
}

/* Steps that so many packets take. */
static unsigned send_to_last(void) {
    unsigned sent = 0, steps = 0;
    while (came[LAST] < PACKETS) {
        while (sent < PACKETS && send_one(LAST, sent))
            sent++;
        fake_flush(&fakes[0]);
        look(&fakes[0]);
        look(&fakes[LAST]);
        assert_true(++steps < 100 * PACKETS);
    }
    return steps;
}

static void begin(void) {
    memset(came, 0, sizeof came);
    fake_carries = true;
    for (unsigned i = 0; i < FAKE_PROCESSES; i++) {
        struct tug_wire *wire = &fake_add(0, i)->view->wire;
        wire->receiver = &came[i];
        wire->receive = receive;
        wire->settled = settled;
    }
    for (uint32_t peer = 1; peer <= PEERS; peer++)
        while (!tug_verbs_meet(&fakes[0].view->wire, peer))
            fake_round();
    while (fake_round())
        ;
}

/* The steps with that many peers that do not look, which all get what was sent in the end. */
static unsigned steps_beside(unsigned stopped) {
    unsigned sent[FAKE_PROCESSES];
    begin();
    for (uint32_t peer = 1; peer <= stopped; peer++)
        sent[peer] = send_until_full(peer);
    const unsigned steps = send_to_last();
    const uint32_t held = fakes[0].verbs->base.under_way;
    printf("%u peers do not look: %u packets in %u slots, and %u to another in %u steps\n", stopped,
           stopped > 0 ? sent[1] : 0, held, (unsigned)PACKETS, steps);
    assert_true(held <= TUG_VERBS_SENDS_EACH * stopped);
    assert_true(fake_finish(60));
    for (uint32_t peer = 1; peer <= stopped; peer++)
        assert_int_equal(came[peer], sent[peer]);
    assert_int_equal(fakes[0].verbs->base.under_way, 0);
    fake_close();
    return steps;
}

static void packets_to_others_go_on(void **state) {
    (void)state;
    const unsigned most = 2 * steps_beside(0) + 1; /* half the slots, as beside one */
    for (unsigned stopped = 1; stopped < PEERS; stopped += stopped < 8 ? 1 : 11)
        assert_true(steps_beside(stopped) <= most);
    assert_true(steps_beside(PEERS - 1) <= most);
}

/* All send to one that does not look, and none has to wait in its card. */
static void many_senders_find_room(void **state) {
    enum { EACH = TUG_VERBS_RECEIVES_MOST / PEERS };
    (void)state;
    begin();
    for (uint32_t rank = 1; rank <= PEERS; rank++)
        while (!tug_verbs_meet(&fakes[rank].view->wire, 0))
            fake_round();
    while (fake_round())
        ;
    for (uint32_t rank = 1; rank <= PEERS; rank++) {
        for (uint32_t i = 0; i < EACH; i++)
            assert_true(send_from(rank, 0, (rank - 1) * EACH + i));
        fake_flush(&fakes[rank]);
        look(&fakes[rank]);
        assert_int_equal(fakes[rank].verbs->base.under_way, 0);
    }
    assert_int_equal(came[0], 0);
    assert_true(fake_finish(60));
    while (fake_round())
        ;
    assert_int_equal(came[0], PEERS * EACH);
    fake_close();
}

int main(void) {
    setenv("TUGBOAT_VERBOSE", "warn", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(packets_to_others_go_on),
                                       cmocka_unit_test(many_senders_find_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

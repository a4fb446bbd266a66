/* Packets as messages: each comes once, in order, whatever happens to the queue pairs. */
#include "broken.h"
#include "fixture.h"

/* What a fake's packets' side has been told and handed. */
static struct side {
    uint32_t sent, came;
    unsigned leads, leads_not, ended;
} sides[2];

static uint32_t bytes_of(uint32_t number) {
    const uint32_t least = sizeof(struct tug_packet_header) + 8;
    return number % 7 == 0 ? least : least + number * 1237 % (TUG_VERBS_PACKET_BYTES - least + 1);
}

static unsigned refusals; /* so many packets are not taken */

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct side *side = receiver;
    struct tug_packet_header header;
    uint32_t number;
    memcpy(&header, memory, sizeof header);
    memcpy(&number, (const unsigned char *)memory + sizeof header, sizeof number);
    assert_ptr_equal(wire->receiver, receiver);
    assert_int_equal(header.source, side == &sides[0]);
    if (refusals > 0) {
        refusals--;
        return false;
    }
    assert_int_equal(number, ++side->came);
    assert_int_equal(bytes, bytes_of(number));
    const size_t head = sizeof header + sizeof number;
    assert_filled((const unsigned char *)memory + head, bytes - head, number);
    return true;
}

static void settled(void *receiver, uint32_t peer, bool by_wire) {
    struct side *side = receiver;
    assert_int_equal(peer, side == &sides[0]);
    side->leads += by_wire;
    side->leads_not += !by_wire;
}

static void ended(void *receiver, uint32_t peer) {
    struct side *side = receiver;
    assert_int_equal(peer, side == &sides[0]);
    side->ended++;
}

static void open_with_messages(void) {
    tear_down(NULL);
    fake_carries = true;
    set_up(NULL);
    fake_carries = false;
    for (int i = 0; i < 2; i++) {
        struct tug_wire *wire = &fakes[i].view->wire;
        assert_non_null(fakes[i].verbs->messages);
        sides[i] = (struct side){0};
        wire->receiver = &sides[i];
        wire->receive = receive;
        wire->settled = settled;
        wire->ended = ended;
    }
}

/* False: there is no room. */
static bool send_next(struct fake *fake) {
    struct side *side = &sides[fake - fakes];
    struct tug_wire *wire = &fake->view->wire;
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    assert_non_null(buffer);
    unsigned char *memory = buffer->packet.memory;
    const uint32_t number = side->sent + 1, bytes = bytes_of(number);
    const struct tug_packet_header header = {
        .source = fake->fabric.rank, .bytes = bytes, .context = fake->fabric.id};
    const size_t head = sizeof header + sizeof number;
    memcpy(memory, &header, sizeof header);
    memcpy(memory + sizeof header, &number, sizeof number);
    fill(memory + head, bytes - head, number);
    buffer->packet.used = bytes;
    const bool sent = tug_verbs_send(wire, 1 - fake->fabric.rank, buffer);
    if (!sent)
        tug_pool_give(&wire->pool, buffer);
    assert_int_equal(wire->pool.nout, 0);
    side->sent += sent;
    return sent;
}

static void send_messages(struct fake *fake, unsigned n) {
    while (n > 0)
        if (send_next(fake))
            n--;
        else
            fake_round();
}

static void meet(void) {
    for (uint32_t i = 0; i < 2; i++)
        while (!tug_verbs_meet(&fakes[i].view->wire, 1 - i))
            fake_round();
}

/* What was sent has come, and nothing is left over. */
static void assert_all_came(void) {
    assert_true(fake_finish(60));
    for (int i = 0; i < 10; i++)
        fake_round();
    for (int i = 0; i < 2; i++) {
        const struct tug_verbs *verbs = fakes[i].verbs;
        drain_servers(&fakes[i]);
        assert_int_equal(sides[i].came, sides[1 - i].sent);
        assert_int_equal(verbs->base.under_way, 0);
        assert_int_equal(verbs->messages->ntaken, 0);
        assert_int_equal(verbs->cq_room, verbs->cq_size);
    }
}

void message_order(void **state) {
    (void)state;
    open_with_messages();
    for (unsigned i = 0; i < 300; i++) {
        send_messages(ORIGIN, i % 5);
        send_messages(TARGET, i % 3);
        if (i % 4 == 0)
            fake_round();
    }
    assert_all_came();
}

void message_meets(void **state) {
    (void)state;
    open_with_messages();
    assert_false(tug_verbs_meet(&ORIGIN->view->wire, 1));
    assert_false(send_next(ORIGIN));
    assert_int_equal(sides[0].leads, 0);
    for (int i = 0; i < 4; i++)
        fake_round();
    assert_int_equal(sides[0].leads, 1);
    assert_int_equal(tug_verbs_meet(&ORIGIN->view->wire, 1), 1);
    assert_true(send_next(ORIGIN));
    assert_int_equal(tug_verbs_meet(&ORIGIN->view->wire, 0), 1); /* itself */
    assert_all_came();
}

/* The peer does not look: what it has no room for waits, and then comes. */
void message_without_room(void **state) {
    (void)state;
    open_with_messages();
    meet();
    unsigned refused = 0;
    while (refused < 1000)
        if (send_next(ORIGIN))
            refused = 0;
        else
            refused++, fake_flush(ORIGIN), tug_transport_verbs.poll(ORIGIN->view);
    assert_int_equal(sides[1].came, 0);
    assert_in_range(sides[0].sent, TUG_VERBS_RECEIVES, TUG_VERBS_RECEIVES + TUG_VERBS_SENDS_EACH);
    send_messages(TARGET, 20); /* the other way is not in the way */
    fake_flush(TARGET);
    tug_transport_verbs.poll(ORIGIN->view);
    assert_int_equal(sides[0].came, 20);
    assert_all_came();
}

/* For want of memory: it is handed up again, ahead of what has come behind it. */
void message_not_taken(void **state) {
    (void)state;
    open_with_messages();
    meet();
    refusals = UINT32_MAX;
    for (unsigned i = 0; i < 10; i++)
        assert_true(send_next(ORIGIN));
    for (int i = 0; i < 10; i++)
        fake_round();
    assert_int_equal(sides[1].came, 0);
    assert_int_equal(TARGET->verbs->messages->nheld, 10);
    assert_false(tug_transport_verbs.arm(TARGET->view));
    refusals = 3;
    assert_all_came();
    assert_int_equal(refusals, 0);
}

/* A bad key, a queue pair in error at either end. */
void message_errors(void **state) {
    (void)state;
    open_with_messages();
    meet();
    struct tug_registration nobody = *theirs;
    nobody.rkeys[0] ^= 0x5a5a00;
    for (unsigned round = 0; round < 30; round++) {
        struct fake_end end;
        send_messages(ORIGIN, round % 7);
        if (round % 3 == 0) {
            post(TUG_OPERATION_WRITE, &nobody, 0, 0, 8, &end);
        } else if (ORIGIN->verbs->pairs[0]->phase == TUG_PAIR_UP) {
            if (round % 3 == 1)
                fake_flush(ORIGIN);
            break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
        }
        send_messages(ORIGIN, 4);
        send_messages(TARGET, 3);
        assert_all_came();
        if (round % 3 == 0)
            assert_done(&end, TUG_ERR_KEY);
    }
    lose_server();
    send_messages(ORIGIN, 5);
    assert_all_came();
    assert_int_equal(sides[0].ended + sides[1].ended, 0);
}

/* What the old server has received is taken before it goes. */
void message_drained(void **state) {
    (void)state;
    open_with_messages();
    meet();
    fake_hold = true;
    for (unsigned i = 0; i < 5; i++)
        assert_true(send_next(ORIGIN));
    fake_flush(ORIGIN);
    tug_transport_verbs.poll(ORIGIN->view);
    break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
    assert_true(send_next(ORIGIN));
    fake_flush(ORIGIN);
    tug_transport_verbs.poll(ORIGIN->view);
    assert_int_equal(fake_queued, 1); /* the question */
    assert_int_equal(sides[1].came, 0);
    fake_hold = false;
    assert_all_came();
}

/* One that has come, of which its sender did not learn, is not handed up again. */
void message_twice(void **state) {
    (void)state;
    open_with_messages();
    meet();
    send_messages(ORIGIN, 5);
    assert_all_came();
    sides[0].sent -= 2;
    ORIGIN->verbs->pairs[0]->numbered -= 2;
    send_messages(ORIGIN, 4);
    assert_all_came();
    assert_int_equal(sides[1].came, 7);
    ORIGIN->verbs->pairs[0]->numbered++; /* one is missing */
    assert_true(send_next(ORIGIN));
    assert_true(fake_finish(10));
    fake_round();
    assert_int_equal(sides[1].came, 7);
    assert_int_equal(sides[1].ended, 1);
}

void message_refused(void **state) {
    (void)state;
    open_with_messages();
    fake_mute = true;
    assert_false(tug_verbs_meet(&ORIGIN->view->wire, 1));
    fake_mute = false;
    assert_false(send_next(ORIGIN));
    assert_false(tug_transport_verbs.arm(ORIGIN->view));
    fake_round();
    assert_int_equal(sides[0].leads_not, 1);
    assert_int_equal(sides[0].leads, 0);
    assert_true(tug_transport_verbs.arm(ORIGIN->view));
}

/* The peer is lost while something is on its way. */
void message_ended(void **state) {
    (void)state;
    open_with_messages();
    meet();
    assert_int_equal(sides[0].ended, 0);
    break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
    tug_transport_verbs.lost(&ORIGIN->view->wire, 1);
    assert_true(send_next(ORIGIN));
    assert_true(fake_finish(10));
    fake_round();
    assert_int_equal(sides[0].ended, 1);
    assert_int_equal(ORIGIN->verbs->base.under_way, 0);
    assert_true(send_next(ORIGIN)); /* to nobody: that is said again */
    fake_round();
    assert_int_equal(sides[0].ended, 2);
    assert_int_equal(ORIGIN->verbs->base.under_way, 0);
}

/* Of messages that have been given up the peer does not miss the numbers: another context, by which
 * it can be asked, goes on. */
void message_given_up(void **state) {
    (void)state;
    open_with_messages();
    meet();
    send_messages(ORIGIN, 3);
    assert_all_came();
    const uint32_t sent = sides[0].sent;
    fake_mute = true;
    for (unsigned i = 0; i < 4; i++)
        assert_true(send_next(ORIGIN));
    break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
    assert_true(fake_finish(10));
    fake_round();
    assert_int_equal(sides[0].ended, 1);
    fake_mute = false;
    ORIGIN->verbs->pairs[0]->closed_ns = 0;
    sides[0].sent = sent;
    send_messages(ORIGIN, 3);
    assert_all_came();
    assert_int_equal(sides[1].ended, 0);
}

/* Who sleeps, with nothing of its own under way, is woken. */
void message_wakes(void **state) {
    (void)state;
    open_with_messages();
    meet();
    for (unsigned i = 0; i < 20; i++) {
        while (fake_round())
            ;
        const uint32_t key = tug_bell_prepare(&TARGET->bell);
        assert_true(tug_transport_verbs.arm(TARGET->view));
        assert_false(tug_transport_verbs.poll(TARGET->view));
        assert_true(send_next(ORIGIN));
        fake_flush(ORIGIN);
        const uint64_t before = tug_clock_ns();
        tug_bell_wait(&TARGET->bell, key, 20000000000, false);
        assert_true(tug_clock_ns() - before < 15000000000u);
    }
    assert_all_came();
}

/* One doorbell a batch, of operations and messages; its end alone is reported. */
void message_counted(void **state) {
    (void)state;
    open_with_messages();
    meet();
    assert_all_came();
    const struct tug_verbs *verbs = ORIGIN->verbs;
    const uint64_t chains = verbs->chains, posted = verbs->posted;
    write_apart(28, 0);
    for (unsigned i = 0; i < 12; i++)
        assert_true(send_next(ORIGIN));
    fake_flush(ORIGIN);
    assert_int_equal(verbs->chains, chains + 1);
    assert_int_equal(verbs->posted, posted + 40);
    unsigned signalled = 0;
    for (unsigned i = 0; i < 40; i++)
        signalled += (verbs->chain[i].send_flags & IBV_SEND_SIGNALED) != 0;
    assert_int_equal(signalled, 1);
    assert_all_came();
}

/* Does the row take an operation of so many bytes? */
static bool takes(enum tug_operation_kind kind, uint64_t bytes) {
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, kind, theirs, 0, mine, 0, bytes, NULL);
    const bool does = tug_transport_verbs.takes(ORIGIN->view, operation);
    tug_fabric_complete(&ORIGIN->fabric, operation);
    return does;
}

/* Of operations on nothing the card does not check the key: they go by packets, where these go. */
void message_nothing(void **state) {
    (void)state;
    assert_true(takes(TUG_OPERATION_READ, 0));
    open_with_messages();
    assert_false(takes(TUG_OPERATION_READ, 0));
    assert_false(takes(TUG_OPERATION_WRITE, 0));
    assert_true(takes(TUG_OPERATION_READ, 1));
    assert_true(takes(TUG_OPERATION_WRITE, 1));
}

/* No shared receive queues: no messages, and everything else. */
static struct ibv_srq *no_queue(struct ibv_pd *pd, struct ibv_srq_init_attr *attributes) {
    (void)pd;
    (void)attributes;
    return NULL;
}

void message_not_here(void **state) {
    (void)state;
    const struct tug_ibv real = tug_ibv;
    tear_down(NULL);
    tug_ibv.create_srq = no_queue;
    fake_carries = true;
    set_up(NULL);
    fake_carries = false;
    tug_ibv = real;
    assert_null(ORIGIN->verbs->messages);
    fill(mine_memory, 64, 3);
    run_one(TUG_OPERATION_WRITE, 0, 0, 64);
    assert_filled(theirs_memory, 64, 3);
}

/* The connection is closed between them whenever it is idle: all come, in order. */
void kept_messages(void **state) {
    (void)state;
    open_with_messages();
    meet();
    fake_carries = true;
    struct fake *third = fake_add(0, 2);
    fake_carries = false;
    struct tug_registration *its = fake_register(third, theirs_memory, AREA);
    tug_settings.verbs_pairs = 1;
    for (unsigned i = 0; i < 60; i++) {
        struct fake_end end;
        send_messages(ORIGIN, i % 4);
        send_messages(TARGET, i % 3);
        if (i % 2 == 0)
            assert_all_came();
        fake_post(ORIGIN, fake_operation(ORIGIN, 2, TUG_OPERATION_WRITE, its, 0, NULL, 0, 8, &end));
        if (i % 3 == 0) {
            assert_true(fake_finish(60));
            assert_done(&end, 0);
        } else {
            fake_flush(ORIGIN);
            while (end.complete == 0)
                fake_round();
        }
    }
    assert_all_came();
    assert_int_equal(sides[0].ended + sides[1].ended, 0);
    assert_true(ORIGIN->verbs->numbers > 20); /* it has been closed often enough */
    tug_settings.verbs_pairs = 1024;
    fake_deregister(third, its);
}

/* ---- a second context ---- */

static bool receive_second(void *receiver, struct tug_wire *wire, const void *memory,
                           size_t bytes) {
    struct side *side = receiver;
    uint32_t number;
    (void)wire;
    assert_int_equal(bytes, sizeof(struct tug_packet_header) + sizeof number);
    memcpy(&number, (const unsigned char *)memory + sizeof(struct tug_packet_header),
           sizeof number);
    assert_int_equal(number, ++side->came);
    return true;
}

static void settled_second(void *receiver, uint32_t peer, bool by_wire) {
    struct side *side = receiver;
    assert_int_equal(peer, 1);
    side->leads += by_wire;
    side->leads_not += !by_wire;
}

static void ended_second(void *receiver, uint32_t peer) {
    (void)receiver;
    fail_msg("rank %u has ended", peer);
}

static bool send_second(struct fake *fake, struct side *side) {
    struct tug_wire *wire = &fake->view->wire;
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    const uint32_t number = side->sent + 1;
    const struct tug_packet_header header = {.source = fake->fabric.rank,
                                             .bytes = sizeof header + sizeof number,
                                             .context = fake->fabric.id};
    memcpy(buffer->packet.memory, &header, sizeof header);
    memcpy((unsigned char *)buffer->packet.memory + sizeof header, &number, sizeof number);
    buffer->packet.used = header.bytes;
    const bool sent = tug_verbs_send(wire, 1, buffer);
    if (!sent)
        tug_pool_give(&wire->pool, buffer);
    side->sent += sent;
    return sent;
}

static struct tug_buffer *handed_back;

static void moves_second(void *receiver, uint32_t peer, uint32_t taken, struct tug_buffer *back) {
    struct side *side = receiver;
    assert_int_equal(peer, 1);
    assert_int_equal(taken, side->came);
    handed_back = back;
}

static uint32_t yields_second(void *receiver, uint32_t peer) {
    assert_int_equal(peer, 0);
    return ((struct side *)receiver)->came;
}

static void moves(void *receiver, uint32_t peer, uint32_t taken, struct tug_buffer *back) {
    (void)receiver;
    assert_int_equal(peer, 1);
    assert_int_equal(taken, 0);
    assert_null(back);
}

static uint32_t yields(void *receiver, uint32_t peer) {
    (void)receiver;
    assert_int_equal(peer, 0);
    return 0;
}

/* Two contexts with packets, of which the second has met its peer. */
static void open_second(struct side *second, struct fake **origin, struct fake **target) {
    open_with_messages();
    meet();
    fake_carries = true;
    *origin = fake_add(1, 0), *target = fake_add(1, 1);
    fake_carries = false;
    struct tug_wire *wires[] = {&(*origin)->view->wire, &(*target)->view->wire};
    for (int i = 0; i < 2; i++) {
        wires[i]->receiver = second;
        wires[i]->receive = receive_second;
        wires[i]->settled = settled_second;
        wires[i]->ended = ended_second;
        wires[i]->moves = moves_second;
        wires[i]->yields = yields_second;
    }
    assert_false(tug_verbs_meet(wires[0], 1)); /* it does not know yet who that is */
    assert_false(send_second(*origin, second));
    while (second->leads == 0)
        fake_round();
}

/* Packets of two contexts go by one connection, each to its own. */
void shared_messages(void **state) {
    (void)state;
    struct side second = {0};
    struct fake *origin, *target;
    open_second(&second, &origin, &target);
    assert_int_equal(ORIGIN->verbs->nsenders, 1);
    for (unsigned i = 0; i < 200; i++) {
        send_messages(ORIGIN, i % 3);
        while (i % 4 != 0 && !send_second(origin, &second))
            fake_round();
    }
    assert_all_came();
    assert_int_equal(second.came, second.sent);
    assert_int_equal(second.came, 150);
    assert_int_equal(ORIGIN->verbs->nsenders, 1);
}

/* The device is lost. Packets of a context that the peer does not poll at the moment move, too, and
 * nobody waits until it does: the other context's messages say so. */
void shared_moves(void **state) {
    (void)state;
    struct side second = {0};
    struct fake *origin, *target;
    struct fake_end end;
    open_second(&second, &origin, &target);
    while (!send_second(origin, &second))
        fake_round();
    while (second.came < second.sent)
        fake_round();
    for (int i = 0; i < 2; i++) {
        fakes[i].view->wire.moves = moves;
        fakes[i].view->wire.yields = yields;
    }
    origin->fabric.with_jobs = target->fabric.with_jobs = true;
    origin->deaf = target->deaf = true;
    break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
    assert_true(send_second(origin, &second)); /* which does not arrive */
    atomic_store(&ORIGIN->verbs->base.lost, true);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, NULL, 0, 8, &end));
    assert_true(fake_finish(20));
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->passed, 1);
    while (handed_back == NULL)
        assert_true(fake_round() || handed_back != NULL);
    assert_null(handed_back->next);
    assert_int_equal(second.came, 1);
    tug_pool_give(&origin->view->wire.pool, handed_back);
    handed_back = NULL;
    ORIGIN->passed = 0;
}

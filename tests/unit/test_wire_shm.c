/* The shm wire: contexts that share an inbox are handed their own packets, when they may be, by
 * whichever of them is polled; words are each context's own. Both processes of the node are this
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "node/page.h"
#include "node/team.h"
#include "node/words.h"
#include "transport/lone.h"
#include "transport/packets/wire.h"

/* One context of one of the processes. */
struct side {
    struct tug_fabric fabric;
    struct tug_wire *wire;
    uint32_t received[TUG_INBOX_SLOTS + 1];
    unsigned nreceived, nserved;
    unsigned char *trailer; /* where what follows is to lie; NULL: nowhere */
    size_t come;            /* bytes that have been asked after */
    unsigned nwhole, ncut, nsent;
};

static struct tug_node_memory *memory[2];
static struct tug_neighbour neighbours[2];
static struct tug_neighbour *both[2] = {&neighbours[0], &neighbours[1]};
static struct tug_team teams[2];

/* The arena of both, and what each has taken of it. */
static unsigned char arena[4096] __attribute__((aligned(64)));
static size_t taken[2];
static bool arena_is_full;

bool __wrap_tug_all_agree(MPI_Comm comm, bool mine);
bool __wrap_tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

int __wrap_tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **place);
int __wrap_tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **place) {
    if (arena_is_full)
        return TUG_ERR_NO_MEMORY;
    *place = arena + taken[team->node_rank];
    taken[team->node_rank] += bytes;
    return 0;
}

static size_t copied; /* bytes, by calls of memcpy() and memmove() */

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    copied += bytes;
    return __real_memcpy(to, from, bytes);
}

void *__real_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes) {
    copied += bytes;
    return __real_memmove(to, from, bytes);
}

static unsigned refusals; /* so many packets are not taken */

static bool receive(void *receiver, struct tug_wire *wire, const void *packet, size_t bytes) {
    struct side *side = receiver;
    const struct tug_packet_header *header = packet;
    assert_ptr_equal(wire, side->wire);
    assert_int_equal(bytes, sizeof(*header));
    if (refusals > 0) {
        refusals--;
        return false;
    }
    side->received[side->nreceived++] = header->number;
    return true;
}

static void served(struct tug_fabric *fabric) {
    struct side *side = (struct side *)fabric; /* its first member */
    side->nserved++;
}

static unsigned char *trailer_address(void *receiver, uint32_t source, size_t come, size_t *room) {
    struct side *side = receiver;
    (void)room;
    assert_int_equal(source, 1 - side->fabric.rank);
    side->come = come;
    return side->trailer != NULL ? side->trailer + come : NULL;
}

static void arrived(void *receiver, uint32_t source, bool whole) {
    struct side *side = receiver;
    assert_int_equal(source, 1 - side->fabric.rank);
    side->nwhole += whole;
    side->ncut += !whole;
}

static void sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer) {
    struct side *side = receiver;
    assert_int_equal(peer, 1 - side->fabric.rank);
    assert_true(buffer->packet.trailer > 0);
    side->nsent++;
}

static struct side *make_side(uint32_t rank, uint64_t id) {
    static uint32_t ranks[2] = {0, 1};
    struct side *side = calloc(1, sizeof(*side));
    void *wire = NULL;
    char reason[256];
    side->fabric = (struct tug_fabric){.team = &teams[rank],
                                       .comm = MPI_COMM_SELF,
                                       .rank = rank,
                                       .node_rank = rank,
                                       .nranks = 2,
                                       .node_size = 2,
                                       .node_ranks = ranks,
                                       .id = id,
                                       .served = served};
    assert_int_equal(tug_transport_shm.open(&side->fabric, &wire, reason), 0);
    side->wire = wire;
    side->wire->receiver = side;
    side->wire->receive = receive;
    side->wire->trailer_address = trailer_address;
    side->wire->arrived = arrived;
    side->wire->sent = sent;
    return side;
}

static void free_side(struct side *side) {
    side->wire->row->close(side->wire);
    free(side);
}

static bool poll(struct side *side) {
    return side->wire->row->poll(side->wire);
}

static bool poll_inside(struct side *side) {
    side->wire->internal = side->wire->inside = true;
    const bool moved = poll(side);
    side->wire->inside = false;
    return moved;
}

static void send_as(struct side *side, uint64_t id, uint32_t number) {
    struct tug_buffer *buffer = tug_pool_take(&side->wire->pool);
    struct tug_packet_header *header = (struct tug_packet_header *)buffer->memory;
    header->context = id;
    header->source = side->fabric.rank;
    header->number = number;
    header->trailer = 0;
    assert_int_equal(buffer->packet.used, sizeof(*header));
    assert_true(side->wire->row->send(side->wire, 1 - side->fabric.rank, buffer));
}

static void send(struct side *side, uint32_t number) {
    send_as(side, side->fabric.id, number);
}

/* A packet that is ready to be sent, with what follows it. */
static struct tug_buffer *make_long(struct side *side, uint32_t number, const unsigned char *data,
                                    uint32_t bytes) {
    struct tug_buffer *buffer = tug_pool_take(&side->wire->pool);
    struct tug_packet_header *header = (struct tug_packet_header *)buffer->memory;
    header->context = side->fabric.id;
    header->source = side->fabric.rank;
    header->number = number;
    header->trailer = buffer->packet.trailer = bytes;
    buffer->trailer = data;
    return buffer;
}

static bool send_long(struct side *side, struct tug_buffer *buffer) {
    return side->wire->row->send(side->wire, 1 - side->fabric.rank, buffer);
}

static void has(struct side *side, unsigned n, uint32_t last) {
    assert_int_equal(side->nreceived, n);
    if (n > 0)
        assert_int_equal(side->received[n - 1], last);
}

static int set_up(void **state) {
    (void)state;
    memset(arena, 0, sizeof(arena));
    for (int i = 0; i < 2; i++) {
        taken[i] = 0;
        memory[i] = aligned_alloc(4096, (sizeof(*memory[i]) + 4095) / 4096 * 4096);
        memset((void *)memory[i], 0, sizeof(*memory[i]));
        neighbours[i] = (struct tug_neighbour){.page = &memory[i]->page};
        tug_neighbour_use(&neighbours[i], memory[i]);
        teams[i] = (struct tug_team){.comm = MPI_COMM_SELF,
                                     .node_comm = MPI_COMM_SELF,
                                     .node_rank = i,
                                     .node_size = 2,
                                     .node_most = 2,
                                     .neighbours = both};
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        tug_words_fini(&teams[i]);
        free(memory[i]);
    }
    return 0;
}

static void each_is_handed_its_own(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    (void)state;
    assert_false(poll(a) || poll(b));
    send(far_a, 1);
    send(far_b, 2);
    send(far_a, 3);
    assert_true(poll(a));
    has(a, 2, 3);
    has(b, 1, 2);
    assert_int_equal(b->nserved, 1);
    assert_int_equal(a->nserved, 0);
    assert_true(poll(b));  /* what it was handed counts as moved */
    assert_false(poll(b)); /* once */
    assert_false(poll(far_a) || poll(far_b));
    free_side(a);
    free_side(b);
    free_side(far_a);
    free_side(far_b);
}

static void a_packet_waits_until_its_context_is_served(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    (void)state;
    send(far_a, 1);
    send(far_b, 2);
    send(far_a, 3);
    assert_true(poll(a));
    has(a, 1, 1);
    has(b, 0, 0);
    assert_false(poll(a));
    assert_true(poll(b));
    has(b, 1, 2);
    has(a, 2, 3);
    assert_int_equal(a->nserved, 1);
    free_side(a);
    free_side(b);
    free_side(far_a);
    free_side(far_b);
}

static void from_inside_the_host_the_program_is_handed_nothing(void **state) {
    struct side *ours = make_side(0, 7), *program = make_side(0, 8);
    struct side *far_ours = make_side(1, 7), *far_program = make_side(1, 8);
    (void)state;
    assert_false(poll(program));
    assert_false(poll_inside(ours));
    send(far_ours, 1);
    send(far_program, 2);
    send(far_ours, 3);
    assert_true(poll_inside(ours));
    assert_false(poll_inside(ours));
    has(ours, 1, 1);
    has(program, 0, 0);
    assert_true(poll(ours));
    has(ours, 2, 3);
    has(program, 1, 2);
    free_side(ours);
    free_side(program);
    free_side(far_ours);
    free_side(far_program);
}

static void what_is_for_nobody_is_passed_over(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    (void)state;
    assert_false(poll(a));
    send(far_b, 1); /* is kept: b is not served */
    send(far_a, 2);
    assert_false(poll(a));
    free_side(b);
    assert_true(poll(a));
    has(a, 1, 2);
    send_as(far_a, 9, 3);
    send(far_a, 4);
    assert_true(poll(a));
    has(a, 2, 4);
    free_side(a);
    send(far_a, 5); /* nobody is there; the next one starts behind it */
    a = make_side(0, 7);
    send(far_b, 6);
    assert_true(poll(a));
    has(a, 1, 5);
    free_side(a);
    free_side(far_a);
    free_side(far_b);
}

/* Then packets go by other rows. */
static void without_memory_it_cannot_be_had(void **state) {
    static uint32_t ranks[2] = {0, 1};
    struct tug_fabric fabric = {.team = &teams[0],
                                .comm = MPI_COMM_SELF,
                                .nranks = 2,
                                .node_size = 2,
                                .node_ranks = ranks,
                                .id = 7};
    void *wire = NULL;
    char reason[256] = "";
    (void)state;
    arena_is_full = true;
    assert_int_equal(tug_transport_shm.open(&fabric, &wire, reason), TUG_ERR_UNSUPPORTED);
    arena_is_full = false;
    assert_null(wire);
    assert_true(reason[0] != '\0');
}

static void words_are_each_context_s_own(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    (void)state;
    assert_int_equal(tug_words_told(a->wire->words, 1), 0);
    tug_words_tell(far_a->wire->words, 0, 5);
    tug_words_tell(far_b->wire->words, 0, 6);
    tug_words_tell(a->wire->words, 1, 7);
    assert_int_equal(tug_words_told(a->wire->words, 1), 5);
    assert_int_equal(tug_words_told(b->wire->words, 1), 6);
    assert_int_equal(tug_words_told(far_a->wire->words, 0), 7);
    assert_int_equal(tug_words_told(far_b->wire->words, 0), 0);
    const size_t used = taken[0];
    free_side(a);
    free_side(far_a);
    a = make_side(0, 9);
    far_a = make_side(1, 9);
    assert_int_equal(taken[0], used);                       /* they are taken again, */
    assert_int_equal(tug_words_told(a->wire->words, 1), 0); /* as new */
    assert_int_equal(tug_words_told(far_a->wire->words, 0), 0);
    assert_int_equal(tug_words_told(b->wire->words, 1), 6);
    free_side(a);
    free_side(far_a);
    free_side(b);
    free_side(far_b);
}

static void a_full_inbox_says_so(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned sent = 0;
    (void)state;
    struct tug_buffer *buffer = tug_pool_take(&far->wire->pool);
    while (sent <= TUG_INBOX_SLOTS) {
        struct tug_packet_header *header = (struct tug_packet_header *)buffer->memory;
        header->context = 7;
        header->source = 1;
        header->number = sent;
        header->trailer = 0;
        if (!far->wire->row->send(far->wire, 0, buffer))
            break;
        buffer = tug_pool_take(&far->wire->pool);
        sent++;
    }
    assert_int_equal(sent, TUG_INBOX_SLOTS);
    while (poll(a))
        ;
    has(a, sent, sent - 1);
    assert_true(far->wire->row->send(far->wire, 0, buffer));
    assert_true(poll(a));
    has(a, sent + 1, sent);
    free_side(a);
    free_side(far);
}

/* Sends until the inbox is full. */
static void fill(struct side *side) {
    struct tug_buffer *buffer;
    do {
        buffer = tug_pool_take(&side->wire->pool);
        struct tug_packet_header *header = (struct tug_packet_header *)buffer->memory;
        header->context = side->fabric.id;
        header->source = side->fabric.rank;
        header->trailer = 0;
    } while (side->wire->row->send(side->wire, 0, buffer));
    tug_pool_give(&side->wire->pool, buffer);
}

static uint32_t fall_asleep(unsigned rank) {
    return tug_bell_prepare(&memory[rank]->page.bell);
}

static bool sleeps(unsigned rank, uint32_t key) {
    return atomic_load(&memory[rank]->page.bell.word) == key;
}

static void who_waits_for_room_is_rung_for(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    const struct tug_transport *row = far->wire->row;
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        fill(far);
        assert_true(row->tells_of_room(far->wire, 0));
        uint32_t key = fall_asleep(1);
        assert_true(sleeps(1, key));
        assert_true(poll(a));
        assert_false(sleeps(1, key));
        send(far, 1); /* there is room */
        key = fall_asleep(1);
        while (poll(a))
            ;
        assert_true(sleeps(1, key)); /* it waits for something else */
        a->nreceived = 0;
    }
    free_side(a);
    free_side(far);
}

/* Two at most are there: the owner, too, may find its inbox full. */
static void sleepers_are_rung_for_one_by_one(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    const struct tug_transport *row = far->wire->row;
    (void)state;
    fill(far);
    assert_true(row->tells_of_room(a->wire, 0));
    assert_true(row->tells_of_room(far->wire, 0));
    const uint32_t keys[] = {fall_asleep(0), fall_asleep(1)};
    assert_true(poll(a));
    assert_int_equal(sleeps(0, keys[0]) + sleeps(1, keys[1]), 1);
    assert_true(poll(a));
    assert_int_equal(sleeps(0, keys[0]) + sleeps(1, keys[1]), 0);
    while (poll(a))
        ;
    a->nreceived = 0;
    free_side(a);
    free_side(far);
}

/* All of what is there may be taken in one round. */
static void all_are_rung_for_when_it_is_empty(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    const struct tug_transport *row = far->wire->row;
    (void)state;
    send(far, 1);
    assert_true(row->tells_of_room(a->wire, 0));
    assert_true(row->tells_of_room(far->wire, 0));
    const uint32_t keys[] = {fall_asleep(0), fall_asleep(1)};
    assert_true(poll(a));
    assert_int_equal(sleeps(0, keys[0]) + sleeps(1, keys[1]), 0);
    free_side(a);
    free_side(far);
}

/* ---- what follows packets ---- */

#define DATA_MOST ((size_t)1 << 20)

static unsigned char *make_data(uint32_t seed) {
    unsigned char *data = malloc(DATA_MOST);
    assert_non_null(data);
    for (size_t i = 0; i < DATA_MOST; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 11) + seed);
    return data;
}

static void has_data(const unsigned char *to, const unsigned char *from, size_t bytes) {
    assert_memory_equal(to, from, bytes);
    for (size_t i = bytes; i < bytes + 64; i++)
        assert_int_equal(to[i], 0xEE);
}

/* All sizes around those of a slot, again and again, so that they lie across the ring's end. */
static void data_follow_their_packet(void **state) {
    const uint32_t first = tug_slot_room(sizeof(struct tug_packet_header)),
                   next = tug_slot_room(16);
    const uint32_t sizes[] = {1,
                              7,
                              8,
                              63,
                              first - 1,
                              first,
                              first + 1,
                              first + next - 1,
                              first + next,
                              first + next + 1,
                              50001,
                              300000};
    const unsigned nsizes = sizeof(sizes) / sizeof(sizes[0]);
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *data = make_data(1), *to = malloc(DATA_MOST);
    unsigned n = 0;
    (void)state;
    a->trailer = to;
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < nsizes; i++) {
            memset(to, 0xEE, DATA_MOST);
            assert_true(send_long(far, make_long(far, i, data + i, sizes[i])));
            send(far, 1000 + i);
            while (poll(a))
                ;
            n++;
            has(a, 2, 1000 + i);
            a->nreceived = 0;
            assert_int_equal(a->nwhole, n);
            assert_int_equal(far->nsent, n);
            has_data(to, data + i, sizes[i]);
        }
    }
    assert_int_equal(a->ncut, 0);
    assert_int_equal(far->wire->pool.nout, 0);
    free(data);
    free(to);
    free_side(a);
    free_side(far);
}

static bool receive_any(void *receiver, struct tug_wire *wire, const void *packet, size_t bytes) {
    struct side *side = receiver;
    (void)wire;
    (void)packet;
    (void)bytes;
    side->received[side->nreceived++] = 0;
    return true;
}

/* Bytes that are copied from the sending of a packet, which is filled, to its end at the reader. */
static size_t copied_with(struct side *from, struct side *to, const unsigned char *data,
                          uint32_t bytes) {
    struct tug_buffer *buffer = make_long(from, 1, data, bytes);
    const size_t packet = buffer->packet.capacity;
    buffer->packet.used = bytes == 0 ? (uint32_t)packet : buffer->packet.used;
    copied = 0;
    assert_true(send_long(from, buffer));
    while (poll(to))
        ;
    return copied;
}

/* A packet: into the inbox, and out of it, where nobody changes it any more. Data: into it, and to
 * where they shall lie. Heads and labels come to little. */
static void all_is_copied_twice(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *data = make_data(1), *to = malloc(DATA_MOST);
    const size_t packet = TUG_INBOX_PACKET_BYTES, bytes = 300000;
    (void)state;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    free(data);
    free(to);
    free_side(a);
    free_side(far);
    skip(); /* their copies are other functions' */
#endif
#endif
    a->trailer = to;
    a->wire->receive = receive_any;
    const size_t of_packet = copied_with(far, a, NULL, 0);
    const size_t of_data = copied_with(far, a, data, (uint32_t)bytes);
    assert_int_equal(a->nreceived, 2);
    assert_int_equal(a->nwhole, 1);
    assert_in_range(of_packet, 2 * packet, 2 * packet + packet / 8);
    assert_in_range(of_data, 2 * bytes, 2 * bytes + bytes / 8);
    free(data);
    free(to);
    free_side(a);
    free_side(far);
}

/* The inbox is full in the middle: the rest goes when there is room, and the reader has what has
 * come by then. Nothing goes by itself. */
static void a_full_inbox_in_the_middle(void **state) {
    const uint32_t bytes = (uint32_t)DATA_MOST - 64;
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *data = make_data(2), *to = malloc(DATA_MOST);
    (void)state;
    memset(to, 0xEE, DATA_MOST);
    a->trailer = to;
    struct tug_buffer *buffer = make_long(far, 1, data, bytes);
    unsigned tries = 0;
    while (!send_long(far, buffer)) {
        const uint32_t gone = buffer->sent - buffer->packet.used;
        assert_false(send_long(far, buffer));
        assert_int_equal(buffer->sent - buffer->packet.used, gone);
        assert_int_equal(far->nsent, 0);
        assert_int_equal(a->nwhole, 0);
        while (poll(a))
            ;
        assert_memory_equal(to, data, gone);
        assert_int_equal(to[gone], 0xEE);
        tries++;
    }
    assert_true(tries >= bytes / (TUG_INBOX_SLOTS * TUG_INBOX_SLOT_BYTES));
    assert_int_equal(far->nsent, 1);
    while (poll(a))
        ;
    assert_int_equal(a->nwhole, 1);
    has_data(to, data, bytes);
    free(data);
    free(to);
    free_side(a);
    free_side(far);
}

/* Two contexts' data, and both ways, by one inbox in turns. */
static void each_has_its_own_data(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    struct tug_buffer *buffers[2];
    unsigned char *data = make_data(3), *to[2] = {malloc(DATA_MOST), malloc(DATA_MOST)};
    const uint32_t bytes = 700000;
    (void)state;
    a->trailer = to[0];
    b->trailer = to[1];
    assert_false(poll(a) || poll(b));
    buffers[0] = make_long(far_a, 1, data, bytes);
    buffers[1] = make_long(far_b, 2, data + 100000, bytes);
    bool done[2] = {false, false};
    for (unsigned i = 0; !done[0] || !done[1]; i++) {
        const unsigned which = i % 2;
        if (!done[which])
            done[which] = send_long(which == 0 ? far_a : far_b, buffers[which]);
        for (unsigned polls = 0; polls < 3; polls++) {
            /* some slots only, so that the next to send finds a little room */
            (void)poll(i % 3 == 0 ? a : b);
        }
    }
    while (poll(a) || poll(b))
        ;
    assert_int_equal(a->nwhole, 1);
    assert_int_equal(b->nwhole, 1);
    assert_memory_equal(to[0], data, bytes);
    assert_memory_equal(to[1], data + 100000, bytes);
    free(data);
    free(to[0]);
    free(to[1]);
    free_side(a);
    free_side(b);
    free_side(far_a);
    free_side(far_b);
}

/* The reader goes, or does not know what comes: the slots are free again, and the next packet is
 * handed up. */
static void data_for_nobody_are_passed_over(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    unsigned char *data = make_data(4);
    (void)state;
    assert_false(poll(a) || poll(b));
    struct tug_buffer *buffer = make_long(far_a, 1, data, (uint32_t)DATA_MOST);
    assert_false(send_long(far_a, buffer));
    assert_true(poll(b)); /* a part, to no place */
    has(a, 1, 1);
    assert_true(a->come > 0);
    free_side(a);
    while (!send_long(far_a, buffer))
        (void)poll(b);
    send(far_b, 2);
    while (poll(b))
        ;
    has(b, 1, 2);
    a = make_side(0, 7);
    send(far_a, 3);
    while (poll(a))
        ;
    has(a, 1, 3);
    assert_int_equal(a->nwhole + a->ncut, 0);
    free(data);
    free_side(a);
    free_side(b);
    free_side(far_a);
    free_side(far_b);
}

/* The sender stops in the middle, and is heard of again. */
static void data_that_will_not_come(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *data = make_data(5), *to = malloc(DATA_MOST);
    (void)state;
    a->trailer = to;
    struct tug_buffer *buffer = make_long(far, 1, data, (uint32_t)DATA_MOST);
    assert_false(send_long(far, buffer));
    tug_pool_give(&far->wire->pool, buffer);
    while (poll(a))
        ;
    assert_int_equal(a->nwhole + a->ncut, 0);
    send(far, 2);
    assert_true(poll(a));
    has(a, 2, 2);
    assert_int_equal(a->ncut, 1);
    memset(to, 0xEE, DATA_MOST);
    assert_true(send_long(far, make_long(far, 3, data, 30000)));
    while (poll(a))
        ;
    assert_int_equal(a->nwhole, 1);
    has_data(to, data, 30000);
    free(data);
    free(to);
    free_side(a);
    free_side(far);
}

/* Slots that say more than they have, or continue what was not begun. */
static void slots_that_lie(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *data = make_data(6), *to = malloc(DATA_MOST);
    (void)state;
    memset(to, 0xEE, DATA_MOST);
    a->trailer = to;
    assert_false(poll(a));
    for (unsigned i = 0; i < 4; i++) {
        static const uint32_t labels[4][4] = {
            {7, 0, 1, 0}, {7, 0, 2, 0}, {7, 0, 0, 0}, {9, 0, 1, 0}};
        struct tug_slot *slot = tug_inbox_reserve(&memory[0]->inbox);
        slot->bytes = 0;
        slot->behind = UINT32_MAX;
        memcpy(slot->head, labels[i], sizeof(labels[i]));
        tug_inbox_commit(slot, &memory[0]->page.bell);
    }
    while (poll(a))
        ;
    assert_int_equal(a->nwhole + a->ncut + a->nreceived, 0);
    assert_true(send_long(far, make_long(far, 1, data, 10000)));
    struct tug_slot *slots = memory[0]->inbox.slots;
    slots[4].behind = UINT32_MAX;
    slots[5].behind = UINT32_MAX; /* more than is left */
    while (poll(a))
        ;
    assert_int_equal(a->nwhole, 1);
    has_data(to, data, 10000);
    free(data);
    free(to);
    free_side(a);
    free_side(far);
}

/* What follows a packet of the program's context is not handed up from inside the host. */
static void data_wait_for_the_program(void **state) {
    struct side *ours = make_side(0, 7), *program = make_side(0, 8);
    struct side *far_ours = make_side(1, 7), *far_program = make_side(1, 8);
    unsigned char *data = make_data(7), *to = malloc(DATA_MOST);
    (void)state;
    program->trailer = to;
    assert_false(poll(program));
    assert_false(poll_inside(ours));
    struct tug_buffer *buffer = make_long(far_program, 1, data, (uint32_t)DATA_MOST);
    assert_false(send_long(far_program, buffer));
    assert_true(poll(ours));
    has(program, 1, 1);
    while (poll(ours))
        ;
    while (!send_long(far_program, buffer)) {
        assert_false(poll_inside(ours));
        while (poll(ours))
            ;
    }
    send(far_ours, 2);
    assert_false(poll_inside(ours));
    assert_int_equal(program->nwhole, 0);
    while (poll(ours))
        ;
    assert_int_equal(program->nwhole, 1);
    has(ours, 1, 2);
    assert_memory_equal(to, data, DATA_MOST);
    free(data);
    free(to);
    free_side(ours);
    free_side(program);
    free_side(far_ours);
    free_side(far_program);
}

/* ---- lone operations ---- */

static struct tug_registration expose(struct side *side, void *base, size_t bytes) {
    struct tug_registration registration = {.base = base, .bytes = bytes};
    if (side->fabric.memory.used == 0)
        assert_int_equal(tug_memory_table_init(&side->fabric.memory), 0);
    return registration;
}

/* What an operation ended with. */
struct ending {
    int calls, status;
};

static void ends(void *d, int status) {
    struct ending *ending = d;
    ending->calls++;
    ending->status = status;
}

static struct tug_callback then(struct ending *ending) {
    return (struct tug_callback){ends, ending};
}

static const struct tug_callback nothing;

static bool write_alone(struct side *to, struct side *from, uint64_t key, uint64_t offset,
                        const void *data, uint32_t bytes, struct ending *ending) {
    return tug_lone_write(&from->fabric, to->fabric.node_rank, key, offset, data, bytes, &nothing,
                          then(ending));
}

static bool read_alone(struct side *of, struct side *by, uint64_t key, uint64_t offset, void *data,
                       uint32_t bytes, struct ending *ending) {
    return tug_lone_read(&by->fabric, of->fabric.node_rank, key, offset, data, bytes, then(ending));
}

static void lone_ones_are_done_and_answered(void **state) {
    static const uint32_t sizes[] = {0, 1, 8, 9, 4096, TUG_LONE_READ_MOST};
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *data = make_data(8), *memory_of_a = calloc(1, DATA_MOST);
    unsigned char *back = malloc(DATA_MOST);
    struct tug_registration exposed = expose(a, memory_of_a, DATA_MOST);
    (void)state;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    assert_false(poll(a));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct ending written = {0}, read = {0};
        const uint32_t bytes = sizes[i];
        memset(memory_of_a, 0xEE, DATA_MOST);
        memset(back, 0xEE, DATA_MOST);
        assert_true(write_alone(a, far, exposed.id, 24, data, bytes, &written));
        assert_true(read_alone(a, far, exposed.id, 24, back, bytes, &read));
        assert_true(tug_lone_out(&far->fabric));
        assert_false(tug_lone_out(&a->fabric));
        assert_false(poll(far));
        assert_true(poll(a));
        assert_int_equal(written.calls + read.calls, 0);
        assert_true(i % 2 ? poll(far) : tug_lone_collect(&far->fabric));
        assert_int_equal(written.calls, 1);
        assert_int_equal(read.calls, 1);
        assert_int_equal(written.status, 0);
        assert_int_equal(read.status, 0);
        assert_false(tug_lone_out(&far->fabric));
        has_data(memory_of_a + 24, data, bytes);
        has_data(back, data, bytes);
        assert_int_equal(memory_of_a[23], 0xEE);
    }
    struct ending written = {0};
    assert_true(write_alone(a, far, exposed.id, 0, data, TUG_LONE_WRITE_MOST, &written));
    assert_true(poll(a) && poll(far));
    assert_int_equal(written.calls, 1);
    has_data(memory_of_a, data, TUG_LONE_WRITE_MOST);
    free(data);
    free(back);
    free(memory_of_a);
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

static void lone_ones_with_a_wrong_key_or_range_fail(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char memory_of_a[64] = {0}, data[64] = {1, 2, 3}, back[64] = {9};
    struct tug_registration exposed = expose(a, memory_of_a, sizeof(memory_of_a));
    struct ending key = {0}, range = {0}, read = {0};
    (void)state;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    assert_true(write_alone(a, far, exposed.id + 1, 0, data, 8, &key));
    assert_true(write_alone(a, far, exposed.id, 60, data, 8, &range));
    assert_true(read_alone(a, far, exposed.id, 1, back, 64, &read));
    assert_true(poll(a) && poll(far));
    assert_int_equal(key.status, TUG_ERR_KEY);
    assert_int_equal(range.status, TUG_ERR_RANGE);
    assert_int_equal(read.status, TUG_ERR_RANGE);
    assert_int_equal(key.calls + range.calls + read.calls, 3);
    assert_int_equal(back[0], 9);
    for (unsigned i = 0; i < sizeof(memory_of_a); i++)
        assert_int_equal(memory_of_a[i], 0);
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

static void count(void *counter, int status) {
    ends(counter, status);
}

static void count_many(void *counter, uint64_t n) {
    ((struct ending *)counter)->calls += (int)n;
}

/* A distance and an address each. */
static void add_read(unsigned char *run, unsigned i, int32_t distance, void *to) {
    memcpy(run + i * (sizeof(distance) + sizeof(to)), &distance, sizeof(distance));
    memcpy(run + i * (sizeof(distance) + sizeof(to)) + sizeof(distance), &to, sizeof(to));
}

static void reads_in_a_run_come_to_their_places(void **state) {
    static const uint32_t lengths[] = {1, 8, 24, 128};
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *memory_of_a = make_data(8), *back = malloc(TUG_LONE_READS * 256);
    unsigned char run[(TUG_LONE_READS + 1) * 12];
    struct tug_registration exposed = expose(a, memory_of_a, 8192);
    struct ending ending = {0};
    (void)state;
    far->fabric.counter = count;
    far->fabric.count = count_many;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const uint32_t length = lengths[i];
        memset(back, 0xEE, TUG_LONE_READS * 256);
        for (unsigned k = 0; k < TUG_LONE_READS; k++)
            add_read(run, k, (int32_t)k * 200 - 3000, back + k * 256);
        assert_true(tug_lone_read_run(&far->fabric, 0, exposed.id, 3001, run, TUG_LONE_READS,
                                      length, &ending, NULL));
        memset(run, 0, sizeof(run)); /* it has been copied */
        assert_true(poll(a) && poll(far));
        assert_int_equal(ending.calls, TUG_LONE_READS * (i + 1));
        assert_int_equal(ending.status, 0);
        for (unsigned k = 0; k < TUG_LONE_READS; k++) {
            assert_memory_equal(back + k * 256, memory_of_a + k * 200 + 1, length);
            assert_int_equal(back[k * 256 + length], 0xEE);
        }
    }
    assert_false(tug_lone_read_run(&far->fabric, 0, exposed.id, 0, run, TUG_LONE_READS + 1, 8,
                                   &ending, NULL));
    memset(back, 0xEE, 512);
    add_read(run, 0, 0, back);
    add_read(run, 1, 8185, back + 256);
    assert_true(tug_lone_read_run(&far->fabric, 0, exposed.id, 0, run, 2, 8, &ending, NULL));
    assert_true(poll(a) && poll(far));
    assert_int_equal(ending.status, TUG_ERR_RANGE);
    add_read(run, 1, -1, back + 256);
    assert_true(tug_lone_read_run(&far->fabric, 0, exposed.id, 0, run, 2, 8, &ending, NULL));
    assert_true(poll(a) && poll(far));
    assert_int_equal(ending.status, TUG_ERR_RANGE);
    assert_true(tug_lone_read_run(&far->fabric, 0, exposed.id + 1, 0, run, 2, 8, &ending, NULL));
    assert_true(poll(a) && poll(far));
    assert_int_equal(ending.status, TUG_ERR_KEY);
    assert_int_equal(ending.calls, TUG_LONE_READS * 4 + 6);
    assert_int_equal(back[0] & back[256], 0xEE);
    free(back);
    free(memory_of_a);
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

/* The ends are called by whoever collects, one for each read, also where the run fails. */
static void reads_in_a_run_end_each_by_itself(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char *memory_of_a = make_data(9), back[TUG_LONE_READS * 8];
    const uint32_t step = 4 + 2 * sizeof(void *);
    unsigned char run[TUG_LONE_READS * (4 + 2 * sizeof(void *))];
    struct tug_registration exposed = expose(a, memory_of_a, 8192);
    struct ending endings[TUG_LONE_READS] = {{0}};
    (void)state;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    for (int round = 0; round < 2; round++) {
        for (unsigned k = 0; k < TUG_LONE_READS; k++) {
            const int32_t distance = (int32_t)k * 100;
            void *const place = back + k * 8, *const end = &endings[k];
            memcpy(run + k * step, &distance, 4);
            memcpy(run + k * step + 4, &place, sizeof(place));
            memcpy(run + k * step + 4 + sizeof(place), &end, sizeof(end));
        }
        assert_true(tug_lone_read_run(&far->fabric, 0, exposed.id + (unsigned)round, 0, run,
                                      TUG_LONE_READS, 8, NULL, count));
        memset(run, 0, sizeof(run)); /* it has been copied */
        assert_true(poll(a) && poll(far));
        for (unsigned k = 0; k < TUG_LONE_READS; k++) {
            assert_int_equal(endings[k].calls, round + 1);
            assert_int_equal(endings[k].status, round == 0 ? 0 : TUG_ERR_KEY);
            assert_memory_equal(back + k * 8, memory_of_a + k * 100, 8);
        }
    }
    assert_false(tug_lone_out(&far->fabric));
    free(memory_of_a);
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

/* What the handlers of a side have been given, and what they say. */
static struct {
    unsigned messages, calls, handler;
    uint64_t payload;
    size_t bytes;
    int says;
    struct tug_caller caller;
} given;

static int deliver(struct tug_fabric *fabric, uint32_t source, unsigned handler,
                   const void *payloads, size_t bytes, size_t n) {
    assert_int_equal(source, 1 - fabric->rank);
    assert_int_equal(n, 1);
    given.messages++;
    given.handler = handler;
    given.bytes = bytes;
    memcpy(&given.payload, payloads, sizeof(given.payload));
    return given.says;
}

static int called(struct tug_fabric *fabric, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes) {
    (void)fabric;
    given.calls++;
    given.handler = handler;
    given.bytes = bytes;
    memcpy(&given.payload, payload, sizeof(given.payload));
    given.caller = caller;
    return given.says;
}

static void lone_messages_and_calls_are_handled(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    struct ending message = {0}, refused = {0}, call = {0}, wrong = {0}, unknown = {0};
    const uint64_t payload[512] = {42};
    uint64_t answer = 0;
    (void)state;
    a->fabric.deliver = deliver;
    a->fabric.called = called;
    memset(&given, 0, sizeof(given));
    assert_false(poll(a));
    assert_true(tug_lone_message(&far->fabric, 0, 5, payload, 4096, then(&message)));
    assert_true(poll(a) && poll(far));
    assert_int_equal(given.messages, 1);
    assert_int_equal(given.handler, 5);
    assert_int_equal(given.bytes, 4096);
    assert_int_equal(given.payload, 42);
    assert_int_equal(message.calls, 1);
    assert_int_equal(message.status, 0);
    given.says = TUG_ERR_INVALID;
    assert_true(tug_lone_message(&far->fabric, 0, 5, payload, 8, then(&refused)));
    assert_true(tug_lone_call(&far->fabric, 0, 6, payload, 8, &answer, 8, then(&unknown)));
    assert_true(poll(a) && poll(far));
    assert_int_equal(refused.status, TUG_ERR_INVALID);
    assert_int_equal(unknown.status, TUG_ERR_INVALID);
    given.says = 0;
    assert_true(tug_lone_call(&far->fabric, 0, 7, payload, 8, &answer, 8, then(&call)));
    assert_true(poll(a));
    assert_false(poll(far)); /* the answer comes later */
    assert_int_equal(given.handler, 7);
    assert_int_equal(given.caller.process, 1);
    tug_lone_answer(&a->fabric, given.caller, 0, &(uint64_t){43}, 8);
    assert_true(poll(far));
    assert_int_equal(call.calls, 1);
    assert_int_equal(call.status, 0);
    assert_int_equal(answer, 43);
    assert_true(tug_lone_call(&far->fabric, 0, 7, payload, 8, &answer, 8, then(&wrong)));
    assert_true(poll(a));
    tug_lone_answer(&a->fabric, given.caller, 0, &(uint64_t){44}, 4);
    assert_true(poll(far));
    assert_int_equal(wrong.status, TUG_ERR_RANGE); /* of another size */
    assert_int_equal(answer, 43);
    free_side(a);
    free_side(far);
}

/* A cell that is not there, a source that is not there, more bytes than there is room for. */
static void lone_ones_that_lie(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char memory_of_a[64] = {0};
    struct tug_registration exposed = expose(a, memory_of_a, sizeof(memory_of_a));
    struct tug_cell *cells = memory[1]->tray.cells;
    (void)state;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    struct tug_lone_head heads[] = {
        {.label = {7, 1, 8}, .key = exposed.id, .cell = TUG_TRAY_CELLS},
        {.label = {7, 2, 8}, .key = exposed.id, .cell = 1},
        {.label = {9, 1, 8}, .key = exposed.id, .cell = 2},
        {.label = {7, 1, TUG_LONE_WRITE_MOST + 1}, .key = exposed.id, .cell = 3},
        {.label = {7, 1, UINT32_MAX}, .key = exposed.id, .cell = 4, .what = TUG_LONE_READ},
        {.label = {7, 1, TUG_AM_MAX_PAYLOAD + 1}, .cell = 5, .what = TUG_LONE_MESSAGE},
        {.label = {7, 1, 8}, .cell = 6, .what = TUG_LONE_READ_RUN + 1},
        {{7, 1, 4}, exposed.id, .cell = 7, .what = TUG_LONE_READ_RUN, .count = 1},
        {{7, 1, 8}, exposed.id, .cell = 8, .what = TUG_LONE_READ_RUN, .length = 8, .count = 1},
        {{7, 1, 128}, exposed.id, .cell = 9, .what = TUG_LONE_READ_RUN, .length = 255, .count = 32},
    };
    assert_false(poll(a));
    for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct tug_slot *slot = tug_inbox_reserve(&memory[0]->inbox);
        slot->bytes = TUG_SLOT_LONE;
        memset(slot->head, 0xFF, TUG_INBOX_PACKET_BYTES);
        memcpy(slot->head, &heads[i], sizeof(heads[i]));
        tug_inbox_commit(slot, &memory[0]->page.bell);
    }
    assert_true(poll(a));
    assert_null(tug_inbox_first(&memory[0]->inbox));
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(cells[i].answer, i < 3 ? 0 : 1 + -TUG_ERR_INVALID);
    for (unsigned i = 0; i < sizeof(memory_of_a); i++)
        assert_int_equal(memory_of_a[i], 0);
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

/* Beyond its cells, or a full inbox, nothing is begun; who takes answers has room again. */
static void lone_ones_have_so_much_room(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char memory_of_a[64] = {0};
    struct tug_registration exposed = expose(a, memory_of_a, sizeof(memory_of_a));
    struct ending ending = {0};
    const uint64_t one = 1;
    (void)state;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    assert_false(poll(a));
    for (unsigned i = 0; i < TUG_TRAY_CELLS; i++)
        assert_true(write_alone(a, far, exposed.id, 0, &one, 8, &ending));
    assert_false(write_alone(a, far, exposed.id, 0, &one, 8, &ending));
    while (poll(a))
        ;
    assert_int_equal(ending.calls, 0);
    assert_true(write_alone(a, far, exposed.id, 0, &one, 8, &ending));
    assert_int_equal(ending.calls, TUG_TRAY_CELLS);
    while (poll(a))
        ;
    assert_true(poll(far));
    assert_int_equal(ending.calls, TUG_TRAY_CELLS + 1);
    for (unsigned i = 0; i < TUG_INBOX_SLOTS; i++)
        send(far, 1);
    assert_false(write_alone(a, far, exposed.id, 0, &one, 8, &ending));
    assert_false(tug_lone_out(&far->fabric));
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

/* Each context's own: also where they share a tray, and one is not served, or not from inside. */
static void lone_ones_are_each_context_s_own(void **state) {
    struct side *ours = make_side(0, 7), *program = make_side(0, 8);
    struct side *far_ours = make_side(1, 7), *far_program = make_side(1, 8);
    unsigned char memory_of_ours[64] = {0};
    struct tug_registration exposed = expose(ours, memory_of_ours, sizeof(memory_of_ours));
    struct ending to_ours = {0}, to_program = {0};
    const uint64_t one = 1;
    (void)state;
    (void)expose(program, NULL, 0);
    assert_int_equal(tug_memory_add(&ours->fabric.memory, &exposed), 0);
    assert_false(poll(ours));
    assert_true(write_alone(ours, far_ours, exposed.id, 0, &one, 8, &to_ours));
    assert_true(write_alone(program, far_program, exposed.id, 8, &one, 8, &to_program));
    assert_true(poll_inside(ours));
    assert_false(poll(ours)); /* the other's is not served so far */
    assert_false(poll(program) && poll(ours));
    assert_false(tug_lone_collect(&ours->fabric));
    assert_true(poll(far_ours));
    assert_int_equal(to_ours.calls, 1);
    assert_int_equal(to_program.calls, 0);
    assert_true(tug_lone_out(&far_program->fabric));
    assert_true(poll(far_program));
    assert_int_equal(to_program.calls, 1);
    assert_int_equal(to_program.status, TUG_ERR_KEY);
    assert_int_equal(memory_of_ours[8], 0);
    tug_memory_table_fini(&ours->fabric.memory);
    tug_memory_table_fini(&program->fabric.memory);
    free_side(ours);
    free_side(program);
    free_side(far_ours);
    free_side(far_program);
}

/* Its answer may have come, and another have been woken for it, before the call has told that the
 * buffer is free: on_complete comes after on_local, and nobody sleeps over the answer. */
struct early {
    struct side *target;
    struct ending *ending;
    int calls;
    uint32_t key;
};

static void is_free(void *d, int status) {
    struct early *early = d;
    assert_int_equal(status, 0);
    early->calls++;
    assert_true(poll(early->target));
    early->key = tug_bell_prepare(&memory[1]->page.bell);
    assert_int_equal(early->ending->calls, 0);
}

static void an_answer_before_the_buffer_is_free(void **state) {
    struct side *a = make_side(0, 7), *far = make_side(1, 7);
    unsigned char memory_of_a[64] = {0};
    struct tug_registration exposed = expose(a, memory_of_a, sizeof(memory_of_a));
    struct ending ending = {0};
    struct early early = {a, &ending, 0, 0};
    const struct tug_callback on_local = {is_free, &early};
    const uint64_t one = 1;
    (void)state;
    assert_int_equal(tug_memory_add(&a->fabric.memory, &exposed), 0);
    assert_false(poll(a));
    assert_true(tug_lone_write(&far->fabric, 0, exposed.id, 0, &one, 8, &on_local, then(&ending)));
    assert_int_equal(early.calls, 1);
    assert_int_equal(ending.calls, 0);
    assert_int_not_equal(atomic_load(&memory[1]->page.bell.word), early.key); /* rung */
    assert_true(tug_lone_collect(&far->fabric));
    assert_int_equal(ending.calls, 1);
    tug_memory_table_fini(&a->fabric.memory);
    free_side(a);
    free_side(far);
}

/* For want of memory: it is handed up again, ahead of what has come behind it. */
static void what_is_not_taken_comes_again(void **state) {
    (void)state;
    unsigned char data[4096], place[4096];
    memset(data, 7, sizeof(data));
    struct side *a = make_side(0, 1), *b = make_side(1, 1);
    (void)poll(b);
    b->trailer = place;
    send(a, 1);
    assert_true(send_long(a, make_long(a, 2, data, sizeof(data))));
    send(a, 3);
    refusals = 2;
    assert_false(poll(b));
    assert_false(b->wire->row->arm(b->wire));
    assert_false(poll(b));
    assert_int_equal(b->nreceived, 0);
    refusals = 0;
    assert_true(tug_inbox_has(&memory[1]->inbox));
    assert_true(poll(b));
    assert_true(b->wire->row->arm(b->wire));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(b->received[i], i + 1);
    assert_int_equal(b->nwhole, 1);
    assert_memory_equal(place, data, sizeof(data));
    assert_true(send_long(a, make_long(a, 4, data, sizeof(data))));
    refusals = 1;
    assert_false(poll(b));
    assert_true(poll(b));
    has(b, 4, 4);
    assert_int_equal(b->nwhole, 2);
    assert_int_equal(b->ncut, 0);
    free_side(a);
    free_side(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_is_handed_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_packet_waits_until_its_context_is_served, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(from_inside_the_host_the_program_is_handed_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_for_nobody_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_it_cannot_be_had, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_are_each_context_s_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_inbox_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_room_is_rung_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sleepers_are_rung_for_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_are_rung_for_when_it_is_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_follow_their_packet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_taken_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_is_copied_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_inbox_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_has_its_own_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_for_nobody_are_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_that_will_not_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slots_that_lie, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_wait_for_the_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lone_ones_are_done_and_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lone_ones_with_a_wrong_key_or_range_fail, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(reads_in_a_run_come_to_their_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_in_a_run_end_each_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lone_messages_and_calls_are_handled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lone_ones_that_lie, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lone_ones_have_so_much_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lone_ones_are_each_context_s_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_before_the_buffer_is_free, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

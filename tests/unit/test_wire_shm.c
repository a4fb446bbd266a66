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
#include "transport/packets/wire.h"

/* One context of one of the processes. */
struct side {
    struct tug_fabric fabric;
    struct tug_wire *wire;
    uint32_t received[TUG_INBOX_SLOTS + 1];
    unsigned nreceived, nserved;
};

static struct tug_node_memory *memory[2];
static struct tug_neighbour neighbours[2];
static struct tug_neighbour *both[2] = {&neighbours[0], &neighbours[1]};
static struct tug_team teams[2];

/* The arena of both, and what each has taken of it. */
static unsigned char arena[4096] __attribute__((aligned(64)));
static size_t taken[2];

bool __wrap_tug_all_agree(MPI_Comm comm, bool mine);
bool __wrap_tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

int __wrap_tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **place);
int __wrap_tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **place) {
    *place = arena + taken[team->node_rank];
    taken[team->node_rank] += bytes;
    return 0;
}

static void receive(void *receiver, struct tug_wire *wire, const void *packet, size_t bytes) {
    struct side *side = receiver;
    const struct tug_packet_header *header = packet;
    assert_ptr_equal(wire, side->wire);
    assert_int_equal(bytes, sizeof(*header));
    side->received[side->nreceived++] = header->number;
}

static void served(struct tug_fabric *fabric) {
    struct side *side = (struct side *)fabric; /* its first member */
    side->nserved++;
}

static struct side *make_side(uint32_t rank, uint64_t id) {
    static uint32_t ranks[2] = {0, 1};
    struct side *side = calloc(1, sizeof(*side));
    int status;
    side->fabric = (struct tug_fabric){.team = &teams[rank],
                                       .comm = MPI_COMM_SELF,
                                       .rank = rank,
                                       .node_rank = rank,
                                       .nranks = 2,
                                       .node_size = 2,
                                       .node_ranks = ranks,
                                       .id = id,
                                       .served = served};
    side->wire = tug_wire_shm_open(&side->fabric, &status);
    assert_non_null(side->wire);
    side->wire->receiver = side;
    side->wire->receive = receive;
    return side;
}

static void free_side(struct side *side) {
    side->wire->type->close(side->wire);
    free(side);
}

static bool poll(struct side *side) {
    return side->wire->type->poll(side->wire);
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
    header->number = number;
    assert_int_equal(buffer->packet.used, sizeof(*header));
    assert_true(side->wire->type->send(side->wire, 1 - side->fabric.rank, buffer));
}

static void send(struct side *side, uint32_t number) {
    send_as(side, side->fabric.id, number);
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

static void words_are_each_context_s_own(void **state) {
    struct side *a = make_side(0, 7), *b = make_side(0, 8);
    struct side *far_a = make_side(1, 7), *far_b = make_side(1, 8);
    const struct tug_wire_type *type = a->wire->type;
    (void)state;
    assert_int_equal(type->told(a->wire, 1), 0);
    type->tell(far_a->wire, 0, 5);
    type->tell(far_b->wire, 0, 6);
    type->tell(a->wire, 1, 7);
    assert_int_equal(type->told(a->wire, 1), 5);
    assert_int_equal(type->told(b->wire, 1), 6);
    assert_int_equal(type->told(far_a->wire, 0), 7);
    assert_int_equal(type->told(far_b->wire, 0), 0);
    const size_t used = taken[0];
    free_side(a);
    free_side(far_a);
    a = make_side(0, 9);
    far_a = make_side(1, 9);
    assert_int_equal(taken[0], used);            /* they are taken again, */
    assert_int_equal(type->told(a->wire, 1), 0); /* as new */
    assert_int_equal(type->told(far_a->wire, 0), 0);
    assert_int_equal(type->told(b->wire, 1), 6);
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
        header->number = sent;
        if (!far->wire->type->send(far->wire, 0, buffer))
            break;
        buffer = tug_pool_take(&far->wire->pool);
        sent++;
    }
    assert_int_equal(sent, TUG_INBOX_SLOTS);
    while (poll(a))
        ;
    has(a, sent, sent - 1);
    assert_true(far->wire->type->send(far->wire, 0, buffer));
    assert_true(poll(a));
    has(a, sent + 1, sent);
    free_side(a);
    free_side(far);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_is_handed_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_packet_waits_until_its_context_is_served, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(from_inside_the_host_the_program_is_handed_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_for_nobody_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_are_each_context_s_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_inbox_says_so, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The command ring, one thread: order, wrap-around, full, and what an entry that fails leaves
 * alone. The baton is taken first so that entries get cells; test_baton.c is about who drives. */
#include "check.h"
#include "engine/baton.h"
#include "engine/ring.h"

#define SIZE 16

static struct tug_ring ring;

static int make_ring(void **state) {
    (void)state;
    return tug_ring_init(&ring, SIZE);
}

static int drop_ring(void **state) {
    (void)state;
    tug_ring_fini(&ring);
    return 0;
}

static void nothing(struct tug_command *command) {
    (void)command;
}

static struct tug_ticket reserve(void) {
    struct tug_ticket ticket = {0};
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_TICKET);
    return ticket;
}

static void submit(uint64_t value) {
    struct tug_ticket ticket = reserve();
    ticket.cell->execute = nothing;
    ticket.cell->payload.words[0] = value;
    tug_ring_commit(&ticket);
}

static void expect(uint64_t value) {
    struct tug_command *cell = tug_ring_next(&ring);
    assert_non_null(cell);
    assert_int_equal(cell->payload.words[0], value);
    tug_ring_consume(&ring, cell);
}

static void fresh_ring_is_free_and_empty(void **state) {
    (void)state;
    assert_null(tug_ring_next(&ring));
    assert_int_equal(tug_ring_tail(&ring), 0);
    assert_int_equal(atomic_load(&ring.state), 0);
    for (size_t i = 0; i < SIZE; i++) {
        assert_int_equal(atomic_load(&ring.cells[i].seq), i);
        assert_int_equal((uintptr_t)&ring.cells[i] % sizeof(struct tug_command), 0);
    }
}

static void commands_come_out_in_order(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    for (uint64_t i = 0; i < 5; i++)
        submit(100 + i);
    for (uint64_t i = 0; i < 5; i++)
        expect(100 + i);
    assert_null(tug_ring_next(&ring));
    assert_int_equal(atomic_load(&ring.head), 5);
}

static void wraps_around_many_times(void **state) {
    (void)state;
    uint64_t in = 0, out = 0;
    assert_true(tug_baton_take(&ring));
    while (in < 1000 * SIZE) {
        for (uint64_t n = 1 + in % SIZE; n > 0; n--)
            submit(in++);
        while (out < in)
            expect(out++);
    }
    assert_int_equal(tug_ring_tail(&ring), in);
    assert_int_equal(atomic_load(&ring.head), in);
}

static void full_is_an_answer_and_changes_nothing(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    for (uint64_t i = 0; i < SIZE; i++)
        submit(i);
    struct tug_ring before = ring;
    struct tug_command *cells = malloc(SIZE * sizeof(*cells));
    assert_non_null(cells);
    memcpy(cells, ring.cells, SIZE * sizeof(*cells));
    struct tug_ticket ticket, untouched;
    memset(&ticket, 0x5a, sizeof(ticket));
    memset(&untouched, 0x5a, sizeof(untouched));
    const uint64_t start = check_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const long sleeps = check_sleeps();
    for (int i = 0; i < 1000; i++)
        assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_FULL);
    /* at once: it neither sleeps nor spins */
    assert_int_equal(check_sleeps() - sleeps, 0);
    assert_true(check_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < 100000000u);
    assert_memory_equal(&ticket, &untouched, sizeof(ticket));
    assert_memory_equal(&ring, &before, sizeof(ring));
    assert_memory_equal(ring.cells, cells, SIZE * sizeof(*cells));
    free(cells);
    /* one cell given back is room for exactly one */
    expect(0);
    submit(SIZE);
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_FULL);
    for (uint64_t i = 1; i <= SIZE; i++)
        expect(i);
}

static void full_with_reserved_cells_only(void **state) {
    (void)state;
    struct tug_ticket tickets[SIZE], one_more;
    assert_true(tug_baton_take(&ring));
    for (int i = 0; i < SIZE; i++)
        tickets[i] = reserve();
    assert_int_equal(tug_ring_enter(&ring, true, &one_more), TUG_ENTRY_FULL);
    assert_null(tug_ring_next(&ring));
    for (int i = SIZE - 1; i >= 0; i--) {
        tickets[i].cell->payload.words[0] = (uint64_t)i;
        tug_ring_commit(&tickets[i]);
    }
    for (uint64_t i = 0; i < SIZE; i++)
        expect(i);
}

static void a_late_producer_delays_its_own_cell_only(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    submit(0);
    struct tug_ticket late = reserve();
    submit(2);
    expect(0);
    assert_null(tug_ring_next(&ring)); /* not over the gap */
    submit(3);
    late.cell->payload.words[0] = 1;
    tug_ring_commit(&late);
    for (uint64_t i = 1; i < 4; i++)
        expect(i);
}

static void sequence_numbers_follow_the_cell(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    for (uint64_t lap = 0; lap < 3; lap++)
        for (uint64_t i = 0; i < SIZE; i++) {
            uint64_t position = lap * SIZE + i;
            struct tug_ticket ticket = reserve();
            assert_int_equal(ticket.position, position);
            assert_ptr_equal(ticket.cell, &ring.cells[i]);
            assert_false(ticket.owes_ring);
            assert_int_equal(atomic_load(&ticket.cell->seq), position);
            ticket.cell->payload.words[0] = position;
            tug_ring_commit(&ticket);
            assert_int_equal(atomic_load(&ticket.cell->seq), position + 1);
            expect(position);
            assert_int_equal(atomic_load(&ticket.cell->seq), position + SIZE);
        }
}

static void works_where_positions_are_large(void **state) {
    (void)state;
    /* as if 2^40 laps had gone: nothing may depend on positions being small */
    uint64_t base = (1ull << 44);
    for (uint64_t i = 0; i < SIZE; i++)
        atomic_store(&ring.cells[i].seq, base + i);
    atomic_store(&ring.head, base);
    atomic_store(&ring.state, base << TUG_TAIL_SHIFT | TUG_BATON_HELD);
    struct tug_ticket ticket = {0};
    for (uint64_t i = 0; i < SIZE; i++)
        submit(i);
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_FULL);
    for (uint64_t i = 0; i < SIZE; i++)
        expect(i);
    assert_true(tug_baton_leave(&ring));
    assert_int_equal(atomic_load(&ring.state), (base + SIZE) << TUG_TAIL_SHIFT);
}

static void payload_bytes_all_travel(void **state) {
    (void)state;
    unsigned char bytes[TUG_COMMAND_PAYLOAD];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
    assert_true(tug_baton_take(&ring));
    submit(1);
    struct tug_ticket ticket = reserve();
    memcpy(ticket.cell->payload.bytes, bytes, sizeof(bytes));
    tug_ring_commit(&ticket);
    submit(2); /* the neighbour is not hit, nor hits */
    expect(1);
    assert_memory_equal(tug_ring_next(&ring)->payload.bytes, bytes, sizeof(bytes));
    tug_ring_consume(&ring, tug_ring_next(&ring));
    expect(2);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_ring, drop_ring)
    const struct CMUnitTest tests[] = {
        CASE(fresh_ring_is_free_and_empty),     CASE(commands_come_out_in_order),
        CASE(wraps_around_many_times),          CASE(full_is_an_answer_and_changes_nothing),
        CASE(full_with_reserved_cells_only),    CASE(a_late_producer_delays_its_own_cell_only),
        CASE(sequence_numbers_follow_the_cell), CASE(works_where_positions_are_large),
        CASE(payload_bytes_all_travel),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

/* Connections that are kept: so many, and those least used go. */
#include "base/settings.h"
#include "fixture.h"

static struct fake *third;
static struct tug_registration *its; /* memory of the third process, the upper half of theirs */

static void begin(uint64_t pairs) {
    tug_settings.verbs_pairs = pairs;
    third = fake_add(0, 2);
    its = fake_register(third, theirs_memory + AREA / 2, AREA / 2);
}

static void end(void) {
    fake_deregister(third, its);
    tug_settings.verbs_pairs = 1024;
}

/* Writes a number to rank 1, or rank 2. */
static void write_to(uint32_t rank, uint64_t value, struct fake_end *end) {
    struct tug_operation *operation = fake_operation(
        ORIGIN, rank, TUG_OPERATION_WRITE, rank == 1 ? theirs : its, 8 * value, NULL, 0, 8, end);
    memcpy(operation->data, &value, 8);
    fake_post(ORIGIN, operation);
}

static void assert_written(uint32_t rank, uint64_t value) {
    assert_memory_equal(theirs_memory + (rank == 1 ? 0 : AREA / 2) + 8 * value, &value, 8);
}

/* To two peers in turn with one connection: each is closed at both ends, and made again. */
void kept_few(void **state) {
    (void)state;
    struct fake_end ends[40];
    begin(1);
    for (uint64_t i = 0; i < 40; i++) {
        write_to(1 + i / 2 % 2, i, &ends[i]);
        assert_true(fake_finish(60));
        while (fake_round())
            ;
        assert_done(&ends[i], 0);
        assert_written(1 + i / 2 % 2, i);
        assert_int_equal(ORIGIN->verbs->nsenders, 1);
        assert_int_equal(TARGET->verbs->nservers + third->verbs->nservers, 1);
    }
    assert_int_equal(ORIGIN->passed, 0);
    assert_int_equal(ORIGIN->verbs->numbers, 20); /* each two go by one connection */
    drain_servers(TARGET);
    end();
}

/* One with something under way is not closed: there are more until it is idle. */
void kept_in_use(void **state) {
    (void)state;
    struct fake_end ends[3];
    begin(1);
    write_to(1, 0, &ends[0]);
    assert_true(fake_finish(60));
    write_to(1, 1, &ends[1]);
    fake_flush(ORIGIN);
    write_to(2, 2, &ends[2]);
    fake_flush(ORIGIN);
    assert_int_equal(ORIGIN->verbs->nsenders, 2);
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < 3; i++) {
        assert_done(&ends[i], 0);
        assert_written(i == 2 ? 2 : 1, i);
    }
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 0, TUG_OPERATION_WRITE, mine, 0, mine, 8, 8, &ends[0]));
    assert_true(fake_finish(60)); /* to itself */
    assert_done(&ends[0], 0);
    assert_int_equal(ORIGIN->verbs->nsenders, 1);
    end();
}

/* Who serves too many tells the one that it has not heard of for longest, who closes if idle. */
void kept_servers(void **state) {
    (void)state;
    struct fake_end done;
    begin(1);
    write_to(1, 3, &done);
    assert_true(fake_finish(60));
    struct tug_operation *operation =
        fake_operation(third, 1, TUG_OPERATION_WRITE, theirs, 800, NULL, 0, 8, &done);
    memset(operation->data, 5, 8);
    fake_post(third, operation);
    assert_true(fake_finish(60));
    while (fake_round())
        ;
    assert_int_equal(TARGET->verbs->nservers, 1);
    assert_int_equal(ORIGIN->verbs->nsenders, 0);
    assert_int_equal(third->verbs->nsenders, 1);
    write_to(1, 4, &done);
    assert_true(fake_finish(60));
    assert_done(&done, 0);
    assert_written(1, 4);
    end();
}

/* ---- a device with few queue pairs ---- */

static struct tug_ibv real;
static int left;

static struct ibv_qp *make_counted(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    struct ibv_qp *qp = left > 0 ? real.create_qp(pd, attributes) : NULL;
    left -= qp != NULL;
    return qp;
}

static int destroy_counted(struct ibv_qp *qp) {
    left++;
    return real.destroy_qp(qp);
}

/* It has three, and two connections want four: the idle one makes room. */
void kept_for_the_device(void **state) {
    (void)state;
    struct fake_end ends[20];
    begin(1024);
    real = tug_ibv;
    left = 3;
    tug_ibv.create_qp = make_counted;
    tug_ibv.destroy_qp = destroy_counted;
    for (uint64_t i = 0; i < 20; i++) {
        write_to(1 + i % 2, i, &ends[i]);
        assert_true(fake_finish(60));
        while (fake_round())
            ;
        assert_done(&ends[i], 0);
        if (ORIGIN->passed == 0)
            assert_written(1 + i % 2, i);
        for (uint32_t k = 0; k < ORIGIN->verbs->npairs; k++)
            ORIGIN->verbs->pairs[k]->closed_ns = 0;
    }
    assert_in_range(ORIGIN->passed, 0, 10);
    tug_ibv = real;
    end();
}

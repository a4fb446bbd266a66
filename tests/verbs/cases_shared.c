/* Contexts of one process share its connections. */
#include "broken.h"
#include "fixture.h"

/* One write of 8 bytes between the same ranks of another context; both registrations belong to the
 * process, whatever context they have been made for. */
static void write_by(struct fake *fake, uint64_t value, uint64_t offset, struct fake_end *end) {
    struct tug_operation *operation =
        fake_operation(fake, 1, TUG_OPERATION_WRITE, theirs, offset, NULL, 0, 8, end);
    memcpy(operation->data, &value, 8);
    fake_post(fake, operation);
}

static void assert_value(uint64_t offset, uint64_t value) {
    assert_memory_equal(theirs_memory + offset, &value, 8);
}

static unsigned queue_pairs(const struct tug_verbs *verbs) {
    unsigned n = 0;
    for (uint32_t i = 0; i < verbs->npairs; i++)
        n += (verbs->pairs[i]->sender != NULL) + (verbs->pairs[i]->server != NULL);
    return n;
}

/* The second and the third find the connection of the first: a question for the id, its answer, and
 * no queue pair. */
void shared_by_contexts(void **state) {
    (void)state;
    struct fake_end ends[3];
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned context = 1; context < 3; context++) {
        struct fake *origin = fake_add(context, 0), *target = fake_add(context, 1);
        assert_ptr_equal(origin->verbs, ORIGIN->verbs);
        assert_ptr_equal(target->verbs, TARGET->verbs);
        const unsigned before = fake_counted;
        write_by(origin, context, 8 * context, &ends[context]);
        assert_true(fake_finish(60));
        assert_done(&ends[context], 0);
        assert_value(8 * context, context);
        assert_int_equal(fake_counted - before, 2);
        assert_int_equal(queue_pairs(ORIGIN->verbs), 1);
        assert_int_equal(queue_pairs(TARGET->verbs), 1);
    }
    /* what all of them post goes by one doorbell */
    const uint64_t chains = ORIGIN->verbs->chains;
    for (unsigned context = 0; context < 3; context++)
        write_by(&fakes[FAKE_PROCESSES * context], 70 + context, 512 * context, &ends[context]);
    fake_flush(ORIGIN);
    assert_int_equal(ORIGIN->verbs->chains, chains + 1);
    assert_true(fake_finish(60));
    for (unsigned context = 0; context < 3; context++) {
        assert_done(&ends[context], 0);
        assert_value(512 * context, 70 + context);
    }
}

/* Two contexts do not know yet that their peer is one process: what waits for either goes by one
 * connection, in whatever order the messages come. */
void shared_met_at_once(void **state) {
    (void)state;
    struct fake_end ends[4];
    struct fake *second = fake_add(1, 0), *other = fake_add(1, 1);
    fake_hold = true;
    write_by(ORIGIN, 1, 0, &ends[0]);
    fake_flush(ORIGIN);
    write_by(second, 2, 8, &ends[1]);
    fake_flush(second);
    fake_post(other,
              fake_operation(other, 0, TUG_OPERATION_WRITE, mine, 64, theirs, 0, 8, &ends[2]));
    fake_flush(other);
    write_by(second, 3, 16, &ends[3]);
    assert_int_equal(fake_queued, 3);
    fake_hold = false;
    fake_reverse_messages();
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < 4; i++)
        assert_done(&ends[i], 0);
    assert_value(0, 1);
    assert_value(8, 2);
    assert_value(16, 3);
    while (fake_round())
        ;
    assert_int_equal(queue_pairs(ORIGIN->verbs), 2);
    assert_int_equal(queue_pairs(TARGET->verbs), 2);
    assert_ptr_equal(
        ((struct tug_verbs_contact *)tug_table_find(&ORIGIN->view->contacts, 1))->pair,
        ((struct tug_verbs_contact *)tug_table_find(&second->view->contacts, 1))->pair);
}

/* A context ends, the connection stays, also for those to come; and where the question went by that
 * context, another one asks. */
void shared_ends(void **state) {
    (void)state;
    struct fake_end end;
    for (unsigned round = 0; round < 20; round++) {
        struct fake *second = fake_add(1, 0), *other = fake_add(1, 1);
        write_by(second, round + 1, 0, &end);
        if (round == 0) {
            fake_hold = true;
            fake_flush(second);
            write_by(ORIGIN, 99, 8, NULL);
            fake_flush(ORIGIN);
            fake_hold = false;
        }
        assert_true(fake_finish(60));
        assert_done(&end, 0);
        assert_value(0, round + 1);
        fake_remove(second);
        fake_remove(other);
        assert_int_equal(queue_pairs(ORIGIN->verbs), 1);
        assert_int_equal(ORIGIN->verbs->nsenders, 1);
    }
    assert_value(8, 99);
    assert_int_equal(ORIGIN->verbs->nviews, 2);
    /* with the questions under way */
    lose_server();
    struct fake *second = fake_add(1, 0);
    fake_hold = true;
    break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
    write_by(ORIGIN, 5, 24, NULL);
    fake_flush(ORIGIN);
    fake_round(); /* it is to go again by the next connection, which is asked for */
    (void)tug_verbs_contact_of(second->view, 1);
    write_by(ORIGIN, 6, 16, &end);
    fake_flush(ORIGIN);
    fake_remove(second);
    fake_hold = false;
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_value(16, 6);
    assert_value(24, 5);
}

/* A context that the peer does not poll at the moment asks for no connection while another one can.
 */
void shared_asks(void **state) {
    (void)state;
    struct fake_end end;
    struct fake *second = fake_add(1, 0), *other = fake_add(1, 1);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    write_by(second, 1, 8, &end); /* both contexts know that their peer is one process */
    assert_true(fake_finish(60));
    for (unsigned context = 0; context < 2; context++) {
        fakes[FAKE_PROCESSES * context].fabric.with_jobs = context == 1;
        fakes[FAKE_PROCESSES * context + 1].fabric.with_jobs = context == 1;
    }
    second->deaf = other->deaf = true;
    break_queue_pair(ORIGIN->verbs->pairs[0]->sender);
    write_by(second, 2, 16, &end);
    assert_true(fake_finish(20));
    assert_done(&end, 0);
    assert_value(16, 2);
}

/* A bad key in one context: it alone fails, all others of both happen once. */
void shared_errors(void **state) {
    (void)state;
    enum { N = 120 };
    struct fake_end ends[N];
    struct tug_registration nobody = *theirs;
    struct fake *second = fake_add(1, 0);
    fake_add(1, 1);
    nobody.rkeys[0] ^= 0x5a5a00;
    for (unsigned bad = 0; bad < N; bad += 17) {
        for (unsigned i = 0; i < N; i++) {
            struct fake *fake = i % 2 == 0 ? ORIGIN : second;
            if (i == bad)
                fake_post(fake, fake_operation(fake, 1, TUG_OPERATION_WRITE, &nobody, 0, NULL, 0, 8,
                                               &ends[i]));
            else
                write_by(fake, bad * 1000 + i, 16 * i, &ends[i]);
        }
        assert_true(fake_finish(60));
        for (unsigned i = 0; i < N; i++) {
            assert_done(&ends[i], i == bad ? TUG_ERR_KEY : 0);
            if (i != bad)
                assert_value(16 * i, bad * 1000 + i);
        }
    }
}

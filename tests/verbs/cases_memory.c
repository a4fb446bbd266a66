/* Registered memory. */
#include <pthread.h>

#include "fixture.h"

/* A write with the key of a registration that has ended is refused and changes nothing. */
static void assert_refused(const struct tug_registration *remembered, const unsigned char *there) {
    struct fake_end end;
    unsigned char before[64];
    memcpy(before, there, sizeof before);
    fill(mine_memory, sizeof before, there[0] + 1u);
    post(TUG_OPERATION_WRITE, (struct tug_registration *)remembered, 0, 0, sizeof before, &end);
    assert_true(fake_finish(60));
    assert_memory_equal(there, before, sizeof before);
    assert_done(&end, TUG_ERR_KEY);
}

/* The end of a registration leaves those alone that are inside it or around it. */
void memory_inside(void **state) {
    (void)state;
    struct tug_registration *inside = fake_register(TARGET, theirs_memory + 4096, 100);
    struct tug_registration *same = fake_register(TARGET, theirs_memory, AREA);
    const struct tug_registration was_inside = *inside, was_same = *same;
    fake_deregister(TARGET, inside);
    assert_refused(&was_inside, theirs_memory + 4096);
    fake_deregister(TARGET, same);
    assert_refused(&was_same, theirs_memory);
    fill(mine_memory, 64, 11);
    run_one(TUG_OPERATION_WRITE, 4096, 0, 64);
    assert_filled(theirs_memory + 4096, 64, 11);
}

/* A device may give a key that has ended to the next registration. */
void memory_named_again(void **state) {
    (void)state;
    struct tug_registration *first = fake_register(TARGET, theirs_memory + 8192, 4096);
    struct tug_registration was_first = *first;
    fake_deregister(TARGET, first);
    struct tug_registration *second = fake_register(TARGET, theirs_memory + 4096, 16384);
    was_first.rkeys[0] = second->rkeys[0];
    assert_refused(&was_first, theirs_memory + 8192);
    struct fake_end end;
    post(TUG_OPERATION_WRITE, second, 4096, 0, 64, &end);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_memory_equal(theirs_memory + 8192, mine_memory, 64);
    fake_deregister(TARGET, second);
}

void memory_empty(void **state) {
    (void)state;
    struct tug_registration *empty = fake_register(TARGET, theirs_memory, 0);
    struct fake_end end;
    post(TUG_OPERATION_READ, empty, 0, 0, 0, &end);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    fake_deregister(TARGET, empty);
}

void memory_ended(void **state) {
    (void)state;
    unsigned char *elsewhere = map_memory(8192);
    struct tug_registration *brief = fake_register(TARGET, elsewhere, 8192);
    struct tug_registration kept = *brief;
    struct fake_end end;
    fake_deregister(TARGET, brief);
    post(TUG_OPERATION_WRITE, &kept, 0, 0, 64, &end);
    assert_true(fake_finish(60));
    assert_done(&end, TUG_ERR_KEY);
    run_one(TUG_OPERATION_WRITE, 0, 0, 64);
}

/* Writes are under way when the registration of their target ends: each is done, or refused. */
void memory_ended_under_way(void **state) {
    (void)state;
    enum { N = 16, PIECE = 65536 };
    struct fake_end ends[N], late;
    struct tug_registration *brief = fake_register(TARGET, theirs_memory, (size_t)N * PIECE);
    struct tug_registration kept = *brief;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    fill(mine_memory, (size_t)N * PIECE, 41);
    memset(theirs_memory, 0, (size_t)N * PIECE);
    for (unsigned i = 0; i < N; i++)
        post(TUG_OPERATION_WRITE, brief, i * PIECE, i * PIECE, PIECE, &ends[i]);
    fake_flush(ORIGIN);
    fake_deregister(TARGET, brief);
    post(TUG_OPERATION_WRITE, &kept, 0, 0, 64, &late);
    assert_true(fake_finish(120));
    unsigned ndone = 0;
    for (unsigned i = 0; i < N; i++) {
        ndone += ends[i].status == 0;
        assert_done(&ends[i], ends[i].status == 0 ? 0 : TUG_ERR_KEY);
        if (ends[i].status == 0)
            assert_memory_equal(theirs_memory + i * PIECE, mine_memory + i * PIECE, PIECE);
    }
    printf("%u of %u were done\n", ndone, (unsigned)N);
    assert_done(&late, TUG_ERR_KEY);
    run_one(TUG_OPERATION_READ, 0, 0, 64);
    assert_int_equal(ORIGIN->passed, 0);
}

static void *register_often(void *argument) {
    const size_t shift = (size_t)argument * 4096;
    for (int i = 0; i < 100; i++) {
        struct tug_registration registration = {.base = mine_memory + shift + i * 64,
                                                .bytes = 20000};
        struct tug_registration own = {.base = argument == NULL ? theirs_memory : mine_memory,
                                       .bytes = 100};
        if (tug_transport_verbs.register_memory(ORIGIN->view, &registration) != 0 ||
            tug_transport_verbs.register_memory(ORIGIN->view, &own) != 0)
            return (void *)1;
        tug_transport_verbs.deregister_memory(ORIGIN->view, &registration);
        tug_transport_verbs.deregister_memory(ORIGIN->view, &own);
    }
    return NULL;
}

void memory_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, register_often, (void *)i), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    run_one(TUG_OPERATION_WRITE, 0, 0, 64);
}

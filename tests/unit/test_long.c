/* Long active messages as they are gathered where they come (llcl/long.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "llcl/long.h"
#include "llcl/private.h"

#define BYTES 10000
#define HANDLER 5

static struct tug_context *context;
static unsigned char sent[BYTES];
static unsigned handled;
static uint32_t handled_source;
static size_t handled_bytes;
static unsigned char handled_data[BYTES];
static bool no_memory;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    return no_memory ? NULL : __real_malloc(bytes);
}

static void handler(tug_context *of, int source, const void *payload, size_t bytes, void *d) {
    (void)of, (void)source, (void)payload, (void)bytes, (void)d;
}

static int deliver(struct tug_fabric *fabric, uint32_t source, unsigned id, const void *payload,
                   size_t bytes, size_t n) {
    assert_ptr_equal(fabric, &context->fabric);
    assert_int_equal(id, HANDLER);
    assert_int_equal(n, 1);
    assert_int_equal((uintptr_t)payload % 8, 0);
    assert_true(bytes <= BYTES);
    handled++;
    handled_source = source;
    handled_bytes = bytes;
    memcpy(handled_data, payload, bytes);
    return 0;
}

static int set_up(void **state) {
    (void)state;
    context = calloc(1, sizeof(*context));
    assert_non_null(context);
    context->handlers[HANDLER].f = handler;
    context->fabric.deliver = deliver;
    handled = 0;
    no_memory = false;
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 13 + (i >> 8));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tug_long_close(context);
    assert_null(context->longs);
    free(context);
    return 0;
}

static int64_t come(uint32_t source, uint64_t all, uint64_t position, size_t bytes) {
    const uint64_t head[2] = {HANDLER, all};
    return tug_long_deliver(context, source, head, position, sent + position, bytes);
}

static void assert_handled(unsigned n, uint32_t source, size_t bytes) {
    assert_int_equal(handled, n);
    assert_int_equal(handled_source, source);
    assert_int_equal(handled_bytes, bytes);
    assert_memory_equal(handled_data, sent, bytes);
}

static void test_whole(void **state) {
    (void)state;
    no_memory = true; /* none is needed */
    assert_int_equal(come(3, BYTES, 0, BYTES), BYTES);
    assert_handled(1, 3, BYTES);
}

/* Parts of messages of several sources come by turns. */
static void test_parts(void **state) {
    (void)state;
    for (size_t at = 0; at < BYTES; at += 1000)
        for (uint32_t source = 0; source < 3; source++) {
            assert_int_equal(handled, at + 1000 == BYTES ? source : 0);
            assert_int_equal(come(source, BYTES, at, 1000), 1000);
        }
    assert_handled(3, 2, BYTES);
    assert_null(context->longs);
}

/* A transport has failed in the middle, and the next one sends its last part once more. */
static void test_part_again(void **state) {
    (void)state;
    assert_int_equal(come(1, 3000, 0, 1000), 1000);
    assert_int_equal(come(1, 3000, 1000, 700), 700);
    assert_int_equal(come(1, 3000, 1000, 1000), 1000);
    assert_int_equal(handled, 0);
    assert_int_equal(come(1, 3000, 2000, 1000), 1000);
    assert_handled(1, 1, 3000);
}

/* The rest of a message never comes: the next one of its source is handled nevertheless. */
static void test_begun_anew(void **state) {
    (void)state;
    assert_int_equal(come(1, 3000, 0, 1000), 1000);
    assert_int_equal(come(1, 5000, 0, 1000), 1000);
    assert_int_equal(come(1, 5000, 1000, 4000), 4000);
    assert_handled(1, 1, 5000);
    assert_null(context->longs);
}

static void test_refused(void **state) {
    (void)state;
    assert_int_equal(come(1, 3000, 1000, 1000), TUG_ERR_INVALID); /* none has begun */
    assert_int_equal(come(1, 3000, 0, 1000), 1000);
    assert_int_equal(come(1, 3000, 1001, 1000), TUG_ERR_INVALID); /* one is missing */
    assert_int_equal(come(1, 4000, 1000, 1000), TUG_ERR_INVALID); /* of another message */
    assert_int_equal(come(1, 3000, 1000, 2001), TUG_ERR_INVALID); /* beyond its end */
    assert_null(context->longs);
    assert_int_equal(come(1, UINT64_MAX, 0, 1000), TUG_ERR_INVALID);
    assert_int_equal(come(1, (uint64_t)TUG_AM_MAX_LONG + 1, 0, 1000), TUG_ERR_INVALID);
    const uint64_t behind[2] = {TUG_AM_HANDLERS, 1000};
    assert_int_equal(tug_long_deliver(context, 1, behind, 0, sent, 1000), TUG_ERR_INVALID);
    assert_int_equal(handled, 0);
}

/* The handler is removed in the middle of a message. */
static void test_no_handler(void **state) {
    (void)state;
    assert_int_equal(come(1, 3000, 0, 1000), 1000);
    context->handlers[HANDLER].f = NULL;
    assert_int_equal(come(1, 3000, 1000, 1000), TUG_ERR_INVALID);
    assert_null(context->longs);
    context->handlers[HANDLER].f = handler;
    assert_int_equal(come(1, 3000, 2000, 1000), TUG_ERR_INVALID);
    assert_int_equal(handled, 0);
}

/* Only what the source that is lost has sent is given up. */
static void test_source_lost(void **state) {
    (void)state;
    for (uint32_t source = 1; source < 4; source++)
        assert_int_equal(come(source, 3000, 0, 1000), 1000);
    tug_long_forget(context, 2);
    tug_long_forget(context, 7); /* has sent none */
    assert_int_equal(come(2, 3000, 1000, 2000), TUG_ERR_INVALID);
    assert_int_equal(come(1, 3000, 1000, 2000), 2000);
    assert_int_equal(come(3, 3000, 1000, 2000), 2000);
    assert_handled(2, 3, 3000);
    assert_null(context->longs);
}

static void test_no_memory(void **state) {
    (void)state;
    no_memory = true;
    assert_int_equal(come(1, 3000, 0, 1000), TUG_ERR_NO_MEMORY);
    no_memory = false;
    assert_int_equal(come(1, 3000, 1000, 2000), TUG_ERR_INVALID);
    assert_int_equal(come(1, 3000, 0, 1000), 1000);
    assert_int_equal(come(1, 3000, 1000, 2000), 2000);
    assert_handled(1, 1, 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_part_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_begun_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_handler, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_source_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

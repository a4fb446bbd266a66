/* The end of a registration: who is asked whether it is in use. */
#include "check.h"
#include "engine_fixture.h"
#include "llcl/private.h"

enum { OPERATIONS = 4096 };

static struct tug_context *context;
static tug_registration *registration;
static char memory[4096];

/* Operations are out, on other memory. There is no table to look for them in. */
static int begin(void **state) {
    (void)state;
    start_engine(TUG_PROGRESS_CALLER, 16);
    context = calloc(1, sizeof(*context));
    context->fabric.out = context->fabric.noperations = OPERATIONS;
    assert_int_equal(tug_memory_table_init(&context->fabric.memory), 0);
    assert_int_equal(tug_mem_register(context, memory, sizeof(memory), &registration), 0);
    return 0;
}

static int end(void **state) {
    (void)state;
    tug_memory_table_fini(&context->fabric.memory);
    free(context);
    stop_engine();
    return 0;
}

static void it_ends_without_a_look_at_all_operations(void **state) {
    (void)state;
    assert_int_equal(tug_mem_deregister(&registration), 0);
    assert_null(registration);
}

static void it_does_not_end_while_it_is_in_use(void **state) {
    (void)state;
    registration->users = 2;
    assert_int_equal(tug_mem_deregister(&registration), TUG_ERR_STATE);
    registration->users = 0;
    assert_int_equal(tug_mem_deregister(&registration), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_ends_without_a_look_at_all_operations, begin, end),
        cmocka_unit_test_setup_teardown(it_does_not_end_while_it_is_in_use, begin, end),
    };
    return cmocka_run_group_tests_name("registration", tests, NULL, NULL);
}

/* Memory that the node maps: which keys open it. They are compared with the key in the memory's
 * head; nothing is computed. */
#include "check.h"
#include "llcl/private.h"

enum { OWNER = 7, NODE_RANK = 1, BYTES = 8192, NUMBER = 3 };

static _Alignas(64) unsigned char memory[TUG_MAPPED_HEAD + BYTES];
static struct tug_segment_part parts[2] = {[NODE_RANK] = {memory, sizeof(memory)}};
static struct tug_mapped mapped = {.segment.parts = parts, .index = NUMBER};
static uint32_t node_ranks[] = {2, OWNER};
static struct tug_context *context;
static struct tug_key key;

/* Its check is any number: a hash of the rest would refuse it. */
static int open_memory(void **state) {
    struct tug_mapped_head *head = (struct tug_mapped_head *)memory;
    (void)state;
    context = calloc(1, sizeof(*context));
    context->fabric.node_size = 2;
    context->fabric.node_ranks = node_ranks;
    atomic_store(&context->fabric.mapped[NUMBER], &mapped);
    key = (struct tug_key){{5 | UINT64_C(1) << 32, 99, 0x7f0000000000, BYTES,
                            (uint64_t)OWNER << 32 | 11,
                            UINT64_C(0x12345678) << 32 | NODE_RANK << 16 | (NUMBER + 1)}};
    memcpy(head->rest, key.word + 1, sizeof(head->rest));
    atomic_store(&head->live, key.word[0]);
    return 0;
}

static int close_memory(void **state) {
    (void)state;
    free(context);
    return 0;
}

static unsigned char *address_of(uint64_t offset, uint64_t bytes) {
    return tug_mapped_address(&context->fabric, &key, OWNER, offset, bytes);
}

static void the_key_of_the_memory_opens_it(void **state) {
    (void)state;
    assert_ptr_equal(address_of(0, BYTES), memory + TUG_MAPPED_HEAD);
    assert_ptr_equal(address_of(BYTES - 8, 8), memory + TUG_MAPPED_HEAD + BYTES - 8);
    assert_null(address_of(1, BYTES));
    assert_null(address_of(BYTES + 1, 0));
    assert_null(address_of(UINT64_MAX, 2));
    assert_null(tug_mapped_address(&context->fabric, &key, OWNER - 1, 0, 8));
}

static void no_other_key_does(void **state) {
    (void)state;
    for (unsigned bit = 0; bit < 8 * sizeof(key); bit++) {
        key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_null(address_of(0, 8));
        key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
    }
    assert_non_null(address_of(0, 8));
}

static void nor_does_it_when_the_memory_has_ended(void **state) {
    (void)state;
    atomic_store(&((struct tug_mapped_head *)memory)->live, 0);
    assert_null(address_of(0, 8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_key_of_the_memory_opens_it, open_memory, close_memory),
        cmocka_unit_test_setup_teardown(no_other_key_does, open_memory, close_memory),
        cmocka_unit_test_setup_teardown(nor_does_it_when_the_memory_has_ended, open_memory,
                                        close_memory),
    };
    return cmocka_run_group_tests_name("mapped", tests, NULL, NULL);
}

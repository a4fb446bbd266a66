/* What the host is asked about a derived datatype: once a type, not once an operation. */
#include <mpi.h>
#include <pthread.h>

#include "check.h"
#include "host/datatype.h"
#include "host/host.h"
#include "host/layout.h"

/* The host's types: vectors of COUNT blocks of two ints or more, `stride` apart. */
enum { TYPES = 32, COUNT = 3 };
#define HANDLE(i) ((MPI_Datatype)(intptr_t)(INT32_MIN + 0x4c001000 + (i))) /* as MPICH's are */
#define INDEX(type) ((int)(intptr_t)(type)&0xff)

static struct {
    int block, stride; /* block 0: there is none */
    bool committed;
    void *kept;
} types[TYPES];

static unsigned asked;
static MPI_Type_delete_attr_function *forget;

static void make_type(int i, int block) {
    types[i].block = block;
    types[i].stride = 2 * block;
    types[i].committed = true;
    types[i].kept = NULL;
}

static void free_type(int i) {
    if (types[i].kept != NULL)
        forget(HANDLE(i), 1, types[i].kept, NULL);
    types[i].block = 0;
    types[i].kept = NULL;
}

static MPI_Count size_of(MPI_Datatype type) {
    return (MPI_Count)sizeof(int) * (type == MPI_INT ? 1 : COUNT * types[INDEX(type)].block);
}

static MPI_Count extent_of(MPI_Datatype type) {
    if (type == MPI_INT)
        return sizeof(int);
    return (MPI_Count)sizeof(int) *
           ((COUNT - 1) * types[INDEX(type)].stride + types[INDEX(type)].block);
}

static int pack_size(MPI_Count n, MPI_Datatype type, MPI_Comm comm, MPI_Count *bytes) {
    (void)comm;
    asked++;
    *bytes = n * size_of(type);
    return types[INDEX(type)].block > 0 && types[INDEX(type)].committed ? MPI_SUCCESS
                                                                        : MPI_ERR_TYPE;
}

static int type_size(MPI_Datatype type, MPI_Count *size) {
    asked++;
    *size = size_of(type);
    return MPI_SUCCESS;
}

static int get_extent(MPI_Datatype type, MPI_Count *lb, MPI_Count *extent) {
    asked++;
    *lb = 0;
    *extent = extent_of(type);
    return MPI_SUCCESS;
}

static int get_envelope(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
                        MPI_Count *counts, MPI_Count *ntypes, int *combiner) {
    (void)type;
    asked++;
    *integers = 3;
    *addresses = *counts = 0;
    *ntypes = 1;
    *combiner = MPI_COMBINER_VECTOR;
    return MPI_SUCCESS;
}

static int get_contents(MPI_Datatype type, MPI_Count integers, MPI_Count addresses,
                        MPI_Count counts, MPI_Count ntypes, int values[], MPI_Aint places[],
                        MPI_Count large[], MPI_Datatype inner[]) {
    (void)integers, (void)addresses, (void)counts, (void)ntypes, (void)places, (void)large;
    asked++;
    values[0] = COUNT;
    values[1] = types[INDEX(type)].block;
    values[2] = types[INDEX(type)].stride;
    inner[0] = MPI_INT;
    return MPI_SUCCESS;
}

static int create_keyval(MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *del,
                         int *key, void *state) {
    (void)copy, (void)state;
    forget = del;
    *key = 1;
    return MPI_SUCCESS;
}

static int get_attr(MPI_Datatype type, int key, void *kept, int *found) {
    assert_int_equal(key, 1);
    asked++;
    *found = types[INDEX(type)].kept != NULL;
    *(void **)kept = types[INDEX(type)].kept;
    return MPI_SUCCESS;
}

static int set_attr(MPI_Datatype type, int key, void *kept) {
    (void)key;
    types[INDEX(type)].kept = kept;
    return MPI_SUCCESS;
}

/* What every operation on it finds out. */
static void use(int i, int block) {
    struct tug_data data = {.count = 5, .type = HANDLE(i)};
    struct tug_run run;
    assert_true(tug_data_describe(&data, MPI_COMM_SELF));
    assert_int_equal(data.bytes, 5 * COUNT * block * sizeof(int));
    assert_true(tug_data_lacks_address(&data));
    assert_true(tug_type_element(data.type) == MPI_INT);
    assert_true(tug_run_begin(&run, &data, TUG_WALK_BYTES));
    assert_true(tug_run_refill(&run));
    assert_int_equal(run.left, (size_t)block * sizeof(int));
}

static void the_host_is_asked_once(void **state) {
    (void)state;
    for (int first = 0; first < TYPES; first += 2) { /* what one side has, and the other */
        make_type(first, 2);
        make_type(first + 1, 3);
        use(first, 2);
        use(first + 1, 3);
        asked = 0;
        for (int i = 0; i < 100; i++) {
            use(first, 2);
            use(first + 1, 3);
        }
        assert_int_equal(asked, 0);
    }
    for (int i = 0; i < TYPES; i++)
        free_type(i);
}

static void a_handle_that_comes_back_is_another_type(void **state) {
    (void)state;
    for (int block = 2; block < 50; block++) {
        make_type(4, block);
        use(4, block);
        use(4, block);
        free_type(4);
    }
}

static void *free_and_make_again(void *block) {
    (void)block;
    free_type(4);
    make_type(4, 9);
    return NULL;
}

static void another_thread_may_free_it(void **state) {
    pthread_t thread;
    (void)state;
    make_type(4, 2);
    use(4, 2);
    assert_int_equal(pthread_create(&thread, NULL, free_and_make_again, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    use(4, 9);
    free_type(4);
}

static void the_host_says_what_may_not_be_used(void **state) {
    struct tug_data data = {.count = 1, .type = HANDLE(4)};
    (void)state;
    make_type(4, 2);
    types[4].committed = false;
    for (int i = 0; i < 3; i++)
        assert_false(tug_data_describe(&data, MPI_COMM_SELF));
    types[4].committed = true;
    use(4, 2);
    free_type(4);
    assert_false(tug_data_describe(&data, MPI_COMM_SELF));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_asked_once),
        cmocka_unit_test(a_handle_that_comes_back_is_another_type),
        cmocka_unit_test(another_thread_may_free_it),
        cmocka_unit_test(the_host_says_what_may_not_be_used),
    };
    tug_host.Pack_size_c = pack_size;
    tug_host.Type_size_c = type_size;
    tug_host.Type_get_extent_c = tug_host.Type_get_true_extent_c = get_extent;
    tug_host.Type_get_envelope_c = get_envelope;
    tug_host.Type_get_contents_c = get_contents;
    tug_host.Type_create_keyval = create_keyval;
    tug_host.Type_get_attr = get_attr;
    tug_host.Type_set_attr = set_attr;
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}

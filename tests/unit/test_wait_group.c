/* Which communicators are inside a wait group, and how often the host is asked about one. */
#include <mpi.h>

#include "check.h"
#include "host/wait_group.h"
#include "host/handles.h"
#include "host/host.h"

/* The host's communicators; a group is the set of its ranks, as bits. */
enum { COMMS = 300, KEYS = 2, EVERYBODY = 15 };
#define HANDLE(i) ((MPI_Comm)(intptr_t)(INT32_MIN + 0x04000000 + (i))) /* as MPICH's are */
#define INDEX(comm) ((int)(intptr_t)(comm)&0xffff)

static struct {
    int ranks; /* 0: there is none */
    void *attributes[KEYS];
} comms[COMMS];

static MPI_Comm_delete_attr_function *deleted[KEYS];
static int keys;
static unsigned asked;

static void make_comm(int i, int ranks) {
    assert_int_equal(comms[i].ranks, 0);
    comms[i].ranks = ranks;
}

static void free_comm(int i) {
    for (int key = 0; key < keys; key++)
        if (comms[i].attributes[key] != NULL && deleted[key] != MPI_COMM_NULL_DELETE_FN)
            deleted[key](HANDLE(i), key, comms[i].attributes[key], NULL);
    memset(&comms[i], 0, sizeof(comms[i]));
}

static int create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *del,
                         int *key, void *state) {
    (void)copy, (void)state;
    assert_true(keys < KEYS);
    deleted[keys] = del;
    *key = keys++;
    return MPI_SUCCESS;
}

static int get_attr(MPI_Comm comm, int key, void *value, int *flag) {
    asked++;
    if (comms[INDEX(comm)].ranks == 0)
        return MPI_ERR_COMM;
    *flag = comms[INDEX(comm)].attributes[key] != NULL;
    *(void **)value = comms[INDEX(comm)].attributes[key];
    return MPI_SUCCESS;
}

static int set_attr(MPI_Comm comm, int key, void *value) {
    void **place = &comms[INDEX(comm)].attributes[key];
    asked++;
    if (*place != NULL && deleted[key] != MPI_COMM_NULL_DELETE_FN)
        deleted[key](comm, key, *place, NULL);
    *place = value;
    return MPI_SUCCESS;
}

static int test_inter(MPI_Comm comm, int *inter) {
    (void)comm;
    asked++;
    *inter = 0;
    return MPI_SUCCESS;
}

static int comm_group(MPI_Comm comm, MPI_Group *group) {
    asked++;
    *group = (MPI_Group)(intptr_t)comms[INDEX(comm)].ranks;
    return MPI_SUCCESS;
}

static int group_size(MPI_Group group, int *n) {
    *n = __builtin_popcount((unsigned)(intptr_t)group);
    return MPI_SUCCESS;
}

static int translate_ranks(MPI_Group group, int n, const int ranks[], MPI_Group other,
                           int found[]) {
    for (int i = 0; i < n; i++) {
        int bit = -1;
        for (int left = ranks[i]; left >= 0; left -= (int)(intptr_t)group >> bit & 1)
            bit++;
        found[i] = (int)(intptr_t)other >> bit & 1 ? bit : MPI_UNDEFINED;
    }
    return MPI_SUCCESS;
}

static int group_free(MPI_Group *group) {
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

static struct tug_wait_group *wait_group; /* of communicator 0, which has ranks 0 to 2 */

static int begin(void **state) {
    (void)state;
    make_comm(0, 7);
    wait_group = tug_wait_group_of(HANDLE(0), true);
    assert_non_null(wait_group);
    tug_wait_group_enter(wait_group);
    return 0;
}

static int end(void **state) {
    (void)state;
    tug_wait_group_leave(wait_group);
    for (int i = 0; i < COMMS; i++)
        free_comm(i);
    assert_int_equal(atomic_load(&tug_wait_groups_in_force), 0);
    return 0;
}

enum { LOOKS = 1000 };

/* From the second look on, for one attribute. */
static void the_host_is_asked_once_a_look(void **state) {
    (void)state;
    make_comm(1, 3);
    make_comm(2, EVERYBODY);
    for (int i = 0; i < LOOKS; i++) {
        assert_true(tug_wait_group_has(HANDLE(0)));
        assert_true(tug_wait_group_has(HANDLE(1)));
        assert_false(tug_wait_group_has(HANDLE(2)));
        if (i == 0)
            asked = 0;
    }
    assert_int_equal(asked, 3 * (LOOKS - 1));
}

static void a_handle_that_comes_back_is_another_communicator(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        make_comm(1, i % 2 ? EVERYBODY : 3);
        for (int look = 0; look < 3; look++)
            assert_int_equal(tug_wait_group_has(HANDLE(1)), i % 2 == 0);
        free_comm(1);
        assert_false(tug_wait_group_has(HANDLE(1)));
    }
}

static void answers_go_with_the_circles(void **state) {
    (void)state;
    make_comm(1, 3);
    make_comm(2, EVERYBODY);
    struct tug_wait_group *whole = tug_wait_group_of(HANDLE(2), true);
    for (int i = 0; i < 20; i++) {
        make_comm(3, EVERYBODY);
        assert_true(tug_wait_group_has(HANDLE(1)));
        assert_false(tug_wait_group_has(HANDLE(3)));
        tug_wait_group_enter(whole);
        assert_true(tug_wait_group_has(HANDLE(3)));
        assert_true(tug_wait_group_has(HANDLE(2)));
        tug_wait_group_leave(whole); /* it stays in force as long as its communicator */
        free_comm(2);
        assert_false(tug_wait_group_has(HANDLE(3)));
        assert_true(tug_wait_group_has(HANDLE(1)));
        free_comm(3);
        make_comm(2, EVERYBODY);
        whole = tug_wait_group_of(HANDLE(2), true);
    }
}

static void many_communicators(void **state) {
    (void)state;
    for (int i = 1; i < COMMS; i++)
        make_comm(i, i % 3 ? 1 + i % 7 : 8);
    for (int round = 0; round < 3; round++)
        for (int i = 1; i < COMMS; i++)
            assert_int_equal(tug_wait_group_has(HANDLE(i)), i % 3 != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_host_is_asked_once_a_look, begin, end),
        cmocka_unit_test_setup_teardown(a_handle_that_comes_back_is_another_communicator, begin,
                                        end),
        cmocka_unit_test_setup_teardown(answers_go_with_the_circles, begin, end),
        cmocka_unit_test_setup_teardown(many_communicators, begin, end),
    };
    tug_host.Comm_create_keyval = create_keyval;
    tug_host.Comm_get_attr = get_attr;
    tug_host.Comm_set_attr = set_attr;
    tug_host.Comm_test_inter = test_inter;
    tug_host.Comm_group = comm_group;
    tug_host.Group_size = group_size;
    tug_host.Group_translate_ranks = translate_ranks;
    tug_host.Group_free = group_free;
    return cmocka_run_group_tests_name("wait_group", tests, NULL, NULL);
}

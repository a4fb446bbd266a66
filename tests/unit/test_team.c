/* Which team a communicator has, and how often the host is asked for it. */
#include <mpi.h>

#include "check.h"
#include "host/host.h"
#include "node/team.h"

#define HANDLE(i) ((MPI_Comm)(intptr_t)(INT32_MIN + 0x04000000 + (i))) /* as MPICH's are */
#define INDEX(comm) ((int)(intptr_t)(comm)&1)

static struct tug_team teams[3];
static struct tug_team *attributes[2]; /* of two communicators */
static MPI_Comm_delete_attr_function *deleted;
static unsigned asked;

static int create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *del,
                         int *key, void *state) {
    (void)copy, (void)state;
    deleted = del;
    *key = 7;
    return MPI_SUCCESS;
}

static int get_attr(MPI_Comm comm, int key, void *value, int *flag) {
    asked++;
    assert_int_equal(key, 7);
    *flag = 1;
    *(void **)value = attributes[INDEX(comm)];
    return MPI_SUCCESS;
}

static const struct tug_team *team_of(int i) {
    struct tug_team *team;
    assert_int_equal(tug_team_get(HANDLE(i), &team), 0);
    return team;
}

static int begin(void **state) {
    (void)state;
    attributes[0] = &teams[0];
    attributes[1] = &teams[1];
    return 0;
}

static void the_host_is_asked_once(void **state) {
    (void)state;
    assert_ptr_equal(team_of(0), &teams[0]);
    asked = 0;
    for (int i = 0; i < 100; i++)
        assert_ptr_equal(team_of(0), &teams[0]);
    assert_int_equal(asked, 0);
    assert_ptr_equal(team_of(1), &teams[1]);
    assert_ptr_equal(team_of(0), &teams[0]);
}

/* The team stays: tug_team_finalize() has said so. */
static void a_handle_that_comes_back_is_another_communicator(void **state) {
    (void)state;
    assert_ptr_equal(team_of(0), &teams[0]);
    deleted(HANDLE(0), 7, &teams[0], NULL);
    attributes[0] = &teams[2];
    assert_ptr_equal(team_of(0), &teams[2]);
    assert_ptr_equal(team_of(1), &teams[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_host_is_asked_once, begin),
        cmocka_unit_test_setup(a_handle_that_comes_back_is_another_communicator, begin),
    };
    tug_host.Comm_create_keyval = create_keyval;
    tug_host.Comm_get_attr = get_attr;
    tug_team_finalize(true);
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}

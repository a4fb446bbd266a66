/* A polite MPI_Waitall: what it asks the host, and how much of the array. */
#include <mpi.h>

#include "check.h"
#include "host/host.h"
#include "pmpi/blocking.h"

enum { N = 2000, ASIDE = 7 }; /* every so-manieth is inactive from the beginning */

#define HANDLE(i) ((MPI_Request)(intptr_t)(1000 + (i)))
#define INDEX(request) ((int)(intptr_t)(request)-1000)

static MPI_Request requests[N];
static MPI_Status statuses[N];
static bool done[N], taken[N];
static int order[N];    /* in which they end, one a look */
static int ended, most; /* so many have, of so many */
static unsigned long looked_at;
static int fails; /* this one ends with an error */

static bool is_inactive(MPI_Request request) {
    return request == MPI_REQUEST_NULL || INDEX(request) % ASIDE == 0;
}

static int testsome(int n, MPI_Request list[], int *ndone, int indices[], MPI_Status got[]) {
    int active = 0, error = MPI_SUCCESS;
    *ndone = 0;
    looked_at += (unsigned long)n;
    if (ended < most)
        done[order[ended++]] = true;
    for (int i = 0; i < n; i++) {
        active += !is_inactive(list[i]);
        if (is_inactive(list[i]) || !done[INDEX(list[i])])
            continue;
        assert_false(taken[INDEX(list[i])]);
        taken[INDEX(list[i])] = true;
        got[*ndone] = (MPI_Status){.MPI_TAG = INDEX(list[i])};
        got[*ndone].MPI_ERROR = INDEX(list[i]) == fails ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
        error = INDEX(list[i]) == fails ? MPI_ERR_IN_STATUS : error;
        indices[(*ndone)++] = i;
        list[i] = MPI_REQUEST_NULL;
    }
    *ndone = active == 0 ? MPI_UNDEFINED : *ndone;
    return error;
}

static int wait_for_none(MPI_Request *request, MPI_Status *status) {
    assert_true(*request == MPI_REQUEST_NULL);
    *status = (MPI_Status){.MPI_TAG = MPI_ANY_TAG};
    return MPI_SUCCESS;
}

/* How they end: one behind the other, the last one first, or in any order. */
static int end_at(int how, int n, int i, uint64_t *state) {
    return how == 0 ? i : how == 1 ? n - 1 - i : (int)(check_draw(state) % (uint64_t)(i + 1));
}

static void shuffle(int how, int n) {
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < n; i++) {
        int at = end_at(how, n, i, &state);
        order[i] = how < 2 ? at : order[at];
        if (how == 2)
            order[at] = i;
        done[i] = taken[i] = false;
        requests[i] = HANDLE(i);
    }
    most = n;
    ended = 0;
    looked_at = 0;
}

static void check_all_taken(int n) {
    for (int i = 0; i < n; i++) {
        const bool active = i % ASIDE != 0;
        assert_int_equal(taken[i], active);
        assert_true(requests[i] == (active ? MPI_REQUEST_NULL : HANDLE(i)));
        assert_int_equal(statuses[i].MPI_TAG, active ? i : MPI_ANY_TAG);
    }
}

static void it_costs_a_few_looks_at_the_array(void **state) {
    (void)state;
    fails = -1;
    for (int how = 0; how < 3; how++) {
        shuffle(how, N);
        assert_int_equal(tug_blocking_waitall(N, requests, statuses), MPI_SUCCESS);
        check_all_taken(N);
        assert_true(looked_at <= 40 * N);
    }
}

static void any_number_of_them(void **state) {
    (void)state;
    fails = -1;
    for (int n = 1; n < 100; n++) {
        shuffle(2, n);
        assert_int_equal(tug_blocking_waitall(n, requests, statuses), MPI_SUCCESS);
        check_all_taken(n);
    }
}

static void an_error_is_told_with_the_status(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        shuffle(how, N);
        fails = 1234;
        assert_int_equal(tug_blocking_waitall(N, requests, statuses), MPI_ERR_IN_STATUS);
        check_all_taken(N);
        for (int i = 0; i < N; i++)
            assert_int_equal(statuses[i].MPI_ERROR, i == fails ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_costs_a_few_looks_at_the_array),
        cmocka_unit_test(any_number_of_them),
        cmocka_unit_test(an_error_is_told_with_the_status),
    };
    tug_host.Testsome = testsome;
    tug_host.Wait = wait_for_none;
    return cmocka_run_group_tests_name("waitall", tests, NULL, NULL);
}

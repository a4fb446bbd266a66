/* A window keeps of its targets what was used: what waits for all of them visits those, and the
 * pages of the others are closed while it waits. */
#include <stdlib.h>
#include <sys/mman.h>

#include "check.h"
#include "engine/engine.h"
#include "llcl/private.h"
#include "rma/epoch.h"
#include "rma/remote.h"
#include "rma/window.h"

enum { TARGETS = 20000, PAGE = 4096 };
static const int used[] = {0, 77, 7777, TARGETS - 1};
enum { USED = sizeof(used) / sizeof(used[0]) };

static struct tug_context context; /* of a process without neighbours */
static struct tug_domain domain = {.context = &context};
static struct tug_remote *remote;
static struct tug_window window;
static size_t bytes;

static int open_window(void **state) {
    (void)state;
    bytes = sizeof(*remote) + TARGETS * sizeof(remote->targets[0]);
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    remote = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(remote, MAP_FAILED);
    remote->nranks = TARGETS;
    remote->domain = &domain;
    window = (struct tug_window){.remote = remote, .lane = &tug_remote_lane};
    assert_true(tug_epochs_init(&window.epochs, TARGETS));
    return 0;
}

static int close_window(void **state) {
    (void)state;
    tug_epochs_fini(&window.epochs);
    while (remote->used != NULL) {
        struct tug_remote_state *first = remote->used;
        remote->used = first->next;
        free(first);
    }
    return munmap(remote, bytes);
}

/* Has an operation of this value been started there? It lands at once. */
static void use(int rank, int status) {
    assert_int_equal(tug_remote_contact(remote, rank), MPI_SUCCESS);
    const struct tug_callback end =
        tug_outstanding_start(&tug_remote_state_of(remote, rank)->peer.remote);
    end.f(end.d, status);
}

static bool on_page(const void *from, size_t size, size_t page) {
    const size_t first = (size_t)((const char *)from - (const char *)remote);
    return first < (page + 1) * PAGE && first + size > page * PAGE;
}

/* Nobody may touch a page on which there is nothing of what was used. */
static void close_the_others(int protection) {
    for (size_t page = 0; page < bytes / PAGE; page++) {
        bool is_used = on_page(remote, sizeof(*remote), page);
        for (int i = 0; i < USED; i++)
            is_used |= on_page(&remote->targets[used[i]], sizeof(remote->targets[0]), page);
        if (!is_used)
            assert_int_equal(mprotect((char *)remote + page * PAGE, PAGE, protection), 0);
    }
}

static void all_that_is_waited_for_was_used(void **state) {
    (void)state;
    for (int i = 0; i < USED; i++)
        use(used[i], 0);
    close_the_others(PROT_NONE);
    for (int round = 0; round < 3; round++) {
        use(used[round], 0);
        assert_int_equal(tug_remote_lane.flush_all(&window, round % 2), MPI_SUCCESS);
        assert_int_equal(tug_remote_lane.unlock_all(&window, true), MPI_SUCCESS);
    }
    close_the_others(PROT_READ | PROT_WRITE);
}

static void each_of_them_is_waited_for(void **state) {
    (void)state;
    for (int i = 0; i < USED; i++) {
        use(used[i], 0);
        use(used[i], TUG_ERR_RANGE);
        assert_int_equal(tug_remote_lane.flush_all(&window, false), MPI_ERR_RMA_RANGE);
        assert_int_equal(tug_remote_lane.flush_all(&window, false), MPI_SUCCESS);
    }
}

static void a_target_is_listed_once(void **state) {
    (void)state;
    int n = 0;
    for (int i = 0; i < 3 * USED; i++)
        use(used[i % USED], 0);
    for (const struct tug_remote_state *its = remote->used; its != NULL; its = its->next)
        n++;
    assert_int_equal(n, USED);
}

static void what_was_not_used_costs_little(void **state) {
    (void)state;
    for (int i = 0; i < USED; i++)
        use(used[i], 0);
    for (int r = 0, i = 0; r < TARGETS; r++) {
        const struct tug_remote_state *its = tug_remote_state_of(remote, r);
        if (r == used[i])
            assert_ptr_equal(its->target, &remote->targets[used[i++]]);
        else
            assert_null(its);
        i %= USED;
    }
    const size_t each = tug_remote_footprint(1, 0) - tug_remote_footprint(0, 0);
    assert_true(each <= 97); /* a key of 64, what is asked by rank, and its access */
    assert_true(each < tug_remote_footprint(0, 1) - tug_remote_footprint(0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_that_is_waited_for_was_used, open_window, close_window),
        cmocka_unit_test_setup_teardown(each_of_them_is_waited_for, open_window, close_window),
        cmocka_unit_test_setup_teardown(a_target_is_listed_once, open_window, close_window),
        cmocka_unit_test_setup_teardown(what_was_not_used_costs_little, open_window, close_window),
    };
    return cmocka_run_group_tests_name("targets", tests, NULL, NULL);
}

/*
 * gas_turns: whoever waits for a page has it before its owner has it again.
 *
 * Nobody is driven but by calls (TUGBOAT_PROGRESS=caller), and a barrier of the host alone parts
 * the steps. The first rank owns a page whose home, the last rank, makes no call. All others ask
 * for it, one after the other; then the owner asks AGAIN times more. With the argument "near" the
 * home's memory is in reach, and none of those may be complete. Then all get on: the page has gone
 * round in the order of asking, once to each, and is back where it was if its owner had to wait.
 * Arguments: near or far.
 */
#include "gas_check.h"

enum { PAGE = 4096, AGAIN = 40 };

static tug_array *array;
static size_t page;
static struct tug_counter mine;

/* The tug hears nothing of it, and nobody is driven. */
static void step(bool drive) {
    MPI_Request request;
    int all = 0;
    PMPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!all) {
        PMPI_Test(&request, &all, MPI_STATUS_IGNORE);
        if (drive)
            tug_array_progress(array);
        else
            sched_yield();
    }
}

static void ask(void) {
    const struct tug_callback counted = {tug_counter_add, &mine};
    while (!tug_try_array_own_async(array, page * PAGE, 8, counted))
        CHECK(false, "no room for a question");
}

static uint64_t generation(int *owner) {
    struct tug_page_place place;
    GOOD(tug_array_locate(array, page, &place));
    *owner = place.owner;
    return place.generation;
}

/* The first rank has the page, all know it, and nobody wants anything. */
static uint64_t begin(void) {
    uint64_t value;
    int owner;
    if (check_rank == 0)
        GOOD(tug_array_own(array, page * PAGE, 8));
    step(true);
    GOOD(tug_array_get(array, page * PAGE, &value, 8));
    step(true);
    uint64_t g = generation(&owner);
    CHECK(owner == 0, "process %d owns the page", owner);
    step(true);
    return g;
}

static void go_round(bool near) {
    const int waiters = check_nranks - 2, home = check_nranks - 1;
    const uint64_t before = begin();
    mine = (struct tug_counter){0};
    for (int i = 1; i <= waiters; i++) {
        if (check_rank == i) {
            ask();
            for (int k = 0; k < 10; k++) /* the question goes */
                tug_array_progress(array);
        }
        step(false);
    }
    if (check_rank == 0)
        for (int i = 0; i < AGAIN; i++)
            ask();
    if (check_rank == 0 && near)
        CHECK(tug_counter_value(&mine) == 0, "owned again %d times while others wait",
              (int)tug_counter_value(&mine));
    step(false);
    const uint64_t want = check_rank == 0 ? AGAIN : check_rank == home ? 0 : 1;
    while (tug_counter_value(&mine) < want)
        tug_array_progress(array);
    CHECK(mine.status == 0, "%s", tug_strerror(mine.status));
    step(true);
    int owner;
    const uint64_t moves = generation(&owner) - before;
    const bool back = moves == (uint64_t)waiters + 1;
    CHECK(back ? owner == 0 : moves == (uint64_t)waiters && owner == waiters,
          "%llu moves, and process %d owns the page", (unsigned long long)moves, owner);
    CHECK(back || !near, "the owner did not ask its home");
    step(true);
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "gas_turns");
    const bool near = argc > 1 && strcmp(argv[1], "near") == 0;
    CHECK(check_nranks >= 3, "an owner, a home, and somebody who waits");
    page = (size_t)check_nranks - 1;
    struct tug_array_params params = {.size_in_bytes = (page + 1) * PAGE, .page_bytes = PAGE};
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    for (int i = 0; i < 10; i++)
        go_round(near);
    GOOD(tug_array_free(&array));
    return check_end();
}

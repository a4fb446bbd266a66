/*
 * gas_follow: pages come to who uses them, if the program wants it, and come to rest.
 *
 * A page that one rank reads, or writes, again and again becomes its own, with those beside it, and
 * not with others; without automatic moves it stays. A page that is held stays, too, and nobody
 * waits for the hold. Runs that ranks take from one another while they are on their way end, and
 * keep every addition. A page that all ranks add to does, too, and moves less often than every
 * second addition. Argument: "setting": TUGBOAT_ARRAY_MOVES=on says it, not the program.
 */
#include "gas_check.h"

enum { PAGE = 1000, PAGES = 80, MOST = 200000 };

static tug_array *array;

static void barrier(void) {
    check_barrier(MPI_COMM_WORLD);
}

static void create(enum tug_moves moves) {
    const struct tug_array_params params = {
        .size_in_bytes = PAGE * PAGES, .page_bytes = PAGE, .pages_most = PAGES, .moves = moves};
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
}

static struct tug_page_place place_of(size_t page) {
    struct tug_page_place place;
    GOOD(tug_array_locate(array, page, &place));
    return place;
}

/* The last rank uses a page of rank 0's. Returns true if it comes within so many uses. */
static bool comes(size_t page, bool puts, int uses) {
    for (int i = 0; i < uses; i++) {
        uint64_t value = (uint64_t)i, there = 0;
        if (puts)
            GOOD(tug_array_put(array, page * PAGE + 8, &value, 8));
        GOOD(tug_array_get(array, page * PAGE + 8, &there, 8));
        CHECK(there == (puts ? value : 0), "%llu", (unsigned long long)there);
        if (place_of(page).owner == check_nranks - 1)
            return true;
    }
    return false;
}

/* Without a use of its own, soon. */
static bool has_come(size_t page) {
    for (int i = 0; i < MOST; i++) {
        if (place_of(page).owner == check_nranks - 1)
            return true;
        tug_array_progress(array);
    }
    return false;
}

static void alone(enum tug_moves moves) {
    create(moves);
    const int owner = place_of(24).owner;
    if (check_rank == check_nranks - 1) {
        CHECK(comes(1, false, MOST), "a page that is read does not come");
        CHECK(comes(9, true, MOST), "a page that is written does not come");
        CHECK(has_come(3), "a page does not come with those beside it");
        CHECK(place_of(24).owner == owner, "a page comes that nobody uses");
    }
    barrier();
    CHECK(place_of(1).owner == check_nranks - 1, "it has left again");
    GOOD(tug_array_free(&array));
}

static void off(void) {
    create(TUG_MOVES_BY_CALL);
    if (check_rank == check_nranks - 1)
        CHECK(!comes(1, true, 200), "a page comes that should not");
    GOOD(tug_array_free(&array));
}

static void held(enum tug_moves moves) {
    void *address;
    create(moves);
    if (check_rank == 0)
        GOOD(tug_array_hold(array, 1, &address));
    barrier();
    if (check_rank == check_nranks - 1)
        CHECK(!comes(1, true, 500), "a page comes that is held");
    barrier();
    if (check_rank == 0)
        GOOD(tug_array_release(array, 1));
    barrier();
    if (check_rank == check_nranks - 1)
        CHECK(comes(1, true, MOST), "a page does not come that was held");
    GOOD(tug_array_free(&array));
}

/* Runs of pages go to and fro: in each round a rank uses those of the next one. */
static void taken(enum tug_moves moves) {
    enum { RUN = 8, ROUNDS = 40, TIMES = 3 };
    uint64_t sum = 0;
    create(moves);
    for (int i = 0; i < ROUNDS; i++)
        for (int k = 0; k < RUN * TIMES; k++) {
            const size_t run = (size_t)(check_rank + i) % (size_t)check_nranks;
            const size_t page = RUN * run + (size_t)(k * 3 % RUN);
            GOOD(tug_array_fetch_and_op(array, page * PAGE, 8, TUG_ADD, 1, NULL));
        }
    barrier();
    for (size_t page = 0; page < RUN * (size_t)check_nranks; page++) {
        uint64_t value;
        GOOD(tug_array_get(array, page * PAGE, &value, 8));
        sum += value;
    }
    CHECK(sum == (uint64_t)(ROUNDS * RUN * TIMES * check_nranks), "%llu", (unsigned long long)sum);
    GOOD(tug_array_free(&array));
}

static void together(enum tug_moves moves) {
    const int times = check_rounds(2000, 300);
    uint64_t sum = 0;
    create(moves);
    for (int i = 0; i < times; i++)
        GOOD(tug_array_fetch_and_op(array, 5 * PAGE, 8, TUG_ADD, 1, NULL));
    barrier();
    GOOD(tug_array_get(array, 5 * PAGE, &sum, 8));
    CHECK(sum == (uint64_t)times * (uint64_t)check_nranks, "%llu", (unsigned long long)sum);
    GOOD(tug_array_forget(array, 0, PAGE * PAGES));
    const struct tug_page_place place = place_of(5);
    CHECK(place.generation <= sum / 2, "%llu moves", (unsigned long long)place.generation);
    GOOD(tug_array_free(&array));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gas_follow");
    const bool setting = argc > 1 && strcmp(argv[1], "setting") == 0;
    const enum tug_moves moves = setting ? TUG_MOVES_BY_SETTING : TUG_MOVES_AUTOMATIC;
    alone(moves);
    off();
    held(moves);
    taken(moves);
    together(moves);
    return check_end();
}

/*
 * gas_stopped: the first access to a page needs nobody's help on a node.
 *
 * Rank 0 stops all other processes (SIGSTOP), and gets and puts every page of an array, whose homes
 * and owners they are: it finds the places in the homes' memory. Later the others move the pages
 * that it knows, and it finds their words at the new places.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "stopped.h"
#include <tugboat/gas.h>

enum { PAGE = 4096, PAGES = 64 };

static tug_array *array;

static void check_status(int status, const char *what, size_t page) {
    CHECK(status == 0, "%s of page %zu: %s", what, page, tug_strerror(status));
    CHECK(!stopped_late, "%s of page %zu waited for others", what, page);
}

/* Each page has two words: its owner's at first, and rank 0's. */
static void access_all(void) {
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t word = 0;
        check_status(tug_array_get(array, page * PAGE, &word, sizeof word), "get", page);
        CHECK(word == check_word(1, page, 0), "page %zu has 0x%llx", page,
              (unsigned long long)word);
        word = check_word(2, page, 0);
        check_status(tug_array_put(array, page * PAGE + 8, &word, sizeof word), "put", page);
    }
}

/* To another rank each. */
static void move_all(void) {
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t words[2];
        if ((page + 1) % (size_t)check_nranks == (size_t)check_rank)
            CHECK(tug_array_own(array, page * PAGE, PAGE) == 0, "a move");
        CHECK(tug_array_get(array, page * PAGE, words, sizeof words) == 0, "a get");
        CHECK(words[0] == check_word(1, page, 0) && words[1] == check_word(2, page, 0),
              "page %zu after the moves", page);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gas_stopped");
    stopped_meet();
    const struct tug_array_params params = {.size_in_bytes = (size_t)PAGES * PAGE,
                                            .page_bytes = PAGE,
                                            .placement = TUG_PLACE_BLOCK,
                                            .moves = TUG_MOVES_BY_CALL};
    CHECK(tug_array_create(MPI_COMM_WORLD, &params, &array) == 0, "an array");
    for (struct tug_local_page it = {0}; tug_array_next(array, &it);)
        *(uint64_t *)it.address = check_word(1, it.page, 0);
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        stopped_begin();
        access_all();
        stopped_end();
    }
    check_barrier(MPI_COMM_WORLD);
    move_all();
    check_barrier(MPI_COMM_WORLD);
    CHECK(tug_array_free(&array) == 0, "the array's end");
    return check_end();
}

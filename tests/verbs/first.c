/*
 * first: what the first access to memory of another rank takes of the card and of the library.
 *
 * 2 ranks over the stand-in card (run_mpi.sh --nodes card). Rank 1 registers memory, again and
 * again under another key number; rank 0 copies from it or to it by ACP, for the first time and
 * once more. The first copy is two requests of rank 0's card: a READ of the entry in rank 1's table
 * and the copy itself. The second is the copy alone. Rank 1's card and library do nothing. A copy
 * from memory that is not registered is one READ, of the entry, and is refused. Data are checked.
 *
 * Then rank 0 gets and puts pages of an array whose home and owner is rank 1. The first one of all
 * asks rank 1. The first access to any other is three requests: a CAS by which rank 0 becomes known
 * to the home, a READ of the page's record, and the access; the next one is the access alone. Rank
 * 1 does nothing.
 */
#include "card_counts.h"
#include <acp.h>
#include <unistd.h>
#include <tugboat/gas.h>

enum { ROUNDS = 6, BYTES = 4096 };

struct shared {
    acp_ga_t ga;
    uint64_t data[BYTES / 8];
};

static struct shared *own;        /* in starter memory */
static acp_ga_t own_ga, other_ga; /* of `data` here; of the other rank's starter memory */
static uint64_t memory[ROUNDS][BYTES / 8];

/* The bars: what one call takes at rank 0. */
struct bar {
    uint64_t reads, writes, swaps;
};

static void hold(const char *what, const struct counts *before, const struct bar *bar) {
    struct counts now;
    count(&now);
    const uint64_t *had = before->card.requests, *has = now.card.requests;
    printf("%-28s %2llu READ %2llu WRITE %2llu CAS %2llu packets\n", what,
           (unsigned long long)(has[FAKE_READ] - had[FAKE_READ]),
           (unsigned long long)(has[FAKE_WRITE] - had[FAKE_WRITE]),
           (unsigned long long)(has[FAKE_CMP_AND_SWP] - had[FAKE_CMP_AND_SWP]),
           (unsigned long long)(now.library[0] - before->library[0]));
    CHECK(has[FAKE_READ] - had[FAKE_READ] == bar->reads, "%s: READ", what);
    CHECK(has[FAKE_WRITE] - had[FAKE_WRITE] == bar->writes, "%s: WRITE", what);
    CHECK(has[FAKE_CMP_AND_SWP] - had[FAKE_CMP_AND_SWP] == bar->swaps, "%s: CAS", what);
    CHECK(sum_of(has) - sum_of(had) == bar->reads + bar->writes + bar->swaps, "%s: other requests",
          what);
    CHECK(now.library[0] == before->library[0], "%s: packets", what);
}

static void copy(const char *what, acp_ga_t to, acp_ga_t from, struct bar bar, int error) {
    struct counts before;
    count(&before);
    (void)acp_query_rank(ACP_GA_NULL); /* leaves TUG_ERR_INVALID */
    acp_complete(acp_copy(to, from, BYTES, ACP_HANDLE_NULL));
    CHECK(ACP_ERRNO == (error != 0 ? error : TUG_ERR_INVALID), "%s: %s", what,
          tug_strerror(ACP_ERRNO));
    hold(what, &before, &bar);
}

/* Rank 0, in round r. */
static void origin(uint64_t r) {
    const acp_ga_t there = own->ga, elsewhere = there + (UINT64_C(9) << 34);
    if (r % 2) {
        check_fill(own->data, BYTES, 0, r);
        copy("first copy to", there, own_ga, (struct bar){1, 1}, 0);
        copy("second copy to", there, own_ga, (struct bar){0, 1}, 0);
    } else {
        copy("first copy from", own_ga, there, (struct bar){2, 0}, 0);
        copy("second copy from", own_ga, there, (struct bar){1, 0}, 0);
        check_same(own->data, BYTES, 0, r, "copy from", __LINE__);
    }
    copy("not registered", own_ga, elsewhere, (struct bar){1, 0}, TUG_ERR_KEY);
}

/* Rank 0 does it; rank 1 does nothing for it. */
static void without_the_owner(void (*operate)(uint64_t r), uint64_t r) {
    struct counts before, after;
    check_barrier(MPI_COMM_WORLD);
    count(&before);
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        operate(r);
    check_barrier(MPI_COMM_WORLD);
    count(&after);
    check_barrier(MPI_COMM_WORLD); /* then rank 0 goes on, to acp_finalize() for one */
    CHECK(check_rank == 0 || sum_of(after.card.requests) == sum_of(before.card.requests),
          "the owner's card has %llu requests",
          (unsigned long long)(sum_of(after.card.requests) - sum_of(before.card.requests)));
    CHECK(check_rank == 0 || after.library[0] == before.library[0], "the owner sends packets");
}

static void run_round(uint64_t r) {
    if (check_rank == 1) {
        check_fill(memory[r], BYTES, 0, r);
        own->ga = acp_query_ga(acp_register_memory(memory[r], BYTES, 0), memory[r]);
        CHECK(own->ga != ACP_GA_NULL, "register: %s", tug_strerror(ACP_ERRNO));
    }
    check_barrier(MPI_COMM_WORLD);
    if (check_rank ==
        0) { /* the way is known then, and starter memory's key has been from the start */
        struct counts begun;
        count(&begun);
        acp_complete(acp_copy(own_ga - sizeof own->ga, other_ga, sizeof own->ga, ACP_HANDLE_NULL));
        if (r > 0)
            hold("copy from starter memory", &begun, &(struct bar){1, 0});
    }
    without_the_owner(origin, r);
    if (check_rank == 1 && r % 2)
        check_same(memory[r], BYTES, 0, r, "copy to", __LINE__);
}

/* ---- arrays ---- */

static tug_array *array;

/* One page, twice. */
static void access_page(uint64_t page) {
    static uint64_t data[BYTES / 8];
    const char *const names[2][2] = {{"first get", "second get"}, {"first put", "second put"}};
    const uint64_t puts = page / 2 % 2;
    for (uint64_t again = 0; again < 2; again++) {
        struct counts before;
        if (puts)
            check_fill(data, BYTES, page, 1);
        count(&before);
        const int status = puts ? tug_array_put(array, page * BYTES, data, BYTES)
                                : tug_array_get(array, page * BYTES, data, BYTES);
        CHECK(status == 0, "%s: %s", names[puts][again], tug_strerror(status));
        if (page > 1)
            hold(names[puts][again], &before,
                 &(struct bar){.reads = !again + !puts, .writes = puts, .swaps = !again});
        if (!puts)
            check_same(data, BYTES, page, 1, names[puts][again], __LINE__);
    }
}

static void run_array(void) {
    const struct tug_array_params params = {.size_in_bytes = 2 * ROUNDS * BYTES,
                                            .page_bytes = BYTES,
                                            .placement = TUG_PLACE_CYCLIC,
                                            .moves = TUG_MOVES_BY_CALL};
    CHECK(tug_array_create(MPI_COMM_WORLD, &params, &array) == 0, "an array");
    for (uint64_t page = 1; page < 2 * ROUNDS; page += 2) {
        check_fill(memory[0], BYTES, page, page / 2 % 2 ? 0 : 1);
        if (check_rank == 1)
            CHECK(tug_array_put(array, page * BYTES, memory[0], BYTES) == 0, "a put here");
    }
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        access_page(1);
    check_barrier(MPI_COMM_WORLD);
    usleep(50000); /* the key of the records has come */
    for (uint64_t page = 3; page < 2 * ROUNDS; page += 2) {
        without_the_owner(access_page, page);
        if (check_rank == 1)
            CHECK(tug_array_get(array, page * BYTES, memory[0], BYTES) == 0, "a get here");
        if (check_rank == 1)
            check_same(memory[0], BYTES, page, 1, "a page", __LINE__);
        check_barrier(MPI_COMM_WORLD);
    }
    CHECK(tug_array_free(&array) == 0, "the array's end");
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "first");
    CHECK(check_nranks == 2, "2 ranks");
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    begin_counting();
    const acp_ga_t starter = acp_query_starter_ga(check_rank);
    own = acp_query_address(starter);
    own_ga = starter + sizeof own->ga;
    other_ga = acp_query_starter_ga(1 - check_rank);
    for (uint64_t r = 0; r < ROUNDS; r++)
        run_round(r);
    run_array();
    end_counting();
    CHECK(acp_finalize() == 0, "acp_finalize");
    return check_end();
}

/*
 * gas_basic: relocatable global arrays against an oracle.
 *
 * Arrays of several shapes. All ranks know what must be in them: ranges of all kinds are written
 * and read in turn by everybody, pages are taken, sent away, held and walked through in between,
 * with so few places remembered that most have to be asked for again; integers are added to by all;
 * copies stay as they were until they are dropped.
 */
#include "gas_check.h"

static tug_array *array;
static size_t bytes, page_bytes, npages;
static unsigned char *oracle, *here;

static void barrier(void) {
    check_barrier(MPI_COMM_WORLD);
}

/* ---- blocking and not ---- */

static void count(void *d, int status) {
    GOOD(status);
    __atomic_fetch_add((int *)d, 1, __ATOMIC_SEQ_CST);
}

static void get(size_t index, void *to, size_t n, bool async) {
    int done = 0;
    if (!async) {
        GOOD(tug_array_get(array, index, to, n));
        return;
    }
    while (!tug_try_array_get_async(array, index, to, n, (struct tug_callback){count, &done}))
        tug_array_progress(array);
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) == 0)
        tug_array_progress(array);
    CHECK(done == 1, "%d callbacks", done);
}

static void put(size_t index, const void *from, size_t n, bool async) {
    int done = 0;
    if (!async) {
        GOOD(tug_array_put(array, index, from, n));
        return;
    }
    while (!tug_try_array_put_async(array, index, from, n, (struct tug_callback){count, &done}))
        tug_array_progress(array);
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) == 0)
        tug_array_progress(array);
}

static void compare(size_t index, size_t n, bool async) {
    memset(here, 0xee, n);
    get(index, here, n, async);
    for (size_t i = 0; i < n; i++)
        CHECK(here[i] == oracle[index + i], "byte %zu is 0x%02x, not 0x%02x", index + i, here[i],
              oracle[index + i]);
}

/* ---- the matter ---- */

/* Every rank writes the pieces that are its own, and all know them. */
static void write_and_read(uint64_t round) {
    struct check_rng rng = {round << 32};
    for (int i = 0; i < 8; i++) {
        int writer = (int)(check_draw(&rng) % (uint64_t)check_nranks);
        size_t index = check_draw(&rng) % bytes;
        size_t n = check_draw(&rng) % (3 * page_bytes) + 1;
        if (n > bytes - index)
            n = bytes - index;
        check_fill(oracle + index, n, (uint64_t)writer, round * 100 + (uint64_t)i);
        if (writer == check_rank)
            put(index, oracle + index, n, i & 1);
        if (i % 4 == 3) { /* pieces may overlap */
            barrier();
            compare(index, n, i & 4);
            barrier();
        } else if (check_nranks > 1) {
            barrier();
        }
    }
    compare(0, bytes, round & 1);
    barrier();
}

/* Homes of the program's: uneven, and the last rank's alone for the first pages. */
static int calls, expected_context;

static int uneven_home(size_t page, int nranks, void *d) {
    CHECK(d == &expected_context && page == (size_t)calls++, "page %zu is asked for", page);
    return page < 4 ? nranks - 1 : (int)(page * page / 3 % (size_t)nranks);
}

static int expected_home(size_t page) {
    if (calls == 0)
        return (int)(page % (size_t)check_nranks);
    return page < 4 ? check_nranks - 1 : (int)(page * page / 3 % (size_t)check_nranks);
}

static void take_and_send(uint64_t round) {
    size_t index = (size_t)check_rank * (bytes / (size_t)check_nranks);
    size_t n = bytes / (size_t)check_nranks;
    if (round % 2 == 0) {
        index = (size_t)((check_rank + 1) % check_nranks) * (bytes / (size_t)check_nranks);
        if (n > 10 * page_bytes)
            n = 10 * page_bytes;
        GOOD(tug_array_own(array, index, n));
    } else {
        struct tug_page_place place;
        size_t page = (index + (size_t)round) / page_bytes;
        int to = (check_rank + 1) % check_nranks;
        GOOD(tug_array_move(array, page, to));
        GOOD(tug_array_locate(array, page, &place));
        CHECK(place.home == expected_home(page) && place.owner >= 0 && place.owner < check_nranks &&
                  place.offset % page_bytes == 0,
              "page %zu: home %d, owner %d", page, place.home, place.owner);
    }
    barrier();
}

/* Every page is held by one rank, and all that is in them is right. */
static void walk(void) {
    struct tug_local_page it = {0};
    unsigned long long mine = 0, all;
    MPI_Request request;
    while (tug_array_next(array, &it)) {
        size_t start = it.page * page_bytes;
        size_t n = bytes - start < page_bytes ? bytes - start : page_bytes;
        CHECK(memcmp(it.address, oracle + start, n) == 0, "page %zu is wrong", it.page);
        if (++mine % 2 == 0) {
            void *address;
            GOOD(tug_array_hold(array, it.page, &address));
            CHECK(address == it.address, "two places of page %zu", it.page);
            GOOD(tug_array_release(array, it.page));
        }
    }
    CHECK(it.address == NULL, "a page is held still");
    MUST(MPI_Iallreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD, &request));
    check_wait(&request);
    CHECK(all == npages, "%llu of %zu pages", all, npages);
    barrier();
}

static void add(void) {
    enum { TIMES = 20 };
    size_t index = bytes / 2 / 64 * 64;
    uint64_t zero = 0, old, sum;
    uint32_t old4;
    if (check_rank == 0)
        put(index, &zero, 8, false);
    barrier();
    for (int i = 0; i < TIMES; i++) {
        GOOD(tug_array_fetch_and_op(array, index, 4, TUG_ADD, 1, &old4));
        CHECK(old4 < (uint32_t)(TIMES * check_nranks), "%u", old4);
        GOOD(tug_array_fetch_and_op(array, index + 4, 4, TUG_ADD, 2, NULL));
        if (i == TIMES / 2)
            GOOD(tug_array_own(array, index, 1));
    }
    barrier();
    GOOD(tug_array_fetch_and_op(array, index, 8, TUG_OR, 0, &old));
    sum = (uint64_t)(TIMES * check_nranks);
    CHECK(old == (sum | sum * 2 << 32), "%llx", (unsigned long long)old);
    barrier();
    if (check_rank == 0)
        put(index, oracle + index, 8, false);
    barrier();
}

/* Copies do not change by themselves. */
static void copies(size_t most) {
    size_t n = page_bytes * (most < 4 ? most : 4);
    if (n > bytes)
        n = bytes;
    unsigned char *then = malloc(n);
    GOOD(tug_array_refresh(array, 0, n));
    memcpy(then, oracle, n);
    barrier();
    check_fill(oracle, n, 99, 1);
    if (check_rank == 0)
        put(0, oracle, n, false);
    barrier();
    GOOD(tug_array_get_copy(array, 0, here, n));
    CHECK(memcmp(here, then, n) == 0, "a copy changed by itself");
    GOOD(tug_array_invalidate(array, 0, n / 2));
    GOOD(tug_array_get_copy(array, 0, here, n / 2));
    CHECK(memcmp(here, oracle, n / 2) == 0, "an old copy is back");
    GOOD(tug_array_refresh(array, 0, n));
    GOOD(tug_array_get_copy(array, n / 3, here, n - n / 3));
    CHECK(memcmp(here, oracle + n / 3, n - n / 3) == 0, "a copy was not refreshed");
    for (size_t i = 0; i < bytes; i += page_bytes / 2) { /* more than there is room for */
        size_t left = bytes - i < 100 ? bytes - i : 100;
        GOOD(tug_array_get_copy(array, i, here, left));
        CHECK(memcmp(here, oracle + i, left) == 0, "the copy of %zu", i);
    }
    free(then);
    barrier();
}

static void run(const struct tug_array_params *params) {
    bytes = params->size_in_bytes;
    page_bytes = params->page_bytes;
    GOOD(tug_array_create(MPI_COMM_WORLD, params, &array));
    npages = tug_array_pages(array);
    CHECK(tug_array_size(array) == bytes && tug_array_page_bytes(array) == page_bytes &&
              npages == (bytes + page_bytes - 1) / page_bytes,
          "facts");
    oracle = calloc(1, bytes);
    here = malloc(bytes + 3 * page_bytes);
    compare(0, bytes, false);
    barrier();
    for (uint64_t round = 0; round < (uint64_t)check_rounds(4, 2); round++) {
        write_and_read(round);
        take_and_send(round);
        GOOD(tug_array_forget(array, 0, bytes / 2));
        walk();
    }
    if (bytes >= 8)
        add();
    if (params->copies_most > 0)
        copies(params->copies_most);
    free(oracle);
    free(here);
    GOOD(tug_array_free(&array));
    CHECK(array == NULL, "the handle");
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gas_basic");
    run(&(struct tug_array_params){.size_in_bytes = 64 * 50 + 13,
                                   .page_bytes = 64,
                                   .placement = TUG_PLACE_CYCLIC,
                                   .pages_most = 51,
                                   .places = 3,
                                   .copies_most = 6});
    run(&(struct tug_array_params){
        .size_in_bytes = 4096 * 9, .page_bytes = 4096, .copies_most = 3});
    run(&(struct tug_array_params){.size_in_bytes = 3 * 131072 - 1,
                                   .page_bytes = 131072,
                                   .placement = TUG_PLACE_CYCLIC,
                                   .places = 1,
                                   .copies_most = 100});
    run(&(struct tug_array_params){.size_in_bytes = 72 * 41 + 5,
                                   .page_bytes = 72,
                                   .placement = TUG_PLACE_CYCLIC,
                                   .pages_most = 42,
                                   .places = 4,
                                   .copies_most = 5});
    run(&(struct tug_array_params){.size_in_bytes = 1024 * 37,
                                   .page_bytes = 1024,
                                   .pages_most = 37,
                                   .places = 5,
                                   .home = uneven_home,
                                   .home_context = &expected_context});
    CHECK(calls == 37, "%d calls", calls);
    calls = 0;
    run(&(struct tug_array_params){
        .size_in_bytes = 5000 * 13 - 8, .page_bytes = 5000, .copies_most = 3});
    run(&(struct tug_array_params){.size_in_bytes = 5, .page_bytes = 64, .copies_most = 1});
    return check_end();
}

/*
 * gas_grow: pages come and go at the end of an array.
 *
 * An array grows and shrinks at random, while its pages move and are written in between: old bytes
 * are kept, new ones are zeros, also those that were written before the array shrank, in every
 * process. Memory follows: what is reserved is not taken, and what has gone is given back.
 */
#include "gas_check.h"

static tug_array *array;
static unsigned char *oracle, *here;

static void barrier(void) {
    check_barrier(MPI_COMM_WORLD);
}

static void compare(size_t n) {
    memset(here, 0xee, n);
    GOOD(tug_array_get(array, 0, here, n));
    for (size_t i = 0; i < n; i++)
        CHECK(here[i] == oracle[i], "byte %zu is 0x%02x, not 0x%02x", i, here[i], oracle[i]);
    barrier();
}

/* Everybody takes some pages, one rank writes a piece, and all know it. */
static void use(struct check_rng *rng, size_t bytes, uint64_t round) {
    size_t index = check_draw(rng) % bytes, n = check_draw(rng) % 3000 + 1;
    int writer = (int)(check_draw(rng) % (uint64_t)check_nranks);
    size_t taken = (index + (size_t)check_rank * 700) % bytes;
    if (n > bytes - index)
        n = bytes - index;
    GOOD(tug_array_own(array, taken, bytes - taken < 500 ? bytes - taken : 500));
    check_fill(oracle + index, n, (uint64_t)writer, round);
    if (writer == check_rank)
        GOOD(tug_array_put(array, index, oracle + index, n));
    barrier();
}

static void resize(const struct tug_array_params *params) {
    struct check_rng rng = {7};
    size_t bytes = params->size_in_bytes;
    oracle = calloc(1, params->size_most);
    here = malloc(params->size_most);
    GOOD(tug_array_create(MPI_COMM_WORLD, params, &array));
    for (uint64_t round = 0; round < (uint64_t)check_rounds(24, 10); round++) {
        for (int i = 0; i < 3; i++)
            use(&rng, bytes, round * 3 + (uint64_t)i);
        compare(bytes);
        size_t to = round == 1 ? params->size_most : check_draw(&rng) % params->size_most + 1;
        if (to >= bytes) {
            GOOD(tug_array_grow(array, to));
        } else {
            GOOD(tug_array_shrink(array, to));
            memset(oracle + to, 0, bytes - to);
        }
        bytes = to;
        CHECK(tug_array_size(array) == bytes &&
                  tug_array_pages(array) == (bytes - 1) / params->page_bytes + 1,
              "the size");
        FAILS(TUG_ERR_RANGE, tug_array_get(array, bytes, here, 1));
        compare(bytes);
    }
    GOOD(tug_array_free(&array));
    free(oracle);
    free(here);
}

static int last_home(size_t page, int nranks, void *d) {
    (void)page, (void)d;
    return nranks - 1;
}

static void wrong(void) {
    struct tug_array_params params = {
        .size_in_bytes = 1000, .page_bytes = 64, .size_most = 10000, .home = last_home};
    void *address;
    struct tug_page_place place;
    params.size_most = 999;
    FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params, &array));
    params.size_most = 10000;
    params.pages_most = 100;
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    FAILS(TUG_ERR_INVALID, tug_array_grow(NULL, 1));
    FAILS(TUG_ERR_RANGE, tug_array_grow(array, 999));
    FAILS(TUG_ERR_RANGE, tug_array_grow(array, 20000));
    FAILS(TUG_ERR_RANGE, tug_array_shrink(array, 1001));
    FAILS(TUG_ERR_RANGE, tug_array_shrink(array, 0));
    if (check_nranks > 1)
        FAILS(TUG_ERR_INVALID, tug_array_grow(array, 2000 + (size_t)check_rank));
    FAILS(TUG_ERR_NO_MEMORY, tug_array_grow(array, 10000)); /* 157 pages at one home */
    CHECK(tug_array_size(array) == 1000, "it has grown");
    GOOD(tug_array_grow(array, 5000));
    GOOD(tug_array_locate(array, 70, &place));
    CHECK(place.owner == check_nranks - 1, "a new page is not at its home");
    barrier();
    if (check_rank == check_nranks - 1)
        GOOD(tug_array_hold(array, 70, &address));
    FAILS(TUG_ERR_STATE, tug_array_shrink(array, 1000));
    if (check_rank == check_nranks - 1)
        GOOD(tug_array_release(array, 70));
    GOOD(tug_array_shrink(array, 1000));
    GOOD(tug_array_free(&array));
}

/* KiB that this process has touched, of files shared or of its own: a process alone on its node
 * shares none. */
static size_t touched_kib(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "RssShmem:", 9) == 0 || strncmp(line, "RssAnon:", 8) == 0)
            kib += (size_t)strtoul(strchr(line, ':') + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* Whoever has pages is asked for the memory that they are in, of which a network card is told. */
static void read_each_page(void) {
    for (size_t index = 0; index < tug_array_size(array); index += tug_array_page_bytes(array)) {
        unsigned char byte = 1;
        GOOD(tug_array_get(array, index, &byte, 1));
        CHECK(byte == 0, "byte %zu is 0x%02x", index, byte);
    }
    barrier();
}

/* 64 MiB a rank are reserved, and 1 MiB a rank is used; then 8 are, also by others. */
static void memory(void) {
    enum { PAGE = 65536, PAGES = 1024 };
    const size_t first = (size_t)check_nranks * 16 * PAGE;
    const struct tug_array_params params = {.size_in_bytes = first,
                                            .page_bytes = PAGE,
                                            .placement = TUG_PLACE_CYCLIC,
                                            .pages_most = PAGES,
                                            .size_most = (size_t)check_nranks * PAGES * PAGE};
    const size_t before = touched_kib();
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    read_each_page();
    const size_t created = touched_kib();
    CHECK(created < before + 32768, "%zu KiB for 1 MiB", created - before);
    GOOD(tug_array_grow(array, 8 * first));
    const size_t grown = touched_kib();
    CHECK(grown >= created + 6 * 1024, "%zu KiB for 7 MiB", grown - created);
    read_each_page();
    const size_t used = touched_kib();
    CHECK(used < grown + 16384, "%zu KiB more for what others read", used - grown);
    GOOD(tug_array_shrink(array, first));
    const size_t shrunk = touched_kib();
    CHECK(shrunk + 6 * 1024 < grown, "%zu KiB are kept", shrunk - created);
    read_each_page();
    GOOD(tug_array_free(&array));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gas_grow");
    wrong();
    resize(&(struct tug_array_params){.size_in_bytes = 64 * 20,
                                      .page_bytes = 64,
                                      .pages_most = 201,
                                      .places = 7,
                                      .size_most = 64 * 200 + 3});
    resize(&(struct tug_array_params){.size_in_bytes = 5000 * 3,
                                      .page_bytes = 5000,
                                      .placement = TUG_PLACE_CYCLIC,
                                      .pages_most = 20,
                                      .copies_most = 4,
                                      .home = last_home,
                                      .size_most = 5000 * 18});
    memory();
    return check_end();
}

/* Whole conversations about an array among processes of which one lies. The input is a script:
 * honest processes get, put, count, own, move and hold; their calls, answers and copies arrive in
 * any order that LLCL allows; the messages of one process are changed, lost, doubled and made up.
 *
 * Whatever that process says,
 *  - no memory is touched but the arrays' own (the address sanitizer looks);
 *  - each slot of an honest process has one page or is free, once;
 *  - honest processes find no fault with one another;
 *  - every call is answered once, and every operation of an honest process ends;
 *  - pages that the liar has never been the home or the owner of have their data, and operations on
 *    them do not fail.
 *
 * array/ plays what is below; played.h says which part does what. */
#include "array/played.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

tug_array *arrays[RANKS];
bool spoiled[PAGES];
struct reached reached;

/* ---- operations ---- */

#define OPERATIONS 64u

/* Word 0 of a page counts; words 1 to RANKS are each written by one process. The home of a page is
 * believed where the page is: of LIAR's pages, which it may say to be where others are, one word is
 * used that the others do not use. */
#define UNUSED_WORD 6u
struct operation {
    bool out;
    enum { GET, PUT, COUNT, OWN, MOVE, OPERATION_KINDS } kind;
    uint32_t rank;
    uint64_t page, value;
    uint64_t buffer[PAGE / 8];
};
static struct operation operations[OPERATIONS];
static uint64_t counted[PAGES], written[PAGES][RANKS];
static uint64_t uncertain[PAGES]; /* counts that failed, and may have been made */
static bool writes[PAGES][RANKS];
static unsigned held[RANKS][PAGES];

static void ended(void *d, int status) {
    struct operation *one = d;
    REQUIRE(one->out && status <= 0 && status >= TUG_ERR_DEVICE);
    one->out = false;
    reached.operations++;
    reached.failed += status != 0;
    if (one->kind == PUT)
        writes[one->page][one->rank] = false;
    if (status == 0 && one->kind == PUT)
        written[one->page][one->rank] = one->value;
    else if (one->kind == COUNT)
        (status == 0 ? counted : uncertain)[one->page]++;
    if (one->rank == LIAR)
        return;
    if (one->kind <= COUNT)
        REQUIRE(status == 0 || spoiled[one->page]);
}

static bool start(struct operation *one) {
    tug_array *array = arrays[one->rank];
    const size_t index = one->page * PAGE;
    const bool liars = tug_array_home(array, one->page).rank == LIAR;
    const size_t count = index + 8 * (liars ? UNUSED_WORD : 0);
    const size_t own = index + 8 * (liars ? UNUSED_WORD : 1 + one->rank);
    const struct tug_callback on_complete = {ended, one};
    switch (one->kind) {
    case GET:
        return tug_try_array_get_async(array, index, one->buffer, PAGE, on_complete);
    case PUT:
        one->buffer[0] = one->value = written[one->page][one->rank] + 1;
        writes[one->page][one->rank] = true;
        return tug_try_array_put_async(array, own, one->buffer, 8, on_complete);
    case COUNT:
        return tug_try_array_fetch_and_op_async(array, count, 8, TUG_ADD, 1, NULL, on_complete);
    case OWN:
        return tug_try_array_own_async(array, index, PAGE, on_complete);
    default:
        return tug_try_array_move_async(array, one->page, (int)(take() % RANKS), on_complete);
    }
}

static void begin_operation(void) {
    struct operation *one = operations;
    while (one < operations + OPERATIONS && one->out)
        one++;
    if (one == operations + OPERATIONS)
        return;
    *one = (struct operation){
        .kind = take() % OPERATION_KINDS, .rank = take() % RANKS, .page = take() % PAGES};
    if ((one->kind == PUT && writes[one->page][one->rank]) ||
        (one->kind == COUNT && one->rank == LIAR))
        return;
    one->out = true;
    acting = one->rank;
    if (!start(one)) {
        one->out = false;
        writes[one->page][one->rank] &= one->kind != PUT;
    }
}

/* A page that is here and open is held at once. */
static void hold(uint32_t rank, uint64_t page) {
    const struct tug_page *entry = tug_pages_find(&arrays[rank]->pages, page);
    void *address;
    if (entry == NULL || entry->place.owner != rank || !tug_page_known(entry) ||
        (atomic_load(&entry->writers) & TUG_WRITERS_NO_PUTS))
        return;
    REQUIRE(tug_array_hold(arrays[rank], page, &address) == 0);
    held[rank][page]++;
}

static void release(uint32_t rank, uint64_t page) {
    if (held[rank][page] == 0)
        return;
    held[rank][page]--;
    REQUIRE(tug_array_release(arrays[rank], page) == 0);
}

/* ---- what must be so ---- */

static void check_slots(uint32_t rank) {
    const tug_array *array = arrays[rank];
    unsigned used[PAGES] = {0};
    REQUIRE(array->nslots <= PAGES && array->nfree <= array->nslots);
    for (size_t i = 0; i < array->nfree; i++) {
        REQUIRE(array->free_slots[i] < array->nslots);
        REQUIRE(used[array->free_slots[i]]++ == 0);
    }
    for (size_t i = 0; i < array->pages.nentries; i++) {
        const struct tug_page *entry = &array->pages.entries[i];
        if (atomic_load(&entry->page) == TUG_NO_PAGE || !tug_page_known(entry))
            continue;
        REQUIRE(atomic_load(&entry->page) < PAGES);
        REQUIRE(entry->place.owner < RANKS && entry->place.slot < array->nslots);
        if (entry->place.owner == rank)
            REQUIRE(used[entry->place.slot]++ == 0);
    }
}

/* The page's owner, as the one that has it says; pages under way have none or two. */
static const uint64_t *find_page(uint64_t page) {
    const uint64_t *found = NULL;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct tug_page *entry = tug_pages_find(&arrays[rank]->pages, page);
        if (entry == NULL || !tug_page_known(entry) || entry->place.owner != rank)
            continue;
        REQUIRE(found == NULL);
        found = (const uint64_t *)(const void *)tug_slot_address(arrays[rank], entry->place.slot);
    }
    return found;
}

static void check_data(void) {
    for (uint64_t page = 0; page < PAGES; page++) {
        if (spoiled[page])
            continue;
        const uint64_t *words = find_page(page);
        REQUIRE(words != NULL && words[0] == counted[page] && uncertain[page] == 0);
        for (uint32_t rank = 0; rank < LIAR; rank++)
            REQUIRE(words[1 + rank] == written[page][rank]);
    }
}

/* ---- a run ---- */

static void begin_world(void) {
    const struct tug_array_params params = {.size_in_bytes = PAGE * PAGES,
                                            .page_bytes = PAGE,
                                            .pages_most = 6,
                                            .places = 6,
                                            .moves = TUG_MOVES_BY_CALL};
    job_begin();
    memset(operations, 0, sizeof(operations));
    memset(counted, 0, sizeof(counted));
    memset(uncertain, 0, sizeof(uncertain));
    memset(written, 0, sizeof(written));
    memset(writes, 0, sizeof(writes));
    memset(held, 0, sizeof(held));
    for (creating = 0; creating < RANKS; creating++)
        REQUIRE(tug_array_create(MPI_COMM_WORLD, &params, &arrays[creating]) == 0);
    for (uint64_t page = 0; page < PAGES; page++)
        spoiled[page] = tug_array_home(arrays[0], page).rank == LIAR ||
                        tug_array_first_place(arrays[0], TUG_PLACE_BLOCK, page).owner == LIAR;
}

static void drain(void) {
    for (unsigned idle = 0; idle < 8;)
        idle = job_step(0) ? 0 : idle + 1;
}

/* The liar goes. What the others have begun ends, and nothing is left. */
static void end_world(void) {
    script_skip();
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint64_t page = 0; page < PAGES; page++)
            while (held[rank][page] > 0)
                release(rank, page);
    job_lose_liar();
    drain();
    for (unsigned i = 0; i < OPERATIONS; i++)
        REQUIRE(!operations[i].out || operations[i].rank == LIAR);
    for (uint32_t rank = 0; rank < LIAR; rank++)
        check_slots(rank);
    check_data();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank == LIAR) /* nothing that it waits for comes */
            atomic_store(&arrays[rank]->orders_out, 0);
        REQUIRE(tug_array_free(&arrays[rank]) == 0);
    }
    job_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    script_begin(data, bytes);
    begin_world();
    while (!script_is_over()) {
        const unsigned what = take();
        if (what < 64)
            begin_operation();
        else if (what < 80)
            liar_calls();
        else if (what < 88)
            hold(take() % RANKS, take() % PAGES);
        else if (what < 96)
            release(take() % RANKS, take() % PAGES);
        else
            (void)job_step(what - 96);
        for (uint32_t rank = 0; rank < LIAR; rank++)
            check_slots(rank);
    }
    end_world();
    return 0;
}

/* ---- the target ---- */

/* Tells run.sh whether the run was worth its time. */
static void report(void) {
    const bool enough = reached.moved > 1000 && reached.lies > 1000 && reached.refused > 1000 &&
                        reached.kinds == (1u << TUG_CALL_KINDS) - 1 &&
                        reached.operations > 2 * reached.failed;
    fprintf(stderr,
            "reached: %lu calls, %lu lies, %lu messages refused (of kinds %x), %lu changes of "
            "place, %lu operations ended, %lu of them failed: %s\n",
            reached.calls, reached.lies, reached.refused, reached.kinds, reached.moved,
            reached.operations, reached.failed, enough ? "enough" : "too little");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    atexit(report);
    return 0;
}

/*
 * acp_errors: everything that is wrong is refused with a reason, and nothing is written.
 *
 * Before acp_init and after acp_finalize; null and foreign addresses, keys of no one, offsets
 * behind a registration, ranks and colours that are not there, handles that were never given out;
 * what is ordered behind a failure; what acp_reset leaves. Guards around all memory are looked at
 * in the end. Argument "off": with TUGBOAT=off.
 */
#include "check.h"
#include <acp.h>
#include <pthread.h>

enum { BYTES = 256, GUARD = 128 };

static unsigned char block[GUARD + BYTES + GUARD];
static unsigned char *const memory = block + GUARD;
static acp_atkey_t key;
static acp_ga_t mine, starter, theirs, their_starter; /* of the next rank */

static void check_status(int want, int line) {
    if (ACP_ERRNO != want)
        check_fail("acp_errors.c", line, "ACP_ERRNO is %d (%s), not %d", ACP_ERRNO,
                   tug_strerror(ACP_ERRNO), want);
}

#define REFUSED(call, null, want)                                                                  \
    do {                                                                                           \
        CHECK((call) == (null), "%s was not refused", #call);                                      \
        check_status(want, __LINE__);                                                              \
    } while (0)

/* Taken, and found to be wrong later. */
#define FAILS(call, want)                                                                          \
    do {                                                                                           \
        acp_handle_t fails = (call);                                                               \
        CHECK(fails != ACP_HANDLE_NULL, "%s was refused", #call);                                  \
        acp_complete(fails);                                                                       \
        check_status(want, __LINE__);                                                              \
        CHECK(acp_inquire(fails) == 0, "%s is still under way", #call);                            \
    } while (0)

static void not_running(void) {
    REFUSED(acp_rank(), -1, TUG_ERR_STATE);
    REFUSED(acp_procs(), -1, TUG_ERR_STATE);
    REFUSED(acp_colors(), -1, TUG_ERR_STATE);
    REFUSED(acp_sync(), -1, TUG_ERR_STATE);
    REFUSED(acp_reset(0), -1, TUG_ERR_STATE);
    REFUSED(acp_finalize(), -1, TUG_ERR_STATE);
    REFUSED(acp_register_memory(memory, 8, 0), ACP_ATKEY_NULL, TUG_ERR_STATE);
    REFUSED(acp_unregister_memory(1), -1, TUG_ERR_STATE);
    REFUSED(acp_query_starter_ga(0), ACP_GA_NULL, TUG_ERR_STATE);
    REFUSED(acp_query_ga(1, memory), ACP_GA_NULL, TUG_ERR_STATE);
    REFUSED(acp_query_address(UINT64_C(1) << 43), NULL, TUG_ERR_STATE);
    REFUSED(acp_copy(UINT64_C(1) << 43, UINT64_C(1) << 43, 8, ACP_HANDLE_NULL), ACP_HANDLE_NULL,
            TUG_ERR_STATE);
    acp_complete(ACP_HANDLE_ALL);
    CHECK(acp_inquire(ACP_HANDLE_ALL) == 0, "something is under way in nothing");
}

/* By trying. */
static uint64_t starter_bytes(void) {
    const acp_ga_t first = acp_query_starter_ga(acp_rank());
    uint64_t low = 0, high = UINT64_C(1) << 33; /* the last byte that is there, one that is not */
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        if (acp_query_address(first + middle) != NULL)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static void open_memory(void) {
    MPI_Status status;
    memset(block, 0xa5, sizeof block);
    key = acp_register_memory(memory, BYTES, 0);
    mine = acp_query_ga(key, memory);
    CHECK(key != ACP_ATKEY_NULL && mine != ACP_GA_NULL, "%s", tug_strerror(ACP_ERRNO));
    int next = (acp_rank() + 1) % acp_procs(), last = (acp_rank() + acp_procs() - 1) % acp_procs();
    MUST(MPI_Sendrecv(&mine, 1, MPI_UINT64_T, last, 0, &theirs, 1, MPI_UINT64_T, next, 0,
                      MPI_COMM_WORLD, &status));
    starter = acp_query_starter_ga(acp_rank());
    their_starter = acp_query_starter_ga(next);
}

static void memory_calls(void) {
    REFUSED(acp_init(NULL, NULL), -1, TUG_ERR_STATE);
    REFUSED(acp_register_memory(NULL, 8, 0), ACP_ATKEY_NULL, TUG_ERR_INVALID);
    REFUSED(acp_register_memory(memory, 0, 0), ACP_ATKEY_NULL, TUG_ERR_INVALID);
    REFUSED(acp_register_memory(memory, 8, 1), ACP_ATKEY_NULL, TUG_ERR_INVALID);
    REFUSED(acp_register_memory(memory, 8, -1), ACP_ATKEY_NULL, TUG_ERR_INVALID);
    REFUSED(acp_register_memory(memory, (UINT64_C(1) << 34) + 1, 0), ACP_ATKEY_NULL, TUG_ERR_RANGE);
    REFUSED(acp_unregister_memory(ACP_ATKEY_NULL), -1, TUG_ERR_KEY);
    REFUSED(acp_unregister_memory(key + 1), -1, TUG_ERR_KEY);
    REFUSED(acp_unregister_memory(starter), -1, TUG_ERR_KEY);
    REFUSED(acp_query_ga(key, memory - 1), ACP_GA_NULL, TUG_ERR_RANGE);
    REFUSED(acp_query_ga(key, memory + BYTES), ACP_GA_NULL, TUG_ERR_RANGE);
    REFUSED(acp_query_ga(key + 1, memory), ACP_GA_NULL, TUG_ERR_KEY);
    REFUSED(acp_query_address(ACP_GA_NULL), NULL, TUG_ERR_INVALID);
    REFUSED(acp_query_address(mine + BYTES), NULL, TUG_ERR_RANGE);
    REFUSED(acp_query_address(mine + (UINT64_C(1) << 34)), NULL, TUG_ERR_KEY);
    if (check_nranks > 1)
        REFUSED(acp_query_address(theirs), NULL, TUG_ERR_INVALID);
    REFUSED(acp_query_starter_ga(-1), ACP_GA_NULL, TUG_ERR_INVALID);
    REFUSED(acp_query_starter_ga(check_nranks), ACP_GA_NULL, TUG_ERR_INVALID);
    REFUSED(acp_query_rank(ACP_GA_NULL), -1, TUG_ERR_INVALID);
    REFUSED(acp_query_rank(UINT64_MAX), -1, TUG_ERR_INVALID);
    REFUSED(acp_query_color(ACP_GA_NULL), -1, TUG_ERR_INVALID);
    REFUSED(acp_query_color(mine | UINT64_C(1) << 42), -1, TUG_ERR_INVALID);
    CHECK(acp_query_address(mine + 3) == memory + 3, "an address");
    CHECK(acp_query_rank(mine) == acp_rank() && acp_query_color(mine) == 0, "rank and colour");
    CHECK(acp_query_rank(their_starter) == (acp_rank() + 1) % acp_procs(), "the next rank");
    CHECK(acp_colors() == 1, "colours");
}

static void all_keys(void) {
    static char bytes[255];
    acp_atkey_t keys[255];
    for (int i = 0; i < 254; i++)
        CHECK((keys[i] = acp_register_memory(&bytes[i], 1, 0)) != ACP_ATKEY_NULL, "key %d", i);
    REFUSED(acp_register_memory(&bytes[254], 1, 0), ACP_ATKEY_NULL, TUG_ERR_FULL);
    for (int i = 0; i < 254; i++)
        CHECK(acp_unregister_memory(keys[i]) == 0, "key %d", i);
    REFUSED(acp_unregister_memory(keys[7]), -1, TUG_ERR_KEY);
}

static void access_at_once(void) {
    acp_ga_t wrong_rank = mine + ((uint64_t)check_nranks << 43), color = UINT64_C(1) << 42;
    REFUSED(acp_copy(ACP_GA_NULL, mine, 8, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_copy(mine, ACP_GA_NULL, 8, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_copy(mine, wrong_rank, 8, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_copy(wrong_rank, mine, 8, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_copy(theirs | color, mine, 8, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_copy(theirs, mine, 8, 1 << 30), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_copy(theirs, mine, 8, -3), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_add8(mine, theirs + 4, 1, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_cas8(mine + 4, theirs, 1, 1, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    REFUSED(acp_swap4(mine, theirs + 2, 1, ACP_HANDLE_NULL), ACP_HANDLE_NULL, TUG_ERR_INVALID);
    acp_complete(1 << 30);
    acp_complete(-7);
    CHECK(acp_inquire(1 << 30) == 0 && acp_inquire(ACP_HANDLE_NULL) == 0, "no such handle");
}

/* The own end. */
static void own_access_later(void) {
    const uint64_t bytes = starter_bytes();
    acp_ga_t no_key = mine + (UINT64_C(9) << 34);
    FAILS(acp_copy(theirs, mine, BYTES + 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(mine + 1, theirs, BYTES, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(theirs, mine, SIZE_MAX, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(theirs, no_key, 8, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_copy(no_key, theirs, 8, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_add8(no_key, theirs, 1, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_copy(starter + bytes, theirs, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(theirs, starter + bytes - 7, 8, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(starter, starter + bytes, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_cas8(starter, starter + (bytes + 7) / 8 * 8, 0, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
}

static void *complete_there(void *argument) {
    const acp_handle_t *handle = argument;
    acp_complete(*handle);
    check_status(TUG_ERR_RANGE, __LINE__);
    return NULL;
}

/* Who completes it is told, by whichever call and on whichever thread; and then nobody else. */
static void who_is_told(void) {
    const uint64_t bytes = starter_bytes();
    acp_handle_t failed = acp_copy(starter + bytes, starter, 8, ACP_HANDLE_NULL);
    acp_handle_t behind = acp_copy(starter, mine, 8, failed);
    CHECK(failed != ACP_HANDLE_NULL && behind == failed + 1, "handles");
    REFUSED(acp_query_rank(ACP_GA_NULL), -1, TUG_ERR_INVALID);
    while (acp_inquire(behind))
        ;
    check_status(TUG_ERR_RANGE, __LINE__);
    REFUSED(acp_query_rank(ACP_GA_NULL), -1, TUG_ERR_INVALID);
    acp_complete(ACP_HANDLE_ALL);
    check_status(TUG_ERR_INVALID, __LINE__);
    pthread_t thread;
    failed = acp_copy(starter, starter + bytes, 8, ACP_HANDLE_NULL);
    CHECK(pthread_create(&thread, NULL, complete_there, &failed) == 0, "a thread");
    pthread_join(thread, NULL);
}

/* Between this rank and the next; from the next to the one after it, who may be this one. */
static void access_later(void) {
    if (check_nranks == 1)
        return;
    acp_ga_t no_key = theirs + (UINT64_C(9) << 34);
    acp_ga_t third = acp_query_starter_ga((acp_rank() + 2) % acp_procs());
    FAILS(acp_copy(no_key, mine, 8, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_copy(mine, no_key, 8, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_add8(mine, no_key, 1, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_copy(theirs + 1, mine, BYTES, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(mine, theirs + BYTES, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_add4(mine, theirs + BYTES, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(mine, their_starter + (1 << 30), 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_copy(third, theirs + BYTES, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_add8(third, theirs + BYTES, 1, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    FAILS(acp_add8(theirs + BYTES, mine, 0, ACP_HANDLE_NULL), TUG_ERR_RANGE);
    if (check_nranks == 2)
        return;
    FAILS(acp_copy(third, no_key, 8, ACP_HANDLE_NULL), TUG_ERR_KEY);
    FAILS(acp_copy(third + (1 << 30), theirs, 8, ACP_HANDLE_NULL), TUG_ERR_RANGE);
}

/* What is behind a failure does not happen; what is not, does; and acp_complete ends it. */
static void order_behind_failure(void) {
    uint64_t *words = acp_query_address(starter);
    acp_ga_t no_key = theirs + (UINT64_C(9) << 34);
    if (check_nranks == 1)
        return;
    words[0] = 1, words[1] = 2, words[2] = 3;
    acp_handle_t failed = acp_copy(no_key, starter, 8, ACP_HANDLE_NULL);
    acp_handle_t behind = acp_copy(starter + 8, starter, 8, failed);
    CHECK(failed != ACP_HANDLE_NULL && behind == failed + 1, "handles");
    (void)acp_copy(starter + 16, starter, 8, ACP_HANDLE_NULL);
    acp_complete(ACP_HANDLE_ALL);
    check_status(TUG_ERR_KEY, __LINE__);
    CHECK(words[1] == 2, "it happened behind a failure");
    CHECK(words[2] == 1, "it did not happen beside a failure");
    acp_complete(acp_copy(starter + 8, starter, 8, behind));
    CHECK(words[1] == 1, "a failure lasts beyond acp_complete");
}

static void guards(void) {
    for (int i = 0; i < GUARD; i++)
        CHECK(block[i] == 0xa5 && block[GUARD + BYTES + i] == 0xa5, "guard %d", i);
    for (int i = 0; i < BYTES; i++)
        CHECK(memory[i] == 0xa5, "byte %d was written", i);
}

#if ACP_HANDLE_ALL != 0xffffffffffffffffLLU || ACP_HANDLE_CONT != 0xfffffffffffffffeLLU ||         \
    ACP_HANDLE_NULL != 0LLU || ACP_GA_NULL != 0LLU || ACP_ATKEY_NULL != 0LLU || !defined __ACP_H__
#error "constants and guard are the original's"
#endif
_Static_assert(ACP_HANDLE_ALL > 0 && ACP_HANDLE_CONT > 0 && sizeof ACP_GA_NULL == 8, "unsigned");

/* Starts with the original's options, which the program does not see. */
static void start_with_options(void) {
    char *all[] = {"program", "--acp-size-smem",    "100000", "one", "--acp-size-smem-cl", "1000",
                   "two",     "--acp-size-smem-dl", "0x10",   NULL};
    char *const refused[][4] = {{"program", "--acp-myrank", "0", NULL},
                                {"program", "--acp-nprocs", "2", NULL},
                                {"program", "--acp-anything", NULL, NULL},
                                {"program", "one", "--acp-size-smem", NULL},
                                {"program", "--acp-size-smem", "-1", NULL},
                                {"program", "--acp-size-smem", "1k", NULL},
                                {"program", "--acp-size-smem-dl", "99999999999", NULL}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char *words[4], **argv = words;
        memcpy(words, refused[i], sizeof words);
        int argc = words[2] != NULL ? 3 : 2;
        REFUSED(acp_init(&argc, &argv), -1, TUG_ERR_INVALID);
        CHECK(argc == (words[2] != NULL ? 3 : 2) && memcmp(words, refused[i], sizeof words) == 0,
              "arguments %zu", i);
    }
    char **argv = all;
    int argc = 9;
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    CHECK(argc == 3 && strcmp(argv[1], "one") == 0 && strcmp(argv[2], "two") == 0 &&
              argv[3] == NULL,
          "arguments");
    CHECK(starter_bytes() == 101016, "%llu bytes", (unsigned long long)starter_bytes());
}

/* What nobody has been told is told in the end. */
static void finalize_tells(void) {
    CHECK(acp_init(NULL, NULL) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    acp_ga_t own = acp_query_starter_ga(acp_rank());
    CHECK(acp_copy(own, own + starter_bytes(), 8, ACP_HANDLE_NULL) != ACP_HANDLE_NULL, "refused");
    REFUSED(acp_finalize(), -1, TUG_ERR_RANGE);
    not_running();
}

static void reset(void) {
    int last = check_nranks - 1;
    uint64_t *words = acp_query_address(starter);
    words[5] = 5;
    if (check_nranks > 1)
        REFUSED(acp_reset(0), -1, TUG_ERR_INVALID);
    CHECK(acp_rank() == check_rank && words[5] == 5, "a reset that was refused did something");
    CHECK(acp_reset(last - check_rank) == 0, "acp_reset: %s", tug_strerror(ACP_ERRNO));
    CHECK(acp_rank() == last - check_rank && acp_procs() == check_nranks, "ranks after a reset");
    words = acp_query_address(acp_query_starter_ga(acp_rank()));
    for (int i = 0; i < 8; i++)
        CHECK(words[i] == 0, "starter memory after a reset");
    REFUSED(acp_unregister_memory(key), -1, TUG_ERR_KEY);
    words[0] = 100 + (uint64_t)check_rank;
    acp_sync();
    acp_complete(acp_copy(acp_query_starter_ga(acp_rank()) + 8, acp_query_starter_ga(last), 8,
                          ACP_HANDLE_NULL));
    CHECK(words[1] == 100, "rank %d is not where it was put", last);
}

int main(int argc, char **argv) {
    bool off = argc > 1 && strcmp(argv[1], "off") == 0;
    check_begin(&argc, &argv, "acp_errors");
    CHECK(ACP_ERRNO == 0, "ACP_ERRNO to begin with");
    not_running();
    if (off) {
        REFUSED(acp_init(&argc, &argv), -1, TUG_ERR_STATE);
        return check_end();
    }
    if (argc > 1 && strcmp(argv[1], "leave") == 0) {
        CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
        open_memory();
        acp_copy(theirs, mine, BYTES, ACP_HANDLE_NULL);
        int status = check_end();
        CHECK(acp_finalize() == -1 && ACP_ERRNO == TUG_ERR_STATE, "ACP runs without MPI");
        return status;
    }
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            start_with_options();
        else
            CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
        open_memory();
        memory_calls();
        all_keys();
        acp_sync();
        access_at_once();
        access_later();
        own_access_later();
        who_is_told();
        acp_sync();
        guards();
        order_behind_failure();
        acp_sync();
        reset();
        CHECK(acp_finalize() == 0, "acp_finalize: %s", tug_strerror(ACP_ERRNO));
        not_running();
    }
    finalize_tells();
    return check_end();
}

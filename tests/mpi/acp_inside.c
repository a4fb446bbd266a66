/*
 * acp_inside: a registration inside another ends for itself.
 *
 * Rank 0 has an area registered as a whole, and again and again a piece of it, under the only key
 * number that is left. The others write to the piece, so that they remember its key. When it has
 * ended they are refused, though the area is still registered; when its number has been given to a
 * buffer elsewhere, the same global address is the buffer's: never the piece. Arguments: rounds
 * (5).
 */
#include "check.h"
#include <acp.h>

enum { AREA = 8192, PIECE = 1024, BYTES = 512, KEPT = 253 };

static uint64_t *area, *buffer; /* rank 0's */
static uint64_t *own;           /* this rank's words, in its starter memory */
static acp_ga_t own_ga;

/* The rank's own word in a piece or buffer. */
static size_t word(int rank) {
    return (size_t)rank % (BYTES / 8);
}

static void check_words(const uint64_t *words, uint64_t value, const char *what) {
    for (int rank = 1; rank < check_nranks; rank++)
        CHECK(words[word(rank)] == value, "%s: rank %d's word is %llu, not %llu", what, rank,
              (unsigned long long)words[word(rank)], (unsigned long long)value);
}

static acp_ga_t offer(uint64_t *at, acp_atkey_t *key) {
    *key = acp_register_memory(at, BYTES, 0);
    CHECK(*key != ACP_ATKEY_NULL, "register: %s", tug_strerror(ACP_ERRNO));
    return own[0] = acp_query_ga(*key, at);
}

static void owner(uint64_t round) {
    uint64_t *piece = area + PIECE / 8;
    acp_atkey_t key;
    acp_ga_t ga = offer(piece, &key);
    acp_sync();
    acp_sync(); /* the others have written */
    check_words(piece, round, "while it is registered");
    CHECK(acp_unregister_memory(key) == 0, "unregister: %s", tug_strerror(ACP_ERRNO));
    acp_sync();
    acp_sync(); /* they have tried again */
    check_words(piece, round, "after its end");
    CHECK(offer(buffer, &key) == ga, "the number is another");
    acp_sync();
    acp_sync(); /* and again */
    check_words(piece, round, "after its number was given again");
    check_words(buffer, round + 2000, "the buffer");
    CHECK(acp_unregister_memory(key) == 0, "unregister: %s", tug_strerror(ACP_ERRNO));
    acp_sync();
}

/* Its status: 0, or what acp_complete() told. */
static int write_word(acp_ga_t ga, uint64_t value) {
    own[1] = value;
    (void)acp_query_rank(ACP_GA_NULL); /* leaves TUG_ERR_INVALID */
    acp_handle_t handle = acp_copy(ga + 8 * word(check_rank), own_ga + 8, 8, ACP_HANDLE_NULL);
    CHECK(handle != ACP_HANDLE_NULL, "refused: %s", tug_strerror(ACP_ERRNO));
    acp_complete(handle);
    return ACP_ERRNO == TUG_ERR_INVALID ? 0 : ACP_ERRNO;
}

static int read_word(acp_ga_t ga) {
    (void)acp_query_rank(ACP_GA_NULL);
    acp_complete(acp_copy(own_ga + 16, ga + 8 * word(check_rank), 8, ACP_HANDLE_NULL));
    return ACP_ERRNO == TUG_ERR_INVALID ? 0 : ACP_ERRNO;
}

static void user(uint64_t round) {
    acp_sync();
    acp_complete(acp_copy(own_ga, acp_query_starter_ga(0), 8, ACP_HANDLE_NULL));
    const acp_ga_t ga = own[0];
    int status = write_word(ga, round);
    CHECK(status == 0, "while it is registered: %s", tug_strerror(status));
    acp_sync();
    acp_sync(); /* it has ended */
    status = write_word(ga, round + 1000);
    CHECK(status == TUG_ERR_KEY, "a write after its end: %s", tug_strerror(status));
    status = read_word(ga);
    CHECK(status == TUG_ERR_KEY, "a read after its end: %s", tug_strerror(status));
    acp_sync();
    acp_sync(); /* its number is the buffer's */
    status = write_word(ga, round + 2000);
    CHECK(status == 0, "to the buffer: %s", tug_strerror(status));
    status = read_word(ga);
    CHECK(status == 0 && own[2] == round + 2000, "from the buffer: %s, %llu", tug_strerror(status),
          (unsigned long long)own[2]);
    acp_sync();
    acp_sync();
}

int main(int argc, char **argv) {
    static char kept[KEPT];
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 5;
    check_begin(&argc, &argv, "acp_inside");
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    own_ga = acp_query_starter_ga(check_rank);
    own = acp_query_address(own_ga);
    area = check_memory(AREA);
    buffer = check_memory(BYTES);
    memset(area, 0, AREA);
    if (check_rank == 0) {
        CHECK(acp_register_memory(area, AREA, 0) != ACP_ATKEY_NULL, "the area");
        for (int i = 0; i < KEPT; i++)
            CHECK(acp_register_memory(&kept[i], 1, 0) != ACP_ATKEY_NULL, "key %d", i);
    }
    for (uint64_t round = 1; round <= rounds; round++)
        check_rank == 0 ? owner(round) : user(round);
    CHECK(acp_finalize() == 0, "acp_finalize");
    check_memory_free(area);
    check_memory_free(buffer);
    return check_end();
}

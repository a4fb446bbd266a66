/*
 * acp_churn: registrations come and go under a few key numbers, while others use their GAs, the old
 * ones as well, directly and by way of a third rank.
 *
 * Rank 0 registers one of its buffers after the other, tells the others the GA in its starter
 * memory, and ends the registration again. All key numbers but two are taken for good, so a number
 * is used again at once. A buffer holds a stamp while it is registered and poison while it is not.
 * Whoever copies from a GA gets an error, or the stamp that went with it or a later one: never
 * poison, and never an older stamp. Nothing may change a buffer that is not registered. Arguments:
 * registrations (1000).
 */
#include "check.h"
#include <acp.h>
#include <stddef.h>
#include <unistd.h>

enum { BUFFERS = 16, BYTES = 64, KEPT = 253, OLD = 32 };

static const uint64_t poison = 0xdeaddeaddeaddeadu;

struct news {
    acp_ga_t ga;
    uint64_t stamp, check; /* it may be read while it is written */
};

/* In rank 0's starter memory. */
struct board {
    struct news news;
    uint64_t uses; /* by the others */
};

static uint64_t check_of(const struct news *n) {
    return (n->ga * 0x9e3779b97f4a7c15u ^ n->stamp) * 0xff51afd7ed558ccdu | 1;
}

static uint64_t *buffers[BUFFERS];
static uint64_t hits, misses;

static void stamp(uint64_t *buffer, uint64_t value) {
    for (size_t k = 0; k < BYTES / 8; k++)
        buffer[k] = value;
}

static void check_poison(int i) {
    for (size_t k = 0; k < BYTES / 8; k++)
        CHECK(buffers[i][k] == poison, "word %zu of buffer %d is 0x%llx, and not registered", k, i,
              (unsigned long long)buffers[i][k]);
}

static void tell(struct board *board, acp_ga_t ga, uint64_t number) {
    struct news now = {.ga = ga, .stamp = number};
    now.check = check_of(&now);
    memcpy(&board->news, &now, sizeof now);
}

/* Now and then stands still until the others have been here, or does not. */
static void let_others(const struct board *board, struct check_rng *rng) {
    uint64_t which = check_draw(rng) % 16, before = __atomic_load_n(&board->uses, __ATOMIC_RELAXED);
    for (int i = 0; which == 0 && i < 100; i++) {
        usleep(50);
        if (__atomic_load_n(&board->uses, __ATOMIC_RELAXED) > before + 1)
            break;
    }
    if (which == 1)
        sched_yield();
}

/* The first half of a buffer is read by others, the second is written. */
static void churn(struct board *board, uint64_t times) {
    struct check_rng rng = {7};
    static char kept[KEPT];
    acp_atkey_t keep[KEPT];
    for (int i = 0; i < KEPT; i++)
        CHECK((keep[i] = acp_register_memory(&kept[i], 1, 0)) != ACP_ATKEY_NULL, "key %d", i);
    for (uint64_t n = 1; n <= times; n++) {
        int i = (int)(check_draw(&rng) % BUFFERS);
        check_poison(i);
        stamp(buffers[i], n);
        acp_atkey_t key = acp_register_memory(buffers[i], BYTES, 0);
        CHECK(key != ACP_ATKEY_NULL, "registration %llu: %s", (unsigned long long)n,
              tug_strerror(ACP_ERRNO));
        tell(board, acp_query_ga(key, buffers[i]), n);
        let_others(board, &rng);
        CHECK(acp_unregister_memory(key) == 0, "the end of a registration");
        stamp(buffers[i], poison);
        let_others(board, &rng);
        CHECK(acp_unregister_memory(key) == -1 && ACP_ERRNO == TUG_ERR_KEY, "a key ended twice");
    }
    tell(board, 0, UINT64_MAX);
    for (int i = 0; i < KEPT; i++)
        CHECK(acp_unregister_memory(keep[i]) == 0, "key %d", i);
}

static void complete(acp_handle_t handle) {
    CHECK(handle != ACP_HANDLE_NULL, "refused: %s", tug_strerror(ACP_ERRNO));
    acp_complete(handle);
    CHECK(ACP_ERRNO == 0 || ACP_ERRNO == TUG_ERR_KEY, "%s", tug_strerror(ACP_ERRNO));
}

static void use(const struct news *n, uint64_t *own, acp_ga_t own_ga, acp_ga_t third) {
    memset(own, 0x77, BYTES);
    complete(acp_copy(own_ga, n->ga, BYTES / 2, ACP_HANDLE_NULL));
    bool came = own[0] != 0x7777777777777777u;
    came ? hits++ : misses++;
    for (size_t k = 0; came && k < BYTES / 16; k++)
        CHECK(own[k] != poison && own[k] >= n->stamp && own[k] != 0x7777777777777777u,
              "word %zu is 0x%llx, the stamp was %llu", k, (unsigned long long)own[k],
              (unsigned long long)n->stamp);
    complete(acp_copy(n->ga + BYTES / 2, own_ga, BYTES / 4, ACP_HANDLE_NULL));
    complete(acp_copy(n->ga + BYTES / 2, third, BYTES / 4, ACP_HANDLE_NULL));
    complete(acp_add8(own_ga + BYTES / 2, acp_query_starter_ga(0) + offsetof(struct board, uses), 1,
                      ACP_HANDLE_NULL));
    complete(acp_add8(own_ga + BYTES / 2, n->ga + BYTES / 2, 1, ACP_HANDLE_NULL));
}

static void hammer(void) {
    static struct news known[OLD];
    struct check_rng rng = {(uint64_t)check_rank};
    size_t nknown = 0;
    uint64_t *own = aligned_alloc(64, 256);
    acp_ga_t own_ga = acp_query_ga(acp_register_memory(own, 256, 0), own);
    acp_ga_t third = acp_query_starter_ga(1 + check_rank % (check_nranks - 1)) + 128;
    for (;;) {
        struct news now;
        complete(acp_copy(own_ga + 128, acp_query_starter_ga(0), sizeof now, ACP_HANDLE_NULL));
        memcpy(&now, (char *)own + 128, sizeof now);
        if (now.check == check_of(&now)) {
            if (now.stamp == UINT64_MAX)
                break;
            use(&now, own, own_ga, third);
            known[nknown++ % OLD] = now;
        }
        if (nknown > 0)
            use(&known[check_draw(&rng) % (nknown < OLD ? nknown : OLD)], own, own_ga, third);
    }
    printf("rank %d: %llu copies came, %llu were refused\n", check_rank, (unsigned long long)hits,
           (unsigned long long)misses);
    CHECK(check_nranks > 2 || (hits > 0 && misses > 0), "only one kind of answer");
}

int main(int argc, char **argv) {
    uint64_t times = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    check_begin(&argc, &argv, "acp_churn");
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    struct board *board = acp_query_address(acp_query_starter_ga(check_rank));
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = check_memory(BYTES);
        stamp(buffers[i], poison);
    }
    tell(board, 0, 0);
    board->news.check = 0;
    acp_sync();
    if (check_rank == 0)
        churn(board, times);
    else
        hammer();
    acp_sync();
    for (int i = 0; i < BUFFERS; i++) {
        check_poison(i);
        check_memory_free(buffers[i]);
    }
    CHECK(acp_finalize() == 0, "acp_finalize");
    return check_end();
}

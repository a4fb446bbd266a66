/*
 * llcl_memory: registrations come and go while others use their keys, the old ones as well.
 *
 * Rank 0 registers one of its buffers after the other, tells the others through a board in its own
 * memory, and ends the registration again. A buffer holds a stamp while it is registered and poison
 * while it is not. The others read and write with the newest key they have seen and with older
 * ones: the answer is TUG_ERR_KEY, or the data bear the stamp that went with the key. Nothing may
 * change a buffer that is not registered, and an ended registration stays ended. Arguments:
 * registrations (100000), engine or direct.
 */
#include "llcl_check.h"

enum { BUFFERS = 32, SMALL = 64, LARGE = 96 * 1024, LARGE_ONES = 4, OLD_KEYS = 64 };

/* What the board tells: read as a whole, which may be torn; then the key is damaged, or the stamp
 * is not that of the key, which `check` tells. */
struct news {
    struct tug_key key;
    uint64_t stamp, bytes, check;
};

static tug_context *context;
static struct ll_memory board, local;
static unsigned char *buffers[BUFFERS];
static uint64_t hits, misses, refusals;
static uint64_t large_every = 100; /* large ones are for the ways of large blocks */

static uint64_t check_of(const struct news *n) {
    uint64_t hash = n->stamp * 0x9e3779b97f4a7c15u ^ n->bytes;
    for (int i = 0; i < 6; i++)
        hash = (hash ^ n->key.word[i]) * 0xff51afd7ed558ccdu;
    return hash | 1;
}

static size_t size_of(int i) {
    return i < LARGE_ONES ? LARGE : SMALL;
}

/* The first half of a buffer is read by others, the second is written. */
static void stamp(int i, uint64_t value) {
    uint64_t *words = (uint64_t *)(void *)buffers[i];
    for (size_t k = 0; k < size_of(i) / 8; k++)
        words[k] = value;
}

static const uint64_t poison = 0xdeaddeaddeaddeadu;

static void check_poison(int i) {
    const uint64_t *words = (const uint64_t *)(const void *)buffers[i];
    for (size_t k = 0; k < size_of(i) / 8; k++)
        CHECK(words[k] == poison,
              "word %zu of buffer %d is 0x%llx although the buffer is not registered", k, i,
              (unsigned long long)words[k]);
}

/* Waits a little for others to get at what is there; helps where nobody else does. */
static void let_others(uint64_t n) {
    if (ll_help)
        tug_progress(context);
    if (n % 16 == 0)
        sched_yield();
    if (n % 1024 == 0)
        usleep(1000);
}

static void churn(int times) {
    struct news *news = (struct news *)(void *)board.base;
    struct check_rng rng = {7};
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = check_memory(size_of(i));
        stamp(i, poison);
    }
    for (uint64_t n = 1; n <= (uint64_t)times; n++) {
        tug_registration *registration;
        int i = n % large_every == 0
                    ? (int)(n / large_every % LARGE_ONES)
                    : LARGE_ONES + (int)(check_draw(&rng) % (BUFFERS - LARGE_ONES));
        check_poison(i);
        stamp(i, n);
        LL_GOOD(tug_mem_register(context, buffers[i], size_of(i), &registration));
        struct news now = {.stamp = n, .bytes = size_of(i)};
        tug_mem_key(registration, &now.key);
        now.check = check_of(&now);
        memcpy(news, &now, sizeof now);
        let_others(n);
        for (int rc; (rc = tug_mem_deregister(&registration)) != 0; refusals++) {
            CHECK(rc == TUG_ERR_STATE, "deregistration: %s", tug_strerror(rc));
            tug_progress(context);
        }
        stamp(i, poison);
    }
    struct news last = {.stamp = UINT64_MAX};
    last.check = check_of(&last);
    memcpy(news, &last, sizeof last);
    for (int i = 0; i < BUFFERS; i++)
        check_poison(i);
}

/* One read and one write with a key: with the stamp that goes with it, or not at all. */
static void use(const struct news *n, size_t lane) {
    size_t half = n->bytes / 2, at = sizeof(struct news) + lane * 2 * LARGE;
    uint64_t *got = (uint64_t *)(void *)(local.base + at);
    int rc = ll_read(context, 0, &n->key, 0, local.registration, at, half);
    CHECK(rc == 0 || rc == TUG_ERR_KEY, "a read: %s", tug_strerror(rc));
    rc == 0 ? hits++ : misses++;
    for (size_t k = 0; rc == 0 && k < half / 8; k++)
        CHECK(got[k] == n->stamp, "word %zu of %zu is 0x%llx, not 0x%llx", k, half / 8,
              (unsigned long long)got[k], (unsigned long long)n->stamp);
    memset(got, 0x77, half);
    rc = ll_write(context, 0, &n->key, half, local.registration, at, half);
    CHECK(rc == 0 || rc == TUG_ERR_KEY, "a write: %s", tug_strerror(rc));
    rc = ll_fetch(context, 0, &n->key, half, NULL, 0, 8, TUG_ADD, 1);
    CHECK(rc == 0 || rc == TUG_ERR_KEY, "an addition: %s", tug_strerror(rc));
}

static void hammer(void) {
    static struct news known[OLD_KEYS];
    struct check_rng rng = {(uint64_t)check_rank};
    size_t nknown = 0;
    for (uint64_t n = 0;; n++) {
        struct news now;
        LL_GOOD(ll_read(context, 0, &board.keys[0], 0, local.registration, 0, sizeof(struct news)));
        memcpy(&now, local.base, sizeof now);
        if (now.check == check_of(&now)) {
            if (now.stamp == UINT64_MAX)
                break;
            use(&now, 0);
            known[nknown++ % OLD_KEYS] = now;
        }
        if (nknown > 0)
            use(&known[check_draw(&rng) % (nknown < OLD_KEYS ? nknown : OLD_KEYS)], 1);
    }
    /* All have ended. */
    for (size_t i = 0; i < OLD_KEYS && i < nknown; i++)
        CHECK(ll_read(context, 0, &known[i].key, 0, local.registration, 0, 8) == TUG_ERR_KEY,
              "the key of an ended registration");
    printf("rank %d: %llu reads with a key that was good, %llu with one that was not\n", check_rank,
           (unsigned long long)hits, (unsigned long long)misses);
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 100000;
    if (argc > 2)
        large_every = strtoull(argv[2], NULL, 10);
    ll_begin(&argc, &argv, "llcl_memory");
    context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &board, LL_ALLOCATED, sizeof(struct news));
    ll_make(context, &local, LL_REGISTERED, sizeof(struct news) + 4 * LARGE);
    ll_barrier(context);
    double start = ll_now();
    if (check_rank == 0) {
        churn(times);
        printf("%d registrations in %.2f s; their end was refused %llu times\n", times,
               ll_now() - start, (unsigned long long)refusals);
    } else {
        hammer();
    }
    ll_barrier(context);
    /* Nobody writes any more. */
    for (int i = 0; check_rank == 0 && i < BUFFERS; i++) {
        check_poison(i);
        check_memory_free(buffers[i]);
    }
    ll_end(context, &board);
    ll_end(context, &local);
    ll_close(&context);
    return check_end();
}

/*
 * llcl_atomic: remote atomics of 4 and 8 bytes.
 *
 * First against an oracle, alone on a word of one's own, to every rank and with the result at any
 * address or nowhere; then all ranks at once on the words of the last one, in a way that shows
 * every operation to have been atomic: fetched values of an addition are a permutation, tokens that
 * are swapped in come out once, a counter made of compare and swap counts, and the neighbours of a
 * 4-byte word stay what they are. Where the library says that CPU atomics go together with remote
 * ones, the owner adds as well.
 */
#include "llcl_check.h"

enum { OWN = 4096, EACH = 64, WINDOW = 8, RESULTS = 1024 };

/* Places in the last rank's memory. */
enum {
    ADD8 = 0,
    ADD4 = 8,
    NEIGHBOUR4 = 12,
    CAS8 = 16,
    CAS4 = 28,
    SWAP8 = 32,
    OR8 = 40,
    AND8 = 48,
    XOR4 = 60,
    CPU8 = 64,
};

static struct ll_memory words, results;

static uint64_t low(uint64_t value, size_t bytes) {
    return bytes == 4 ? (uint32_t)value : value;
}

static uint64_t apply(enum tug_atomic_op op, uint64_t old, uint64_t operand) {
    switch (op) {
    case TUG_ADD:
        return old + operand;
    case TUG_AND:
        return old & operand;
    case TUG_OR:
        return old | operand;
    case TUG_XOR:
        return old ^ operand;
    default:
        return operand;
    }
}

static uint64_t result(size_t at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, results.base + at, bytes);
    return value;
}

/* Random operations on a word that nobody else uses. */
static void oracle(tug_context *context, int to, size_t bytes) {
    struct check_rng rng = {(uint64_t)(check_rank * 64 + to) * 1000 + bytes};
    const struct tug_key *key = &words.keys[to];
    size_t at = OWN + (size_t)check_rank * EACH + (bytes == 4 ? 4 : 8);
    uint64_t value = check_draw(&rng);
    LL_GOOD(ll_fetch(context, to, key, at, NULL, 0, bytes, TUG_SWAP, value));
    value = low(value, bytes);
    for (int i = 0; i < 200; i++) {
        uint64_t operand = check_draw(&rng), expected = check_draw(&rng) % 2 ? value : operand;
        enum tug_atomic_op op = (enum tug_atomic_op)(check_draw(&rng) % 6);
        bool wanted = check_draw(&rng) % 4 != 0;
        size_t put = check_draw(&rng) % 40;
        tug_registration *local = wanted ? results.registration : NULL;
        uint64_t old = value;
        memset(results.base, LL_CANARY, 64);
        if (op <= TUG_SWAP) {
            LL_GOOD(ll_fetch(context, to, key, at, local, wanted ? put : 0, bytes, op, operand));
            value = low(apply(op, value, operand), bytes);
        } else {
            /* What stands above 4 bytes is not looked at. */
            if (bytes == 4)
                expected |= 0xabcdull << 32;
            LL_GOOD(ll_compare(context, to, key, at, local, wanted ? put : 0, bytes, expected,
                               operand));
            if (low(expected, bytes) == value)
                value = low(operand, bytes);
        }
        if (wanted) {
            CHECK(result(put, bytes) == old, "operation %d with %zu bytes gave 0x%llx, not 0x%llx",
                  (int)op, bytes, (unsigned long long)result(put, bytes), (unsigned long long)old);
            memset(results.base + put, LL_CANARY, bytes);
        }
        ll_all(results.base, 64, LL_CANARY, "around a result", __LINE__);
    }
    LL_GOOD(ll_read(context, to, key, at, results.registration, 0, bytes));
    CHECK(result(0, bytes) == value, "a word is 0x%llx, not 0x%llx in the end",
          (unsigned long long)result(0, bytes), (unsigned long long)value);
}

/* Adds 1 to a word of the last rank n times, WINDOW at once; fetched[n] the old values. */
static void add_ones(tug_context *context, size_t at, size_t bytes, int n, uint64_t *fetched) {
    struct ll_record r[WINDOW];
    int last = check_nranks - 1;
    for (int i = 0; i < n + WINDOW; i++) {
        int k = i % WINDOW;
        if (i >= WINDOW) {
            LL_GOOD(ll_finish(context, &r[k]));
            fetched[i - WINDOW] = result(64 + (size_t)k * 8, bytes);
        }
        if (i >= n)
            continue;
        r[k] = (struct ll_record){0};
        struct tug_fetch_and_op_params p = {last,
                                            {&words.keys[last], at},
                                            {results.registration, 64 + (size_t)k * 8},
                                            bytes,
                                            TUG_ADD,
                                            0xffff00000001u,
                                            ll_complete(&r[k])};
        if (bytes == 8)
            p.operand = 1;
        LL_TRY(context, tug_try_fetch_and_op_async(context, &p));
    }
}

static void gather(tug_context *context, const uint64_t *mine, int n, uint64_t *all) {
    MPI_Request request;
    MUST(MPI_Iallgather(mine, n, MPI_UINT64_T, all, n, MPI_UINT64_T, MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
}

/* Each of n x nranks values from `first` on, once. */
static void check_permutation(tug_context *context, const uint64_t *mine, int n, uint64_t first,
                              size_t bytes) {
    uint64_t total = (uint64_t)n * (uint64_t)check_nranks;
    uint64_t *all = malloc(total * sizeof *all);
    char *seen = calloc(total, 1);
    CHECK(all != NULL && seen != NULL, "no memory");
    gather(context, mine, n, all);
    for (uint64_t i = 0; i < total; i++) {
        uint64_t value = low(all[i] - first, bytes);
        CHECK(value < total && !seen[value], "0x%llx was fetched twice, or is no such value",
              (unsigned long long)all[i]);
        seen[value] = 1;
    }
    free(all);
    free(seen);
}

static void concurrent_adds(tug_context *context, int n) {
    uint64_t *fetched = malloc((size_t)n * sizeof *fetched);
    CHECK(fetched != NULL, "no memory");
    add_ones(context, ADD8, 8, n, fetched);
    check_permutation(context, fetched, n, UINT64_MAX - 5, 8);
    add_ones(context, ADD4, 4, n, fetched);
    check_permutation(context, fetched, n, UINT32_MAX - 5, 4);
    free(fetched);
}

/* A counter made of compare and swap. */
static void concurrent_compares(tug_context *context, size_t at, size_t bytes, int n) {
    int last = check_nranks - 1;
    uint64_t guess = 0;
    for (int done = 0; done < n;) {
        LL_GOOD(ll_compare(context, last, &words.keys[last], at, results.registration, 0, bytes,
                           guess, guess + 1));
        uint64_t old = result(0, bytes);
        done += old == guess;
        guess = old == guess ? guess + 1 : old;
    }
}

static int compare_words(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Every token that goes in comes out once, or is there in the end. */
static void concurrent_swaps(tug_context *context, int n) {
    int last = check_nranks - 1, total = n * check_nranks + 1;
    uint64_t *out = malloc((size_t)n * sizeof *out);
    uint64_t *all = malloc((size_t)total * sizeof *all);
    CHECK(out != NULL && all != NULL, "no memory");
    for (int i = 0; i < n; i++) {
        uint64_t token = (uint64_t)(check_rank * n + i) + 1;
        LL_GOOD(ll_fetch(context, last, &words.keys[last], SWAP8, results.registration, 0, 8,
                         TUG_SWAP, token));
        out[i] = result(0, 8);
    }
    gather(context, out, n, all); /* and nobody swaps any more */
    LL_GOOD(ll_read(context, last, &words.keys[last], SWAP8, results.registration, 0, 8));
    all[total - 1] = result(0, 8);
    qsort(all, (size_t)total, sizeof *all, compare_words);
    for (int i = 0; i < total; i++)
        CHECK(all[i] == (uint64_t)i, "token %llu stands where %d must be",
              (unsigned long long)all[i], i);
    free(out);
    free(all);
}

/* Every rank sets, clears and turns its own bits. */
static void concurrent_bits(tug_context *context) {
    int last = check_nranks - 1;
    const struct tug_key *key = &words.keys[last];
    for (int round = 0; round < 3; round++)
        for (int bit = check_rank; bit < 64; bit += check_nranks) {
            LL_GOOD(ll_fetch(context, last, key, OR8, NULL, 0, 8, TUG_OR, (uint64_t)1 << bit));
            LL_GOOD(ll_fetch(context, last, key, AND8, NULL, 0, 8, TUG_AND, ~((uint64_t)1 << bit)));
            if (bit < 32)
                LL_GOOD(
                    ll_fetch(context, last, key, XOR4, NULL, 0, 4, TUG_XOR, (uint64_t)1 << bit));
        }
}

/* The owner adds by its CPU while all add remotely, and through the mapping who has one. */
static void with_cpu(tug_context *context, int n) {
    int last = check_nranks - 1;
    if (!tug_context_cpu_atomics(context))
        return;
    uint64_t *mapped = check_rank == last ? (uint64_t *)(void *)(words.base + CPU8) : NULL;
    if (mapped == NULL) {
        unsigned char *map = tug_mem_map(context, &words.keys[last]);
        mapped = map == NULL ? NULL : (uint64_t *)(void *)(map + CPU8);
    }
    struct tug_counter counter = {0};
    for (int i = 0; i < n; i++) {
        struct tug_fetch_and_op_params p = {last, {&words.keys[last], CPU8},  {NULL, 0}, 8, TUG_ADD,
                                            1,    {tug_counter_add, &counter}};
        LL_TRY(context, tug_try_fetch_and_op_async(context, &p));
        if (mapped != NULL)
            __atomic_fetch_add(mapped, 1000000, __ATOMIC_RELAXED);
    }
    LL_GOOD(tug_counter_wait(context, &counter, (uint64_t)n));
    CHECK(tug_counter_value(&counter) == (uint64_t)n, "a counter");
    uint64_t mine = mapped != NULL ? (uint64_t)n : 0, all = 0;
    MPI_Request request;
    MUST(MPI_Iallreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
    uint64_t expected = all * 1000000 + (uint64_t)(n * check_nranks);
    LL_GOOD(ll_read(context, last, &words.keys[last], CPU8, results.registration, 0, 8));
    CHECK(result(0, 8) == expected, "CPU and remote additions: %llu, not %llu",
          (unsigned long long)result(0, 8), (unsigned long long)expected);
}

static uint64_t word_at(size_t at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, words.base + at, bytes);
    return value;
}

static void check_words(int n) {
    uint64_t total = (uint64_t)n * (uint64_t)check_nranks;
    struct {
        size_t at, bytes;
        uint64_t value;
    } expected[] = {
        {ADD8, 8, total - 6},      {ADD4, 4, (uint32_t)(total - 6)},
        {NEIGHBOUR4, 4, 12345678}, {CAS8, 8, total},
        {CAS4, 4, total},          {CAS4 - 4, 4, 0x7777},
        {OR8, 8, UINT64_MAX},      {AND8, 8, 0},
        {XOR4, 4, 0xffffffff},     {XOR4 - 4, 4, 0x7777},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(word_at(expected[i].at, expected[i].bytes) == expected[i].value,
              "the %zu bytes at %zu are 0x%llx in the end, not 0x%llx", expected[i].bytes,
              expected[i].at, (unsigned long long)word_at(expected[i].at, expected[i].bytes),
              (unsigned long long)expected[i].value);
}

static void set_words(void) {
    uint64_t add8 = UINT64_MAX - 5, ones = UINT64_MAX;
    uint32_t add4 = UINT32_MAX - 5, neighbour = 12345678, sevens = 0x7777;
    memset(words.base, 0, OWN);
    memcpy(words.base + ADD8, &add8, 8);
    memcpy(words.base + ADD4, &add4, 4);
    memcpy(words.base + NEIGHBOUR4, &neighbour, 4);
    memcpy(words.base + CAS4 - 4, &sevens, 4);
    memcpy(words.base + XOR4 - 4, &sevens, 4);
    memcpy(words.base + AND8, &ones, 8);
}

static void run(void) {
    int n = ll_rounds(1000, 100);
    for (int kind = 0; kind < LL_KINDS; kind++) {
        tug_context *context = ll_open(MPI_COMM_WORLD);
        ll_make(context, &words, (enum ll_kind)kind, OWN + LL_MAX_RANKS * EACH);
        ll_make(context, &results, (enum ll_kind)(1 - kind), RESULTS);
        set_words();
        ll_barrier(context);
        for (int to = 0; to < check_nranks; to++) {
            oracle(context, (to + check_rank) % check_nranks, 4);
            oracle(context, (to + check_rank) % check_nranks, 8);
        }
        ll_barrier(context);
        concurrent_adds(context, n);
        concurrent_compares(context, CAS8, 8, n);
        concurrent_compares(context, CAS4, 4, n);
        concurrent_swaps(context, n);
        concurrent_bits(context);
        with_cpu(context, n);
        ll_barrier(context);
        if (check_rank == check_nranks - 1)
            check_words(n);
        ll_end(context, &results);
        ll_end(context, &words);
        ll_close(&context);
    }
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_atomic");
    run();
    return check_end();
}

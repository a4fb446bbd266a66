/*
 * acp_random: random operations between random ranks, against plain memory.
 *
 * Every thread of every rank is an issuer with a lane of its own in each rank's memory: a part of
 * the starter memory and a part of a registered block. It works on its lanes alone, anywhere, and
 * keeps a model of all of them, to which it applies each operation as it issues it. An operation is
 * ordered behind the last one that touches the same bytes and behind nothing else. In the end, and
 * now and then, the model and the memory are the same: as the issuer reads it, and as the owner
 * finds it. Arguments: operations an issuer (4000), threads (1), bytes of the largest copy (4096).
 */
#include "check.h"
#include <acp.h>
#include <pthread.h>
#include <unistd.h>

enum { MAX_RANKS = 8, MAX_THREADS = 8, AREAS = 2, CHUNK = 64 };

static int threads = 1, operations = 4000;
static size_t lane_bytes = 8192, largest = 4096;
static acp_ga_t bases[MAX_RANKS][AREAS]; /* of the lanes of issuer 0 */
static unsigned char *memory[AREAS];

struct issuer {
    int number; /* of all */
    struct check_rng rng;
    unsigned char *model; /* [nranks][AREAS][lane_bytes] */
    acp_handle_t *last;   /* the last to touch each chunk of the model */
    uint64_t *result;     /* where comparisons go */
    acp_ga_t window_ga;   /* own memory of lane_bytes, for reading back */
    unsigned char *window;
    acp_handle_t last_issued;
};

/* Somewhere in a lane: a place in the model that is also one in the global memory. */
struct place {
    size_t at; /* in the model */
    acp_ga_t ga;
};

static size_t pick(struct issuer *i, size_t n) {
    return n == 0 ? 0 : check_draw(&i->rng) % n;
}

static struct place somewhere(struct issuer *i, size_t bytes, size_t align) {
    size_t rank = pick(i, (size_t)check_nranks), area = pick(i, AREAS);
    size_t offset = pick(i, lane_bytes - bytes + 1) / align * align;
    return (struct place){(rank * AREAS + area) * lane_bytes + offset,
                          bases[rank][area] + (size_t)i->number * lane_bytes + offset};
}

/* Behind the last that touched these bytes. */
static acp_handle_t behind(const struct issuer *i, struct place p, size_t bytes) {
    acp_handle_t last = ACP_HANDLE_NULL;
    for (size_t c = p.at / CHUNK; bytes > 0 && c <= (p.at + bytes - 1) / CHUNK; c++)
        last = i->last[c] > last ? i->last[c] : last;
    return last;
}

static void touched(struct issuer *i, struct place p, size_t bytes, acp_handle_t handle) {
    for (size_t c = p.at / CHUNK; bytes > 0 && c <= (p.at + bytes - 1) / CHUNK; c++)
        i->last[c] = handle;
}

static acp_handle_t order_of(struct issuer *i, struct place a, struct place b, size_t bytes) {
    acp_handle_t first = behind(i, a, bytes), second = behind(i, b, bytes);
    acp_handle_t order = first > second ? first : second;
    switch (pick(i, 8)) {
    case 0:
        return ACP_HANDLE_ALL;
    case 1:
        return ACP_HANDLE_CONT;
    default:
        return order;
    }
}

static void note(struct issuer *i, struct place dst, struct place src, size_t bytes,
                 acp_handle_t handle) {
    CHECK(handle != ACP_HANDLE_NULL, "refused: %s", tug_strerror(ACP_ERRNO));
    touched(i, dst, bytes, handle);
    touched(i, src, bytes, handle);
    i->last_issued = handle;
}

static bool overlap(struct place a, struct place b, size_t bytes) {
    return a.at < b.at + bytes && b.at < a.at + bytes;
}

static void copy(struct issuer *i) {
    size_t most = pick(i, 16) == 0 ? largest : 64, bytes = pick(i, most + 1);
    struct place dst = somewhere(i, bytes, 1), src = somewhere(i, bytes, 1);
    if (overlap(dst, src, bytes))
        return;
    acp_handle_t order = order_of(i, dst, src, bytes);
    note(i, dst, src, bytes, acp_copy(dst.ga, src.ga, bytes, order));
    memcpy(i->model + dst.at, i->model + src.at, bytes);
}

static acp_handle_t call(unsigned op, size_t bytes, acp_ga_t dst, acp_ga_t src, uint64_t value,
                         uint64_t expected, acp_handle_t order) {
    static acp_handle_t (*const four[])(acp_ga_t, acp_ga_t, uint32_t, acp_handle_t) = {
        acp_swap4, acp_add4, acp_xor4, acp_or4, acp_and4};
    static acp_handle_t (*const eight[])(acp_ga_t, acp_ga_t, uint64_t, acp_handle_t) = {
        acp_swap8, acp_add8, acp_xor8, acp_or8, acp_and8};
    if (op == 5)
        return bytes == 4 ? acp_cas4(dst, src, (uint32_t)expected, (uint32_t)value, order)
                          : acp_cas8(dst, src, expected, value, order);
    return bytes == 4 ? four[op](dst, src, (uint32_t)value, order)
                      : eight[op](dst, src, value, order);
}

static uint64_t expect(unsigned op, uint64_t old, uint64_t value, uint64_t expected) {
    switch (op) {
    case 0:
        return value;
    case 1:
        return old + value;
    case 2:
        return old ^ value;
    case 3:
        return old | value;
    case 4:
        return old & value;
    default:
        return old == expected ? value : old;
    }
}

static void atomic(struct issuer *i) {
    size_t bytes = pick(i, 2) ? 4 : 8;
    unsigned op = (unsigned)pick(i, 6);
    struct place dst = somewhere(i, bytes, bytes), src = somewhere(i, bytes, bytes);
    if (overlap(dst, src, bytes))
        return;
    uint64_t old = 0, value = check_draw(&i->rng) >> (bytes == 4 ? 32 : 0), expected = value + 1;
    memcpy(&old, i->model + src.at, bytes);
    if (pick(i, 2))
        expected = old;
    acp_handle_t order = order_of(i, dst, src, bytes);
    note(i, dst, src, bytes, call(op, bytes, dst.ga, src.ga, value, expected, order));
    uint64_t new = expect(op, old, value, expected);
    memcpy(i->model + src.at, &new, bytes);
    memcpy(i->model + dst.at, &old, bytes);
}

static void read_back(struct issuer *i) {
    for (int rank = 0; rank < check_nranks; rank++)
        for (int area = 0; area < AREAS; area++) {
            acp_ga_t lane = bases[rank][area] + (size_t)i->number * lane_bytes;
            size_t at = (size_t)(rank * AREAS + area) * lane_bytes;
            memset(i->window, 0x5a, lane_bytes);
            acp_complete(acp_copy(i->window_ga, lane, lane_bytes, ACP_HANDLE_ALL));
            for (size_t b = 0; b < lane_bytes; b++)
                CHECK(i->window[b] == i->model[at + b],
                      "issuer %d, rank %d, area %d, byte %zu is 0x%02x, not 0x%02x", i->number,
                      rank, area, b, i->window[b], i->model[at + b]);
        }
}

static void *issue_all(void *argument) {
    struct issuer *i = argument;
    for (int n = 0; n < operations; n++) {
        if (pick(i, 3) == 0)
            atomic(i);
        else
            copy(i);
        if (pick(i, 1 + (size_t)operations / 4) == 0)
            read_back(i);
        if (pick(i, 512) == 0)
            acp_complete(i->last_issued);
        if (pick(i, 64) == 0)
            (void)acp_inquire(i->last_issued);
    }
    acp_complete(ACP_HANDLE_ALL);
    CHECK(acp_inquire(i->last_issued) == 0, "an operation is incomplete after acp_complete");
    CHECK(ACP_ERRNO == 0, "ACP_ERRNO: %s", tug_strerror(ACP_ERRNO));
    read_back(i);
    return NULL;
}

static void prepare(struct issuer *i, int thread) {
    size_t total = (size_t)check_nranks * AREAS * lane_bytes;
    *i = (struct issuer){.number = check_rank * threads + thread,
                         .model = calloc(total, 1),
                         .last = calloc(total / CHUNK + 1, sizeof(acp_handle_t)),
                         .window = malloc(lane_bytes)};
    i->rng.state = (uint64_t)i->number << 40;
    CHECK(i->model && i->last && i->window, "no memory");
    i->window_ga = acp_query_ga(acp_register_memory(i->window, lane_bytes, 0), i->window);
    CHECK(i->window_ga != ACP_GA_NULL, "no GA: %s", tug_strerror(ACP_ERRNO));
}

/* What the owners find is what the issuers expect. */
static void compare_with_owners(struct issuer issuers[]) {
    size_t area_bytes = (size_t)(check_nranks * threads) * lane_bytes;
    unsigned char *lane = malloc(lane_bytes);
    for (int rank = 0; rank < check_nranks; rank++)
        for (int n = 0; n < check_nranks * threads; n++)
            for (int area = 0; area < AREAS; area++) {
                int issuer = n / threads;
                size_t at = (size_t)(rank * AREAS + area) * lane_bytes;
                MPI_Request request;
                if (check_rank == issuer) {
                    MUST(MPI_Isend(issuers[n % threads].model + at, (int)lane_bytes, MPI_BYTE, rank,
                                   1, MPI_COMM_WORLD, &request));
                }
                if (check_rank == rank) {
                    MPI_Request receive;
                    MUST(MPI_Irecv(lane, (int)lane_bytes, MPI_BYTE, issuer, 1, MPI_COMM_WORLD,
                                   &receive));
                    check_wait(&receive);
                    CHECK(memcmp(lane, memory[area] + (size_t)n * lane_bytes, lane_bytes) == 0,
                          "area %d does not hold what issuer %d wrote (of %zu bytes)", area, n,
                          area_bytes);
                }
                if (check_rank == issuer)
                    check_wait(&request);
            }
    free(lane);
}

int main(int argc, char **argv) {
    if (argc > 1)
        operations = atoi(argv[1]);
    if (argc > 2)
        threads = atoi(argv[2]);
    if (argc > 3)
        largest = strtoul(argv[3], NULL, 10);
    lane_bytes = 2 * largest;
    check_begin_threads(&argc, &argv, "acp_random");
    size_t bytes = (size_t)(check_nranks * threads) * lane_bytes;
    char starter[32];
    snprintf(starter, sizeof starter, "%zuK", bytes / 1024 + 1);
    CHECK(getenv("TUGBOAT_ACP_STARTER") != NULL, "set TUGBOAT_ACP_STARTER to %s at least", starter);
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    CHECK(acp_rank() == check_rank && acp_procs() == check_nranks, "who is who");

    memory[0] = acp_query_address(acp_query_starter_ga(check_rank));
    memory[1] = check_memory(bytes);
    acp_ga_t mine[AREAS] = {acp_query_starter_ga(check_rank)};
    mine[1] = acp_query_ga(acp_register_memory(memory[1], bytes, 0), memory[1]);
    CHECK(memory[0] && mine[0] && mine[1], "%s", tug_strerror(ACP_ERRNO));
    MUST(MPI_Allgather(mine, AREAS, MPI_UINT64_T, bases, AREAS, MPI_UINT64_T, MPI_COMM_WORLD));

    struct issuer issuers[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    for (int t = 0; t < threads; t++)
        prepare(&issuers[t], t);
    for (int t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, issue_all, &issuers[t]) == 0, "no thread");
    for (int t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    CHECK(acp_sync() == 0, "acp_sync: %s", tug_strerror(ACP_ERRNO));
    compare_with_owners(issuers);
    CHECK(acp_finalize() == 0, "acp_finalize: %s", tug_strerror(ACP_ERRNO));
    for (int t = 0; t < threads; t++) {
        free(issuers[t].model);
        free(issuers[t].last);
        free(issuers[t].window);
    }
    check_memory_free(memory[1]);
    return check_end();
}

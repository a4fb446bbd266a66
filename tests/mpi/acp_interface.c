/*
 * acp_interface: programs of the original ACP compile unchanged, and run.
 *
 * Every function of the basic layer has the original's type, and every constant its value. The rest
 * is written as the original's own test programs are: what libraries above ACP define stands in the
 * program, ranks find one another's memory by starter memory alone, all keys are in use at once,
 * and one that has ended is used again for other memory. It includes <acpbl.h> in place of <acp.h>,
 * as some of those do, and takes the time by its clock.
 */
#include <acpbl.h>

#include "check.h"

enum { KEYS = 255 };

/* The original's libraries above the basic layer, which a program without them defines. */
size_t iacp_starter_memory_size_dl, iacp_starter_memory_size_cl;
int iacp_init_dl(void);
int iacp_init_dl(void) {
    return 0;
}

_Static_assert(ACP_ATKEY_NULL == 0LLU && ACP_GA_NULL == 0LLU && ACP_HANDLE_NULL == 0LLU &&
                   ACP_HANDLE_ALL == 0xffffffffffffffffLLU &&
                   ACP_HANDLE_CONT == 0xfffffffffffffffeLLU,
               "the original's values");
_Static_assert(sizeof(acp_ga_t) == 8 && sizeof(acp_atkey_t) == 8 && sizeof(acp_handle_t) == 8 &&
                   (acp_ga_t)-1 > 0 && (acp_atkey_t)-1 > 0 && (acp_handle_t)-1 < 0,
               "the original's types");

typedef acp_handle_t with4(acp_ga_t, acp_ga_t, uint32_t, acp_handle_t);
typedef acp_handle_t with8(acp_ga_t, acp_ga_t, uint64_t, acp_handle_t);

static const struct {
    int (*init)(int *, char ***);
    int (*whole[4])(void);
    int (*reset)(int);
    void (*abort)(const char *);
    acp_ga_t (*starter)(int);
    acp_atkey_t (*begin)(void *, size_t, int);
    int (*end)(acp_atkey_t);
    acp_ga_t (*ga)(acp_atkey_t, void *);
    void *(*address)(acp_ga_t);
    int (*part[2])(acp_ga_t);
    int (*colors)(void);
    acp_handle_t (*copy)(acp_ga_t, acp_ga_t, size_t, acp_handle_t);
    acp_handle_t (*cas4)(acp_ga_t, acp_ga_t, uint32_t, uint32_t, acp_handle_t);
    acp_handle_t (*cas8)(acp_ga_t, acp_ga_t, uint64_t, uint64_t, acp_handle_t);
    with4 *op4[5];
    with8 *op8[5];
    void (*complete)(acp_handle_t);
    int (*inquire)(acp_handle_t);
} acp = {acp_init,
         {acp_finalize, acp_sync, acp_rank, acp_procs},
         acp_reset,
         acp_abort,
         acp_query_starter_ga,
         acp_register_memory,
         acp_unregister_memory,
         acp_query_ga,
         acp_query_address,
         {acp_query_rank, acp_query_color},
         acp_colors,
         acp_copy,
         acp_cas4,
         acp_cas8,
         {acp_swap4, acp_add4, acp_xor4, acp_or4, acp_and4},
         {acp_swap8, acp_add8, acp_xor8, acp_or8, acp_and8},
         acp_complete,
         acp_inquire};

static uint64_t memory[KEYS + 1][2];
static acp_atkey_t keys[KEYS + 1];
static acp_ga_t left_starter, own_starter;
static acp_ga_t *starter;

/* Tells where that memory is to the rank on the right, and hears of that on the left. */
static acp_ga_t meet(int number) {
    starter[0] = acp.ga(keys[number], memory[number]);
    CHECK(starter[0] != ACP_GA_NULL, "memory %d has no address", number);
    acp_sync();
    acp.complete(
        acp.copy(own_starter + sizeof(acp_ga_t), left_starter, sizeof(acp_ga_t), ACP_HANDLE_NULL));
    acp_sync();
    return starter[1];
}

/* Memory n of another rank, which has its colour, takes a few bytes and gives them back. */
static void try_copies(int number, acp_ga_t there) {
    const acp_ga_t own = acp.ga(keys[number], memory[number]);
    CHECK(acp.part[1](own) == number % acp.colors() && acp.part[1](there) == acp.part[1](own),
          "memory %d has colour %d", number, acp.part[1](there));
    memory[number][0] = 1000 + (uint64_t)check_rank;
    memory[number][1] = 0;
    acp_sync();
    acp.complete(acp.copy(there + 8, own, 8, ACP_HANDLE_NULL));
    acp_sync();
    const uint64_t right = 1000 + (uint64_t)((check_rank + 1) % check_nranks);
    CHECK(memory[number][1] == right, "memory %d has %llu", number,
          (unsigned long long)memory[number][1]);
    acp.complete(acp.copy(own, there, 8, ACP_HANDLE_NULL));
    acp_sync();
    CHECK(memory[number][0] >= 1000 && memory[number][0] < 1000 + (uint64_t)check_nranks,
          "memory %d got %llu", number, (unsigned long long)memory[number][0]);
    acp_sync();
}

/* The words of `there` become 100 and 0; one operation on the first leaves its old value in the
 * second of ours. */
static void try_atomics(int number, acp_ga_t there) {
    static const uint64_t after[] = {30, 130, 100 ^ 30, 100 | 30, 100 & 30};
    const acp_ga_t own = acp.ga(keys[number], memory[number]);
    for (int i = 0; i < 12; i++) {
        const int op = i / 2;
        acp_handle_t handle;
        memory[number][0] = 100;
        memory[number][1] = 0;
        acp_sync();
        if (op == 5)
            handle = i % 2 ? acp.cas8(own + 8, there, 100, 77, ACP_HANDLE_NULL)
                           : acp.cas4(own + 8, there, 100, 77, ACP_HANDLE_NULL);
        else
            handle = i % 2 ? acp.op8[op](own + 8, there, 30, ACP_HANDLE_NULL)
                           : acp.op4[op](own + 8, there, 30, ACP_HANDLE_NULL);
        acp.complete(handle);
        CHECK(acp.inquire(handle) == 0, "operation %d is not complete", i);
        acp_sync();
        CHECK(memory[number][0] == (op == 5 ? 77 : after[op]) && memory[number][1] == 100,
              "operation %d made %llu of 100, and told %llu", i,
              (unsigned long long)memory[number][0], (unsigned long long)memory[number][1]);
        acp_sync();
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "acp_interface");
    CHECK(acp.init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    const int rank = acp_rank(), procs = acp_procs(), left = (rank + procs - 1) % procs;
    CHECK(rank == check_rank && procs == check_nranks, "rank %d of %d", rank, procs);
    own_starter = acp.starter(rank);
    left_starter = acp.starter(left);
    starter = acp.address(own_starter);
    for (int i = 0; i < KEYS; i++) {
        keys[i] = acp.begin(memory[i], sizeof memory[i], i % acp.colors());
        CHECK(keys[i] != ACP_ATKEY_NULL, "no key %d: %s", i, tug_strerror(ACP_ERRNO));
    }
    const acp_ga_t there = meet(0);
    CHECK(acp.part[0](there) == left && acp.part[1](there) == 0, "memory of rank %d",
          acp.part[0](there));
    const uint64_t before = get_clock();
    try_atomics(0, there);
    acp_sync();
    CHECK(get_clock() > before, "the clock stands");
    CHECK(acp.end(keys[0]) == 0, "key 0 does not end: %s", tug_strerror(ACP_ERRNO));
    keys[KEYS] = acp.begin(memory[KEYS], sizeof memory[KEYS], KEYS % acp.colors());
    CHECK(keys[KEYS] != ACP_ATKEY_NULL, "no key again: %s", tug_strerror(ACP_ERRNO));
    const acp_ga_t again = meet(KEYS);
    try_copies(KEYS, again);
    try_atomics(KEYS, again);
    CHECK(acp_finalize() == 0, "acp_finalize: %s", tug_strerror(ACP_ERRNO));
    return check_end();
}

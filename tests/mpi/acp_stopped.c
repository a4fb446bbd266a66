/*
 * acp_stopped: a small copy that goes alone needs nobody's help on a node, the first one included.
 *
 * Rank 0 stops all other processes (SIGSTOP) and copies to, from and between their registered
 * memory, one copy at a time: it reads their entries and data itself, or the kernel does. Skips
 * where the kernel does not allow that. With "starter" they lie in starter memory. With "known"
 * rank 0 has used the memory before: without mapped memory it asks for entries by packets.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "stopped.h"
#include <acp.h>

enum { ROUNDS = 100, WORDS = 512, BYTES = WORDS * sizeof(uint64_t) };

static acp_ga_t ga[STOPPED_RANKS];
static uint64_t *memory;

static void copy(int to, int at, int from, int at_there, size_t bytes) {
    acp_handle_t handle =
        acp_copy(ga[to] + 8 * (size_t)at, ga[from] + 8 * (size_t)at_there, bytes, ACP_HANDLE_NULL);
    CHECK(handle != ACP_HANDLE_NULL, "refused: %s", tug_strerror(ACP_ERRNO));
    acp_complete(handle);
    CHECK(ACP_ERRNO == 0, "%s", tug_strerror(ACP_ERRNO));
    CHECK(!stopped_late, "a copy from rank %d to rank %d waited for them", from, to);
}

/* Once round: every rank's first words come by way of all others, and change on none. */
static void go_round(int round) {
    const size_t bytes = round % 2 ? 8 : BYTES / 2;
    memory[0] = check_word(1, 0, (uint64_t)round);
    memory[bytes / 8 - 1] = ~memory[0];
    for (int r = 0; r < check_nranks; r++)
        copy((r + 1) % check_nranks, r == check_nranks - 1 ? WORDS / 2 : 0, r, 0, bytes);
    CHECK(memcmp(memory, memory + WORDS / 2, bytes) == 0, "round %d: %llx came back as %llx", round,
          (unsigned long long)memory[0], (unsigned long long)memory[WORDS / 2]);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "acp_stopped");
    stopped_meet();
    if (!stopped_reachable()) {
        if (check_rank == 0)
            printf("skipped: no cross-memory attach here\n");
        MUST(MPI_Finalize());
        return CHECK_SKIP;
    }
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    const bool starter = argc > 1 && strcmp(argv[1], "starter") == 0;
    memory = starter ? acp_query_address(acp_query_starter_ga(check_rank)) : check_memory(BYTES);
    acp_ga_t here = starter ? acp_query_starter_ga(check_rank)
                            : acp_query_ga(acp_register_memory(memory, BYTES, 0), memory);
    MUST(MPI_Allgather(&here, 1, MPI_UINT64_T, ga, 1, MPI_UINT64_T, MPI_COMM_WORLD));
    acp_sync();
    if (check_rank == 0) {
        const int before = argc > 1 && strcmp(argv[1], "known") == 0 ? 3 : 0;
        for (int round = 0; round < before; round++)
            go_round(round);
        stopped_begin();
        for (int round = before; round < ROUNDS; round++)
            go_round(round);
        stopped_end();
    }
    acp_sync();
    CHECK(acp_finalize() == 0, "acp_finalize: %s", tug_strerror(ACP_ERRNO));
    if (!starter)
        check_memory_free(memory);
    return check_end();
}

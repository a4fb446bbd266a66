/*
 * acp_relay: storms of third-party commands, and chains of them.
 *
 * The last rank but one has the sources, the last the destinations, all the others issue: more
 * commands than the source has room for, while the last rank may be slow to take what is written
 * (argument "slow": it computes for a while and, with TUGBOAT_PROGRESS=caller, serves nobody). Each
 * command adds one to a number at the source and puts the old value into a place of its own at the
 * destination: in the end every value has come exactly once, and the number is right. Then a chain:
 * a word is handed from place to place of the two, each step behind the one before. Arguments:
 * commands an issuer (3000), slow.
 */
#include "check.h"
#include <acp.h>
#include <unistd.h>

enum { CHAIN = 200 };

static uint64_t *memory; /* registered, on every rank; word 0 is the number */
static acp_ga_t ga[16];

static void storm(int commands, int source, int destination) {
    for (int n = 0; n < commands; n++) {
        acp_ga_t place = ga[destination] + 8 * (size_t)(check_rank * commands + n + 1);
        acp_handle_t handle = acp_add8(place, ga[source], 1, ACP_HANDLE_NULL);
        CHECK(handle != ACP_HANDLE_NULL, "refused: %s", tug_strerror(ACP_ERRNO));
    }
    acp_complete(ACP_HANDLE_ALL);
    CHECK(ACP_ERRNO == 0, "%s", tug_strerror(ACP_ERRNO));
}

static void check_storm(int total) {
    unsigned char *seen = calloc((size_t)total, 1);
    for (int n = 1; n <= total; n++) {
        CHECK(memory[n] > 0 && memory[n] <= (uint64_t)total, "place %d holds %llu", n,
              (unsigned long long)memory[n]);
        CHECK(!seen[memory[n] - 1]++, "%llu has come twice", (unsigned long long)memory[n]);
    }
    free(seen);
}

/* Word n + 1 of the one becomes word n + 2 of the other; the places hold something else before. */
static void chain(int source, int destination) {
    acp_handle_t last = ACP_HANDLE_NULL;
    for (size_t n = 1; n <= CHAIN; n++) {
        int from = n % 2 ? source : destination, to = n % 2 ? destination : source;
        last = acp_copy(ga[to] + 8 * (n + 1), ga[from] + 8 * n, 8, n % 3 ? last : ACP_HANDLE_CONT);
        CHECK(last != ACP_HANDLE_NULL, "refused: %s", tug_strerror(ACP_ERRNO));
    }
    acp_complete(last);
}

int main(int argc, char **argv) {
    int commands = argc > 1 ? atoi(argv[1]) : 3000;
    bool slow = argc > 2 && strcmp(argv[2], "slow") == 0;
    check_begin(&argc, &argv, "acp_relay");
    CHECK(check_nranks >= 3, "three ranks at least");
    int source = check_nranks - 2, destination = check_nranks - 1, total = source * commands;
    CHECK(acp_init(&argc, &argv) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
    size_t bytes = 8 * (size_t)(total + CHAIN + 4);
    memory = check_memory(bytes);
    acp_ga_t mine = acp_query_ga(acp_register_memory(memory, bytes, 0), memory);
    MUST(MPI_Allgather(&mine, 1, MPI_UINT64_T, ga, 1, MPI_UINT64_T, MPI_COMM_WORLD));
    memory[0] = 1;
    acp_sync();
    if (check_rank < source)
        storm(commands, source, destination);
    else if (check_rank == destination && slow)
        usleep(300000);
    acp_sync();
    if (check_rank == destination)
        check_storm(total);
    if (check_rank == source) {
        CHECK(memory[0] == (uint64_t)total + 1, "the number is %llu, not %d",
              (unsigned long long)memory[0], total + 1);
        memory[1] = check_word(1, 2, 3);
    }
    acp_sync();
    if (check_rank == 0)
        chain(source, destination);
    acp_sync();
    if (check_rank == (CHAIN % 2 ? destination : source))
        CHECK(memory[CHAIN + 1] == check_word(1, 2, 3), "the end of the chain holds 0x%llx",
              (unsigned long long)memory[CHAIN + 1]);
    CHECK(acp_finalize() == 0, "acp_finalize");
    check_memory_free(memory);
    return check_end();
}

#include "node/pings.h"

#include <string.h>

#include "base/clock.h"
#include "host/host.h"
#include "host/polite.h"

#define PINGS 20

/* Who meets a node in a round: each meets each other once in m - 1 rounds, m being even. The last
 * one meets the node that would meet itself. */
static uint32_t partner_of(uint32_t node, uint32_t round, uint32_t m) {
    const uint32_t others = m - 1;
    if (node == others)
        return round % 2 == 0 ? round / 2 : (round + others) / 2;
    const uint32_t partner = (round + others - node) % others;
    return partner == node ? others : partner;
}

static bool send(MPI_Comm comm, int rank) {
    return TUG_POLITE(Isend, NULL, 0, MPI_BYTE, rank, 0, comm) == MPI_SUCCESS;
}

static bool receive(MPI_Comm comm, int rank) {
    return TUG_POLITE(Irecv, NULL, 0, MPI_BYTE, rank, 0, comm) == MPI_SUCCESS;
}

/* There and back, in microseconds; 0: it failed. */
static float ping(MPI_Comm comm, int rank) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < PINGS; i++) {
        const uint64_t begin = tug_clock_ns();
        if (!send(comm, rank) || !receive(comm, rank))
            return 0;
        const uint64_t taken = tug_clock_ns() - begin;
        least = taken < least ? taken : least;
    }
    return (float)least / 1000;
}

static void answer(MPI_Comm comm, int rank) {
    for (int i = 0; i < PINGS; i++)
        if (!receive(comm, rank) || !send(comm, rank))
            return;
}

static void measure(MPI_Comm comm, const struct tug_places *places, uint32_t node, float *times) {
    const uint32_t n = places->nnodes, m = n + n % 2;
    for (uint32_t round = 0; round < m - 1; round++) {
        const uint32_t other = partner_of(node, round, m);
        if (other >= n)
            continue;
        const int rank = (int)tug_places_rank(places, other, 0);
        if (node < other)
            times[node * n + other] = ping(comm, rank);
        else
            answer(comm, rank);
    }
}

void tug_pings_measure(MPI_Comm comm, uint32_t rank, const struct tug_places *places,
                       float *times) {
    const uint32_t pairs = places->nnodes * places->nnodes;
    memset(times, 0, pairs * sizeof(*times));
    if (places->node_rank_of[rank] == 0)
        measure(comm, places, places->node_of[rank], times);
    if (TUG_POLITE(Iallreduce, MPI_IN_PLACE, times, (int)pairs, MPI_FLOAT, MPI_MAX, comm) !=
        MPI_SUCCESS)
        memset(times, 0, pairs * sizeof(*times));
}

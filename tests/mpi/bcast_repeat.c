/*
 * bcast_repeat: MPI_Bcast and MPI_Bcast_c in loops, as programs call them.
 *
 * Roots, sizes and datatypes come back in an order of their own, more kinds than are kept; buffers
 * move; ranks describe the same bytes differently (a vector here, a block there, MPI_BOTTOM with
 * absolute addresses elsewhere); communicators are duplicated, split and freed in between. Looked
 * at: the data, and that nothing beside it is touched.
 */
#include "check.h"

enum { KINDS = 12, MOST = 300000, PAD = 64 };

static const int sizes[KINDS] = {1, 8, 56, 57, 1000, 4096, 20000, 65536, 100000, 131072, 0, MOST};
static unsigned char memory[2 * MOST + 4 * PAD];

static unsigned char byte_of(int root, int round, int i) {
    return (unsigned char)(check_seed + (unsigned)root * 31u + (unsigned)round * 7u + (unsigned)i +
                           (unsigned)(i >> 8));
}

/* How a rank describes the bytes: its memory begins at base, a byte every `step`. */
struct view {
    unsigned char *base;
    int step;
};

static struct view send(int how, int n, int root, MPI_Comm comm) {
    struct view view = {memory + PAD + how % 5, how % 3 == 1 ? 2 : 1};
    MPI_Datatype type;
    if (how % 3 == 0) {
        if (how % 2)
            MUST(MPI_Bcast(view.base, n, MPI_BYTE, root, comm));
        else
            MUST(MPI_Bcast_c(view.base, n, MPI_BYTE, root, comm));
        return view;
    }
    if (how % 3 == 1) {
        MUST(MPI_Type_vector(n, 1, 2, MPI_BYTE, &type));
    } else {
        MPI_Aint address;
        MPI_Get_address(view.base, &address);
        MUST(MPI_Type_create_hindexed_block(1, n, &address, MPI_BYTE, &type));
    }
    MUST(MPI_Type_commit(&type));
    MUST(MPI_Bcast(how % 3 == 1 ? view.base : MPI_BOTTOM, 1, type, root, comm));
    MUST(MPI_Type_free(&type));
    return view;
}

static void broadcast(int kind, int round, int root, MPI_Comm comm) {
    int rank;
    int n = sizes[kind];
    MPI_Comm_rank(comm, &rank);
    int how = (round + rank) % 6;
    int step = how % 3 == 1 ? 2 : 1;
    memset(memory, 0xee, sizeof(memory));
    for (int i = 0; rank == root && i < n; i++)
        memory[PAD + how % 5 + i * step] = byte_of(root, round, i);
    struct view view = send(how, n, root, comm);
    for (int i = 0; i < n; i++) {
        CHECK(view.base[i * step] == byte_of(root, round, i), "byte %d of %d, root %d, round %d", i,
              n, root, round);
        CHECK(step == 1 || view.base[i * step + 1] == 0xee, "the gap after byte %d of %d", i, n);
    }
    CHECK(view.base[-1] == 0xee && view.base[n * step] == 0xee, "beside %d bytes", n);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "bcast_repeat");
    int rounds = check_rounds(40, 16);
    for (int round = 0; round < rounds; round++) {
        MPI_Comm comm = MPI_COMM_WORLD;
        int nranks;
        if (round % 8 == 5)
            MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (round % 8 == 6)
            MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &comm));
        MPI_Comm_size(comm, &nranks);
        for (int kind = 0; kind < KINDS; kind++)
            for (int again = 0; again < (kind < 4 ? 7 : 1 + round % 3); again++)
                broadcast(kind, round + again, (kind + round / 10) % nranks, comm);
        if (comm != MPI_COMM_WORLD)
            MUST(MPI_Comm_free(&comm));
    }
    check_end();
    return 0;
}

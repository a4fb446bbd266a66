/*
 * attached_scarce: a rank of another node has no memory to note who knows of what it has attached.
 *
 * The origin's first access, which asks for the place, fails with MPI_ERR_NO_MEM, not as if nothing
 * were attached there, and changes nothing. Where nothing is attached it is MPI_ERR_RMA_RANGE as
 * before. With memory again the same access does what it should. Run with tests/tools/scarce.c.
 */
#include "check.h"

void scarce_refuse(size_t bytes) __attribute__((weak));

enum { TARGET = 1, NOTE = 8 }; /* bytes: of a word of bits, one a rank */

static int64_t cells[8];

static int put(MPI_Win win, int64_t value, MPI_Aint address) {
    int class = MPI_SUCCESS;
    int error = MPI_Put(&value, 1, MPI_INT64_T, TARGET, address, 1, MPI_INT64_T, win);
    if (error == MPI_SUCCESS)
        error = MPI_Win_flush(TARGET, win);
    MUST(MPI_Error_class(error, &class));
    return class;
}

int main(int argc, char **argv) {
    MPI_Win win;
    MPI_Aint address = 0;
    check_begin(&argc, &argv, "attached_scarce");
    CHECK(scarce_refuse != NULL, "not run with scarce");
    MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    if (check_rank == TARGET) {
        MUST(MPI_Win_attach(win, cells, sizeof cells));
        MUST(MPI_Get_address(cells, &address));
        scarce_refuse(NOTE);
    }
    MUST(MPI_Bcast(&address, 1, MPI_AINT, TARGET, MPI_COMM_WORLD));
    MUST(MPI_Win_lock_all(0, win));
    if (check_rank != TARGET) {
        int class = put(win, 1, address);
        CHECK(class == MPI_ERR_NO_MEM, "without memory: error class %d", class);
        class = put(win, 1, address + (MPI_Aint)sizeof cells);
        CHECK(class == MPI_ERR_RMA_RANGE, "behind the end: error class %d", class);
    }
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == TARGET) {
        CHECK(cells[0] == 0, "%lld was put", (long long)cells[0]);
        scarce_refuse(0);
    }
    check_barrier(MPI_COMM_WORLD);
    if (check_rank != TARGET)
        CHECK(put(win, 7, address) == MPI_SUCCESS, "with memory again");
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_unlock_all(win));
    if (check_rank == TARGET) {
        CHECK(cells[0] == 7, "%lld is there, not 7", (long long)cells[0]);
        MUST(MPI_Win_detach(win, cells));
    }
    MUST(MPI_Win_free(&win));
    return check_end();
}

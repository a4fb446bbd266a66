/*
 * cxx: a C++ program: windows, messages and a persistent broadcast, in objects that free what they
 * have, with an exception thrown through an epoch and a reduction by a function of the program's.
 *
 * The public headers are for C++ too; this program is linked with none of the library's.
 */
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "acp.h"
#include "tugboat/gas.h"
#include "tugboat/llcl.h"
#include "tugboat/model.h"
#include "tugboat/mpix.h"
#include "tugboat/tugboat.h"

namespace {

int rank, nranks;

void check(bool right, const std::string &what) {
    if (right)
        return;
    std::fprintf(stderr, "WRONG rank %d of %d: %s\n", rank, nranks, what.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A vector of words that all ranks reach. */
class Shared {
  public:
    explicit Shared(int n) {
        MPI_Win_allocate(n * MPI_Aint{8}, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
        std::fill(words, words + n, 0);
        MPI_Win_fence(0, win);
    }
    ~Shared() {
        MPI_Win_free(&win);
    }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;

    /* An epoch on one rank, ended however it is left. */
    class Epoch {
      public:
        Epoch(Shared &shared, int target) : window(shared.win), to(target) {
            MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window);
        }
        ~Epoch() {
            MPI_Win_unlock(to, window);
        }
        Epoch(const Epoch &) = delete;
        Epoch &operator=(const Epoch &) = delete;

        void add(std::int64_t value, int at) {
            if (at < 0)
                throw std::out_of_range("no such word");
            MPI_Accumulate(&value, 1, MPI_INT64_T, to, at, 1, MPI_INT64_T, MPI_SUM, window);
            MPI_Win_flush(to, window);
        }

      private:
        MPI_Win window;
        int to;
    };

    std::int64_t *words = nullptr;

  private:
    MPI_Win win = MPI_WIN_NULL;
};

void adds_and_throws() {
    Shared shared(4);
    bool caught = false;
    for (int r = 0; r < nranks; r++) {
        try {
            Shared::Epoch epoch(shared, r);
            epoch.add(rank + 1, 2);
            epoch.add(1, r == 0 ? -1 : 3);
        } catch (const std::out_of_range &) {
            caught = true;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check(caught, "the exception was lost");
    check(shared.words[2] == nranks * (nranks + 1) / 2, "sum " + std::to_string(shared.words[2]));
    check(shared.words[3] == (rank == 0 ? 0 : nranks), "count " + std::to_string(shared.words[3]));
    MPI_Barrier(MPI_COMM_WORLD); /* before the memory goes */
}

void broadcasts() {
    std::vector<double> values(1000);
    MPI_Request request;
    MPI_Bcast_init(values.data(), static_cast<int>(values.size()), MPI_DOUBLE, nranks - 1,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < 3; round++) {
        if (rank == nranks - 1)
            std::iota(values.begin(), values.end(), round);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check(values.back() == round + 999.0, "broadcast " + std::to_string(values.back()));
    }
    MPI_Request_free(&request);
}

void longer(void *in, void *inout, int *n, MPI_Datatype *) {
    const auto *a = static_cast<const int *>(in);
    auto *b = static_cast<int *>(inout);
    for (int i = 0; i < *n; i++)
        b[i] = std::max(a[i], b[i]);
}

void reduces() {
    const std::string mine(static_cast<std::size_t>(rank) + 3, 'x');
    int length = static_cast<int>(mine.size()), most = 0;
    MPI_Op op;
    MPI_Op_create(longer, 1, &op);
    MPI_Allreduce(&length, &most, 1, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    check(most == nranks + 2, "the longest " + std::to_string(most));
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    adds_and_throws();
    broadcasts();
    reduces();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        std::puts("right");
    MPI_Finalize();
    return 0;
}

/* "My work-stealing queue is slow." Each rank has a queue of tasks in its window: one word with the
 * first task and the one after the last. Who takes a task, or steals half of what is left
 * elsewhere, changes the word by compare-and-swap. Rank 0 has all tasks at first.
 *
 *     mpiexec -n 2 ./queue [tasks [ms of each]]
 *     tugboat run mpiexec -n 2 ./queue
 *
 * The owner computes between two looks at its queue. On the host MPI alone a thief gets its answers
 * only when the owner looks, and by then the word has changed. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 64 /* a queue has a cache line of its own */

static int rank, size;
static double task_s;
static MPI_Win win;

static uint64_t range(uint32_t first, uint32_t after) {
    return (uint64_t)first << 32 | after;
}
static uint32_t first_of(uint64_t word) {
    return (uint32_t)(word >> 32);
}
static uint32_t after_of(uint64_t word) {
    return (uint32_t)word;
}

static uint64_t look(int owner) {
    uint64_t word;
    MPI_Fetch_and_op(NULL, &word, MPI_UINT64_T, owner, 0, MPI_NO_OP, win);
    MPI_Win_flush(owner, win);
    return word;
}

/* The word becomes `desired` if it is *seen; else false, and *seen is what it is. */
static int swap(int owner, uint64_t *seen, uint64_t desired) {
    uint64_t old;
    MPI_Compare_and_swap(&desired, seen, &old, MPI_UINT64_T, owner, 0, win);
    MPI_Win_flush(owner, win);
    const int swapped = old == *seen;
    *seen = old;
    return swapped;
}

/* A task of a queue, or -1: owners take the first one, thieves the last. */
static int64_t take(int owner) {
    for (uint64_t seen = look(owner); first_of(seen) < after_of(seen);) {
        const uint32_t first = first_of(seen), after = after_of(seen);
        const int mine = owner == rank;
        if (swap(owner, &seen, mine ? range(first + 1, after) : range(first, after - 1)))
            return mine ? first : after - 1;
    }
    return -1;
}

/* A task of any other rank, or -1: then all have been taken, for no queue is filled again. */
static int64_t steal(void) {
    for (int i = 1; i < size; i++) {
        const int64_t task = take((rank + i) % size);
        if (task >= 0)
            return task;
    }
    return -1;
}

/* A task: asks the clock, and nothing else. Its number goes into the sum that is checked. */
static uint64_t do_task(int64_t task) {
    const double end = MPI_Wtime() + task_s;
    while (MPI_Wtime() < end)
        ;
    return (uint64_t)task + 1;
}

int main(int argc, char **argv) {
    uint64_t *word, sum = 0, all = 0;
    int stolen = 0, thefts = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int tasks = argc > 1 ? atoi(argv[1]) : 200;
    task_s = (argc > 2 ? atof(argv[2]) : 2) * 1e-3;
    if (tasks < 1 || !(task_s >= 0)) {
        fprintf(stderr, "usage: queue [tasks [ms of each]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win_allocate(LINE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    *word = rank == 0 ? range(0, (uint32_t)tasks) : 0;
    MPI_Win_lock_all(0, win);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);

    const double begin = MPI_Wtime();
    double stealing = 0;
    for (;;) {
        const double idle = MPI_Wtime();
        int64_t task = take(rank);
        if (task < 0) {
            task = steal();
            stealing += MPI_Wtime() - idle;
            stolen += task >= 0;
        }
        if (task < 0)
            break;
        sum += do_task(task);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;

    MPI_Win_unlock_all(win);
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(&stolen, &thefts, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &stealing, &stealing, 1, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    const int wrong = all != (uint64_t)tasks * ((uint64_t)tasks + 1) / 2;
    if (rank == 0)
        printf("queue: %.1f ms, shared out evenly %.1f; %d of %d tasks were stolen, %.3f ms of "
               "stealing\n",
               took * 1e3, tasks * task_s / size * 1e3, thefts, tasks, stealing * 1e3);
    if (rank == 0 && wrong)
        fprintf(stderr, "a task was done twice, or never\n");
    MPI_Win_free(&win);
    MPI_Finalize();
    return wrong;
}

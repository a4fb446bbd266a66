/* Puts of 8 bytes for way.sh, which counts what the last one takes. Two ranks:
 *
 *     way_put WINDOW PUT
 *
 *   WINDOW  allocate, create: the window's memory is rank 1's; own: it is rank 0's, created
 *   PUT     like: it follows puts that differ in place alone; unlike: the one before it was of
 *           another type; single: one between two flushes, while the offload thread sleeps
 *
 * way_mark() is called before the put, between it and its flush, and behind that. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 200 /* until everything has been met, and opened */
#define BURST 20   /* fewer than are executed at a time while more join */
#define WORDS 64
#define QUIET_US 100000 /* until nobody looks for news */

void way_mark(void);
__attribute__((noinline)) void way_mark(void) {
    __asm__ volatile("" ::: "memory");
}

static MPI_Win make_window(const char *kind, long **memory) {
    MPI_Win win;
    if (strcmp(kind, "allocate") == 0) {
        MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, memory,
                         &win);
    } else {
        *memory = calloc(WORDS, sizeof(long));
        MPI_Win_create(*memory, WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                       &win);
    }
    return win;
}

/* All but the last put of a burst. */
static void put_burst(int target, const char *put, MPI_Win win) {
    static long values[BURST];
    if (strcmp(put, "single") == 0)
        return;
    for (int i = 0; i < BURST; i++) {
        values[i] = i;
        MPI_Put(&values[i], 1, MPI_LONG, target, i, 1, MPI_LONG, win);
    }
    if (strcmp(put, "unlike") == 0)
        MPI_Put(&values[0], 1, MPI_INT, target, BURST, 1, MPI_INT, win);
}

int main(int argc, char **argv) {
    int rank, provided;
    long *memory;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3) {
        fprintf(stderr, "usage: way_put allocate|create|own like|unlike|single\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int target = strcmp(argv[1], "own") == 0 ? 0 : 1;
    MPI_Win win = make_window(argv[1], &memory);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    long value = 0;
    for (int i = 1; rank == 0 && i <= ROUNDS; i++) {
        value = i;
        put_burst(target, argv[2], win);
        if (i == ROUNDS && strcmp(argv[2], "single") == 0)
            usleep(QUIET_US);
        if (i == ROUNDS)
            way_mark();
        MPI_Put(&value, 1, MPI_LONG, target, WORDS - 1, 1, MPI_LONG, win);
        if (i == ROUNDS)
            way_mark();
        MPI_Win_flush(target, win);
    }
    way_mark();
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    const int wrong = rank == target && memory[WORDS - 1] != ROUNDS;
    MPI_Win_unlock_all(win);
    if (wrong)
        fprintf(stderr, "way_put: the put has not come\n");
    MPI_Win_free(&win);
    MPI_Finalize();
    return wrong;
}

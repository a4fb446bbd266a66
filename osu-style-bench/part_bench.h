/* part_bench.h: what the benchmarks of partitioned communication share: their options, a team of
 * threads that make partitions ready, and a check of what has arrived.
 *
 * The calling thread is one of the team. The others wait between two calls by giving their cores
 * away again and again: to wake sleepers would cost more than what is measured.
 * Threading: everything is called by the main thread.
 */
#ifndef OSU_STYLE_BENCH_PART_BENCH_H
#define OSU_STYLE_BENCH_PART_BENCH_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

/* Messages of so many partitions of so many bytes, made ready by so many threads. */
struct part_cell {
    int threads, partitions;
    size_t bytes; /* of a partition */
};

/* bench_start() with the options --threads, --partitions, --sizes and --seconds, and with the one
 * given; two ranks. */
void part_start(int *argc, char ***argv, const char *about, struct bench_option option);

extern double part_seconds;

/* Sums run() over all combinations. Its team of threads is there meanwhile. */
long part_for_each(long (*run)(const struct part_cell *cell));

/* Every thread makes every n-th partition of each request ready. Returns when all are. */
void part_make_ready(MPI_Request requests[], int nrequests, int partitions);

/* Memory at a page. */
void *part_memory(size_t bytes);

/* Prints the cells threads, partitions, bytes, which are the table's first columns. */
#define PART_COLUMNS                                                                               \
    {"threads", BENCH_KEY, 0}, {"partitions", BENCH_KEY, 0}, {                                     \
        "bytes", BENCH_KEY, 0                                                                      \
    }
void part_print(const struct part_cell *cell);

#endif

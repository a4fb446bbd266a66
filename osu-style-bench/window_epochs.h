/* window_epochs.h: the parts of window_epochs, which measures epochs of one-sided operations.
 *
 * window_operations.c has the operations and synchronisations as tables: how an epoch goes at its
 * origin and at its target, and what must be in memory after so many. window_epochs.c chooses the
 * cells, times them and prints a row for each.
 * Rank 0 is the origin and rank 1 the target. A worker is one thread of the origin; each has a
 * place of its own in the target's memory.
 * Threading: a worker belongs to its thread while epochs run and to the main thread otherwise.
 */
#ifndef OSU_STYLE_BENCH_WINDOW_EPOCHS_H
#define OSU_STYLE_BENCH_WINDOW_EPOCHS_H

#include "bench.h"

enum { ORIGIN, TARGET };
enum { MOST_THREADS = 8, MOST_OPERATIONS = 256, MOST_SAMPLES = 1 << 14 };
#define SLOT_BYTES ((size_t)256 << 10) /* a worker's place in a window */

struct load {
    int count; /* operations in an epoch */
    long bytes;
};

struct worker {
    const struct synchronisation *sync;
    const struct operation *operation;
    struct load load;
    MPI_Win win;
    bool works;       /* this rank runs epochs: the origin, and with --both the target */
    int peer;         /* on whose memory */
    MPI_Aint at;      /* displacement of its place there */
    char *there;      /* on the target: that place */
    char *data;       /* SLOT_BYTES sent from or fetched to */
    uint64_t seed;    /* of the cell's data */
    int64_t nepochs;  /* since worker_prepare() */
    int64_t expected; /* operands of one epoch */
    int64_t desired;
    MPI_Request requests[MOST_OPERATIONS];
    double from_us;  /* when all threads began */
    double until_us; /* when to stop; one epoch at least */
    double elapsed_us;
    int64_t ntimed; /* epochs in elapsed_us */
    int nsamples;
    double samples[MOST_SAMPLES]; /* microseconds an epoch */
};

struct operation {
    const char *name;
    bool words_only; /* loads of 8 bytes alone */
    void (*start)(struct worker *worker, int i);
    void (*start_request)(struct worker *worker, int i); /* NULL: there is none */
    /* The number of wrong words, at the origin or at the target. */
    long (*check_origin)(const struct worker *worker);
    long (*check_target)(const struct worker *worker);
};

struct synchronisation {
    const char *name;
    bool active;    /* the target makes a call for each epoch */
    bool has_all;   /* the origin has a lock on all ranks for all of the cell */
    bool completes; /* an epoch's operations are complete at the target when it ends */
    void (*epoch)(struct worker *worker);
    void (*target_epoch)(struct worker *worker); /* active ones */
};

extern const struct operation operations[];
extern const struct synchronisation synchronisations[];
enum { NOPERATIONS = 5, NSYNCHRONISATIONS = 6 };

/* Makes the groups that post and start name. Collective. */
void synchronisations_start(void);
void synchronisations_end(void);

/* Whether MPI has such an epoch: not every operation has a request, nor every size. */
bool is_possible(const struct synchronisation *sync, const struct operation *operation,
                 const struct load *load);

/* Sets memory and operands of one worker for a new cell. On both ranks; then a bench_sync(). */
void worker_prepare(struct worker *worker);

/* Between these two come the cell's epochs; by the main thread of both ranks. */
void cell_begin(struct worker *worker);
void cell_end(struct worker *worker);

/* Wrong words on this rank after nepochs epochs. */
long worker_check(const struct worker *worker);

#endif

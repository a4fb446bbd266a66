/* llcl_bench.h: what the benchmarks of the low-level layer share.
 *
 * Other than the rest of this folder these programs use the library by name (<tugboat/llcl.h>) and
 * are linked with it. Two processes: the origin starts operations, the target serves. A *side* is
 * one context with its memory; most programs have two and measure them alternately, so that the
 * ratio is of one run. One is used as it should be: any thread calls, and waits by
 * tug_counter_wait(). The other (*locked*) is used as a library without an engine has to be: every
 * call is made under one lock, and who waits polls by tug_progress(). A side is open
 * for its own samples only: an engine that watches over an idle context costs the other side time.
 *
 * A sample goes: open; the target in llcl_serve(), the origin measures and ends with
 * llcl_release(); then the target's memory may be looked at; the same again if the first was to
 * warm up; close.
 * Invariant: one side at a time is open.
 * Threading: main threads, but for llcl_try(), llcl_start() and llcl_wait(), which any thread of
 * the origin may call.
 */
#ifndef OSU_STYLE_BENCH_LLCL_BENCH_H
#define OSU_STYLE_BENCH_LLCL_BENCH_H

#include "bench.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tugboat/llcl.h>

enum { LLCL_ORIGIN = 0, LLCL_TARGET = 1 };

enum llcl_op { LLCL_READ, LLCL_WRITE, LLCL_FETCH, LLCL_AM, LLCL_OPS };
extern const char *const llcl_op_names[LLCL_OPS];

/* What the messages of a sample have left at the target. */
struct llcl_sink {
    uint64_t messages;
    uint64_t first_words, last_words; /* sums */
};

struct llcl_side {
    bool locked;
    pthread_mutex_t lock; /* of every call on the context that this process makes, if locked */
    size_t remote_bytes, local_bytes; /* of both processes */
    tug_context *context;
    tug_registration *remote; /* the other process's operations work on it */
    unsigned char *memory;    /* of remote */
    struct tug_key key;       /* of the other process's memory */
    tug_registration *local;  /* source of writes and messages, destination of reads */
    unsigned char *buffer;    /* of local */
    void *malloced;           /* private memory behind remote */
    struct llcl_sink sink;
    struct tug_counter releases; /* of the target, by the origin */
    uint64_t nreleases;
};

/* Options that all these programs have; `memory` is mapped or private, `target_wait` is poll or
 * wait. */
struct llcl_options {
    const char *memory;
    const char *target_wait;
};
extern struct llcl_options llcl_options;

#define LLCL_OPTIONS                                                                               \
    {"memory", BENCH_TEXT, &llcl_options.memory,                                                   \
     "mapped (tug_mem_allocate) or private (malloc, tug_mem_register)"},                           \
    {                                                                                              \
        "target", BENCH_TEXT, &llcl_options.target_wait,                                           \
            "rank 1 waits: wait (tug_wait) or poll (tug_progress)"                                 \
    }

/* bench_start() and the common options' check: 2 ranks. */
void llcl_start_program(int *argc, char ***argv, const char *about,
                        const struct bench_option options[], int noptions);

/* Reads "read,am" into ops[]; returns how many, or ends with a usage error. */
int llcl_parse_ops(const char *text, enum llcl_op ops[LLCL_OPS]);

/* bench_header() with the options above and the TUGBOAT_ settings in effect. */
void llcl_header(const char *what);

/* Ends the job with a message unless status is 0. */
void llcl_must(int status, const char *what);

/* The two sides of most programs, closed: the engine's, the locked one. */
void llcl_sides_set(struct llcl_side sides[2], size_t remote_bytes, size_t local_bytes);

/* Collective. Memory is zero; local memory is private. */
void llcl_side_open(struct llcl_side *side);
void llcl_side_close(struct llcl_side *side);

/* How operations of this kind and size reach the target: "mapped" or a transport's name. */
enum { LLCL_WAY = 16 };
void llcl_side_way(const struct llcl_side *side, enum llcl_op op, size_t bytes, char way[LLCL_WAY]);

/* The target: serves until the origin releases it. Returns what the origin says then. */
uint64_t llcl_serve(struct llcl_side *side);
void llcl_release(struct llcl_side *side, uint64_t word);

/* Calls of the host, looked up in its own library, past the tug, which stands before the MPI_ and
 * PMPI_ names. */
struct llcl_host {
    int (*put)(const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
    int (*get)(void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
    int (*allocate)(MPI_Aint, int, MPI_Info, MPI_Comm, void *, MPI_Win *);
    int (*create)(void *, MPI_Aint, int, MPI_Info, MPI_Comm, MPI_Win *);
    int (*free)(MPI_Win *);
    int (*lock_all)(int, MPI_Win);
    int (*unlock_all)(MPI_Win);
    int (*flush)(int, MPI_Win);
    int (*sync)(MPI_Win);
};
void llcl_find_host(struct llcl_host *host);

/* The kinds of fetch_and_op and messages have their own limits. */
bool llcl_op_has_size(enum llcl_op op, size_t bytes);

/* tug_progress(). */
void llcl_progress(struct llcl_side *side);

/* Waits until `target` have completed; an error ends the job. */
void llcl_wait(struct llcl_side *side, struct tug_counter *counter, uint64_t target);

static inline bool llcl_try_unlocked(const struct llcl_side *side, enum llcl_op op, size_t local,
                                     size_t remote, size_t bytes, struct tug_counter *counter) {
    const struct tug_remote_address there = {&side->key, remote};
    const struct tug_local_address here = {side->local, local};
    const struct tug_callback counted = {tug_counter_add, counter};
    switch (op) {
    case LLCL_READ:
        return tug_try_read_async(side->context, &(struct tug_read_params){.src_proc = LLCL_TARGET,
                                                                           .src_raddr = there,
                                                                           .dest_laddr = here,
                                                                           .size_in_bytes = bytes,
                                                                           .on_complete = counted});
    case LLCL_WRITE:
        return tug_try_write_async(side->context,
                                   &(struct tug_write_params){.dest_proc = LLCL_TARGET,
                                                              .dest_raddr = there,
                                                              .src_laddr = here,
                                                              .size_in_bytes = bytes,
                                                              .on_complete = counted});
    case LLCL_FETCH:
        return tug_try_fetch_and_op_async(
            side->context, &(struct tug_fetch_and_op_params){.dest_proc = LLCL_TARGET,
                                                             .dest_raddr = there,
                                                             .result_laddr = here,
                                                             .size_in_bytes = bytes,
                                                             .op = TUG_ADD,
                                                             .operand = 1,
                                                             .on_complete = counted});
    default:
        return tug_try_am_async(side->context,
                                &(struct tug_am_params){.dest_proc = LLCL_TARGET,
                                                        .handler = LLCL_AM,
                                                        .payload = side->buffer + local,
                                                        .size_in_bytes = bytes,
                                                        .on_complete = counted});
    }
}

/* One operation between `local` of the buffer and `remote` of the target's memory. */
static inline bool llcl_try(struct llcl_side *side, enum llcl_op op, size_t local, size_t remote,
                            size_t bytes, struct tug_counter *counter) {
    if (!side->locked)
        return llcl_try_unlocked(side, op, local, remote, bytes, counter);
    pthread_mutex_lock(&side->lock);
    bool room = llcl_try_unlocked(side, op, local, remote, bytes, counter);
    pthread_mutex_unlock(&side->lock);
    return room;
}

/* The same, helping until there is room. */
static inline void llcl_start(struct llcl_side *side, enum llcl_op op, size_t local, size_t remote,
                              size_t bytes, struct tug_counter *counter) {
    while (!llcl_try(side, op, local, remote, bytes, counter))
        llcl_progress(side);
}

#endif

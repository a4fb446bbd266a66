/* The tree of a datatype: what repeats is there once.
 *
 *   EMPTY                     nothing
 *   RUNS    n x span bytes    n runs, stride apart (a leaf; n > 1 runs never touch)
 *   LIST    {at, bytes} ...   runs anywhere (a leaf)
 *   LOOP    n x child         stride apart
 *   BLOCKS  {at, times} ...   at each of them so many children, stride apart
 *   FIELDS  node, node, ...   one after the other
 *
 * Every node lies `at` bytes from where its parent puts it, and order is that of packing. A run is
 * measured in bytes from its first element to the end of its last, gaps of pairs included.
 *
 * The functions that make nodes take over those (and the arrays) that are handed to them, join what
 * is cheap to join, and return NULL without memory or when handed NULL; nothing is left then
 * either. Plain data: no thread may read a tree that another still builds. Does not call MPI.
 */
#ifndef TUG_HOST_DATATYPE_TREE_H
#define TUG_HOST_DATATYPE_TREE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#define TUG_NODE_DEPTH 32 /* of nodes that are no leaves, one within the other */

enum tug_node_kind {
    TUG_NODE_EMPTY,
    TUG_NODE_RUNS,
    TUG_NODE_LIST,
    TUG_NODE_LOOP,
    TUG_NODE_BLOCKS,
    TUG_NODE_FIELDS,
};

struct tug_block {
    MPI_Aint at;
    size_t n; /* bytes in a LIST, children in BLOCKS */
};

struct tug_node {
    enum tug_node_kind kind;
    unsigned depth; /* 0 for leaves */
    MPI_Aint at;
    MPI_Aint stride;
    size_t n; /* repetitions, or entries */
    size_t span;
    struct tug_block *blocks;
    union {
        struct tug_node *child;
        struct tug_node **fields;
    };
};

struct tug_node *tug_node_empty(void);
struct tug_node *tug_node_run(size_t bytes);
struct tug_node *tug_node_clone(const struct tug_node *node);
void tug_node_free(struct tug_node *node);
/* What it points to, not the node. */
void tug_node_clear(struct tug_node *node);

struct tug_node *tug_node_shift(struct tug_node *node, MPI_Aint by);
struct tug_node *tug_node_repeat(struct tug_node *node, size_t n, MPI_Aint stride);
/* Repeats within the node itself. False if that takes a node above it. */
bool tug_node_fold(struct tug_node *node, size_t n, MPI_Aint stride);
struct tug_node *tug_node_list(struct tug_block *blocks, size_t n);
struct tug_node *tug_node_blocks(struct tug_node *child, MPI_Aint stride, struct tug_block *blocks,
                                 size_t n);
struct tug_node *tug_node_fields(struct tug_node **fields, size_t n);

struct tug_node_facts {
    size_t bytes, nruns;
    MPI_Aint first, end; /* of an EMPTY node both 0 */
};
struct tug_node_facts tug_node_facts(const struct tug_node *node);

#endif

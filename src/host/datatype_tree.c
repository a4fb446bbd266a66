#include "host/datatype_tree.h"

#include <stdlib.h>
#include <string.h>

/* ---- making and freeing ---- */

static struct tug_node *new_node(enum tug_node_kind kind, size_t n) {
    struct tug_node *node = calloc(1, sizeof(*node));
    if (node != NULL) {
        node->kind = kind;
        node->n = n;
    }
    return node;
}

struct tug_node *tug_node_empty(void) {
    return new_node(TUG_NODE_EMPTY, 0);
}

struct tug_node *tug_node_run(size_t bytes) {
    struct tug_node *node = new_node(bytes > 0 ? TUG_NODE_RUNS : TUG_NODE_EMPTY, 1);
    if (node != NULL) {
        node->span = bytes;
        node->stride = (MPI_Aint)bytes;
    }
    return node;
}

void tug_node_clear(struct tug_node *node) {
    free(node->blocks);
    if (node->kind == TUG_NODE_LOOP || node->kind == TUG_NODE_BLOCKS)
        tug_node_free(node->child);
    if (node->kind == TUG_NODE_FIELDS) {
        for (size_t i = 0; i < node->n; i++)
            tug_node_free(node->fields[i]);
        free((void *)node->fields);
    }
}

void tug_node_free(struct tug_node *node) {
    if (node == NULL)
        return;
    tug_node_clear(node);
    free(node);
}

static bool clone_insides(struct tug_node *copy, const struct tug_node *node) {
    if (node->blocks != NULL) {
        copy->blocks = malloc(node->n * sizeof(*copy->blocks));
        if (copy->blocks == NULL)
            return false;
        memcpy(copy->blocks, node->blocks, node->n * sizeof(*copy->blocks));
    }
    if (node->kind == TUG_NODE_LOOP || node->kind == TUG_NODE_BLOCKS) {
        copy->child = tug_node_clone(node->child);
        return copy->child != NULL;
    }
    if (node->kind != TUG_NODE_FIELDS)
        return true;
    copy->fields = calloc(node->n, sizeof(struct tug_node *));
    copy->n = 0;
    while (copy->fields != NULL && copy->n < node->n) {
        struct tug_node *field = tug_node_clone(node->fields[copy->n]);
        if (field == NULL)
            return false;
        copy->fields[copy->n++] = field;
    }
    return copy->n == node->n;
}

struct tug_node *tug_node_clone(const struct tug_node *node) {
    struct tug_node *copy = new_node(node->kind, node->n);
    if (copy == NULL)
        return NULL;
    *copy = *node;
    copy->blocks = NULL;
    copy->child = NULL;
    if (clone_insides(copy, node))
        return copy;
    tug_node_free(copy);
    return NULL;
}

static struct tug_node *emptied(struct tug_node *node) {
    tug_node_clear(node);
    memset(node, 0, sizeof(*node)); /* TUG_NODE_EMPTY */
    return node;
}

/* ---- loops ---- */

static bool is_run(const struct tug_node *node) {
    return node->kind == TUG_NODE_RUNS && node->n == 1;
}

struct tug_node *tug_node_shift(struct tug_node *node, MPI_Aint by) {
    if (node != NULL)
        node->at += by;
    return node;
}

bool tug_node_fold(struct tug_node *node, size_t n, MPI_Aint stride) {
    if (n == 1 || node->kind == TUG_NODE_EMPTY)
        return true;
    if (is_run(node)) {
        if (stride == (MPI_Aint)node->span) {
            node->span *= n;
            node->stride = (MPI_Aint)node->span;
        } else {
            node->n = n;
            node->stride = stride;
        }
        return true;
    }
    bool loops = node->kind == TUG_NODE_RUNS || node->kind == TUG_NODE_LOOP;
    if (!loops || node->stride * (MPI_Aint)node->n != stride)
        return false;
    node->n *= n;
    return true;
}

struct tug_node *tug_node_repeat(struct tug_node *node, size_t n, MPI_Aint stride) {
    if (node == NULL)
        return NULL;
    if (n == 0)
        return emptied(node);
    if (tug_node_fold(node, n, stride))
        return node;
    struct tug_node *loop = new_node(TUG_NODE_LOOP, n);
    if (loop == NULL) {
        tug_node_free(node);
        return NULL;
    }
    loop->child = node;
    loop->stride = stride;
    loop->depth = node->depth + 1;
    return loop;
}

/* ---- lists ---- */

/* Joins blocks whose n times `stride` bytes touch, and drops those of none. How many are left. */
static size_t join(struct tug_block *blocks, size_t n, MPI_Aint stride) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (blocks[i].n == 0)
            continue;
        if (m > 0 && blocks[m - 1].at + (MPI_Aint)blocks[m - 1].n * stride == blocks[i].at)
            blocks[m - 1].n += blocks[i].n;
        else
            blocks[m++] = blocks[i];
    }
    return m;
}

/* True for blocks of one length, as far from each other: as good as a loop. */
static bool evenly(const struct tug_block *blocks, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (blocks[i].n != blocks[0].n ||
            blocks[i].at - blocks[i - 1].at != blocks[1].at - blocks[0].at)
            return false;
    return true;
}

static void keep(struct tug_node *node, struct tug_block *blocks, size_t n) {
    struct tug_block *smaller = realloc(blocks, n * sizeof(*blocks));
    node->blocks = smaller != NULL ? smaller : blocks;
    node->n = n;
    /* cppcheck-suppress memleak ; the node has it */
}

struct tug_node *tug_node_list(struct tug_block *blocks, size_t n) {
    if (blocks == NULL)
        return NULL;
    n = join(blocks, n, 1);
    struct tug_node *node = n == 0 ? tug_node_empty() : tug_node_run(blocks[0].n);
    if (node != NULL && n > 0 && evenly(blocks, n)) {
        node->at = blocks[0].at;
        if (n > 1)
            tug_node_fold(node, n, blocks[1].at - blocks[0].at);
    } else if (node != NULL && n > 0) {
        node->kind = TUG_NODE_LIST;
        keep(node, blocks, n);
        return node;
    }
    free(blocks);
    return node;
}

/* Blocks of a child that is one run, told in bytes. False where they are more than one run each. */
static bool in_bytes(const struct tug_node *child, MPI_Aint stride, struct tug_block *blocks,
                     size_t n) {
    if (!is_run(child))
        return false;
    for (size_t i = 0; i < n && stride != (MPI_Aint)child->span; i++)
        if (blocks[i].n != 1)
            return false;
    for (size_t i = 0; i < n; i++) {
        blocks[i].at += child->at;
        blocks[i].n *= child->span;
    }
    return true;
}

struct tug_node *tug_node_blocks(struct tug_node *child, MPI_Aint stride, struct tug_block *blocks,
                                 size_t n) {
    struct tug_node *node = NULL;
    if (child == NULL || blocks == NULL)
        goto fail;
    n = join(blocks, n, stride);
    if (n == 0 || child->kind == TUG_NODE_EMPTY) {
        free(blocks);
        return emptied(child);
    }
    if (in_bytes(child, stride, blocks, n)) {
        tug_node_free(child);
        return tug_node_list(blocks, n);
    }
    if (evenly(blocks, n)) {
        MPI_Aint at = blocks[0].at, apart = n > 1 ? blocks[1].at - at : 0;
        node = tug_node_repeat(tug_node_repeat(child, blocks[0].n, stride), n, apart);
        free(blocks);
        return tug_node_shift(node, at);
    }
    node = new_node(TUG_NODE_BLOCKS, n);
    if (node == NULL)
        goto fail;
    keep(node, blocks, n);
    node->child = child;
    node->stride = stride;
    node->depth = child->depth + 1;
    return node;
fail:
    tug_node_free(child);
    free(blocks);
    return NULL;
}

/* ---- one after the other ---- */

static bool is_listed(const struct tug_node *node) {
    return node->kind == TUG_NODE_LIST || is_run(node);
}

/* One list of all that some nodes have, which go. */
static struct tug_node *gather(struct tug_node **nodes, size_t n) {
    size_t total = 0, m = 0;
    for (size_t i = 0; i < n; i++)
        total += nodes[i]->n;
    struct tug_block *blocks = malloc(total * sizeof(*blocks));
    for (size_t i = 0; i < n; i++) {
        struct tug_node *node = nodes[i];
        for (size_t j = 0; j < node->n && blocks != NULL; j++) {
            bool list = node->kind == TUG_NODE_LIST;
            blocks[m].at = node->at + (list ? node->blocks[j].at : 0);
            blocks[m++].n = list ? node->blocks[j].n : node->span;
        }
        tug_node_free(node);
        nodes[i] = NULL;
    }
    return tug_node_list(blocks, total);
}

/* Makes one list of each stretch of runs, and drops what is empty. How many are left; a failure is
 * a NULL among them. */
static size_t gather_stretches(struct tug_node **fields, size_t n) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (fields[i]->kind == TUG_NODE_EMPTY)
            tug_node_free(fields[i]);
        else
            fields[m++] = fields[i];
    }
    size_t out = 0;
    for (size_t i = 0; i < m;) {
        size_t end = i;
        while (end < m && is_listed(fields[end]))
            end++;
        size_t stretch = end > i ? end - i : 1;
        fields[out++] = stretch > 1 ? gather(fields + i, stretch) : fields[i];
        i += stretch;
    }
    return out;
}

static bool all_there(struct tug_node *const *fields, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fields[i] == NULL)
            return false;
    return true;
}

struct tug_node *tug_node_fields(struct tug_node **fields, size_t n) {
    struct tug_node *node = NULL;
    if (fields == NULL)
        return NULL;
    if (!all_there(fields, n))
        goto fail;
    n = gather_stretches(fields, n);
    if (!all_there(fields, n))
        goto fail;
    if (n < 2) {
        node = n == 0 ? tug_node_empty() : fields[0];
        free((void *)fields);
        return node;
    }
    node = new_node(TUG_NODE_FIELDS, n);
    if (node == NULL)
        goto fail;
    node->fields = fields;
    for (size_t i = 0; i < n; i++)
        if (fields[i]->depth >= node->depth)
            node->depth = fields[i]->depth + 1;
    return node;
fail:
    for (size_t i = 0; i < n; i++)
        tug_node_free(fields[i]);
    free((void *)fields);
    return NULL;
}

/* ---- facts ---- */

static void include(struct tug_node_facts *all, const struct tug_node_facts *part, MPI_Aint at,
                    size_t n, MPI_Aint stride) {
    if (part->bytes == 0 || n == 0)
        return;
    MPI_Aint last = (MPI_Aint)(n - 1) * stride;
    MPI_Aint first = at + part->first + (last < 0 ? last : 0);
    MPI_Aint end = at + part->end + (last > 0 ? last : 0);
    if (all->bytes == 0 || first < all->first)
        all->first = first;
    if (all->bytes == 0 || end > all->end)
        all->end = end;
    all->bytes += n * part->bytes;
    all->nruns += n * part->nruns;
}

struct tug_node_facts tug_node_facts(const struct tug_node *node) {
    struct tug_node_facts all = {0}, part = {0};
    switch (node->kind) {
    case TUG_NODE_EMPTY:
        break;
    case TUG_NODE_RUNS:
        part = (struct tug_node_facts){node->span, 1, 0, (MPI_Aint)node->span};
        include(&all, &part, node->at, node->n, node->stride);
        break;
    case TUG_NODE_LOOP:
        part = tug_node_facts(node->child);
        include(&all, &part, node->at, node->n, node->stride);
        break;
    case TUG_NODE_LIST:
        for (size_t i = 0; i < node->n; i++) {
            part = (struct tug_node_facts){node->blocks[i].n, 1, 0, (MPI_Aint)node->blocks[i].n};
            include(&all, &part, node->at + node->blocks[i].at, 1, 0);
        }
        break;
    case TUG_NODE_BLOCKS:
        part = tug_node_facts(node->child);
        for (size_t i = 0; i < node->n; i++)
            include(&all, &part, node->at + node->blocks[i].at, node->blocks[i].n, node->stride);
        break;
    case TUG_NODE_FIELDS:
        for (size_t i = 0; i < node->n; i++) {
            part = tug_node_facts(node->fields[i]);
            include(&all, &part, node->at, 1, 0);
        }
        break;
    }
    return all;
}

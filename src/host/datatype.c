#include "host/datatype.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "host/layout.h"
#include "host/pairs.h"

#define NESTED_MOST 1024 /* constructors, one within the other: what is joined is no node */

/* ---- what a type is made of ---- */

/* MPI tells integers, addresses and (of types made by the _c calls) counts apart; one after the
 * other they are the constructor's arguments in their order, but for those of subarray and darray.
 */
struct contents {
    int combiner;
    bool counted; /* made by a _c call */
    MPI_Count *values;
    MPI_Count ntypes;
    MPI_Datatype *types;
};

/* Of a type that a call has handed out, which has to be given back. */
static bool is_predefined(MPI_Datatype type) {
    if (tug_type_is_basic(type))
        return true;
    MPI_Count integers, addresses, counts, types;
    int combiner = MPI_COMBINER_NAMED;
    tug_host.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

static void contents_release(struct contents *contents) {
    for (MPI_Count i = 0; i < contents->ntypes; i++)
        if (!is_predefined(contents->types[i]))
            tug_host.Type_free(&contents->types[i]);
    free(contents->values);
    free(contents->types);
}

/* Opens a type that is not a predefined one. False without memory; nothing is left then. */
static bool contents_get(MPI_Datatype type, struct contents *contents) {
    MPI_Count nintegers, naddresses, ncounts, ntypes;
    tug_host.Type_get_envelope_c(type, &nintegers, &naddresses, &ncounts, &ntypes,
                                 &contents->combiner);
    int *integers = malloc(((size_t)nintegers + 1) * sizeof(int));
    MPI_Aint *addresses = malloc(((size_t)naddresses + 1) * sizeof(MPI_Aint));
    size_t nvalues = (size_t)(nintegers + naddresses + ncounts);
    contents->counted = ncounts > 0;
    contents->ntypes = 0;
    contents->values = malloc((nvalues + 1) * sizeof(MPI_Count));
    contents->types = malloc(((size_t)ntypes + 1) * sizeof(MPI_Datatype));
    bool there = integers != NULL && addresses != NULL && contents->values != NULL &&
                 contents->types != NULL;
    MPI_Count *at = contents->values;
    there = there && tug_host.Type_get_contents_c(type, nintegers, naddresses, ncounts, ntypes,
                                                  integers, addresses, at + nintegers + naddresses,
                                                  contents->types) == MPI_SUCCESS;
    if (there) {
        contents->ntypes = ntypes;
        for (MPI_Count i = 0; i < nintegers; i++)
            *at++ = integers[i];
        for (MPI_Count i = 0; i < naddresses; i++)
            *at++ = addresses[i];
    } else {
        contents_release(contents);
    }
    free(integers);
    free(addresses);
    return there;
}

/* ---- predefined types ---- */

/* What MPI does not say: how long a pair's value is. The index is an int. */
#define PAIR_LAYOUT(flat, Value)                                                                   \
    do {                                                                                           \
        struct pair {                                                                              \
            Value value;                                                                           \
            int index;                                                                             \
        };                                                                                         \
        (flat)->gap_from = sizeof(Value);                                                          \
        (flat)->gap_to = offsetof(struct pair, index);                                             \
        (flat)->element_size = sizeof(Value) + sizeof(int);                                        \
        (flat)->element_extent = sizeof(struct pair);                                              \
    } while (0)

static void describe_element(MPI_Datatype element, struct tug_flat *flat) {
    if (element == MPI_FLOAT_INT)
        PAIR_LAYOUT(flat, float);
    else if (element == MPI_DOUBLE_INT)
        PAIR_LAYOUT(flat, double);
    else if (element == MPI_LONG_INT)
        PAIR_LAYOUT(flat, long);
    else if (element == MPI_SHORT_INT)
        PAIR_LAYOUT(flat, short);
    else if (element == MPI_LONG_DOUBLE_INT)
        PAIR_LAYOUT(flat, long double);
    else
        flat->element_size = flat->element_extent = tug_type_basic_size(element);
    if (!tug_is_pair(element) || flat->gap_from == flat->gap_to) { /* no gap, or one at the end */
        flat->gap_from = flat->element_size;
        flat->gap_to = flat->element_extent;
    }
    flat->element = element;
}

static void flat_from_root(struct tug_flat *flat, MPI_Aint lb, MPI_Aint extent) {
    struct tug_node_facts facts = tug_node_facts(&flat->root);
    MPI_Aint gap_at_end = 0;
    if (facts.bytes > 0 && flat->gap_from == flat->element_size)
        gap_at_end = (MPI_Aint)(flat->element_extent - flat->element_size);
    flat->size = facts.bytes == 0 ? 0 : facts.bytes / flat->element_extent * flat->element_size;
    flat->lb = lb;
    flat->extent = extent;
    flat->first = facts.first;
    flat->end = facts.end - gap_at_end;
    flat->nruns = facts.nruns;
    flat->contiguous =
        facts.bytes == 0 || (facts.nruns == 1 && facts.first == 0 && extent == facts.end &&
                             flat->element_size == flat->element_extent);
}

/* Predefined types are few: there is a slot for each, filled when it is first asked for. */
static const struct tug_flat *flat_of_predefined(MPI_Datatype type) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct tug_flat flats[TUG_TYPE_SLOTS];
    static _Atomic MPI_Datatype filled[TUG_TYPE_SLOTS];
    size_t slot = tug_type_slot(type);
    struct tug_flat *flat = &flats[slot];
    /* acquire: pairs with the release below; without it the slot could be read half filled */
    if (atomic_load_explicit(&filled[slot], memory_order_acquire) == type)
        return flat;
    pthread_mutex_lock(&lock);
    MPI_Datatype holder = atomic_load_explicit(&filled[slot], memory_order_relaxed);
    if (!holder) {
        describe_element(type, flat);
        size_t extent = flat->element_extent;
        flat->root = (struct tug_node){.kind = extent > 0 ? TUG_NODE_RUNS : TUG_NODE_EMPTY,
                                       .n = 1,
                                       .span = extent,
                                       .stride = (MPI_Aint)extent};
        flat_from_root(flat, 0, (MPI_Aint)extent);
        atomic_store_explicit(&filled[slot], type, memory_order_release); /* pairs with above */
        holder = type;
    }
    pthread_mutex_unlock(&lock);
    return holder == type ? flat : NULL;
}

/* Types by precision are handles of their own; those of Fortran with their size are the elements.
 */
static MPI_Datatype f90_element(MPI_Datatype type, int combiner) {
    MPI_Count size = 0;
    tug_host.Type_size_c(type, &size);
    switch (combiner) {
    case MPI_COMBINER_F90_REAL:
        return size == 4    ? MPI_REAL
               : size == 8  ? MPI_DOUBLE_PRECISION
               : size == 16 ? MPI_REAL16
                            : MPI_DATATYPE_NULL;
    case MPI_COMBINER_F90_COMPLEX:
        return size == 8    ? MPI_COMPLEX
               : size == 16 ? MPI_DOUBLE_COMPLEX
               : size == 32 ? MPI_COMPLEX32
                            : MPI_DATATYPE_NULL;
    default:
        return size == 1   ? MPI_INTEGER1
               : size == 2 ? MPI_INTEGER2
               : size == 4 ? MPI_INTEGER4
               : size == 8 ? MPI_INTEGER8
                           : MPI_DATATYPE_NULL;
    }
}

/* ---- from constructors to nodes ---- */

struct build {
    MPI_Datatype element; /* of what has been seen, _NULL at first */
    MPI_Datatype unused;  /* of what is there no times */
    bool mixed, pairs;
    bool open_pairs; /* make pairs what they consist of: there are others beside them */
    int nested;
    int none; /* within something that is there no times */
};

static struct tug_node *build_type(struct build *build, MPI_Datatype type);

static MPI_Aint extent_of(MPI_Datatype type) {
    MPI_Count lb, extent;
    if (tug_type_is_basic(type))
        return (MPI_Aint)tug_type_basic_size(type);
    tug_host.Type_get_extent_c(type, &lb, &extent);
    return (MPI_Aint)extent;
}

static struct tug_node *build_element(struct build *build, MPI_Datatype element) {
    struct tug_flat flat = {0};
    describe_element(element, &flat);
    if (build->none > 0 || flat.element_size == 0) {
        build->unused = flat.element_size > 0 ? element : build->unused;
        return tug_node_empty();
    }
    if (build->element == MPI_DATATYPE_NULL)
        build->element = element;
    build->mixed = build->mixed || build->element != element;
    build->pairs = build->pairs || flat.element_size != flat.element_extent;
    if (!build->open_pairs)
        return tug_node_run(flat.element_extent);
    struct tug_block *parts = malloc(2 * sizeof(*parts));
    if (parts == NULL)
        return NULL;
    parts[0] = (struct tug_block){0, flat.gap_from};
    parts[1] = (struct tug_block){(MPI_Aint)flat.gap_to, flat.element_size - flat.gap_from};
    return tug_node_list(parts, 2);
}

static struct tug_node *build_child(struct build *build, MPI_Datatype type, bool there) {
    build->none += !there;
    struct tug_node *node = build_type(build, type);
    build->none -= !there;
    return node;
}

static struct tug_node *build_vector(struct build *build, const struct contents *c, bool in_bytes) {
    const MPI_Count *v = c->values;
    MPI_Aint extent = extent_of(c->types[0]);
    struct tug_node *node = build_child(build, c->types[0], v[0] > 0 && v[1] > 0);
    node = tug_node_repeat(node, (size_t)v[1], extent);
    return tug_node_repeat(node, (size_t)v[0], (MPI_Aint)(in_bytes ? v[2] : v[2] * extent));
}

/* Blocks of one type: their lengths `step` values apart, displacements in multiples of `unit`. */
static struct tug_node *build_blocks(struct build *build, MPI_Datatype type, size_t n,
                                     const MPI_Count *lengths, size_t step,
                                     const MPI_Count *displacements, bool in_bytes) {
    MPI_Aint extent = extent_of(type);
    bool there = false;
    struct tug_block *blocks = malloc((n + 1) * sizeof(*blocks));
    if (blocks == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        blocks[i].n = (size_t)lengths[i * step];
        blocks[i].at = (MPI_Aint)(in_bytes ? displacements[i] : displacements[i] * extent);
        there = there || blocks[i].n > 0;
    }
    return tug_node_blocks(build_child(build, type, there), extent, blocks, n);
}

/* Neighbours of one type are blocks of it. */
static struct tug_node *build_struct(struct build *build, const struct contents *c) {
    size_t n = (size_t)c->values[0], nfields = 0;
    const MPI_Count *lengths = c->values + 1, *displacements = lengths + n;
    struct tug_node **fields = malloc((n + 1) * sizeof(*fields));
    if (fields == NULL)
        return NULL;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && c->types[end] == c->types[i];)
            end++;
        fields[nfields++] =
            build_blocks(build, c->types[i], end - i, lengths + i, 1, displacements + i, true);
    }
    return tug_node_fields(fields, nfields);
}

static struct tug_node *build_subarray(struct build *build, const struct contents *c) {
    const MPI_Count *v = c->values;
    size_t ndims = (size_t)v[0];
    const MPI_Count *sizes = v + (c->counted ? 2 : 1), *subsizes = sizes + ndims;
    const MPI_Count *starts = subsizes + ndims;
    MPI_Count order = c->counted ? v[1] : starts[ndims];
    MPI_Aint stride = extent_of(c->types[0]);
    struct tug_node *node = build_child(build, c->types[0], true);
    for (size_t i = 0; i < ndims; i++) {
        size_t d = order == MPI_ORDER_C ? ndims - 1 - i : i;
        node = tug_node_repeat(node, (size_t)subsizes[d], stride);
        node = tug_node_shift(node, (MPI_Aint)starts[d] * stride);
        stride *= (MPI_Aint)sizes[d];
    }
    return node;
}

/* One dimension of a distributed array: of `size` things, `stride` apart, those that the process at
 * process `coord` of `nprocesses` has. */
static struct tug_node *distribute(struct tug_node *node, MPI_Aint stride, MPI_Count size,
                                   MPI_Count how, MPI_Count argument, MPI_Count nprocesses,
                                   MPI_Count coord) {
    if (node == NULL || size == 0 || how == MPI_DISTRIBUTE_NONE)
        return tug_node_repeat(node, (size_t)size, stride);
    MPI_Count block = argument;
    if (argument == MPI_DISTRIBUTE_DFLT_DARG)
        block = how == MPI_DISTRIBUTE_BLOCK ? (size + nprocesses - 1) / nprocesses : 1;
    MPI_Count start = block * coord, left = start < size ? size - start : 0;
    MPI_Count period = how == MPI_DISTRIBUTE_BLOCK ? left + block : block * nprocesses;
    MPI_Count full = left / period, rest = left % period;
    if (rest >= block) {
        full++;
        rest = 0;
    }
    MPI_Aint apart = (MPI_Aint)period * stride;
    struct tug_node **parts = malloc(2 * sizeof(*parts));
    if (parts == NULL) {
        tug_node_free(node);
        return NULL;
    }
    parts[1] = tug_node_repeat(tug_node_clone(node), (size_t)rest, stride);
    parts[1] = tug_node_shift(parts[1], (MPI_Aint)full * apart);
    parts[0] = tug_node_repeat(tug_node_repeat(node, (size_t)block, stride), (size_t)full, apart);
    return tug_node_shift(tug_node_fields(parts, 2), (MPI_Aint)start * stride);
}

static struct tug_node *build_darray(struct build *build, const struct contents *c) {
    const MPI_Count *v = c->values;
    size_t ndims = (size_t)v[2];
    const MPI_Count *distributions = v + 3 + (c->counted ? 0 : ndims);
    const MPI_Count *arguments = distributions + ndims, *grid = arguments + ndims;
    MPI_Count order = grid[ndims], rank = v[1], before = v[0];
    const MPI_Count *sizes = c->counted ? grid + ndims + 1 : v + 3;
    MPI_Aint stride = extent_of(c->types[0]);
    struct tug_node *node = build_child(build, c->types[0], true);
    MPI_Count *coords = malloc((ndims + 1) * sizeof(*coords));
    for (size_t d = 0; d < ndims && coords != NULL; d++) { /* the last varies fastest, always */
        before /= grid[d];
        coords[d] = rank / before;
        rank %= before;
    }
    for (size_t i = 0; i < ndims && coords != NULL; i++) {
        size_t d = order == MPI_ORDER_C ? ndims - 1 - i : i;
        node =
            distribute(node, stride, sizes[d], distributions[d], arguments[d], grid[d], coords[d]);
        stride *= (MPI_Aint)sizes[d];
    }
    if (coords == NULL) {
        tug_node_free(node);
        node = NULL;
    }
    free(coords);
    return node;
}

static struct tug_node *build_opened(struct build *build, const struct contents *c) {
    const MPI_Count *v = c->values;
    size_t n = c->ntypes > 0 && v != NULL ? (size_t)v[0] : 0;
    switch (c->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return build_child(build, c->types[0], true);
    case MPI_COMBINER_CONTIGUOUS:
        return tug_node_repeat(build_child(build, c->types[0], n > 0), n, extent_of(c->types[0]));
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
        return build_vector(build, c, c->combiner == MPI_COMBINER_HVECTOR);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
        return build_blocks(build, c->types[0], n, v + 1, 1, v + 1 + n,
                            c->combiner == MPI_COMBINER_HINDEXED);
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return build_blocks(build, c->types[0], n, v + 1, 0, v + 2,
                            c->combiner == MPI_COMBINER_HINDEXED_BLOCK);
    case MPI_COMBINER_STRUCT:
        return build_struct(build, c);
    case MPI_COMBINER_SUBARRAY:
        return build_subarray(build, c);
    case MPI_COMBINER_DARRAY:
        return build_darray(build, c);
    default: /* those of Fortran 77 with _INTEGER, which no MPI of today makes */
        return NULL;
    }
}

/* NULL: no memory, or no way to tell. */
static struct tug_node *build_type(struct build *build, MPI_Datatype type) {
    struct contents contents;
    if (tug_type_is_basic(type) || tug_is_pair(type))
        return build_element(build, type);
    MPI_Count integers, addresses, counts, types;
    tug_host.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &contents.combiner);
    if (contents.combiner == MPI_COMBINER_NAMED || build->nested == NESTED_MOST)
        return NULL;
    if (types == 0 && is_predefined(type)) {
        MPI_Datatype element = f90_element(type, contents.combiner);
        return element == MPI_DATATYPE_NULL ? NULL : build_element(build, element);
    }
    if (types == 0) /* a struct of nothing */
        return tug_node_empty();
    if (!contents_get(type, &contents))
        return NULL;
    build->nested++;
    struct tug_node *node = build_opened(build, &contents);
    build->nested--;
    contents_release(&contents);
    return node;
}

/* ---- a type's tree ---- */

static void flat_free(struct tug_flat *flat) {
    if (flat == NULL)
        return;
    tug_node_clear(&flat->root);
    free(flat);
}

/* What the host says of the type must be what the tree says. */
static bool agrees(const struct tug_flat *flat, MPI_Datatype type) {
    MPI_Count size = -1;
    tug_host.Type_size_c(type, &size);
    return size == (MPI_Count)flat->size && flat->root.depth <= TUG_NODE_DEPTH;
}

static struct tug_flat *flat_build(MPI_Datatype type) {
    struct build build = {.element = MPI_DATATYPE_NULL, .unused = MPI_DATATYPE_NULL};
    MPI_Count lb = 0, extent = 0, first = 0, true_extent;
    struct tug_node *node = build_type(&build, type);
    if (node != NULL && build.mixed && build.pairs) {
        tug_node_free(node);
        build.open_pairs = true;
        node = build_type(&build, type);
    }
    struct tug_flat *flat = node == NULL ? NULL : calloc(1, sizeof(*flat));
    if (flat == NULL) {
        tug_node_free(node);
        return NULL;
    }
    flat->root = *node;
    free(node);
    MPI_Datatype element = build.element == MPI_DATATYPE_NULL ? build.unused : build.element;
    if (build.mixed || element == MPI_DATATYPE_NULL) {
        describe_element(MPI_BYTE, flat);
        flat->element = MPI_DATATYPE_NULL;
    } else {
        describe_element(element, flat);
    }
    tug_host.Type_get_extent_c(type, &lb, &extent);
    tug_host.Type_get_true_extent_c(type, &first, &true_extent);
    flat_from_root(flat, (MPI_Aint)lb, (MPI_Aint)extent);
    flat->first_told = (MPI_Aint)first;
    if (agrees(flat, type))
        return flat;
    flat_free(flat);
    return NULL;
}

/* ---- types that a thread uses ---- */

#define KNOWN 8

/* What a thread remembers of a type. It holds as long as no tree has gone since: the handle may be
 * another type's then. */
struct known {
    MPI_Datatype type;
    const struct tug_flat *flat;
    uint64_t gone; /* trees that had gone before */
};

static _Thread_local struct known known[KNOWN];
static _Atomic uint64_t gone = 1; /* the empty slots of a thread hold for no type */

/* The first of two slots that a type may have: what was remembered last stands there. */
static struct known *known_slots(MPI_Datatype type) {
    return &known[(tug_handle_bits(type) * 0x9e3779b97f4a7c15u >> 32) % KNOWN & ~(uint64_t)1];
}

/* relaxed: who has the handle from another thread has come behind what that thread has seen go */
const struct tug_flat *tug_flat_known(MPI_Datatype type) {
    const struct known *slot = known_slots(type);
    slot += slot->type != type;
    return slot->type == type && slot->gone == atomic_load_explicit(&gone, memory_order_relaxed)
               ? slot->flat
               : NULL;
}

void tug_flat_remember(MPI_Datatype type, const struct tug_flat *flat) {
    struct known *slots = known_slots(type);
    if (slots[0].type != type)
        slots[1] = slots[0];
    slots[0] = (struct known){type, flat, atomic_load_explicit(&gone, memory_order_relaxed)};
}

/* ---- keeping ---- */

/* Held only to put a tree there and to make the key: never while the host calls back. */
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int keyval = MPI_KEYVAL_INVALID;

static int forget(MPI_Datatype type, int key, void *attribute, void *state) {
    (void)type;
    (void)key;
    (void)state;
    atomic_fetch_add(&gone, 1);
    flat_free(attribute);
    return MPI_SUCCESS;
}

static bool have_keyval(int *key) {
    /* relaxed: the number is all there is to it */
    *key = atomic_load_explicit(&keyval, memory_order_relaxed);
    if (*key != MPI_KEYVAL_INVALID)
        return true;
    pthread_mutex_lock(&keeping);
    *key = atomic_load_explicit(&keyval, memory_order_relaxed);
    /* a copy of a type begins without: its tree is built when it is wanted */
    if (*key == MPI_KEYVAL_INVALID)
        tug_host.Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, key, NULL);
    atomic_store_explicit(&keyval, *key, memory_order_relaxed);
    pthread_mutex_unlock(&keeping);
    return *key != MPI_KEYVAL_INVALID;
}

/* Keeps it with the type, unless another thread was faster: then that thread's. */
static const struct tug_flat *keep(MPI_Datatype type, int key, struct tug_flat *flat) {
    struct tug_flat *kept = NULL;
    int found = 0;
    pthread_mutex_lock(&keeping);
    tug_host.Type_get_attr(type, key, (void *)&kept, &found);
    if (!found)
        kept = tug_host.Type_set_attr(type, key, flat) == MPI_SUCCESS ? flat : NULL;
    pthread_mutex_unlock(&keeping);
    if (kept != flat)
        flat_free(flat);
    return kept;
}

const struct tug_flat *tug_flat_get(MPI_Datatype type) {
    if (tug_type_is_basic(type) || tug_is_pair(type))
        return flat_of_predefined(type);
    const struct tug_flat *remembered = tug_flat_known(type);
    struct tug_flat *flat = NULL;
    int key, found = 0;
    if (remembered != NULL || !have_keyval(&key))
        return remembered;
    tug_host.Type_get_attr(type, key, (void *)&flat, &found);
    if (found)
        return flat;
    if (is_predefined(type)) { /* by precision: the host never frees it */
        MPI_Count integers, addresses, counts, types;
        int combiner;
        tug_host.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner);
        MPI_Datatype element = f90_element(type, combiner);
        return element == MPI_DATATYPE_NULL ? NULL : flat_of_predefined(element);
    }
    flat = flat_build(type);
    return flat == NULL ? NULL : keep(type, key, flat);
}

void tug_flat_finalize(void) {
    int key = atomic_load_explicit(&keyval, memory_order_relaxed);
    atomic_fetch_add(&gone, 1);
    if (key != MPI_KEYVAL_INVALID)
        tug_host.Type_free_keyval(&key);
    atomic_store_explicit(&keyval, MPI_KEYVAL_INVALID, memory_order_relaxed);
}

/* What can be read off the host's handles without asking it: all that differs between hosts in how
 * they are made.
 *
 * MPICH's are integers: the kind in bits 31-30 (0: none, 1: predefined), the object's type in
 * 29-26, below that an index. Open MPI's are addresses; those of predefined objects are in a table
 * that is made once MPI is up. Predefined types and operations have numbers that are the same in
 * all processes of a job, small enough to index a table. Any thread, after MPI's initialisation; an
 * operation takes a nanosecond or two.
 */
#ifndef TUG_HOST_HANDLES_H
#define TUG_HOST_HANDLES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MPI's own operations, in the order of their numbers. */
/* clang-format off */
#define TUG_OP_NUMBERS(X) \
    X(MAX) X(MIN) X(SUM) X(PROD) X(LAND) X(BAND) X(LOR) \
    X(BOR) X(LXOR) X(BXOR) X(MINLOC) X(MAXLOC) X(REPLACE) X(NO_OP)
/* clang-format on */

enum tug_op_number {
    TUG_OP_NONE, /* anything else */
#define TUG_OP(NAME) TUG_OP_##NAME,
    TUG_OP_NUMBERS(TUG_OP)
#undef TUG_OP
        TUG_OPS
};

#define TUG_TYPE_SLOTS 256 /* a predefined type's slot in a table is below */

#ifndef OPEN_MPI

/* For messages: a handle as it is shown. */
#define tug_handle_bits(handle) ((uint64_t)(uint32_t)(handle))

enum { TUG_HANDLE_COMM = 1, TUG_HANDLE_GROUP = 2, TUG_HANDLE_DATATYPE = 3, TUG_HANDLE_INFO = 7 };

static inline bool tug_handle_is(uint32_t handle, uint32_t type) {
    return handle >> 30 != 0 && (handle >> 26 & 15) == type;
}

/* False for what is plainly no communicator. */
static inline bool tug_comm_is_one(MPI_Comm comm) {
    return tug_handle_is((uint32_t)comm, TUG_HANDLE_COMM);
}

/* False for what is plainly no group. */
static inline bool tug_group_is_one(MPI_Group group) {
    return tug_handle_is((uint32_t)group, TUG_HANDLE_GROUP);
}

/* False for what is plainly no info. */
static inline bool tug_info_is_one(MPI_Info info) {
    return tug_handle_is((uint32_t)info, TUG_HANDLE_INFO);
}

/* False for what is plainly no datatype. */
static inline bool tug_type_is_one(MPI_Datatype type) {
    return tug_handle_is((uint32_t)type, TUG_HANDLE_DATATYPE);
}

/* True for types without gaps that MPI defines itself: 0x4c00SSII, SS the size in bytes. */
static inline bool tug_type_is_basic(MPI_Datatype type) {
    return (uint32_t)type >> 16 == 0x4c00;
}

/* Bytes; basic types only. */
static inline size_t tug_type_basic_size(MPI_Datatype type) {
    return (uint32_t)type >> 8 & 0xff;
}

/* True for types that MPI defines itself and that are basic, or (with some hosts) pairs. */
static inline bool tug_type_is_predefined(MPI_Datatype type) {
    return (uint32_t)type >> 30 == 1;
}

/* The number of a predefined type as it travels, and the type of such a number, which may come from
 * a process that is not to be trusted: then any handle. */
static inline uint32_t tug_type_number(MPI_Datatype type) {
    return (uint32_t)type;
}
static inline MPI_Datatype tug_type_of_number(uint32_t number) {
    return (MPI_Datatype)number;
}

/* A slot below TUG_TYPE_SLOTS; two predefined types have two. Pairs with gaps are of kind 2. */
static inline uint32_t tug_type_slot(MPI_Datatype type) {
    return (uint32_t)type >> 31 << 7 | ((uint32_t)type & 127);
}

/* TUG_OP_NONE for what MPI does not define itself. 0x580000NN. */
static inline enum tug_op_number tug_op_number(MPI_Op op) {
    uint32_t number = (uint32_t)op ^ 0x58000000u;
    return number < TUG_OPS ? (enum tug_op_number)number : TUG_OP_NONE;
}
static inline MPI_Op tug_op_of_number(uint32_t number) {
    return (MPI_Op)(0x58000000u | number);
}

/* True for MPI's own operations. */
static inline bool tug_op_is_predefined(MPI_Op op) {
    return (uint32_t)op >> 8 == 0x580000;
}

/* True for functions of the program's. */
static inline bool tug_op_is_programs(MPI_Op op) {
    return (uint32_t)op >> 30 > 1;
}

#else

#define tug_handle_bits(handle) ((uint64_t)(uintptr_t)(handle))

/* A predefined type, where the hash of its handle says. */
struct tug_openmpi_type {
    MPI_Datatype handle; /* NULL: nothing here */
    uint16_t number;     /* from 1 on, in the order of types.def */
    uint16_t size;       /* bytes; 0: a pair with a gap */
};
extern struct tug_openmpi_type tug_openmpi_types[TUG_TYPE_SLOTS];
extern MPI_Datatype tug_openmpi_type_of[TUG_TYPE_SLOTS]; /* by number */

/* Fills the tables, once. MPI is up. */
void tug_openmpi_learn(void);

static inline uint32_t tug_openmpi_hash(const void *address) {
    return (uint32_t)((uint64_t)((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15u >> 56);
}

/* The entry of a predefined type, or one whose number and size are 0. */
static inline const struct tug_openmpi_type *tug_openmpi_type(MPI_Datatype type) {
    uint32_t i = tug_openmpi_hash(type);
    while (tug_openmpi_types[i].handle != type && tug_openmpi_types[i].handle != NULL)
        i = (i + 1) % TUG_TYPE_SLOTS;
    return &tug_openmpi_types[i];
}

static inline bool tug_comm_is_one(MPI_Comm comm) {
    return comm != NULL && comm != MPI_COMM_NULL;
}

static inline bool tug_group_is_one(MPI_Group group) {
    return group != NULL && group != MPI_GROUP_NULL;
}

static inline bool tug_info_is_one(MPI_Info info) {
    return info != NULL && info != MPI_INFO_NULL;
}

static inline bool tug_type_is_one(MPI_Datatype type) {
    return type != NULL && type != MPI_DATATYPE_NULL;
}

static inline bool tug_type_is_basic(MPI_Datatype type) {
    return tug_openmpi_type(type)->size != 0;
}

static inline size_t tug_type_basic_size(MPI_Datatype type) {
    return tug_openmpi_type(type)->size;
}

static inline bool tug_type_is_predefined(MPI_Datatype type) {
    return tug_openmpi_type(type)->number != 0;
}

static inline uint32_t tug_type_number(MPI_Datatype type) {
    return tug_openmpi_type(type)->number;
}
static inline MPI_Datatype tug_type_of_number(uint32_t number) {
    MPI_Datatype type = number < TUG_TYPE_SLOTS ? tug_openmpi_type_of[number] : NULL;
    return type != NULL ? type : MPI_DATATYPE_NULL;
}

static inline uint32_t tug_type_slot(MPI_Datatype type) {
    return tug_openmpi_type(type)->number;
}

enum tug_op_number tug_op_number(MPI_Op op);
MPI_Op tug_op_of_number(uint32_t number);

static inline bool tug_op_is_predefined(MPI_Op op) {
    return tug_op_number(op) != TUG_OP_NONE;
}

static inline bool tug_op_is_programs(MPI_Op op) {
    return op != NULL && op != MPI_OP_NULL && tug_op_number(op) == TUG_OP_NONE;
}

#endif

#endif

/* Open MPI's predefined handles, by name and by number. */
#include <dlfcn.h>
#include <pthread.h>

#include "host/handles.h"
#include "host/host.h"
#include "host/openmpi/openmpi.h"

struct tug_openmpi_objects tug_openmpi;
struct tug_openmpi_type tug_openmpi_types[TUG_TYPE_SLOTS];
MPI_Datatype tug_openmpi_type_of[TUG_TYPE_SLOTS];

/* A program that was linked with copies of the library's objects has the ones that count; MPI
 * opened with RTLD_LOCAL is not found this way. */
static void *find_object(void *library, const char *symbol) {
    void *address = dlsym(RTLD_DEFAULT, symbol);
    return address != NULL ? address : dlsym(library, symbol);
}

void tug_openmpi_find_objects(void *library) {
#define TUG_OPENMPI_OBJECT(symbol) tug_openmpi.symbol = find_object(library, #symbol);
#include "host/openmpi/objects.def"
}

/* ---- types ---- */

static void learn_type(MPI_Datatype type, uint16_t number, bool pair) {
    int size = 0;
    if (type == NULL || type == MPI_DATATYPE_NULL || tug_openmpi_type(type)->number != 0 ||
        tug_host.Type_size(type, &size) != MPI_SUCCESS)
        return;
    uint32_t i = tug_openmpi_hash(type);
    while (tug_openmpi_types[i].handle != NULL)
        i = (i + 1) % TUG_TYPE_SLOTS;
    tug_openmpi_types[i] = (struct tug_openmpi_type){
        .handle = type, .number = number, .size = pair ? 0 : (uint16_t)size};
    tug_openmpi_type_of[number] = type;
}

/* ---- operations ---- */

#define OP_SLOTS 64

static struct {
    MPI_Op handle;
    enum tug_op_number number;
} ops[OP_SLOTS];

static MPI_Op op_of[TUG_OPS];

static void learn_op(MPI_Op op, enum tug_op_number number) {
    uint32_t i = tug_openmpi_hash(op) % OP_SLOTS;
    while (ops[i].handle != NULL)
        i = (i + 1) % OP_SLOTS;
    ops[i].handle = op;
    ops[i].number = number;
    op_of[number] = op;
}

enum tug_op_number tug_op_number(MPI_Op op) {
    uint32_t i = tug_openmpi_hash(op) % OP_SLOTS;
    while (ops[i].handle != op && ops[i].handle != NULL)
        i = (i + 1) % OP_SLOTS;
    return ops[i].number;
}

MPI_Op tug_op_of_number(uint32_t number) {
    return number > TUG_OP_NONE && number < TUG_OPS ? op_of[number] : MPI_OP_NULL;
}

/* ---- both ---- */

static void learn(void) {
    uint16_t number = 0;
#define TUG_TYPE(type, row) learn_type(type, ++number, false);
#define TUG_PAIR(type, row) learn_type(type, ++number, true);
#include "host/types.def"
#define LEARN_OP(NAME) learn_op(MPI_##NAME, TUG_OP_##NAME);
    TUG_OP_NUMBERS(LEARN_OP)
}

void tug_openmpi_learn(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, learn);
}

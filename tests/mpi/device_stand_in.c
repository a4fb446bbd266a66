/* Stands in for a runtime of devices: CUDA's driver, HIP before (STAND_IN_HIP=5) and after its
 * renumbering (6), or Level Zero, with the numbers of their public headers.
 *
 * Other memory can be declared to be the host's that the runtime knows, or managed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *stand_in_allocate(size_t size);
void stand_in_know(void *memory, size_t size, int managed);
int stand_in_error(void);

static char *base;
static size_t bytes;
static struct {
    char *base;
    size_t bytes;
} known[2]; /* 1: managed */
static int last_error;

void *stand_in_allocate(size_t size) {
    bytes = size;
    return base = malloc(size);
}

void stand_in_know(void *memory, size_t size, int managed) {
    known[managed].base = memory;
    known[managed].bytes = size;
}

/* What a call has left behind. */
int stand_in_error(void) {
    return last_error;
}

enum kind { UNKNOWN, HOST, DEVICE, MANAGED };

static enum kind kind_of(const void *address) {
    const char *at = address;
    if ((size_t)(at - base) < bytes)
        return DEVICE;
    for (int i = 0; i < 2; i++)
        if ((size_t)(at - known[i].base) < known[i].bytes)
            return i ? MANAGED : HOST;
    return UNKNOWN;
}

#ifdef STAND_IN_CUDA

int cuPointerGetAttribute(void *data, int attribute, uint64_t address);

int cuPointerGetAttribute(void *data, int attribute, uint64_t address) {
    static const unsigned types[] = {0, 1, 2, 4}; /* CU_MEMORYTYPE_UNIFIED is 4 */
    enum kind kind = kind_of((const void *)(uintptr_t)address);
    if (kind == UNKNOWN)
        return 1;       /* CUDA_ERROR_INVALID_VALUE */
    if (attribute == 2) /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
        *(unsigned *)data = types[kind];
    else
        return 1;
    return 0;
}

#elif defined STAND_IN_HIP

int hipPointerGetAttribute(void *data, int attribute, void *address);
int hipRuntimeGetVersion(int *version);
int hipPeekAtLastError(void);
int hipGetLastError(void);

int hipRuntimeGetVersion(int *version) {
    *version = STAND_IN_HIP == 5 ? 50731921 : 60032830;
    return 0;
}

int hipPointerGetAttribute(void *data, int attribute, void *address) {
    static const unsigned types[2][4] = {{0, 0, 1, 4}, {0, 1, 2, 3}}; /* hipMemoryType */
    enum kind kind = kind_of(address);
    if (attribute != 2 || kind == UNKNOWN) /* HIP_POINTER_ATTRIBUTE_MEMORY_TYPE */
        return last_error = 1;             /* hipErrorInvalidValue */
    *(unsigned *)data = types[STAND_IN_HIP >= 6][kind];
    return 0;
}

int hipPeekAtLastError(void) {
    return last_error;
}

int hipGetLastError(void) {
    int error = last_error;
    last_error = 0;
    return error;
}

#else

struct description {
    int kind;
    const void *next;
};

struct properties {
    int kind;
    void *next;
    int type;
    uint64_t id, page_bytes;
};

int zeDriverGet(uint32_t *count, void **drivers);
int zeContextCreate(void *driver, const struct description *description, void **context);
int zeMemGetAllocProperties(void *context, const void *address, struct properties *properties,
                            void **device);

static int drivers_there[2], contexts_made[2], a_device;

int zeDriverGet(uint32_t *count, void **drivers) {
    *count = 2;
    drivers[0] = &drivers_there[0];
    drivers[1] = &drivers_there[1];
    return 0;
}

int zeContextCreate(void *driver, const struct description *description, void **context) {
    *context = &contexts_made[(int *)driver - drivers_there];
    return description->kind != 0xd; /* ZE_STRUCTURE_TYPE_CONTEXT_DESC */
}

/* ze_memory_type_t is numbered as `enum kind`. The second driver has all memory. */
int zeMemGetAllocProperties(void *context, const void *address, struct properties *properties,
                            void **device) {
    if (properties->kind != 0x17) /* ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES */
        return 0x78000004;        /* ZE_RESULT_ERROR_INVALID_ARGUMENT */
    properties->type = context == &contexts_made[1] ? kind_of(address) : UNKNOWN;
    if (device != NULL)
        *device = properties->type == DEVICE ? &a_device : NULL;
    return 0;
}

#endif

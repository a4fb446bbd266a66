/* Stands in for a runtime of devices: CUDA's driver, HIP before (STAND_IN_HIP=5) and after its
 * renumbering (6), or Level Zero, with the numbers of their public headers.
 *
 * Its memory is mapped twice: where the program has it, which can be closed to CPUs, and where the
 * runtime copies. Other memory can be declared to be the host's that the runtime knows, or managed.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *stand_in_allocate(size_t size);
void *stand_in_inside(void);
void stand_in_close(int closed);
void stand_in_know(void *memory, size_t size, int managed);
int stand_in_error(void);

static char *base, *inside;
static size_t bytes;
static struct {
    char *base;
    size_t bytes;
} known[2]; /* 1: managed */
static int last_error;

void *stand_in_allocate(size_t size) {
    int file = memfd_create("device", 0);
    bytes = (size + 4095) / 4096 * 4096;
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        return NULL;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    inside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return base;
}

/* The same memory, for looking at it. */
void *stand_in_inside(void) {
    return inside;
}

void stand_in_close(int closed) {
    mprotect(base, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE);
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

/* One side at least must be the device's, and all of it. */
static int copy(void *to, const void *from, size_t size) {
    if (kind_of(to) != DEVICE && kind_of(from) != DEVICE)
        return 1;
    if (kind_of(to) == DEVICE)
        to = inside + ((char *)to - base);
    if (kind_of(from) == DEVICE)
        from = inside + ((const char *)from - base);
    memcpy(to, from, size);
    return 0;
}

#ifdef STAND_IN_CUDA

int cuPointerGetAttribute(void *data, int attribute, uint64_t address);
int cuMemcpy(uint64_t to, uint64_t from, size_t size);
int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuDevicePrimaryCtxRetain(void **context, int device);

static void *current; /* none at first */
static int primary, unsynchronized;

int cuPointerGetAttribute(void *data, int attribute, uint64_t address) {
    static const unsigned types[] = {0, 1, 2, 4}; /* CU_MEMORYTYPE_UNIFIED is 4 */
    enum kind kind = kind_of((const void *)(uintptr_t)address);
    if (kind == UNKNOWN)
        return 1;       /* CUDA_ERROR_INVALID_VALUE */
    if (attribute == 2) /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
        *(unsigned *)data = types[kind];
    else if (attribute == 9) /* CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
        *(int *)data = 3;
    else
        return 1;
    return 0;
}

int cuMemcpy(uint64_t to, uint64_t from, size_t size) {
    if (current == NULL || unsynchronized)
        return 201; /* CUDA_ERROR_INVALID_CONTEXT */
    unsynchronized = 1;
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
}

int cuStreamSynchronize(void *stream) {
    unsynchronized = 0;
    return stream != NULL;
}

int cuCtxGetCurrent(void **context) {
    *context = current;
    return 0;
}

int cuCtxPushCurrent_v2(void *context) {
    current = context;
    return context != &primary;
}

int cuCtxPopCurrent_v2(void **context) {
    *context = current;
    current = NULL;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &primary;
    return device != 3;
}

#elif defined STAND_IN_HIP

int hipPointerGetAttribute(void *data, int attribute, void *address);
int hipRuntimeGetVersion(int *version);
int hipMemcpy(void *to, const void *from, size_t size, int kind);
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

int hipMemcpy(void *to, const void *from, size_t size, int kind) {
    int error = kind == 4 ? copy(to, from, size) : 1; /* hipMemcpyDefault */
    last_error = error != 0 ? error : last_error;
    return error;
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

struct queue {
    struct description head;
    uint32_t ordinal, index, flags;
    int mode, priority;
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
int zeCommandListCreateImmediate(void *context, void *device, const struct queue *queue,
                                 void **list);
int zeCommandListAppendMemoryCopy(void *list, void *to, const void *from, size_t size, void *signal,
                                  uint32_t nawaited, void **awaited);
int zeCommandListDestroy(void *list);

static int drivers_there[2], contexts_made[2], a_device, a_list;

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

/* ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS */
int zeCommandListCreateImmediate(void *context, void *device, const struct queue *queue,
                                 void **list) {
    *list = &a_list;
    a_list++;
    return context != &contexts_made[1] || device != &a_device || queue->head.kind != 0xe ||
           queue->mode != 1;
}

int zeCommandListAppendMemoryCopy(void *list, void *to, const void *from, size_t size, void *signal,
                                  uint32_t nawaited, void **awaited) {
    return list != &a_list || signal != NULL || nawaited != 0 || awaited != NULL ||
           copy(to, from, size);
}

int zeCommandListDestroy(void *list) {
    a_list--;
    last_error = a_list != 0;
    return list != &a_list;
}

#endif

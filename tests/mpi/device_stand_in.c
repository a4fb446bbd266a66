/* Stands in for CUDA's driver: what is declared to it counts as memory of a device. */
#include <stddef.h>
#include <stdint.h>

static uintptr_t base;
static size_t bytes;

void stand_in_declare(void *memory, size_t size);
int cuPointerGetAttribute(void *data, int attribute, uint64_t address);

void stand_in_declare(void *memory, size_t size) {
    base = (uintptr_t)memory;
    bytes = size;
}

/* CU_POINTER_ATTRIBUTE_MEMORY_TYPE of CU_MEMORYTYPE_DEVICE; else CUDA_ERROR_INVALID_VALUE. */
int cuPointerGetAttribute(void *data, int attribute, uint64_t address) {
    if (attribute != 2 || address - base >= bytes)
        return 1;
    *(unsigned *)data = 2;
    return 0;
}

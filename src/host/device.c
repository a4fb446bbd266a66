#include "host/device.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

bool tug_devices;

/* Of a library that is loaded, in whatever scope. */
static void *find(const char *library, const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    void *handle = address == NULL ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (handle != NULL) {
        address = dlsym(handle, name);
        dlclose(handle);
    }
    return address;
}

/* ---- CUDA's driver ---- */

#define CUDA_ATTRIBUTE_MEMORY_TYPE 2
#define CUDA_DEVICE 2
#define CUDA_ARRAY 3

static int (*cuda_get_attribute)(void *data, int attribute, uint64_t address);

static bool cuda_owns(const void *address) {
    unsigned type = 0;
    return cuda_get_attribute != NULL &&
           cuda_get_attribute(&type, CUDA_ATTRIBUTE_MEMORY_TYPE, (uint64_t)(uintptr_t)address) ==
               0 &&
           (type == CUDA_DEVICE || type == CUDA_ARRAY);
}

/* ---- HIP ---- */

#define HIP_RENUMBERED 60000000 /* from this version on its numbers are CUDA's; before: */
#define HIP_5_DEVICE 1
#define HIP_5_ARRAY 2

static int (*hip_get_attribute)(void *data, int attribute, void *address);
static int (*hip_get_version)(int *version);

static bool hip_owns(const void *address) {
    unsigned type = 0;
    int version = 0;
    if (hip_get_attribute == NULL || hip_get_version == NULL || hip_get_version(&version) != 0 ||
        hip_get_attribute(&type, CUDA_ATTRIBUTE_MEMORY_TYPE, (void *)address) != 0)
        return false;
    if (version < HIP_RENUMBERED)
        return type == HIP_5_DEVICE || type == HIP_5_ARRAY;
    return type == CUDA_DEVICE || type == CUDA_ARRAY;
}

/* ---- Level Zero ---- */

#define ZE_CONTEXT_DESCRIPTION 0xd
#define ZE_MEMORY_PROPERTIES 0x17
#define ZE_DEVICE 2
#define ZE_DRIVERS_MOST 8

struct ze_context_description {
    int kind;
    const void *next;
    uint32_t flags;
};

struct ze_memory_properties {
    int kind;
    void *next;
    int type;
    uint64_t id, page_bytes;
};

static int (*ze_driver_get)(uint32_t *count, void **drivers);
static int (*ze_context_create)(void *driver, const struct ze_context_description *, void **);
static int (*ze_get_properties)(void *context, const void *address, struct ze_memory_properties *,
                                void **device);
static void *ze_contexts[ZE_DRIVERS_MOST];
static uint32_t ze_ncontexts;

/* A driver knows its allocations in whatever context it is asked. */
static void ze_open(void) {
    const struct ze_context_description description = {.kind = ZE_CONTEXT_DESCRIPTION};
    void *drivers[ZE_DRIVERS_MOST];
    uint32_t n = ZE_DRIVERS_MOST;
    if (ze_ncontexts > 0 || ze_driver_get == NULL || ze_context_create == NULL ||
        ze_get_properties == NULL || ze_driver_get(&n, drivers) != 0)
        return;
    for (uint32_t i = 0; i < n && i < ZE_DRIVERS_MOST; i++)
        if (ze_context_create(drivers[i], &description, &ze_contexts[ze_ncontexts]) == 0)
            ze_ncontexts++;
}

static bool ze_owns(const void *address) {
    for (uint32_t i = 0; i < ze_ncontexts; i++) {
        struct ze_memory_properties properties = {.kind = ZE_MEMORY_PROPERTIES};
        if (ze_get_properties(ze_contexts[i], address, &properties, NULL) == 0 &&
            properties.type == ZE_DEVICE)
            return true;
    }
    return false;
}

/* ---- all of them ---- */

/* How often objects have been loaded in this process. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *loads) {
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

void tug_device_look(void) {
    static _Atomic unsigned long long looked_at;
    unsigned long long loads = 0;
    (void)dl_iterate_phdr(count_loads, &loads);
    if (tug_devices || atomic_exchange_explicit(&looked_at, loads, memory_order_relaxed) == loads)
        return;
    *(void **)&cuda_get_attribute = find("libcuda.so.1", "cuPointerGetAttribute");
    *(void **)&hip_get_attribute = find("libamdhip64.so", "hipPointerGetAttribute");
    *(void **)&hip_get_version = find("libamdhip64.so", "hipRuntimeGetVersion");
    *(void **)&ze_driver_get = find("libze_loader.so.1", "zeDriverGet");
    *(void **)&ze_context_create = find("libze_loader.so.1", "zeContextCreate");
    *(void **)&ze_get_properties = find("libze_loader.so.1", "zeMemGetAllocProperties");
    ze_open();
    tug_devices = cuda_get_attribute != NULL || hip_get_attribute != NULL || ze_ncontexts > 0;
}

bool tug_device_owns(const void *address) {
    return cuda_owns(address) || hip_owns(address) || ze_owns(address);
}

#include "host/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/object.h"
#include "host/host.h"

bool tug_devices;

/* ---- finding ---- */

/* A loaded library, found by the beginning of its name: versions differ in the end. path: where it
 * was loaded from. */
struct library {
    const char *name;
    char path[PATH_MAX];
};

static int is_it(struct dl_phdr_info *info, size_t size, void *pointer) {
    struct library *library = pointer;
    struct tug_object object;
    const char *slash = strrchr(info->dlpi_name, '/'), *file = slash != NULL ? slash + 1 : "";
    const size_t length = strlen(library->name);
    (void)size;
    bool found = strncmp(file, library->name, length) == 0 ||
                 (tug_object_of(info, &object) && object.soname != NULL &&
                  strncmp(object.soname, library->name, length) == 0);
    if (found)
        (void)snprintf(library->path, sizeof(library->path), "%s", info->dlpi_name);
    return found;
}

struct symbol {
    const char *name;
    void *variable; /* the variable, a pointer to a function, that gets the address */
};

/* True if all are there, in the scope of the program or in the library. A library that is not
 * loaded is not asked for: the linker would go through all folders for it. */
static bool find_all(const char *name, const struct symbol *symbols, size_t n) {
    struct library library = {.name = name};
    (void)dl_iterate_phdr(is_it, &library);
    void *handle = library.path[0] != '\0' ? dlopen(library.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool found = true;
    for (size_t i = 0; i < n && found; i++) {
        void *address = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (address == NULL && handle != NULL)
            address = dlsym(handle, symbols[i].name);
        memcpy(symbols[i].variable, &address, sizeof(address));
        found = address != NULL;
    }
    if (handle != NULL && !found)
        dlclose(handle); /* a library that has all functions stays open */
    return found;
}

#define FIND(library, symbols) find_all(library, symbols, sizeof(symbols) / sizeof((symbols)[0]))

/* ---- CUDA's driver (cuda.h) ---- */

#define CUDA_ATTRIBUTE_MEMORY_TYPE 2
#define CUDA_ATTRIBUTE_DEVICE_ORDINAL 9
#define CUDA_DEVICE 2
#define CUDA_ARRAY 3

static int (*cuda_get_attribute)(void *data, int attribute, uint64_t address);
static int (*cuda_copy)(uint64_t to, uint64_t from, size_t bytes);
static int (*cuda_synchronize)(void *stream);
static int (*cuda_get_current)(void **context);
static int (*cuda_push_current)(void *context);
static int (*cuda_pop_current)(void **context);
static int (*cuda_retain_primary)(void **context, int device);

static bool cuda_find(void) {
    const struct symbol symbols[] = {
        {"cuPointerGetAttribute", &cuda_get_attribute},
        {"cuMemcpy", &cuda_copy},
        {"cuStreamSynchronize", &cuda_synchronize},
        {"cuCtxGetCurrent", &cuda_get_current},
        {"cuCtxPushCurrent_v2", &cuda_push_current},
        {"cuCtxPopCurrent_v2", &cuda_pop_current},
        {"cuDevicePrimaryCtxRetain", &cuda_retain_primary},
    };
    return FIND("libcuda.so", symbols);
}

static bool cuda_owns(const void *address) {
    unsigned type = 0;
    return cuda_get_attribute(&type, CUDA_ATTRIBUTE_MEMORY_TYPE, (uint64_t)(uintptr_t)address) ==
               0 &&
           (type == CUDA_DEVICE || type == CUDA_ARRAY);
}

/* A copy to a device may be under way yet when the call returns: the default stream is waited for.
 */
static bool cuda_move(void *to, const void *from, size_t bytes) {
    return cuda_copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes) == 0 &&
           cuda_synchronize(NULL) == 0;
}

/* Any context will do, since addresses are of all devices; a thread that has none gets that of the
 * runtime on the device whose memory it is. */
static bool cuda_copies(void *to, const void *from, size_t bytes, const void *device_address) {
    void *context = NULL;
    int device = 0;
    if (cuda_get_current(&context) == 0 && context != NULL)
        return cuda_move(to, from, bytes);
    if (cuda_get_attribute(&device, CUDA_ATTRIBUTE_DEVICE_ORDINAL,
                           (uint64_t)(uintptr_t)device_address) != 0 ||
        cuda_retain_primary(&context, device) != 0 || cuda_push_current(context) != 0)
        return false;
    bool copied = cuda_move(to, from, bytes);
    (void)cuda_pop_current(&context);
    return copied;
}

/* ---- HIP (hip_runtime_api.h) ---- */

#define HIP_ATTRIBUTE_MEMORY_TYPE 2
#define HIP_COPY_DEFAULT 4
#define HIP_RENUMBERED 60000000 /* from this version on; before: */
#define HIP_5_DEVICE 1
#define HIP_5_ARRAY 2
#define HIP_6_DEVICE 2
#define HIP_6_ARRAY 10

static int (*hip_get_attribute)(void *data, int attribute, void *address);
static int (*hip_get_version)(int *version);
static int (*hip_copy)(void *to, const void *from, size_t bytes, int kind);
static int (*hip_peek_at_error)(void);
static int (*hip_take_error)(void);
static bool hip_renumbered;

static bool hip_find(void) {
    const struct symbol symbols[] = {
        {"hipPointerGetAttribute", &hip_get_attribute},
        {"hipRuntimeGetVersion", &hip_get_version},
        {"hipMemcpy", &hip_copy},
        {"hipPeekAtLastError", &hip_peek_at_error},
        {"hipGetLastError", &hip_take_error},
    };
    int version = 0;
    if (!FIND("libamdhip64.so", symbols) || hip_get_version(&version) != 0)
        return false;
    hip_renumbered = version >= HIP_RENUMBERED;
    return true;
}

/* A question about other memory is an error, which the program is not to find later. */
static bool hip_owns(const void *address) {
    unsigned type = 0;
    int earlier = hip_peek_at_error();
    if (hip_get_attribute(&type, HIP_ATTRIBUTE_MEMORY_TYPE, (void *)(uintptr_t)address) != 0) {
        if (earlier == 0)
            (void)hip_take_error();
        return false;
    }
    return hip_renumbered ? type == HIP_6_DEVICE || type == HIP_6_ARRAY
                          : type == HIP_5_DEVICE || type == HIP_5_ARRAY;
}

static bool hip_copies(void *to, const void *from, size_t bytes, const void *device_address) {
    (void)device_address;
    return hip_copy(to, from, bytes, HIP_COPY_DEFAULT) == 0;
}

/* ---- Level Zero (ze_api.h) ---- */

#define ZE_CONTEXT_DESCRIPTION 0xd
#define ZE_QUEUE_DESCRIPTION 0xe
#define ZE_MEMORY_PROPERTIES 0x17
#define ZE_DEVICE 2
#define ZE_SYNCHRONOUS 1
#define ZE_DRIVERS_MOST 8

struct ze_context_description {
    int kind;
    const void *next;
    uint32_t flags;
};

struct ze_queue_description {
    int kind;
    const void *next;
    uint32_t ordinal, index, flags;
    int mode, priority;
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
static int (*ze_list_create)(void *context, void *device, const struct ze_queue_description *,
                             void **list);
static int (*ze_list_copy)(void *list, void *to, const void *from, size_t bytes, void *signal,
                           uint32_t nawaited, void **awaited);
static int (*ze_list_destroy)(void *list);
static void *ze_contexts[ZE_DRIVERS_MOST];
static uint32_t ze_ncontexts;

/* A driver knows its allocations in whatever context it is asked, and copies them there: UCX does
 * the same. */
static bool ze_find(void) {
    const struct symbol symbols[] = {
        {"zeDriverGet", &ze_driver_get},
        {"zeContextCreate", &ze_context_create},
        {"zeMemGetAllocProperties", &ze_get_properties},
        {"zeCommandListCreateImmediate", &ze_list_create},
        {"zeCommandListAppendMemoryCopy", &ze_list_copy},
        {"zeCommandListDestroy", &ze_list_destroy},
    };
    const struct ze_context_description description = {.kind = ZE_CONTEXT_DESCRIPTION};
    void *drivers[ZE_DRIVERS_MOST];
    uint32_t n = ZE_DRIVERS_MOST;
    if (!FIND("libze_loader.so", symbols) || ze_driver_get(&n, drivers) != 0)
        return false;
    for (uint32_t i = 0; i < n && i < ZE_DRIVERS_MOST; i++)
        if (ze_context_create(drivers[i], &description, &ze_contexts[ze_ncontexts]) == 0)
            ze_ncontexts++;
    return ze_ncontexts > 0;
}

/* The context that knows the address, and its device; NULL: it is no device's. */
static void *ze_context_of(const void *address, void **device) {
    for (uint32_t i = 0; i < ze_ncontexts; i++) {
        struct ze_memory_properties properties = {.kind = ZE_MEMORY_PROPERTIES};
        if (ze_get_properties(ze_contexts[i], address, &properties, device) == 0 &&
            properties.type == ZE_DEVICE)
            return ze_contexts[i];
    }
    return NULL;
}

static bool ze_owns(const void *address) {
    void *device = NULL;
    return ze_context_of(address, &device) != NULL;
}

static bool ze_copies(void *to, const void *from, size_t bytes, const void *device_address) {
    const struct ze_queue_description at_once = {.kind = ZE_QUEUE_DESCRIPTION,
                                                 .mode = ZE_SYNCHRONOUS};
    void *list, *device = NULL, *context = ze_context_of(device_address, &device);
    if (ze_list_create(context, device, &at_once, &list) != 0)
        return false;
    bool copied = ze_list_copy(list, to, from, bytes, NULL, 0, NULL) == 0;
    (void)ze_list_destroy(list);
    return copied;
}

/* ---- all of them ---- */

#ifdef OPEN_MPI
#define HIP_QUERY "MPIX_Query_rocm_support"
#else
#define HIP_QUERY "MPIX_Query_hip_support"
#endif

static struct runtime {
    bool (*find)(void);
    bool (*owns)(const void *address);
    bool (*copies)(void *to, const void *from, size_t bytes, const void *device_address);
    const char *query; /* asks the host */
    bool here;
} runtimes[] = {{cuda_find, cuda_owns, cuda_copies, "MPIX_Query_cuda_support", false},
                {hip_find, hip_owns, hip_copies, HIP_QUERY, false},
                {ze_find, ze_owns, ze_copies, "MPIX_Query_ze_support", false}};

#define RUNTIMES (sizeof(runtimes) / sizeof(runtimes[0]))

/* How often objects have been loaded in this process. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *loads) {
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

void tug_device_look(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static unsigned long long looked_at;
    unsigned long long loads = 0;
    (void)dl_iterate_phdr(count_loads, &loads);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < RUNTIMES && loads != looked_at; i++) {
        struct runtime *runtime = &runtimes[i];
        if (runtime->here || !runtime->find())
            continue;
        /* release: pairs with the acquire in owner_of(), before which find() has set all */
        __atomic_store_n(&runtime->here, true, __ATOMIC_RELEASE);
        __atomic_store_n(&tug_devices, true, __ATOMIC_RELAXED);
    }
    looked_at = loads;
    pthread_mutex_unlock(&lock);
}

/* The runtime of the device in whose memory the address is, or NULL. */
static const struct runtime *owner_of(const void *address) {
    for (size_t i = 0; i < RUNTIMES; i++)
        if (__atomic_load_n(&runtimes[i].here, __ATOMIC_ACQUIRE) && runtimes[i].owns(address))
            return &runtimes[i];
    return NULL;
}

bool tug_device_owns(const void *address) {
    return owner_of(address) != NULL;
}

bool tug_device_is_for_host(void) {
    for (size_t i = 0; i < RUNTIMES; i++) {
        int (*query)(void) = NULL;
        if (!__atomic_load_n(&runtimes[i].here, __ATOMIC_ACQUIRE))
            continue;
        *(void **)&query = tug_host_find(runtimes[i].query);
        if (query == NULL || query() != 0)
            return true;
    }
    return false;
}

bool tug_device_holds(const void *buffer, MPI_Count count, MPI_Datatype type) {
    MPI_Count first = 0, extent;
    if (!tug_has_devices() || count <= 0)
        return false;
    tug_host.Type_get_true_extent_c(type, &first, &extent);
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return tug_device_owns((const void *)((uintptr_t)buffer + (uintptr_t)first));
}

bool tug_device_copy(void *to, const void *from, size_t bytes) {
    const void *device_address = from;
    const struct runtime *owner = owner_of(from);
    if (owner == NULL) {
        device_address = to;
        owner = owner_of(to);
    }
    return owner != NULL && owner->copies(to, from, bytes, device_address);
}

#include "host/host.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "host/identity.h"
#ifdef OPEN_MPI
#include "host/openmpi/openmpi.h"
#endif

/* Until the host is found every pointer leads to a stub that finds it and calls again. */
#define TUG_CALL(Name, parameters, arguments)                                                      \
    static int boot_host_##Name parameters {                                                       \
        return tug_host_resolve() ? tug_host.Name arguments : MPI_ERR_OTHER;                       \
    }
#include "host/calls.def"

struct tug_host tug_host = {
#define TUG_CALL(Name, parameters, arguments) .Name = boot_host_##Name,
#include "host/calls.def"
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;
static void *library; /* where dlsym looks: a handle, or RTLD_NEXT */
static struct tug_identity identity;
static const char *lacked; /* the first call that it lacks */

#ifdef OPEN_MPI
static const char *const libraries[] = {"libmpi.so.40"};
#else
static const char *const libraries[] = {"libmpich.so.12", "libmpi.so.12"};
#endif

struct object_names {
    char **names;
    size_t count;
};

static int remember_name(struct dl_phdr_info *info, size_t size, void *argument) {
    struct object_names *list = argument;
    (void)size;
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0')
        return 0;
    char **grown = realloc(list->names, (list->count + 1) * sizeof(char *));
    if (grown == NULL)
        return 1;
    list->names = grown;
    list->names[list->count] = strdup(info->dlpi_name);
    list->count += list->names[list->count] != NULL;
    return 0;
}

bool tug_host_is_ours(const void *address) {
    Dl_info theirs, ours;
    return address == NULL || (dladdr(address, &theirs) && dladdr((void *)&tug_host, &ours) &&
                               theirs.dli_fbase == ours.dli_fbase);
}

void *tug_host_open(int scope) {
    void *host = NULL;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && host == NULL; i++) {
        host = dlopen(libraries[i], RTLD_LAZY | scope);
        if (host != NULL && tug_host_is_ours(dlsym(host, "PMPI_Init"))) {
            dlclose(host);
            host = NULL;
        }
    }
    return host;
}

/* The handle to look in: what comes behind us, or, when MPI was opened with RTLD_LOCAL, the object
 * that has it. NULL when there is no MPI. */
static void *find_host(void) {
    if (dlsym(RTLD_NEXT, "PMPI_Init") != NULL)
        return RTLD_NEXT;
    struct object_names list = {0};
    void *host = NULL;
    dl_iterate_phdr(remember_name, &list);
    for (size_t i = 0; i < list.count; i++) {
        void *handle = host == NULL ? dlopen(list.names[i], RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (handle != NULL && !tug_host_is_ours(dlsym(handle, "PMPI_Init")))
            host = handle; /* kept open: the host must not go away */
        else if (handle != NULL)
            dlclose(handle);
        free(list.names[i]);
    }
    free((void *)list.names);
    /* A program that was linked with --as-needed and calls nothing of MPI but what we stand in
     * front of: the linker has found that it does not need it. */
    return host != NULL ? host : tug_host_open(RTLD_GLOBAL);
}

/* The host's PMPI_name, or what stands in for it. */
static void *find_function(void *host, const char *name) {
    char symbol[64];
    snprintf(symbol, sizeof(symbol), "PMPI_%s", name);
    void *address = dlsym(host, symbol);
#ifdef OPEN_MPI
    if (address == NULL && identity.ours) {
        address = tug_openmpi_find(host, name);
        if (address == NULL && tug_openmpi_may_lack(name))
            return NULL;
    }
#endif
    if (address == NULL && lacked == NULL)
        lacked = name;
    return address;
}

static void resolve(void) {
    void *host = find_host();
    if (host == NULL) {
        tug_log(TUG_LOG_ERROR, "this process calls MPI but no MPI library is loaded in it: link "
                               "the program with its MPI, or set LD_LIBRARY_PATH to where that is");
        return;
    }
    found = true;
    library = host;
    tug_identify(host, &identity);
#ifdef OPEN_MPI
    tug_openmpi_find_objects(host);
#endif
    /* dlsym's object pointers become function pointers by POSIX' leave */
#define TUG_CALL(Name, parameters, arguments) *(void **)&tug_host.Name = find_function(host, #Name);
#define TUG_CALL_NEWER(Name, parameters, arguments)                                                \
    *(void **)&tug_host.Name = dlsym(host, "PMPI_" #Name);
#define TUG_CALL_COLLECTIVE(Name, Twin, parameters, arguments)                                     \
    TUG_CALL(Name, parameters, arguments) TUG_CALL(Twin, , )
#define TUG_CALL_REDUCTION(Name, Twin, parameters, arguments) TUG_CALL(Name, parameters, arguments)
#include "host/calls.def"
#define TUG_HOST_FIND(Name) *(void **)&tug_host.Name = find_function(host, #Name);
    TUG_HOST_FUNCTIONS(TUG_HOST_FIND)
    TUG_HOST_FUNCTIONS_MORE(TUG_HOST_FIND)
#undef TUG_HOST_FIND
}

bool tug_host_resolve(void) {
    pthread_once(&once, resolve);
    return found;
}

enum tug_host_family tug_host_family(void) {
    if (!tug_host_resolve())
        return TUG_FAMILY_NONE;
    return identity.ours && lacked == NULL ? TUG_FAMILY_BUILT_FOR : TUG_FAMILY_OTHER;
}

bool tug_host_complete(void) {
    return tug_host_family() == TUG_FAMILY_BUILT_FOR;
}

const char *tug_host_name(void) {
    return tug_host_resolve() ? identity.name : "no MPI";
}

const char *tug_host_lacks(void) {
    return tug_host_resolve() && identity.ours ? lacked : NULL;
}

void *tug_host_find(const char *name) {
    return tug_host_resolve() ? dlsym(library, name) : NULL;
}

bool tug_host_says(const char *name) {
    int (*function)(int *);
    int answer = 0;
    *(void **)&function = tug_host_find(name);
    return function != NULL && function(&answer) == MPI_SUCCESS && answer;
}

void *tug_host_find_once(const char *name, void *_Atomic *kept) {
    /* relaxed: there is nothing but this address behind it */
    void *function = atomic_load_explicit(kept, memory_order_relaxed);
    if (function == NULL) {
        function = tug_host_find(name);
        atomic_store_explicit(kept, function, memory_order_relaxed);
    }
    return function;
}

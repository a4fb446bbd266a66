/* libibverbs, found at run time: the library must run where it is not installed, and must not need
 * it. What verbs.h defines in line (post, poll, notify) goes through the opened device and needs no
 * symbol. Loaded at most once and never unloaded: providers leave handlers behind. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "transport/verbs/private.h"

struct tug_ibv tug_ibv;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;
static char why[256];

/* The ABI since 2006 is version 1.1; a few names have been there since 1.0 alone. */
static void *symbol(void *library, const char *name) {
    void *address = dlvsym(library, name, "IBVERBS_1.1");
    return address != NULL ? address : dlsym(library, name);
}

static void load(void) {
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof why, "libibverbs.so.1 cannot be loaded here");
        return;
    }
#define FIND(name)                                                                                 \
    tug_ibv.name = (__typeof__(tug_ibv.name))symbol(library, "ibv_" #name);                        \
    if (tug_ibv.name == NULL) {                                                                    \
        snprintf(why, sizeof why, "libibverbs.so.1 has no ibv_" #name);                            \
        return;                                                                                    \
    }
    TUG_VERBS_FUNCTIONS(FIND)
#undef FIND
    tug_ibv.query_gid_ex = (__typeof__(tug_ibv.query_gid_ex))symbol(library, "_ibv_query_gid_ex");
    tug_ibv.is_fork_initialized = (int (*)(void))symbol(library, "ibv_is_fork_initialized");
    tug_ibv.reg_mr_iova2 = (__typeof__(tug_ibv.reg_mr_iova2))symbol(library, "ibv_reg_mr_iova2");
    found = true;
}

bool tug_verbs_library(char *reason) {
    pthread_once(&once, load);
    if (!found)
        memcpy(reason, why, sizeof why);
    return found;
}

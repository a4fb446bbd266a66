/*
 * llcl_device: memory of a device is refused when it is registered, by LLCL and by ACP.
 *
 *     llcl_device LIBRARY
 *
 * LIBRARY stands in for a device's runtime (device_stand_in.c). Memory that the runtime knows and
 * CPUs can use is registered as any other.
 */
#include <acp.h>
#include <dlfcn.h>

#include "llcl_check.h"

static char of_host[4096];

int main(int argc, char **argv) {
    tug_registration *registration = NULL;
    ll_begin(&argc, &argv, "llcl_device");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL, "%s", dlerror());
    void *(*allocate)(size_t);
    void (*know)(void *, size_t, int);
    *(void **)&allocate = dlsym(library, "stand_in_allocate");
    *(void **)&know = dlsym(library, "stand_in_know");
    char *memory = allocate(sizeof of_host);
    know(of_host, sizeof of_host, 0);

    tug_context *context = ll_open(MPI_COMM_WORLD);
    int rc = tug_mem_register(context, memory + 8, 64, &registration);
    CHECK(rc == TUG_ERR_UNSUPPORTED && registration == NULL, "%s", tug_strerror(rc));
    LL_GOOD(tug_mem_register(context, memory, 0, &registration));
    LL_GOOD(tug_mem_deregister(&registration));
    LL_GOOD(tug_mem_register(context, of_host, sizeof of_host, &registration));
    LL_GOOD(tug_mem_deregister(&registration));
    ll_close(&context);

    CHECK(acp_init(&argc, &argv) == 0, "acp_init");
    CHECK(acp_register_memory(memory, 64, 0) == ACP_ATKEY_NULL, "registered with ACP");
    CHECK(acp_register_memory(of_host, 64, 0) != ACP_ATKEY_NULL, "not registered with ACP");
    CHECK(acp_finalize() == 0, "acp_finalize");
    return check_end();
}

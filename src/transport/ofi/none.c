/* The row ofi of a library that was built without the headers of libfabric: it says so when asked,
 * and is never opened. Compiled instead of the other files here, see CMakeLists.txt. */
#include <stdio.h>

#include "transport/packets/wire.h"

static bool ofi_missing(char *reason) {
    snprintf(reason, 256, "this library was built without the headers of libfabric");
    return true;
}

static int ofi_open(struct tug_fabric *fabric, void **state, char *reason) {
    (void)fabric;
    (void)state;
    (void)ofi_missing(reason);
    return TUG_ERR_UNSUPPORTED;
}

const struct tug_transport tug_transport_ofi = {
    .name = "ofi",
    .help = "packets by libfabric (not in this build)",
    .missing = ofi_missing,
    .open = ofi_open,
};

size_t tug_wire_ofi_footprint(uint64_t nranks) {
    (void)nranks;
    return 0;
}

size_t tug_wire_ofi_endpoint_footprint(void) {
    return 0;
}

size_t tug_wire_ofi_packet(void) {
    return 0;
}

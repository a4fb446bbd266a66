/* The rows of a library that was built without the headers of what they go by: they say so when
 * asked, and are never opened. */
#include <stdio.h>

#include "transport/packets/wire.h"
#include "transport/verbs/verbs.h"

#if !TUG_HAS_VERBS || !TUG_HAS_OFI
static int open_none(struct tug_fabric *fabric, void **state, char *reason) {
    (void)fabric;
    (void)state;
    (void)reason;
    return TUG_ERR_UNSUPPORTED;
}

#define ABSENT(row, what, headers)                                                                 \
    static bool row##_missing(char *reason) {                                                      \
        snprintf(reason, 256, "this library was built without the headers of " headers);           \
        return true;                                                                               \
    }                                                                                              \
    const struct tug_transport tug_transport_##row = {                                             \
        .name = #row,                                                                              \
        .help = what " (not in this build)",                                                       \
        .missing = row##_missing,                                                                  \
        .open = open_none,                                                                         \
    }
#endif

#if !TUG_HAS_VERBS
ABSENT(verbs, "InfiniBand and RoCE", "libibverbs");

bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint) {
    (void)operations;
    (void)active;
    (void)footprint;
    return false;
}
#endif

#if !TUG_HAS_OFI
ABSENT(ofi, "packets by libfabric", "libfabric");

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
#endif

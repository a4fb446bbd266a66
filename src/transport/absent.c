/* Stand-ins for the rows that this build leaves out, because their headers were missing. Each says
 * so, with the package to install, and is never opened. */
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

#define ABSENT(row, what, packages)                                                                \
    static bool row##_missing(char *reason) {                                                      \
        snprintf(reason, 256, "not in this build: install " packages " and build it again");       \
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
ABSENT(verbs, "InfiniBand and RoCE", "libibverbs-dev (rdma-core-devel)");

bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint) {
    (void)operations;
    (void)active;
    (void)footprint;
    return false;
}
#endif

#if !TUG_HAS_OFI
ABSENT(ofi, "libfabric", "libfabric-dev (libfabric-devel)");

size_t tug_wire_ofi_footprint(uint64_t nranks) {
    (void)nranks;
    return 0;
}

size_t tug_wire_ofi_endpoint_footprint(void) {
    return 0;
}

bool tug_wire_ofi_lacks_card(char *reason) {
    return ofi_missing(reason);
}
#endif

/* The verbs transport of a library that was built without the headers of libibverbs: it says so
 * when asked, and is never opened. Compiled instead of the other verbs files, see CMakeLists.txt.
 */
#include <stdio.h>

#include "transport/verbs/verbs.h"

static bool verbs_missing(char *reason) {
    snprintf(reason, 256, "this library was built without the headers of libibverbs");
    return true;
}

static int verbs_open(struct tug_fabric *fabric, void **state, char *reason) {
    (void)fabric;
    (void)state;
    (void)reason;
    return TUG_ERR_UNSUPPORTED;
}

bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint) {
    (void)operations;
    (void)active;
    (void)footprint;
    return false;
}

const struct tug_transport tug_transport_verbs = {
    .name = "verbs",
    .help = "InfiniBand and RoCE (not in this build)",
    .missing = verbs_missing,
    .open = verbs_open,
};

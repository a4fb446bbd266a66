/* Registered memory, as the devices know it: a region for each registration and rail, and for each
 * registration addresses of its own.
 *
 * To register is expensive: every page is pinned and told to the device. Yet registrations inside
 * one another share nothing: a key that is remembered beyond its registration must not reach its
 * memory by way of another. Nor is anything kept for the next registration of the same memory:
 * memory may be unmapped and mapped anew unseen, and data would go astray silently.
 *
 * The name that the device gives a region (rkey) may be given again at once, to other memory or to
 * the same. So the device is told addresses that belong to the registration's id, which is given
 * once: see tug_verbs_address().
 *
 * What the device refuses is registered without it, and goes by other ways: an rkey of 0 says so.
 * Threading: any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs/private.h"

static struct ibv_mr *make(const struct tug_verbs_device *device,
                           const struct tug_registration *registration, int access) {
    const uint64_t address =
        tug_verbs_address(registration->id, (uint64_t)(uintptr_t)registration->base);
    return tug_verbs_device_register(device, registration->base, registration->bytes, address,
                                     access);
}

/* What a registration keeps; there is one if the first rail's device knows the memory. */
struct regions {
    struct ibv_mr *of_rail[TUG_RKEYS];
};

static void refused(const struct tug_verbs_device *device, size_t bytes, int error) {
    tug_warn_once("verbs: %s refuses to register %zu bytes: %s%s; they go by other ways, more "
                  "slowly: raise the limits of the device or of this process",
                  device->name, bytes, strerror(error),
                  error == ENOMEM ? " (is the limit of locked memory, ulimit -l, too low?)" : "");
}

/* What peers may do with it. */
static int access_of(const struct tug_fabric *fabric) {
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
           (fabric->open_to_atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

/* One rail after the other, until one refuses. False: the first has. */
static bool make_all(const struct tug_verbs_view *first, struct tug_registration *registration,
                     struct regions *regions) {
    for (uint32_t rail = 0; rail < first->nrails; rail++) {
        const struct tug_verbs_device *device = &first->rails[rail]->verbs->device;
        struct ibv_mr *mr = make(device, registration, access_of(first->wire.fabric));
        regions->of_rail[rail] = mr;
        if (mr == NULL) {
            refused(device, registration->bytes, errno);
            return rail > 0;
        }
        registration->rkeys[rail] = mr->rkey;
    }
    return true;
}

int tug_verbs_memory_register(void *state, struct tug_registration *registration) {
    const struct tug_verbs_view *first = state;
    registration->of_transport[TUG_BY_VERBS] = NULL;
    memset(registration->rkeys, 0, sizeof registration->rkeys);
    if (registration->bytes == 0)
        return 0; /* nothing will move */
    struct regions *regions = calloc(1, sizeof *regions);
    if (regions == NULL) {
        refused(&first->verbs->device, registration->bytes, ENOMEM);
        return 0;
    }
    if (make_all(first, registration, regions))
        registration->of_transport[TUG_BY_VERBS] = regions;
    else
        free(regions);
    return 0;
}

bool tug_verbs_memory_register_local(const struct tug_verbs *verbs,
                                     struct tug_registration *registration, int access) {
    struct regions *regions = calloc(1, sizeof *regions);
    struct ibv_mr *mr = regions != NULL ? make(&verbs->device, registration, access) : NULL;
    if (mr == NULL) {
        if (regions == NULL || errno != EFAULT)
            refused(&verbs->device, registration->bytes, regions == NULL ? ENOMEM : errno);
        free(regions);
        return false;
    }
    regions->of_rail[verbs->rail] = mr;
    registration->of_transport[TUG_BY_VERBS] = regions;
    return true;
}

void tug_verbs_memory_deregister(struct tug_registration *registration) {
    struct regions *regions = registration->of_transport[TUG_BY_VERBS];
    registration->of_transport[TUG_BY_VERBS] = NULL;
    for (uint32_t rail = 0; regions != NULL && rail < TUG_RKEYS; rail++)
        if (regions->of_rail[rail] != NULL)
            tug_ibv.dereg_mr(regions->of_rail[rail]);
    free(regions);
}

struct ibv_mr *tug_verbs_memory_of(const struct tug_registration *registration, uint32_t rail) {
    const struct regions *regions = registration->of_transport[TUG_BY_VERBS];
    return regions != NULL ? regions->of_rail[rail] : NULL;
}

/* Registered memory, as the device knows it: a region for each registration, and for each region
 * addresses of its own.
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
#include <string.h>

#include "base/log.h"
#include "transport/verbs/private.h"

static struct ibv_mr *make(const struct tug_verbs_device *device,
                           const struct tug_registration *registration) {
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (device->atomics)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    const uint64_t address =
        tug_verbs_address(registration->id, (uint64_t)(uintptr_t)registration->base);
    return tug_ibv.reg_mr_iova(device->pd, registration->base, registration->bytes, address,
                               access);
}

void tug_verbs_memory_register(const struct tug_verbs_device *device,
                               struct tug_registration *registration) {
    registration->of_transport[TUG_BY_VERBS] = NULL;
    registration->rkey = 0;
    if (registration->bytes == 0)
        return; /* nothing will move */
    struct ibv_mr *mr = make(device, registration);
    if (mr == NULL) {
        const int error = errno;
        tug_warn_once("verbs: %s refuses to register %zu bytes: %s%s; they go by other ways, more "
                      "slowly: raise the limits of the device or of this process",
                      device->name, registration->bytes, strerror(error),
                      error == ENOMEM ? " (is the limit of locked memory, ulimit -l, too low?)"
                                      : "");
        return;
    }
    registration->of_transport[TUG_BY_VERBS] = mr;
    registration->rkey = mr->rkey;
}

void tug_verbs_memory_deregister(struct tug_registration *registration) {
    struct ibv_mr *mr = registration->of_transport[TUG_BY_VERBS];
    registration->of_transport[TUG_BY_VERBS] = NULL;
    if (mr != NULL)
        tug_ibv.dereg_mr(mr);
}

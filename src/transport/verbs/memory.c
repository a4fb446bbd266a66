/* Registered memory, as the device knows it.
 *
 * To register is expensive: every page is pinned and told to the device. So a registration that
 * lies inside memory which the device knows already shares that region, and the region lasts as
 * long as one of its users. A key of a registration that has ended reaches its memory while others
 * still have it registered, and is refused by the device from then on.
 *
 * Nothing is kept beyond its last user. Memory of the program may be unmapped and mapped anew
 * unseen, and a region kept idle would then name pages that are no longer the program's: data would
 * go astray silently. A cache of idle regions needs a notifier (hooks into munmap, or userfaultfd)
 * that this library does not have; and keys of memory that nobody has registered would be good.
 *
 * A list is enough: a program has few registrations, and each costs a system call anyway.
 * Threading: any thread; the lock is not held while the device works. */
#include <stdlib.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs/private.h"

static struct tug_verbs_region *find(struct tug_verbs_regions *regions, const unsigned char *base,
                                     size_t bytes) {
    struct tug_verbs_region *region = regions->first;
    while (region != NULL && (base < region->base || base + bytes > region->base + region->bytes))
        region = region->next;
    return region;
}

static int make(const struct tug_verbs_device *device, void *base, size_t bytes,
                struct tug_verbs_region **made) {
    struct tug_verbs_region *region = calloc(1, sizeof *region);
    if (region == NULL)
        return TUG_ERR_NO_MEMORY;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (device->atomics)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    region->mr = tug_ibv.reg_mr(device->pd, base, bytes, access);
    if (region->mr == NULL) {
        const int error = errno;
        tug_log(TUG_VERBOSE_WARN, "verbs: %s refused to register %zu bytes: %s%s", device->name,
                bytes, strerror(error),
                error == ENOMEM ? " (is the limit of locked memory, ulimit -l, too low?)" : "");
        free(region);
        return error == ENOMEM ? TUG_ERR_NO_MEMORY : TUG_ERR_SYSTEM;
    }
    region->base = base;
    region->bytes = bytes;
    region->users = 1;
    *made = region;
    return 0;
}

int tug_verbs_region_take(struct tug_verbs_regions *regions, const struct tug_verbs_device *device,
                          void *base, size_t bytes, struct tug_verbs_region **region) {
    pthread_mutex_lock(&regions->lock);
    struct tug_verbs_region *known = find(regions, base, bytes);
    if (known != NULL) {
        known->users++;
        regions->shared++;
    }
    pthread_mutex_unlock(&regions->lock);
    if (known == NULL) {
        int status = make(device, base, bytes, &known);
        if (status != 0)
            return status;
        pthread_mutex_lock(&regions->lock);
        known->next = regions->first;
        regions->first = known;
        regions->made++;
        pthread_mutex_unlock(&regions->lock);
    }
    *region = known;
    return 0;
}

void tug_verbs_region_leave(struct tug_verbs_regions *regions, struct tug_verbs_region *region) {
    pthread_mutex_lock(&regions->lock);
    const bool last = --region->users == 0;
    if (last) {
        struct tug_verbs_region **at = &regions->first;
        while (*at != region)
            at = &(*at)->next;
        *at = region->next;
    }
    pthread_mutex_unlock(&regions->lock);
    if (!last)
        return;
    tug_ibv.dereg_mr(region->mr);
    free(region);
}

#include "rma/apply.h"

void tug_guard_apply(const struct tug_guard *guard, size_t offset, unsigned char *memory,
                     const struct tug_update *update) {
    const size_t extent = update->extent;
    for (size_t done = 0, now; done < update->n; done += now) {
        const size_t at = offset + done * extent, left = update->n - done;
        const size_t room = guard->bytes - at % guard->bytes;
        /* as many as begin in this stretch */
        now = left * extent <= room ? left : (room + extent - 1) / extent;
        const struct tug_update part = tug_update_part(update, done, now);
        struct tug_mutex *mutex = NULL;
        if (guard->mutexes != NULL)
            mutex = &guard->mutexes[at / guard->bytes % guard->n];
        tug_guard_lock(mutex);
        (void)tug_update_apply(memory + done * extent, &part);
        tug_guard_unlock(mutex);
    }
}

#include "base/shelf.h"

#include <stddef.h>

void tug_shelf_put(struct tug_shelf *shelf, struct tug_shelved *thing) {
    pthread_mutex_lock(&shelf->lock);
    struct tug_shelved **at = &shelf->first;
    while (*at != NULL && (*at)->id < thing->id)
        at = &(*at)->next;
    thing->next = *at;
    *at = thing;
    pthread_mutex_unlock(&shelf->lock);
}

struct tug_shelved *tug_shelf_borrow(struct tug_shelf *shelf,
                                     bool (*fits)(const struct tug_shelved *, void *),
                                     void *argument) {
    pthread_mutex_lock(&shelf->lock);
    struct tug_shelved **at = &shelf->first;
    while (*at != NULL && fits != NULL && !fits(*at, argument))
        at = &(*at)->next;
    struct tug_shelved *thing = *at;
    if (thing != NULL)
        *at = thing->next;
    pthread_mutex_unlock(&shelf->lock);
    return thing;
}

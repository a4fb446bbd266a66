#include "engine/tags.h"

#include <stdlib.h>

#include "tugboat/tugboat.h"

int tug_tags_init(struct tug_tags *tags, uint32_t count) {
    tags->slots = malloc(count * sizeof(*tags->slots));
    if (tags->slots == NULL)
        return TUG_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        atomic_init(&tags->slots[i], i);
    atomic_init(&tags->head, 0);
    atomic_init(&tags->tail, count);
    tags->mask = count - 1;
    return 0;
}

void tug_tags_fini(struct tug_tags *tags) {
    free((void *)tags->slots);
    tags->slots = NULL;
}

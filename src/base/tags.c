#include "base/tags.h"

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
    tags->hand = NULL;
    tags->nhand = tags->hand_most = 0;
    return 0;
}

int tug_tags_keep_in_hand(struct tug_tags *tags, uint32_t most) {
    tags->hand = malloc(most * sizeof(*tags->hand));
    if (tags->hand == NULL)
        return TUG_ERR_NO_MEMORY;
    tags->hand_most = most;
    tags->nhand = tug_tags_take(tags, &tags->hand[0]);
    return 0;
}

void tug_tags_fini(struct tug_tags *tags) {
    free((void *)tags->slots);
    free(tags->hand);
    tags->slots = NULL;
}

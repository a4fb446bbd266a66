/* Pools of buffers. */
#include "transport/packets/wire.h"

#include <stdlib.h>

#define SPARE_MOST ((size_t)1 << 20) /* bytes a pool keeps for later */

struct tug_buffer *tug_pool_take(struct tug_pool *pool) {
    struct tug_buffer *buffer = pool->spare;
    if (buffer != NULL) {
        pool->spare = buffer->next;
        pool->nspare--;
    } else {
        buffer = malloc(sizeof(*buffer) + pool->bytes);
        if (buffer == NULL)
            return NULL;
    }
    pool->nout++;
    buffer->next = NULL;
    buffer->number = 0;
    buffer->sent = 0;
    buffer->of = TUG_NO_TAG;
    buffer->ends = buffer->half = false;
    buffer->trailer = NULL;
    buffer->served = NULL;
    tug_packet_begin(&buffer->packet, buffer->memory, pool->bytes);
    return buffer;
}

void tug_pool_give(struct tug_pool *pool, struct tug_buffer *buffer) {
    pool->nout--;
    if (buffer->served != NULL)
        buffer->served->serving--;
    if (pool->nspare >=
        (pool->keeps > 0 ? pool->keeps : tug_pool_spare_most(sizeof(*buffer) + pool->bytes))) {
        free(buffer);
        return;
    }
    buffer->next = pool->spare;
    pool->spare = buffer;
    pool->nspare++;
}

void tug_pool_fini(struct tug_pool *pool) {
    while (pool->spare != NULL) {
        struct tug_buffer *buffer = pool->spare;
        pool->spare = buffer->next;
        free(buffer);
    }
    pool->nspare = 0;
}

size_t tug_pool_spare_most(size_t packet_bytes) {
    return SPARE_MOST / packet_bytes;
}

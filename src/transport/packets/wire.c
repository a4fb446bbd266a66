/* Pools of buffers. */
#include "transport/packets/wire.h"

#include <assert.h>
#include <stdlib.h>

#define SPARE_MOST ((size_t)1 << 20) /* bytes a pool keeps for later */

static struct tug_buffer *make(uint32_t bytes) {
    struct tug_buffer *buffer = malloc(sizeof(*buffer) + bytes);
    if (buffer != NULL)
        buffer->bytes = bytes;
    return buffer;
}

static void put(struct tug_buffer **list, uint32_t *n, struct tug_buffer *buffer) {
    buffer->next = *list;
    *list = buffer;
    ++*n;
}

static struct tug_buffer *get(struct tug_buffer **list, uint32_t *n) {
    struct tug_buffer *buffer = *list;
    *list = buffer->next;
    --*n;
    return buffer;
}

static struct tug_buffer *begin(struct tug_pool *pool, struct tug_buffer *buffer) {
    pool->nout++;
    buffer->next = NULL;
    buffer->number = 0;
    buffer->sent = 0;
    buffer->of = TUG_NO_TAG;
    buffer->ends = buffer->half = false;
    buffer->trailer = NULL;
    buffer->served = NULL;
    tug_packet_begin(&buffer->packet, buffer->memory,
                     buffer->bytes < pool->bytes ? buffer->bytes : pool->bytes);
    return buffer;
}

struct tug_buffer *tug_pool_take(struct tug_pool *pool) {
    struct tug_buffer *buffer =
        pool->spare != NULL ? get(&pool->spare, &pool->nspare) : make(pool->bytes);
    return buffer != NULL ? begin(pool, buffer) : NULL;
}

struct tug_buffer *tug_pool_take_owed(struct tug_pool *pool) {
    struct tug_buffer *buffer = tug_pool_take(pool);
    if (buffer != NULL)
        return buffer;
    assert(pool->small != NULL && "an answer is owed");
    return begin(pool, get(&pool->small, &pool->nsmall));
}

static bool refill_small(struct tug_pool *pool, uint32_t n) {
    while (pool->nsmall < n) {
        struct tug_buffer *buffer = make(TUG_SMALL_PACKET_BYTES);
        if (buffer == NULL)
            return false;
        put(&pool->small, &pool->nsmall, buffer);
    }
    return true;
}

bool tug_pool_refill(struct tug_pool *pool) {
    if (pool->spare == NULL) {
        struct tug_buffer *buffer = make(pool->bytes);
        if (buffer == NULL)
            return false;
        put(&pool->spare, &pool->nspare, buffer);
    }
    return refill_small(pool, pool->nowed);
}

bool tug_pool_owe(struct tug_pool *pool, uint32_t n) {
    if (!refill_small(pool, pool->nowed + n))
        return false;
    pool->nowed += n;
    return true;
}

void tug_pool_settle(struct tug_pool *pool, uint32_t n) {
    pool->nowed -= n;
    while (pool->nsmall > pool->nowed + TUG_SMALL_KEPT)
        free(get(&pool->small, &pool->nsmall));
}

void tug_pool_give(struct tug_pool *pool, struct tug_buffer *buffer) {
    pool->nout--;
    if (buffer->served != NULL)
        buffer->served->serving--;
    if (buffer->bytes < pool->bytes) {
        if (pool->nsmall < pool->nowed + TUG_SMALL_KEPT)
            put(&pool->small, &pool->nsmall, buffer);
        else
            free(buffer);
    } else if (pool->nspare < (pool->keeps > 0
                                   ? pool->keeps
                                   : tug_pool_spare_most(sizeof(*buffer) + pool->bytes))) {
        put(&pool->spare, &pool->nspare, buffer);
    } else {
        free(buffer);
    }
}

void tug_pool_fini(struct tug_pool *pool) {
    while (pool->spare != NULL)
        free(get(&pool->spare, &pool->nspare));
    while (pool->small != NULL)
        free(get(&pool->small, &pool->nsmall));
}

size_t tug_pool_spare_most(size_t packet_bytes) {
    return SPARE_MOST / packet_bytes;
}

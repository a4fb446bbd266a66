#include "llcl/long.h"

#include <stdlib.h>

#include "base/copy.h"
#include "llcl/private.h"

struct tug_long {
    struct tug_long *next;
    uint32_t source;
    uint32_t handler;
    uint64_t bytes;
    uint64_t come; /* the first so many bytes are here */
    unsigned char data[] __attribute__((aligned(16)));
};

/* The link to what is being gathered of that source's message, or the last one, which is NULL. */
static struct tug_long **find(struct tug_context *context, uint32_t source) {
    struct tug_long **at = &context->longs;
    while (*at != NULL && (*at)->source != source)
        at = &(*at)->next;
    return at;
}

static void forget(struct tug_long **at) {
    struct tug_long *gone = *at;
    *at = gone->next;
    free(gone);
}

/* A message begins, of which a part is here: at *at, which is NULL. */
static int begin(struct tug_long **at, uint32_t source, const uint64_t head[2]) {
    struct tug_long *message = malloc(sizeof(*message) + head[TUG_LONG_BYTES]);
    if (message == NULL)
        return TUG_ERR_NO_MEMORY;
    message->next = NULL;
    message->source = source;
    message->handler = (uint32_t)head[TUG_LONG_HANDLER];
    message->bytes = head[TUG_LONG_BYTES];
    message->come = 0;
    *at = message;
    return 0;
}

static int handle(struct tug_context *context, uint32_t source, uint64_t id, const void *payload,
                  size_t bytes) {
    return context->fabric.deliver(&context->fabric, source, (unsigned)id, payload, bytes, 1);
}

static bool is_sound(const struct tug_context *context, const uint64_t head[2], uint64_t position,
                     size_t bytes) {
    const uint64_t all = head[TUG_LONG_BYTES];
    return head[TUG_LONG_HANDLER] < TUG_AM_HANDLERS && all <= TUG_AM_MAX_LONG && position <= all &&
           bytes <= all - position && context->handlers[head[TUG_LONG_HANDLER]].f != NULL;
}

/* The last part is here. The handler may start operations, and the next message may begin. */
static int end(struct tug_context *context, struct tug_long **at) {
    struct tug_long *whole = *at;
    *at = whole->next;
    const int status =
        handle(context, whole->source, whole->handler, whole->data, (size_t)whole->bytes);
    free(whole);
    return status;
}

static int gather(struct tug_context *context, uint32_t source, const uint64_t head[2],
                  uint64_t position, const void *data, size_t bytes) {
    struct tug_long **at = find(context, source);
    if (position == 0) {
        if (*at != NULL) /* the rest of it never came, or it begins once more */
            forget(at);
        at = find(context, source);
        const int status = begin(at, source, head);
        if (status != 0)
            return status;
    }
    struct tug_long *message = *at;
    if (message == NULL || message->handler != head[TUG_LONG_HANDLER] ||
        message->bytes != head[TUG_LONG_BYTES] || position > message->come)
        return TUG_ERR_INVALID;
    tug_copy(message->data + position, data, bytes);
    message->come = position + bytes;
    return message->come == message->bytes ? end(context, at) : 0;
}

int64_t tug_long_deliver(struct tug_context *context, uint32_t source, const uint64_t head[2],
                         uint64_t position, const void *data, size_t bytes) {
    int status = TUG_ERR_INVALID;
    if (!is_sound(context, head, position, bytes)) {
        tug_long_forget(context, source); /* its handler is gone */
    } else if (bytes == head[TUG_LONG_BYTES]) {
        status = handle(context, source, head[TUG_LONG_HANDLER], data, bytes);
    } else {
        status = gather(context, source, head, position, data, bytes);
    }
    return status != 0 ? status : (int64_t)bytes;
}

void tug_long_forget(struct tug_context *context, uint32_t source) {
    struct tug_long **at = find(context, source);
    if (*at != NULL)
        forget(at);
}

void tug_long_close(struct tug_context *context) {
    while (context->longs != NULL)
        forget(&context->longs);
}

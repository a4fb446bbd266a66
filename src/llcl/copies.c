/* Long copies of memory in reach, done piece by piece by the holder of the baton: a try_ call
 * starts them and returns. */
#include "llcl/copies.h"

#include <string.h>

#include "base/stats.h"
#include "node/live.h"
#include "transport/reach.h"

/* A holder that copies serves nobody meanwhile. */
#define PIECE (512u << 10)

void tug_copies_add(struct tug_context *context, struct tug_operation *operation) {
    struct tug_copies *copies = &context->copies;
    const uint32_t tag = tug_fabric_tag(&context->fabric, operation);
    operation->left = operation->bytes;
    operation->next = TUG_NO_TAG;
    if (copies->count++ == 0)
        copies->first = tag;
    else
        context->fabric.operations[copies->last].next = tag;
    copies->last = tag;
}

/* Bytes of the next piece, and where it begins: memory that is copied to memory behind it, which
 * may begin inside of it, is copied from its end. */
static uint64_t next_piece(const struct tug_operation *operation, uint64_t *begin) {
    const bool reads = operation->kind == TUG_OPERATION_READ;
    const bool to_higher = reads == ((uintptr_t)operation->local > operation->address);
    const uint64_t bytes = operation->left < PIECE ? operation->left : PIECE;
    *begin = to_higher ? operation->left - bytes : operation->bytes - operation->left;
    return bytes;
}

/* True: the operation has ended. */
static bool copy_piece(struct tug_operation *operation) {
    const struct tug_reach there = tug_copies_reach(operation);
    uint64_t begin;
    const uint64_t bytes = next_piece(operation, &begin);
    const struct tug_reach piece = {.mapped = there.mapped != NULL ? there.mapped + begin : NULL,
                                    .address = there.address + begin,
                                    .pid = there.pid};
    unsigned char *local = operation->local + begin;
    const int status = operation->kind == TUG_OPERATION_READ
                           ? tug_reach_read(&piece, local, bytes)
                           : tug_reach_write(&piece, local, bytes);
    operation->left -= bytes;
    operation->status = (int8_t)status;
    return status != 0 || operation->left == 0;
}

bool tug_copies_use(const struct tug_registration *registration) {
    const struct tug_context *context = registration->context;
    const struct tug_copies *copies = &context->copies;
    if (copies->count == 0 || registration->segment != 0)
        return copies->count > 0;
    uint32_t tag = copies->first;
    for (uint32_t i = 0; i < copies->count; i++) {
        const struct tug_operation *operation = &context->fabric.operations[tag];
        const uint64_t base = (uintptr_t)registration->base;
        if (operation->compare == 0 && operation->address - base < registration->bytes)
            return true;
        tag = operation->next;
    }
    return false;
}

bool tug_copies_poll(struct tug_context *context) {
    struct tug_copies *copies = &context->copies;
    if (copies->count == 0)
        return false;
    struct tug_operation *operation = &context->fabric.operations[copies->first];
    if (!copy_piece(operation))
        return true;
    copies->first = operation->next;
    copies->count--;
    const struct tug_reach there = tug_copies_reach(operation);
    const bool protected = tug_reach_is_protected(&there, operation->status, operation->bytes);
    tug_reach_end(&there);
    operation->left = 0;
    if (protected) { /* all of it once more, by packets */
        memset(operation->data, 0, sizeof(operation->data));
        operation->scratch = 0;
        operation->status = 0;
        tug_fabric_post(&context->fabric, operation);
        return true;
    }
    if (there.mapped != NULL)
        tug_stat_add(TUG_STAT_MAPPED, 1);
    tug_fabric_complete(&context->fabric, operation);
    return true;
}

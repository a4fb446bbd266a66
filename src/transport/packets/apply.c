#include "transport/packets/apply.h"

#include <string.h>

#include "transport/atomic.h"

/* How much memory a request is about. */
static uint64_t extent(const struct tug_record *record) {
    switch (record->kind) {
    case TUG_RECORD_WRITE:
        return record->length;
    case TUG_RECORD_READ:
        return record->words[3];
    case TUG_RECORD_FETCH:
    case TUG_RECORD_COMPARE:
        return record->sub & 15;
    case TUG_RECORD_SIGNAL:
        return sizeof(uint64_t);
    default:
        return record->words[2];
    }
}

struct tug_applied tug_apply(struct tug_memory_table *memory, const struct tug_record *record) {
    struct tug_applied applied = {.bytes = extent(record)};
    uint64_t offset = record->words[1];
    struct tug_registration *registration =
        tug_memory_find(memory, record->words[0], offset, applied.bytes, &applied.status);
    if (registration == NULL)
        return applied;
    applied.registration = registration;
    unsigned char *target = registration->base + offset;
    unsigned width = record->sub & 15;
    applied.data = target;
    switch (record->kind) {
    case TUG_RECORD_WRITE:
        if (__builtin_expect(record->length == 8, 1))
            memcpy(target, record->data, 8);
        else if (record->length > 0)
            memcpy(target, record->data, record->length);
        break;
    case TUG_RECORD_FETCH:
        if ((uintptr_t)target % width != 0)
            applied.status = TUG_ERR_INVALID;
        else
            applied.value = tug_atomic_fetch(target, width, record->sub >> 4, record->words[2]);
        break;
    case TUG_RECORD_COMPARE:
        if ((uintptr_t)target % width != 0)
            applied.status = TUG_ERR_INVALID;
        else
            applied.value = tug_atomic_compare(target, width, record->words[3], record->words[2]);
        break;
    case TUG_RECORD_SIGNAL:
        if ((uintptr_t)target % sizeof(uint64_t) != 0)
            applied.status = TUG_ERR_INVALID;
        else
            (void)tug_atomic_fetch(target, sizeof(uint64_t), TUG_ADD, record->words[2]);
        break;
    default:
        break;
    }
    return applied;
}

int tug_apply_run(struct tug_memory_table *memory, const struct tug_record *record) {
    const size_t length = record->sub;
    const unsigned char *next = record->data;
    int status = 0;
    struct tug_registration *registration =
        tug_memory_find(memory, record->words[0], 0, length, &status);
    if (registration == NULL)
        return status;
    const uint64_t offset_most = registration->bytes - length;
    for (unsigned i = 0; i < record->length; i++, next += tug_run_step(length)) {
        int32_t distance;
        memcpy(&distance, next, sizeof(distance));
        __asm__("" : "+r"(distance)); /* read once: a peer may still change it */
        const uint64_t offset = record->words[1] + (uint64_t)(int64_t)distance;
        const unsigned char *data = next + sizeof(distance);
        if (__builtin_expect(offset > offset_most, 0))
            status = TUG_ERR_RANGE;
        else if (__builtin_expect(length == 8, 1))
            memcpy(registration->base + offset, data, 8);
        else
            memcpy(registration->base + offset, data, length);
    }
    return status;
}

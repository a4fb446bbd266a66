#include "transport/packets/apply.h"

#include <string.h>

#include "base/copy.h"
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
            tug_copy(target, record->data, record->length);
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

/* The registration that a run is for; *offset_most: what its offsets may be. */
static struct tug_registration *find_run(struct tug_memory_table *memory,
                                         const struct tug_record *record, uint64_t *offset_most,
                                         int *status) {
    struct tug_registration *registration =
        tug_memory_find(memory, record->words[0], 0, record->sub, status);
    if (registration != NULL)
        *offset_most = registration->bytes - record->sub;
    return registration;
}

/* Where an operation of a run is, whose distance stands there. */
static inline uint64_t offset_in_run(const struct tug_record *record, const unsigned char *at) {
    int32_t distance;
    memcpy(&distance, at, sizeof(distance));
    uint64_t offset = record->words[1] + (uint64_t)(int64_t)distance;
    __asm__("" : "+r"(offset)); /* read once: a peer may still change it */
    return offset;
}

static inline void copy_one(unsigned char *to, const unsigned char *from, size_t length) {
    if (__builtin_expect(length == 8, 1))
        memcpy(to, from, 8);
    else
        tug_copy(to, from, length);
}

int tug_apply_run(struct tug_memory_table *memory, const struct tug_record *record) {
    const size_t length = record->sub;
    const unsigned char *next = record->data;
    uint64_t offset_most;
    int status = 0;
    struct tug_registration *registration = find_run(memory, record, &offset_most, &status);
    if (registration == NULL)
        return status;
    for (unsigned i = 0; i < record->length; i++, next += tug_run_step(length)) {
        const uint64_t offset = offset_in_run(record, next);
        if (__builtin_expect(offset > offset_most, 0))
            status = TUG_ERR_RANGE;
        else
            copy_one(registration->base + offset, next + sizeof(int32_t), length);
    }
    return status;
}

int tug_apply_read_run(struct tug_memory_table *memory, const struct tug_record *record,
                       unsigned char *to) {
    const size_t length = record->sub;
    const unsigned char *next = record->data;
    uint64_t offset_most;
    int status = 0;
    struct tug_registration *registration = find_run(memory, record, &offset_most, &status);
    if (registration == NULL)
        return status;
    for (unsigned i = 0; i < record->length; i++, next += tug_run_step(0), to += length) {
        const uint64_t offset = offset_in_run(record, next);
        if (__builtin_expect(offset > offset_most, 0))
            return TUG_ERR_RANGE;
        copy_one(to, registration->base + offset, length);
    }
    return 0;
}

#include "model/radix.h"

#include <stdlib.h>
#include <string.h>

static void append(struct tug_radix *radix, struct tug_bucket *bucket, struct tug_event event) {
    if (bucket->count == bucket->capacity) {
        size_t capacity = bucket->capacity == 0 ? 64 : 2 * bucket->capacity;
        struct tug_event *grown = realloc(bucket->events, capacity * sizeof(*grown));
        if (grown == NULL) {
            radix->failed = true;
            return;
        }
        bucket->events = grown;
        bucket->capacity = capacity;
    }
    bucket->events[bucket->count++] = event;
}

static struct tug_bucket *bucket_of(struct tug_radix *radix, uint64_t at_ps) {
    uint64_t differs = at_ps ^ radix->last_ps;
    return &radix->buckets[differs == 0 ? 0 : 64 - __builtin_clzll(differs)];
}

void tug_radix_add(struct tug_radix *radix, uint64_t at_ps, uint64_t what) {
    append(radix, bucket_of(radix, at_ps), (struct tug_event){at_ps, what});
}

/* Bucket 0 is used up: fills it from the first of the others that has any. */
static bool refill(struct tug_radix *radix) {
    radix->buckets[0].count = 0;
    radix->next = 0;
    int b = 1;
    while (b <= 64 && radix->buckets[b].count == 0)
        b++;
    if (b > 64)
        return false;
    struct tug_bucket *bucket = &radix->buckets[b];
    uint64_t least = bucket->events[0].at_ps;
    for (size_t i = 1; i < bucket->count; i++)
        least = bucket->events[i].at_ps < least ? bucket->events[i].at_ps : least;
    radix->last_ps = least;
    for (size_t i = 0; i < bucket->count; i++) /* all go below */
        append(radix, bucket_of(radix, bucket->events[i].at_ps), bucket->events[i]);
    bucket->count = 0;
    return true;
}

bool tug_radix_take(struct tug_radix *radix, struct tug_event *event) {
    if (radix->next == radix->buckets[0].count && !refill(radix))
        return false;
    *event = radix->buckets[0].events[radix->next++];
    return true;
}

void tug_radix_fini(struct tug_radix *radix) {
    for (int b = 0; b <= 64; b++)
        free(radix->buckets[b].events);
    memset(radix, 0, sizeof(*radix));
}

/* What the unit tests of packets between two processes in one (tests/joined.h) have in common:
 * memory, the end of a side, and records of what became of operations. */
#ifndef TUG_TEST_JOINED_RECORDS_H
#define TUG_TEST_JOINED_RECORDS_H

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/joined.h"

static inline void joined_add_memory(struct tug_fabric *fabric,
                                     struct tug_registration *registration, size_t bytes,
                                     int fill) {
    registration->base = malloc(bytes);
    assert_non_null(registration->base);
    memset(registration->base, fill, bytes);
    registration->bytes = bytes;
    assert_int_equal(tug_memory_add(&fabric->memory, registration), 0);
}

static inline void joined_free_streams(struct tug_stream *streams[2], struct tug_wire *wire) {
    for (int i = 0; i < 2; i++) {
        if (streams[i] != NULL && streams[i]->requests != NULL)
            tug_pool_give(&wire->pool, streams[i]->requests);
        free(streams[i]);
    }
}

/* All packets have come back to the pool. */
static inline void joined_close(struct tug_fabric *fabric, struct tug_wire *wire) {
    assert_int_equal(wire->pool.nout, 0);
    tug_pool_fini(&wire->pool);
    joined_end(fabric);
}

struct record {
    int completed, local, status;
};

static inline void on_complete(void *d, int status) {
    struct record *record = d;
    record->completed++;
    record->status = status;
}

static inline void on_local(void *d, int status) {
    struct record *record = d;
    (void)status;
    assert_int_equal(record->completed, 0);
    record->local++;
}

#endif

/* Applying a peer's request to this process's registered memory. Pure but for the memory: no MPI,
 * no engine. Nothing outside a registration is read or written, whatever the request says. */
#ifndef TUG_TRANSPORT_APPLY_H
#define TUG_TRANSPORT_APPLY_H

#include <stddef.h>
#include <stdint.h>

#include "transport/memory.h"
#include "transport/packets/packet.h"

/* What came of a request. */
struct tug_applied {
    int status;     /* 0 or TUG_ERR_KEY, TUG_ERR_RANGE, TUG_ERR_INVALID (an atomic's alignment) */
    uint64_t value; /* FETCH, COMPARE: the old value */
    const unsigned char *data; /* READ, LONG_WRITE: the memory asked for */
    uint64_t bytes;            /* bytes of that memory */
    struct tug_registration *registration;
};

/* record: a WRITE, READ, FETCH, COMPARE, SIGNAL or LONG_WRITE of a packet
 * that was found good. WRITE, FETCH, COMPARE and SIGNAL are done here; for the others the memory is
 * looked up. Holder only. */
struct tug_applied tug_apply(struct tug_memory_table *memory, const struct tug_record *record);

/* record: a RUN. Does those writes that it can, whatever is wrong with the others. 0, or what was
 * wrong with one of them: TUG_ERR_KEY, TUG_ERR_RANGE. Holder only. */
int tug_apply_run(struct tug_memory_table *memory, const struct tug_record *record);

/* record: the like of a RUN, of which distances alone are data. Reads at each, and stores what it
 * has read one behind the other: all, or nothing that counts. 0, TUG_ERR_KEY, TUG_ERR_RANGE. Holder
 * only. */
int tug_apply_read_run(struct tug_memory_table *memory, const struct tug_record *record,
                       unsigned char *to);

#endif

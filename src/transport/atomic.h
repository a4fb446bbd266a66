/* Atomics on integers of 4 and 8 bytes that other processes and peers' requests use too: the CPU's,
 * sequentially consistent. Callers have checked width and alignment. */
#ifndef TUG_TRANSPORT_ATOMIC_H
#define TUG_TRANSPORT_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "tugboat/llcl.h"

#define TUG_ATOMIC_FETCH(Type)                                                                     \
    static inline Type tug_atomic_fetch_##Type(void *address, unsigned op, Type operand) {         \
        Type _Atomic *target = address;                                                            \
        switch (op) {                                                                              \
        case TUG_ADD:                                                                              \
            return atomic_fetch_add(target, operand);                                              \
        case TUG_AND:                                                                              \
            return atomic_fetch_and(target, operand);                                              \
        case TUG_OR:                                                                               \
            return atomic_fetch_or(target, operand);                                               \
        case TUG_XOR:                                                                              \
            return atomic_fetch_xor(target, operand);                                              \
        default:                                                                                   \
            return atomic_exchange(target, operand);                                               \
        }                                                                                          \
    }
TUG_ATOMIC_FETCH(uint32_t)
TUG_ATOMIC_FETCH(uint64_t)
#undef TUG_ATOMIC_FETCH

/* Returns the old value. */
static inline uint64_t tug_atomic_fetch(void *address, unsigned width, unsigned op,
                                        uint64_t operand) {
    if (width == 8)
        return tug_atomic_fetch_uint64_t(address, op, operand);
    return tug_atomic_fetch_uint32_t(address, op, (uint32_t)operand);
}

static inline uint64_t tug_atomic_compare(void *address, unsigned width, uint64_t expected,
                                          uint64_t desired) {
    if (width == 8) {
        (void)atomic_compare_exchange_strong((uint64_t _Atomic *)address, &expected, desired);
        return expected;
    }
    uint32_t narrow = (uint32_t)expected;
    (void)atomic_compare_exchange_strong((uint32_t _Atomic *)address, &narrow, (uint32_t)desired);
    return narrow;
}

/* Stores the lowest `width` bytes of a value. */
static inline void tug_atomic_result(void *address, unsigned width, uint64_t value) {
    uint32_t narrow = (uint32_t)value;
    if (width == 8)
        memcpy(address, &value, 8);
    else
        memcpy(address, &narrow, 4);
}

#endif

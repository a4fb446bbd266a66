/* What the fuzz target and its seeds agree about: the process that the packets come to. */
#ifndef TUG_FUZZ_WORLD_H
#define TUG_FUZZ_WORLD_H

#include <stdint.h>

#define WORLD_CONTEXT UINT64_C(0x5eed0f7469626f61)
#define WORLD_RANKS 5

/* Registrations by index; all have generation 1. The last one has ended. */
#define WORLD_REGISTRATIONS 4
static const uint32_t world_bytes[WORLD_REGISTRATIONS] = {8, 100, 4096, 64};

static inline uint64_t world_id(uint32_t index) {
    return UINT64_C(1) << 32 | index;
}

#endif

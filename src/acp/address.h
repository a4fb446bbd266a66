/* The bits of a global address, drawn in <acp.h>, and of a registration's key.
 *
 * A key (acp_atkey_t) is the GA of the registration's first byte with a generation where the offset
 * would be, so that a key that has ended is known from the next one of the same number:
 *
 *        63              43 42   41        34 33                                0
 *       +------------------+---+------------+-----------------------------------+
 *       | rank + 1         | c | number     | generation                        |
 *       +------------------+---+------------+-----------------------------------+
 *
 * Pure; any thread.
 */
#ifndef TUG_ACP_ADDRESS_H
#define TUG_ACP_ADDRESS_H

#include <acp.h>
#include <stdint.h>

#ifndef TUG_ACP_KEY_BITS
#define TUG_ACP_KEY_BITS 8
#endif
#ifndef TUG_ACP_OFFSET_BITS
#define TUG_ACP_OFFSET_BITS 34
#endif
#define TUG_ACP_COLOR_BITS 1
#define TUG_ACP_COLORS (1u << TUG_ACP_COLOR_BITS)
#define TUG_ACP_RANK_SHIFT (TUG_ACP_OFFSET_BITS + TUG_ACP_KEY_BITS + TUG_ACP_COLOR_BITS)
#define TUG_ACP_RANK_BITS (64 - TUG_ACP_RANK_SHIFT)

_Static_assert(TUG_ACP_KEY_BITS >= 1 && TUG_ACP_KEY_BITS <= 16, "16 bits of keys are enough");
_Static_assert(TUG_ACP_OFFSET_BITS >= 32, "a generation takes the place of an offset");
_Static_assert(TUG_ACP_RANK_BITS >= 8 && TUG_ACP_RANK_BITS <= 31, "ranks are ints");

#define TUG_ACP_KEYS (1u << TUG_ACP_KEY_BITS)
#define TUG_ACP_OFFSETS                                                                            \
    (UINT64_C(1) << TUG_ACP_OFFSET_BITS) /* bytes of a registration, at most                       \
                                          */
#define TUG_ACP_RANKS ((UINT32_C(1) << TUG_ACP_RANK_BITS) - 1)
#define TUG_ACP_NO_RANK UINT32_MAX

static inline acp_ga_t tug_acp_ga(uint32_t rank, uint32_t color, uint32_t number, uint64_t offset) {
    return ((uint64_t)rank + 1) << TUG_ACP_RANK_SHIFT |
           (uint64_t)color << (TUG_ACP_RANK_SHIFT - TUG_ACP_COLOR_BITS) |
           (uint64_t)number << TUG_ACP_OFFSET_BITS | offset;
}

/* TUG_ACP_NO_RANK for ACP_GA_NULL. */
static inline uint32_t tug_acp_ga_rank(acp_ga_t ga) {
    return (uint32_t)(ga >> TUG_ACP_RANK_SHIFT) - 1;
}

static inline uint32_t tug_acp_ga_color(acp_ga_t ga) {
    return ga >> (TUG_ACP_RANK_SHIFT - TUG_ACP_COLOR_BITS) & 1;
}

static inline uint32_t tug_acp_ga_number(acp_ga_t ga) {
    return ga >> TUG_ACP_OFFSET_BITS & (TUG_ACP_KEYS - 1);
}

static inline uint64_t tug_acp_ga_offset(acp_ga_t ga) {
    return ga & (TUG_ACP_OFFSETS - 1);
}

/* The GA of the first byte of the same registration. */
static inline acp_ga_t tug_acp_ga_base(acp_ga_t ga) {
    return ga & ~(TUG_ACP_OFFSETS - 1);
}

#endif

/* Division by a number that is known long before: a shift where it is a power of two, otherwise a
 * multiplication and a shift.
 *
 * For dividends n < 2^63 and a divisor d, 2^(k-1) < d < 2^k, let m = ceil(2^(63+k) / d). Then
 *
 *     floor(n / d) = floor(m * n / 2^(63+k)) = high64(m * n) >> (k - 1),
 *
 * where high64 is the upper half of the product of 128 bits. Why: m * d = 2^(63+k) + e with
 * 0 <= e < d, so m * n / 2^(63+k) = n / d + e * n / (d * 2^(63+k)), and the second term is positive
 * or zero and less than n / 2^(63+k) < 2^-k < 1 / d. n / d lies at least 1 / d below the next
 * integer, so both have the same floor. m fits: 2^(63+k) / d < 2^64 as d > 2^(k-1), and m is not
 * 2^64 for d < 2^62 (2^(63+k) / d <= 2^64 / (1 + 2^(1-k)) < 2^64 - 1).
 *
 * After Granlund and Montgomery, "Division by invariant integers using multiplication" (PLDI 1994),
 * theorem 4.2. One bit of the dividend is given up, so that m needs no bit more than a word has and
 * no correction follows. A branch chooses between both ways: programs use one kind of array at a
 * time, and a shift that is predicted takes less than the product.
 *
 * Threading: a divisor does not change.
 */
#ifndef TUG_BASE_DIVIDE_H
#define TUG_BASE_DIVIDE_H

#include <stdint.h>

struct tug_divisor {
    uint64_t divisor;
    uint64_t multiplier; /* m; 0: the divisor is a power of two */
    unsigned shift;      /* of the dividend, or of the product's upper half */
};

struct tug_division {
    uint64_t quotient, rest;
};

/* divisor: from 1 to 2^62. */
static inline struct tug_divisor tug_divisor(uint64_t divisor) {
    if ((divisor & (divisor - 1)) == 0)
        return (struct tug_divisor){.divisor = divisor,
                                    .shift = (unsigned)__builtin_ctzll(divisor)};
    const unsigned k = 64 - (unsigned)__builtin_clzll(divisor);
    const unsigned __int128 power = (unsigned __int128)1 << (63 + k);
    return (struct tug_divisor){
        .divisor = divisor, .multiplier = (uint64_t)((power - 1) / divisor) + 1, .shift = k - 1};
}

/* dividend: below 2^63. */
static inline struct tug_division tug_divide(const struct tug_divisor *by, uint64_t dividend) {
    if (__builtin_expect(by->multiplier == 0, 1))
        return (struct tug_division){dividend >> by->shift, dividend & (by->divisor - 1)};
    const unsigned __int128 product = (unsigned __int128)by->multiplier * dividend;
    const uint64_t quotient = (uint64_t)(product >> 64) >> by->shift;
    return (struct tug_division){quotient, dividend - quotient * by->divisor};
}

#endif

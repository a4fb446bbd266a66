/*
 * What the figures of `tugboat compare` mean. See compare.h.
 */
#include <math.h>
#include <stdlib.h>

#include "cmd/compare.h"

#define LEAST_SHARE 0.01 /* a smaller change is noise */

static int order(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* How many values may be left away at either end, so that the median is still between the rest in
 * 95 of 100 cases: it is not if less than so many fall on one side of it, each with a chance of one
 * half. */
static int trimmed(int n) {
    double chance = ldexp(1, -n), outside = 2 * chance;
    int k = 0;
    while (k < n / 2 && outside + 2 * chance * (n - k) / (k + 1) <= 0.05) {
        chance *= (double)(n - k) / (k + 1);
        outside += 2 * chance;
        k++;
    }
    return k;
}

struct tug_interval tug_interval_of(double values[], int n) {
    qsort(values, (size_t)n, sizeof *values, order);
    const int k = trimmed(n);
    return (struct tug_interval){.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
                                 .low = values[k],
                                 .high = values[n - 1 - k]};
}

static double share(double with, double without) {
    return without > 0 ? with / without - 1 : 0;
}

void tug_change_judge(struct tug_change *change) {
    const struct tug_interval *without = &change->sides[TUG_WITHOUT];
    const struct tug_interval *with = &change->sides[TUG_WITH];
    change->share = share(with->median, without->median);
    change->low = share(with->low, without->high);
    change->high = share(with->high, without->low);
    if (fabs(change->share) < LEAST_SHARE ||
        (with->low <= without->high && without->low <= with->high))
        change->outcome = TUG_SAME;
    else
        change->outcome = change->share < 0 ? TUG_LESS : TUG_MORE;
}

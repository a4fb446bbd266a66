/* Is it worth posting what waits as one chain? 8-byte writes to one peer, in bursts, posted by one
 * call for a burst and one by one, alternating in one run; medians, and their ratio. Writes to
 * consecutive places also become fewer requests; those to scattered places show the doorbells
 * alone.
 *
 * Usage: post_batch [BAR]: fails when the ratio is below the bar for bursts of 64 to consecutive
 * places. On Soft-RoCE in
 * an emulated machine the rates say nothing of hardware; the ratio says what a doorbell costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fake.h"

#define ROUNDS 5
#define WRITES 1024 /* in a round */

static struct tug_registration *target;
static unsigned char memory[WRITES * 16] __attribute__((aligned(64)));

/* One round; nanoseconds a write. */
static double measure(bool aggregate, unsigned burst, unsigned stride, unsigned seed) {
    tug_settings.aggregate = aggregate;
    const uint64_t before = tug_clock_ns();
    for (unsigned first = 0; first < WRITES; first += burst) {
        for (unsigned i = first; i < first + burst; i++) {
            struct tug_operation *operation = fake_operation(&fakes[0], 1, TUG_OPERATION_WRITE,
                                                             target, i * stride, NULL, 0, 8, NULL);
            memcpy(operation->data, &(uint64_t){seed + i}, 8);
            fake_post(&fakes[0], operation);
        }
        fake_flush(&fakes[0]);
        while (fake_busy(fakes[0].view))
            tug_transport_verbs.poll(fakes[0].view);
    }
    const double ns = (double)(tug_clock_ns() - before) / WRITES;
    for (unsigned i = 0; i < WRITES; i++) {
        if (memcmp(memory + i * stride, &(uint64_t){seed + i}, 8) != 0) {
            fprintf(stderr, "write %u did not arrive\n", i);
            exit(1);
        }
    }
    return ns;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

/* The ratio for the longest bursts. */
static double table(const char *places, unsigned stride) {
    double ratio = 0;
    for (unsigned burst = 1; burst <= 64; burst *= 4) {
        double single[ROUNDS], chain[ROUNDS];
        for (unsigned i = 0; i < ROUNDS; i++) {
            single[i] = measure(false, burst, stride, i * 2 * WRITES + burst);
            chain[i] = measure(true, burst, stride, (i * 2 + 1) * WRITES + burst);
        }
        const double one = median(single), many = median(chain);
        ratio = one / many;
        printf("%-12s %7u %17.0f %15.0f %7.2f\n", places, burst, one, many, ratio);
    }
    return ratio;
}

int main(int argc, char **argv) {
    const double bar = argc > 1 ? strtod(argv[1], NULL) : 0;
    fake_open();
    target = fake_register(&fakes[1], memory, sizeof memory);
    struct fake_end end;
    fake_post(&fakes[0],
              fake_operation(&fakes[0], 1, TUG_OPERATION_WRITE, target, 0, NULL, 0, 8, &end));
    if (!fake_finish(60) || end.status != 0)
        return 1;
    printf("# 8-byte writes on %s, medians of %d rounds of %d\n", fakes[0].verbs->device.name,
           ROUNDS, WRITES);
    printf("# places       burst   one by one (ns)   by chain (ns)   ratio\n");
    table("scattered", 16);
    const double ratio = table("consecutive", 8);
    fake_deregister(&fakes[1], target);
    fake_close();
    if (ratio < bar) {
        printf("below the bar of %.2f\n", bar);
        return 1;
    }
    return 0;
}

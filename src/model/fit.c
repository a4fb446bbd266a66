#include "model/fit.h"

#include <stdbool.h>
#include <string.h>

/* A term that is left with less than this share of what it had is told by the others already. */
#define DEPENDENT 1e-9

enum { LATENCY, OVERHEAD, GAP, BYTE };

/* The normal equations of the terms in use, each observation weighed by what it took. */
struct equations {
    double matrix[TUG_FIT_TERMS][TUG_FIT_TERMS];
    double right[TUG_FIT_TERMS];
};

static struct equations equations_of(const struct tug_observation *observations, size_t count) {
    struct equations e = {0};
    for (size_t i = 0; i < count; i++)
        for (int r = 0; r < TUG_FIT_TERMS; r++) {
            double weighed = observations[i].terms[r] / observations[i].seconds;
            e.right[r] += weighed;
            for (int c = 0; c < TUG_FIT_TERMS; c++)
                e.matrix[r][c] += weighed * observations[i].terms[c] / observations[i].seconds;
        }
    return e;
}

/* Solves for the terms in use; the others are 0. The matrix is symmetric and not negative, so the
 * diagonal serves as pivot; scaled to ones on it, for terms differ by ten orders of magnitude. */
static void solve(const struct equations *equations, const bool used[TUG_FIT_TERMS],
                  double values[TUG_FIT_TERMS]) {
    double a[TUG_FIT_TERMS][TUG_FIT_TERMS + 1] = {0};
    bool solved[TUG_FIT_TERMS] = {false};
    for (int r = 0; r < TUG_FIT_TERMS; r++) {
        if (!used[r] || equations->matrix[r][r] <= 0)
            continue;
        for (int c = 0; c < TUG_FIT_TERMS; c++)
            a[r][c] = used[c] ? equations->matrix[r][c] / equations->matrix[r][r] : 0;
        a[r][TUG_FIT_TERMS] = equations->right[r] / equations->matrix[r][r];
    }
    for (int p = 0; p < TUG_FIT_TERMS; p++) {
        solved[p] = used[p] && a[p][p] > DEPENDENT;
        for (int r = 0; r < TUG_FIT_TERMS && solved[p]; r++) {
            double share = a[r][p] / a[p][p];
            for (int c = p; c <= TUG_FIT_TERMS && r != p; c++)
                a[r][c] -= share * a[p][c];
        }
    }
    for (int r = 0; r < TUG_FIT_TERMS; r++)
        values[r] = solved[r] ? a[r][TUG_FIT_TERMS] / a[r][r] : 0;
}

static double mean_square(const struct tug_observation *observations, size_t count,
                          const double values[TUG_FIT_TERMS]) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double told = 0;
        for (int t = 0; t < TUG_FIT_TERMS; t++)
            told += observations[i].terms[t] * values[t];
        double error = told / observations[i].seconds - 1;
        sum += error * error;
    }
    return count > 0 ? sum / (double)count : 0;
}

static double root_of(double square) {
    if (square <= 0)
        return 0;
    double root = square > 1 ? square : 1;
    for (int i = 0; i < 64; i++)
        root = (root + square / root) / 2;
    return root;
}

/* There are few terms: every set of them is tried, and the best fit without a negative one is it.
 */
void tug_fit(const struct tug_observation *observations, size_t count, double values[TUG_FIT_TERMS],
             double *error) {
    struct equations equations = equations_of(observations, count);
    double best = -1;
    memset(values, 0, TUG_FIT_TERMS * sizeof(*values));
    for (unsigned set = 0; set < 1u << TUG_FIT_TERMS; set++) {
        bool used[TUG_FIT_TERMS];
        double tried[TUG_FIT_TERMS];
        bool good = true;
        for (int t = 0; t < TUG_FIT_TERMS; t++)
            used[t] = set >> t & 1;
        solve(&equations, used, tried);
        for (int t = 0; t < TUG_FIT_TERMS; t++)
            good = good && tried[t] >= 0;
        double square = mean_square(observations, count, tried);
        if (!good || (best >= 0 && square >= best))
            continue;
        best = square;
        memcpy(values, tried, TUG_FIT_TERMS * sizeof(*values));
    }
    if (error != NULL)
        *error = root_of(best);
}

struct tug_observation tug_observe_trip(uint64_t bytes, double seconds) {
    return (struct tug_observation){
        .terms = {[LATENCY] = 1, [OVERHEAD] = 2, [BYTE] = (double)bytes}, .seconds = seconds};
}

struct tug_observation tug_observe_stream(uint64_t bytes, double seconds) {
    return (struct tug_observation){.terms = {[GAP] = 1, [BYTE] = (double)bytes},
                                    .seconds = seconds};
}

struct tug_observation tug_observe_overhead(double seconds) {
    return (struct tug_observation){.terms = {[OVERHEAD] = 1}, .seconds = seconds};
}

double tug_fit_loggp(const struct tug_observation *observations, size_t count,
                     struct tug_loggp *loggp) {
    double values[TUG_FIT_TERMS];
    double error;
    tug_fit(observations, count, values, &error);
    *loggp = (struct tug_loggp){.latency_s = values[LATENCY],
                                .overhead_s = values[OVERHEAD],
                                .gap_s = values[GAP],
                                .byte_s = values[BYTE]};
    return error;
}

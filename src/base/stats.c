/*
 * The counters and the two ways to print them. See stats.h.
 */
#include "base/stats.h"

#include <inttypes.h>

#include "tugboat/tugboat.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

bool tug_stats_on;
_Alignas(64) _Atomic uint64_t tug_stat_values[TUG_STAT_COUNT];

struct call_class {
    const char *name;
    enum tug_stat taken, passed;
};

struct engine_counter {
    const char *name;
    const char *help;
    enum tug_stat stat;
};

#define CLASS_ROW(NAME, name) {name, TUG_STAT_##NAME##_TAKEN, TUG_STAT_##NAME##_PASSED},
static const struct call_class classes[] = {TUG_STAT_CLASSES(CLASS_ROW)};

#define ENGINE_ROW(NAME, name, help) {name, help, TUG_STAT_##NAME},
static const struct engine_counter engine_counters[] = {TUG_STAT_ENGINE(ENGINE_ROW)};

void tug_stats_snapshot(uint64_t out[]) {
    for (int i = 0; i < TUG_STAT_COUNT; i++)
        out[i] = atomic_load_explicit(&tug_stat_values[i], memory_order_relaxed);
}

/* A high-water mark has no meaningful sum. */
static uint64_t over_ranks(const struct engine_counter *counter, const uint64_t sum[],
                           const uint64_t max[]) {
    return counter->stat == TUG_STAT_RING_HIGH_WATER ? max[counter->stat] : sum[counter->stat];
}

void tug_stats_print(FILE *out, const uint64_t sum[], const uint64_t max[], int nranks) {
    fprintf(out, "tugboat %s statistics, %d rank%s\n", tug_version(), nranks,
            nranks == 1 ? "" : "s");
    fprintf(out, "  %-18s %14s %14s %16s\n", "calls", "taken", "passed", "most by a rank");
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        const struct call_class *class = &classes[i];
        if (sum[class->taken] == 0 && sum[class->passed] == 0)
            continue;
        fprintf(out, "  %-18s %14" PRIu64 " %14" PRIu64 " %16" PRIu64 "\n", class->name,
                sum[class->taken], sum[class->passed], max[class->taken]);
    }
    fprintf(out, "  %-18s %14s\n", "engine", "count");
    for (size_t i = 0; i < COUNT_OF(engine_counters); i++) {
        const struct engine_counter *counter = &engine_counters[i];
        fprintf(out, "  %-18s %14" PRIu64 "   %s\n", counter->name, over_ranks(counter, sum, max),
                counter->help);
    }
    fflush(out);
}

void tug_stats_print_json(FILE *out, const uint64_t sum[], const uint64_t max[], int nranks) {
    fprintf(out, "{\n  \"tugboat\": \"%s\",\n  \"ranks\": %d,\n  \"calls\": {\n", tug_version(),
            nranks);
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        const struct call_class *class = &classes[i];
        fprintf(out,
                "    \"%s\": {\"taken\": %" PRIu64 ", \"passed\": %" PRIu64
                ", \"max_taken\": %" PRIu64 ", \"max_passed\": %" PRIu64 "}%s\n",
                class->name, sum[class->taken], sum[class->passed], max[class->taken],
                max[class->passed], i + 1 < COUNT_OF(classes) ? "," : "");
    }
    fprintf(out, "  },\n  \"engine\": {\n");
    for (size_t i = 0; i < COUNT_OF(engine_counters); i++) {
        const struct engine_counter *counter = &engine_counters[i];
        fprintf(out, "    \"%s\": %" PRIu64 "%s\n", counter->name, over_ranks(counter, sum, max),
                i + 1 < COUNT_OF(engine_counters) ? "," : "");
    }
    fprintf(out, "  }\n}\n");
    fflush(out);
}

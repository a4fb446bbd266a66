/* What the engine's hot paths cost (Google Benchmark): enqueue alone and against other producers,
 * end to end, free tags, the low-load bypass, calls, drains, waking a sleeping offload thread,
 * locks.
 *
 * All times are manual: the loops are in C and time themselves, so neither the benchmark's
 * own loop nor a call across languages is in them. Reported per command. check.sh compares the
 * medians with the project's bars.
 */
#include <benchmark/benchmark.h>

#include <vector>

#include "engine_c.h"

namespace {

constexpr uint64_t kLoop = 200000;

void Loop(benchmark::State &state, double (*loop)(uint64_t)) {
    for (auto _ : state)
        state.SetIterationTime(loop(kLoop) / 1e9 / kLoop);
}

/* The enqueue's cost while `producers` threads and a consumer are at it. */
void Enqueue(benchmark::State &state) {
    const auto producers = static_cast<unsigned>(state.range(0));
    for (auto _ : state) {
        bench_round round;
        bench_engine_produce(producers, 0, 2 * kLoop / producers, &round);
        state.SetIterationTime(round.enqueue_ns / 1e9);
    }
}

/* From the first enqueue to the last execution, per command. */
void EndToEnd(benchmark::State &state, int direct) {
    const auto producers = static_cast<unsigned>(state.range(0));
    for (auto _ : state) {
        bench_round round;
        bench_engine_produce(producers, direct, 4 * kLoop / producers, &round);
        state.SetIterationTime(round.total_ns / 1e9 / static_cast<double>(round.commands));
    }
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations())); // commands a second
}

/* A turn with the mutex, while as many threads want it. */
void Mutex(benchmark::State &state) {
    const auto threads = static_cast<unsigned>(state.range(0));
    for (auto _ : state)
        state.SetIterationTime(bench_mutex_threads(threads, kLoop) / 1e9 / kLoop);
}

void Wake(benchmark::State &state) {
    std::vector<double> sample(1);
    for (auto _ : state) {
        bench_engine_wake(1, sample.data());
        state.SetIterationTime(sample[0] / 1e6);
    }
}

} // namespace

BENCHMARK_CAPTURE(Loop, ring_enqueue, bench_ring_enqueue)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, ring_dequeue, bench_ring_dequeue)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, tags_take_give, bench_tags_take_give)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, rwlock_shared, bench_rwlock_shared)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, rwlock_exclusive, bench_rwlock_exclusive)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, mutex, bench_mutex)->UseManualTime()->Iterations(10);
BENCHMARK(Mutex)->Arg(2)->Arg(4)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, engine_bypass, bench_engine_bypass)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, engine_call, bench_engine_call)->UseManualTime()->Iterations(10);
BENCHMARK_CAPTURE(Loop, engine_drain_idle, bench_engine_drain_idle)
    ->UseManualTime()
    ->Iterations(10);
BENCHMARK(Enqueue)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(16)->UseManualTime()->Iterations(3);
BENCHMARK_CAPTURE(EndToEnd, thread, 0)->Arg(1)->Arg(2)->Arg(4)->UseManualTime()->Iterations(3);
BENCHMARK_CAPTURE(EndToEnd, auto, 1) -> Arg(1) -> Arg(2) -> Arg(4) -> UseManualTime()
    -> Iterations(3);
BENCHMARK(Wake)->UseManualTime()->Iterations(10)->Unit(benchmark::kMicrosecond);

BENCHMARK_MAIN();

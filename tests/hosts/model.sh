# For cluster.sh: what the model and the simulator say of broadcasts against what they take, and whether the model's first
# choice is good. Sourced; uses run(), $build, $hosts, $ranks, $limit and $work.
# shellcheck shell=bash disable=SC2154

# What a job takes depends on what it happens to be given (cores, pages, the calibration): between jobs medians differ twice
# as much as between the halves of one.
model_jobs=3

# Reads the lines of tests/mpi/ways.c of several jobs; the first way of each size is what the model of that job chose. What a way
# takes is the median of the jobs' medians. The fastest is that of the even turns, and each choice is compared with it by the
# odd ones. The spread is what one of the two differs by between these halves.
model_table() {
    awk '
        function error(is, was) { return is > was ? is / was : was / is }
        function middle(list, n,    i, j, held) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && list[j] < list[j - 1]; j--) { held = list[j]; list[j] = list[j - 1]; list[j - 1] = held }
            return list[int((n + 1) / 2)]
        }
        # Of the jobs, what a way takes by the turns of one half.
        function took(half, size, way,    i, list) {
            for (i = 1; i <= jobs[size, way]; i++) list[i] = us[half, size, way, i]
            return middle(list, jobs[size, way])
        }
        function row(size, way, made,    taken, spread) {
            taken = took("odd", size, way)
            spread = error(took("even", size, way), taken)
            spread = spread > spread_best ? spread : spread_best
            printf "%9d %5d  %-20s %6s %9.1f  %-20s %9.1f  x%5.2f  x%5.2f  off x%5.2f off x%5.2f\n", size, nways[size], way,
                made " of " njobs, taken, best, best_us, taken / best_us, spread, off_predicted, off_simulated
            all += made
            if (taken <= 1.1 * best_us) good += made
            if (taken <= (spread > 1.1 ? spread : 1.1) * best_us) fair += made
        }
        $1 == "ways:" { njobs++ }
        $1 == "way" {
            size = $4; way = $5 ", " $6
            if (!(size in lines)) sizes[++nsizes] = size
            if (!((size, way) in jobs)) ways[size, ++nways[size]] = way
            if (size != before) choices[size, way]++
            before = size
            us["even", size, way, ++jobs[size, way]] = $11
            us["odd", size, way, jobs[size, way]] = $12
            predicted[size, ++lines[size]] = error($8, $10)
            simulated[size, lines[size]] = error($9, $10)
        }
        END {
            printf "%9s %5s  %-20s %6s %9s  %-20s %9s  %6s  %6s  %9s %9s\n", "bytes", "ways", "chosen", "jobs", "us",
                "fastest", "us", "chosen", "spread", "predicted", "simulated"
            for (s = 1; s <= nsizes; s++) {
                size = sizes[s]
                for (i = 1; i <= lines[size]; i++) { p[i] = predicted[size, i]; q[i] = simulated[size, i] }
                off_predicted = middle(p, lines[size])
                off_simulated = middle(q, lines[size])
                best = ways[size, 1]
                for (w = 2; w <= nways[size]; w++)
                    if (took("even", size, ways[size, w]) < took("even", size, best)) best = ways[size, w]
                best_us = took("odd", size, best)
                spread_best = error(took("even", size, best), best_us)
                for (w = 1; w <= nways[size]; w++)
                    if ((size, ways[size, w]) in choices) row(size, ways[size, w], choices[size, ways[size, w]])
            }
            printf "# the choice was within 10 %% of the fastest way in %d of %d (%d jobs, %d sizes)", good, all, njobs, nsizes
            printf ", or within the spread of the two in %d\n", fair
        }'
}

# 0 if all data were right: how good the model is depends on the machine, and is printed.
model() {
    local job
    : > "$work/ways"
    for ((job = 0; job < model_jobs; job++)); do
        # the library is linked into it
        preload=" " run "$build/tests/mpi/bin/mpi_ways" 0.4 4096 32768 262144 1048576 4194304 || {
            tail -n 8 "$work/out" >&2
            return 1
        }
        cat "$work/out" >> "$work/ways"
    done
    model_table < "$work/ways"
}

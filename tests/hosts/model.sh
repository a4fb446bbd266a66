# For cluster.sh: what the model and the simulator say of broadcasts against what they take, and whether the model's first
# choice is good. Sourced; uses run(), $build, $hosts, $ranks, $limit and $work.
# shellcheck shell=bash disable=SC2154

# Reads lines of tests/mpi/ways.c; the first way of each size is the model's choice. The fastest is that of the even turns,
# and both are compared by the odd ones. The spread is what one of the two differs by between these halves.
model_table() {
    awk '
        function error(is, was) { return is > was ? is / was : was / is }
        function middle(list, n,    i, j, held) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && list[j] < list[j - 1]; j--) { held = list[j]; list[j] = list[j - 1]; list[j - 1] = held }
            return list[int((n + 1) / 2)]
        }
        $1 == "way" {
            size = $4
            if (!(size in chosen)) {
                sizes[++nsizes] = size
                least[size] = $11; chosen[size] = best[size] = $12; name[size] = first[size] = $5 ", " $6
                off[size] = own[size] = error($11, $12)
            }
            if ($11 < least[size]) { least[size] = $11; best[size] = $12; name[size] = $5 ", " $6; off[size] = error($11, $12) }
            n[size]++
            predicted[size, n[size]] = error($8, $10)
            simulated[size, n[size]] = error($9, $10)
        }
        END {
            printf "%9s %5s  %-20s %9s  %-20s %9s  %6s  %6s  %9s %9s\n", "bytes", "ways", "chosen", "us", "fastest", "us", "chosen",
                "spread", "predicted", "simulated"
            for (s = 1; s <= nsizes; s++) {
                size = sizes[s]
                for (i = 1; i <= n[size]; i++) { p[i] = predicted[size, i]; q[i] = simulated[size, i] }
                spread = own[size] > off[size] ? own[size] : off[size]
                printf "%9d %5d  %-20s %9.1f  %-20s %9.1f  x%5.2f  x%5.2f  off x%5.2f off x%5.2f\n", size, n[size], first[size],
                    chosen[size], name[size], best[size], chosen[size] / best[size], spread, middle(p, n[size]), middle(q, n[size])
                good += chosen[size] <= 1.1 * best[size]
                fair += chosen[size] <= (spread > 1.1 ? spread : 1.1) * best[size]
            }
            printf "# the choice was within 10 %% of the fastest way in %d of %d sizes", good, nsizes
            printf ", or within the spread of the two in %d\n", fair
        }'
}

# 0 if all data were right: how good the model is depends on the machine, and is printed.
model() {
    # the library is linked into it
    preload=" " run "$build/tests/mpi/bin/mpi_ways" 1 4096 32768 262144 1048576 4194304 || {
        tail -n 8 "$work/out" >&2
        return 1
    }
    model_table < "$work/out"
}

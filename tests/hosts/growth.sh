# For cluster.sh: what a job's parts cost by the number of ranks. Sourced; uses run(), $build, $hosts and $work.
# shellcheck shell=bash disable=SC2154,SC2034

# growth MOST FOLDER: jobs of 8, 16, 32, ... MOST ranks. Leaves growth.csv and, where gnuplot is, growth.svg in the folder.
growth() {
    local most=$1 folder=$2 n failed=0 begin
    mkdir -p "$folder" || return 1
    echo 'ranks,nodes,part,ms,packets,host_messages,net_packets,net_bytes,connections,system_calls,kib' > "$folder/growth.csv"
    for ((n = 8; n <= most; n *= 2)); do
        nranks=$n # run()'s
        begin=$EPOCHREALTIME
        run "$build/tests/mpi/bin/mpi_growth"
        grep -E "^$n,[0-9]+,[a-z_]+," "$work/out" >> "$folder/growth.csv" # what there is of it, if it did not end
        if ! grep -q "^$n,.*,finalize," "$work/out"; then
            echo "$n ranks: FAILED"
            tail -n 8 "$work/out" | sed 's/^/    /'
            failed=1
            continue
        fi
        awk -v n="$n" -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d ranks: right, %.1f s\n", n, b - a }'
    done
    growth_table "$folder/growth.csv"
    if command -v gnuplot > /dev/null; then
        growth_draw "$folder/growth.csv" > "$folder/growth.svg" && echo "# drawn: $folder/growth.svg"
    fi
    echo "# figures: $folder/growth.csv"
    return $failed
}

# Milliseconds, and of each rank packets, bytes between nodes, sockets, system calls and KiB, by part and ranks.
growth_table() {
    local column
    for column in 4:ms 5:packets 6:host_messages 8:net_bytes 9:connections 10:system_calls 11:kib; do
        awk -F, -v c="${column%:*}" -v name="${column#*:}" '
            NR == 1 || $c == "" { next }
            !($1 in known) { known[$1] = 1; sizes[++nsizes] = $1 }
            !($3 in seen) { seen[$3] = 1; parts[++nparts] = $3 }
            { of[$3, $1] = $c }
            END {
                printf "\n%-16s", name
                for (i = 1; i <= nsizes; i++) printf "%11s", sizes[i]
                printf "\n"
                for (p = 1; p <= nparts; p++) {
                    printf "%-16s", parts[p]
                    for (i = 1; i <= nsizes; i++) printf "%11s", of[parts[p], sizes[i]]
                    printf "\n"
                }
            }' "$1"
    done
}

growth_draw() {
    gnuplot << GNUPLOT
set terminal svg size 900,700 dynamic background rgb 'white'
set datafile separator ','
set multiplot layout 2,2
set logscale xy 2
set xlabel 'ranks'
set key left top
of(part, column) = (strcol(3) eq part ? column : NaN)
set ylabel 'ms, slowest rank'
plot for [part in "init window_first window array acp_start finalize"] '$1' \
    using 1:(of(part, \$4)) with linespoints title part noenhanced
set ylabel 'KiB a rank'
plot for [part in "init window_first array acp_start"] '$1' using 1:(of(part, \$11)) with linespoints title part noenhanced
set ylabel 'packets a rank'
plot for [part in "fence flush window_free array_get"] '$1' using 1:(of(part, \$5)) with linespoints title part noenhanced
set ylabel 'bytes between nodes a rank'
plot for [part in "window_first fence flush broadcast array acp_start"] '$1' \
    using 1:(of(part, \$8)) with linespoints title part noenhanced
GNUPLOT
}

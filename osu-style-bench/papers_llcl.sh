# shellcheck shell=bash disable=SC2154
# papers_llcl.sh: the section of papers.sh on Endo and Taura's low-level layer, figures 2 to 7, and what holds of what they say.
#
# The measurements and the table of claims are those of llcl_columns.sh. llcl_counts.csv has what was handed to a card: reads (alone
# or many), caller or thread, threads, bytes, operations, work requests, doorbells, completions, packets.

# llcl_count READS DRIVER THREADS BYTES: what the counters say of such reads over the stand-in for a card (tests/verbs).
llcl_count() {
    local counted
    counted=$(timeout 300 "$here/../tests/mpi/run_mpi.sh" --mpiexec "$mpiexec" --ranks 2 --nodes card --card "$stand_in" \
        --env TUGBOAT_STATS=1 --env "${llcl_setting[$2]}" -- "$bench/llcl_reads" --csv --validate \
        --measure "$1" --ways "${llcl_way[$2]}" --threads "$3" --sizes "$4" --samples 1 --memory private \
        --seconds "$(by_effort 0.005 0.05 0.5)" 2>&1 | awk -v key="$1,$2,$3,$4" '
            /^# validation: all data right/ { right = 1 }
            { n[$1] = $2 }
            END { if (right) printf "%s,%d,%d,%d,%d,%d\n", key, n["operations"], n["verbs_requests"], n["verbs_doorbells"],
                n["verbs_completions"], n["packets"] }')
    if [ -z "$counted" ]; then
        echo "papers: no reads over the stand-in for a card: $*" >&2
        return 1
    fi
    echo "$counted"
}

llcl_counts() {
    local reads driver threads bytes
    echo reads,driver,threads,bytes,operations,requests,doorbells,completions,packets
    for reads in alone many; do
        for driver in caller thread; do
            for threads in 1 4; do
                for bytes in 8 65536; do llcl_count $reads $driver $threads $bytes; done
            done
        done
    done
}

# llcl_draw NAME WHAT COLUMN UNIT PAPER...: one panel for each way. PAPER: for the caller, the thread and the host what the
# paper prints of InfiniBand without offloading, with it, and of perftest.
llcl_draw() {
    local data=$out/data/llcl_$1.csv
    gnuplot <<GNUPLOT
set terminal svg size 1100,380 dynamic font 'sans-serif,13'
set output '$out/data/llcl_$1_$2.svg'
set datafile separator ','
set datafile missing NaN
set multiplot layout 1,3
set logscale x 2
set logscale y 10
set yrange [$(llcl_range "$data" "$3" "${@:5}")]
set format x '%.0b%B'
set format y '%g'
set xlabel 'bytes'
set ylabel '$4'
set key top left font ',10'
set grid
set bars small
paper = "$5 $6 $7"
do for [panel=1:3] {
    way = word('caller thread host', panel)
    set title way eq 'caller' ? 'the caller drives' : way eq 'thread' ? 'the offload thread drives' : 'no library: host MPI'
    plot for [t in '$(cut -d, -f3 "$data" | grep '[0-9]' | sort -nu | tr '\n' ' ')'] '$data' \\
        using (strcol(1) eq way && column(3) == t + 0 ? column(4) : NaN):(column($3)):(column($3 + 1)):(column($3 + 2)) skip 1 \\
        with yerrorlines pt 7 ps 0.4 title t.' threads', \\
        for [i=1:words(word(paper, panel))] real(word(paper, panel)) with lines dt 2 lc rgb 'black' title 'paper'
}
unset multiplot
GNUPLOT
}

# The smallest and the largest value of a column, and of the paper's, with room beside them.
llcl_range() { # DATA COLUMN PAPER...
    awk -F, -v column="$2" -v paper="${*:3}" '
        function see(value) {
            if (value > 0 && (low == "" || value < low)) low = value
            if (value > high) high = value
        }
        BEGIN { n = split(paper, values, " "); for (i = 1; i <= n; i++) see(values[i] + 0) }
        FNR > 1 { see($column + 0) }
        END { printf "%g:%g", low / 2, high * 2 }' "$1"
}

llcl_transport() { # NAME HEADING
    llcl_measure "$1"
    printf '<h3>Figures 2 to 7: %s</h3>\n' "$2"
    llcl_draw "$1" latency 5 'latency, microseconds' 3.31 3.67 4.03
    figure "llcl_$1_latency.svg" "Latency of a read. Dashed: the paper&#8217;s smallest over InfiniBand, without offloading, with it, and by perftest."
    llcl_draw "$1" overhead 8 'overhead, microseconds' 0.486 0.689 NaN
    figure "llcl_$1_overhead.svg" "Time inside the call that starts a read. Dashed: the paper&#8217;s smallest over InfiniBand, without offloading and with it."
    llcl_draw "$1" rate 11 'million reads/s' 10.2 11.8 NaN
    figure "llcl_$1_rate.svg" "Message rate. Dashed: the paper&#8217;s largest over InfiniBand, without offloading (1 thread, 2048 bytes) and with it (2 threads)."
}

llcl_card_counts() {
    llcl_counts >"$out/data/llcl_counts.csv"
    printf '<table>\n<tr><th>reads</th><th>drives</th><th>threads</th><th>bytes</th><th>work requests</th><th>doorbells</th><th>completions</th><th>packets</th></tr>\n'
    awk -F, 'FNR > 1 { printf "<tr><td>%s</td><td>%s</td><td>%d</td><td>%d</td><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>%.2f</td></tr>\n",
        $1, $2, $3, $4, $6 / $5, $7 / $5, $8 / $5, $9 / $5 }' "$out/data/llcl_counts.csv"
    printf '</table>\n<p>The same: for each read, what the card is given: alone (latency and overhead, figures 5 and 6), and many at once (rate,
figure 7). The data are checked. Not the same: the card is the stand-in of the tests, which does each request at once, so that no time is shown.</p>\n'
}

llcl_verbs() {
    if llcl_has_card; then
        llcl_transport verbs 'verbs'
    else
        printf '<h3>Figures 5 to 7: verbs</h3>\n<p>Times are not shown: this machine has no RDMA device.</p>\n'
    fi
    if [ -e "$stand_in/libibverbs.so.1" ]; then
        llcl_card_counts
    else
        printf '<p>Counts are not shown: the tests&#8217; stand-in for a card is not built (<code>./dev test</code> builds it).</p>\n'
    fi
}

llcl() {
    printf '<h2>Endo and Taura: a low-level layer for threads</h2>\n'
    rm -f "$out"/data/llcl_*.csv
    # shellcheck disable=SC2034 # for llcl_columns.sh
    {
        llcl_threads=$(by_effort 1,4 1,2,4,16 1,2,4,8,16) llcl_sizes=$(by_effort 8,4K 8,512,4K,64K 8,64,512,4K,64K)
        llcl_rounds=$(by_effort 1 5 8) llcl_samples=$(by_effort 2 3 4) llcl_seconds=$(by_effort 0.001 0.01 0.2)
    }
    llcl_transport shm 'shared memory'
    llcl_transport tcp 'TCP'
    llcl_verbs
    if llcl_has_two_cores; then llcl_measure bound; fi
    llcl_table 3
    printf '<p>The same: the two programs (one read and a wait; as many reads as possible), the sizes and threads, and
repeated runs (%s samples of each point here, 32 in the paper; bars show the lowest and the highest). Not the same: the paper has Tofu and InfiniBand, whose cards read the memory of
a target that takes no part, and 16 or 20 cores a node. Here both processes share %s cores, and the target&#8217;s engine answers each read, so that absolute times do
not compare. A sample is the median over all reads of all threads; the paper has means. With more threads than cores a mean would be
the length of a time slice, and there a thread that looks at a flag yields, as the comment in Listing 6 has it.</p>\n' "$((llcl_rounds * llcl_samples))" "$(nproc)"
}

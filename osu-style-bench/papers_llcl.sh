# shellcheck shell=bash disable=SC2154
# papers_llcl.sh: the section of papers.sh on Endo and Taura's low-level layer, figures 2 to 7.
#
# llcl_NAME.csv has the rows of llcl_reads: way, transport, threads, bytes, then each mean and half of its confidence
# interval: latency, overhead, rate. llcl_counts.csv has what was handed to a card: reads (alone or many), way, threads,
# bytes, operations, work requests, doorbells, completions, packets.

# llcl_rows NAME: with the library's threads and the host first, then without them.
llcl_rows() {
    local options=(--threads "$(by_effort 1,4 1,2,4,8,16 1,2,4,8,16)" --sizes "$(by_effort 8,4K 8,64,512,4K,64K 8,64,512,4K,64K)"
        --samples "$(by_effort 2 10 32)" --seconds "$(by_effort 0.001 0.01 1)" --memory private)
    rows 2 llcl_reads "${options[@]}" --ways engine,host | sed 's/key://g; s/lower://g'
    TUGBOAT_PROGRESS=caller rows 2 llcl_reads "${options[@]}" --ways queues | sed 1d
}

llcl_measure() { # NAME
    case $1 in
        shm) TUGBOAT_TRANSPORTS=self,shm,mpi llcl_rows shm ;;
        tcp) MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self llcl_rows tcp ;;
        verbs) MPIR_CVAR_NOLOCAL=1 TUGBOAT_TRANSPORTS=verbs,mpi llcl_rows verbs ;;
    esac >"$out/data/llcl_$1.csv"
}

# llcl_count READS WAY THREADS BYTES: what the counters say of such reads over the stand-in for a card (tests/verbs).
llcl_count() {
    local counted progress=auto
    if [ "$2" = queues ]; then progress=caller; fi
    counted=$(timeout 300 "$here/../tests/mpi/run_mpi.sh" --mpiexec "$mpiexec" --ranks 2 --nodes card --card "$stand_in" \
        --env TUGBOAT_STATS=1 --env TUGBOAT_PROGRESS=$progress -- "$bench/llcl_reads" --csv --validate \
        --measure "$1" --ways "$2" --threads "$3" --sizes "$4" --samples 1 --memory private \
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
    local reads way threads bytes
    echo reads,way,threads,bytes,operations,requests,doorbells,completions,packets
    for reads in alone many; do
        for way in engine queues; do
            for threads in 1 4; do
                for bytes in 8 65536; do llcl_count $reads $way $threads $bytes; done
            done
        done
    done
}

# llcl_draw NAME WHAT COLUMN UNIT PAPER...: one panel for each way. PAPER: for engine, queues and the host what the paper
# prints of InfiniBand (of perftest in place of a host), as a list of values.
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
    way = word('engine queues host', panel)
    set title way eq 'engine' ? 'with offload' : way eq 'queues' ? 'without offload' : 'host MPI'
    plot for [t in '$(cut -d, -f3 "$data" | grep '[0-9]' | sort -nu | tr '\n' ' ')'] '$data' \\
        using (strcol(1) eq way && column(3) == t + 0 ? column(4) : NaN):(column($3)):(column($3 + 1)) skip 1 \\
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

# llcl_claims NAME: who wins, by what, where curves cross. Where intervals overlap it is said.
llcl_claims() {
    awk -F, -f "$here/papers_llcl.awk" "$out/data/llcl_$1.csv"
}

llcl_transport() { # NAME HEADING
    llcl_measure "$1"
    printf '<h3>Figures 2 to 7: %s</h3>\n' "$2"
    llcl_draw "$1" latency 5 'latency, microseconds' 3.67 3.31 4.03
    figure "llcl_$1_latency.svg" "Latency of a read. Dashed: the paper&#8217;s smallest over InfiniBand, with offload, without, and by perftest."
    llcl_draw "$1" overhead 7 'overhead, microseconds' 0.689 0.486 NaN
    figure "llcl_$1_overhead.svg" "Time inside the call that starts a read. Dashed: the paper&#8217;s smallest over InfiniBand, with offload and without."
    llcl_draw "$1" rate 9 'million reads/s' 11.8 10.2 NaN
    figure "llcl_$1_rate.svg" "Message rate. Dashed: the paper&#8217;s largest over InfiniBand, with offload (2 threads) and without (1 thread, 2048 bytes)."
    printf '<ul>\n'
    llcl_claims "$1"
    printf '</ul>\n'
}

llcl_card_counts() {
    llcl_counts >"$out/data/llcl_counts.csv"
    printf '<table>\n<tr><th>reads</th><th>offload</th><th>threads</th><th>bytes</th><th>work requests</th><th>doorbells</th><th>completions</th><th>packets</th></tr>\n'
    awk -F, 'FNR > 1 { printf "<tr><td>%s</td><td>%s</td><td>%d</td><td>%d</td><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>%.2f</td></tr>\n",
        $1, $2 == "engine" ? "with" : "without", $3, $4, $6 / $5, $7 / $5, $8 / $5, $9 / $5 }' "$out/data/llcl_counts.csv"
    printf '</table>\n<p>The same: for each read, what the card is given: alone (latency and overhead, figures 5 and 6), and many at once (rate,
figure 7). The data are checked. Not the same: the card is the stand-in of the tests, which does each request at once, so that no time is shown.</p>\n'
}

llcl_verbs() {
    local transports
    transports=$("$tugboat" info | sed -n '/^transports/,/^digests/p')
    if grep -qw verbs <<<"$transports" && ! grep -qE '^  verbs +not ' <<<"$transports"; then
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
    llcl_transport shm 'shared memory'
    llcl_transport tcp 'TCP'
    llcl_verbs
    printf '<p>The same: the two programs (one read and a wait; as many reads as possible), the sizes and threads, and 95 %% confidence
intervals of repeated runs (%s here, 32 in the paper). With offload: all threads share a context, and the offload thread
takes part. Without: a context for each thread under a lock of its own, each thread polls, and the library has no thread of its
own (<code>TUGBOAT_PROGRESS=caller</code>). Not the same: the paper has Tofu and InfiniBand, whose cards read the memory of a target that takes no
part, and 16 or 20 cores a node. Here both processes share %s cores, and the target&#8217;s engine answers each read, so that absolute times do not
compare. A sample is the median over all reads of all threads; the paper has means. With more threads than cores a mean would be
the length of a time slice.</p>\n' "$(by_effort 2 10 32)" "$(nproc)"
}

# shellcheck shell=bash disable=SC2154
# papers_llcl.sh: the section of papers.sh on Endo and Taura's low-level layer, figures 2 to 7.
#
# llcl_NAME.csv has the rows of llcl_reads: way, transport, threads, bytes, then each mean and half of its confidence
# interval: latency, overhead, rate. llcl_verbs.csv has those of the virtual machine, with the bare program's times in place
# of the host's, and llcl_counts.csv what was handed to the card there: way, operations, work requests, doorbells, completions.

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
        verbs) llcl_verbs_rows ;;
    esac >"$out/data/llcl_$1.csv"
}

# llcl_base NAME: the way below the layer.
llcl_base() { if [ "$1" = verbs ]; then echo bare; else echo host; fi; }

# The same columns from the virtual machine. Of the bare program: a read alone, and a thread's reads in bursts.
llcl_verbs_rows() {
    echo way,transport,threads,bytes,latency_us,latency_ci,overhead_us,overhead_ci,rate_mops,rate_ci
    { verbs_log verbs.bench.reads && verbs_log verbs.bench.reads_queues; } | grep -E '^(engine|queues),'
    verbs_log verbs.bench.bare | awk '/^reads/ {
            if ($4 == 1) alone[$2] = $7
            else printf "bare,verbs,1,%d,%.3f,0,NaN,NaN,%.6f,0\n", $2, alone[$2] / 1e3, 1e3 / $7
        }'
}

llcl_verbs_counts() {
    local way
    echo way,operations,requests,doorbells,completions
    for way in reads:engine reads_queues:queues; do
        verbs_log verbs.bench.${way%:*} | awk -v way=${way#*:} '{ value[$1] = $2 }
            END { printf "%s,%d,%d,%d,%d\n", way, value["operations"], value["verbs_requests"], value["verbs_doorbells"],
                value["verbs_completions"] }'
    done
}

# llcl_draw NAME WHAT COLUMN UNIT PAPER...: one panel for each way. PAPER: for engine, queues and the one below what the
# paper prints of InfiniBand, as a list of values.
llcl_draw() {
    local data=$out/data/llcl_$1.csv npanels=3
    if [ "$1 $2" = 'verbs overhead' ]; then npanels=2; fi # the bare program has none
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
do for [panel=1:$npanels] {
    way = word('engine queues $(llcl_base "$1")', panel)
    set title way eq 'engine' ? 'with offload' : way eq 'queues' ? 'without offload' : way eq 'host' ? 'host MPI' : 'bare verbs'
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
    awk -F, -v base="$(llcl_base "$1")" -f "$here/papers_llcl.awk" "$out/data/llcl_$1.csv"
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

llcl_verbs() {
    local needed
    for needed in reads reads_queues bare; do
        if ! verbs_log verbs.bench.$needed >/dev/null; then
            printf '<h3>Figures 2 to 7: verbs</h3>\n'
            verbs_missing
            return
        fi
    done
    llcl_transport verbs 'verbs, in a virtual machine'
    llcl_verbs_counts >"$out/data/llcl_counts.csv"
    printf '<table>\n<tr><th>for each operation</th><th>work requests</th><th>doorbells</th><th>completions</th></tr>\n'
    awk -F, 'FNR > 1 { printf "<tr><td>%s offload</td><td>%.2f</td><td>%.2f</td><td>%.2f</td></tr>\n",
        $1 == "engine" ? "with" : "without", $3 / $2, $4 / $2, $5 / $2 }' "$out/data/llcl_counts.csv"
    printf '</table>\n<p>The same: reads by the card&#8217;s queues, with offload and without, against a program of libibverbs that posts the same reads
and waits for them (as perftest does). Not the same: the card is Soft-RoCE on an emulated processor, whose times say nothing of hardware;
ratios and counts hold. The bare program has both of its queues in one process and reads at 8 and at 65536 bytes only; its intervals
are not known, and count as none.</p>\n'
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

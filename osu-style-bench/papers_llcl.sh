# shellcheck shell=bash disable=SC2154
# papers_llcl.sh: the section of papers.sh on Endo and Taura's low-level layer, figures 2 to 7, and what holds of what they say.
#
# llcl_NAME_runs.csv has the rows of llcl_reads, with what drives in front: caller, thread or host. Each of these has
# runs of its own, by turns. llcl_NAME.csv has their medians (papers_llcl.awk).
# llcl_counts.csv has what was handed to a card: reads (alone or many), caller or thread, threads, bytes,
# operations, work requests, doorbells, completions, packets.

# Where the caller drives, it waits in the library. Where the thread does, the program looks at a flag. The host has no library.
declare -A llcl_way=([caller]=wait [thread]=flag [host]=host)
declare -A llcl_setting=([caller]=TUGBOAT_PROGRESS=caller [thread]=TUGBOAT_PROGRESS=thread [host]=TUGBOAT=off)

# llcl_once DRIVER OPTION...: one run.
llcl_once() (
    export "${llcl_setting[$1]}"
    rows 2 llcl_reads --ways "${llcl_way[$1]}" "${@:2}"
)

# The first two cores of this script. The calling thread has the first, the offload thread and the target's rank the other. Over the
# stand-in for a card the target's rank takes no part in reads, so that the offload thread has its core for itself.
llcl_cores() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done |
        head -n 2
}
llcl_once_bound() {
    local program=("$bench/llcl_reads" --csv --ways "${llcl_way[$1]}" "${@:2}") mine other
    { read -r mine && read -r other; } < <(llcl_cores)
    timeout 300 "$here/../tests/mpi/run_mpi.sh" --mpiexec "$mpiexec" --ranks 1 --nodes card --card "$stand_in" \
        --env "${llcl_setting[$1]}" --env TUGBOAT_AFFINITY="$other" -- "$(command -v taskset)" -c "$mine" "${program[@]}" : \
        -n 1 taskset -c "$other" "${program[@]}" 2>/dev/null | grep -E '^(way|wait|flag|host),'
}

# llcl_runs ONCE OPTION...: rounds of one run for each driver, which take turns in being the first.
llcl_runs() {
    local round drivers=(caller thread host) driver
    for ((round = 0; round < $(by_effort 1 5 8); round++)); do
        for driver in "${drivers[@]}"; do
            "$1" "$driver" --samples "$(by_effort 2 3 4)" --seconds "$(by_effort 0.001 0.01 1)" --memory private "${@:2}" | sed "s/^/$driver,/"
        done
        drivers=("${drivers[@]:1}" "${drivers[0]}")
    done
}

llcl_measure() { # NAME
    local options=(--threads "$(by_effort 1,4 1,2,4,16 1,2,4,8,16)" --sizes "$(by_effort 8,4K 8,512,4K,64K 8,64,512,4K,64K)")
    case $1 in
        shm) TUGBOAT_TRANSPORTS=self,shm,mpi llcl_runs llcl_once "${options[@]}" ;;
        tcp) MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self llcl_runs llcl_once "${options[@]}" ;;
        verbs) MPIR_CVAR_NOLOCAL=1 TUGBOAT_TRANSPORTS=verbs,mpi llcl_runs llcl_once "${options[@]}" ;;
        bound) llcl_runs llcl_once_bound --threads 1 --sizes 8 ;;
    esac >"$out/data/llcl_$1_runs.csv"
    awk -F, -f "$here/papers_llcl.awk" "$out/data/llcl_$1_runs.csv" >"$out/data/llcl_$1.csv"
}

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

# llcl_claims NAME WHERE [GIVEN]: the rows of the table for that.
llcl_claims() {
    awk -F, -f "$here/papers_claims.awk" -v where="$2" -v cores="$(nproc)" -v given="${3:-0}" "$out/data/llcl_$1.csv"
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

llcl_has_card() {
    local transports
    transports=$("$tugboat" info | sed -n '/^transports/,/^digests/p')
    grep -qw verbs <<<"$transports" && ! grep -qE '^  verbs +not ' <<<"$transports"
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

# What the paper says, and whether it holds.
llcl_table() {
    printf '<h3>What the paper says, and what holds</h3>\n'
    printf '<table>\n<tr><th>where</th><th>what</th><th>(a) caller drives</th><th>(b) offload thread drives</th><th>(c) host MPI</th><th>comes to</th><th>paper</th><th>verdict</th></tr>\n'
    llcl_claims shm 'shared memory'
    llcl_claims tcp TCP
    if llcl_has_card; then llcl_claims verbs verbs; fi
    if [ -s "$out/data/llcl_bound.csv" ]; then llcl_claims bound 'stand-in for a card, a core for the thread' 1; fi
    printf '</table>\n'
    if [ ! -s "$out/data/llcl_bound.csv" ]; then
        printf '<p>A thread with a core of its own is not shown: that takes <code>taskset</code>, two cores, and the stand-in for a card (<code>./dev test</code> builds it).</p>\n'
    fi
    cat <<HTML
<p>(a): a thread starts a read and waits for it in the library, which it drives meanwhile (<code>TUGBOAT_PROGRESS=caller</code>: the library has no
thread of its own). (b): the paper&#8217;s own configuration and its Listing 6: a thread starts a read and looks at a flag, which the callback sets; it makes no
other call, and the offload thread does all the work (<code>TUGBOAT_PROGRESS=thread</code>). (c): no library: <code>MPI_Get</code> and
<code>MPI_Win_flush</code> of the host on a window of <code>MPI_Win_create</code> (<code>TUGBOAT=off</code>). The three are measured by turns, in rounds. A ratio to the host
is the median over rounds, each with the host of the same round; all figures are medians.</p>
<p>The verdict follows one rule. A claim <i>holds</i> if the median is within the paper&#8217;s number, wherever that was measured. If it is not, it <i>does not
hold</i> where the offload thread had a core of its own, and <i>cannot be shown here</i> elsewhere. A core of its own is one that
the thread was given, or one of at least two for each rank and one for each further calling thread. This machine has $(nproc). The last rows of the table have such a
core in any case of two: rank 0 is bound to one core, its offload thread to another (<code>TUGBOAT_AFFINITY</code>), and the reads go over the
tests&#8217; stand-in for a card, in which the target takes no part. That card does a read at once, so the latencies there are of the library and of handing
a request to a card, and not of a network: a ratio of two latencies is harder to reach than on one.</p>
HTML
}

llcl() {
    printf '<h2>Endo and Taura: a low-level layer for threads</h2>\n'
    llcl_transport shm 'shared memory'
    llcl_transport tcp 'TCP'
    llcl_verbs
    if [ -e "$stand_in/libibverbs.so.1" ] && command -v taskset >/dev/null && [ "$(llcl_cores | wc -l)" = 2 ]; then llcl_measure bound; fi
    llcl_table
    printf '<p>The same: the two programs (one read and a wait; as many reads as possible), the sizes and threads, and
repeated runs (%s samples of each point here, 32 in the paper; bars show the lowest and the highest). Not the same: the paper has Tofu and InfiniBand, whose cards read the memory of
a target that takes no part, and 16 or 20 cores a node. Here both processes share %s cores, and the target&#8217;s engine answers each read, so that absolute times do
not compare. A sample is the median over all reads of all threads; the paper has means. With more threads than cores a mean would be
the length of a time slice, and there a thread that looks at a flag yields, as the comment in Listing 6 has it.</p>\n' "$(by_effort 2 15 32)" "$(nproc)"
}

# shellcheck shell=bash disable=SC2154
# llcl_columns.sh: reads of the low-level layer in three columns, and what Endo and Taura claim beside them; sourced by papers.sh
# and report.sh for its functions.
#
# The columns: the caller drives the library, the offload thread does, and there is no library (the host MPI). llcl_NAME_runs.csv has
# the rows of llcl_reads, with what drives in front: caller, thread or host. Each of these has runs of its own, by turns.
# llcl_NAME.csv has their medians (papers_llcl.awk). They use the caller's $here, $bench and $stand_in, $mpiexec, $tugboat and
# $out, and $llcl_threads, $llcl_sizes, $llcl_rounds, $llcl_samples, $llcl_seconds.

# Where the caller drives, it waits in the library. Where the thread does, the program looks at a flag. The host has no library.
declare -A llcl_way=([caller]=wait [thread]=flag [host]=host)
declare -A llcl_setting=([caller]=TUGBOAT_PROGRESS=caller [thread]=TUGBOAT_PROGRESS=thread [host]=TUGBOAT=off)

# llcl_once DRIVER OPTION...: one run. Over TCP MPICH 4.0.2 alone hangs now and then in its MPI_Finalize, which the benchmarks
# leave with an error: such a run gets another chance.
llcl_once() {
    local run=(timeout 300 env "${llcl_setting[$1]}" "$mpiexec" -n 2 "$bench/llcl_reads" --csv --ways "${llcl_way[$1]}" "${@:2}") said
    said=$("${run[@]}") || said=$("${run[@]}") || return 1
    grep -v '^#' <<<"$said"
}

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

llcl_has_two_cores() { [ -e "$stand_in/libibverbs.so.1" ] && command -v taskset >/dev/null && [ "$(llcl_cores | wc -l)" = 2 ]; }

# llcl_runs ONCE OPTION...: rounds of one run for each driver, which take turns in being the first.
llcl_runs() {
    local round drivers=(caller thread host) driver
    for ((round = 0; round < llcl_rounds; round++)); do
        for driver in "${drivers[@]}"; do
            "$1" "$driver" --samples "$llcl_samples" --seconds "$llcl_seconds" --memory private "${@:2}" | sed "s/^/$driver,/" || return 1
        done
        drivers=("${drivers[@]:1}" "${drivers[0]}")
    done
}

llcl_measure() { # NAME
    local options=(--threads "$llcl_threads" --sizes "$llcl_sizes") data=$out/data/llcl_$1
    case $1 in
        shm) TUGBOAT_TRANSPORTS=self,shm,mpi llcl_runs llcl_once "${options[@]}" ;;
        tcp) MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self llcl_runs llcl_once "${options[@]}" ;;
        verbs) MPIR_CVAR_NOLOCAL=1 TUGBOAT_TRANSPORTS=verbs,mpi llcl_runs llcl_once "${options[@]}" ;;
        bound) llcl_runs llcl_once_bound --threads 1 --sizes 8 ;;
    esac >"${data}_runs.csv" && awk -F, -f "$here/papers_llcl.awk" "${data}_runs.csv" >"$data.csv"
}

llcl_has_card() {
    local transports
    transports=$("$tugboat" info | sed -n '/^transports/,/^digests/p')
    grep -qw verbs <<<"$transports" && ! grep -qE '^  verbs +not ' <<<"$transports"
}

# llcl_claims NAME WHERE [GIVEN]: the rows of the table for that, if it was measured.
llcl_claims() {
    [ -s "$out/data/llcl_$1.csv" ] || return 0
    awk -F, -f "$here/papers_claims.awk" -v where="$2" -v cores="$(nproc)" -v given="${3:-0}" "$out/data/llcl_$1.csv"
}

# llcl_table LEVEL: what the paper says, and whether it holds, with a heading of that level.
llcl_table() {
    printf '<h%d>Endo and Taura&#8217;s low-level layer: what the paper says, and what holds</h%d>\n' "$1" "$1"
    printf '<div class="table"><table>\n<tr><th>where</th><th>what</th><th>(a) caller drives</th><th>(b) offload thread drives</th><th>(c) host MPI</th><th>comes to</th><th>paper</th><th>verdict</th></tr>\n'
    llcl_claims shm 'shared memory'
    llcl_claims tcp TCP
    llcl_claims verbs verbs
    llcl_claims bound 'stand-in for a card, a core for the thread' 1
    printf '</table></div>\n'
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
the thread was given, or one of at least two for each rank and one for each further calling thread. The call&#8217;s part of the latency holds only if the latency
against (a) does, as a call is a small part of a slow read. This machine has $(nproc) cores. In the rows of the stand-in for a card two cores are enough: rank 0 is
bound to one core, its offload thread to another (<code>TUGBOAT_AFFINITY</code>), and the target takes no part in reads. That card of the tests does a
read at once, so the latencies there are of the library and of handing a request to a card, and not of a network: a ratio of two latencies is harder to reach than on
one. The host does not go over that card: a ratio to it that is above the paper&#8217;s shows nothing there.</p>
HTML
}

# For cluster.sh: jobs in which something breaks at a random moment. Sourced; uses run(), $build, $hosts, $ranks, $nranks,
# $here, $only and $work.
# shellcheck shell=bash disable=SC2154

# Programs that check their data, each behind the milliseconds in which it is at work on 8 idle ranks of two cores, so that the
# fault finds it there; the kinds of faults, and how often each comes.
fault_programs() {
    local mpi=$build/tests/mpi/bin
    cat << LIST
windows 1500 $mpi/mpi_rma_apps 20 4 4
halo 600 $mpi/mpi_examples_halo 4 4000 10 1
histogram 600 $mpi/mpi_examples_histogram 60000 8
moves 1500 $mpi/mpi_gas_moves 3000
acp 400 $mpi/mpi_acp_row
LIST
}
fault_kinds=(kill kill stop stop link link shm descriptors memory memory)

# Numbers that depend on the seed alone: drawn LEAST MOST sets $drawn.
fault_seed() { fault_state=$(($1 * 2654435761 % 2147483647 + 1)); }
drawn() {
    fault_state=$((fault_state * 48271 % 2147483647))
    drawn=$(($1 + fault_state % ($2 - $1 + 1)))
}

# What became of the job: prints a word for a good end, or a reason. $rc is its status.
fault_verdict() {
    local fault=$1
    if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
        echo "no end in $limit s"
    elif grep -q 'fault: LEFT' "$work/out"; then
        grep -m 1 -o 'LEFT.*' "$work/out"
    elif grep -q 'fault: mpiexec has lost' "$work/out"; then
        echo 'half ended'
    elif grep 'WRONG' "$work/out" | grep -qvE 'gave error code|tug_|acp_|: -?[0-9]+ \(|[Nn]o memory|is lost|error|MPIX?_'; then
        echo 'wrong data'
    elif [ "$fault" = shm ] && grep -q 'signal 7' "$work/out" && ! grep -qE '^ *[0-9]+ .*libtugboat' "$work/out"; then
        echo ended # the program was the first to touch a page of its window, which cannot be had any more
    elif grep -qiE 'signal (11|4|7|8)\b|segmentation' "$work/out" && [ "$fault" != kill ]; then
        echo 'a rank crashed'
    elif [ "$rc" = 0 ]; then
        echo right
    elif [ "$fault" = stop ] || [ "$fault" = none ]; then
        echo "status $rc, though nobody was lost"
    else
        echo ended
    fi
}

# One job with the fault of that seed.
fault_run() {
    local seed=$1 name most command lines kind at after lasts nth begin verdict
    fault_seed "$seed"
    mapfile -t lines < <(fault_programs)
    drawn 0 $((${#lines[@]} - 1))
    read -r name most command <<< "${lines[drawn]}"
    drawn 0 $((${#fault_kinds[@]} - 1))
    kind=${fault_kinds[drawn]}
    [ "$only" = '*' ] || kind=$only
    drawn 0 "$most"
    after=$((drawn / 1000)).$(printf %03d $((drawn % 1000)))
    drawn 0 100000
    at=$drawn
    drawn 0 5
    lasts=1
    [ $kind = stop ] && lasts=$((drawn == 0 ? 10 : 2))
    [ $kind = link ] && lasts=$((drawn == 0 ? 30 : 1))
    drawn 1 200
    nth=$drawn
    local preload=$build/lib/libtugboat.so
    [ $kind = memory ] && preload=$build/tests/mpi/lib/scarce.so:$preload
    # Or UCX gives up idle connections in the 30 s, and MPICH then waits for ever in the program's collective calls.
    [ $kind = link ] && local -x UCX_TCP_KEEPIDLE=300s UCX_KEEPALIVE_INTERVAL=300s
    begin=$EPOCHREALTIME
    # shellcheck disable=SC2086 # a command and its arguments
    FAULT=$kind FAULT_AFTER=$after FAULT_FOR=$lasts FAULT_AT=$at FAULT_PROGRAM=${command%% *} FAULT_RANKS=$nranks \
        SCARCE_NTH=$nth SCARCE_RANK=$((at % nranks)) HOSTS_MEANWHILE=$here/fault.sh preload=$preload run $command
    rc=$?
    verdict=$(fault_verdict $kind)
    awk -v seed="$seed" -v name="$name" -v kind="$kind" -v verdict="$verdict" -v a="$begin" -v b="$EPOCHREALTIME" -v said="$(
        grep -m 1 -oE 'fault: mpiexec .*' "$work/out" || grep -m 1 -oE '(fault|scarce): .*' "$work/out")" \
        'BEGIN { printf "seed %-6d %-10s %-12s %6.1f s  %s (%s)\n", seed, name, kind, b - a, verdict, said != "" ? said : "no fault" }'
    case $verdict in
    right | ended) return 0 ;;
    esac
    grep -vE 'fault: ' "$work/out" | tail -n 8 | sed 's/^/    /'
    return 1
}

# faults N SEED: jobs of the seeds SEED, SEED + 1, ...
faults() {
    local n=$1 seed=$2 i failed=()
    for ((i = 0; i < n; i++)); do
        fault_run $((seed + i)) || failed+=($((seed + i)))
    done
    if [ ${#failed[@]} -gt 0 ]; then
        echo "# ${#failed[@]} of $n were not right; seeds: ${failed[*]} (./dev cluster --faults 1 --seed SEED)"
        return 1
    fi
    echo "# all $n ended as they should"
}

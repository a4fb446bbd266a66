#!/usr/bin/env bash
# Runs the programs of windows, LLCL, ACP, arrays and persistent collectives over verbs alone, as jobs of 2, 4 and 8 ranks
# on two and four hosts with a device each (hosts.sh), in the machine of run_in_vm.sh: more than `./dev test` has the
# time for. Windows run three ways: under the library, with it turned off, and by the host alone by TCP. At the end comes
# a table: program, way, ranks, hosts, result, seconds.
#
# usage: all.sh BUILD [--only REGEX] [--ranks N,N...] [--hosts N,N...] [--limit SECONDS]
#            REGEX: of NAME.WAY.nRANKS.hHOSTS; SECONDS: for one job, 300
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
build=$(realpath "$1")
shift
only=. ranks=2,4,8 hosts=2,4 limit=300
while [ $# -gt 0 ]; do
    case $1 in
    --only) only=$2 ;;
    --ranks) ranks=$2 ;;
    --hosts) hosts=$2 ;;
    --limit) limit=$2 ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done

# Each line: ways, program, arguments. What is linked with the library is its own way.
programs() {
    cat <<'LIST'
tug,off,host rma_basic
tug,off,host rma_request
tug,off,host rma_threads
tug,off,host rma_atomic
tug,off,host rma_accumulate
tug,off,host rma_many
tug rma_many get
tug,off,host rma_apps
tug,off,host rma_locks
tug,off,host rma_lock_fair
tug,off,host rma_lock_epochs
tug,off,host rma_lock_storm
tug,off,host rma_pscw
tug,off,host rma_fence
tug,off,host rma_flush_threads
tug,off,host rma_types
tug,off,host rma_derived
tug,off,host rma_linear
tug,off,host rma_dynamic
tug,off,host rma_attached
tug,off,host rma_overlap
tug,off,host rma_packets
tug,off,host window_free
linked llcl_basic
linked llcl_atomic
linked llcl_am
linked llcl_call
linked llcl_signal
linked llcl_contexts
linked llcl_threads 4 100
linked llcl_memory 100
linked llcl_errors
linked llcl_passive 64
linked llcl_suspend
linked llcl_contract
linked acp_random 60 2
linked acp_relay 30
linked acp_churn 100
linked acp_inside
linked acp_interface
linked acp_errors
linked gas_basic
linked gas_stress 2 300
linked gas_storm 10
linked gas_turns far
linked gas_errors
linked gas_moves 200 16384
linked gas_grow
linked gas_follow
tug pbcast
tug pbcast_mixed
tug pbcast_threads
tug pbcast_memory 20
tug pcoll ours brief
tug pcoll_far brief
tug pcoll_kept 36
tug pcoll_long 2
tug pcoll_other
LIST
}

cases() {
    local ways program arguments way name n h nodes mpiexec library=$build/lib/libtugboat.so
    mpiexec=$(sed -n 's/^HOSTMPI_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
    while read -r ways program arguments; do
        [ -x "$build/tests/mpi/bin/mpi_$program" ] || { echo "all.sh: no $program" >&2; exit 1; }
        for way in ${ways//,/ }; do for n in ${ranks//,/ }; do for h in ${hosts//,/ }; do
            [ "$n" -ge "$h" ] || continue
            [[ ! $program =~ ^(acp_relay|gas_turns)$ || $n -gt 2 ]] || continue # there is a third rank
            [[ ! $program =~ ^rma_(fence|derived)$ || $n -le 4 ]] || continue # by its own limit
            [[ $program != rma_packets || $n -eq 2 ]] || continue # between two
            # without the library nothing goes by the cables
            if [[ $way = off || $way = host ]] && [ "$h" != "${hosts%%,*}" ]; then continue; fi
            name=$program${arguments:+_${arguments//[^a-z0-9]/_}}.$way.n$n.h$h
            [[ $name =~ $only ]] || continue
            nodes="emulated --env UCX_TLS=posix,self --env TUGBOAT_TRANSPORTS=verbs --env TUGBOAT_VERBOSE=quiet"
            # the processors are emulated, and Soft-RoCE takes some writes that it sends again for invalid requests
            nodes+=" --env TUGBOAT_VERBS_TIMEOUT=10000"
            [ "$way" != host ] || nodes=tcp
            [[ $program != acp* ]] || nodes+=" --env TUGBOAT_ACP_STARTER=4M"
            # a thread beside them would acknowledge, or answer, by itself where a rank waits long for its core
            [[ ! $program =~ ^(rma_packets|gas_turns)$ ]] || nodes+=" --env TUGBOAT_PROGRESS=caller"
            # the host alone is right only without UCX's cache of registrations (tests/mpi/cmake/windows.cmake)
            [[ $program != rma_overlap || $way = tug ]] || nodes+=" --env UCX_RCACHE_ENABLE=n"
            echo "alone $name $limit $here/hosts.sh $h $here/../mpi/run_mpi.sh --mpiexec $mpiexec" \
                "--way ${way/linked/host} --ranks $n --nodes $nodes --env MPIEXEC_TIMEOUT=$((limit - 10)) --lib $library" \
                "-- $here/hosts.sh held $build/tests/mpi/bin/mpi_$program $arguments"
        done; done; done
    done < <(programs)
}

results=$build/tests/verbs/results_all
list=$build/tests/verbs/cases_all
cases >"$list"
[ -s "$list" ] || { echo "all.sh: no case's name fits $only" >&2; exit 2; }
status=0
"$here/suite.sh" run "$list" "$results" --timeout 36000 || status=$?
[ $status -ne 77 ] || exit 77

table() {
    local name program way n h status seconds result
    printf '%-32s %-7s %5s %5s  %-9s %7s\n' program way ranks hosts result seconds
    while read -r _ name _; do
        IFS=. read -r program way n h <<<"$name"
        status=$(cat "$results/$name.status" 2>/dev/null) || status=
        seconds=$(cat "$results/$name.seconds" 2>/dev/null) || seconds=-
        case $status in
        0) result=right ;;
        77) result=skipped ;;
        124 | 137) result="too long" ;;
        '') result="not run" ;;
        *) result="wrong $status" ;;
        esac
        printf '%-32s %-7s %5s %5s  %-9s %7s\n' "$program" "$way" "${n#n}" "${h#h}" "$result" "$seconds"
    done <"$list"
}
table >"$results/table"
cat "$results/table"
echo "The table and what each job said are in $results."
! grep -Eq ' (too long|not run|wrong [0-9]+) ' "$results/table"

#!/usr/bin/env bash
# bars.sh BUILD_DIR [ROUNDS]: are the tug's promises kept on this machine, today?
#
# Compares host MPI and tug in alternation, with validation, and fails when a bar is missed: operations on a
# computing target within fixed times, persistent broadcasts by fixed ratios. The broadcast bars at 4 ranks are
# meant for 2 cores. Takes some minutes; wants a quiet machine.
set -uo pipefail

build=$(cd "${1:?usage: bars.sh BUILD_DIR [ROUNDS]}" && pwd) || exit 2
rounds=${2:-5}
bench=$build/bin/osu-style-bench
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec)}
nmissed=0

# bar TITLE RANKS PROGRAM ARGUMENTS... -- REQUIREMENT...; variables in ${environment[@]} hold for both sides.
environment=()
bar() {
    local title=$1 ranks=$2 program=$3 arguments=() requirements=()
    shift 3
    while [[ $1 != -- ]]; do
        arguments+=("$1")
        shift
    done
    shift
    while (($# > 0)); do
        requirements+=(--require "tug@$1")
        shift
    done
    local run=("$mpiexec" -n "$ranks" "$bench/$program" --csv --validate "${arguments[@]}")
    "$bench/versus" --rounds "$rounds" --title "$title" --name host --name tug "${requirements[@]}" \
        -- env "${environment[@]}" "${run[@]}" \
        -- env "${environment[@]}" "$build/bin/tugboat" run "${run[@]}" || nmissed=$((nmissed + 1))
    echo
}

bar "target computes" 2 truly_passive -- '*<=500'
bar "both ranks compute" 2 truly_passive --busy-origin -- '*<=500'
environment=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
bar "target computes, TCP" 2 truly_passive -- '*/8<=500' '*/1048576<=3000'
bar "both ranks compute, TCP" 2 truly_passive --busy-origin -- '*/8<=500' '*/1048576<=3000'
environment=()
bar "put rate" 2 put_rate_threads -- 'put/*>=2'
bar "fetch_and_op rate" 2 put_rate_threads --op fetch_and_op -- 'fetch_and_op/*>=4'
bar "broadcast, 2 ranks" 2 bcast_init_sizes -- '8>=0.9' '262144>=2.5' '2097152>=2.5' '16777216>=2'
bar "broadcast, 4 ranks" 4 bcast_init_sizes -- '8>=10' '2097152>=20'

if ((nmissed > 0)); then
    echo "$nmissed comparisons missed a bar or failed"
    exit 1
fi
echo "all bars are met"

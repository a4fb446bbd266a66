#!/usr/bin/env bash
# measure.sh BUILD_DIR [--only NAME] [--rounds N] [--openmpi BUILD_DIR] [--draw]: the figures of docs/ways-in.md.
#
# Runs each program on the host MPI and under Tugboat by turns (versus), records the medians and the ranges in NAME.csv
# beside this script, and draws NAME.svg from that. --draw only draws. --openmpi is the build for the MPI that the
# system's mpi4py is for: without it window.csv stays as it is.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
usage="usage: measure.sh BUILD_DIR [--only halo|queue|bcast|histogram|window] [--rounds N] [--openmpi BUILD_DIR] [--draw]"
wrong_usage() { echo "measure: $1"$'\n'"$usage" >&2; exit 2; }
[[ -d ${1:-} ]] || wrong_usage "no build directory '${1:-}'"
build=$(cd "$1" && pwd)
shift
only='' rounds=7 openmpi='' draw_only=0
while (($# > 0)); do
    case $1 in
    --draw) draw_only=1 ;;
    --only | --rounds | --openmpi)
        (($# > 1)) || wrong_usage "$1 needs a value"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    *) wrong_usage "unknown argument '$1'" ;;
    esac
    shift
done
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec)}
programs=$build/tests/mpi/bin/mpi_examples_
tug=("$build/bin/tugboat" run)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wanted() { [[ -z $only || $only == "$1" ]]; }

# compare NAME FILE (--name NAME -- COMMAND...)...: by turns, into FILE.
compare() {
    local title=$1 file=$2
    shift 2
    "$build/bin/osu-style-bench/versus" --rounds "$rounds" --timeout 60 --title "$title" --csv="$file" "$@"
}

# join NAME FILE...: the tables of the same columns as one.
join() {
    local name=$1
    shift
    awk 'FNR > 1 || NR == 1' "$@" >"$here/$name.csv"
}

draw() { # NAME UNIT
    [[ -s $here/$1.csv ]] || return 0
    awk -f "$root/osu-style-bench/report_plot.awk" -v kind=bars -v unit="$2" "$here/$1.csv" >"$work/plot"
    gnuplot "$work/plot" >"$here/$1.svg"
}

figure=$here/figure.sh
measure_halo() {
    local run=("$mpiexec" -n 2 "${programs}halo")
    local row=("$figure" 'a step=ms a step' 'its exchange=ms of it')
    compare halo "$here/halo.csv" --name host --name tug -- "${row[@]}" "${run[@]}" -- "${row[@]}" "${tug[@]}" "${run[@]}"
}
measure_queue() {
    local run=("$mpiexec" -n 2 "${programs}queue")
    local row=("$figure" 'all tasks=ms, shared' 'stealing=ms of stealing')
    compare queue "$here/queue.csv" --name host --name tug -- "${row[@]}" "${run[@]}" -- "${row[@]}" "${tug[@]}" "${run[@]}"
}
measure_bcast() {
    local kib files=()
    for kib in 32 2048; do
        local run=("$mpiexec" -n 2 "${programs}bcast_loop" "$kib" 1000) row=("$figure" "$kib KiB=us a step")
        files+=("$work/$kib.csv")
        compare bcast "$work/$kib.csv" --name host --name tug --name persistent -- "${row[@]}" "${run[@]}" \
            -- "${row[@]}" env TUGBOAT_COLLECTIVES=on "${tug[@]}" "${run[@]}" \
            -- "${row[@]}" "$mpiexec" -n 2 "${programs}bcast_init" $kib 1000
    done
    join bcast "${files[@]}"
}
measure_histogram() {
    local run=("$mpiexec" -n 2 "${programs}histogram" 100000) tcp=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
    local node=("$figure" 'one node=M/s') nodes=("$figure" 'over TCP=M/s')
    compare histogram "$work/node.csv" --name host --name tug \
        -- "${node[@]}" env TUGBOAT=off "${run[@]}" -- "${node[@]}" "${run[@]}"
    compare histogram "$work/tcp.csv" --name host --name tug \
        -- "${nodes[@]}" env "${tcp[@]}" TUGBOAT=off "${run[@]}" -- "${nodes[@]}" env "${tcp[@]}" "${run[@]}"
    join histogram "$work/node.csv" "$work/tcp.csv"
}
# Open MPI's nodes are host names, which run_mpi.sh knows how to make.
measure_window() {
    [[ -n $openmpi ]] || { echo "measure: no --openmpi, window.csv stays as it is" >&2; return 0; }
    local nodes files=() lib
    lib=$(cd "$openmpi" && pwd)/lib/libtugboat.so
    for nodes in one emulated; do
        local run=("$root/tests/mpi/python.sh" --mpiexec mpiexec.openmpi --ranks 2 --nodes "$nodes" --lib "$lib")
        local row=("$figure" "one node=us a put" bash -c '"$@" -- "$0"' "$root/examples/window.py")
        local alone=("${run[@]}" --way host)
        # what the host makes windows of where it has no RDMA device
        [[ $nodes == one ]] || { row[1]='over TCP=us a put'; alone+=(--env OMPI_MCA_osc=pt2pt); }
        files+=("$work/$nodes.csv")
        compare window "$work/$nodes.csv" --name host --name tug \
            -- "${row[@]}" "${alone[@]}" -- "${row[@]}" "${run[@]}" --way tug
    done
    join window "${files[@]}"
}

for name in halo queue bcast histogram window; do
    ((draw_only)) || ! wanted $name || measure_$name
done
draw halo 'ms, of a step'
draw queue ms
draw bcast 'us a step'
draw histogram 'M/s'
draw window 'us a put'

#!/usr/bin/env bash
# TUGBOAT_STATS: one block from rank 0, or one file of JSON, with the numbers of this program.
#
#   stats.sh CMAKE RUN_OPTIONS... -- PROGRAM [ARG]...
#
# Run with way host for a program that is linked with the library, with way tug for a preload.
set -u
cmake=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

with() {
    options=()
    local setting=$1
    shift
    for argument in "$@"; do
        [ "$argument" = -- ] && options+=(--env "$setting")
        options+=("$argument")
    done
}

with TUGBOAT_STATS=1 "$@"
timeout 140 "$here/run_mpi.sh" "${options[@]}" > "$work/out" 2> "$work/err"
rc=$?
blocks=$(grep -ciE '^tugboat .*statistics' "$work/err")
if [ $rc != 0 ] || [ "$blocks" != 1 ]; then
    echo "status $rc, $blocks blocks of statistics on standard error"
    tail -n 20 "$work/out" "$work/err"
    exit 1
fi
for class in put sync window persistent; do
    # shellcheck disable=SC2034
    read -r name taken rest < <(grep -E "^ *$class " "$work/err")
    if ! [ "${taken:-0}" -gt 0 ]; then
        echo "no call of class '$class' was taken, and the program makes some"
        cat "$work/err"
        exit 1
    fi
done

with "TUGBOAT_STATS=$work/stats.json" "$@"
timeout 140 "$here/run_mpi.sh" "${options[@]}" > "$work/out" 2> "$work/err"
rc=$?
if [ $rc != 0 ] || grep -qi 'statistics' "$work/err" || ! [ -s "$work/stats.json" ]; then
    echo "status $rc; a block of statistics beside the file, or no file:"
    tail -n 20 "$work/out" "$work/err"
    exit 1
fi
"$cmake" -DFILE="$work/stats.json" -P "$here/stats_json.cmake"

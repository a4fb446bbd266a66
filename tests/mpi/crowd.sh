#!/usr/bin/env bash
# Ranks wait politely by themselves where they outnumber the cores they may use, and only there.
#
#   crowd.sh PLAIN RUN_OPTIONS... -- PROGRAM
#
# PROGRAM is mpi_polite, which fails if it is to be polite and is not; PLAIN is the same without windows, which
# runs at its own thread level unless it is asked for counters.
set -u
plain=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
    while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
failed=0

# run NAME CORES RANKS none|some ARGUMENT SETTING...: with polite waits or without
run() {
    local name=$1 on=$2 ranks=$3 expected=$4 argument=$5
    shift 5
    local settings=(--env TUGBOAT_STATS=1 --ranks "$ranks")
    for setting in "$@"; do settings+=(--env "$setting"); done
    output=$(timeout 110 taskset -c "$on" "$here/run_mpi.sh" --way tug "${given[@]}" \
        "${settings[@]}" -- "$program" "$argument" 2>&1)
    local rc=$? waits
    waits=$(awk '$1 == "outside_waits" { print $2 }' <<< "$output")
    local seen=some
    [ "${waits:-0}" = 0 ] && seen=none
    if [ $rc = 0 ] && [ -n "$waits" ] && [ $seen = "$expected" ]; then
        echo "$name: $waits polite waits, right"
    else
        echo "$name: exit status $rc, ${waits:-no} polite waits, expected $expected"
        echo "$output"
        failed=1
    fi
}

given=()
while [ "$1" != -- ]; do
    given+=("$1")
    shift
done
program=$2

run "two ranks on one core" "${cores[0]}" 2 some ''
run "two ranks on one core, TUGBOAT_WAIT=native" "${cores[0]}" 2 none spins TUGBOAT_WAIT=native
if [ ${#cores[@]} -gt 1 ]; then
    run "a core each" "${cores[0]},${cores[1]}" 2 none spins
    run "a core each, and threads that drive" "${cores[0]},${cores[1]}" 2 some '' \
        TUGBOAT_PROGRESS=thread
fi
if output=$(timeout 110 taskset -c "${cores[0]}" "$here/run_mpi.sh" --way tug "${given[@]}" --ranks 2 \
    -- "$plain" 2>&1); then
    echo "two ranks on one core without windows: right"
else
    echo "two ranks on one core without windows: not polite"
    echo "$output"
    failed=1
fi
exit $failed

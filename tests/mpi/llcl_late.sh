#!/usr/bin/env bash
# What writes with a signal cost whose ends nobody waits for soon: few acknowledgements, and nobody is woken for them.
#
#   llcl_late.sh RUN_OPTIONS... -- PROGRAM WRITES
set -u
here=$(cd "$(dirname "$0")" && pwd)
output=$(mktemp)
trap 'rm -f "$output"' EXIT
timeout -k 5 140 "$here/run_mpi.sh" --way host --env TUGBOAT_STATS=1 "$@" > "$output" 2>&1
rc=$?
writes=${!#}
count() { awk -v name="$1" '$1 == name { print $2 }' "$output"; }
acknowledgements=$(count acknowledgements)
wakes=$(count offload_wakes)
echo "$writes writes: ${acknowledgements:-no} acknowledgements, ${wakes:-no} wakes of offload threads"
# one for four, those that begin and end the contexts, and the wakes of these
if [ $rc != 0 ] || [ "${acknowledgements:-$writes}" -gt $((writes / 4 + 100)) ] ||
    [ "${wakes:-$writes}" -gt $((writes / 20)) ]; then
    echo "status $rc"
    tail -n 40 "$output"
    exit 1
fi

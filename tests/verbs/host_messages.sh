#!/usr/bin/env bash
# Runs ranks over verbs, and counts the messages of the host MPI that LLCL sends in all of them: those by which
# processes connect, and no others.
#
# usage: host_messages.sh MOST COMMAND...
set -u
most=$1
shift
output=$(mktemp)
trap 'rm -f "$output"' EXIT
TUGBOAT_STATS=1 "$@" >"$output" 2>&1
rc=$?
count() { awk -v name="$1" '$1 == name { print $2 }' "$output"; }
messages=$(count host_messages)
packets=$(count packets)
echo "${packets:-no} packets, ${messages:-no} messages of the host (at most $most)"
# a row of the table that is not there is 0
if [ $rc != 0 ] || [ "${packets:-0}" -lt $((10 * most)) ] || [ "${messages:-0}" -gt "$most" ]; then
    echo "status $rc"
    tail -n 60 "$output"
    exit 1
fi

#!/usr/bin/env bash
# app_seconds.sh NAME PATTERN COMMAND...: how long does a program take, start and end included?
#
# Runs the command once and prints the seconds as a row that `versus` compares. A program that exits with
# another status than 0, or whose output has no line that matches PATTERN, has failed: then there is no row,
# its last lines go to stderr, and the exit status is 1.
set -uo pipefail

name=$1 pattern=$2
shift 2
begin=$(date +%s%N)
output=$("$@" </dev/null 2>&1)
status=$?
end=$(date +%s%N)
if ((status != 0)) || ! grep -q -- "$pattern" <<<"$output"; then
    tail -n 5 <<<"$output" >&2
    echo "$name: exit status $status, no line with '$pattern' or an error" >&2
    exit 1
fi
echo "key:program,lower:seconds"
printf '%s,%d.%06d\n' "$name" $(((end - begin) / 1000000000)) $(((end - begin) / 1000 % 1000000))

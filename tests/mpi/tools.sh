#!/usr/bin/env bash
# A counting PMPI tool with the library before it and behind it sees what it sees without.
#
#   tools.sh TOOL RUN_OPTIONS... -- PROGRAM
#
# The program has to end well each time, and the tool's line has to be the one that the host alone
# gives, which has to be the one that is true of the program (see counted.c).
set -u
tool=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
true_line='tool: Put 40 Win_flush 8 Win_fence 3 Fetch_and_op 5 Bcast_init 2 Start 12 Wait 8 Waitall 2 Send 7'
failed=0
for run in "host --tool-before" "tug --tool-before" "tug --tool-after" "off --tool-after"; do
    # shellcheck disable=SC2086
    set -- ${run} "$tool" "$@"
    output=$(timeout 100 "$here/run_mpi.sh" --way "$@" 2>&1)
    rc=$?
    shift 3
    line=$(grep '^tool:' <<< "$output")
    if [ $rc != 0 ] || [ "$line" != "$true_line" ]; then
        echo "$run: exit status $rc"
        echo "expected: $true_line"
        echo "output:   $output"
        failed=1
    else
        echo "$run: right"
    fi
done
exit $failed

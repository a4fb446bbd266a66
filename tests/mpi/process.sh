#!/usr/bin/env bash
# How a job ends, on the host MPI alone and under the tug: the same, and in time.
#
#   process.sh EXPECTED RUN_OPTIONS... -- PROGRAM [ARG]...
#
# EXPECTED is the exit status to see (the host's own conventions are not relied upon), or failure:
# any status but 0, or same: whatever the host gives, which now and then is one or the other when a
# job ends without MPI_Finalize.
set -u
expected=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
output=$(mktemp)
trap 'rm -f "$output"' EXIT

status_of() {
    timeout 140 "$here/run_mpi.sh" --way "$@" > "$output" 2>&1
    rc=$?
    if [ $rc = 124 ]; then
        tail -n 20 "$output"
        echo "the job did not end in 25 s ($1)"
        exit 1
    fi
    if grep -E 'run_mpi.sh:|execvp error' "$output"; then
        exit 1
    fi
}

status_of host "$@"
host=$rc
[ $host = 77 ] && { cat "$output"; exit 77; }
# When one rank goes, the launcher hangs up on the others or kills them, now and then before it has
# read the first one's status: then the job's is that of the signal, tug or no tug.
for _ in 1 2 3 4; do
    status_of tug "$@"
    tug=$rc
    { [ "$tug" != "$expected" ] && grep -qE '(Hangup|Killed) \(signal [19]\)' "$output"; } || break
done
for _ in 1 2 3; do
    { [ "$expected" = same ] && [ $tug != $host ]; } || break
    status_of host "$@"
    host=$rc
done
echo "exit status: $host on the host, $tug under the tug, expected: $expected"
case $expected in
failure) [ $tug != 0 ] && [ $host != 0 ] && exit 0 ;;
same) [ $tug = $host ] && exit 0 ;;
*) [ $tug = "$expected" ] && [ $host = "$expected" ] && exit 0 ;;
esac
tail -n 20 "$output"
exit 1

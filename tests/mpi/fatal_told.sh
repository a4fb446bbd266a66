#!/usr/bin/env bash
# The reason for which an error ends a job arrives, once from a rank, and so does what the ranks have written before.
# 40 jobs, four at a time. Usage: fatal_told.sh OPTION... of run_mpi.sh, without --ranks and --way -- PROGRAM
set -u
here=$(dirname "$(readlink -f "$0")")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# job N RANKS OPTION...: what is wrong goes into a file.
job() {
    local n=$1 ranks=$2 rc came told
    shift 2
    # a folder for each: launchers of Open MPI 4.1 that make theirs in the same moment may fail
    mkdir "$directory/$n"
    TMPDIR=$directory/$n timeout -k 5 60 "$here/run_mpi.sh" --way tug --ranks "$ranks" "$@" told >"$directory/$n.out" 2>&1 </dev/null
    rc=$?
    came=$(grep -c '^rank [0-9]* has come' "$directory/$n.out")
    told=$(grep -c 'MPI_ERRORS_ARE_FATAL' "$directory/$n.out")
    if [ $rc = 0 ] || [ $rc = 124 ] || [ "$came" != "$ranks" ] || [ "$told" -lt 1 ] || [ "$told" -gt "$ranks" ] ||
        grep -q 'call_errhandler' "$directory/$n.out"; then
        { echo "job $n of $ranks ranks: status $rc, $came lines, $told reasons:"; cat "$directory/$n.out"; } >"$directory/$n.wrong"
    fi
}

for ((n = 0; n < 40; n += 4)); do
    for ranks in 1 2 4 8; do
        job $((n + ranks)).$ranks $ranks "$@" &
    done
    wait
done
cat "$directory"/*.wrong 2>/dev/null | head -100
wrong=$(find "$directory" -name '*.wrong' | wc -l)
echo "$wrong of 40 jobs are wrong"
[ "$wrong" = 0 ]

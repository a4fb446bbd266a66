#!/usr/bin/env bash
# A bad setting stops MPI_Init with a message that helps.
#
#   settings.sh RUN_OPTIONS... -- PROGRAM
#
# For each bad setting: MPI_Init gives MPI_ERR_OTHER (the program, called with "bad-setting", says
# so), an ordinary program ends with a status other than 0, and standard error names the variable,
# the value and what is allowed. Nothing may hang or crash.
set -u
here=$(cd "$(dirname "$0")" && pwd)
failed=0

complain() {
    echo "$1"
    echo "$2" | tail -n 12
    failed=1
}

# bad VARIABLE VALUE ALLOWED-PATTERN RUN...
bad() {
    local variable=$1 value=$2 allowed=$3
    shift 3
    local before=()
    for argument in "$@"; do
        [ "$argument" = -- ] && before+=(--env "$variable=$value")
        before+=("$argument")
    done
    output=$(timeout 100 "$here/run_mpi.sh" --way tug "${before[@]}" bad-setting 2>&1)
    rc=$?
    [ $rc = 0 ] && grep -q 'MPI_Init gave MPI_ERR_OTHER' <<< "$output" ||
        complain "$variable=$value: MPI_Init did not give MPI_ERR_OTHER (status $rc)" "$output"
    for word in "$variable" "$value" "$allowed"; do
        grep -E 'tugboat' <<< "$output" | grep -qE -- "$word" ||
            complain "$variable=$value: the message lacks '$word'" "$output"
    done
    output=$(timeout 100 "$here/run_mpi.sh" --way tug "${before[@]}" init 2>&1)
    rc=$?
    { [ $rc != 0 ] && [ $rc -lt 124 ]; } ||
        complain "$variable=$value: an ordinary program ended with status $rc" "$output"
    echo "$variable=$value: looked at"
}

bad TUGBOAT_RING_SIZE 3 'power of two|16' "$@"
bad TUGBOAT_RING_SIZE 1000 'power of two' "$@"
bad TUGBOAT_RING_SIZE lots '16' "$@"
bad TUGBOAT_PROGRESS sometimes 'auto.*thread.*caller|thread.*caller' "$@"
bad TUGBOAT_SPIN_US -1 '10000' "$@"
bad TUGBOAT_SPIN_US 99999999 '10000' "$@"
bad TUGBOAT_AFFINITY 0,x 'auto' "$@"
bad TUGBOAT_VERBOSE loud 'quiet' "$@"
bad TUGBOAT_SEGMENT 5Q '4K' "$@"
bad TUGBOAT_TRANSPORTS mpi,pigeon 'shm, verbs, ofi, tcp, mpi' "$@"
bad TUGBOAT maybe 'on' "$@"
bad TUGBOAT_BCAST auto 'TUGBOAT_COLLECTIVES' "$@"

# An unknown name is a warning from rank 0, once, and no more than that.
with=()
for argument in "$@"; do
    [ "$argument" = -- ] && with+=(--env TUGBOAT_RING_SZIE=16)
    with+=("$argument")
done
output=$(timeout 100 "$here/run_mpi.sh" --way tug "${with[@]}" init 2>&1)
rc=$?
warnings=$(grep -c 'TUGBOAT_RING_SZIE' <<< "$output")
{ [ $rc = 0 ] && [ "$warnings" = 1 ]; } ||
    complain "an unknown setting: status $rc, $warnings warnings" "$output"
exit $failed

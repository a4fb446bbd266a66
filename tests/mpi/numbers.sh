#!/usr/bin/env bash
# Two ranks whose process numbers differ in length: 9999 and 10000.
#
#   numbers.sh RUN_OPTIONS... -- PROGRAM
#
# In a process namespace of its own the next number can be set. How many numbers the launcher takes before its ranks
# is tried out with a shell in place of the program. Skipped where such a namespace may not be made.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${NUMBERS_LAST:-}" ]; then # the launcher
    echo "$NUMBERS_LAST" > /proc/sys/kernel/ns_last_pid && exec "$NUMBERS_MPIEXEC" "$@"
fi
if [ -z "${NUMBERS_INSIDE:-}" ]; then
    unshare -Urpf --mount-proc mount -t tmpfs tmpfs /dev/shm 2> /dev/null ||
        { echo "skipped: no process namespace of one's own here (unshare --pid)"; exit 77; }
    NUMBERS_INSIDE=1 exec unshare -Urpf --mount-proc \
        bash -c 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"' "$0" "$@"
fi

options=()
while [ "$1" != -- ]; do
    [ "$1" != --mpiexec ] || export NUMBERS_MPIEXEC=$2
    options+=("$1")
    shift
done
shift
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# run LAST COMMAND [ARG]...: with the numbers after LAST
run() {
    NUMBERS_LAST=$1 "$here/run_mpi.sh" --way host "${options[@]}" --mpiexec "$0" \
        -- sh -c 'echo "process $$"; exec "$0" "$@"' "${@:2}" > "$output" 2>&1
}
differ() { grep -qx 'process 9999' "$output" && grep -qx 'process 10000' "$output"; }

for last in {9998..9980} {9998..9980}; do
    run "$last" true
    differ || continue
    run "$last" "$@"
    rc=$?
    differ || [ $rc != 0 ] || continue
    cat "$output"
    exit $rc
done
echo "skipped: the launcher gives its ranks no numbers that follow one another"
exit 77

#!/usr/bin/env bash
# A peer is killed in mid-transfer: the job ends soon, and nothing is left of it.
#
#   llcl_kill.sh RUN_OPTIONS... -- PROGRAM
#
# It has to end in LLCL_KILL_PATIENCE seconds (150): that is to tell an end from none, on a busy machine too.
#
# The launcher ends the others when one of them goes. What the job leaves in /dev/shm is looked at
# in a mount namespace of its own where that may be made: there must be nothing, the host's included,
# which backs our shared memory. Else names of ours are looked for among what came meanwhile.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${LLCL_KILL_INSIDE:-}" ] && unshare -m mount -t tmpfs tmpfs /dev/shm 2> /dev/null; then
    export LLCL_KILL_INSIDE=1
    exec unshare -m bash -c 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"' "$0" "$@"
fi

patience=${LLCL_KILL_PATIENCE:-150}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
pattern='*tug*'
[ -z "${LLCL_KILL_INSIDE:-}" ] || pattern='*'
ours() { find /dev/shm -type f -name "$pattern" 2> /dev/null | sort; }

# known by it: other tests may run the same program meanwhile
export LLCL_KILL_JOB=$$.$EPOCHREALTIME
before=$(ours)
start=$(date +%s%N)
timeout -k 5 "$patience" "$here/run_mpi.sh" --way host "$@" > "$output" 2>&1
rc=$?
took=$((($(date +%s%N) - start) / 1000000))
fail() {
    echo "$*"
    tail -n 20 "$output"
    exit 1
}
[ $rc != 124 ] && [ $rc != 137 ] || fail "the job did not end in $patience s after a rank was killed"
[ $rc != 0 ] || fail "the job ended with status 0 although a rank was killed"
grep -q begins "$output" || fail "the job ended, with status $rc, before a rank was killed"
! grep -q WRONG "$output" || fail "wrong"
left=$(comm -13 <(echo "$before") <(ours))
[ -z "$left" ] || fail "left in /dev/shm: $left"
program=$(realpath "${!#}")
running() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe" 2> /dev/null)" = "$program" ] &&
            grep -qzxF "LLCL_KILL_JOB=$LLCL_KILL_JOB" "$process/environ" 2> /dev/null && echo "${process##*/}"
    done
}
for _ in $(seq 300); do
    [ -n "$(running)" ] || break
    sleep 0.1
done
[ -z "$(running)" ] || fail "processes are left 30 s after the end: $(running | tr '\n' ' ')"
echo "ended after $took ms with status $rc, nothing left in /dev/shm"

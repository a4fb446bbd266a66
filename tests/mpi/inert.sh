#!/usr/bin/env bash
# What the preload costs a process that never calls MPI: less than 1 ms, no thread, no output.
#
#   inert.sh LIBTUGBOAT
#
# /bin/true and a shell run with and without it in turn; the medians are compared.
set -u
lib=$1
[ -r "$lib" ] || { echo "no library at '$lib'" >&2; exit 2; }
for name in $(compgen -e | grep -E '^TUGBOAT' || true); do unset "$name"; done
unset LD_PRELOAD
failed=0

# time_us ENV COMMAND... puts the microseconds of one run into $us
time_us() {
    local before=$EPOCHREALTIME
    env "$@" > /dev/null
    local after=$EPOCHREALTIME
    us=$((${after/[.,]/} - ${before/[.,]/}))
}

median() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

for command in /bin/true "bash -c true"; do
    without=() with=()
    for ((i = 0; i < 101; i++)); do
        # shellcheck disable=SC2086
        { time_us IDLE=1 $command && without+=("$us"); time_us LD_PRELOAD="$lib" $command && with+=("$us"); }
    done
    a=$(printf '%s\n' "${without[@]}" | median) b=$(printf '%s\n' "${with[@]}" | median)
    echo "$command: $a us without, $b us with the preload"
    [ $((b - a)) -lt 1000 ] || failed=1
done

if [ -n "$(LD_PRELOAD=$lib TUGBOAT_VERBOSE=debug TUGBOAT_STATS=1 /bin/true 2>&1)" ]; then
    echo "the preload makes /bin/true speak"
    failed=1
fi
if [ "$(TUGBOAT_RING_SIZE=3 LD_PRELOAD=$lib bash -c 'echo $((6 * 7))' 2>&1)" != 42 ]; then
    echo "a bad setting disturbs a process without MPI"
    failed=1
fi
LD_PRELOAD=$lib sleep 60 &
child=$!
sleep 0.2
threads=$(ls /proc/$child/task | wc -l)
kill $child
wait $child 2> /dev/null
[ "$threads" = 1 ] || { echo "$threads threads in a process without MPI"; failed=1; }
exit $failed

#!/usr/bin/env bash
# The prebuilt coarray programs of Debian's libcoarrays-mpich-dev, natively and under the tug.
#
#   coarrays.sh --mpiexec PATH --lib LIBTUGBOAT [--ranks N] [--nodes one|emulated] [--seconds S]
#               [--only PATTERN] [--host-passes some|none]
#
# They are real MPI programs nobody built for this test: locks, puts, gets, accumulates, atomics,
# dynamic windows, events, teams. Each runs natively first; one that passes there has to pass under
# the tug as well, and to say so if it said so. Those that do not pass natively (too few ranks, or
# about failed images) are counted and not run again. Exit 77: the package is not installed, or none
# passes natively where --host-passes says that this may be so.
set -u
mpiexec= lib= ranks=2 nodes=one seconds=60 only=. host_passes=some
while [ $# -gt 0 ]; do
    case $1 in
    --mpiexec) mpiexec=$2 ;;
    --lib) lib=$2 ;;
    --ranks) ranks=$2 ;;
    --nodes) nodes=$2 ;;
    --seconds) seconds=$2 ;;
    --only) only=$2 ;;
    --host-passes) host_passes=$2 ;;
    *) echo "coarrays.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done

for name in $(compgen -e | grep -E '^TUGBOAT' || true); do unset "$name"; done
unset LD_PRELOAD
[ "$nodes" = emulated ] && export MPIR_CVAR_NOLOCAL=1
[ -r "$lib" ] || { echo "coarrays.sh: no library at '$lib'" >&2; exit 2; }
if LD_PRELOAD=$lib /bin/true 2>&1 | grep 'ERROR: ld.so'; then
    exit 2
fi

mapfile -t programs < <(dpkg -L libcoarrays-mpich-dev 2> /dev/null |
    grep -E 'OpenCoarrays-[0-9.]+-tests/' | grep -E -- "$only")
if [ ${#programs[@]} = 0 ]; then
    echo "skipped: libcoarrays-mpich-dev is not installed"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

# passes OUTPUT PROGRAM: in time, with status 0, and without saying that it failed
passes() {
    timeout -k 5 "$seconds" "$mpiexec" -n "$ranks" "$2" > "$1" 2>&1 < /dev/null
    status=$?
    [ $status = 0 ] && ! grep -qiE 'test failed|error stop' "$1"
}

# agrees NAME: what ran under the tug passed, and said so if the native run said so
agrees() {
    LD_PRELOAD=$lib passes tug.out "$1" &&
        { ! grep -qi 'test passed' native.out || grep -qi 'test passed' tug.out; }
}

# increment_my_neighbor reads its neighbour's array straight after the allocation, before the
# neighbour has surely stored the initial values: a rank that loses its core just then breaks it.
racy=" increment_my_neighbor "

# no_verdict NAME: the failure just seen says nothing, it ran out of time or is racy
no_verdict() {
    [ $status = 124 ] || [[ $racy = *" $1 "* ]]
}

# A program that runs out of time on a busy machine (alloc_comp_multidim_shape takes 3 s or 40, with
# the tug or without) is no verdict: it is tried again, natively and under the tug in turn. 0: it
# passes after all; 1: natively it always does; 2: natively it runs out of time as well.
try_again() {
    for _ in 1 2 3; do
        passes native.out "$1" || return 2
        agrees "$1" && return 0
        no_verdict "${1##*/}" || return 1
    done
    return 1
}

passed=0 broken=() not_native=0
native_ms=0 tug_ms=0
for program in "${programs[@]}"; do
    name=${program##*/}
    before=$(date +%s%N)
    if ! passes native.out "$program"; then
        not_native=$((not_native + 1))
        continue
    fi
    between=$(date +%s%N)
    agrees "$program"
    verdict=$?
    if [ $verdict != 0 ] && no_verdict "$name"; then
        try_again "$program"
        verdict=$?
    fi
    case $verdict in
    0) passed=$((passed + 1)) ;;
    2) not_native=$((not_native + 1)) ;;
    *)
        broken+=("$name")
        echo "---- $name passes natively; under the tug: status $status"
        tail -n 12 tug.out
        ;;
    esac
    after=$(date +%s%N)
    took_native=$(((between - before) / 1000000)) took_tug=$(((after - between) / 1000000))
    if [ $took_tug -gt $((3 * took_native)) ] && [ $took_tug -gt 500 ]; then
        echo "slow under the tug: $name, $took_tug ms, natively $took_native ms"
    fi
    native_ms=$((native_ms + took_native))
    tug_ms=$((tug_ms + took_tug))
done

echo "${#programs[@]} programs at $ranks ranks: $((passed + ${#broken[@]})) pass natively" \
    "($native_ms ms), $passed of these under the tug ($tug_ms ms);" \
    "$not_native do not pass natively"
if [ ${#broken[@]} -gt 0 ]; then
    echo "passing natively and not under the tug: ${broken[*]}"
    exit 1
fi
if [ $passed = 0 ] && [ "$host_passes" = none ]; then
    echo "skipped: the host alone passes none of them"
    exit 77
fi
[ $passed -gt 0 ]

#!/usr/bin/env bash
# A /dev/shm that is too small for us (and just big enough for the host MPI).
#
#   shm_small.sh SIZE SPOKEN RUN_OPTIONS... -- PROGRAM
#
# In a mount namespace of its own, with a tmpfs of SIZE over /dev/shm, the broadcasts of PROGRAM
# have to give the right data by whatever path, without a signal; with SPOKEN = yes the library has
# to say what it lacks. Exit 77 without the right to mount, or when the host alone cannot live in
# that space.
set -u
size=$1 spoken=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
if ! unshare -m mount -t tmpfs -o size="$size" tmpfs /dev/shm 2> /dev/null; then
    echo "skipped: this user may not mount a tmpfs in a namespace of its own (root may)"
    exit 77
fi

run() {
    output=$(timeout 140 unshare -m bash -c '
        mount -t tmpfs -o size="$0" tmpfs /dev/shm && exec "$@"' \
        "$size" "$here/run_mpi.sh" --way "$@" 2>&1)
    rc=$?
}

run host "$@"
if [ $rc != 0 ]; then
    echo "skipped: the host MPI alone ends with status $rc in a /dev/shm of $size"
    exit 77
fi
run tug "$@"
if [ $rc != 0 ] || ! grep -q right <<< "$output"; then
    echo "status $rc in a /dev/shm of $size"
    tail -n 20 <<< "$output"
    exit 1
fi
if [ "$spoken" = yes ] && ! grep -E 'tugboat.*/dev/shm' <<< "$output"; then
    echo "not a word about /dev/shm, which has $size in all:"
    tail -n 20 <<< "$output"
    exit 1
fi
echo "right in a /dev/shm of $size"

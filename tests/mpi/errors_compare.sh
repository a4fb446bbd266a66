#!/usr/bin/env bash
# The error classes of the host MPI alone against those under the tug (or with it off).
#
#   errors_compare.sh WAY RUN_OPTIONS... -- PROGRAM [ARG]...
#
# WAY is one of run_mpi.sh, or late: native, with operations that are queued, whose errors may surface
# at the next synchronisation. Both runs have to end well, to print as many cases, and the same line for
# each.
set -u
way=$1
shift
late=
[ "$way" = late ] && { late=yes; way=native; }
here=$(cd "$(dirname "$0")" && pwd)
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
for run in host "$way"; do
    timeout 140 "$here/run_mpi.sh" --way "$run" "$@" > "$results/$run.all" 2> "$results/$run.err"
    rc=$?
    if [ $rc != 0 ]; then
        echo "the program ended with status $rc ($run)"
        tail -n 15 "$results/$run.all" "$results/$run.err"
        exit 1
    fi
    grep -E '\[(return|handler)\]: class' "$results/$run.all" |
        sed -E "${late:+s/ of the (call|synchronisation)//}" > "$results/$run"
done
lines=$(wc -l < "$results/host")
if [ "$lines" -lt 1000 ] || grep -q 'class 0 ' "$results/host"; then
    echo "the host MPI's own lines are too few ($lines) or hold a success:"
    grep 'class 0 ' "$results/host"
    exit 1
fi
if diff "$results/host" "$results/$way"; then
    echo "$lines lines, all the same"
else
    echo "(< host MPI alone, > $way)"
    exit 1
fi

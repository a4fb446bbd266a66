#!/usr/bin/env bash
# A program of another MPI under this library: every call passes through, and one line says so.
#
#   other_host.sh LIBTUGBOAT WRAPPER LAUNCHER SOURCE...
#
# WRAPPER and LAUNCHER are the other MPI's; exit status 77 says that they are not here.
set -u
library=$1 wrapper=$2 launcher=$3
shift 3
command -v "$wrapper" > /dev/null && command -v "$launcher" > /dev/null ||
    { echo "skipped: no $wrapper here"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$wrapper" -D_GNU_SOURCE -O1 -w -o "$work/program" "$@" -lpthread || exit 1
for way in tug off; do
    timeout 200 "$here/run_mpi.sh" --mpiexec "$(command -v "$launcher")" --way $way --ranks 2 \
        --lib "$library" -- "$work/program" > "$work/out" 2> "$work/err" ||
        { echo "$way: exit status $?"; cat "$work/out" "$work/err"; exit 1; }
    lines=$(grep -c 'is built for .*, and the program runs on .*: all calls pass through' "$work/err")
    grep -q '^ *right' "$work/out" && [ "$lines" = "$([ $way = tug ] && echo 1 || echo 0)" ] ||
        { echo "$way: $lines lines that say so"; cat "$work/out" "$work/err"; exit 1; }
done

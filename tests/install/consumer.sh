#!/usr/bin/env bash
# A program for each API is built outside of the project, against an installation, and run.
# Usage: consumer.sh pkg-config|find_package PREFIX MPICC MPIEXEC [CMAKE]
set -euo pipefail
how=$1 prefix=$2 mpicc=$3 mpiexec=$4 cmake=${5:-}
source=$(cd "$(dirname "$0")/consumer" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD ${!TUGBOAT*}
libdir=$(dirname "$(find "$prefix" -name libtugboat.so)")

case $how in
pkg-config)
    flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs tugboat)
    for program in mpix llcl model; do
        # shellcheck disable=SC2086
        "$mpicc" -Wall -Werror -o "$work/$program" "$source/$program.c" $flags
    done
    ;;
find_package)
    "$cmake" -S "$source" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpicc" >"$work/log" ||
        { cat "$work/log"; exit 1; }
    "$cmake" --build "$work" >"$work/log" || { cat "$work/log"; exit 1; }
    ;;
esac

export LD_LIBRARY_PATH=$libdir
for program in mpix llcl; do
    timeout 30 "$mpiexec" -n 2 "$work/$program"
    LC_ALL=C readelf -d "$work/$program" | grep -q 'NEEDED.*libtugboat' ||
        { echo "$program is not linked to the library"; exit 1; }
done
"$work/model" # knows no MPI; the CMake package links it statically

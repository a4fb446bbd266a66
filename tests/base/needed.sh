#!/usr/bin/env bash
# The library needs the C library and nothing else: above all no MPI, whose copy is the program's.
# Usage: needed.sh LIBRARY
set -euo pipefail
needed=$(LC_ALL=C readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ] || { echo "readelf shows no NEEDED entry of $1"; exit 1; }
for name in $needed; do
    case $name in
    libc.so.*|libpthread.so.*|libdl.so.*|libm.so.*|ld-linux*) ;;
    *) echo "$1 needs $name"; exit 1 ;;
    esac
done
echo "needs: $needed"

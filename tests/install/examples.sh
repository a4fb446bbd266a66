#!/usr/bin/env bash
# The examples are built outside of the project, against an installation, and run as their readers would.
# Usage: examples.sh make|cmake PREFIX MPICC MPIFORT|'' MPIEXEC CMAKE
set -euo pipefail
how=$1 prefix=$2 mpicc=$3 mpifort=$4 mpiexec=$5 cmake=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD ${!TUGBOAT*}
wrong() { echo "$*"; exit 1; }
library=$(find "$prefix" -name libtugboat.so)
cp "$(dirname "$(find "$prefix" -name passive.c)")"/* "$work"
cd "$work"

case $how in
make)
    export PKG_CONFIG_PATH=${library%/*}/pkgconfig
    make MPICC="$mpicc" CFLAGS='-Wall -Werror' >log || { cat log; exit 1; }
    if [ -n "$mpifort" ]; then
        make fortran MPIFC="$mpifort" >log 2>&1 || { cat log; exit 1; }
    fi
    ;;
cmake)
    "$cmake" -S . -B . -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpicc" >log || { cat log; exit 1; }
    "$cmake" --build . >log || { cat log; exit 1; }
    ;;
esac

export LD_LIBRARY_PATH=${library%/*}
timeout 150 "$mpiexec" -n 2 ./passive
statistics=$(timeout 150 "$prefix/bin/tugboat" run --stats "$mpiexec" -n 2 ./passive 2>&1) || wrong "$statistics"
grep -E '^ *put +10 +0 ' <<<"$statistics" >/dev/null || wrong "not all puts were taken: $statistics"
for program in './halo 4 100 10 1' './queue 20 1' './bcast_loop 64 30'; do
    read -ra run <<<"$program"
    timeout 150 "$mpiexec" -n 2 "${run[@]}"
    timeout 150 "$prefix/bin/tugboat" run "$mpiexec" -n 2 "${run[@]}"
done
for program in bcast_init histogram fibres gas_sweep acp_row bcast_init_f08; do
    [ -e $program ] || continue
    LC_ALL=C readelf -d $program | grep 'NEEDED.*libtugboat' >/dev/null || wrong "$program does without the library"
    timeout 150 "$mpiexec" -n 2 ./$program
done
./predict

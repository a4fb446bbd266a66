#!/usr/bin/env bash
# A build that leaves out InfiniBand or libfabric says so in one line with what to install, any other build says nothing; the
# product is configured without cmocka. Usage: left_out.sh SOURCE CMAKE MPICC MPIEXEC
set -uo pipefail
source_root=$1 cmake=$2 mpicc=$3 mpiexec=$4
. "$source_root/tests/base/expect.sh"
command -v ninja >/dev/null || { echo "no ninja"; exit 77; }

# lines OPTION...: what the last target of that build prints
lines() {
    PKG_CONFIG_LIBDIR=$work "$cmake" -G Ninja -S "$source_root" -B "$work/build" -DTUGBOAT_BOTH=OFF \
        "-DHOSTMPI_C_WRAPPER=$mpicc" "-DHOSTMPI_EXECUTABLE=$mpiexec" "$@" || return
    grep -o 'Tugboat is built without .*\.' "$work/build/build.ninja"
}

expect both 0 '^Tugboat is built without InfiniBand \(install libibverbs-dev, .*\) and libfabric \(install libfabric-dev, .*\)\.$' \
    lines -DTUGBOAT_VERBS=OFF -DTUGBOAT_OFI=OFF
has no-cmocka 'cmocka is not installed \(libcmocka-dev\): there are no tests in this build'
[ "$(grep -c 'is built without' "$work/out")" = 1 ] || fail "both: not one line"
expect one 0 '^Tugboat is built without libfabric \(install libfabric-dev, .*\)\.$' lines -DTUGBOAT_VERBS=ON
grep -q TUGBOAT_VERBS_INCLUDE:PATH=/ "$work/build/CMakeCache.txt" || { echo "no headers of libibverbs"; exit 77; }
expect nothing 1 'Build files have been written' lines -DTUGBOAT_OFI=ON
absent nothing 'is built without'

[ $failed -eq 0 ] && echo "all fine"
exit $failed

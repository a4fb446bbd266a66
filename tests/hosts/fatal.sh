#!/usr/bin/env bash
# An error that ends the job ends it on all hosts, though all other ranks compute and one host has no other rank.
# Usage: fatal.sh BUILD_DIR. The exit status is 77 if there can be no hosts here.
set -u

build=${1:?}
here=$(dirname "$(readlink -f "$0")")
launcher=$(sed -n 's/^HOSTMPI_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
[[ $("$launcher" --version 2> /dev/null) == *HYDRA* ]] || { echo "skipped: the hosts are made for Hydra (MPICH)"; exit 77; }
failed=0
for what in window request; do
    out=$(HOSTS=3 MPIEXEC=$launcher UCX_TLS=tcp,self LD_PRELOAD=$build/lib/libtugboat.so \
        timeout -k 5 40 "$here/mpiexec_hosts.sh" -n 3 "$build/tests/mpi/bin/mpi_fatal" $what < /dev/null 2>&1)
    rc=$?
    [ $rc = 77 ] && { echo "$out"; exit 77; }
    echo "$what: status $rc: $(grep -m 1 MPI_ERRORS_ARE_FATAL <<< "$out")"
    if [ $rc = 0 ] || [ $rc = 124 ] || [ $rc = 137 ] || grep -q WRONG <<< "$out"; then
        echo "$out"
        failed=1
    fi
done
exit $failed

#!/usr/bin/env bash
# Which MPIs the library serves, and that it leaves all others alone, with one line that names them.
#
#   stand_in.sh LIBTUGBOAT MPIEXEC FOLDER PROGRAM
#
# FOLDER has the stand-ins (stand_in.c) and stand_in_program; PROGRAM makes a window on the real host.
set -u
library=$1 mpiexec=$2 folder=$3 program=$4 failed=0
for name in $(compgen -e | grep -E '^(TUGBOAT|PMI)' || true); do unset "$name"; done
unset LD_PRELOAD
aside='the program runs on .*: all calls pass through'

# fail WHAT: with what was said.
fail() {
    echo "FAILED $1"
    echo "$output"
    failed=1
}

# left_alone SAYS STAND-IN PATTERN [NAME=VALUE...]: its program runs untouched; one line matches.
left_alone() {
    local says=$1 kind=$2 pattern=$3
    shift 3
    output=$(env ${says:+"STAND_IN_SAYS=$says"} "$@" LD_PRELOAD="$library:$folder/libstand_in_$kind.so" \
        timeout 50 "$folder/stand_in_program" 2>&1) && grep -qx right <<<"$output" || fail "$kind: '$says' does not run"
    [ "$(grep -c "$aside" <<<"$output")" = 1 ] && grep -qE "$pattern" <<<"$output" || fail "$kind: '$says' is not named once"
}

# silent NAME=VALUE...: nobody says anything.
silent() {
    output=$(env STAND_IN_SAYS='Some MPI 1.0' "$@" LD_PRELOAD="$library:$folder/libstand_in_mpi.so" \
        timeout 50 "$folder/stand_in_program" 2>&1)
    [ "$output" = right ] || fail "$*: something is said"
}

# on_host SAYS STAND-IN taken|left: two ranks on the real host, which goes by another name.
on_host() {
    output=$(env STAND_IN_SAYS="$1" LD_PRELOAD="$library:$folder/libstand_in_$2.so" TUGBOAT_VERBOSE=debug \
        timeout 50 "$mpiexec" -n 2 "$program" window 2>&1) && grep -qE '^ *right' <<<"$output" || fail "$1: does not run"
    local lanes lines
    lanes=$(grep -c 'lane: ' <<<"$output") lines=$(grep -c "$aside" <<<"$output")
    if [ "$3" = taken ]; then
        [ "$lanes" -gt 0 ] && [ "$lines" = 0 ] || fail "$1: its windows are not taken"
    else
        [ "$lanes" = 0 ] && [ "$lines" = 1 ] || fail "$1: it is not left alone with one line"
    fi
}

left_alone $'Intel(R) MPI Library 2019 Update 12 for Linux* OS\n' mpi \
    'runs on Intel\(R\) MPI Library 2019 Update 12 for Linux\* OS \(libmpi\.so\.12\), which has no MPI_'
left_alone $'MPICH Version:\t3.4.3\nMPICH Release date:\tThu\n' mpi 'runs on MPICH Version: 3\.4\.3 \(libmpi.so.12\), which has no MPI_'
left_alone $'MVAPICH2 Version      :\t2.3.7\n' mpi 'runs on MVAPICH2 Version : 2\.3\.7 \(.*\), which has no MPI_'
left_alone 'MPI VERSION    : CRAY MPICH version 8.1.25 (ANL base 3.4a2)' mpi 'CRAY MPICH version 8\.1\.25 .*, which has no MPI_'
left_alone 'Some MPI 1.0, built yesterday' mpi 'runs on Some MPI 1\.0 \(libmpi\.so\.12\):'
left_alone '' mpi 'runs on an MPI that does not say its name \(libmpi\.so\.12\):'
left_alone $'MPICH Version:\t5.0.0\n' abi 'runs on MPICH Version: 5\.0\.0 \(libmpi_abi\.so\.0\):'
left_alone 'Open MPI v6.0.0, package: none' abi 'runs on Open MPI v6\.0\.0 \(libmpi_abi\.so\.0\):'
left_alone 'Some MPI 1.0' mpi 'Some MPI' PMI_RANK=0
silent PMI_RANK=1
silent TUGBOAT=off
on_host $'Intel(R) MPI Library 2021.14 for Linux* OS\n' over taken
on_host $'MVAPICH Version:\t4.0\n' over taken
on_host 'MPI VERSION    : CRAY MPICH version 9.0.0 (ANL base 4.1)' over taken
on_host 'Some MPI 9.0' over left
on_host $'MPICH Version:\t4.3.0\n' abi_over left
exit $failed

#!/usr/bin/env bash
# The Debian package on a system with a C compiler and one MPI, as a newcomer has it: installed by apt, used by the names
# that the system has (mpicc, mpiexec), removed. Usage: package.sh WORK mpich|openmpi
#
# It adds its line to WORK/results, as matrix.sh does: "MPI package VERDICT REASON".
set -uo pipefail
work=$1 mpi=$2
log=$(mktemp)
# shellcheck source=trial.sh
. "$(dirname "$0")/trial.sh"
use_launcher "$mpi" mpiexec
# the row of the table that matrix.sh has begun for this MPI
label=$(grep -m 1 "^$([ "$mpi" = mpich ] && echo MPICH || echo 'Open MPI')" "$work/results" | cut -f 1)
label=${label:-$mpi}

wrong() {
    report package wrong "$1: $(tail -n 1 "$log" | tr '\t\0' '  ' | cut -c 1-200)"
    tail -n 20 "$log" >&2
    exit 1
}
# step WHAT COMMAND...
step() {
    local what=$1
    shift
    in_time "$@" >"$log" 2>&1 <> <(:) || wrong "$what, status $?"
}
says() { grep -aE -- "$2" "$log" >/dev/null || wrong "$1 does not say '$2'"; }

step "apt-get install" apt-get install -y -q --no-install-recommends "$work"/packages/tugboat_*.deb
examples=$(dirname "$(dpkg -L tugboat | grep '/passive\.c$')")
dpkg -L tugboat | while read -r file; do [ -d "$file" ] || echo "$file"; done >/tmp/files

step "tugboat info" tugboat info
for name in mpich openmpi; do says "tugboat info" " /usr/lib.*/tugboat/libtugboat-$name\.so"; done
step "mpicc passive.c" mpicc -o /tmp/passive "$examples/passive.c"
step "passive under tugboat run" tugboat run --stats "${launch[@]}" /tmp/passive
says "passive under tugboat run" 'tugboat .* statistics, 2 ranks'
selftest package tugboat "$log" || wrong "tugboat selftest"

# linked by pkg-config, which finds the library where the package has it; and a program of LLCL and arrays
flags=$(pkg-config --cflags --libs tugboat 2>"$log") || wrong "pkg-config"
for name in 'bcast_init 64 30' 'histogram 1000 8'; do
    read -ra args <<<"$name"
    # shellcheck disable=SC2086
    step "mpicc ${args[0]}.c by pkg-config" mpicc -o "/tmp/${args[0]}" "$examples/${args[0]}.c" $flags
    step "${args[0]}, linked" "${launch[@]}" "/tmp/${args[0]}" "${args[@]:1}"
done

step "apt-get purge" apt-get purge -y -q tugboat
while read -r file; do [ ! -e "$file" ] || wrong "the package leaves $file"; done </tmp/files
report package right

#!/usr/bin/env bash
# `./dev build` on a system that has no compiler and no MPI yet: it installs what it needs, and what it builds has InfiniBand
# and libfabric. Usage: bare.sh SOURCE WORK
#
# It adds its line to WORK/results, as matrix.sh does: "MPI build VERDICT REASON".
set -uo pipefail
source_root=$1 work=$2
log=$(mktemp)
# shellcheck source=trial.sh
. "$source_root/tests/hosts/trial.sh"
# the row of the table that matrix.sh has begun
label=$(grep -m 1 '^MPICH' "$work/results" | cut -f 1)
label=${label:-MPICH}

wrong() {
    report build wrong "bare system: $1: $(tail -n 1 "$log" | tr '\t\0' '  ' | cut -c 1-200)"
    tail -n 20 "$log" >&2
    exit 1
}

! command -v cc cmake mpicc >"$log" || wrong "it has a compiler"
timeout 3600 "$source_root/dev" build >"$log" 2>&1 </dev/null || wrong "./dev build, status $?"
! grep -q 'Tugboat is built without' "$log" || wrong "./dev build leaves something out"
"$source_root/build/bin/tugboat" info >"$log" 2>&1 || wrong "tugboat info, status $?"
for way in verbs ofi; do
    grep -qE "^  ([a-z]+ )*$way( [a-z]+)*\$|^  $way +not available: .{8}" "$log" || wrong "tugboat info does not list $way"
done
! grep -q 'not in this build' "$log" || wrong "tugboat info: a transport is not in the build"
report build right

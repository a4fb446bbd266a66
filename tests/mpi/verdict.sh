#!/usr/bin/env bash
# tugboat run --verdict: its last line, and data that stay right when starts take the host's way.
#
#   verdict.sh CMAKE TUGBOAT MPIEXEC BENCHMARKS
set -u
cmake=$1 tugboat=$2 mpiexec=$3 bench=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# says PATTERN PROGRAM...: the program under --verdict is right, and the verdict has a line like that.
says() {
    local pattern=$1 status
    shift
    timeout 200 "$tugboat" run --verdict="$work/verdict.json" "$mpiexec" -n 2 "$bench/$1" --validate "${@:2}" \
        > "$work/out" 2> "$work/err"
    status=$?
    if [ $status != 0 ] || [ "$(grep -c 'verdict, 2 ranks' "$work/err")" != 1 ] ||
        ! tail -n 1 "$work/err" | grep -qE '^  Tugboat (helped|hurt|made no difference): ' ||
        ! grep -qE "$pattern" "$work/err"; then
        echo "$*: status $status, and no verdict with '$pattern':"
        tail -n 20 "$work/out" "$work/err"
        exit 1
    fi
    "$cmake" -DFILE="$work/verdict.json" -P "$here/verdict_json.cmake" || exit 1
}

says 'one-sided, by the host MPI' put_rate_threads --seconds 0.01 --samples 2
says '^  fetch_and_op +0 ' put_rate_threads --seconds 0.01 --samples 2 --op fetch_and_op
# by hand: of 100 starts of each request the 16th, 32nd and 64th are the host's, on both ranks
says 'the host MPI needs .* \(([0-9]{2,}) starts compared\)' bcast_init_sizes --seconds 0.05 --sizes 8,64K
says 'starts compared' coll_init_sizes --seconds 0.02 --sizes 8,4K --kinds barrier,reduce,allreduce
says 'leave it away' memcpy_sizes --seconds 0.01 --sizes 8
echo "five verdicts"

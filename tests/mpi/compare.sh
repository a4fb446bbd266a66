#!/usr/bin/env bash
# `tugboat compare` finds of real programs what is known of them. Usage: compare.sh TUGBOAT MPIEXEC PROGRAM
set -uo pipefail
tugboat=$1 mpiexec=$2 program=$3
unset LD_PRELOAD ${!TUGBOAT*}
. "$(dirname "$0")/../base/expect.sh"
compare() { "$tugboat" compare "$@"; }

expect better 0 '^better: ' compare "$mpiexec" -n 2 "$program" better
has better-output '^did better$'
has better-counters '^  put +1 +0 +1$'
# What a machine does meanwhile decides whether ranges of 0.1 s overlap, not that the library makes a difference.
expect same 0,10,11 '^What it took and did' compare -n 2 "$mpiexec" -n 2 "$program" same
absent same '^  put '
expect worse 11 '^worse: ' compare -n 2 "$mpiexec" -n 2 "$program" worse

[ $failed -eq 0 ] && echo "all fine"
exit $failed

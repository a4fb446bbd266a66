#!/usr/bin/env bash
# `tugboat compare` finds of real programs what is known of them. Usage: compare.sh TUGBOAT MPIEXEC PROGRAM
set -uo pipefail
tugboat=$1 mpiexec=$2 program=$3
unset LD_PRELOAD ${!TUGBOAT*}
. "$(dirname "$0")/../base/expect.sh"
compare() { "$tugboat" compare "$@"; }

expect better 0 '^better: ' compare "$mpiexec" -n 2 "$program" better
has better-output '^did better$'
has better-verdict '^Its own verdict, .* Tugboat [a-z]'
has better-waiting 'waiting +unknown: nobody counts it +[0-9.e-]+ s of 0\.[0-9]+ in MPI calls that wait'
# What a machine does meanwhile decides whether ranges of 0.1 s overlap, not that the library makes a difference.
expect same 0,10,11 'the program makes no call that it takes' compare -n 4 --json "$work/same.json" "$mpiexec" -n 2 "$program" same
has same-verdict '"verdict": \{"words": "made no difference: .*"ranks": 2' same.json
expect worse 11 '^worse: ' compare -n 2 "$mpiexec" -n 2 "$program" worse
expect collectives 0,10,11 '^Worth trying: TUGBOAT_COLLECTIVES=on, for a rank makes [0-9]+ collective calls' \
    compare -n 2 "$mpiexec" -n 2 "$program" collectives
expect given 0,10,11 '^Worth trying' \
    env TUGBOAT_COLLECTIVES=on "$tugboat" compare -n 2 "$mpiexec" -n 2 "$program" collectives
absent given 'COLLECTIVES=on, for'

[ $failed -eq 0 ] && echo "all fine"
exit $failed

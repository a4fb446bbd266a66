#!/usr/bin/env bash
# `tugboat calibrate`: measures, writes a file that the model reads, says what is a guess.
#
#   calibrate.sh TUGBOAT MPIEXEC RANKS one|emulated|cliques|tcp
#
# emulated: every rank a node of its own; cliques: two nodes; tcp: those, and a network between them.
set -uo pipefail
tugboat=$1 mpiexec=$2 ranks=$3 nodes=$4
unset LD_PRELOAD ${!TUGBOAT*}
. "$(dirname "$0")/../base/expect.sh"

case $nodes in
emulated) export MPIR_CVAR_NOLOCAL=1 many=$ranks ;;
cliques) export MPIR_CVAR_NUM_CLIQUES=2 many=2 ;;
tcp) export MPIR_CVAR_NUM_CLIQUES=2 UCX_TLS=tcp,self many=2 ;;
*) many=1 ;;
esac

# The file is written where the user is, though its name is relative.
cd "$work" || exit 1
expect calibrate 0 "^measured with $ranks ranks? on $many nodes?; written to /.*/here\.tuning\$" \
    "$tugboat" calibrate -o here.tuning "$mpiexec" -n "$ranks"
if [ "$many" = 1 ]; then
    grep -q '^only one node: what is between nodes is a guess$' "$work/out" ||
        fail "guess: not said"
else
    absent guess 'between nodes is a guess'
fi
[ "$many" = "$ranks" ] || absent guess-inside 'no two ranks on a node'
cat here.tuning
expect guess-in-file 0 "^between\.guess += $([ $many = 1 ] && echo 1 || echo 0)\$" cat here.tuning
[ "$many" = "$ranks" ] || [ "$(grep -c '^copy ' here.tuning)" -ge 2 ] ||
    fail "copies: fewer than two"

# Times of a machine, wherever it is: nothing absurd.
value() { sed -nE "s/^$1 *= *//p" here.tuning; }
for name in between.latency_us inside.latency_us between.overhead_us inside.overhead_us; do
    awk "BEGIN { exit !($(value $name) >= 0 && $(value $name) < 100000) }" ||
        fail "$name: $(value $name)"
done
for name in between.bandwidth_gb_s inside.bandwidth_gb_s; do
    awk "BEGIN { exit !($(value $name) > 0.001 && $(value $name) < 2000) }" ||
        fail "$name: $(value $name)"
done
expect model 0 "parameters: here\.tuning" env TUGBOAT_TUNING=here.tuning "$tugboat" model --nodes 2 --ppn 2

expect no-folder 125 'cannot write /no/such/folder/x: No such file' \
    "$tugboat" calibrate -o /no/such/folder/x "$mpiexec" -n 1
if [ "$ranks" = 1 ]; then
    expect nothing 2 'calibrate needs a launcher' "$tugboat" calibrate
    expect nothing-behind 2 'calibrate needs a launcher' "$tugboat" calibrate -o x
    expect option 2 "calibrate has no option '-x'" "$tugboat" calibrate -x mpiexec
    expect no-launcher 127 'cannot run no-such-launcher' "$tugboat" calibrate no-such-launcher
    expect bad-setting 125 'TUGBOAT_RING_SIZE=3 is not allowed' \
        env TUGBOAT_RING_SIZE=3 "$tugboat" calibrate -o x "$mpiexec" -n 1
fi
exit $failed

#!/usr/bin/env bash
# `tugboat model`, from outside. Usage: model.sh TUGBOAT
set -uo pipefail
tugboat=$1
unset LD_PRELOAD ${!TUGBOAT*}
. "$(dirname "$0")/expect.sh"

# cell ROW COLUMN: of the table in the last output, columns from the left.
cell() { awk -v row="$1" -v column="$2" '$1 == row { print $column }' "$work/out"; }
# check NAME AWK-CONDITION
check() { awk "BEGIN { exit !($2) }" || fail "$1: $2"; }

expect default 0 '^2 nodes x 1 rank; parameters: default, a guess between nodes$' "$tugboat" model
expect default-sizes 0 '^ +64M ' "$tugboat" model
[ "$(grep -cE '^ +[0-9]+[KM] ' "$work/out")" = 17 ] || fail "default: not 17 sizes"
expect one-node 0 '^1 node x 2 ranks; parameters: default$' "$tugboat" model --nodes 1 --ppn 2 --size 1000

# The paper's machine: pipelines, two phases, and the simulation, which agrees.
paper=(model --nodes 36 --ppn 4 --torus 3x3x4 --parameters fx100)
expect paper 0 '^36 nodes x 4 ranks, torus 3x3x4; parameters: fx100$' "$tugboat" "${paper[@]}" --size 64M --simulate
check relay "$(cell 64M 6) < $(cell 64M 7) && $(cell 64M 7) < $(cell 64M 2)"
check ratio "$(cell 64M 13) > 0.9 && $(cell 64M 13) < 1.1"
check twice-7-GB/s "67.108864 / $(cell 64M 7) * 1000 >= 14"
expect tree 0 'fat tree with 16 nodes a switch, tapered 2 to 1' \
    "$tugboat" model --nodes 40 --tree 16:2 --size 8 --simulate
expect algorithm 0 '^ +1G ' "$tugboat" "${paper[@]}" --size 512M:1G --algorithm chain
absent algorithm 'trinary'

expect dump 0 '^ +receive +.* rank [0-9]+ tag 0' "$tugboat" model --nodes 3 --size 1M --dump=2 --algorithm chain
expect dump-root 0 '^ +send ' "$tugboat" model --nodes 3 --size 1M --dump
absent dump-root 'receive'
expect json 0 '^  "nodes": 12,$' "$tugboat" model --nodes 12 --ppn 4 --size 1:3 --json --simulate
if command -v python3 >/dev/null; then
    python3 - "$work/out" <<'PYTHON' || failed=1
import json, sys
sizes = json.load(open(sys.argv[1]))["sizes"]
assert [s["bytes"] for s in sizes] == [1, 2, 3], sizes
for size in sizes:
    times = [way["predicted_s"] for way in size["ways"]]
    assert len(times) == 6 and times == sorted(times) and min(times) > 0, times
    assert all(way["simulated_s"] > 0 for way in size["ways"]), size
PYTHON
fi

# Parameters of one's own: by an option, by the setting, and none of the setting's business.
printf 'between.latency_us = 1000\n' >"$work/slow"
expect file 0 "parameters: $work/slow\$" "$tugboat" model --size 8 --parameters "$work/slow"
check file-used "$(cell 8 2) > 1000"
expect setting 0 "parameters: $work/slow\$" env TUGBOAT_TUNING="$work/slow" "$tugboat" model --size 8
expect setting-overruled 0 'parameters: fx100$' \
    env TUGBOAT_TUNING="$work/slow" "$tugboat" model --size 8 --parameters fx100
printf '\nbetween.latency = 4\n' >"$work/bad"
expect bad-file 1 "^tugboat: $work/bad:2: between\.latency: it must be one of the names" \
    "$tugboat" model --parameters "$work/bad"
expect no-file 1 '/no/such/file: No such file' "$tugboat" model --parameters /no/such/file
expect no-machine 1 'parameters are a file, default, or fx100' "$tugboat" model --parameters cray

# Its own relay beside ours, only there: one engine loses against two phases, and why ours does not is said.
expect one-engine 0 '^a broadcast of 64M takes [0-9.]+ us \(simulated: [0-9.]+\), and two-phase is faster, with' \
    "$tugboat" "${paper[@]}" --size 64M --simulate
has one-engine '^Our relay is faster than two-phase, .*as many engines as two-phase \(4\), not with one,$'
expect one-engine-json 0 '"trinary", "phases": "one-engine", .*"simulated_s": ' \
    "$tugboat" model --nodes 12 --ppn 2 --parameters fx100 --torus 2x2x3 --size 64M --simulate --json
expect segment 0 '^ +64M .* 64M ' "$tugboat" model --nodes 12 --size 64M --segment 64M
expect no-engine 0 'bytes' "$tugboat" model --nodes 12 --ppn 4
absent no-engine 'one-engine'

# What is wrong is said, and nothing else.
wrong() {
    local pattern=$1
    shift
    expect "wrong: $*" 2 "^tugboat: model.*$pattern" "$tugboat" model "$@"
    [ "$(wc -l <"$work/out")" = 1 ] || fail "wrong: $*: more than one line"
}
wrong "has no option '--speed'" --speed
wrong "wants a value behind '--nodes'" --nodes
wrong "takes no argument 'all'" all
for number in 0 -1 1.5 x 99999999999; do
    wrong "--nodes $number: it must be a whole number" --nodes "$number"
    wrong "--ppn $number: it must be a whole number" --ppn "$number"
done
for size in 0 -1 1X K 4K:1K 1: :1 1K:2K:3K 99999999G; do
    wrong "--size $size: it must be bytes" --size "$size"
done
for torus in 2 2x2 2x2x 0x2x2 2x2x2x2 axbxc; do
    wrong "--torus $torus: it must be nodes along three axes" --nodes 8 --torus $torus
done
wrong '--segment 64X: it must be bytes' --segment 64X
wrong 'another number of nodes' --nodes 9 --torus 2x2x2
wrong 'a torus or a tree' --nodes 8 --torus 2x2x2 --tree 4
wrong '--tree 4:0: it must be' --tree 4:0
wrong '--algorithm best: it must be chain, binomial or trinary' --algorithm best
wrong '--dump wants one size' --dump
wrong '--dump wants a rank' --size 1K --dump=2
wrong 'more ranks than MPI' --nodes 100000 --ppn 100000
wrong 'at most 4000000 ranks' --nodes 5000000 --simulate

[ $failed -eq 0 ] && echo "all fine"
exit $failed

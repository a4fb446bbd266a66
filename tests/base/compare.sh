#!/usr/bin/env bash
# `tugboat compare`, from outside: programs that are faster, as fast and slower with the library, fail with it or
# without it, and are broken off. What they do in MPI is of no matter here. Usage: compare.sh TUGBOAT
set -uo pipefail
tugboat=$1
unset LD_PRELOAD ${!TUGBOAT*}
. "$(dirname "$0")/expect.sh"
cd "$work" || exit 2

# sleeper WITHOUT-S WITH-S [WITHOUT-STATUS WITH-STATUS]
cat >sleeper <<'TEXT'
#!/bin/sh
echo "said without=$TUGBOAT stats=$TUGBOAT_STATS $(cat)"
case $LD_PRELOAD in
*libtugboat.so*) sleep "$2"; exit "${4-0}" ;;
*) sleep "$1"; exit "${3-0}" ;;
esac
TEXT
chmod +x sleeper
compare() { "$tugboat" compare "$@"; }

expect better 0 '^better: the wall time is less' compare --json better.json ./sleeper 0.3 0.02
has first-shown '^said without=off stats= $'
[ "$(grep -c '^said' out)" = 1 ] || fail "better: the output of other runs is shown"
has better-line 'wall time .* less: -[0-9.]+ % \('
has better-runs '^# run 7 of 7, with Tugboat, which counts what it took'
has better-uncounted 'The library counted nothing in a run that asks it to'
has better-json '"outcome": "better"' better.json
[ "$(grep -c '"values": \[[0-9.e-]*, [0-9.e-]*, [0-9.e-]*\]' better.json)" = 4 ] || fail "better: values"
expect worse 11 '^worse: the wall time is more' compare -n 2 ./sleeper 0.02 0.3
has worse-line 'wall time .* more: \+[0-9.]+ % \('
has worse-runs '^# run 5 of 5,'
# Nothing else is so alike on a machine that does other things as two lengths that overlap.
expect same 10 '^same: the wall time is the same' compare -n 2 sh -c 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n
    sleep 0.$((n / 2 % 2 * 4 + 1))'
has same-line 'wall time .* same$'
# CPU time of all processes, also of one for which nobody waits.
busy='(i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); done) & [ -n "$LD_PRELOAD" ] || wait'
expect orphans 0,10,11 'CPU time' compare -n 2 --json cpu.json sh -c "$busy"
if command -v python3 >/dev/null; then
    for file in better cpu; do
        python3 -m json.tool $file.json >/dev/null || fail "$file.json is no JSON"
    done
    python3 - <<'TEXT' || fail "orphans: their CPU time does not count: $(cat cpu.json)"
import json, sys
cpu = json.load(open("cpu.json"))["cpu_s"]
sys.exit(not 0.3 < cpu["with"]["median"] / cpu["without"]["median"] < 3)
TEXT
fi

expect no-child-signal 0,10,11 'wall time' sh -c 'trap "" CHLD; exec "$@"' sh "$tugboat" compare -n 2 true
expect no-input 0 '^said without=off stats= $' sh -c 'echo lost | "$@"' sh \
    "$tugboat" compare -n 2 ./sleeper 0.3 0.02 # a pipe is read by nobody
echo 'words of the user' >input
expect input 0 '^said without=off stats= words of the user$' sh -c '"$@" <input' sh \
    "$tugboat" compare -n 2 --output kept ./sleeper 0.3 0.02
for name in without-1 without-2 with-1 with-2 with-3; do
    [ -e kept/$name.err ] && grep -q 'words of the user' kept/$name.out || fail "output: $name"
done
grep -q 'stats=1' kept/with-3.out || fail "output: the run that counts"
# The last block of counters is reported, without zeros and what stands around it.
cat >counter <<'TEXT'
#!/bin/sh
[ -z "$TUGBOAT_STATS" ] || printf '%s\n' 'before  it' 'tugboat 1 statistics, 2 ranks' '  calls     taken' '  put        12 0' \
    '  engine    count' '  helps       0   times' '  wakes       3   times' 'behind it' >&2
TEXT
chmod +x counter
expect counted 0,10,11 '^  put +12 0$' compare -n 2 --json counted.json ./counter
has counted-engine '^  wakes +3 '
absent counted-zero 'helps|before|behind'
has counted-json '"counters": ".*wakes  .*times.u000a"' counted.json
expect keeps-preload 0,10,11 '^preloaded other\.so$' env LD_PRELOAD="other.so:/x/libtugboat.so.0" "$tugboat" \
    compare -n 2 sh -c 'echo "preloaded $LD_PRELOAD"'

expect fails-with 13 'fails with the library only: run 2 ends with exit status 3' \
    compare --json f.json ./sleeper 0 0 0 3
has fails-with-json '"failures": \{"without": null, "with": "run 2 ends with exit status 3"\}' f.json
has fails-with-output '^# run 2 of 7, with Tugboat: it fails; the end of what it wrote:'
[ "$(grep -c '^said' out)" = 2 ] || fail "fails-with: what it wrote is not shown"
expect fails-without 12 'fails without the library: run 1 ends with exit status 4\. With it, it ends well' \
    compare ./sleeper 0 0 4 0
expect fails-both 12 'status 4\. With it, it fails as well: run 2 is killed by signal 9' \
    compare sh -c '[ -z "$LD_PRELOAD" ] && exit 4; kill -9 $$'

expect not-found 127 'cannot run no-such-program: No such file' compare no-such-program
: >plain
expect not-executable 126 'cannot run \./plain: Permission denied' compare ./plain
expect no-command 2 'compare needs a command' compare -n 4
expect runs 2 'compare -n 1: it must be a number of runs, 2 to 1000' compare -n 1 true
expect option 2 "compare has no option '--fast'" compare --fast true
expect value 2 "compare wants a value behind '--json'" compare --json
expect off 2 'TUGBOAT=off is in the environment' env TUGBOAT=off "$tugboat" compare true
expect setting 2 'TUGBOAT_RMA=x is not allowed' env TUGBOAT_RMA=x "$tugboat" compare true
expect json-folder 125 'no-folder/x\.json: No such file' compare --json no-folder/x.json true
absent json-folder '^# run'
expect help 0 '^usage: tugboat' compare --help

# Broken off, as by ctrl-C: the program is told, and what does not listen is killed.
set -m # else what is started with & ignores SIGINT
for signal in INT TERM; do
    rm -f told pids
    "$tugboat" compare sh -c 'trap "echo told >told; exit 1" INT TERM
        sh -c "trap \"\" INT TERM; echo \$\$ >>pids; while :; do sleep 0.1; done" &
        (setsid sleep 60 & echo $! >>pids)
        wait' >out 2>&1 &
    for ((i = 0; i < 100; i++)); do
        [ "$(wc -l 2>/dev/null <pids)" = 2 ] && break
        sleep 0.1
    done
    kill -$signal $!
    wait $!
    status=$?
    [ $status = $((128 + $(kill -l $signal))) ] || fail "SIG$signal: status $status"
    [ -e told ] || fail "SIG$signal: the program was not told"
    has "SIG$signal" 'broken off by a signal'
    while read -r pid; do
        ! kill -0 "$pid" 2>/dev/null || fail "SIG$signal: process $pid is left"
    done <pids
    [ "$(wc -l <pids)" = 2 ] || fail "SIG$signal: $(cat pids)"
done

[ $failed -eq 0 ] && echo "all fine"
exit $failed

#!/usr/bin/env bash
# Tests of versus against commands whose figures are known: medians, ratios both ways, order of rounds,
# requirements, failures, time limits and wrong usage. No MPI.
set -uo pipefail

versus=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nfailed=0

fail() {
    echo "FAIL: $1"
    nfailed=$((nfailed + 1))
}

# expect CASE STATUS ARGUMENTS...: runs versus, leaves its output in $work/out and $work/err.
expect() {
    local case=$1 wanted=$2
    shift 2
    "$versus" "$@" >"$work/out" 2>"$work/err"
    local status=$?
    ((status == wanted)) || fail "$case: exit status $status, not $wanted: $(cat "$work/err")"
}

# has CASE FILE PATTERN: the file has a line that matches.
has() {
    grep -Eq -- "$3" "$work/$2" || fail "$1: no line '$3' in: $(cat "$work/$2")"
}

# A command that prints the next of the given values each time it is run.
cat >"$work/next" <<'SCRIPT'
#!/usr/bin/env bash
# next NAME BETTER VALUE...
state=$(dirname "$0")/$1.count
n=$(cat "$state" 2>/dev/null || echo 0)
echo $((n + 1)) >"$state"
echo "$1" >>"$(dirname "$0")/order"
better=$2
shift 2
values=("$@")
echo "# a remark, with a comma"
echo "key:op,key:bytes,$better:us,other"
echo "put,8,${values[n % ${#values[@]}]},99"
echo "get,8,10,99"
SCRIPT
chmod +x "$work/next"
fresh() { rm -f "$work"/*.count "$work/order"; }

fresh
expect medians 0 --rounds 3 --name host --name tug --csv \
    -- "$work/next" a lower 100 400 1 -- "$work/next" b lower 50 20 25
has medians out '^,put/8,us,lower,100,25,4,yes,0,0,1,400,0,20,50,0$'
has medians out '^,get/8,us,lower,10,10,1,yes,0,0,10,10,0,10,10,0$'
[[ $(tr '\n' ' ' <"$work/order") == "a b b a a b " ]] || fail "order: $(cat "$work/order")"

fresh
expect higher 0 --rounds 2 --csv -- "$work/next" a higher 1 3 -- "$work/next" b higher 4
has higher out '^,put/8,us,higher,2,4,2,no,0,0,1,3,0,4,4,0$'

fresh
expect slower 0 --rounds 2 --name host --name tug -- "$work/next" a lower 1 -- "$work/next" b lower 2
has slower out '^put +8 +1\.00 +2\.00 +x0\.50 +<- tug is slower$'

fresh
expect overlap 0 --rounds 2 --name host --name tug -- "$work/next" a lower 1 5 -- "$work/next" b lower 4
has overlap out '<- tug is slower \(ranges overlap\)$'

fresh
expect bar_met 0 --rounds 1 --require 'put/*>=2' -- "$work/next" a lower 4 -- "$work/next" b lower 2
expect bar_missed 1 --rounds 1 --require 'put/*>=2.1' -- "$work/next" a lower 4 -- "$work/next" b lower 2
has bar_missed err 'put/8 is x2\.00, x2\.10 is required'
expect bar_unmatched 1 --rounds 1 --require 'acc*>=1' -- "$work/next" a lower 4 -- "$work/next" b lower 2
expect bar_named 1 --rounds 1 --name h --name x --name y --require 'y@put*>=2' \
    -- "$work/next" a lower 4 -- "$work/next" b lower 1 -- "$work/next" c lower 3
expect bar_other 0 --rounds 1 --name h --name x --name y --require 'x@put*>=2' \
    -- "$work/next" a lower 4 -- "$work/next" b lower 1 -- "$work/next" c lower 3
expect value_met 0 --rounds 1 --require 'put/8<=2' -- "$work/next" a lower 4 -- "$work/next" b lower 2
expect value_missed 1 --rounds 1 --require 'put/8<=1.9' -- "$work/next" a lower 4 -- "$work/next" b lower 2
has value_missed err 'put/8 has us 2, at most 1\.9 is required'
expect bar_unread 2 --require 'put/8=2' -- true -- true
expect bar_nobody 2 --require 'z@put*>=2' -- true -- true

expect failing 2 --rounds 2 --name host --name tug \
    -- "$work/next" a lower 4 -- bash -c 'echo "key:op,key:bytes,lower:us,other"; echo "put,8,1,0"; echo why >&2; exit 3'
has failing out '!! tug FAILED in 2 of 2 rounds: exit status 3: why'
has failing out '^put +8 .* failed +-$'

expect killed 2 --rounds 1 -- "$work/next" a lower 4 -- bash -c 'kill -SEGV $$'
has killed err 'killed by signal 11'
expect missing 2 --rounds 1 -- "$work/next" a lower 4 -- "$work/no-such-program"
has missing err 'exit status 127'
expect silent 2 --rounds 1 -- "$work/next" a lower 4 -- true
has silent err 'printed no rows'
expect nonsense 2 --rounds 1 -- "$work/next" a lower 4 -- "$work/next" b lower many
has nonsense err "'many' is no value"
expect different 2 --rounds 1 -- "$work/next" a lower 4 -- "$work/next" b higher 4
has different err 'cannot be compared'

# A command that does not end is ended with all it started.
SECONDS=0
expect slow 2 --rounds 1 --timeout 0.5 -- "$work/next" a lower 4 \
    -- bash -c "trap '' TERM; sleep 300 & echo \$! >$work/child; wait; wait"
((SECONDS < 150)) || fail "slow: took $SECONDS s"
has slow err 'not done after 0\.5 s'
child=$(cat "$work/child")
for ((i = 0; i < 600; i++)); do # the orphan is gone when init has seen its end
    kill -0 "$child" 2>/dev/null || break
    sleep 0.1
done
((i < 600)) || fail "slow: its child $child lives on"

wrong='echo "key:op,lower:us,wrong:words"; echo "put,8,3"'
expect wrong 0 --rounds 2 --name host --name tug -- bash -c "$wrong" -- bash -c "${wrong/,3/,0}"
has wrong out '^put +8\.00 +8\.00 +x1\.00  <- host: WRONG DATA$'
expect wrong_csv 0 --rounds 2 --csv -- bash -c "$wrong" -- bash -c "${wrong/,3/,0}"
has wrong_csv out '^,put,us,lower,8,8,1,yes,0,0,8,8,6,8,8,0$'

fresh
expect json 0 --rounds 2 --title 'a "title"' --json="$work/file.json" \
    -- "$work/next" a lower 4 -- "$work/next" b lower 2
has json file.json '"title": "a \\"title\\""'
has json file.json '"key": "put/8", "medians": \[4, 2\], "ratios": \[2\], "sorted_samples": \[\[4, 4\], \[2, 2\]\]'
has json out '^put +8 +4\.00 +2\.00 +x2\.00$'

expect usage_one 2 -- true
expect usage_empty 2 -- -- true
expect usage_rounds 2 --rounds 0 -- true -- true
expect help 0 --help

((nfailed == 0)) && echo "all cases hold"
exit $((nfailed > 0))

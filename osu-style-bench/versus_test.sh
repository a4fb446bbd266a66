#!/usr/bin/env bash
# Tests of versus against commands whose figures are known: medians, ratios both ways, order of rounds,
# requirements, failures, time limits and wrong usage. No MPI.
set -uo pipefail

versus=$1
. "$(dirname "$0")/../tests/base/expect.sh"

# try CASE STATUS ARGUMENTS...: runs versus.
try() {
    expect "$1" "$2" '' "$versus" "${@:3}"
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
try medians 0 --rounds 3 --name host --name tug --csv \
    -- "$work/next" a lower 100 400 1 -- "$work/next" b lower 50 20 25
has medians '^,put/8,us,lower,100,25,4,yes,0,0,1,400,0,20,50,0$'
has medians '^,get/8,us,lower,10,10,1,yes,0,0,10,10,0,10,10,0$'
[[ $(tr '\n' ' ' <"$work/order") == "a b b a a b " ]] || fail "order: $(cat "$work/order")"

fresh
try higher 0 --rounds 2 --csv -- "$work/next" a higher 1 3 -- "$work/next" b higher 4
has higher '^,put/8,us,higher,2,4,2,no,0,0,1,3,0,4,4,0$'

fresh
try slower 0 --rounds 2 --name host --name tug -- "$work/next" a lower 1 -- "$work/next" b lower 2
has slower '^put +8 +1\.00 +2\.00 +x0\.50 +<- tug is slower$'

fresh
try overlap 0 --rounds 2 --name host --name tug -- "$work/next" a lower 1 5 -- "$work/next" b lower 4
has overlap '<- tug is slower \(ranges overlap\)$'

fresh
try bar_met 0 --rounds 1 --require 'put/*>=2' -- "$work/next" a lower 4 -- "$work/next" b lower 2
try bar_missed 1 --rounds 1 --require 'put/*>=2.1' -- "$work/next" a lower 4 -- "$work/next" b lower 2
has bar_missed 'put/8 is x2\.00, x2\.10 is required'
try bar_unmatched 1 --rounds 1 --require 'acc*>=1' -- "$work/next" a lower 4 -- "$work/next" b lower 2
try bar_named 1 --rounds 1 --name h --name x --name y --require 'y@put*>=2' \
    -- "$work/next" a lower 4 -- "$work/next" b lower 1 -- "$work/next" c lower 3
try bar_other 0 --rounds 1 --name h --name x --name y --require 'x@put*>=2' \
    -- "$work/next" a lower 4 -- "$work/next" b lower 1 -- "$work/next" c lower 3
try value_met 0 --rounds 1 --require 'put/8<=2' -- "$work/next" a lower 4 -- "$work/next" b lower 2
try value_missed 1 --rounds 1 --require 'put/8<=1.9' -- "$work/next" a lower 4 -- "$work/next" b lower 2
has value_missed 'put/8 has us 2, at most 1\.9 is required'
try bar_unread 2 --require 'put/8=2' -- true -- true
try bar_nobody 2 --require 'z@put*>=2' -- true -- true

try failing 2 --rounds 2 --name host --name tug \
    -- "$work/next" a lower 4 -- bash -c 'echo "key:op,key:bytes,lower:us,other"; echo "put,8,1,0"; echo why >&2; exit 3'
has failing '!! tug FAILED in 2 of 2 rounds: exit status 3: why'
has failing '^put +8 .* failed +-$'

try killed 2 --rounds 1 -- "$work/next" a lower 4 -- bash -c 'kill -SEGV $$'
has killed 'killed by signal 11'
try missing 2 --rounds 1 -- "$work/next" a lower 4 -- "$work/no-such-program"
has missing 'exit status 127'
try silent 2 --rounds 1 -- "$work/next" a lower 4 -- true
has silent 'printed no rows'
try nonsense 2 --rounds 1 -- "$work/next" a lower 4 -- "$work/next" b lower many
has nonsense "'many' is no value"
try different 2 --rounds 1 -- "$work/next" a lower 4 -- "$work/next" b higher 4
has different 'cannot be compared'

# A command that does not end is ended with all it started.
SECONDS=0
try slow 2 --rounds 1 --timeout 0.5 -- "$work/next" a lower 4 \
    -- bash -c "trap '' TERM; sleep 300 & echo \$! >$work/child; wait; wait"
((SECONDS < 150)) || fail "slow: took $SECONDS s"
has slow 'not done after 0\.5 s'
child=$(cat "$work/child")
for ((i = 0; i < 600; i++)); do # the orphan is gone when init has seen its end
    kill -0 "$child" 2>/dev/null || break
    sleep 0.1
done
((i < 600)) || fail "slow: its child $child lives on"

wrong='echo "key:op,lower:us,wrong:words"; echo "put,8,3"'
try wrong 0 --rounds 2 --name host --name tug -- bash -c "$wrong" -- bash -c "${wrong/,3/,0}"
has wrong '^put +8\.00 +8\.00 +x1\.00  <- host: WRONG DATA$'
try wrong_csv 0 --rounds 2 --csv -- bash -c "$wrong" -- bash -c "${wrong/,3/,0}"
has wrong_csv '^,put,us,lower,8,8,1,yes,0,0,8,8,6,8,8,0$'

fresh
try json 0 --rounds 2 --title 'a "title"' --json="$work/file.json" \
    -- "$work/next" a lower 4 -- "$work/next" b lower 2
has json '"title": "a \\"title\\""' file.json
has json '"key": "put/8", "medians": \[4, 2\], "ratios": \[2\], "sorted_samples": \[\[4, 4\], \[2, 2\]\]' file.json
has json '^put +8 +4\.00 +2\.00 +x2\.00$'

try usage_one 2 -- true
try usage_empty 2 -- -- true
try usage_rounds 2 --rounds 0 -- true -- true
try help 0 --help

exit $failed

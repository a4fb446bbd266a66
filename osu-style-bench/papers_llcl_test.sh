#!/usr/bin/env bash
# papers_llcl_test.sh: medians of runs, and the verdicts on what Endo and Taura say of their layer, from made-up numbers.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fail() {
    echo "papers_llcl_test: $*" >&2
    exit 1
}

# ---- medians: three rounds, the second of which met a slow machine ----

header=way,transport,key:threads,key:bytes,lower:latency_us,latency_low,latency_high,overhead_us,overhead_low,overhead_high,rate_mops,rate_low,rate_high,taken_percent,taken_low,taken_high,lost_percent,lost_low,lost_high,samples
run() { # DRIVER LATENCY LOW HIGH
    printf '%s\n' "$1,$header" "$1,way,shm,1,8,$2,$3,$4,0.1,0.1,0.2,5,4,6,-1,-2,3,nan,nan,nan,3"
}
{
    run caller 2 1 4
    run thread 3 2.5 9
    run host 4 4 4
    run thread 30 20 40
    run host 20 20 20
    run caller 40 30 50
    run host 2 2 2
    run caller 4 3 5
    run thread 4 3 5
} >"$work/runs.csv"
awk -F, -f "$here/papers_llcl.awk" "$work/runs.csv" >"$work/medians.csv"
diff - "$work/medians.csv" <<'CSV' || fail "the medians (>) are not those (<)"
way,transport,threads,bytes,latency,latency_low,latency_high,overhead,overhead_low,overhead_high,rate,rate_low,rate_high,taken,lost,to_host
caller,shm,1,8,4,1,50,0.1,0.1,0.2,5,4,6,-1,,2
thread,shm,1,8,4,2.5,40,0.1,0.1,0.2,5,4,6,-1,,1.5
host,shm,1,8,4,2,20,0.1,0.1,0.2,5,4,6,-1,,1
CSV

# ---- verdicts ----

medians() { # LATENCY OVERHEAD TAKEN LOST TO_HOST RATE OVERHEAD_OF_4 RATE_OF_4: of the thread; the caller and the host stay as they are
    head -n 1 "$work/medians.csv"
    printf '%s\n' caller,shm,1,8,2.5,,,0.2,,,5,,,1,50,1.25 host,shm,1,8,2,,,0.3,,,1,,,0,60,1 \
        "thread,shm,1,8,$1,,,$2,,,$6,,,$3,$4,$5" caller,shm,4,8,2.5,,,0.2,,,4,,,,,1.25 "thread,shm,4,8,9,,,$7,,,$8,,,,,4"
}
# said CORES GIVEN: the verdicts, a line each
said() { awk -F, -f "$here/papers_claims.awk" -v where=here -v cores="$1" -v given="$2" "$work/medians.csv.made" | sed 's|.*<td>\(.*\)</td></tr>|\1|'; }
expect() { # WHAT CORES GIVEN VERDICT...
    diff <(printf '%s\n' "${@:4}") <(said "$2" "$3") || fail "$1: the verdicts (>) are not those (<)"
}
yes=holds no='does not hold' not='cannot be shown here'

# at the paper's numbers to the digit: latency to host and caller, call, call to caller, part, taken, lost, call of 4, rate of 4, rate to caller
medians 2.8 0.117 4.19 4.19 1.19 5.8 0.196 5.104 >"$work/medians.csv.made"
expect "as in the paper, two cores" 2 0 $yes $yes $yes $yes $yes $yes $yes $yes $yes $yes

# all a little worse
medians 2.8 0.3 4.2 4.2 1.4 5.7 0.5 4.9 >"$work/medians.csv.made"
expect "worse, two cores shared" 2 0 "$not" "$not" "$not" "$not" "$not" "$not" "$not" "$not" "$not" "$not"
expect "worse, three cores" 3 0 "$not" "$not" "$not" "$not" "$not" "$not" "$not" "$not" "$not" "$not"
expect "worse, a core for each of one calling thread" 4 0 "$no" "$no" "$no" "$no" "$no" "$no" "$no" "$not" "$not" "$no"
expect "worse, a core for each of four calling threads" 7 0 "$no" "$no" "$no" "$no" "$no" "$no" "$no" "$no" "$no" "$no"
# the host goes another way than over the card
expect "worse, the thread was given a core" 2 1 "$not" "$no" "$no" "$no" "$no" "$no" "$no" "$not" "$not" "$no"

# a call that is a small part of a slow read
medians 28 0.117 4 4 14 5.8 0.19 5.2 >"$work/medians.csv.made"
expect "slow reads, a core for each" 4 0 "$no" "$no" $yes $yes "$no" $yes $yes $yes $yes $yes
expect "slow reads, two cores shared" 2 0 "$not" "$not" $yes $yes "$not" $yes $yes $yes $yes $yes

# nothing was measured of the thread
sed -i '/^thread/d' "$work/medians.csv.made"
said 64 0 | grep -v "^$not$" && fail "something that was not measured has a verdict"

# what stands beside a verdict
medians 2.5 0.1 1 2 1.25 5 0.1 5 >"$work/medians.csv.made"
awk -F, -f "$here/papers_claims.awk" -v where=here -v cores=4 -v given=0 "$work/medians.csv.made" | head -n 1 >"$work/row"
diff - "$work/row" <<'HTML' || fail "the first row (>) is not that (<)"
<tr><td>here</td><td>latency, 8 bytes, 1 thread, &#181;s; thread / host</td><td>2.500</td><td>2.500</td><td>2.000</td><td>x1.25</td><td>x1.19 (2.813 / 2.365 on Tofu)</td><td>does not hold</td></tr>
HTML
echo "all fine"

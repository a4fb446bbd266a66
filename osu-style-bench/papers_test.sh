#!/usr/bin/env bash
# papers_test.sh BUILD_DIR: are all figures on the page of the papers, and do its claims follow from the data that are
# drawn? Exit status 77 where gnuplot is missing.
set -uo pipefail

build=$(cd "${1:?usage: papers_test.sh BUILD_DIR}" && pwd) || exit 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not there"; exit 77; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fail() {
    echo "papers_test: $*" >&2
    exit 1
}

bash "$here/papers.sh" "$build" --out "$work" --tiny 2>"$work/log" || fail "no page: $(cat "$work/log")"
page=$work/papers.html
nfigures=15
ngroups=7
for part in '<svg' '</svg>' '<figcaption>'; do
    [ "$(grep -c "$part" "$page")" = $nfigures ] || fail "not $nfigures of $part"
done
[ "$(grep -c 'The same: ' "$page")" = $ngroups ] || fail "not every group says what is the same"
[ "$(grep -c 'Not the same: ' "$page")" = $ngroups ] || fail "not every group says what is not the same"

# The low-level layer: the largest rates and the ratio of latencies, again from the rows.
for transport in shm tcp; do
    data=$work/data/llcl_$transport.csv
    [ "$(grep -c "^\(engine\|queues\|host\),$transport,[14],\(8\|4096\)," "$data")" = 12 ] || fail "$data: not all rows"
    for way in 'engine:with offload' 'queues:without' 'host:host'; do
        most=$(awk -F, -v way="${way%%:*}" '$1 == way && $9 > most { most = $9 } END { printf "%.2f", most }' "$data")
        grep -q "<li>Largest rate: .*${way#*:} $most M/s" "$page" || fail "$transport, $way: $most M/s is not claimed"
    done
    ratio=$(awk -F, '$3 == 1 && $4 == 8 { us[$1] = $5 } END { printf "%.2f", us["engine"] / us["queues"] }' "$data")
    grep -q "<li>Latency, 8 bytes, 1 thread: .* ratio ${ratio}[ ;]" "$page" || fail "$transport: ratio $ratio is not claimed"
done

# ACP: ratios to the ping-pong, again from the rows.
for op in put get; do
    ends=$(awk -F, -v op=$op '$1 == op { printf "%s%d bytes x%.2f", n++ ? ", " : "", $2, $3 / $4 }' "$work/data/acp.csv")
    grep -qF "<li>Time of a $op against the ping-pong: $ends;" "$page" || fail "ACP, $op: $ends is not claimed"
done

# ACP's memory for a million ranks: the sums, again from the rows.
sums=$(awk -F, '$1 == 1000000 { printf "%d of them in use: %.1f MB,.*: x%.2f of\n", $2, ($3 + $4) / 1e6, ($3 + $4) / 186e6 }' "$work/data/acp_memory.csv")
[ "$(wc -l <<<"$sums")" = 2 ] || fail "ACP's memory: not two rows for a million ranks"
while IFS= read -r sum; do
    grep -q "<li>1000000 ranks, $sum the paper" "$page" || fail "ACP's memory: $sum is not claimed"
done <<<"$sums"
awk -F, 'FNR > 1 && !($3 > 0 && $4 > 0 && $5 > 0) { bad = 1 } END { exit bad }' "$work/data/acp_memory.csv" || fail "ACP's memory: a part is missing"

# Relocatable global arrays: factors, and what own costs, again from the rows.
for transport in tcp:TCP 'shm:shared memory'; do
    data=$work/data/gas_${transport%%:*}.csv
    title=${transport#*:}
    [ "$(grep -cE '^(distinct|owner=home|owner=reader),(64|4096),' "$data")" = 6 ] || fail "$data: not all rows"
    factors() { awk -F, -v name="$1" '$1 == name { printf "%.4f %.2f\n", $4 / $3, $4 / $3 }' "$data" | sort -n | awk '{ print "x" $2 }'; }
    for name in distinct owner=home owner=reader; do
        case $name in
            distinct) says="<li>$title, three processes: a get is %s faster" ;;
            owner=home) says="<li>$title, controls: owner = home %s;" ;;
            *) says="; owner = reader %s (it never" ;;
        esac
        says=${says/\%s/$(factors $name | paste -sd- | sed 's/-/ to /')}
        grep -qF -- "$says" "$page" || fail "'$says' is not claimed"
    done
    cost=$(awk -F, '$1 == "distinct" { printf "%s%.2f %sat %d%s", n ? ", " : "", $6, n ? "" : "&#181;s ", $2, n++ ? "" : " bytes" }' "$data")
    grep -qF "<li>$title, own: three processes $cost;" "$page" || fail "own over $title: '$cost' is not claimed"
done
against=$(awk -F, 'FNR > 1 { printf "x%.2f\n", $4 / ($2 < $3 ? $2 : $3) }' "$work/data/gas_users.csv")
[ "$(sed -n 's|^<tr>.*<td>\(x[0-9.]*\)</td><td>[a-z ]*</td></tr>$|\1|p' "$page")" = "$against" ] || fail "automatic against the best by hand is not: $against"
fastest=$(awk -F, 'FNR > 1 { print $2 <= $3 && $2 <= $4 ? "own" : $3 <= $4 ? "gets and puts alone" : "automatic" }' "$work/data/gas_users.csv")
[ "$(sed -n 's|^<tr>.*<td>\([a-z ]*\)</td></tr>$|\1|p' "$page")" = "$fastest" ] || fail "the fastest of gas_users are not: $fastest"

# Peaks, again from the drawn equations.
for ppn in 2 3 4; do
    for column in 6:relay 7:two-phase; do
        peak=$(awk -F, -v ppn=$ppn -v c="${column%:*}" '$1 == ppn && $c > most { most = $c } END { printf "%.2f", most }' \
            "$work/data/equations.csv")
        grep -q "<li>peak of ${column#*:}, $ppn ranks a node: $peak GB/s" "$page" || fail "${column#*:}, $ppn: $peak is not claimed"
    done
done

# Who is faster than whom with the largest message, and from where on, from the drawn simulation; the relay's peaks within
# 5 % of those that its equation states.
last_of() { tail -n 1 "$work/data/nodes12x$1.csv" | cut -d, -f"$2"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
stated=(0 0 9 4.5 3)
for ppn in 2 3 4; do
    data=$work/data/nodes12x$ppn.csv
    [ "$(wc -l <"$data")" = 20 ] || fail "$data: not 19 sizes"
    awk -F, 'NR > 1 { for (c = 2; c <= 6; c++) bad += !($c > 0) } END { exit bad }' "$data" || fail "$data: a way is missing"
    from=$(awk -F, 'NR > 1 && $4 <= $2 { from = $1 } END { print from ? "above " from " bytes" : "at every size" }' "$data")
    grep -qF "<li>$ppn ranks a node, 256 MiB: two-phase is x$(ratio "$(last_of $ppn 4)" "$(last_of $ppn 2)") as fast as the paper&#8217;s relay, and faster $from; x$(ratio "$(last_of $ppn 4)" "$(last_of $ppn 6)") as fast as the blocking broadcast. Our relay is x$(ratio "$(last_of $ppn 3)" "$(last_of $ppn 4)") as fast as two-phase." "$page" ||
        fail "$ppn ranks a node: who is faster is not claimed"
    awk -F, -v stated="${stated[$ppn]}" 'NR > 1 { if ($2 > peak) peak = $2; wins = $4 > $2 }
        END { off = peak * 1e9 / 1048576e3 / stated - 1; exit !(wins && off < 0.05 && off > -0.05) }' "$data" ||
        fail "$ppn ranks a node: the paper's conclusion does not come out"
    grep -qF "<li>$ppn ranks a node against one, 256 MiB: our relay x$(ratio "$(last_of $ppn 3)" "$(last_of 1 3)")," "$page" ||
        fail "$ppn ranks a node against one: nothing is claimed"
done

# What was run here.
data=$work/data/measured.csv
for way in relay two-phase one-engine; do
    grep -qE "^2,2,[a-z]+ $way,65536,[0-9.]+,[0-9.]+$" "$data" || fail "$data: no row of $way"
done
of() { awk -F, -v way="$1" '$3 ~ " " way "$" { print $6 }' "$data"; }
grep -qF "<li>2 nodes x 2 ranks, 65536 bytes: two-phase takes $(ratio "$(of two-phase)" "$(of one-engine)") of the time of the paper&#8217;s relay, our relay $(ratio "$(of relay)" "$(of one-engine)")." "$page" ||
    fail "what this machine says is not claimed"
echo "all fine"

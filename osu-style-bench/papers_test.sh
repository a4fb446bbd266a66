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
ngroups=6
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

# Who is the fastest with 64 MiB, from the drawn simulation.
for ppn in 2 3 4; do
    data=$work/data/nodes12x$ppn.csv
    [ "$(wc -l <"$data")" = 18 ] || fail "$data: not 17 sizes"
    awk -F, 'NR > 1 && !($2 > 0 && $3 > 0 && $4 > 0) { bad = 1 } END { exit bad }' "$data" || fail "$data: a way is missing"
    first=$(tail -n 1 "$data" | tr ',' '\n' | sed 1d | paste -d' ' - <(printf 'bucket relay\ntrinary x3\ntwo-phase\n') | sort -rn | head -n 1)
    grep -q "<li>$ppn ranks a node, 64 MiB: ${first#* } is the fastest, $(printf '%.2f' "${first%% *}") GB/s" "$page" ||
        fail "$ppn ranks: '$first' is not claimed"
    sentence=$(tail -n 1 "$work/data/one_engine$ppn.txt")
    grep -qF "$sentence" "$page" || fail "one engine, $ppn ranks: nothing is said"
    grep -q 'and two-phase is faster' "$work/data/one_engine$ppn.txt" || fail "one engine, $ppn ranks: two-phase does not win"
done
echo "all fine"

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

bash "$here/papers.sh" "$build" --out "$work" 2>"$work/log" || fail "no page: $(cat "$work/log")"
page=$work/papers.html
[ "$(grep -c '<svg' "$page")" = 4 ] || fail "not 4 figures"
[ "$(grep -c '</svg>' "$page")" = 4 ] || fail "a figure is not whole"
[ "$(grep -c '<figcaption>' "$page")" = 4 ] || fail "not 4 captions"
[ "$(grep -c '^<p>The same: .*' "$page")" = 2 ] || fail "not every group says what is the same"
[ "$(grep -c 'Not the same: ' "$page")" = 2 ] || fail "not every group says what is not the same"

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

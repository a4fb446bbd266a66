#!/usr/bin/env bash
# report_test.sh BUILD_DIR: is the report one page that a browser shows without complaint, with every plot in it?
#
# Has the report measure as little as it can of everything, and opens the page in headless Chromium. Exit status 77
# where gnuplot or Chromium is missing.
set -uo pipefail

build=$(cd "${1:?usage: report_test.sh BUILD_DIR}" && pwd) || exit 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for tool in gnuplot chromium; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not there"; exit 77; }
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fail() {
    echo "report_test: $*" >&2
    exit 1
}

"$here/report.sh" "$build" --least --out "$work/report" 2>"$work/log" || fail "the report failed: $(cat "$work/log")"
n=$(grep -c '^    \(if \)\?begin ' "$here/report.sh")
grep -q "\[$n/$n\].*left" "$work/log" || fail "no line says how much is left: $(cat "$work/log")"
page=$work/report/index.html
has() { # has FIGURES SERIES...: whether all that is to be drawn in has been measured
    local series name=$1
    for series in "${@:2}"; do
        awk -F, -v series="$series" '
            NR == 1 { for (i = 1; i <= NF; i++) if ($i == series) at = i }
            NR > 1 && (!at || $at !~ /^[0-9.e+-]+$/) { bad = 1 }
            END { exit bad || NR < 2 }' "$work/report/data/$name.csv" || fail "$name lacks values of $series"
    done
}
other=
command -v mpicc.openmpi >/dev/null && command -v mpiexec.openmpi >/dev/null && other=openmpi
has progress host async tug $other
has single_tcp host tug "bare socket"
has bcast host tug $other predicted memcpy
has bcast_crowd host tug $other predicted memcpy
has overlap host tug $other "computing alone"
has gups host tug $other
has gets remembered asked cached plain
for name in latency_private latency_tcp overhead; do has $name host caller thread; done
bash "$here/papers_llcl_test.sh" >/dev/null || fail "verdicts on made-up numbers"
places=$(find "$work/report/data" -name 'llcl_*.csv' ! -name '*_runs.csv' | wc -l)
[ "$places" -ge 2 ] && [ "$(grep -cE '<td>(holds|does not hold|cannot be shown here)</td></tr>$' "$page")" -eq $((places > 2 ? 28 : 20)) ] ||
    fail "not each claim of the paper has a verdict"
grep -Eo '(src|href)="[^"]{0,40}' "$page" | grep -Ev '="(data:|#)' && fail "the page refers to something outside"
[ "$(grep -c '<tr><td>updates of random words' "$page")" -eq 4 ] || fail "the table of ratios lacks updates of random words"

[ "$(grep -n 'id="glance"' "$page" | cut -d: -f1)" -lt "$(grep -n '<main>' "$page" | tail -n 1 | cut -d: -f1)" ] ||
    fail "the cells are not ahead of the plots"
[ "$(grep -o 'class="cell c[1-6]" title=' "$page" | wc -l)" -eq "$(grep -c '^<tr><td>.*&times;' "$page")" ] ||
    fail "there are not as many cells as ratios"
[ "$(grep -Ec '<figcaption>(With Tugboat it is|Compare the curves)' "$page")" -eq "$n" ] || fail "a plot does not say what to see"

# The page as it is, but that its title tells how many images it shows.
sed 's|</body>|<script>onload = () => { const all = [...document.images];'\
'document.title = all.filter(i => i.naturalWidth > 100).length + " of " + all.length'\
'+ (document.documentElement.scrollWidth > innerWidth ? " too wide" : "") }</script></body>|' "$page" >"$work/report/look.html"
browse() {
    timeout 250 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" \
        --enable-logging=stderr --window-size="$1" --dump-dom "file://$work/report/look.html" >"$work/dom" 2>"$work/console" ||
        fail "Chromium failed: $(tail -n 3 "$work/console")"
    grep 'CONSOLE' "$work/console" && fail "the browser complained"
    grep -o '<title>.*</title>' "$work/dom" | grep -qx "<title>$n of $n</title>" ||
        fail "at $1 the page shows: $(grep -o '<title>.*</title>' "$work/dom")"
}
browse 1280,900
browse 500,900
echo "$n plots, no complaint, nothing from outside"

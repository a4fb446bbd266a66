#!/usr/bin/env bash
# figures_test.sh: figures.sh makes its documents from what was measured, notices an edit, and refuses missing rows.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fail() { echo "figures_test: $*" >&2; exit 1; }
has() { grep -qxF -- "$1" "$2" || fail "no line '$1' in $(cat "$2")"; }

mkdir -p "$work/data" "$work/docs"
head='title,key,value,better,host,tug,tug_ratio,tug_overlaps,host_failures,tug_failures,host_least,host_most,host_wrong,tug_least,tug_most,tug_wrong'
place=0
step() { # step NAME KEY...: with figures that are alike
    local name=$1 key
    shift
    place=$((place + 1))
    printf '%s\n' "place=$((10 - place))" "title=step $name" "caption=As it is." unit=microseconds \
        "measured=2026-01-01 00:00 UTC, 3 rounds" "machine=a machine" "host MPI=MPICH" "Tugboat=tugboat 1, commit c" \
        >"$work/data/$name.facts"
    echo "$head" >"$work/data/$name.csv"
    for key in "$@"; do
        echo "$name,$key,us,lower,12345.6,2.5,4938.24,no,0,0,12000,13000,0,2,3,0" >>"$work/data/$name.csv"
    done
}
step progress put/8
step progress_tcp put/8
step put_rate put/1
step gups_tcp allocate/2/1024
step blocking_crowd barrier/0
step bcast 8
printf '%s\n' '# A' '<!-- figures -->' '| old |' '<!-- /figures -->' 'end' >"$work/README.md"

"$here/figures.sh" take "$work/data" "$work/docs" 2>"$work/err" && fail "a row that the README wants is missing, and nothing is said"
grep -q 'bcast has no row 2097152' "$work/err" || fail "the missing row is not named: $(cat "$work/err")"
[ ! -e "$work/docs/figures.md" ] || fail "a document was made of half of the figures"

step bcast 2097152 8
sed -i '2s/no,0/yes,0/' "$work/data/bcast.csv"
"$here/figures.sh" take "$work/data" "$work/docs" || fail "it does not make the documents"
has '| put / 8 | 12 346 (12 000 to 13 000) | 2.5 (2 to 3) | x4938 |' "$work/docs/figures.md"
has '| 2 Mi | 12 346 (12 000 to 13 000) | 2.5 (2 to 3) | x4938, overlap |' "$work/docs/figures.md"
has '- Machine: a machine' "$work/docs/figures.md"
has 'Measured 2026-01-01 00:00 UTC, 3 rounds, Tugboat 1, commit c.' "$work/docs/figures.md"
grep -q '^| old' "$work/README.md" && fail "the README keeps an old row"
[ "$(grep -c '^|.* x4938' "$work/README.md")" -eq 6 ] || fail "the README has not six figures: $(cat "$work/README.md")"
has end "$work/README.md"
[ "$(grep -m 1 '^## ' "$work/docs/figures.md")" = "## Step bcast" ] || fail "the sections are not in the report's order"
"$here/figures.sh" check "$work/docs" || fail "what was just made is refused"
sed -i 's/12 346/12 345/' "$work/docs/figures.md"
"$here/figures.sh" check "$work/docs" >/dev/null && fail "an edited figure is not noticed"
"$here/figures.sh" make "$work/docs" && "$here/figures.sh" check "$work/docs" || fail "the documents cannot be made again"

# runs of a program that compares by itself: median and range
printf '%s\n' 'key:a,x_ns,y_ns' '8,1,10' >"$work/run"
printf '%s\n' '# again' 'key:a,x_ns,y_ns' '8,3,30' 'key:a,x_ns,y_ns' '8,2,20' >>"$work/run"
awk -f "$here/report_columns.awk" -v name=n -v pairs="x_ns=one y_ns=two" "$work/run" >"$work/rows"
has 'title,key,value,better,one,two,one_least,one_most,two_least,two_most' "$work/rows"
has 'n,8,,,2,20,1,3,10,30' "$work/rows"
awk -f "$here/report_columns.awk" -v name=n -v pairs="x_ns=host y_ns=tug" "$work/run" >"$work/rows"
has 'n,8,,,2,20,10,no,1,3,10,30' "$work/rows"
echo "all fine"

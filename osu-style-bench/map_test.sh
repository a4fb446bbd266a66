#!/usr/bin/env bash
# map_test.sh BUILD_DIR: tests of map.sh: a few cells of each kind and what is said of them, the bound of time,
# cells of several rounds, two maps that are compared, wrong usage.
set -uo pipefail

build=$(cd "${1:?usage: map_test.sh BUILD_DIR}" && pwd) || exit 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../tests/base/expect.sh"

# try CASE STATUS ARGUMENTS...: runs map.sh.
try() {
    expect "$1" "$2" '' "$here/map.sh" "$build" --out "$work/report" "${@:3}"
}

# sound CASE: every cell of the map has finite times, and the ratio of them.
sound() {
    awk -f "$here/map_fields.awk" -f /dev/stdin "$work/report/map.json" <<'AWK' || fail "$1: unsound cells"
        !is_cell() { next }
        { n++ }
        text("state") == "host failed" && number("tug") > 0 { next }
        text("state") == "host wrong" && number("ratio") == "" && number("host") > 0 { next }
        text("state") != "measured" || !(number("host") > 0) || !(number("tug") > 0) { print; bad = 1; next }
        {
            off = number("ratio") * number("tug") / number("host")
            if (off < 0.99 || off > 1.01 || number("low") > number("ratio") || number("high") < number("ratio")) {
                print
                bad = 1
            }
        }
        END { exit bad || n == 0 }
AWK
}

# --- measured -----------------------------------------------------------------------------------------

try tables 0 --only list
mapfile -t tables <"$work/out"
((${#tables[@]} >= 20)) || fail "tables: only ${#tables[@]}"
for pattern in 'windows/one node/1 thread/*' 'windows/one node/4 threads/target waits' 'windows/TCP/1 thread/target computes' \
    'single/*' 'lifetimes/one node' 'persistent/*' 'blocking/*'; do
    try "$pattern" 0 --least --only "$pattern"
    sound "$pattern"
    has "$pattern" '^[0-9]+ of [0-9]+ cells are red'
    has "$pattern" '<td class="(c[1-6]|odd)" title="host [0-9.e+-]+ us, Tugboat [0-9.e+-]+ us">' report/map.html
    grep -Eo '(src|href)="[^"]{0,40}' "$work/report/map.html" | grep -Ev '="(data:|#t[0-9])' && fail "$pattern: refers to something outside"
    ! command -v python3 >/dev/null || python3 -m json.tool "$work/report/map.json" >/dev/null || fail "$pattern: no JSON"
done

# later rounds of what is doubtful only
try doubtful 0 --least --doubtful --rounds 3 --only 'persistent/2 ranks'
sound doubtful
grep -q '"rounds": 1,.*"measured"' "$work/report/map.json" || fail "doubtful: all is measured again"

# a bound of time: more rounds than fit, and tables that there is no time for
begun=$SECONDS
try bounded 0 --least --rounds 999 --limit 5 --only 'lifetimes/one node'
has bounded '"rounds": [1-9]' report/map.json
((SECONDS - begun < 40)) || fail "bounded: it took $((SECONDS - begun)) s"
try late 0 --least --limit 1
has late '^blocking/2 x 2 nodes/polite: not measured, time was up$'

# --- of rounds, cells ---------------------------------------------------------------------------------

header=title,key,value,better,host,tug,host_wrong,tug_wrong
printf '%s\n' $header t,a/8,us,lower,10,4,0,0 t,b/8,us,lower,10,5,8,0 t,c/8,us,lower,,5,0,0 t,d/8,us,lower,3,,0,0 >"$work/1.csv"
printf '%s\n' $header t,a/8,us,lower,30,5,0,0 t,b/8,us,lower,10,5,0,0 t,c/8,us,lower,,5,0,0 t,e/8,us,lower,3,5,0,1 >"$work/2.csv"
printf '%s\n' ${header/host,tug/tug,host} t,a/8,us,lower,2,20,0,0 >"$work/3.csv" # the other side first
awk -F, -f "$here/map_json.awk" "$work"/[123].csv >"$work/cells"
for line in '"a/8", "host": 20, "tug": 4, "ratio": 5, "low": 2, "high": 15, "rounds": 3, "state": "measured"' \
    '"b/8", "host": 10, "tug": 5, "ratio": null, "low": null, "high": null, "rounds": 2, "state": "host wrong"' \
    '"c/8", "host": null, "tug": 5, .* "rounds": 0, "state": "host failed"' \
    '"d/8", "host": 3, "tug": null, .* "state": "tug failed"' '"e/8", .* "state": "tug wrong"'; do
    has rounds "$line" cells
done

# --- doubtful cells -----------------------------------------------------------------------------------

seen() { # TABLE CELL RATIO
    printf '{"table": "%s", "cell": "%s", "ratio": %s, "rounds": 2, "state": "%s"},\n' "$1" "$2" "$3" "${4:-measured}"
}
doubtful() { # CASE LINES...: those of the cells on stdin
    awk -f "$here/map_fields.awk" -f "$here/map_doubtful.awk" >"$work/doubtful"
    diff "$work/doubtful" <(printf '%s\n' "${@:2}") || fail "$1: other cells are doubtful"
}
{ seen w a/fence/put/1x8 0.9; seen w a/lock/get/1x8 1.05; seen w a/lock/put/16x8 1.2; seen w b/lock/put/16x8 2; } |
    doubtful windows "a --syncs fence,lock --ops put,get --loads 1x8"
{ seen p bcast/8 1; seen p scan/8 null 'host wrong'; seen p bcast/32768 0.5; seen p reduce/8 1.09; } |
    doubtful collectives "bcast --sizes 8,32768" "reduce --sizes 8"
seen lifetimes/TCP create/4096 0.5 | doubtful lifetimes create

# --- compared -----------------------------------------------------------------------------------------

# cell NAME HOST TUG RATIO LOW HIGH STATE [ROUNDS]
cell() {
    printf '{"table": "t", "cell": "%s", "host": %s, "tug": %s, "ratio": %s, "low": %s, "high": %s, ' "${@:1:6}"
    printf '"rounds": %d, "state": "%s"}' "${8:-3}" "$7"
}
# map NAME CELL...: a map of cells
map() {
    local name=$1
    shift
    printf '{\n"format": "tugboat map 1",\n"cells": [\n' >"$work/$name"
    (IFS=$'\n'; sed '$!s/$/,/' <<<"$*") >>"$work/$name"
    printf ']\n}\n' >>"$work/$name"
}
map old "$(cell a/8 10 10 1 0.9 1.1 measured)" "$(cell b/8 10 10 1 0.9 1.1 measured)" \
    "$(cell c/8 10 10 1 0.5 1.1 measured)" "$(cell d/8 10 10 1 0.9 1.1 measured)" "$(cell e/8 1 1 null null null 'host wrong')" \
    "$(cell f/8 10 10 1 1 1 measured)"
map new "$(cell a/8 10 20 0.5 0.4 0.6 measured)" "$(cell b/8 10 5 2 1.8 2.2 measured)" \
    "$(cell c/8 10 20 0.5 0.4 0.6 measured)" "$(cell d/8 10 10 null null null 'tug wrong')" "$(cell e/8 1 1 null null null 'host wrong')" \
    "$(cell f/8 10 20 0.5 0.5 0.5 measured 1)"
try worse 1 --measured "$work/new" --against "$work/old"
has worse '^worse  t: a/8: x1\.00, now x0\.50$'
has worse '^better t: b/8: x1\.00, now x2\.00$'
has worse '^worse  t: d/8: measured, now tug wrong$'
has worse '^6 cells in both: 2 got worse, 1 better'
has worse '^t: 4 of 6 red, 1 where the host is wrong or fails$'
has worse '^  a +8 x0\.50$'
has worse '<td class="name">all</td><td>1</td><td>0</td><td>1</td><td>3</td><td>1</td></tr>' report/map.html
has worse '^  f +8 x0\.50~$'
try same 0 --measured "$work/old" --against "$work/old"
has same '^6 cells in both: 0 got worse, 0 better'
map strange "$(cell z/8 10 10 1 0.9 1.1 measured)"
try nothing_common 1 --measured "$work/old" --against "$work/strange"

# --- wrong usage --------------------------------------------------------------------------------------

try unknown 2 --fast
has unknown "unknown argument '--fast'"
try valueless 2 --against
has valueless 'needs a value'
try no_map 2 --against /dev/null
has no_map 'is no map\.json'
try no_table 2 --only nothing
has no_table "no table is called 'nothing'"
try no_rounds 2 --rounds 0
try no_limit 2 --limit soon
try help 0 --help

exit $failed

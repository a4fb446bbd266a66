#!/usr/bin/env bash
# timeline_test.sh BUILD_DIR: is what TUGBOAT_TRACE writes a whole timeline of the job, and does its page show it?
#
# The page is docs/timeline.html, opened in headless Chromium with a file within. Exit status 77 where python3 or Chromium
# is missing.
set -uo pipefail

build=$(cd "${1:?usage: timeline_test.sh BUILD_DIR}" && pwd) || exit 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec.hydra || command -v mpiexec)}
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 77; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fail() {
    echo "timeline_test: $*" >&2
    exit 1
}
cd "$work" || exit 2

# trace FILE RANKS PROGRAM ARGUMENTS...: runs it.
trace() {
    local file=$1 ranks=$2 program=$3
    shift 3
    timeout 120 "$build/bin/tugboat" run --trace="$file" "$mpiexec" -n "$ranks" "$build/bin/osu-style-bench/$program" "$@" \
        >log 2>&1 || fail "$program failed: $(tail -n 3 log)"
}

MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self trace packets.json 2 put_rate_threads --samples 1 --seconds 0.02 --threads 1,2
python3 "$here/timeline_check.py" packets.json 2 wait "sleep, watching" MPI_Win_flush MPI_Win_lock_all "packets sent" \
    "packets arrived" "wakes of the offload thread" || exit 1
trace collectives.json 3 bcast_init_sizes --sizes 8,64K --seconds 0.01
python3 "$here/timeline_check.py" collectives.json 3 collective "steps of schedules" wait || exit 1

# Ranks that are not traced alike write a file each.
timeout 60 "$build/bin/tugboat" run "$mpiexec" -n 1 -env TUGBOAT_TRACE "$work/one.json" \
    "$build/bin/osu-style-bench/bcast_init_sizes" --sizes 8 --seconds 0.01 : -n 1 \
    "$build/bin/osu-style-bench/bcast_init_sizes" --sizes 8 --seconds 0.01 >log 2>&1 || fail "$(tail -n 3 log)"
python3 "$here/timeline_check.py" one.[0-9]*.json 1 || exit 1

timeout 60 "$build/bin/tugboat" run env TUGBOAT_TRACE=/nowhere/at/all.json "$mpiexec" -n 2 \
    "$build/bin/osu-style-bench/bcast_init_sizes" --sizes 8 --seconds 0.01 >log 2>&1 || fail "a file that cannot be: $(tail -n 3 log)"
grep -q 'cannot write the timeline to TUGBOAT_TRACE=/nowhere/at/all.json' log || fail "a file that cannot be is not told of: $(cat log)"

command -v chromium >/dev/null || { echo "skipped: chromium is not there"; exit 77; }
# page NAME TEXT: the page with TEXT's file within.
page() {
    awk -v file="$2" '
        /^<script>$/ {
            print "<script type=\"application/json\" id=\"embedded\">"
            while ((getline line < file) > 0)
                print line
            print "</script>"
        }
        { print }' "$here/../docs/timeline.html" >"$1"
}
# shows PAGE PATTERN WIDTH: whether it does.
shows() {
    timeout 100 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" \
        --enable-logging=stderr --window-size="$3",900 --dump-dom "file://$work/$1" >dom 2>console ||
        fail "Chromium failed: $(tail -n 3 console)"
    grep CONSOLE console && fail "the browser complained"
    grep -q "$2" dom || fail "at $3 $1 does not show '$2' but: $(grep -o 'id="said"[^<]*' dom)"
}
grep -Eo '(src|href)="[^"]{0,40}' "$here/../docs/timeline.html" | grep -v '="data:' && fail "the page refers to something outside"
page good.html packets.json
shows good.html 'the file within: 2 ranks' 1280
shows good.html '<td>MPI_Win_flush</td>' 500
echo '{"no": "events"}' >bad.json
page bad.html bad.json
shows bad.html 'is no such file: no traceEvents in it' 1280
echo "timelines of packets and collectives, shown by the browser"

#!/usr/bin/env bash
# papers.sh BUILD_DIR [--out DIR] [--verbs DIR] [--full | --tiny]: experiments of the papers beside their figures,
# DIR/papers.html (report/). It takes up to 5 minutes; with --full, with as many runs as the papers have, about an hour.
# --tiny is for the test: seconds, and figures that say nothing. --verbs: what the virtual machine of `ctest -R ^verbs.vm`
# has left (BUILD_DIR/tests/verbs/results): the section on colours is written from that, and says so where it is missing.
#
# A section is a function that writes its data to DIR/data, draws from them, and prints HTML. Every claim on the page
# is computed from the data that are drawn. Sections that measure are in files of their own, papers_*.sh.
set -euo pipefail

usage="usage: papers.sh BUILD_DIR [--out DIR] [--verbs DIR] [--full | --tiny]"
build=$(cd "${1:?$usage}" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shift
out=report
effort=quick
verbs=$build/tests/verbs/results
while [ $# -gt 0 ]; do
    case $1 in
        --out) out=${2:?--out wants a folder}; shift ;;
        --verbs) verbs=${2:?--verbs wants a folder}; shift ;;
        --full | --tiny) effort=${1#--} ;;
        *) echo "$usage" >&2; exit 2 ;;
    esac
    shift
done
# shellcheck disable=SC2034 # for papers_*.sh
tugboat=$build/bin/tugboat
bench=$build/bin/osu-style-bench
# shellcheck disable=SC2034 # for llcl_columns.sh
stand_in=$build/tests/verbs/fake
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec.hydra || command -v mpiexec)}
command -v gnuplot >/dev/null || { echo "papers: gnuplot is missing" >&2; exit 1; }
mkdir -p "$out/data"
# shellcheck disable=SC2086
unset ${!TUGBOAT*}

# figure FILE.svg CAPTION: the drawing becomes part of the page.
figure() {
    printf '<figure>\n'
    sed -n '/<svg/,$p' "$out/data/$1"
    printf '<figcaption>%s</figcaption>\n</figure>\n' "$2"
}

# by_effort TINY QUICK FULL
by_effort() {
    case $effort in
        tiny) echo "$1" ;;
        quick) echo "$2" ;;
        full) echo "$3" ;;
    esac
}

# verbs_log CASE: what that case said in the virtual machine. False: it was not run there, or failed.
verbs_log() { [ "$(cat "$verbs/$1.status" 2>/dev/null)" = 0 ] && cat "$verbs/$1.log"; }

# verbs_missing: a sentence in place of a section.
verbs_missing() {
    printf '<p>Not shown: there are no results of the virtual machine. <code>./dev test</code>, or <code>ctest --test-dir build -R
^verbs.vm</code>, makes them.</p>\n'
}

# rows RANKS PROGRAM ARGUMENTS: its CSV lines. Settings are in the environment.
rows() {
    local ranks=$1 program=$2
    shift 2
    timeout 3000 "$mpiexec" -n "$ranks" "$bench/$program" --csv "$@" | grep -v '^#'
}

# shellcheck source=/dev/null
. "$here/llcl_columns.sh"
# shellcheck source=/dev/null
. "$here/papers_llcl.sh"
# shellcheck source=/dev/null
. "$here/papers_acp.sh"
# shellcheck source=/dev/null
. "$here/papers_gas.sh"
# shellcheck source=/dev/null
. "$here/papers_morie.sh"

# ---- the page ----

{
    printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>The papers</title>\n'
    printf '<style>body{font-family:sans-serif;max-width:60em;margin:auto}svg{max-width:100%%;height:auto}</style>\n</head>\n<body>\n'
    printf '<h1>The papers&#8217; experiments</h1>\n'
    llcl
    :
    :
    :
    printf '</body>\n</html>\n'
} >"$out/papers.html.new"
mv "$out/papers.html.new" "$out/papers.html"
echo "papers: wrote $out/papers.html" >&2

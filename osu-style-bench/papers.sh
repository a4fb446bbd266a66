#!/usr/bin/env bash
# papers.sh BUILD_DIR [--out DIR] [--full | --tiny]: experiments of the papers beside their figures, DIR/papers.html
# (report/). It takes up to 5 minutes; with --full, with as many runs as the papers have, about an hour. --tiny is for
# the test: seconds, and figures that say nothing.
#
# A section is a function that writes its data to DIR/data, draws from them, and prints HTML. Every claim on the page
# is computed from the data that are drawn. Sections that measure are in files of their own, papers_*.sh.
set -euo pipefail

usage="usage: papers.sh BUILD_DIR [--out DIR] [--full | --tiny]"
build=$(cd "${1:?$usage}" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shift
out=report
effort=quick
while [ $# -gt 0 ]; do
    case $1 in
        --out) out=${2:?--out wants a folder}; shift ;;
        --full | --tiny) effort=${1#--} ;;
        *) echo "$usage" >&2; exit 2 ;;
    esac
    shift
done
tugboat=$build/bin/tugboat
bench=$build/bin/osu-style-bench
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

# rows RANKS PROGRAM ARGUMENTS: its CSV lines. Settings are in the environment.
rows() {
    local ranks=$1 program=$2
    shift 2
    timeout 3000 "$mpiexec" -n "$ranks" "$bench/$program" --csv "$@" | grep -v '^#'
}

# shellcheck source=/dev/null
. "$here/papers_llcl.sh"
# shellcheck source=/dev/null
. "$here/papers_acp.sh"
# shellcheck source=/dev/null
. "$here/papers_gas.sh"

# ---- Morie et al. ----

equations() {
    "$tugboat" model --paper --plot "$out/data/equations.svg" >"$out/data/equations.csv"
    printf '<h3>Figure 10: equations 1 to 4</h3>\n'
    figure equations.svg 'Bandwidth by the paper&#8217;s equations and parameters. Dashed: the peaks that its text states.'
    printf '<ul>\n'
    sed -n 's/^# \(.*\)/<li>\1<\/li>/p' "$out/data/equations.csv"
    printf '</ul>\n<p>The same: equations, parameters, segments. Not the same: the paper does not say which GB it means, nor that the
second phase copies a third of the message to each rank. Both are read here in the way that gives its peaks.</p>\n'
}

# simulated PPN: bytes, chain, trinary, two-phase in GB/s.
simulated() {
    "$tugboat" model --nodes 12 --ppn "$1" --torus 2x2x3 --parameters fx100 --size 1K:64M --simulate --json |
        awk -F'"' '
            function value(name, text) {
                text = substr($0, index($0, "\"" name "\": ") + length(name) + 4)
                return text + 0
            }
            BEGIN { print "bytes,bucket_relay,trinary,two_phase" }
            function row() { if (bytes) printf "%d,%.4f,%.4f,%s\n", bytes, rate["chain relay"],
                rate["trinary relay"], ("trinary two-phase" in rate) ? sprintf("%.4f", rate["trinary two-phase"]) : "" }
            /"bytes"/ { row(); delete rate; bytes = value("bytes") }
            /"algorithm"/ { rate[$4 " " $8] = bytes / value("simulated_s") / 1e9 }
            END { row() }'
}

draw_simulated() { # PPN MEASURED: the bandwidth that the paper measured for its relay
    gnuplot <<GNUPLOT
set terminal svg size 900,420
set output '$out/data/nodes12x$1.svg'
set datafile separator ','
set title '12 nodes x $1 ranks, simulated'
set logscale x 2
set format x '%.0b %BB'
set xlabel 'message'
set ylabel 'GB/s'
set key outside right
set grid
set yrange [0:]
plot for [c=2:4] '$out/data/nodes12x$1.csv' using 1:c skip 1 with linespoints title word('bucket-relay trinary-x3 two-phase', c - 1), \
    '$out/data/nodes12x1.csv' using 1:3 skip 1 with lines linecolor 'gray' title 'trinary-x3, 1 a node', \
    $2 with lines dashtype 2 linecolor 'black' title 'the paper, measured'
GNUPLOT
}

# What the largest message says, and from which size on two-phase is the fastest.
claims() { # PPN
    awk -F, -v ppn="$1" 'NR > 1 {
            if (!($4 > $3 && $4 > $2)) from = 0; else if (!from) from = $1
            bucket = $2; trinary = $3; two = $4; bytes = $1
        }
        END {
            best = two; name = "two-phase"
            if (trinary > best) { best = trinary; name = "trinary x3" }
            if (bucket > best) { best = bucket; name = "bucket relay" }
            printf "<li>%d ranks a node, %d MiB: %s is the fastest, %.2f GB/s; two-phase / trinary x3 %.2f, ", ppn,
                bytes / 1048576, name, best, two / trinary
            printf "trinary x3 / bucket relay %.2f. ", trinary / bucket
            if (from) printf "Two-phase is the fastest from %d bytes on.</li>\n", from
            else printf "Two-phase is not the fastest there.</li>\n"
        }' "$out/data/nodes12x$1.csv"
}

nodes12() {
    local ppn measured=(0 0 9 5 3.5)
    printf '<h3>Figures 6 and 7: 12 nodes</h3>\n'
    for ppn in 1 2 3 4; do simulated $ppn >"$out/data/nodes12x$ppn.csv"; done
    for ppn in 2 3 4; do
        draw_simulated $ppn "${measured[$ppn]}"
        figure nodes12x$ppn.svg "Bandwidth of Tugboat&#8217;s schedules on the simulated machine; dashed: the peak that the paper measured with $ppn ranks a node."
    done
    printf '<ul>\n'
    for ppn in 2 3 4; do claims $ppn; done
    printf '</ul>\n<p>The same: nodes, ranks a node, and the parameters of the paper&#8217;s section 6.1 on a torus of 2x2x3, which has
its 4 hops. Not the same: the paper measured its own relay, which copies inside a node
with one engine; these are simulations of Tugboat&#8217;s relay, which copies with as many engines as two-phase. So they are not expected to
meet the dashed lines. The blocking broadcast of Fujitsu MPI is not simulated: the paper does not say how it works.</p>\n'
}

# Its relay on the same nodes, as the command tells it.
one_engine() {
    printf '<h3>The paper&#8217;s relay with one copy engine</h3>\n'
    local ppn
    for ppn in 2 3 4; do
        "$tugboat" model --nodes 12 --ppn $ppn --torus 2x2x3 --parameters fx100 --size 64M --simulate |
            sed -n '/^one-engine/,$p' >"$out/data/one_engine$ppn.txt"
        printf '<p>%d ranks a node: %s</p>\n' $ppn "$(cat "$out/data/one_engine$ppn.txt")"
    done
    printf '<p>With 2 ranks a node the simulation is slower than the prediction: in our schedule one rank holds two pipelines and takes
their segments in turn; the paper&#8217;s pipelines do not wait for one another.</p>\n'
}

morie() {
    printf '<h2>Morie et al.: persistent broadcast</h2>\n'
    equations
    nodes12
    one_engine
}

# ---- the page ----

{
    printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>The papers</title>\n'
    printf '<style>body{font-family:sans-serif;max-width:60em;margin:auto}svg{max-width:100%%;height:auto}</style>\n</head>\n<body>\n'
    printf '<h1>The papers&#8217; experiments</h1>\n'
    llcl
    gas
    acp
    morie
    printf '</body>\n</html>\n'
} >"$out/papers.html.new"
mv "$out/papers.html.new" "$out/papers.html"
echo "papers: wrote $out/papers.html" >&2

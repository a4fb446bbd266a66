#!/usr/bin/env bash
# figures.sh: docs/figures.md, the README's table of figures and docs/passive.svg, made from what report.sh has measured.
#
#   figures.sh take DATA DOCS     copies a report's figures (DATA, report/data) into DOCS/figures, and makes all of them
#   figures.sh make DOCS          makes all of them from DOCS/figures, the README beside DOCS among them
#   figures.sh check DOCS         exit status 1 where a document is not what DOCS/figures makes
#
# Figures of steps that were not measured again stay. Each section says when and on which commit it was measured.
set -euo pipefail

usage="usage: figures.sh take DATA DOCS | make DOCS | check DOCS"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

value() { sed -n "s/^$2=//p" "$1"; } # value FACTS WORD

# The steps of a folder that have figures, in the order of the report.
steps() {
    local facts
    for facts in "$1"/*.facts; do
        [ -s "${facts%.facts}.csv" ] || continue
        echo "$(value "$facts" place) ${facts%.facts}"
    done | sort -n | cut -d ' ' -f 2-
}

# common DATA WORD NAME: what all sections have in common, each value of a fact once.
common() {
    local word=$2 name=$3 values
    values=$(for facts in "$1"/*.facts; do value "$facts" "$word"; done | sort -u)
    [ -z "$values" ] || sed "s/^/- $name: /" <<<"$values"
}

page() {
    local step
    cat <<'TEXT'
# Figures

`./dev bench --figures` measured these figures and made this page; nobody edits it. Each program runs on the host MPI and under
Tugboat, by turns. A figure is the median of the rounds, and the range of the rounds stands behind it. The ratio says how many times
better Tugboat is than the host MPI. "Overlap" marks a ratio where the two ranges overlap: there the difference may be noise.

TEXT
    common "$1" machine Machine
    common "$1" "host MPI" "Host MPI"
    common "$1" "Open MPI" "Beside them"
    while IFS= read -r step; do
        echo
        title=$(value "$step.facts" title)
        echo "## ${title^}"
        echo
        echo "$(value "$step.facts" caption) Unit: $(value "$step.facts" unit)."
        echo "Measured $(value "$step.facts" measured), $(value "$step.facts" Tugboat | sed 's/^tugboat/Tugboat/')."
        echo
        awk -f "$here/figures.awk" "$step.csv"
    done < <(steps "$1")
}

# The README's figures: a step, a row of it, and its name there. A row that was not measured is an error.
readme_rows=(
    "progress|put/8|put of 8 bytes (lock, put, unlock), target computes, one node"
    "progress_tcp|put/8|the same between nodes (emulated, TCP)"
    "put_rate|put/1|puts of 8 bytes, one thread, one node"
    "gups_tcp|allocate/2/1024|updates of random words, between nodes (emulated, TCP)"
    "blocking_crowd|barrier/0|\`MPI_Barrier\`, 4 ranks on 2 cores, unchanged program"
    "bcast|2097152|\`MPI_Bcast_init\`, 2 MiB, 2 ranks on one node"
)

readme_table() {
    local row step key name line
    echo "| what | unit | host MPI (range) | with Tugboat (range) | ratio |"
    echo "|---|---|---|---|---|"
    for row in "${readme_rows[@]}"; do
        IFS='|' read -r step key name <<<"$row"
        [ -s "$1/$step.csv" ] || { echo "figures: nothing is measured of $step" >&2; exit 1; }
        line=$(awk -f "$here/figures.awk" -v only="$key" -v of="host tug" "$1/$step.csv")
        [ -n "$line" ] || { echo "figures: $step has no row $key" >&2; exit 1; }
        echo "| $name | $(value "$1/$step.facts" unit) $line"
    done
}

# documents DOCS OUT: makes figures.md and README.md in OUT.
documents() {
    page "$1/figures" >"$2/figures.md"
    readme_table "$1/figures" >"$2/table"
    sed -e "/<!-- figures -->/r $2/table" -e '/<!-- figures -->/,/<!-- \/figures -->/{/^|/d}' "$1/../README.md" >"$2/README.md"
}

case ${1:-} in
take)
    data=${2:?$usage} docs=${3:?$usage}
    mkdir -p "$docs/figures"
    for facts in "$data"/*.facts; do
        [ -s "${facts%.facts}.csv" ] || { echo "figures: $(basename "$facts" .facts) has no figures: left out" >&2; continue; }
        cp "$facts" "${facts%.facts}.csv" "$docs/figures"
    done
    exec "${BASH_SOURCE[0]}" make "$docs"
    ;;
make)
    docs=${2:?$usage}
    documents "$docs" "$work"
    cp "$work/figures.md" "$docs/figures.md"
    cp "$work/README.md" "$docs/../README.md"
    progress=$docs/figures/progress
    if command -v gnuplot >/dev/null && [ -s "$progress.csv" ]; then
        awk -f "$here/report_plot.awk" -v kind=bars -v unit="$(value "$progress.facts" unit)" -v x= "$progress.csv" |
            gnuplot >"$docs/passive.svg"
    fi
    ;;
check)
    docs=${2:?$usage}
    documents "$docs" "$work"
    for document in figures.md ../README.md; do
        diff "$docs/$document" "$work/$(basename "$document")" ||
            { echo "$(basename "$document") (<) is not what docs/figures makes (>): run osu-style-bench/figures.sh make docs"; exit 1; }
    done
    echo "$(steps "$docs/figures" | wc -l) sections are what their figures make"
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac

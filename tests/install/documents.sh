#!/usr/bin/env bash
# What the documents name is there: links, files and folders of the source, settings; the README is short.
# Usage: documents.sh SOURCE-ROOT
set -uo pipefail
cd "$1" || exit 1
failed=0 looked=0
wrong() { echo "$*"; failed=1; }

settings=$(grep -oE '"TUGBOAT(_[A-Z]+)*"' src/base/settings.c | tr -d '"')
for document in README.md CONTRIBUTING.md docs/*.md examples/*.md; do
    folder=$(dirname "$document")
    for link in $(grep -oE '\]\([^)]+\)' "$document" | sed 's/^](//; s/[)#].*//' | grep -v '://'); do
        looked=$((looked + 1))
        [ -e "$folder/$link" ] || wrong "$document links to $link, which is not there"
    done
    for path in $(grep -oE '`(src|pmpi|persistent|tests|include|packaging|docs|osu-style-bench)/[^` ]*`' "$document" | tr -d '`'); do
        looked=$((looked + 1))
        compgen -G "$path" >/dev/null || wrong "$document names $path, which is not there"
    done
    for setting in $(grep -oE '\bTUGBOAT_[A-Z_]*[A-Z]\b' "$document" | grep -vE '^TUGBOAT_(X|WERROR)$' | sort -u); do
        looked=$((looked + 1))
        grep -qx "$setting" <<<"$settings" || wrong "$document names $setting, which is no setting"
    done
done
# The programs that docs/ways-in.md runs are examples, its settings and options those of the command.
for program in $(grep -oE '(\./|python3 )[a-z_]+(\.py)?\b' docs/ways-in.md | sed 's#^\./##; s/^python3 //' | sort -u); do
    looked=$((looked + 1))
    [ -e "examples/${program%.py}.c" ] || [ -e "examples/$program" ] || [ -x "$program" ] ||
        wrong "docs/ways-in.md runs $program, which is no example"
done
for option in $(grep -oE 'tugboat run( --[a-z]+)+' docs/ways-in.md | grep -oE -- '--[a-z]+' | sort -u); do
    looked=$((looked + 1))
    grep -qF -- "${option#-}" docs/tugboat.1 || wrong "docs/ways-in.md names tugboat run $option, which is no option"
done
for program in $(grep -oE '\(\.\./examples/[a-z_.]+' docs/ways-in.md | sed 's#.*/##' | sort -u); do
    grep -q "examples_${program%.*}\|\b${program%.*}\b" tests/mpi/cmake/examples.cmake ||
        [[ $program == gas_sweep.c || $program == passive.c || $program == README.md ]] || wrong "no test runs $program"
done
[ "$looked" -gt 50 ] || wrong "only $looked names were looked at"
lines=$(wc -l <README.md)
[ "$lines" -le 120 ] || wrong "the README has $lines lines"
[ $failed -eq 0 ] && echo "$looked names are there"
exit $failed

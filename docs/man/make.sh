#!/usr/bin/env bash
# Makes the manual: section 1 as it is written (but for the date), section 3 from the public headers, section 7 from
# docs/*.md. Usage: make.sh SOURCE-ROOT OUTPUT-FOLDER
set -euo pipefail
export LC_ALL=C
source=$1 out=$2
tools=$source/docs/man
# Reproducible where the builder asks for it.
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" '+%B %-d, %Y')

rm -rf "$out"
mkdir -p "$out"/man{1,3,7}
sed "1s/\"\"/\"$date\"/" "$source/docs/tugboat.1" >"$out/man1/tugboat.1"

while IFS= read -r header; do
    name=$(basename "$header" .h)
    page=tugboat_$name
    [ "$name" = tugboat ] && page=tugboat
    awk -v header="${header#"$source/include/"}" -v page="$page" -v date="$date" -v folder="$out/man3" \
        -f "$tools/header.awk" "$header"
done < <(find "$source/include" -name '*.h' | sort)

page() { awk -v page="$1" -v date="$date" -f "$tools/markdown.awk" >"$out/man7/$1.7"; }
page tugboat-lanes <"$source/docs/semantics.md"
page tugboat-persistent <"$source/docs/persistent.md"
page tugboat-ways-in <"$source/docs/ways-in.md"
page tugboat-settings <"$source/docs/settings.md"

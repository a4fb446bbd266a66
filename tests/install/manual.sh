#!/usr/bin/env bash
# The manual: mandoc has nothing against it, every public call and every command has its place there.
# Usage: manual.sh PREFIX
set -euo pipefail
prefix=$1 man=$1/share/man failed=0
wrong() { echo "$*"; failed=1; }
command -v mandoc >/dev/null || { echo "skipped: mandoc is not installed"; exit 77; }
plain() { mandoc -Tascii "$1" | sed $'s/.\b//g'; }

while IFS= read -r page; do
    mandoc -Tlint -W warning "$page" || wrong "$page: see above"
    plain "$page" | grep '^DESCRIPTION' >/dev/null || wrong "$page describes nothing"
done < <(find "$man" -type f)
dangling=$(find "$man" -xtype l)
[ -z "$dangling" ] || wrong "these lead nowhere: $dangling"

library=$(find "$prefix" -name libtugboat.so)
calls=$(nm -D --defined-only "$library" | awk '$NF ~ /^(tug_|acp_|MPIX_)/ && $(NF - 1) == "T" { print $NF }')
[ "$(wc -w <<<"$calls")" -gt 50 ] || wrong "no calls in $library"
for call in $calls; do
    [ -e "$man/man3/$call.3" ] || wrong "no page for $call"
done
for page in man1/tugboat.1 man7/tugboat-{lanes,persistent,settings,ways-in}.7; do
    [ -e "$man/$page" ] || wrong "no $page"
done

page=$(plain "$man/man1/tugboat.1")
for command in $("$prefix/bin/tugboat" --help | sed -n 's/^  tugboat \([a-z]*\).*/\1/p'); do
    grep -q "tugboat $command" <<<"$page" || wrong "tugboat(1) has no word on $command"
done
for setting in $("$prefix/bin/tugboat" info | grep -oE '^  TUGBOAT[A-Z_]*'); do
    grep -q "^\.It .*$setting" "$man/man7/tugboat-settings.7" || wrong "no word on $setting"
done
exit $failed

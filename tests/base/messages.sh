#!/usr/bin/env bash
# What the library and the command say, collected from their source: messages.sh check|write SOURCE-ROOT
#
# check: messages.txt lists every message, each once; an error or a warning says more than what happened; and
# docs/troubleshooting.md has every one that a user may meet without asking for it (errors, warnings, what the
# command says, error sentences), word by word, with ... where something is put in. write: makes messages.txt.
set -uo pipefail
how=$1 list=$(cd "$(dirname "$0")" && pwd)/messages.txt awk=$(cd "$(dirname "$0")" && pwd)/messages.awk
cd "$2" || exit 2
failed=0
wrong() { echo "$*"; failed=1; }

collected=$(find src pmpi persistent -name '*.[ch]' | LC_ALL=C sort | xargs awk -f "$awk" | LC_ALL=C sort)
if [ "$how" = write ]; then
    printf '%s\n' "$collected" >"$list"
    exit
fi
[ "$(wc -l <<<"$collected")" -gt 100 ] || wrong "only so few are found: $collected"
diff "$list" - <<<"$collected" || wrong "messages.txt (<) is not what the source says (>); run ./dev messages"
twice=$(cut -f2 <<<"$collected" | LC_ALL=C sort | uniq -d)
[ -z "$twice" ] || wrong "said in two places: $twice"

# %s, %u and the like: to ...
documented() { sed -E 's/%[-#0-9.]*(hh|h|ll|l|z|j)?[a-zA-Z]/.../g; s/(\.\.\.)+/.../g; s/\\"/"/g' <<<"$1"; }
text=$(sed 's/\\|/|/g' docs/troubleshooting.md)
while IFS=$'\t' read -r kind message; do
    case $kind in
    error | warning)
        [[ $message =~ [:\;,] ]] || wrong "says only what happened: $message" ;;
    command | status) ;;
    *) continue ;;
    esac
    shown="\`$(documented "$message")\`"
    grep -qF -- "$shown" <<<"$text" || wrong "docs/troubleshooting.md has no $kind $shown"
done <<<"$collected"

# And nothing else: what a table of messages there shows is one.
known=$(while IFS=$'\t' read -r _ message; do documented "$message"; done <<<"$collected")
while IFS= read -r shown; do
    grep -qxF -- "$shown" <<<"$known" || wrong "docs/troubleshooting.md shows what nobody says: $shown"
done < <(sed -n '/<!-- messages -->/,/<!-- \/messages -->/s/^| `\([^`]*\)` |.*/\1/p' docs/troubleshooting.md)
[ $failed -eq 0 ] && echo "$(wc -l <<<"$collected") messages, each once"
exit $failed

#!/usr/bin/env bash
# A program is right, and so many calls of a class were taken, or so often something else happened
# (TUGBOAT_STATS). How often may depend on who else wants the cores: one run of three is enough.
#
#   taken.sh CLASS LEAST[-MOST] RUN_OPTIONS... -- PROGRAM [ARG]...
set -u
class=$1 least=${2%-*} most=${2#*-}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for _ in 1 2 3; do
    "$here/run_mpi.sh" --env TUGBOAT_STATS=1 "$@" 2> "$errors" || { cat "$errors"; exit 1; }
    read -r _ taken _ < <(grep -E "^ *$class " "$errors")
    if [ "${taken:-0}" -ge "$least" ] && { [ "$most" = "$least" ] || [ "${taken:-0}" -le "$most" ]; }; then
        exit 0
    fi
    echo "$class: ${taken:-none}, not $least$([ "$most" = "$least" ] || echo " to $most")"
done
exit 1

#!/usr/bin/env bash
# A program is right, and so many calls of a class were taken, or so often something else happened
# (TUGBOAT_STATS).
#
#   taken.sh CLASS LEAST RUN_OPTIONS... -- PROGRAM [ARG]...
set -u
class=$1 least=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
"$here/run_mpi.sh" --env TUGBOAT_STATS=1 "$@" 2> "$errors" || { cat "$errors"; exit 1; }
read -r _ taken _ < <(grep -E "^ *$class " "$errors")
[ "${taken:-0}" -ge "$least" ] || { echo "$class: ${taken:-none}, not $least"; exit 1; }

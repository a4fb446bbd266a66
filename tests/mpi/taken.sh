#!/usr/bin/env bash
# A program is right, and so many calls of a class were taken, or so often something else happened
# (TUGBOAT_STATS).
#
#   taken.sh CLASS LEAST[-MOST] RUN_OPTIONS... -- PROGRAM [ARG]...
set -u
class=$1 least=${2%-*} most=${2#*-}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
"$here/run_mpi.sh" --env TUGBOAT_STATS=1 "$@" 2> "$errors" || { cat "$errors"; exit 1; }
read -r _ taken _ < <(grep -E "^ *$class " "$errors")
[ "${taken:-0}" -ge "$least" ] || { echo "${taken:-no} calls of class $class taken, not $least"; exit 1; }
[ "$most" = "$least" ] || [ "${taken:-0}" -le "$most" ] || { echo "$taken times $class, not $most at most"; exit 1; }

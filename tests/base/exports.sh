#!/usr/bin/env bash
# The names libtugboat.so shows are exactly those of a sorted list.
# Usage: exports.sh check|write LIBRARY LIST
set -euo pipefail
export LC_ALL=C
names() { nm -D --defined-only "$1" | awk '{print $NF}' | sort -u; }
case $1 in
write) names "$2" >"$3" ;;
check)
    if ! diff "$3" <(names "$2"); then
        echo "the exported names (>) differ from $3 (<); where that is meant, run ./dev exports"
        exit 1
    fi
    ;;
*) exit 2 ;;
esac

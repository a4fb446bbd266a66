#!/usr/bin/env bash
# Runs a fuzz target for a bounded time from seeds that are made anew: the same start each time.
# run.sh FUZZER SEED-MAKER FOLDER SECONDS
#
# FOLDER is for work; an input that fails stays there, and running the fuzzer with it alone shows the
# failure again. A run that did not reach what it is for, as the target says at its end, failed too.
set -euo pipefail
fuzzer=$1 maker=$2 folder=$3 seconds=$4

rm -rf "$folder"
mkdir -p "$folder/seeds" "$folder/corpus"
"$maker" "$folder/seeds"

# A small quarantine: large blocks come back to the cache.
export ASAN_OPTIONS=quarantine_size_mb=32${ASAN_OPTIONS:+:$ASAN_OPTIONS}
status=0
"$fuzzer" -seed=20160809 -max_total_time="$seconds" -max_len=4096 -len_control=0 \
    -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$folder/" \
    "$folder/corpus" "$folder/seeds" >"$folder/log" 2>&1 || status=$?
grep -E '^(stat::|reached:|SUMMARY|.*not so:)' "$folder/log" || true
if [ $status -ne 0 ]; then
    tail -n 60 "$folder/log"
    exit 1
fi
if ! grep -q '^reached: .*: enough$' "$folder/log"; then
    echo "the run did not reach what it is for"
    exit 1
fi

#!/usr/bin/env bash
# Runs a fuzz target for a bounded time from seeds that are made anew: the same start each time.
# run.sh FUZZER SEED-MAKER FOLDER SECONDS
#
# FOLDER is for work; an input that fails stays there, and running the fuzzer with it alone shows the
# failure again. A run that has not reached every kind of record and every fault is a failure too.
set -euo pipefail
fuzzer=$1 maker=$2 folder=$3 seconds=$4

rm -rf "$folder"
mkdir -p "$folder/seeds" "$folder/corpus"
"$maker" "$folder/seeds"

status=0
"$fuzzer" -seed=20160809 -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$folder/" \
    "$folder/corpus" "$folder/seeds" >"$folder/log" 2>&1 || status=$?
grep -E '^(stat::|reached:|SUMMARY|.*not so:)' "$folder/log" || true
if [ $status -ne 0 ]; then
    tail -n 60 "$folder/log"
    exit 1
fi
reached=$(sed -n 's/^reached: //p' "$folder/log" | tr -d ,)
# "N good packets K of K kinds F of F faults N applied N refused"
read -r good _ _ kinds _ all_kinds _ faults _ all_faults _ applied _ refused _ <<<"$reached"
if [ "$good" -lt 1000 ] || [ "$kinds" != "$all_kinds" ] || [ "$faults" != "$all_faults" ] ||
    [ "$applied" -eq 0 ] || [ "$refused" -eq 0 ]; then
    echo "the run did not reach what it is for"
    exit 1
fi

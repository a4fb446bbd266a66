#!/usr/bin/env bash
# Runs a benchmark with --validate --corrupt: it must say that data are wrong and must not exit with 0.
# A crash is not enough: the message is what tells the damaged word from any other failure.
set -uo pipefail

output=$("$@" 2>&1)
status=$?
printf '%s\n' "$output"
if ((status == 0)); then
    echo "FAIL: exit status 0 with wrong data"
    exit 1
fi
if ! grep -q '^# validation: FAILED, [1-9][0-9]* words wrong$' <<<"$output"; then
    echo "FAIL: exit status $status, but wrong data were not reported"
    exit 1
fi
echo "wrong data were noticed"

#!/usr/bin/env bash
# figure.sh NAME=BEFORE... COMMAND...: figures that a program prints, as rows that `versus` compares.
#
# Runs the command once. The figure NAME is the number that comes before the text BEFORE in its output: lower is better,
# and where that text begins with M/s, higher. A program that fails or prints none has failed: no row, exit status 1.
set -uo pipefail

names=()
while [[ $1 == *=* ]]; do
    names+=("$1")
    shift
done
output=$("$@" </dev/null 2>&1)
status=$?
failed() {
    tail -n 5 <<<"$output" >&2
    echo "figure.sh: $1" >&2
    exit 1
}
((status == 0)) || failed "exit status $status of $*"
better=lower rows=''
for name in "${names[@]}"; do
    figure=$(grep -oE -- "[0-9.]+ ${name#*=}" <<<"$output" | head -n 1)
    [[ -n $figure ]] || failed "no number before '${name#*=}'"
    [[ $name != *=M/s* ]] || better=higher
    rows+=${name%%=*},${figure%% *}$'\n'
done
printf 'key:program,%s:figure\n%s' $better "$rows"

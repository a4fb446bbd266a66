#!/bin/sh
# Checks one Promela model with spin: check.sh MODEL.pml holds|fails [DEFINE...]
#
# "holds": the full state space is searched and no assertion fails and no invalid end state exists.
# "fails": the same search must find an error: it shows that the model can fail. A search that did not
# finish (out of memory, too deep) is an error either way. 77 where spin is not installed.
set -eu

source=$1
model=$(basename "$source")
expected=$2
shift 2

command -v spin >/dev/null || { echo "skipped: spin is not installed"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$source" "$work"
cd "$work"

defines=
for define in "$@"; do
    defines="$defines -D$define"
done
level=-O2 # a search of the full space takes long; an error is found in less time than optimising takes
[ "$expected" = fails ] && level=-O0
# shellcheck disable=SC2086
spin $defines -a "$model" >spin.log 2>&1 || { cat spin.log; exit 1; }
"${CC:-gcc}" "$level" -w -DSAFETY -DCOLLAPSE -DMEMLIM="${MODEL_MEMORY_MB:-2048}" -o pan pan.c
./pan -m200000 >pan.log 2>&1 || true

if grep -q -e "max search depth too small" -e "Search not completed" -e "reached -DMEMLIM" pan.log &&
    ! grep -q "errors: [1-9]" pan.log; then
    cat pan.log
    echo "the search did not finish"
    exit 1
fi
errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
why=$(sed -n 's/^pan:1: //p' pan.log)
echo "$model $*: $states states, ${errors:-no} errors $why"
case "$expected:$errors" in
holds:0) exit 0 ;;
fails:[1-9]*) exit 0 ;;
esac
cat pan.log
if [ "$expected" = holds ]; then
    spin $defines -t -p -g "$model" 2>&1 | tail -n "${MODEL_TRACE_LINES:-400}"
else
    echo "this variant is broken on purpose and was not found wrong"
fi
exit 1

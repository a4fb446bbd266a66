#!/usr/bin/env bash
# Each library shows the names of its list, and libtugboat.so those of both.
# Usage: names.sh PREFIX LIBDIR FOLDER-OF-LISTS
set -uo pipefail
lib=$1/$2 lists=$3 failed=0
names() { nm -D --defined-only "$1" | awk '{ print $NF }' | LC_ALL=C sort -u; }
[ -e "$lib/tugboat/libtugboat-openmpi.so" ] && [ -e "$lib/tugboat/libtugboat-mpich.so" ] ||
    { echo "skipped: the prefix holds the library for one MPI"; exit 77; }
diff <(names "$lib/tugboat/libtugboat-mpich.so") <(LC_ALL=C sort -u "$lists/exports.txt") || failed=1
diff <(names "$lib/tugboat/libtugboat-openmpi.so") <(LC_ALL=C sort -u "$lists/exports-openmpi.txt") || failed=1
diff <(names "$lib/libtugboat.so") <(LC_ALL=C sort -u "$lists/exports.txt" "$lists/exports-openmpi.txt") || failed=1
exit $failed

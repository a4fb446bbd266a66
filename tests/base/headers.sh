#!/usr/bin/env bash
# Every public header compiles alone, strictly, as C and as C++.
# Usage: headers.sh INCLUDE-DIRECTORY MPI-INCLUDE-DIRECTORY C-COMPILER CXX-COMPILER
set -uo pipefail
include=$1 mpi=$2 cc=$3 cxx=$4 failed=0 count=0
while IFS= read -r header; do
    count=$((count + 1))
    line="#include <${header#"$include"/}>"
    "$cc" -x c -std=c11 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror -fsyntax-only \
        -I"$include" -isystem "$mpi" - <<<"$line" || failed=1
    "$cxx" -x c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only \
        -I"$include" -isystem "$mpi" - <<<"$line" || failed=1
done < <(find "$include" -name '*.h')
[ "$count" -gt 0 ] || { echo "no header under $include"; exit 1; }
[ $failed -eq 0 ] && echo "$count headers are fine"
exit $failed

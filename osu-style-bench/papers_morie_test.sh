#!/usr/bin/env bash
# papers_morie_test.sh: the equations of Morie et al. as papers_morie.awk prints them: three times 21 sizes, and peaks
# within 5 % of those that the paper states, in thousands of MiB/s.
set -u
out=$(awk -f "$(dirname "$0")/papers_morie.awk") || exit 1
fail() { echo "FAILED: $*"; exit 1; }
[ "$(grep -cE '^[234],[0-9]+,' <<<"$out")" = 63 ] || fail "not 63 rows"
awk -F, '
    /^[234],/ {
        if ($6 > relay[$1]) relay[$1] = $6
        if ($7 > two_phase[$1]) two_phase[$1] = $7
        if ($2 >= 1048576 && $5 >= $4) bad = 1
    }
    function off(value, stated) { value *= 1e9 / 1048576e3; return value < stated * 0.95 || value > stated * 1.05 }
    END {
        exit bad || off(relay[2], 9) || off(relay[3], 4.5) || off(relay[4], 3) ||
            off(two_phase[2], 22) || off(two_phase[4], 16)
    }' <<<"$out" || fail "peaks, or two-phase is not faster from 1 MiB on: $(grep '^#' <<<"$out")"
[ "$(grep -c '^# peak of .*; the paper states' <<<"$out")" = 5 ] || fail "not 5 stated peaks"
echo "all fine"

#!/usr/bin/env bash
# `./dev hosts`: its arguments and its table, without a root. Usage: table.sh SOURCE-ROOT
set -uo pipefail
# shellcheck source=../base/expect.sh
. "$(dirname "$0")/../base/expect.sh"
hosts=("$1/dev" hosts)

# results LINE...: fields parted by a bar
results() { printf '%s\n' "$@" | tr '|' '\t' >"$work/results"; }

results 'trixie|MPICH 4.2.1|build|right|' 'trixie|MPICH 4.2.1|C|right|' 'trixie|MPICH 4.2.1|C|right|' \
    'trixie|MPICH 4.2.1|C|note|queue fails on the host alone' 'trixie|MPICH 4.2.1|Python|not there|no mpi4py'
expect fine 0 '^release +MPI +build +selftest +C +C\+\+ +Fortran +Python +package +tests' "${hosts[@]}" --table "$work/results"
has fine '^trixie +MPICH 4.2.1 +right +not tried +right +not tried +not tried +not there not tried not tried *$'
has fine '^trixie, MPICH 4.2.1, Python: not there: no mpi4py$'
has fine '^trixie, MPICH 4.2.1, C: note: queue fails on the host alone$'

results 'bookworm|Open MPI 4.1.4|C++|right|' 'bookworm|Open MPI 4.1.4|C++|wrong|cxx: status 1' \
    'bookworm|Open MPI 4.1.4|C++|right|' 'trixie|Open MPI 5.0.7|build|not there|not installed'
expect wrong 1 '^bookworm +Open MPI 4.1.4 +not tried +not tried +not tried +wrong +not tried' "${hosts[@]}" --table "$work/results"
has wrong '^bookworm, Open MPI 4.1.4, C\+\+: wrong: cxx: status 1$'
has wrong '^trixie +Open MPI 5.0.7 +not there '
results
expect empty 1 'nothing was tried' "${hosts[@]}" --table "$work/results"

# what a report of ctest says: of a test that ends well, fails, takes too long, cannot be started, is skipped, is disabled
cat >"$work/tests.xml" <<'XML'
	<testcase name="t.right" classname="t.right" time="0.1" status="run">
		<system-out>Error that is none</system-out>
	</testcase>
	<testcase name="t.failed" classname="t.failed" time="1.2" status="fail">
		<failure message="Failed"/>
		<system-out>first
WRONG &lt;1&gt; &amp; more
last
</system-out>
	</testcase>
	<testcase name="t.late" classname="t.late" time="300.4" status="fail">
		<failure message=""/>
		<system-out></system-out>
	</testcase>
	<testcase name="t.nowhere" classname="t.nowhere" time="0" status="notrun">
		<skipped message="Unable to find executable"/>
		<system-out>Unable to find executable: /no/such</system-out>
	</testcase>
	<testcase name="t.skipped" classname="t.skipped" time="0" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>skipped: no such &amp; such
</system-out>
	</testcase>
	<testcase name="t.off" classname="t.off" time="0" status="disabled">
		<system-out>Disabled</system-out>
	</testcase>
XML
expect verdicts 0 '^right.t\.right.$' awk -f "$1/tests/hosts/verdicts.awk" "$work/tests.xml"
has verdicts '^failed.t\.failed.WRONG <1> & more \(1 s\)$'
has verdicts '^failed.t\.late.it says nothing \(300 s\)$'
has verdicts '^failed.t\.nowhere.Unable to find executable: /no/such \(0 s\)$'
has verdicts '^skipped.t\.skipped.no such & such$'
has verdicts '^skipped.t\.off.Disabled$'

expect help 0 '^usage: ./dev hosts' "${hosts[@]}" --help
expect release 2 "no release 'sid'" "${hosts[@]}" sid
expect option 2 '^usage:' "${hosts[@]}" --such
expect value 2 '--root needs a value' "${hosts[@]}" --root
expect root 2 'no root at /nowhere' "${hosts[@]}" --root 13=/nowhere
expect tests 2 '--tests needs a value' "${hosts[@]}" --tests
expect mpi 2 "mpich or openmpi, not 'lam'" "${hosts[@]}" --mpi lam
expect file 2 'cannot be read' "${hosts[@]}" --table "$work/none"
[ $failed -eq 0 ] && echo "all fine"
exit $failed

#!/usr/bin/env bash
# One prefix serves programs of both MPIs: linked with either, preloaded, behind a script, in Python; and it
# says so when the launcher is of the other MPI. Each program checks its data, on the host alone, under
# Tugboat, and with TUGBOAT=off. Usage: hosts.sh PREFIX LIBDIR SOURCE MPICC MPIEXEC MPICC MPIEXEC (MPICH's, Open MPI's)
set -uo pipefail
prefix=$1 lib=$1/$2 source=$3
tugboat=$prefix/bin/tugboat
unset LD_PRELOAD ${!TUGBOAT*}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# shellcheck source=../base/expect.sh
. "$(dirname "$0")/../base/expect.sh"
[ -e "$lib/tugboat/libtugboat-mpich.so" ] && [ -e "$lib/tugboat/libtugboat-openmpi.so" ] ||
    { echo "skipped: the prefix holds the library for one MPI"; exit 77; }
declare -A mpicc=([mpich]=$4 [openmpi]=$6) mpiexec=([mpich]=$5 [openmpi]=$7) title=([mpich]=MPICH [openmpi]='Open MPI')
taken='tugboat [0-9.]+ statistics, 2 ranks'

# three NAME COMMAND...: data are right, and the library takes part where it should.
three() {
    local name=$1
    shift
    expect "$name.host" 0 'right data' timeout 60 "$@"
    expect "$name.tug" 0 "$taken" timeout 60 "$tugboat" run --stats "$@"
    grep -q 'right data' "$work/out" || fail "$name.tug: wrong data"
    grep -qE '^ *put +[1-9][0-9]* +0 ' "$work/out" || fail "$name.tug: puts were not taken"
    expect "$name.off" 0 'right data' env TUGBOAT=off timeout 60 "$tugboat" run --stats "$@"
    absent "$name.off" "$taken"
}

for mpi in mpich openmpi; do
    other=$([ $mpi = mpich ] && echo openmpi || echo mpich)
    "${mpicc[$mpi]}" -o "$work/plain.$mpi" "$source" || fail "plain.$mpi is not built"
    "${mpicc[$mpi]}" -DLINKED -I"$prefix/include" -o "$work/linked.$mpi" "$source" -L"$lib" -ltugboat -Wl,-rpath,"$lib" ||
        fail "linked.$mpi is not built"
    # as a library that brings the MPI
    "${mpicc[$mpi]}" -fPIC -shared -Dmain=deep -o "$work/libdeep.$mpi.so" "$source"
    printf 'int deep(int, char **); int main(int n, char **v) { return deep(n, v); }\n' >"$work/deep.c"
    cc -o "$work/deep.$mpi" "$work/deep.c" -L"$work" -l:"libdeep.$mpi.so" -Wl,-rpath,'$ORIGIN' ||
        fail "deep.$mpi is not built"
    start=("${mpiexec[$mpi]}" -n 2)
    # by the older RPATH, which holds for libraries of libraries; and by LD_LIBRARY_PATH
    mkdir -p "$work/far.$mpi"
    printf 'int deep(int, char **); int far_off(int n, char **v) { return deep(n, v); }\n' >"$work/far.c"
    cc -fPIC -shared -o "$work/far.$mpi/libfar.so" "$work/far.c" -L"$work" -l:"libdeep.$mpi.so"
    mv "$work/libdeep.$mpi.so" "$work/far.$mpi"
    printf 'int far_off(int, char **); int main(int n, char **v) { return far_off(n, v); }\n' >"$work/main.c"
    cc -o "$work/rpath.$mpi" "$work/main.c" -L"$work/far.$mpi" -lfar -Wl,--disable-new-dtags,-rpath,"$work/far.$mpi" ||
        fail "rpath.$mpi is not built"
    cc -o "$work/path.$mpi" "$work/main.c" -L"$work/far.$mpi" -lfar -Wl,-rpath-link,"$work/far.$mpi" ||
        fail "path.$mpi is not built"
    for program in rpath path; do
        [ $program = path ] && far=$work/far.$mpi || far=
        expect "$program.$mpi" 125 "but $work/$program.$mpi is a program of ${title[$mpi]}" \
            env LD_LIBRARY_PATH="$far" "$tugboat" run "${mpiexec[$other]}" "$work/$program.$mpi"
    done
    # beside a library that is not there
    echo 'int missing;' | cc -xc -fPIC -shared -o "$work/libmissing.so" -
    "${mpicc[$mpi]}" -o "$work/lacks.$mpi" "$source" -Wl,--no-as-needed -L"$work" -lmissing || fail "lacks.$mpi is not built"
    rm "$work/libmissing.so"
    expect "lacks.$mpi" 125 "but $work/lacks.$mpi is a program of ${title[$mpi]}" \
        "$tugboat" run "${mpiexec[$other]}" "$work/lacks.$mpi"
    mv "$work/far.$mpi/libdeep.$mpi.so" "$work"
    for program in plain deep; do
        three "$program.$mpi" "${start[@]}" "$work/$program.$mpi"
    done
    three "env.$mpi" "${start[@]}" env A=1 "$work/plain.$mpi"
    three "script.$mpi" sh -c '"$@"' sh "${start[@]}" "$work/plain.$mpi"
    # a script hides both: libtugboat.so decides
    printf '#!/bin/sh\nexec %s "%s"\n' "${start[*]}" "$work/plain.$mpi" >"$work/run.$mpi"
    chmod +x "$work/run.$mpi"
    three "hidden.$mpi" "$work/run.$mpi"
    expect "preloads.$mpi" 0 "^$lib/tugboat/libtugboat-$mpi.so\$" "$tugboat" run "${start[0]}" -n 1 sh -c 'echo $LD_PRELOAD'
    expect "launcher-refused.$mpi" 125 \
        "${mpiexec[$other]} is the launcher of ${title[$other]}, but $work/plain.$mpi is a program of ${title[$mpi]} \(lib[a-z]*\.so\.[0-9]+\): start it with " \
        "$tugboat" run "${mpiexec[$other]}" -n 2 "$work/plain.$mpi"
    expect "compare-refused.$mpi" 125 "is the launcher of ${title[$other]}" \
        "$tugboat" compare -n 2 "${mpiexec[$other]}" -n 2 "$work/plain.$mpi"
    # linked: libtugboat.so alone, and a preloaded library in its place
    expect "linked.$mpi" 0 "$taken" env TUGBOAT_STATS=1 timeout 60 "${start[@]}" "$work/linked.$mpi"
    grep -q 'right data, once' "$work/out" || fail "linked.$mpi: $(cat "$work/out")"
    expect "linked-off.$mpi" 0 'right data, once' env TUGBOAT=off timeout 60 "${start[@]}" "$work/linked.$mpi"
    expect "linked-run.$mpi" 0 "$taken" timeout 60 "$tugboat" run --stats "${start[@]}" "$work/linked.$mpi"
    grep -q 'right data, once' "$work/out" || fail "linked-run.$mpi: the library is there twice"
    expect "traced.$mpi" 0 'right data' timeout 60 "$tugboat" run --trace="$work/$mpi.json" "${start[@]}" "$work/plain.$mpi"
    [ -s "$work/$mpi.json" ] || fail "traced.$mpi: no trace"
    expect "selftest.$mpi" 0 '^Tugboat works here' timeout 100 "$tugboat" selftest "${start[@]}"
    grep -qE "^  library +ok +$lib/tugboat/libtugboat-$mpi.so\$" "$work/out" || fail "selftest.$mpi tries another library"
    has "rings.$mpi" 'data +ok +neighbour collectives bring blocks to the right side$'
    expect "calibrate.$mpi" 0 '' timeout 100 "$tugboat" calibrate -o "$work/tuning.$mpi" "${start[@]}"
    grep -q latency_us "$work/tuning.$mpi" || fail "calibrate.$mpi writes nothing"
    expect "info.$mpi" 0 "^  for ${title[$mpi]} +$lib/tugboat/libtugboat-$mpi.so\$" "$tugboat" info
done

# without a launcher: every host, and the worst status
expect selftest 0 '' timeout 200 "$tugboat" selftest
for mpi in mpich openmpi; do
    has selftest "^${title[$mpi]}, with jobs of mpi[^ ]* -n 2"
    has selftest "^  library +ok +$lib/tugboat/libtugboat-$mpi.so\$"
    has selftest "^  host MPI +ok +${title[$mpi]} "
    printf '#!/bin/sh\n[ "$1" != --version ] || exec "%s" --version\nexit 1\n' "${mpiexec[$mpi]}" >"$work/mpiexec.$mpi"
    chmod +x "$work/mpiexec.$mpi"
    expect "selftest.worst.$mpi" 1 "^${title[$mpi]}, with jobs" env PATH="$work:$PATH" timeout 200 "$tugboat" selftest
    has "selftest.worst.$mpi" 'launcher +FAILED'
    has "selftest.worst.$mpi" '^Tugboat works here'
    rm "$work/mpiexec.$mpi"
done
mkdir "$work/one"
cp -r "$prefix/bin" "$lib" "$work/one"
rm "$work/one/${lib##*/}/tugboat/libtugboat-openmpi.so"
expect selftest.untested 0 '^Open MPI, started by mpi[^ ]*, is not tested: this installation has no libtugboat-openmpi\.so$' \
    timeout 100 "$work/one/bin/tugboat" selftest
has selftest.untested '^MPICH, with jobs'

# opened late, as by a module of Python that is linked with it
printf '#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char **v) { (void)n; void *d = dlopen(v[1], RTLD_NOW); if (!d) puts(dlerror()); return !d; }\n' >"$work/late.c"
cc -o "$work/late" "$work/late.c" -ldl
expect late 0 '' "$work/late" "$lib/libtugboat.so"

# an MPI that nobody knows
printf 'int MPI_Init(void *a, void *b) { return a != b; }\n' >"$work/foreign.c"
cc -shared -fPIC -o "$work/libmpi.so.7" -Wl,-soname,libmpi.so.7 "$work/foreign.c"
printf 'int MPI_Init(void *, void *); int main(void) { return MPI_Init(0, 0); }\n' >"$work/uses.c"
cc -o "$work/uses" "$work/uses.c" -L"$work" -l:libmpi.so.7 -Wl,-rpath,'$ORIGIN'
expect foreign 0 'uses libmpi.so.7, an MPI that Tugboat has no library for, and runs without it' "$tugboat" run "$work/uses"
expect foreign-env 0 'libmpi.so.7, an MPI that Tugboat has no library for' env LD_LIBRARY_PATH="$work" "$tugboat" run "$work/uses"
expect foreign-compare 125 'libmpi.so.7, an MPI that Tugboat has no library for' "$tugboat" compare -n 2 "$work/uses"

# Python's MPI: whichever mpi4py is built for
mpi4py=$(find /usr/lib/python3/dist-packages/mpi4py -name 'MPI*.so' 2>/dev/null | head -n 1)
if [ -n "$mpi4py" ] && [ -x /usr/bin/python3 ]; then
    mpi=$(readelf -d "$mpi4py" | grep -q 'libmpi\.so\.40' && echo openmpi || echo mpich)
    cat >"$work/ring.py" <<'PY'
from mpi4py import MPI
import array
comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(16, 4, comm=comm)
window.Fence()
value = array.array('i', [comm.rank + 7])
window.Put(value, (comm.rank + 1) % comm.size)
window.Fence()
got = int.from_bytes(window.tomemory()[:4], 'little')
assert comm.size == 2 and got == (comm.rank - 1) % comm.size + 7, (comm.size, got)
print('right data')
window.Free()
PY
    three python "${mpiexec[$mpi]}" -n 2 /usr/bin/python3 "$work/ring.py"
    printf '#!/bin/sh\nexec %s -n 2 /usr/bin/python3 "%s"\n' "${mpiexec[$mpi]}" "$work/ring.py" >"$work/run.py.sh"
    chmod +x "$work/run.py.sh"
    three python-hidden "$work/run.py.sh"
else
    echo "without mpi4py: not tried"
fi

[ $failed -eq 0 ] && echo "all fine"
exit $failed

#!/usr/bin/env bash
# Builds and installs Tugboat on this system, and tries it with each MPI. Usage: matrix.sh SOURCE BUILD WORK MPI...
#
# One build is for both MPIs, as an installation is. BUILD and WORK are kept between runs: objects, prefix, package,
# programs, logs. The outcome is WORK/results, lines of "MPI COLUMN VERDICT REASON" parted by tabs, with a column for the
# build, the selftest and each language. A language is right if every program has the right data under `tugboat run`, and
# with TUGBOAT=off wherever it has them on the host alone. With a pattern in TUG_HOSTS_TESTS, the tests of that name run, too.
set -uo pipefail
source_root=$1 build=$2 work=$3
shift 3
: >"$work/results"
unset LD_PRELOAD LD_LIBRARY_PATH PYTHONPATH PKG_CONFIG_PATH ${!TUGBOAT*} ${!OMPI*}
# shellcheck source=trial.sh
. "$source_root/tests/hosts/trial.sh"
compilers=() # how CMake is to call them
! command -v ccache >/dev/null || compilers=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

# What a log says in one line: its first error, or its last line.
reason_in() {
    { grep -a -m 1 -E 'error: |undefined|WRONG' "$1"; grep -a -m 1 -iE 'error|wrong|fail' "$1"; tail -n 1 "$1"; } | tr -d '\000' |
        sed -n '1{s/\t/ /g;s/^\(.\{200\}\).*/\1 .../;p}'
}

# --- the MPI -------------------------------------------------------------------------------------

# use_mpi NAME: sets label, mpicc, mpicxx, mpifort, launch and has_init (MPI_Bcast_init in its mpi.h).
use_mpi() {
    local name=$1 version=
    label=$([ "$name" = mpich ] && echo MPICH || echo "Open MPI")
    mpicc=mpicc.$name mpicxx=mpicxx.$name mpifort=mpifort.$name
    command -v "$mpicc" >/dev/null && command -v "mpiexec.$name" >/dev/null || return 1
    use_launcher "$name" "mpiexec.$name"
    case $name in
    mpich)
        version=$("$mpicc" -E -dM -include mpi.h -xc /dev/null | sed -n 's/^#define MPICH_VERSION "\(.*\)"/\1/p')
        ;;
    openmpi)
        version=$("mpiexec.$name" --version | sed -n '1s/.* //p')
        ;;
    esac
    label="$label $version"
    has_init=
    "$mpicc" -E -include mpi.h -xc /dev/null | grep -w MPI_Bcast_init >/dev/null && has_init=yes
    return 0
}

# --- build, install, selftest --------------------------------------------------------------------

build_and_install() {
    local name=$1 log=$work/build.log
    rm -rf "$prefix" "$work/packages"
    cmake -G Ninja -S "$source_root" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTUGBOAT_WERROR=ON \
        "${compilers[@]}" -DBUILD_TESTING=OFF -DTUGBOAT_MPI="$name" -DCMAKE_INSTALL_PREFIX=/usr >"$log" 2>&1 &&
        cmake --build "$build" --target tugboat tugboat_static tugboat_hosts tugboat_cmd tugboat_manual >>"$log" 2>&1 &&
        cmake --install "$build" --prefix "$prefix" >>"$log" 2>&1 || return
    libdir=$(dirname "$(find "$prefix" -name libtugboat.so)")
    ! command -v dpkg >/dev/null || (cd "$build" && cpack -G DEB -B "$work/packages") >>"$log" 2>&1
}

in_selftest() {
    local log=$work/$1.selftest.log
    if selftest selftest "$prefix/bin/tugboat" "$log"; then
        report selftest right
    else
        report selftest wrong "$(grep -m 1 FAILED "$log" || reason_in "$log")"
    fi
}

# --- programs ------------------------------------------------------------------------------------

# run_way WAY PROGRAM...: its status; the output is in the log. Input does not end: see tests/mpi/run_mpi.sh.
run_way() {
    local way=$1 before=()
    shift
    case $way in
    tug) before=("$prefix/bin/tugboat" run --stats) ;;
    each) set -- "$prefix/bin/tugboat" run --stats "$@" ;; # the command within the job
    preload) before=(env LD_PRELOAD="$libdir/libtugboat.so" TUGBOAT_STATS=1) ;;
    off) before=(env TUGBOAT=off "$prefix/bin/tugboat" run) ;;
    linked) before=(env LD_LIBRARY_PATH="$libdir") ;;
    linked_off) before=(env LD_LIBRARY_PATH="$libdir" TUGBOAT=off) ;;
    esac
    in_time "${before[@]}" "${launch[@]}" "$@" >"$log" 2>&1 <> <(:)
}

# try LANGUAGE NAME PROGRAM [ARGUMENT]...: three ways; what only the host does wrong is its own fault.
try() {
    local language=$1 name=$2 host=0 status=0 log=$work/run.log
    shift 2
    run_way host "$@" || host=$?
    [ $host -eq 0 ] || report "$language" note "$name fails on the host alone (status $host): $(reason_in "$log")"
    run_way tug "$@" || status=$?
    if [ $status -ne 0 ] && [ $host -ne 0 ]; then
        report "$language" note "$name fails under tugboat run, too (status $status)"
    elif [ $status -ne 0 ]; then
        report "$language" wrong "$name under tugboat run, status $status: $(reason_in "$log")"
    elif ! grep -a "statistics, $ranks ranks" "$log" >/dev/null; then
        report "$language" wrong "$name under tugboat run, the library took no part: $(reason_in "$log")"
    else
        report "$language" right
    fi
    [ $host -eq 0 ] || return 0
    run_way off "$@" || { status=$?; report "$language" wrong "$name, TUGBOAT=off, status $status: $(reason_in "$log")"; }
}

# try_linked LANGUAGE NAME PROGRAM [ARGUMENT]...: a program that is linked with the library.
try_linked() {
    local language=$1 name=$2 way status log=$work/run.log
    shift 2
    for way in linked linked_off; do
        status=0
        run_way $way "$@" || status=$?
        if [ $status -eq 0 ]; then
            report "$language" right
        else
            report "$language" wrong "$name, $way, status $status: $(reason_in "$log")"
        fi
    done
}

# try_launches PROGRAM: the command inside the job, and LD_PRELOAD by hand. The library has to take part.
try_launches() {
    local way status log=$work/run.log
    for way in each preload; do
        status=0
        run_way $way "$@" || status=$?
        if [ $status -eq 0 ] && grep -a "statistics, $ranks ranks" "$log" >/dev/null; then
            report C right
        else
            report C wrong "$(basename "$1"), started by $way, status $status: $(reason_in "$log")"
        fi
    done
}

# compile LANGUAGE NAME COMMAND...: false, and a verdict, if it does not: wrong, or $verdict for what only uses the host.
compile() {
    local language=$1 name=$2 log=$work/compile.log
    shift 2
    (cd "$programs" && "$@") >"$log" 2>&1 && return 0
    report "$language" "${verdict:-wrong}" "$name does not compile: $(reason_in "$log")"
    return 1
}

in_c() {
    local name args
    for name in 'passive' 'halo 4 100 10 1' 'queue 20 1' 'bcast_loop 64 30'; do
        read -ra args <<<"$name"
        name=${args[0]}
        compile C "$name" "$mpicc" -O2 -o "$name" "$examples/$name.c" && try C "$name" "$programs/$name" "${args[@]:1}"
    done
    [ ! -x "$programs/passive" ] || try_launches "$programs/passive"
    for name in 'bcast_init 64 30' 'histogram 1000 8' gas_sweep; do
        read -ra args <<<"$name"
        name=${args[0]}
        # shellcheck disable=SC2046
        compile C "$name" "$mpicc" -O2 -o "$name" "$examples/$name.c" $(pkg-config --cflags --libs tugboat) || continue
        [ "$name" = gas_sweep ] || try_linked C "$name" "$programs/$name" "${args[@]:1}"
    done
}

in_cxx() {
    local other=()
    [ -n "$has_init" ] || other=(-include mpi.h -include mpi-ext.h -DMPI_Bcast_init=MPIX_Bcast_init)
    compile C++ cxx "$mpicxx" -std=c++17 -O2 -I"$prefix/include" "${other[@]}" -o cxx "$source_root/tests/mpi/cxx.cpp" &&
        try C++ cxx "$programs/cxx"
}

# The bindings of MPI, each with what it has of persistent broadcasts; and the module of ours.
in_fortran() {
    local binding other=() init=2
    [ "$mpicc" != mpicc.openmpi ] || init=1
    if [ -z "$has_init" ]; then
        init=0
        other=(openmpi_fortran.o)
        compile Fortran openmpi_fortran "$mpicc" -c -o openmpi_fortran.o "$source_root/tests/mpi/openmpi_fortran.c" || return
    fi
    for binding in mpif usempi f08; do
        compile Fortran "$binding" "$mpifort" -cpp "-DTUG_INIT=$init" -O2 -fallow-argument-mismatch -I"$source_root/tests/mpi" \
            -o "fortran_$binding" "$source_root/tests/mpi/fortran_$binding.f90" "${other[@]}" &&
            try Fortran "$binding" "$programs/fortran_$binding"
    done
    # shellcheck disable=SC2046
    compile Fortran bcast_init_f08 "$mpifort" -O2 -o bcast_init_f08 "$prefix/include/tugboat/mpix_f08.f90" \
        "$examples/bcast_init_f08.f90" $(pkg-config --libs tugboat) &&
        try_linked Fortran bcast_init_f08 "$programs/bcast_init_f08"
}

# binding_is NAME: whether Python's mpi4py is for this MPI.
binding_is() {
    local library=libmpi.so.40 file
    [ "$1" = openmpi ] || library=libmpich
    file=$(python3 -c 'from importlib.util import find_spec as f; print(f("mpi4py.MPI").origin)' 2>/dev/null) &&
        ldd "$file" | grep "$library" >/dev/null
}

in_python() {
    local name=$1 log=$work/run.log status=0
    command -v python3 >/dev/null || { report Python "not there" "no python3"; return; }
    binding_is "$name" || {
        report Python "not there" "no mpi4py for this MPI (Debian builds it for Open MPI)"
        return
    }
    try Python window.py python3 "$examples/window.py" 5 0.01
    try Python python_user.py python3 "$source_root/tests/mpi/python_user.py"
    # what the host alone cannot do is asked for under the tug only
    run_way tug python3 "$source_root/tests/mpi/python_calls.py" tug || status=$?
    if [ $status -eq 0 ]; then
        report Python right
    else
        report Python wrong "python_calls.py under tugboat run, status $status: $(reason_in "$log")"
    fi
}

# --- the project's tests -------------------------------------------------------------------------

# tell_tests LIST APART: what failed, one by one; what was skipped, by reason; and how many of another place did not run.
tell_tests() {
    local verdict name reason counts
    while IFS=$'\t' read -r verdict name reason; do
        [ "$verdict" != failed ] || report tests wrong "$name: $reason"
    done <"$1"
    counts=$(cut -f 1 "$1" | sort | uniq -c | awk '{ printf "%d %s, ", $1, $2 }')
    report tests note "$counts$2 of a virtual machine or of other roots did not run"
    awk -F '\t' '$1 == "skipped" {
            if (!($3 in count)) reasons[++last] = $3
            if (++count[$3] <= 8) names[$3] = names[$3] " " $2
        }
        END {
            for (i = 1; i <= last; i++) {
                more = count[reasons[i]] - 8
                print "skipped: " reasons[i] ":" names[reasons[i]] (more > 0 ? " and " more " more" : "")
            }
        }' "$1" | while read -r reason; do report tests note "$reason"; done
}

# The tests that TUG_HOSTS_TESTS names, without those that need a machine of their own or another root. They are built
# where ./dev test builds them, so that ccache knows the objects. One line of each is in WORK/MPI.tests.list.
run_tests() {
    local dir=$build log=$work/$1.tests.log list=$work/$1.tests.list status=0 apart
    [ -n "${TUG_HOSTS_TESTS:-}" ] || return 0
    [ "$1" = mpich ] || dir=$build/$1
    if ! { cmake -G Ninja -S "$source_root" -B "$dir" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTUGBOAT_WERROR=ON \
        "${compilers[@]}" -DTUGBOAT_MPI="$1" -DBUILD_TESTING=ON && cmake --build "$dir"; } >"$log" 2>&1; then
        report tests wrong "$(reason_in "$log")"
        return
    fi
    rm -f "$list.xml"
    ctest --test-dir "$dir" -R "$TUG_HOSTS_TESTS" -LE 'verbs|hosts' --no-tests=error --timeout 300 \
        --output-on-failure --output-junit "$list.xml" >"$log" 2>&1 || status=$?
    apart=$(ctest --test-dir "$dir" -N -R "$TUG_HOSTS_TESTS" -L 'verbs|hosts' | sed -n 's/^Total Tests: //p')
    awk -f "$source_root/tests/hosts/verdicts.awk" "$list.xml" >"$list" 2>/dev/null
    if [ ! -s "$list" ] || { [ $status -ne 0 ] && ! grep -q '^failed' "$list"; }; then
        report tests wrong "$(reason_in "$log")"
    else
        report tests right
    fi
    [ ! -s "$list" ] || tell_tests "$list" "$apart"
}

# --- all -----------------------------------------------------------------------------------------

try_mpi() {
    local name=$1 began=$SECONDS part
    use_mpi "$name" || { report build "not there" "mpicc.$name or mpiexec.$name is not installed"; return; }
    if [ "$built" != yes ] || ! find "$prefix" -name "libtugboat-$name.so" | grep -q .; then
        [ "$built" = yes ] && report build wrong "no library for this MPI: $(grep -m 1 'is left out' "$work/build.log")" ||
            report build wrong "$(reason_in "$work/build.log")"
        for part in selftest C C++ Fortran Python; do report $part "not there"; done
        return
    fi
    report build right
    examples=$(dirname "$(find "$prefix" -name passive.c)")
    programs=$work/$name.programs
    mkdir -p "$programs"
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    for part in in_selftest in_c in_cxx in_fortran in_python run_tests; do
        began=$SECONDS
        $part "$name"
        say "$label: ${part#in_} took $((SECONDS - began)) s"
    done
}

prefix=$work/prefix libdir='' built=no began=$SECONDS
for mpi in "$@"; do
    command -v "mpicc.$mpi" >/dev/null || continue
    ! build_and_install "$mpi" || built=yes
    say "$([ $built = yes ] && echo "built and installed" || echo "not built") after $((SECONDS - began)) s"
    break
done
for mpi in "$@"; do (try_mpi "$mpi"); done

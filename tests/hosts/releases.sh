#!/usr/bin/env bash
# Tugboat on other Debian releases: makes roots of each, builds the library for both MPIs and its package there, and runs
# small programs in four languages three ways: host alone, under `tugboat run`, with TUGBOAT=off (matrix.sh). Then the
# package is installed, for each MPI, in a root that has nothing but a C compiler and that MPI (package.sh). Last,
# `./dev build` runs in a root that has nothing at all (bare.sh).
#
# Roots and compiled objects are kept. What runs in a root sees a layer over it that is gone afterwards,
# and all mounts are in a mount namespace of their own: a root stays as it was made, and nothing stays mounted.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tugboat-hosts
mirror=http://deb.debian.org/debian
mpis=(mpich openmpi)
table=
tests=
releases=()
declare -A root_of preparing

usage() {
    cat <<'TEXT'
usage: ./dev hosts [OPTION]... [RELEASE]...

Builds, installs and tries Tugboat on Debian releases: bookworm (or 12) and trixie (or 13), or those named. forky (or
14), which is not released yet, is tried only if it is named.
Roots are made by mmdebstrap (apt-get install mmdebstrap).
By default one program of each kind runs three ways in each language, and the package is tried in fresh roots.
The last lines are a table of what is right, what is wrong, and what is not there. The status is 1 if something is wrong.

  --all               also build all tests of both MPIs and run them (hours), except those in a virtual machine
  --tests REGEX       also build all tests and run these (as ctest -R). What failed, and what was skipped for which
                      reason, is told below the table; one line of each test is in CACHE/RELEASE.work/MPI.tests.list
  --root RELEASE=DIR  use this root, which is there already; missing packages are installed in it
  --cache DIR         keep roots and builds here (~/.cache/tugboat-hosts)
  --mirror URL        take packages from here (http://deb.debian.org/debian)
  --mpi NAME          only mpich, or only openmpi
  --here              no root: try this machine as it is
  --table FILE        print the table of a results file
TEXT
}

say() { printf 'hosts: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# --- arguments -----------------------------------------------------------------------------------

release_name() {
    case $1 in
    12 | bookworm) echo bookworm ;;
    13 | trixie) echo trixie ;;
    14 | forky) echo forky ;;
    here) echo here ;;
    *) die "no release '$1': bookworm (12), trixie (13) and forky (14) are known" ;;
    esac
}

read_arguments() {
    local name
    while [ $# -gt 0 ]; do
        case $1 in
        --root | --cache | --mirror | --mpi | --table | --tests) [ $# -gt 1 ] || die "$1 needs a value" ;;
        esac
        case $1 in
        --root)
            [[ $2 == ?*=?* ]] || die "--root needs RELEASE=DIR, not '$2'"
            name=$(release_name "${2%%=*}")
            [ -x "${2#*=}/usr/bin/env" ] || die "no root at ${2#*=}"
            root_of[$name]=$(realpath "${2#*=}")
            shift
            ;;
        --cache) mkdir -p "$2"; cache=$(realpath "$2"); shift ;;
        --mirror) mirror=$2; shift ;;
        --mpi)
            [[ $2 == mpich || $2 == openmpi ]] || die "--mpi is mpich or openmpi, not '$2'"
            mpis=("$2")
            shift
            ;;
        --table) table=$2; shift ;;
        --tests) tests=$2; shift ;;
        --all) tests=. ;;
        --here) releases+=(here) ;;
        --help | -h) usage; exit 0 ;;
        -*) usage >&2; exit 2 ;;
        *) name=$(release_name "$1"); releases+=("$name") ;;
        esac
        shift
    done
    [ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie)
}

# --- the table -----------------------------------------------------------------------------------

# Prints the table of lines "RELEASE MPI COLUMN VERDICT REASON", parted by tabs; false if something is wrong. A column
# has the worst of its verdicts: wrong, not there, right. A note changes nothing.
print_table() {
    awk -F '\t' '
        function worse(a, b) { return a == "wrong" || b == "wrong" ? "wrong" : a == "not there" || b == "not there" ? "not there" : "right" }
        BEGIN { n = split("build selftest C C++ Fortran Python package tests", columns, " ") }
        NF < 4 { next }
        { row = $1 FS $2 }
        !(row in seen) { seen[row] = 1; rows[++count] = row }
        $4 == "note" { notes[++said] = $1 ", " $2 ", " $3 ": note: " $5; next }
        {
            cell = row FS $3
            verdict[cell] = cell in verdict ? worse(verdict[cell], $4) : $4
            if ($5 != "") notes[++said] = $1 ", " $2 ", " $3 ": " $4 ": " $5
            if ($4 == "wrong") bad = 1
        }
        END {
            printf "%-10s %-16s", "release", "MPI"
            for (i = 1; i <= n; i++) printf " %-9s", columns[i]
            print ""
            for (r = 1; r <= count; r++) {
                split(rows[r], part, FS)
                printf "%-10s %-16s", part[1], part[2]
                for (i = 1; i <= n; i++) {
                    cell = rows[r] FS columns[i]
                    printf " %-9s", cell in verdict ? verdict[cell] : "not tried"
                }
                print ""
            }
            for (i = 1; i <= said; i++) print notes[i]
            if (count == 0) print "nothing was tried"
            exit bad || count == 0
        }' "$1"
}

# --- roots ---------------------------------------------------------------------------------------

# What builds and tries everything, by names that Debian 12 and 13 share; and what a user of one MPI has.
packages=(cmake ninja-build ccache gcc g++ gfortran make pkg-config file mpich libmpich-dev openmpi-bin libopenmpi-dev
    libibverbs-dev libfabric-dev libcmocka-dev libbenchmark-dev python3-mpi4py python3-numpy)
# what tests need besides; without chromium, bench.timeline is skipped
packages_tests=(clang libclang-rt-dev spin libsimgrid-dev libcoarrays-mpich-dev gnuplot-nox environment-modules mandoc)
# shellcheck disable=SC2034 # by name, in prepare_roots
packages_mpich=(gcc libc6-dev pkg-config mpich libmpich-dev)
# shellcheck disable=SC2034
packages_openmpi=(gcc libc6-dev pkg-config openmpi-bin libopenmpi-dev)

# make_base RELEASE DIR: what every root of the release begins with, from the package source.
make_base() {
    say "$1: making a root in $2"
    rm -rf --one-file-system "$2.new" # of one that was interrupted
    (cd / && unshare --mount --propagation private mmdebstrap --quiet --variant=apt "$1" "$2.new" "$mirror" &&
        mv "$2.new" "$2") && return
    # quiet hides the reason, which apt gives
    mmdebstrap --simulate --variant=apt "$1" /dev/null "$mirror" 2>&1 | grep -E '^(E|W):|Err:|error:' | tail -5 >&2
    return 1
}

# in_root DIR WORK COMMAND...: there, with the source at /mnt/source (to read), WORK at /mnt/work and the release's build
# at /mnt/source/build. Changes of the root itself are in memory, and lost, unless DIR begins with a +. Objects are this
# machine's ccache: with the same compiler, paths and LANG they are found there.
in_root() {
    local dir=${1#+} work=$2 objects kept=${1:0:1}
    shift 2
    objects=$(ccache --get-config cache_dir 2>/dev/null) || objects=$cache/ccache
    mkdir -p "$work/build" "$work/archives/partial" "$source_root/build" "$objects" "$cache/layer"
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -c '
        dir=$1 source=$2 work=$3 objects=$4 layer=$5 kept=$6
        shift 6
        if [ "$kept" != + ]; then
            mount -t tmpfs tmpfs "$layer" && mkdir "$layer/upper" "$layer/work" "$layer/root" &&
                mount -t overlay overlay -o "lowerdir=$dir,upperdir=$layer/upper,workdir=$layer/work" "$layer/root" ||
                exit 125
            dir=$layer/root
        fi
        mkdir -p "$dir/mnt/source" "$dir/mnt/work" "$dir/mnt/ccache" || exit 125
        for name in proc sys dev; do mount --rbind "/$name" "$dir/$name" || exit 125; done
        mount -t tmpfs -o mode=1777 tmpfs "$dir/tmp" || exit 125
        mount --bind "$source" "$dir/mnt/source" && mount -o remount,bind,ro "$dir/mnt/source" || exit 125
        mount --bind "$work" "$dir/mnt/work" && mount --bind "$objects" "$dir/mnt/ccache" || exit 125
        mount --bind "$work/build" "$dir/mnt/source/build" || exit 125
        mount --bind "$work/archives" "$dir/var/cache/apt/archives" || exit 125
        cd / && exec chroot "$dir" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
            ${https_proxy:+https_proxy="$https_proxy"} CCACHE_DIR=/mnt/ccache CCACHE_BASEDIR=/mnt/source \
            CCACHE_NOHASHDIR=1 TUG_HOSTS_TESTS="$TUG_HOSTS_TESTS" "$@"' \
        bash "$dir" "$source_root" "$work" "$objects" "$cache/layer" "$kept" "$@" </dev/null
}

# prepare_root RELEASE DIR WORK PACKAGE...: makes the root if it is not there, and installs what it lacks. Packages come
# from the package source once for all roots of the release. One whose note has this list is complete.
prepare_root() {
    local release=$1 dir=$2 work=$3 log=$3/apt.log
    local apt=(apt-get -q -o Dpkg::Options::=--force-unsafe-io)
    shift 3
    if [ ! -d "$dir" ]; then
        [ -d "$cache/$release.base" ] || make_base "$release" "$cache/$release.base" || return
        rm -rf --one-file-system "$dir.new"
        cp -a "$cache/$release.base" "$dir.new" && mv "$dir.new" "$dir" || return
    fi
    ! cmp -s "$dir/etc/tugboat-packages" <(cksum <<<"$*") || return 0
    say "$release: installing what is missing in $dir"
    in_root "+$dir" "$work" dpkg --configure -a >"$log" 2>&1 || true # an installation that was interrupted goes on
    in_root "+$dir" "$work" "${apt[@]}" update >>"$log" 2>&1 || true
    in_root "+$dir" "$work" "${apt[@]}" install -y --no-install-recommends "$@" >>"$log" 2>&1 ||
        { grep -E '^(E|W|Err)[: ]|error' "$log" | tail -10 >&2; say "$release: the rest of it is in $log"; return 1; }
    cksum <<<"$*" >"$dir/etc/tugboat-packages"
}

# prepare_roots RELEASE DIR WORK: that one, and for the package fresh ones, one of each MPI.
prepare_roots() {
    local release=$1 work=$3 mpi packages_of
    mkdir -p "$work"
    [ -z "$tests" ] || packages+=("${packages_tests[@]}")
    prepare_root "$release" "$2" "$work" "${packages[@]}" || return
    for mpi in "${mpis[@]}"; do
        declare -n packages_of=packages_$mpi
        prepare_root "$release" "$cache/$release.$mpi" "$work" "${packages_of[@]}" || return
    done
}

# Releases do so beside one another, as most of that time goes to the package source. Sets preparing.
begin_preparing() {
    local release
    for release in "${releases[@]}"; do
        [ "$release" != here ] || continue
        prepare_roots "$release" "${root_of[$release]:-$cache/$release}" "$cache/$release.work" &
        preparing[$release]=$!
    done
}

# try_packages RELEASE WORK: what package.sh says.
try_packages() {
    local release=$1 work=$2 mpi
    [ -n "$(find "$work/packages" -name '*.deb' -print -quit 2>/dev/null)" ] || return 0
    for mpi in "${mpis[@]}"; do
        in_root "$cache/$release.$mpi" "$work" /mnt/source/tests/hosts/package.sh /mnt/work "$mpi" || true
    done
}

# try_bare RELEASE WORK: what bare.sh says. It has a build folder of its own, which begins empty, and packages that are
# there already.
try_bare() {
    local bare=$cache/$1.base work=$2
    [[ " ${mpis[*]} " == *" mpich "* && -d $bare ]] || return 0
    rm -rf --one-file-system "$work/bare/build"
    mkdir -p "$work/bare"
    cp -al "$work/archives" "$work/bare/" 2>/dev/null || true
    cp "$work/results" "$work/bare/results"
    in_root "$bare" "$work/bare" /mnt/source/tests/hosts/bare.sh /mnt/source /mnt/work || true
    cp "$work/bare/results" "$work/results"
}

# try_root RELEASE WORK DIR: what matrix.sh, package.sh and bare.sh say.
try_root() {
    local release=$1 work=$2 dir=$3
    in_root "$dir" "$work" /mnt/source/tests/hosts/matrix.sh /mnt/source /mnt/source/build /mnt/work "${mpis[@]}" || true
    try_packages "$release" "$work"
    try_bare "$release" "$work"
}

# try_release RELEASE RESULTS: adds its lines to the results.
try_release() {
    local release=$1 results=$2 work=$cache/$1.work began=$SECONDS
    mkdir -p "$work"
    rm -f "$work/results"
    if [ "$release" = here ]; then
        mkdir -p "$source_root/build/here"
        "$here/matrix.sh" "$source_root" "$source_root/build/here" "$work" "${mpis[@]}" || true
    elif wait "${preparing[$release]}"; then
        say "$release: roots ready after $((SECONDS - began)) s"
        try_root "$release" "$work" "${root_of[$release]:-$cache/$release}"
    fi
    if [ -s "$work/results" ]; then
        sed "s/^/$release\t/" "$work/results" >>"$results"
    else
        printf '%s\tany\tbuild\twrong\ta root could not be made or used\n' "$release" >>"$results"
    fi
    say "$release: $((SECONDS - began)) s"
}

read_arguments "$@"
if [ -n "$table" ]; then
    [ -r "$table" ] || die "$table cannot be read"
    print_table "$table"
    exit
fi
if [[ " ${releases[*]} " != " here " && $(id -u) -ne 0 ]]; then
    die "a root of another release needs root rights; as another user only: ./dev hosts --here"
fi
for release in "${releases[@]}"; do
    [ "$release" = here ] || [ -n "${root_of[$release]-}" ] || [ -d "$cache/$release.base" ] ||
        command -v mmdebstrap >/dev/null ||
        die "mmdebstrap is missing (apt-get install mmdebstrap), or give --root $release=DIR"
done
export TUG_HOSTS_TESTS=$tests
results=$(mktemp)
trap 'rm -f "$results"' EXIT
begin_preparing
for release in "${releases[@]}"; do try_release "$release" "$results"; done
print_table "$results"

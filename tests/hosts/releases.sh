#!/usr/bin/env bash
# Tugboat on other Debian releases: makes a root of each, builds and installs the library there for each MPI, and runs
# small programs in four languages three ways: host alone, under `tugboat run`, with TUGBOAT=off (matrix.sh).
#
# A root is made once and kept. Everything is mounted in a mount namespace of its own, so that nothing stays mounted.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_root=$(cd "$here/../.." && pwd)
cache=$source_root/build/roots
mirror=http://deb.debian.org/debian
mpis=(mpich openmpi)
table=
releases=()
declare -A root_of

usage() {
    cat <<'TEXT'
usage: ./dev hosts [OPTION]... [RELEASE]...

Builds, installs and tries Tugboat on Debian releases: bookworm (or 12) and trixie (or 13), or those named. forky (or
14), which is not released yet, is tried only if it is named.
The last lines are a table of what is right, what is wrong, and what is not there. The status is 1 if something is wrong.

  --root RELEASE=DIR  use this root, which is there already; missing packages are installed in it
  --cache DIR         keep roots and builds here (build/roots)
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
        --root | --cache | --mirror | --mpi | --table) [ $# -gt 1 ] || die "$1 needs a value" ;;
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
        BEGIN { n = split("build selftest C C++ Fortran Python", columns, " ") }
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

# What matrix.sh uses, by names that Debian 12 and 13 share.
packages=(cmake ninja-build gcc g++ gfortran make pkg-config mpich libmpich-dev openmpi-bin libopenmpi-dev
    libibverbs-dev libfabric-dev python3-mpi4py python3-numpy)

# make_root RELEASE DIR: from the package source; an unfinished one has another name.
make_root() {
    local release=$1 dir=$2
    command -v mmdebstrap >/dev/null || die "mmdebstrap is missing (apt-get install mmdebstrap), or give --root $release=DIR"
    say "$release: making a root in $dir"
    rm -rf "$dir.new"
    mkdir -p "$(dirname "$dir")"
    (cd / && mmdebstrap --quiet --variant=apt --include="$(IFS=,; echo "${packages[*]}")" "$release" "$dir.new" \
        "$mirror") || return
    cksum <<<"${packages[*]}" >"$dir.new/etc/tugboat-packages"
    mv "$dir.new" "$dir"
}

# in_root DIR WORK COMMAND...: there, with the source at /mnt/source (to read) and WORK at /mnt/work.
in_root() {
    local dir=$1 work=$2
    shift 2
    mkdir -p "$work" "$dir/mnt/source" "$dir/mnt/work"
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -c '
        dir=$1 source=$2 work=$3
        shift 3
        for name in proc sys dev; do mount --rbind "/$name" "$dir/$name" || exit 125; done
        mount -t tmpfs -o mode=1777 tmpfs "$dir/tmp" || exit 125
        mount --bind "$source" "$dir/mnt/source" && mount -o remount,bind,ro "$dir/mnt/source" || exit 125
        mount --bind "$work" "$dir/mnt/work" || exit 125
        cd / && exec chroot "$dir" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
            ${https_proxy:+https_proxy="$https_proxy"} "$@"' bash "$dir" "$source_root" "$work" "$@" </dev/null
}

# complete_root RELEASE DIR WORK: the packages, in a root made elsewhere or for an older list.
complete_root() {
    local release=$1 dir=$2 work=$3
    # without a note of what is inside, or with an older one
    if ! cmp -s "$dir/etc/tugboat-packages" <(cksum <<<"${packages[*]}"); then
        say "$release: installing what is missing in $dir"
        in_root "$dir" "$work" apt-get update -q >"$work/apt.log" 2>&1 || true
        in_root "$dir" "$work" apt-get install -y -q --no-install-recommends "${packages[@]}" >>"$work/apt.log" 2>&1 ||
            { tail -5 "$work/apt.log" >&2; return 1; }
        cksum <<<"${packages[*]}" >"$dir/etc/tugboat-packages"
    fi
}

# try_release RELEASE RESULTS: adds its lines to the results.
try_release() {
    local release=$1 results=$2 work=$cache/$1.work began=$SECONDS dir
    mkdir -p "$work"
    rm -f "$work/results"
    if [ "$release" = here ]; then
        "$here/matrix.sh" "$source_root" "$work" "${mpis[@]}" || true
    else
        dir=${root_of[$release]:-$cache/$release}
        if { [ -d "$dir" ] || make_root "$release" "$dir"; } && complete_root "$release" "$dir" "$work"; then
            say "$release: root ready after $((SECONDS - began)) s"
            in_root "$dir" "$work" /mnt/source/tests/hosts/matrix.sh /mnt/source /mnt/work "${mpis[@]}" || true
        fi
    fi
    if [ -s "$work/results" ]; then
        sed "s/^/$release\t/" "$work/results" >>"$results"
    else
        printf '%s\tany\tbuild\twrong\tthe root could not be made or used\n' "$release" >>"$results"
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
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for release in "${releases[@]}"; do try_release "$release" "$results"; done
print_table "$results"

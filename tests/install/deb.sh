#!/usr/bin/env bash
# The Debian package: made, installed by dpkg in a root of its own, programs of each host run from there,
# removed without trace; it takes the place of the package that was for Open MPI alone.
# Usage: deb.sh BUILD-DIRECTORY CPACK HOST MPICC MPIEXEC [HOST MPICC MPIEXEC]
set -euo pipefail
build=$1 cpack=$2 name=tugboat
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
command -v dpkg >/dev/null || { echo "skipped: this system has no dpkg"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD ${!TUGBOAT*}
wrong() { echo "$*"; exit 1; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    unshare -r true 2>/dev/null || { echo "skipped: neither root nor user namespaces"; exit 77; }
    as_root=(unshare -r)
fi
(cd "$build" && "$cpack" -G DEB -B "$work/packages" >"$work/log") || { cat "$work/log"; exit 1; }
package=$(find "$work/packages" -maxdepth 1 -name "${name}_*.deb")
[ -n "$package" ] || wrong "cpack made no package"

# dpkg is told of the C library that this system has, which the package depends on.
root=$work/root
mkdir -p "$root"/var/lib/dpkg/{info,updates}
dpkg-query -s libc6 | grep -vE '^(Depends|Recommends|Suggests|Breaks|Conffiles|Replaces| /)' >"$root/var/lib/dpkg/status"
in_root() { "${as_root[@]}" dpkg --root="$root" --force-script-chrootless --log=/dev/null "$@"; }
trace() { (cd "$root" && find . -path ./var/lib/dpkg -prune -o -print | sort); }

before=$(trace)
in_root --install "$package"
"$root/usr/bin/tugboat" info | grep "library  *$root/usr/lib.*/libtugboat.so" >/dev/null || wrong "the command finds no library"
while [ $# -gt 0 ]; do
    host=$1 mpicc=$2 mpiexec=$3
    shift 3
    library=$(find "$root/usr/lib" -path "*/tugboat/libtugboat-$host.so")
    [ -n "$library" ] || wrong "no library for $host"
    [[ $(readelf -S "$library") != *.debug_info* ]] || wrong "$library is not stripped"
    grep -qF " $library" <<<"$("$root/usr/bin/tugboat" info)" || wrong "tugboat info does not show $library"
    "$mpicc" -o "$work/passive" "$(find "$root" -name passive.c)"
    value=$("$root/usr/bin/tugboat" run --stats timeout 150 "$mpiexec" -n 2 "$work/passive" 2>&1) ||
        wrong "a program under it fails: $value"
    grep -q 'tugboat .* statistics, 2 ranks' <<<"$value" || wrong "a program was not under it: $value"
done
in_root --purge "$name"
left=$(diff <(echo "$before") <(trace)) || wrong "removal leaves: $left"

# the earlier package for Open MPI alone, as empty as can be
mkdir -p "$work/other/DEBIAN"
printf 'Package: tugboat-openmpi\nVersion: 1\nArchitecture: all\nMaintainer: none <none@localhost>\nDescription: none\n' \
    >"$work/other/DEBIAN/control"
dpkg-deb --root-owner-group --build "$work/other" "$work/other.deb" >/dev/null
in_root --install "$work/other.deb" >/dev/null
in_root --install "$package" >"$work/log" 2>&1 || wrong "$name does not take its place: $(cat "$work/log")"
if dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Status}' tugboat-openmpi 2>/dev/null | grep -q ' installed'; then
    wrong "tugboat-openmpi stays"
fi
in_root --install "$package" >"$work/log" 2>&1 || wrong "$name is not installed over itself: $(cat "$work/log")"

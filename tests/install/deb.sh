#!/usr/bin/env bash
# The Debian package: made, installed by dpkg in a root of its own, run from there, removed without
# trace, and refused beside that for another host. Usage: deb.sh BUILD-DIRECTORY CPACK MPICC MPIEXEC PACKAGE OTHER
set -euo pipefail
build=$1 cpack=$2 mpicc=$3 mpiexec=$4 name=$5 other=$6
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
"$mpicc" -o "$work/passive" "$(find "$root" -name passive.c)"
value=$("$root/usr/bin/tugboat" run --stats timeout 150 "$mpiexec" -n 2 "$work/passive" 2>&1) ||
    wrong "a program under it fails: $value"
grep -q 'tugboat .* statistics, 2 ranks' <<<"$value" || wrong "a program was not under it: $value"
in_root --purge "$name"
left=$(diff <(echo "$before") <(trace)) || wrong "removal leaves: $left"

# one of the other's name, as empty as can be
mkdir -p "$work/other/DEBIAN"
printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: none <none@localhost>\nDescription: none\n' "$other" \
    >"$work/other/DEBIAN/control"
dpkg-deb --root-owner-group --build "$work/other" "$work/other.deb" >/dev/null
in_root --install "$work/other.deb" >/dev/null
if in_root --install "$package" >"$work/log" 2>&1; then wrong "$name is installed beside $other"; fi
grep -q "conflict" "$work/log" || wrong "$name beside $other: $(cat "$work/log")"

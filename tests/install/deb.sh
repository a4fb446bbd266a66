#!/usr/bin/env bash
# The Debian package: made, installed by dpkg in a root of its own, run from there, removed without
# trace. Usage: deb.sh BUILD-DIRECTORY CPACK MPICC MPIEXEC
set -euo pipefail
build=$1 cpack=$2 mpicc=$3 mpiexec=$4
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
package=$(find "$work/packages" -maxdepth 1 -name 'tugboat_*.deb')
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
value=$("$root/usr/bin/tugboat" run --stats timeout 30 "$mpiexec" -n 2 "$work/passive" 2>&1) ||
    wrong "a program under it fails: $value"
grep -q 'tugboat .* statistics, 2 ranks' <<<"$value" || wrong "a program was not under it: $value"
in_root --purge tugboat
left=$(diff <(echo "$before") <(trace)) || wrong "removal leaves: $left"

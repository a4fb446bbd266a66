#!/usr/bin/env bash
# The installed command finds its library; versions agree; no file points back into the build.
# Usage: content.sh PREFIX VERSION LIBDIR
set -euo pipefail
prefix=$1 version=$2 lib=$1/$3
unset LD_PRELOAD ${!TUGBOAT*}
wrong() { echo "$*"; exit 1; }

found=$("$prefix/bin/tugboat" run sh -c 'echo "$LD_PRELOAD"')
[ "$found" = "$lib/libtugboat.so" ] || wrong "the installed command preloads '$found'"
[ "$("$prefix/bin/tugboat" --version)" = "tugboat $version" ] || wrong "another version"

soname=$(LC_ALL=C readelf -d "$found" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libtugboat.so.${version%%.*}" ] || wrong "SONAME is '$soname'"
[ "$(readlink -f "$lib/$soname")" = "$lib/libtugboat.so.$version" ] || wrong "$soname leads elsewhere"

for header in tugboat llcl mpix model gas; do
    [ -s "$prefix/include/tugboat/$header.h" ] || wrong "no $header.h"
done
for header in acp acpbl acpbl_sync; do
    [ -s "$prefix/include/$header.h" ] || wrong "no $header.h"
done
# Scripts and packages that name a prefix would break when they are moved.
if grep -rl "$prefix" "$lib/pkgconfig" "$lib/cmake" "$prefix/share"; then
    wrong "these name the prefix"
fi

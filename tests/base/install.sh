#!/usr/bin/env bash
# What is installed works from its new place: the command, the header, pkg-config.
# Usage: install.sh BUILD-DIRECTORY CMAKE C-COMPILER
set -euo pipefail
build=$1 cmake=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD ${!TUGBOAT*}
"$cmake" --install "$build" --prefix "$work/usr" >"$work/log" || { cat "$work/log"; exit 1; }

"$work/usr/bin/tugboat" run sh -c 'echo "$LD_PRELOAD"' >"$work/preload"
found=$(cat "$work/preload")
case $found in
"$work"/usr/lib*/libtugboat.so) ;;
*) echo "the installed command preloads '$found'"; exit 1 ;;
esac
[ -e "$found" ]

cat >"$work/program.c" <<'C'
#include <stdio.h>
#include <tugboat/tugboat.h>
int main(void) { return puts(tug_version()) < 0; }
C
libdir=$(dirname "$found")
flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs tugboat)
# shellcheck disable=SC2086
"$compiler" -Wall -Werror -o "$work/program" "$work/program.c" $flags
version=$(LD_LIBRARY_PATH=$libdir "$work/program")
[ "$version" = "$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --modversion tugboat)" ]
echo "installed $version"

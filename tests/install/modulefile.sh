#!/usr/bin/env bash
# `module load` makes the installation usable, `module unload` takes it all back.
# Usage: modulefile.sh PREFIX VERSION
set -euo pipefail
prefix=$1 version=$2
modulecmd=$(find /usr/lib -name modulecmd.tcl -print -quit 2>/dev/null)
tclsh=$(command -v tclsh || command -v tclsh8.6 || true) # Debian's tcl8.6, on which the package depends, has the second
if [ -z "$tclsh" ] || [ -z "$modulecmd" ]; then
    echo "skipped: Environment Modules are not installed"
    exit 77
fi
unset LD_PRELOAD ${!TUGBOAT*}
export MODULEPATH=$prefix/share/tugboat/modulefiles
wrong() { echo "$*"; exit 1; }
module() { eval "$("$tclsh" "$modulecmd" bash "$@")"; }

before=$PATH:${MANPATH:-}:${PKG_CONFIG_PATH:-}
module load tugboat
[ "$(command -v tugboat)" = "$prefix/bin/tugboat" ] || wrong "tugboat is $(command -v tugboat)"
[ "$(pkg-config --modversion tugboat)" = "$version" ] || wrong "pkg-config finds another version"
[ -z "${LD_PRELOAD:-}" ] || wrong "loading it preloads something"
[ -d "${MANPATH%%:*}" ] || wrong "no manual at $MANPATH"
tugboat info 2>&1 | (! grep "is not a setting") || wrong "the module sets what is not a setting"
module unload tugboat
[ "$PATH:${MANPATH:-}:${PKG_CONFIG_PATH:-}" = "$before" ] || wrong "unloading leaves something"

#!/usr/bin/env bash
# Installs the build into a fresh prefix. Usage: fill.sh PREFIX BUILD-DIRECTORY CMAKE
set -euo pipefail
rm -rf "$1"
"$3" --install "$2" --prefix "$1"

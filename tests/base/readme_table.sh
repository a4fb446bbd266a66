#!/usr/bin/env bash
# The README's table of settings is the one the library prints. Usage: readme_table.sh PROGRAM README
set -euo pipefail
shown=$(sed -n '/<!-- settings -->/,/<!-- \/settings -->/p' "$2" | sed '1d;$d')
if ! diff <(printf '%s\n' "$shown") <("$1"); then
    echo "the table of settings in README.md (<) is not the library's (>); run ./dev settings"
    exit 1
fi

#!/usr/bin/env bash
# The table in docs/settings.md is the one that the library prints. Usage: settings_table.sh PROGRAM DOCUMENT
set -euo pipefail
shown=$(sed -n '/<!-- settings -->/,/<!-- \/settings -->/p' "$2" | sed '1d;$d')
if ! diff <(printf '%s\n' "$shown") <("$1"); then
    echo "the table of settings in docs/settings.md (<) is not the library's (>); run ./dev settings"
    exit 1
fi

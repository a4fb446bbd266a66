#!/usr/bin/env bash
# Rules of the source that a compiler does not check. Usage: rules.sh SOURCE-ROOT
set -uo pipefail
cd "$1" || exit 1
failed=0
# refuse WHY GREP-ARGUMENT...: no line may match.
refuse() {
    local why=$1 found
    shift
    found=$(grep -rnE --include='*.c' --include='*.h' --include='*.def' "$@")
    if [ -n "$found" ]; then
        printf '%s:\n%s\n' "$why" "$found"
        failed=1
    fi
}
folders=()
for folder in src pmpi persistent; do
    [ -d "$folder" ] && folders+=("$folder")
done

# The command looks at LD_PRELOAD; what the library wants to know is a setting.
refuse "only src/base/settings.c reads the environment" \
    --exclude=settings.c --exclude-dir=cmd '\b(secure_)?getenv *\(|\benviron\b' "${folders[@]}"
refuse "src/base knows no MPI" '#include *[<"]mpi\.h' src/base src/schedule src/model

# The floors, lowest first: a file includes headers of its own room and of rooms on lower floors. So
# no two rooms include one another. private.h and what ends like that is for the room alone.
floors='base
schedule
model
host
engine
node
transport
llcl request
rma acp gas persistent
pmpi
cmd'
climbs=$(grep -rnoE --include='*.[ch]' '^#include "[a-z_]+/[^"]*"' "${folders[@]}" | sed 's#^src/##' |
    awk -F: -v floors="$floors" '
        BEGIN {
            n = split(floors, lines, "\n")
            for (i = 1; i <= n; i++)
                for (k = split(lines[i], rooms, " "); k > 0; k--)
                    floor[rooms[k]] = i
        }
        {
            split($1, from, "/")
            split($3, to, "[\"/]")
            if (to[2] == "tugboat" || to[2] == from[1] || to[2] == "src")
                next
            if (!(to[2] in floor) || !(from[1] in floor) || floor[to[2]] >= floor[from[1]])
                print "climbs: " $0
            else if ($3 ~ /private\.h/)
                print "enters by the back door: " $0
        }')
if [ -n "$climbs" ]; then
    printf 'a file includes headers of its own room and of lower floors:\n%s\n' "$climbs"
    failed=1
fi
refuse "a public header includes public headers only" \
    '#include *"(base|engine|host|node|transport|llcl|request|rma|gas|model|schedule|pmpi|persistent)/' include
refuse "benchmarks are ordinary MPI programs" \
    '#include *"(base|engine|host|node|transport|llcl|request|rma|gas|model|schedule|pmpi|persistent)/' osu-style-bench

# What decides when threads look and sleep: numbers in one place, each with its reason above it.
refuse "the engine's constants are in plan.h" --exclude=plan.h \
    '^#define [A-Z_]+(_NS|_US|_MS|_LOOKS|_BEATS|_PAUSES|_YIELDS)\b|_ns = [0-9]{2,}' src/engine
if ! awk '/^#define TUG_[A-Z_]+ / && last !~ /\*\/$|^#define/ { print FILENAME ": no reason above " $2; bad = 1 } { last = $0 } END { exit bad }' \
    src/engine/plan.h; then
    failed=1
fi

# A transport is held in one head: what two functions of a row ask or tell, one does.
functions=$(sed -n '/^struct tug_transport {/,/^};/p' src/transport/transport.h | grep -c '(\*[a-z_]*)(')
if [ "$functions" -eq 0 ] || [ "$functions" -gt 18 ]; then
    echo "a row of the table of transports has at most 18 functions, and struct tug_transport has $functions"
    failed=1
fi

[ $failed -eq 0 ] && echo "all rules kept"
exit $failed

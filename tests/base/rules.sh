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
refuse "src/base knows no MPI and no floor above it" \
    '#include *[<"](mpi\.h|engine/|host/|transport/|model/|llcl/|pmpi/|persistent/)' src/base
refuse "schedules and the model know no MPI and nothing but src/base" \
    '#include *[<"](mpi\.h|engine/|host/|transport/|llcl/|pmpi/|persistent/)' src/schedule src/model
refuse "the engine knows nothing of the shim and the collectives" \
    '#include *"(pmpi|persistent)/' src/engine
refuse "a public header includes public headers only" \
    '#include *"(base|engine|host|transport|model|pmpi|persistent)/' include
refuse "benchmarks are ordinary MPI programs" \
    '#include *"(base|engine|host|transport|model|pmpi|persistent)/' osu-style-bench

[ $failed -eq 0 ] && echo "all rules kept"
exit $failed

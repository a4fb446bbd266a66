#!/usr/bin/env bash
# A job that loads the library in its second rank only does not start, and says why within seconds.
#
#   partly.sh --mpiexec PATH --ranks 2 --lib LIBTUGBOAT -- PROGRAM [ARG]...
set -u
[ "$1 $3 $5 $7" = "--mpiexec --ranks --lib --" ] || { echo "partly.sh: wrong arguments: $*" >&2; exit 2; }
mpiexec=$2 lib=$6
shift 7
for name in $(compgen -e | grep -E '^TUGBOAT' || true); do unset "$name"; done
output=$(mktemp)
trap 'rm -f "$output"' EXIT
timeout 20 "$mpiexec" -n 1 "$@" : -n 1 env LD_PRELOAD="$lib" "$@" >"$output" 2>&1 &
job=$!
for ((i = 0; i < 200; i++)); do
    grep -q '^tugboat.*MPI_Init waits for ranks that do not answer' "$output" && break
    sleep 0.1
done
kill $job
wait $job
[ $i -lt 200 ] && exit 0
echo "nothing was said in 20 s:"
cat "$output"
exit 1

#!/usr/bin/env bash
# Compares the memory that contexts take with what `tugboat info --memory` says.
#
#   llcl_footprint.sh TUGBOAT CONTEXTS mpi|shm|shm.few --mpiexec PATH --ranks N ... -- PROGRAM
set -u
here=$(cd "$(dirname "$0")" && pwd)
tugboat=$1 contexts=$2 wire=${3%.few} few=
[[ $3 = *.few ]] && few=few
shift 3
ranks=
settings=()
for ((i = 1; i < $#; i++)); do
    next=$((i + 1))
    [ "${!i}" = --ranks ] && ranks=${!next}
    [ "${!i}" = --env ] && settings+=("${!next}")
done
for name in $(compgen -e | grep -E '^TUGBOAT'); do unset "$name"; done

table=$(env "${settings[@]}" "$tugboat" info --memory "$ranks,$ranks") || exit 1
bytes() { sed -nE "s/^ *$1 +([0-9]+)( .*)?\$/\1/p"; }
context=$(bytes 'every context' <<<"$table")
wires=$(sed -n '/^every context/,/^packets by '"$wire"'/p' <<<"$table")
operations=$(bytes 'operation table' <<<"$table" | head -n 1) # whose pages come when they are used
packets=$(bytes "packets by $wire" <<<"$table")
spare=$(bytes 'packets kept for later, at most' <<<"$wires" | tail -n 1)
packet=$(sed -nE 's/.* packets of ([0-9]+)$/\1/p' <<<"$wires" | tail -n 1)
window=$(sed -nE 's/^ *and on its way to one peer.* ([0-9]+) packets of .*/\1/p' <<<"$table")
for number in "$context" "$operations" "$packets" "$spare" "$packet" "$window"; do
    [ -n "$number" ] || { echo "the table has changed: $table"; exit 1; }
done
least=$((context + packets - spare))
# few: one packet with writes and one with answers at most; and all operations have been used
[ -n "$few" ] && exec "$here/run_mpi.sh" --way host "$@" "$contexts" "$least" $((least + 2 * packet)) few
# an answer may be under way to everybody, each in a packet of its own
exec "$here/run_mpi.sh" --way host "$@" "$contexts" $((least - operations)) $((least + (window + ranks) * packet))

#!/usr/bin/env bash
# Compares the memory that contexts, windows or arrays take with what `tugboat info --memory` says.
#
#   footprint.sh TUGBOAT CONTEXTS|window|array mpi|shm|shm.few [--tool-before LIB] --mpiexec PATH --ranks N ... -- PROGRAM
set -u
here=$(cd "$(dirname "$0")" && pwd)
tugboat=$1 what=$2 wire=${3%.few} few=
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
of() { bytes "$1" <<<"$table" | head -n 1; }
context=$(of 'every context')
wires=$(sed -n '/^every context/,/^packets by '"$wire"'/p' <<<"$table")
operations=$(of 'operation table') # whose pages come when they are used
packets=$(of "packets by $wire")
kept() { sed -nE "s/^ *$1, at most +([0-9]+) +[0-9]+ packets of ([0-9]+)\$/\1 \2/p" <<<"$wires" | tail -n 1; }
read -r spare packet < <(kept 'packets kept for later')
read -r spare_small small < <(kept 'small ones, for answers')
window=$(sed -nE 's/^ *and on its way to one peer.* ([0-9]+) packets of .*/\1/p' <<<"$table")
registered=$(of 'registered memory') a_window=$(of 'and for each window') array=$(of 'and for each array')
slot=$(of 'and for each page with room here') record=$(of 'and for each page whose home it is')
for number in "$context" "$operations" "$packets" "$spare" "$packet" "$spare_small" "$small" "$window" \
    "$registered" "$a_window" "$array" "$slot" "$record"; do
    [ -n "$number" ] || { echo "the table has changed: $table"; exit 1; }
done
run() { exec "$here/run_mpi.sh" --way host "$@"; }
# windows share a context: how many packets it keeps depends on how many were under way at a time
apart() { run --env "SCARCE_APART=$packet,$small" "$@"; }
case $what in
window) apart "$@" window "$a_window" ;;
array) # of 8192 pages: each has room for twice its share; the system gives the operations
    share=$((8192 / ranks))
    apart "$@" array $((context - operations - registered + array + 2 * share * slot + share * record))
    ;;
esac
least=$((context + packets - spare - spare_small))
# few: one packet with writes and one with answers at most; and all operations have been used
[ -n "$few" ] && run "$@" "$what" "$least" $((least + 2 * packet + spare_small)) few
# an answer may be under way to everybody, each in a packet of its own
run "$@" "$what" $((least - operations)) $((least + (window + ranks) * packet + spare_small))

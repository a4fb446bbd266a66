#!/usr/bin/env bash
# Whether packets go over tcp where the processes prove to each other that they are of the job, where none does, and not where some do.
#
#   proofs.sh RUN_OPTIONS... -- PROGRAM
#
# Over tcp nothing goes by the host's messages, which are counted.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# run CASE WAY SETTINGS: packets must take the way, tcp or mpi. SETTINGS are a shell's, for a rank whose number is $PMI_RANK.
run() {
    local case=$1 way=$2 settings=$3 rc messages said went=mpi
    cat > "$work/rank" << RANK
#!/bin/sh
$settings
exec "\$@"
RANK
    chmod +x "$work/rank"
    rm -f "$work/stats.json"
    timeout 100 "$here/run_mpi.sh" --way host --nodes tcp --env "TUGBOAT_STATS=$work/stats.json" "${options[@]}" \
        -- "$work/rank" "${program[@]}" > "$work/out" 2>&1
    rc=$?
    [ $rc = 77 ] && { cat "$work/out"; exit 77; }
    messages=$(sed -nE 's/.*"host_messages": *([0-9]+).*/\1/p' "$work/stats.json" | head -n 1)
    [ "$messages" = 0 ] && went=tcp
    echo "$case: status $rc, ${messages:-unknown} messages of the host, so by $went"
    { [ $rc = 0 ] && [ -n "$messages" ] && [ $went = "$way" ]; } || { failed=1; tail -n 5 "$work/out"; }
    # that tcp is not used is said once in a job, with the reason
    said=$(grep -c 'packets between hosts go by messages of the host MPI.* and not by tcp: .' "$work/out")
    [ "$said" = "$([ "$way" = mpi ] && echo 1 || echo 0)" ] || { failed=1; echo "$case: said $said times"; }
}

options=()
while [ "$1" != -- ]; do
    options+=("$1")
    shift
done
shift
program=("$@")
run on tcp 'export TUGBOAT_PROOF=on'
run off tcp 'export TUGBOAT_PROOF=off'
run 'on for one, off elsewhere' mpi '[ $PMI_RANK = 0 ] || export TUGBOAT_PROOF=off'
exit $failed

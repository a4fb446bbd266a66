#!/usr/bin/env bash
# Whether packets go over tcp where processes can prove that they are of the job, and where some or all cannot.
#
#   proofs.sh TUGBOAT RUN_OPTIONS... -- PROGRAM
#
# Digests are taken away by a libcrypto.so.3 that is none. Where the kernel makes them instead, they are there all the same.
# Over tcp nothing goes by the host's messages, which are counted.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tugboat=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/none" && : > "$work/none/libcrypto.so.3"
failed=0

# run CASE WAY SETTINGS: packets must take the way, tcp or mpi. SETTINGS are a shell's, for a rank whose number is $PMI_RANK.
run() {
    local case=$1 way=$2 settings=$3 rc messages said went=mpi
    cat > "$work/rank" << RANK
#!/bin/sh
none=$work/none
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
less='export LD_LIBRARY_PATH=$none:$LD_LIBRARY_PATH'

# Does anybody make digests here, with the library and without?
makes() { env "$@" "$tugboat" info | grep -A 1 '^digests' | grep -qv '^digests\|  none'; }
run required "$(makes A=1 && echo tcp || echo mpi)" 'export TUGBOAT_PROOF=required'
without=$(makes LD_LIBRARY_PATH="$work/none" && echo tcp || echo mpi)
run 'required, none to be had' "$without" "export TUGBOAT_PROOF=required; $less"
run 'none to be had' "$without" "$less"
run 'none to be had, on one host' tcp "export UCX_NET_DEVICES=lo; $less"
run 'none to be had, off' tcp "export TUGBOAT_PROOF=off; $less"
run 'required by one, off elsewhere' mpi '[ $PMI_RANK = 0 ] && export TUGBOAT_PROOF=required || export TUGBOAT_PROOF=off'
run 'none to be had by one' "$without" "[ \$PMI_RANK = 0 ] || $less"
exit $failed

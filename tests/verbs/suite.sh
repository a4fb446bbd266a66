#!/usr/bin/env bash
# Boots the virtual machine once and runs all cases in it; CTest then asks for each one's result.
#
# usage: suite.sh run CASES RESULTS [VM-OPTION...]
#            the machine, and in it every line of the file CASES: beside|alone NAME SECONDS COMMAND...
#        suite.sh in-vm CASES RESULTS
#            the part inside the machine
#        suite.sh result RESULTS NAME
#            what a case said, and its status
set -uo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

run() {
    local cases=$1 results=$2 status=0
    shift 2
    rm -rf "$results"
    mkdir -p "$results"
    cd "$results" || exit 1
    "$here/run_in_vm.sh" "$@" "$here/suite.sh" in-vm "$cases" "$results" 2>"$results/vm" || status=$?
    cat "$results/vm" >&2
    if [ "$status" -eq 77 ]; then tail -n 1 "$results/vm" >"$results/skipped"; fi
    return "$status"
}

# one RESULTS NAME SECONDS COMMAND: runs a case
one() {
    local results=$1 name=$2 seconds=$3 command=$4 status=0 began=$SECONDS
    timeout -k 5 "$seconds" bash -c "$command" >"$results/$name.log" 2>&1 </dev/null || status=$?
    # 137: it was killed, as it did not end by itself then (a device lets go of 2 GiB slowly)
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then echo "took longer than $seconds s" >>"$results/$name.log"; fi
    echo "$status" >"$results/$name.status"
    echo "$((SECONDS - began))" >"$results/$name.seconds"
    echo "$name: $status, $((SECONDS - began)) s"
}

# What may run beside others does: each is one process, and some wait for the limits of time of a device. The rest comes
# afterwards, one by one: ranks that wait for one another would take several times as long beside others.
in_vm() {
    local cases=$1 results=$2 way name seconds command lanes=3
    export CHECK_FEW=1 # the card is emulated, and so are the processors
    while read -r way name seconds command; do
        [ "$way" = beside ] || continue
        while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n; done
        one "$results" "$name" "$seconds" "$command" &
    done <"$cases"
    wait
    while read -r way name seconds command; do
        [ "$way" = alone ] || continue
        one "$results" "$name" "$seconds" "$command"
    done <"$cases"
}

result() {
    local results=$1 name=$2
    if [ -e "$results/skipped" ]; then
        cat "$results/skipped"
        return 77
    fi
    cat "$results/$name.log" 2>/dev/null
    if [ ! -e "$results/$name.status" ]; then
        echo "$name has not been run"
        return 1
    fi
    return "$(cat "$results/$name.status")"
}

case ${1:-} in
run | result)
    name=$1
    shift
    "$name" "$@"
    ;;
in-vm)
    shift
    in_vm "$@"
    ;;
*) exit 2 ;;
esac

#!/usr/bin/env bash
# Runs one MPI test program one way, for CTest.
#
#   run_mpi.sh --mpiexec PATH --way host|tug|native|packet|off|either --ranks N
#              [--nodes one|two|emulated|tcp|hosts|card] [--card FOLDER]
#              [--lib LIBTUGBOAT] [--tool-before LIB] [--tool-after LIB]
#              [--yielding LIB] [--bind core] [--env NAME=VALUE]... [--refuse TOOL --refused ERROR:CALL[,CALL]...]
#              [--needs COMMAND:TRANSPORT] [--defect WHAT]
#              -- PROGRAM [ARG]... [: -n N PROGRAM [ARG]...]...
#
# What follows a colon are more programs of the same job, with ranks of their own. (env NAME=VALUE PROGRAM
# is a program with settings of its own.)
# host is the program on the MPI alone: the oracle that shows the program itself to be right.
# native is under the tug, with every window in the native lane; packet, with every window in the
# packet lane that can be there.
# either documents a defect of the host MPI: the program may be right or not, but it must end.
# two puts every other rank on a second node; emulated makes every rank a node of its own; tcp puts a real network stack below that as well;
# hosts has as many hosts as ranks, see tests/hosts/mpiexec_hosts.sh.
# card makes every rank a node of its own with an InfiniBand card, the stand-in of tests/verbs: FOLDER has its libibverbs.so.1.
# The library's packets and operations take the card, or the host's messages, which connect the ranks.
# bind core: the launcher binds each rank to a core, as that of Open MPI and many clusters do unless they are told.
# yielding: preloaded beside the host alone where ranks outnumber cores, see tests/tools/yielding.c.
# refused: the kernel refuses these calls with that error, see tests/tools/refuse.c.
# needs: skipped where `COMMAND info -d`, the tugboat command, says that the transport is not available.
# defect: skipped, as the host alone fails there: it does that.
# With Open MPI a node is a host name, behind which its launcher is kept by node_agent.sh, and what goes
# between nodes goes over TCP: there is no tcp beside emulated.
# The exit status is the program's; 77 is a skip. A preload that did not happen is a failure: ld.so
# only warns about it, and the test would then test the host.
set -u

mpiexec= way=host ranks=1 nodes=one card= lib= tool_before= tool_after= refuse= refused= needs= yielding= bind=none
settings=()
while [ $# -gt 0 ]; do
    case $1 in
    --mpiexec) mpiexec=$2 ;;
    --way) way=$2 ;;
    --ranks) ranks=$2 ;;
    --nodes) nodes=$2 ;;
    --card) card=$2 ;;
    --lib) lib=$2 ;;
    --tool-before) tool_before=$2 ;;
    --tool-after) tool_after=$2 ;;
    --yielding) yielding=$2 ;;
    --bind) bind=$2 ;;
    --refuse) refuse=$2 ;;
    --refused) refused=$2 ;;
    --needs) needs=$2 ;;
    --defect) echo "skipped: $2, with the host alone, too"; exit 77 ;;
    --env) settings+=("$2") ;;
    --) shift; break ;;
    *) echo "run_mpi.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done

# What the caller's shell happens to have set must not decide what is tested.
for name in $(compgen -e | grep -E '^TUGBOAT' || true); do unset "$name"; done
unset LD_PRELOAD

if [ -n "$needs" ]; then
    lacks=$(TUGBOAT_TRANSPORTS="${needs##*:}" "${needs%:*}" info -d | awk -v name="${needs##*:}" '$0 == name { on = 1; next } /^[a-z]/ { on = 0 }
        on && sub(/^ *not available: /, "")')
    [ -z "$lacks" ] || { echo "skipped: no ${needs##*:}: $lacks"; exit 77; }
fi

# is_served PROGRAM: whether the library is at work in its processes, preloaded or linked.
is_served() {
    case $way in
    tug | native | packet) return 0 ;;
    host) grep -q 'libtugboat\.so' "$1" && [[ " ${settings[*]} " != *" TUGBOAT=off "* ]] ;;
    *) return 1 ;;
    esac
}

preload=$tool_before
case $way in
tug | native | packet | off)
    [ -r "$lib" ] || { echo "run_mpi.sh: no library at '$lib'" >&2; exit 2; }
    preload=${preload:+$preload:}$lib
    [ $way = off ] && settings+=("TUGBOAT=off")
    [[ $way = native || $way = packet ]] && settings+=("TUGBOAT_RMA=$way")
    ;;
host | either) ;;
*) echo "run_mpi.sh: unknown way '$way'" >&2; exit 2 ;;
esac
if [ "$ranks" -le "$(nproc)" ] || is_served "$1"; then yielding=; fi
for library in $tool_after $yielding; do preload=${preload:+$preload:}$library; done

launch=("$mpiexec" -n "$ranks")
[ "$bind" = none ] || launch+=(-bind-to "$bind")
openmpi=
version=$("$mpiexec" --version 2> /dev/null)
if [[ $version == *OpenRTE* || $version == *"Open MPI"* ]]; then
    openmpi=openmpi.
    settings+=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    launch=("$mpiexec" --oversubscribe --bind-to "$bind" -n "$ranks")
    if [[ " $* " == *" : "* ]] && ! env "${settings[@]}" "$mpiexec" -n 1 true : -n 1 true >/dev/null 2>&1 </dev/null; then
        echo "skipped: this launcher fails with two programs, whatever they are (Open MPI 5.0.7 crashes)"
        exit 77
    fi
fi

# open_nodes N: this many nodes, ranks dealt out in turn.
open_nodes() {
    local list='' i
    agent=$(dirname "$(readlink -f "$0")")/node_agent.sh
    "$agent" node0 true || { echo "skipped: no host names of one's own here (unshare --uts)"; exit 77; }
    for ((i = 1; i <= $1; i++)); do list+=${list:+,}node$i:$ranks; done
    launch+=(--host "$list" --map-by node --mca plm_rsh_agent "$agent"
        --mca btl_tcp_if_include lo)
    # the launcher of Open MPI 5 refuses the loopback device: there the machine must have another
    [[ $version != *OpenRTE* ]] || launch+=(--mca oob_tcp_if_include lo)
}

case $openmpi$nodes in
*one) ;;
openmpi.two) open_nodes 2 ;;
openmpi.emulated) open_nodes "$ranks" ;;
two) settings+=("MPIR_CVAR_NUM_CLIQUES=2") ;;
emulated) settings+=("MPIR_CVAR_NOLOCAL=1") ;;
tcp) settings+=("MPIR_CVAR_NOLOCAL=1" "UCX_TLS=tcp,self") ;;
hosts)
    settings+=("UCX_TLS=tcp,self" "HOSTS=$ranks" "MPIEXEC=$mpiexec")
    launch=("$(dirname "$0")/../hosts/mpiexec_hosts.sh" -n "$ranks")
    ;;
card)
    [ -e "$card/libibverbs.so.1" ] || { echo "run_mpi.sh: no stand-in for libibverbs at '$card'" >&2; exit 2; }
    shared=$(mktemp -d)
    trap 'rm -rf "$shared"' EXIT
    settings=("MPIR_CVAR_NOLOCAL=1" "UCX_TLS=posix,self" "TUGBOAT_TRANSPORTS=verbs,mpi" "FAKE_CARD=$shared/card"
        "FAKE_CARD_COUNTS=$shared/counts" "LD_LIBRARY_PATH=$card${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${settings[@]}")
    ;;
*) echo "run_mpi.sh: unknown nodes '$nodes'" >&2; exit 2 ;;
esac
[ -n "$refused" ] && launch=("$refuse" "${refused%%:*}" "${refused#*:}" "${launch[@]}")
[ -n "$preload" ] && settings+=("LD_PRELOAD=$preload")
if [ -n "$openmpi" ] && [ "$nodes" != one ]; then
    for setting in "${settings[@]}"; do launch+=(-x "${setting%%=*}"); done
fi

if [ -n "$preload" ] && LD_PRELOAD=$preload /bin/true 2>&1 | grep 'ERROR: ld.so' >&2; then
    exit 2
fi

# Over TCP the host MPI of Debian 12 hangs now and then in its own end, see src/host/farewell.h. The
# library heals that. Where it is not in the process, a program whose verdict is out and one of whose
# ranks reads from the process manager is right; one that hangs otherwise gets two more chances.

# waits_for_manager PROGRAM: whether a rank of the program is in the barrier of MPI_Finalize.
waits_for_manager() {
    local rank fd
    for rank in $(pgrep -f "^$1( |\$)"); do
        fd=$(tr '\0' '\n' <"/proc/$rank/environ" 2>/dev/null | sed -n 's/^PMI_FD=//p')
        # read(2) is system call 0 on x86-64; elsewhere no hang is recognised, and the time runs out
        [ -n "$fd" ] && grep -q "^0 $(printf '0x%x' "$fd") " "/proc/$rank/syscall" 2>/dev/null && return 0
    done
    return 1
}

# unhealed PROGRAM [ARG]...: its exit status, or 124 for a run that hung.
unhealed() {
    local job seen=0 rc output
    output=$(mktemp)
    env "${settings[@]}" timeout 80 "${launch[@]}" "$@" >"$output" 2>&1 &
    job=$!
    while kill -0 $job 2>/dev/null && [ $seen -lt 8 ]; do
        sleep 0.2
        if grep -qx ' *right' "$output" && waits_for_manager "$1"; then seen=$((seen + 1)); else seen=0; fi
    done
    [ $seen -lt 8 ] || kill $job 2>/dev/null # timeout takes its children along
    wait $job
    rc=$?
    if [ $seen -ge 8 ] && [ $rc -ne 0 ]; then
        echo "run_mpi.sh: right; the host hung in its MPI_Finalize" >&2
        rc=0
    fi
    cat "$output"
    rm -f "$output"
    return $rc
}

# MPICH's launcher (4.0.2) tells its proxy that standard input has ended, also when the program has ended before that
# and the proxy with it: then it dies of SIGPIPE, with nothing printed (one run in 80 of echo, on busy cores; none in
# 650 so). Here input does not end: it is a pipe that this script could write to.
exec 0<> <(:)

if [[ $nodes = tcp || $nodes = hosts ]] && ! is_served "$1"; then
    for attempt in 1 2 3; do
        unhealed "$@"
        rc=$?
        [ $rc = 124 ] || break
        echo "run_mpi.sh: attempt $attempt over TCP hung, or took longer than 80 s" >&2
    done
else
    env "${settings[@]}" "${launch[@]}" "$@"
    rc=$?
fi
if [ "$nodes" = card ]; then
    cat "$shared/counts" 2>/dev/null
    # processes that were killed have printed nothing
    if is_served "$1" && [ $rc = 0 ] && { [ ! -s "$shared/card" ] || { [ -e "$shared/counts" ] &&
        ! grep -qE ' (send|write|read|cmp_and_swp|fetch_and_add)=[1-9]' "$shared/counts"; }; }; then
        echo "run_mpi.sh: the card has had nothing to do" >&2
        rc=1
    fi
fi
if [ $way = either ]; then
    echo "the host MPI alone: exit status $rc (either is expected here)"
    exit 0
fi
exit $rc

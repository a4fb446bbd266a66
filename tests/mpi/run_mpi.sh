#!/usr/bin/env bash
# Runs one MPI test program one way, for CTest.
#
#   run_mpi.sh --mpiexec PATH --way host|tug|native|packet|off|either --ranks N
#              [--nodes one|two|emulated|tcp|hosts] [--lib LIBTUGBOAT] [--tool LIB] [--env NAME=VALUE]...
#              -- PROGRAM [ARG]...
#
# host is the program on the MPI alone: the oracle that shows the program itself to be right.
# native is under the tug, with every window in the native lane; packet, with every window in the
# packet lane that can be there.
# either documents a defect of the host MPI: the program may be right or not, but it must end.
# two puts every other rank on a second node; emulated makes every rank a node of its own; tcp puts a real network stack below that as well;
# hosts has as many hosts as ranks, see tests/hosts/mpiexec_hosts.sh.
# The exit status is the program's; 77 is a skip. A preload that did not happen is a failure: ld.so
# only warns about it, and the test would then test the host.
set -u

mpiexec= way=host ranks=1 nodes=one lib= tool_before= tool_after=
settings=()
while [ $# -gt 0 ]; do
    case $1 in
    --mpiexec) mpiexec=$2 ;;
    --way) way=$2 ;;
    --ranks) ranks=$2 ;;
    --nodes) nodes=$2 ;;
    --lib) lib=$2 ;;
    --tool-before) tool_before=$2 ;;
    --tool-after) tool_after=$2 ;;
    --env) settings+=("$2") ;;
    --) shift; break ;;
    *) echo "run_mpi.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done

# What the caller's shell happens to have set must not decide what is tested.
for name in $(compgen -e | grep -E '^TUGBOAT' || true); do unset "$name"; done
unset LD_PRELOAD

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
preload=${preload:+$preload${tool_after:+:}}$tool_after

case $nodes in
one) ;;
two) settings+=("MPIR_CVAR_NUM_CLIQUES=2") ;;
emulated) settings+=("MPIR_CVAR_NOLOCAL=1") ;;
tcp) settings+=("MPIR_CVAR_NOLOCAL=1" "UCX_TLS=tcp,self") ;;
hosts)
    settings+=("UCX_TLS=tcp,self" "HOSTS=$ranks" "MPIEXEC=$mpiexec")
    mpiexec=$(dirname "$0")/../hosts/mpiexec_hosts.sh
    ;;
*) echo "run_mpi.sh: unknown nodes '$nodes'" >&2; exit 2 ;;
esac
[ -n "$preload" ] && settings+=("LD_PRELOAD=$preload")

if [ -n "$preload" ] && LD_PRELOAD=$preload /bin/true 2>&1 | grep 'ERROR: ld.so' >&2; then
    exit 2
fi

# Over TCP the host MPI of Debian 12 hangs now and then in its own start or end, tug or no tug (1
# in 15 runs of 2 ranks): such a run, and only such a one, gets two more chances.
attempts=1
[[ $nodes = tcp || $nodes = hosts ]] && attempts=3
for ((attempt = 1; attempt <= attempts; attempt++)); do
    if [ $attempts = 1 ]; then
        env "${settings[@]}" "$mpiexec" -n "$ranks" "$@"
    else
        env "${settings[@]}" timeout 15 "$mpiexec" -n "$ranks" "$@"
    fi
    rc=$?
    [ $rc = 124 ] || break
    echo "run_mpi.sh: attempt $attempt over TCP hung" >&2
done
if [ $way = either ]; then
    echo "the host MPI alone: exit status $rc (either is expected here)"
    exit 0
fi
exit $rc

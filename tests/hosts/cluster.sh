#!/usr/bin/env bash
# Runs programs on a cluster of emulated hosts, each with a network, a host name, processes and /dev/shm of its own.
#
#   cluster.sh BUILD_DIR [--hosts N] [--ranks N] [--only PATTERN] [--limit S] [--quick] [--growth MOST] [--model] [--faults N [--seed S]]
#
# Every program checks its own result, and runs under the library. A row says what became of it. mpiexec_hosts.sh says how
# the hosts are made. The exit status is 0 if all were right, 77 if there can be no hosts here, 1 otherwise.
set -u

usage() {
    cat << 'TEXT'
usage: ./dev cluster [--hosts N] [--ranks N] [--only PATTERN] [--limit S] [--quick] [--growth MOST] [--model] [--faults N [--seed S]]
  --hosts N       so many hosts (4)
  --ranks N       of each host (4)
  --only PATTERN  programs whose names match the shell pattern; --only list shows the names
  --limit S       so many seconds at most for a program (120)
  --quick         4 hosts of 2 ranks, and the programs that take a few seconds
  --growth MOST   instead: what start, windows, synchronisation, broadcasts, arrays and ACP cost in jobs of 8, 16, ... MOST
                  ranks on the hosts: report/growth.csv and report/growth.svg
  --model         instead: each way to broadcast, by turns in three jobs, against what the model and the simulator say of it
  --faults N      instead: N jobs in which something breaks at a random moment; --only names the kind: kill, stop (2 or 10 s),
                  link (down for 1 or 30 s), shm (full), descriptors (none left), memory (an allocation fails)
  --seed S        the first job's seed (1), the next one's is S + 1; a seed decides the program, the fault and its moment
TEXT
}

fail() { echo "cluster.sh: $*" >&2; exit 2; }

build=$(realpath "${1:?}") hosts=4 ranks=4 only='*' limit=120 quick='' model='' most='' nfaults='' seed=1
shift
while [ $# -gt 0 ]; do
    case $1 in
    --hosts) hosts=${2:?} ;;
    --ranks) ranks=${2:?} ;;
    --only) only=${2:?} ;;
    --limit) limit=${2:?} ;;
    --growth) most=${2:?} ;;
    --faults) nfaults=${2:?} ;;
    --seed) seed=${2:?} ;;
    --quick) quick=1 hosts=4 ranks=2; shift; continue ;;
    --model) model=1; shift; continue ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift 2
done
for number in "$hosts" "$ranks" "$limit" "${most:-8}" "${nfaults:-1}" "$seed"; do
    [[ $number =~ ^[1-9][0-9]{0,3}$ ]] || fail "--hosts, --ranks, --limit, --growth, --faults and --seed take whole numbers from 1 on, not \"$number\""
done
((hosts <= 253)) || fail "--hosts: at most 253"

# name, most ranks, seconds of its quick kind or - for none, program with arguments
programs() {
    local mpi=$build/tests/mpi/bin bench=$build/bin/osu-style-bench
    cat << LIST
windows 1000 1 $mpi/mpi_rma_apps 3 4 4
halo 1000 1 $mpi/mpi_examples_halo 4 100 10 1
queue 1000 1 $mpi/mpi_examples_queue 40 1
histogram 1000 1 $mpi/mpi_examples_histogram 1000 8
gups 1000 1 $bench/gups --table-bits 12 --batch 64 --samples 2 --seconds 0.05 --validate
collectives 64 1 $bench/coll_init_sizes --sizes 8,32K --seconds 0.01 --max-iterations 40 --validate
broadcast 1000 1 $bench/bcast_init_sizes --sizes 8,32K,1M --validate
windows_basic 16 - $mpi/mpi_rma_basic
locks 16 - $mpi/mpi_rma_lock_fair
pcoll 16 - $mpi/mpi_pcoll
acp 1000 1 $mpi/mpi_acp_row
llcl 16 - $mpi/mpi_llcl_basic
messages 16 - $mpi/mpi_llcl_am
arrays 16 - $mpi/mpi_gas_basic
array_moves 64 - $mpi/mpi_gas_moves
LIST
}

[ "$only" = list ] && { programs | cut -d' ' -f1; exit 0; }

# The launcher of the build, and whether it is Hydra: the hosts are made for that one.
launcher=$(sed -n 's/^HOSTMPI_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
[[ $("$launcher" --version 2> /dev/null) == *HYDRA* ]] || { echo "skipped: the hosts are made for Hydra (MPICH)"; exit 77; }
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nranks=$((hosts * ranks))

# run COMMAND...: on the cluster. Between hosts over TCP, within one by shared memory.
run() {
    env HOSTS="$hosts" MPIEXEC="$launcher" UCX_TLS=tcp,self,sysv,posix LD_PRELOAD="${preload:-$build/lib/libtugboat.so}" \
        timeout -k 5 "$limit" "$here/mpiexec_hosts.sh" -n "$nranks" "$@" < /dev/null > "$work/out" 2>&1
}

run true
rc=$?
[ $rc = 77 ] && { cat "$work/out"; exit 77; }
[ $rc = 0 ] || { cat "$work/out" >&2; fail "no $hosts hosts can be had"; }

if [ -n "$most" ]; then
    # shellcheck source=growth.sh
    . "$here/growth.sh"
    echo "# $hosts hosts, $(nproc) cores"
    growth "$most" "$here/../../report"
    exit
fi

if [ -n "$model" ]; then
    # shellcheck source=model.sh
    . "$here/model.sh"
    echo "# $hosts hosts of $ranks ranks, $(nproc) cores"
    model
    exit
fi

if [ -n "$nfaults" ]; then
    # shellcheck source=faults.sh
    . "$here/faults.sh"
    echo "# $hosts hosts of $ranks ranks, $(nproc) cores"
    faults "$nfaults" "$seed"
    exit
fi

echo "# $hosts hosts of $ranks ranks, $(nproc) cores"
wrong=0 ran=0
while read -r name most fast command; do
    # shellcheck disable=SC2053 # it is a pattern
    [[ $name == $only ]] || continue
    [ -n "$quick" ] && [ "$fast" = - ] && continue
    if ((nranks > most)); then
        printf '%-14s not run: it is for at most %d ranks\n' "$name" "$most"
        continue
    fi
    begin=$EPOCHREALTIME
    # shellcheck disable=SC2086 # a command and its arguments
    run $command
    rc=$?
    took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    ran=$((ran + 1))
    case $rc in
    0) printf '%-14s right    %6s s\n' "$name" "$took" ;;
    77) printf '%-14s skipped: %s\n' "$name" "$(sed -n 's/^skipped: //p' "$work/out" | head -1)" ;;
    *)
        wrong=$((wrong + 1))
        [ $rc = 124 ] || [ $rc = 137 ] && what="no end" || what="status $rc"
        printf '%-14s FAILED   %6s s: %s\n' "$name" "$took" "$what"
        tail -n 8 "$work/out" | sed 's/^/    /'
        ;;
    esac
done < <(programs)
((ran > 0)) || fail "no program is named \"$only\""
echo "# $((ran - wrong)) of $ran right"
((wrong == 0))

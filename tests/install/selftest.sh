#!/usr/bin/env bash
# `tugboat selftest` finds an installation sound, and what is wrong with one that is not.
# Usage: selftest.sh PREFIX MPIEXEC REFUSE
set -uo pipefail
tugboat=$1/bin/tugboat mpiexec=$2 refuse=$3
unset LD_PRELOAD ${!TUGBOAT*}
# shellcheck source=../base/expect.sh
. "$(dirname "$0")/../base/expect.sh"

expect sound 0 '^Tugboat works here' "$tugboat" selftest "$mpiexec" -n 2
for line in 'library +ok .*libtugboat.*\.so' 'launcher +ok +2 ranks on 1 node' 'windows +ok +take the direct lane' \
    'data +ok .*unaligned' 'data +ok .*right data' 'data +ok .*right side' 'progress .* takes [0-9.]+ us'; do
    grep -qE "^  $line" "$work/out" || fail "sound: no line $line"
done
absent sound FAILED
expect nodes 0 'launcher +ok +2 ranks on 2 nodes' env MPIR_CVAR_NOLOCAL=1 "$tugboat" selftest "$mpiexec" -n 2
# where the host alone may not come out of MPI_Finalize
expect tcp 0 '^Tugboat works here' env MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self "$tugboat" selftest "$mpiexec" -n 3
hangs='case "${LD_PRELOAD-}" in ?*) exec "$@" ;; esac; "$@"; exec sleep 30'
expect hangs 0 'host MPI +note +a job on it alone does not come out of MPI_Finalize' \
    "$tugboat" selftest sh -c "$hangs" sh "$mpiexec" -n 2
absent hangs FAILED
expect alone 0 'progress +note +not tried' "$tugboat" selftest "$mpiexec" -n 1
expect off 0 'switched off by TUGBOAT=off' env TUGBOAT=off "$tugboat" selftest "$mpiexec" -n 2
absent off 'windows +ok'
expect not-preloaded 1 'does not get into the ranks' "$tugboat" selftest env -u LD_PRELOAD "$mpiexec" -n 2
expect not-there 1 'launcher +FAILED +no-such-launcher is not found' "$tugboat" selftest no-such-launcher
expect no-launcher 1 'launcher +FAILED +mpiexec is not found' env PATH="$work" "$tugboat" selftest
expect silent 1 'no rank reports anything' "$tugboat" selftest true
expect fails 1 'the job fails' "$tugboat" selftest false
expect setting 1 'settings +FAILED +TUGBOAT_RMA=x is not allowed' env TUGBOAT_RMA=x "$tugboat" selftest "$mpiexec" -n 2
expect unknown 1 'settings +note +TUGBOAT_X is not a setting' env TUGBOAT_X=1 "$tugboat" selftest false
expect another-mpi 1 'single processes instead of a job' \
    "$tugboat" selftest sh -c '"$@" & "$@"; wait' sh

# on a kernel that lacks what we would rather use; exit status 77: system calls cannot be refused here
calls=memfd_create,sched_setattr,getrandom,epoll_create1
for error in ENOSYS EPERM; do
    "$refuse" $error $calls true >/dev/null
    [ $? -eq 77 ] && continue
    for call in ${calls//,/ }; do
        expect "refused.$call" 1 "system calls +note +$call is refused here \(Linux [0-9.]+ has it\): [a-z/]" \
            "$refuse" $error $calls "$tugboat" selftest false
    done
done

expect option 2 "no option '-x'" "$tugboat" selftest -x

[ $failed -eq 0 ] && echo "all fine"
exit $failed

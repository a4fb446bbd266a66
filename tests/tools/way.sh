#!/usr/bin/env bash
# way.sh BUILD WINDOW PUT [--list] [--flush]: counts what an MPI_Put of 8 bytes takes in the calling thread: functions,
# those that were inlined counted, their files, and machine instructions. --list names them, --flush counts the flush
# behind it, too. WINDOW and PUT as in way_put.c; the way is chosen by TUGBOAT_TRANSPORTS, TUGBOAT_RMA and the like.
# docs/engine.md has the table.
#
# gdb steps from instruction to instruction. While it is in the put, the process's other threads stand still. What waits
# for somebody is given up after 8 000 steps.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
[ $# -ge 3 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1") list=False flush=False
[[ " ${*:4} " != *" --list "* ]] || list=True
[[ " ${*:4} " != *" --flush "* ]] || flush=True
mpiexec=$(command -v mpiexec.mpich || command -v mpiexec.hydra)
program=$build/tests/tools/way_put library=${WAY_LIBRARY:-$build/lib/libtugboat.so}
# gdb ends rank 0, and so the job
timeout -k 5 120 "$mpiexec" \
    -n 1 gdb -nx -batch -ex "python WAY_LIST = $list; WAY_FLUSH = $flush" -ex "set environment LD_PRELOAD $library" -x "$here/way.py" \
    --args "$program" "$2" "$3" : \
    -n 1 env LD_PRELOAD="$library" "$program" "$2" "$3" </dev/null 2>/dev/null | grep '^way:' ||
    { echo "way.sh: nothing was counted" >&2; exit 1; }

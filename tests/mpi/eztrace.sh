#!/usr/bin/env bash
# EZTrace, loaded before the library and behind it, traces the calls that it traces without.
#
#   eztrace.sh RUN_OPTIONS... -- PROGRAM
#
# Compared are the names of the traced calls: the program's, and none of the library's own. The
# program has to say that it is right; its status says nothing, for EZTrace 2.0 asks MPICH for the
# time when MPI has ended, and MPICH ends the process for that, library or no library.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tool=
for folder in /usr/lib/"$(uname -m)"-linux-gnu /usr/lib64 /usr/lib; do
    [ -r $folder/libeztrace-mpich.so ] && tool=$folder/libeztrace-lib.so:$folder/libeztrace-mpich.so && break
done
if [ -z "$tool" ]; then
    echo "skipped: EZTrace for MPICH is not installed (Debian: eztrace)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# traced WAY OPTION RUN_OPTIONS...: the names, one a line; status 1: the program is not right
traced() {
    local way=$1 option=$2
    shift 2
    rm -rf "$work/run"
    mkdir "$work/run"
    (cd "$work/run" && timeout 150 "$here/run_mpi.sh" --way "$way" "$option" "$tool" \
        --env EZTRACE_TRACE=mpich "$@" >"$work/out" 2>&1)
    grep -aohE 'MPI_[A-Z][a-z][A-Za-z_]*' "$work"/run/*_trace/eztrace_log.def | sort -u
    grep -q '^right$' "$work/out"
}

if ! host=$(traced host --tool-before "$@") || ! grep -q MPI_Put <<<"$host"; then
    echo "skipped: EZTrace does not trace the host MPI alone"
    cat "$work/out"
    exit 77
fi
failed=0
for stack in --tool-before --tool-after; do
    if ! names=$(traced tug $stack "$@") || [ "$names" != "$host" ]; then
        echo "$stack: not right, or other calls than with the host (<):"
        diff <(echo "$host") <(echo "$names")
        cat "$work/out"
        failed=1
    else
        echo "$stack: $(wc -l <<<"$names") names of calls, right"
    fi
done
exit $failed

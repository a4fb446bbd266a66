#!/usr/bin/env bash
# A Python program by mpi4py, as run_mpi.sh runs it:
#
#   python.sh --mpiexec PATH RUN_OPTIONS... -- SCRIPT [ARG]...
#
# Exit status 77 where the system's Python has no mpi4py, or one for another MPI than that of mpiexec (Debian
# builds it for Open MPI).
set -u
here=$(cd "$(dirname "$0")" && pwd)
for python in /usr/bin/python3 "$(command -v python3)"; do
    [ -x "$python" ] && binding=$("$python" -c 'from importlib.util import find_spec as f
print(f("mpi4py.MPI").origin)' 2>/dev/null) && break
done
[ -n "${binding:-}" ] || { echo "skipped: mpi4py is not installed (Debian: python3-mpi4py)"; exit 77; }
mpiexec=
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --mpiexec) mpiexec=$2 ;;
    --) shift; break ;;
    esac
    options+=("$1")
    shift
done
host=libmpich
"$mpiexec" --version 2>/dev/null | grep -qE 'OpenRTE|Open MPI' && host=libmpi.so.40
ldd "$binding" | grep -q "$host" || { echo "skipped: $binding is not for the MPI of $mpiexec"; exit 77; }
exec "$here/run_mpi.sh" "${options[@]}" -- "$python" "$@"

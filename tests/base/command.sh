#!/usr/bin/env bash
# The tugboat command, from outside. Usage: command.sh TUGBOAT LIBRARY INERT-PROGRAM LIBDIR
set -uo pipefail
tugboat=$1 library=$(realpath -s "$2") inert=$3 libdir=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD ${!TUGBOAT*}
failed=0

# expect NAME STATUS PATTERN COMMAND...: exit status and a pattern (grep -E) in output and error.
expect() {
    local name=$1 status=$2 pattern=$3 got
    shift 3
    "$@" >"$work/out" 2>&1
    got=$?
    if [ "$got" -ne "$status" ] || ! grep -qE -- "$pattern" "$work/out"; then
        echo "FAILED $name: status $got, wanted $status; wanted output: $pattern; got:"
        sed 's/^/    /' "$work/out"
        failed=1
    fi
}
absent() {
    if grep -qE -- "$2" "$work/out"; then
        echo "FAILED $1: output has $2"
        failed=1
    fi
}

expect version 0 '^tugboat [0-9]+\.[0-9]+\.[0-9]+$' "$tugboat" --version
expect help 0 '^usage: tugboat' "$tugboat" --help
expect run-help 0 '^usage: tugboat' "$tugboat" run --help
expect no-argument 2 '^usage: tugboat' "$tugboat"
expect unknown-command 2 "no command 'sail'" "$tugboat" sail

expect preload 0 "^$library\$" "$tugboat" run sh -c 'echo "$LD_PRELOAD"'
expect preload-keeps 0 "^$library:libother\.so\$" \
    env LD_PRELOAD=libother.so "$tugboat" run sh -c 'echo "$LD_PRELOAD"'
expect preload-not-twice 0 "^$library:libother\.so\$" \
    env LD_PRELOAD=libother.so "$tugboat" run "$tugboat" run sh -c 'echo "$LD_PRELOAD"'
expect preload-keeps-order 0 "^libother\.so $library\$" \
    env LD_PRELOAD="libother.so $library" "$tugboat" run sh -c 'echo "$LD_PRELOAD"'
expect inert 0 '^threads 1, library loaded$' "$tugboat" run "$inert"
expect not-run 0 '^threads 1, library not loaded$' "$inert"
expect status 42 '^$|^.*$' "$tugboat" run sh -c 'echo; exit 42'
expect arguments 0 '^<a b><><-c>$' "$tugboat" run sh -c 'printf "<%s>" "$@"; echo' sh 'a b' '' -c
expect dashes 0 '^fine$' "$tugboat" run -- echo fine
expect not-found 127 'cannot run no-such-program: No such file' "$tugboat" run no-such-program
: >"$work/plain"
expect not-executable 126 'cannot run .*plain: Permission denied' "$tugboat" run "$work/plain"
expect nothing-to-run 2 'needs a command' "$tugboat" run
expect bad-option 2 "no option '--sats'" "$tugboat" run --sats true

expect stats-off 0 '^<>$' "$tugboat" run sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats 0 '^<1>$' "$tugboat" run --stats sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats-file 0 "^<$(pwd -P)/a\.json>\$" "$tugboat" run --stats=a.json sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats-absolute 0 '^</tmp/a\.json>$' "$tugboat" run --stats=/tmp/a.json sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats-bad 2 'must end in \.json' "$tugboat" run --stats=a.txt true

expect info 0 'TUGBOAT_SPIN_US +5 +\(default' "$tugboat" info
for wanted in '^tugboat [0-9]' 'compiler +[A-Za-z]+' 'build type +[A-Za-z]+' 'MPI headers +MPICH [0-9]' \
    "library +$library" 'libmpich\.so\.12 MPICH Version: +[0-9]' 'native +one-sided' 'shm +shared memory'; do
    expect "info: $wanted" 0 "$wanted" "$tugboat" info
done
expect info-environment 0 'TUGBOAT_SPIN_US +9 +\(environment' env TUGBOAT_SPIN_US=9 "$tugboat" info
expect info-unknown 0 'TUGBOAT_WIND .*not a setting' env TUGBOAT_WIND=1 "$tugboat" info
expect info-bad 1 '^tugboat: TUGBOAT_RING_SIZE=3 is not allowed: it must be a power of two, 16 to 1048576' \
    env TUGBOAT_RING_SIZE=3 "$tugboat" info
expect info-argument 2 "no argument 'all'" "$tugboat" info all
absent info-argument 'settings'

# Without the library beside it or where it is installed, the command says where it looked.
if [ ! -e "$libdir/libtugboat.so" ]; then
    mkdir -p "$work/bin"
    cp "$tugboat" "$work/bin/"
    expect alone 125 "libtugboat\.so is neither in .* nor in $libdir\$" "$work/bin/tugboat" run true
fi
mkdir -p "$work/with blank/bin" "$work/with blank/lib"
cp "$tugboat" "$work/with blank/bin/"
cp "$library" "$work/with blank/lib/"
expect blank-in-path 125 'holds a blank or a colon' "$work/with blank/bin/tugboat" run true

[ $failed -eq 0 ] && echo "all fine"
exit $failed

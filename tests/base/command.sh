#!/usr/bin/env bash
# The tugboat command, from outside. Usage: command.sh TUGBOAT LIBRARY INERT-PROGRAM LIBDIR
set -uo pipefail
tugboat=$1 library=$(realpath -s "$2") inert=$3 libdir=$4
unset LD_PRELOAD ${!TUGBOAT*}
. "$(dirname "$0")/expect.sh"

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

# The options of the original ACP's launchers: with a stand-in for the host's.
mkdir "$work/bin"
for name in mpiexec mpiexec.mpich mpiexec.openmpi mpirun.openmpi; do
    printf '#!/bin/sh\necho "launched $* with <$TUGBOAT_ACP_STARTER> <$TUGBOAT_TRANSPORTS>"\n' >"$work/bin/$name"
    chmod +x "$work/bin/$name"
done
acp() { env PATH="$work/bin:$PATH" "$tugboat" run "$@"; }
expect acp-ranks 0 '^launched -n 3 \./app -x with <> <>$' acp --acp-nprocs=3 ./app -x
expect acp-all 0 '^launched -n 2 -machinefile nodes -host a,b \./app with <4096> <self,mapped,cma,shm,tcp,mpi>$' \
    acp --acp-np=2 --acp-nodefile=nodes --acp-node=a,b --acp-startermemsize=4096 --acp-envnet=UDP ./app
expect acp-nodes 0 '^launched -n 1 -host a \./app' acp --acp-host=a ./app
expect acp-verbs 0 'self,mapped,cma,verbs,shm,mpi' acp --acp-net=ib sh -c 'echo "$TUGBOAT_TRANSPORTS"'
expect acp-starter 0 '^<1024>$' acp --acp-smemsize=10 sh -c 'echo "<$TUGBOAT_ACP_STARTER>"'
expect acp-no-ranks 2 '--acp-nprocs=0: wants' acp --acp-nprocs=0 ./app
expect acp-no-value 2 '--acp-nodefile: wants a value' acp --acp-nodefile ./app
expect acp-tofu 2 '--acp-envnet=tofu: there are udp and ib' acp --acp-envnet=tofu ./app
for word in multrun portfile=p offsetrank=1 nprocsx=2 help; do
    expect acp-refused 2 "--acp-$word: no such option" acp --acp-$word ./app
done

expect stats-off 0 '^<>$' "$tugboat" run sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats 0 '^<1>$' "$tugboat" run --stats sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats-file 0 "^<$(pwd -P)/a\.json>\$" "$tugboat" run --stats=a.json sh -c 'echo "<$TUGBOAT_STATS>"'
expect stats-absolute 0 '^</tmp/a\.json>$' "$tugboat" run --stats=/tmp/a.json sh -c 'echo "<$TUGBOAT_STATS>"'
expect trace-file 0 "^<$(pwd -P)/a\.json>\$" "$tugboat" run --trace=a.json sh -c 'echo "<$TUGBOAT_TRACE>"'
expect trace-bad 2 'must end in \.json' "$tugboat" run --trace=a.txt true
expect stats-bad 2 'must end in \.json' "$tugboat" run --stats=a.txt true

expect info 0 'TUGBOAT_SPIN_US +5 +\(default' "$tugboat" info
for wanted in '^tugboat [0-9]' 'compiler +[A-Za-z]+' 'build type +[A-Za-z]+' 'MPI headers +MPICH [0-9]' \
    "library +$library" 'MPICH Version: [0-9.]+ \(libmpich\.so\.12\)' '^transports' '^ .* self mapped .* mpi$'; do
    expect "info: $wanted" 0 "$wanted" "$tugboat" info
done
expect info-ways 0 '^transports' "$tugboat" info
for way in self mapped cma shm verbs ofi tcp mpi; do
    [ "$(sed -n '/^transports/,/^digests/p' "$work/out" | grep -cE "^  ([a-z]+ )*$way( [a-z]+)*\$|^  $way +not available: .{8}")" = 1 ] ||
        fail "info: $way is listed neither as available nor with a reason: $(cat "$work/out")"
done
expect info-environment 0 'TUGBOAT_SPIN_US +9 +\(environment' env TUGBOAT_SPIN_US=9 "$tugboat" info
expect info-unknown 0 'TUGBOAT_WIND .*not a setting' env TUGBOAT_WIND=1 "$tugboat" info
expect info-bad 1 '^tugboat: TUGBOAT_RING_SIZE=3 is not allowed: it must be a power of two, 16 to 1048576' \
    env TUGBOAT_RING_SIZE=3 "$tugboat" info
expect info-argument 2 "no argument 'all'" "$tugboat" info all
absent info-argument 'settings'
digests='none: there is no libcrypto.so.3, and the kernel makes none'
PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2> /dev/null | grep 'libcrypto\.so\.3 ' > /dev/null && digests='libcrypto\.so\.3'
expect info-digests 0 "^  ($digests|the kernel)\$" "$tugboat" info
expect info-digests-ways 0 "^  ($digests|the kernel)\$" "$tugboat" info -d
mkdir "$work/none" && : > "$work/none/libcrypto.so.3" # the loader finds no library in it, and looks no further
expect info-digests-none 0 '^  (none: there is no libcrypto.so.3, and the kernel makes none|the kernel)$' \
    env LD_LIBRARY_PATH="$work/none" "$tugboat" info
expect info-help 0 '^usage: tugboat' "$tugboat" info --help
expect configuration 0 '^TUGBOAT_SPIN_US=5 +# default; 0 to 10000$' "$tugboat" info -c
expect configuration-environment 0 '^TUGBOAT_SPIN_US=9 +# environment; ' env TUGBOAT_SPIN_US=9 "$tugboat" info -c
expect configuration-unknown 0 '^# TUGBOAT_WIND is not a setting' env TUGBOAT_WIND=1 "$tugboat" info -c
expect configuration-bad 1 'TUGBOAT_WAIT=long is not allowed' env TUGBOAT_WAIT=long "$tugboat" info -c
expect tuning-guess 0 'nothing is measured yet' "$tugboat" info -t
expect tuning-thresholds 0 '^cma.from +4096 ' "$tugboat" info -t
printf 'between.latency_us = 7.5\n' >"$work/tuning"
expect tuning-file 0 '^between.latency_us +. 7.5$' env TUGBOAT_TUNING="$work/tuning" "$tugboat" info -t
expect tuning-file-named 0 "^# measured: TUGBOAT_TUNING=$work/tuning" env TUGBOAT_TUNING="$work/tuning" "$tugboat" info -t
expect tuning-missing 1 'no_such_file' env TUGBOAT_TUNING=/no_such_file "$tugboat" info -t
expect info-two 2 "no argument 'more'" "$tugboat" info -d more

# The ways: each once, with what it is and whether it is there; no environment decides but ours.
for way in self mapped cma verbs shm ofi tcp mpi; do
    expect "ways: $way" 0 "^$way\$" "$tugboat" info -d
    got=$(sed -n "/^$way\$/,/^\$/p" "$work/out")
    grep -qE '^  [a-zA-Z].{20}' <<<"$got" && grep -qE '^  (available|not available: .{8})' <<<"$got" ||
        fail "ways: $way is not described: $got"
done
[ "$(grep -cE '^[a-z]+$' "$work/out")" = 8 ] || fail "ways: there are more or fewer"
expect ways-default 0 '^TUGBOAT_TRANSPORTS allows self .*mpi \(default\)$' "$tugboat" info -d
expect ways-named 0 '^TUGBOAT_TRANSPORTS allows self shm \(environment\)$' \
    env TUGBOAT_TRANSPORTS=shm,self "$tugboat" info -d
expect ways-mpi 0 'available, not allowed by TUGBOAT_TRANSPORTS$' env TUGBOAT_TRANSPORTS=self "$tugboat" info -d
expect ways-bad 1 'TUGBOAT_TRANSPORTS=pigeon is not allowed' env TUGBOAT_TRANSPORTS=pigeon "$tugboat" info -d

# Memory: a bar for a million processes, parts that add up, and what depends on what.
bytes() { sed -nE "s/^ *$1 +([0-9]+).*/\1/p" "$work/out"; }
expect memory 0 '^memory of LLCL in one of 1000000 processes that has to do with 1024 others' \
    "$tugboat" info --memory 1000000
all=$(bytes 'all of it')
[ "${all:-0}" -gt 1000000 ] && [ "$all" -le 40000000 ] || fail "memory: '$all' bytes"
[ "$(bytes 'pointers to peers')" -gt 1000000 ] || fail "memory: pointers"
awk 'NR == 1 { next } { n = substr($0, 37, 13) + 0 } /^  / { items += n; next }
     /^all of it/ { exit n == 0 || items != n || sums != n } { sums += n }' \
    "$work/out" || fail "memory: the parts do not add up"
[ "$(bytes 'batch of one thread')" -gt 4096 ] || fail "memory: batches"
[ "$(bytes 'and for each array')" -le 6000000 ] || fail "memory: arrays"
[ "$(bytes 'and for each page whose home it is')" -le 128 ] || fail "memory: pages"
"$tugboat" info --memory 1000000,1024 >"$work/same"
cmp -s "$work/out" "$work/same" || fail "memory: 1024 is not the default"
expect memory-all 0 'one of 1000000 processes that has to do with 1000000 others' "$tugboat" info --memory 1000000,1000000
all=$(bytes 'all of it')
[ "${all:-0}" -gt 1000000 ] && [ "$all" -le 60000000 ] || fail "memory: '$all' bytes with all peers in use"
expect memory-few 0 'one of 8 processes that has to do with 8 others' "$tugboat" info --memory 8
few=$(bytes 'operation table')
expect memory-operations 0 'operation table' env TUGBOAT_OPERATIONS=8192 "$tugboat" info --memory 8,3
[ "$(bytes 'operation table')" = $((2 * few)) ] || fail "memory: operations"
for wrong in '' x 0 10,11 '10,' 10,0 -5 9999999999 5,5x; do
    expect "memory '$wrong'" 2 'needs RANKS or RANKS,ACTIVE' "$tugboat" info --memory "$wrong"
done
expect memory-nothing 2 'needs RANKS' "$tugboat" info --memory
expect memory-more 2 "no argument '6'" "$tugboat" info --memory 5 6

# Without the library beside it or where it is installed, the command says where it looked.
if [ ! -e "$libdir/libtugboat.so" ]; then
    mkdir -p "$work/bin"
    cp "$tugboat" "$work/bin/"
    expect alone 125 "libtugboat\.so is neither in .* nor in $libdir: install it" "$work/bin/tugboat" run true
fi
mkdir -p "$work/with blank/bin" "$work/with blank/lib"
cp "$tugboat" "$work/with blank/bin/"
cp "$library" "$work/with blank/lib/"
expect blank-in-path 125 'holds a blank or a colon' "$work/with blank/bin/tugboat" run true

[ $failed -eq 0 ] && echo "all fine"
exit $failed

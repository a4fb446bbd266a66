#!/usr/bin/env bash
# bars.sh BUILD_DIR [ROUNDS | --ordinary]: are the tug's promises kept on this machine, today?
#
# Compares host MPI and tug in alternation, with validation, and fails when a bar is missed: operations on a
# computing target within fixed times, persistent broadcasts by fixed ratios. The low-level layer's programs bring
# their own comparison. The bars with 4 ranks or 16 threads are meant for 2 cores. Takes some minutes; wants a
# quiet machine.
#
# --ordinary: half a minute, on any machine. What ordinary programs do must not be far slower under the tug, and what
# is several times faster must not be slower. A comparison fails that misses this three times in a row.
set -uo pipefail

build=$(cd "${1:?usage: bars.sh BUILD_DIR [ROUNDS | --ordinary]}" && pwd) || exit 2
rounds=${2:-5}
tries=1
if [[ $rounds == --ordinary ]]; then
    rounds=1 tries=3
fi
bench=$build/bin/osu-style-bench
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec)}
nmissed=0

# bar TITLE RANKS PROGRAM ARGUMENTS... -- REQUIREMENT...; variables in ${environment[@]} and arguments of the launcher in
# ${launcher[@]} hold for both sides.
environment=() launcher=()
bar() {
    local title=$1 ranks=$2 program=$3 arguments=() requirements=() try
    shift 3
    while [[ $1 != -- ]]; do
        arguments+=("$1")
        shift
    done
    shift
    while (($# > 0)); do
        requirements+=(--require "tug@$1")
        shift
    done
    local run=("$mpiexec" "${launcher[@]}" -n "$ranks" "$bench/$program" --csv --validate "${arguments[@]}")
    for ((try = 0; try < tries; try++)); do
        "$bench/versus" --rounds "$rounds" --title "$title" --name host --name tug "${requirements[@]}" \
            -- env "${environment[@]}" "${run[@]}" \
            -- env "${environment[@]}" "$build/bin/tugboat" run "${run[@]}" && break
    done
    ((try < tries)) || nmissed=$((nmissed + 1))
    echo
}

# finish: says how it went, and ends.
finish() {
    if ((nmissed > 0)); then
        echo "$nmissed comparisons missed a bar or failed"
        exit 1
    fi
    echo "all bars are met"
    exit 0
}

# epochs TITLE: of one operation, in all flavours of windows that exist.
epochs() {
    bar "$1" 2 window_epochs --flavours allocate,create,dynamic --ops put,accumulate,fetch_and_op \
        --loads 1x8,1x4K -- '*>=0.33'
}

# collectives TITLE: persistent ones of 8 bytes to 32 KiB.
collectives() {
    bar "$1" 2 coll_init_sizes --kinds bcast,reduce,allreduce,alltoall --sizes 8,4K,32K --warm 60 --seconds 0.1 \
        -- '*>=0.33'
}

ordinary() {
    epochs "epochs of one operation"
    launcher=(-bind-to core)
    epochs "epochs of one operation, ranks bound to a core each"
    launcher=()
    bar "updates of random words" 2 gups -- '*>=1'
    bar "put rate" 2 put_rate_threads --samples 3 -- '*>=1'
    bar "put rate, MPI_Win_create" 2 put_rate_threads --window create --samples 3 -- '*>=1'
    bar "target computes, MPI_Win_create" 2 truly_passive --window create -- '*>=1'
    collectives "persistent collectives"
    environment=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
    epochs "epochs of one operation, TCP"
    collectives "persistent collectives, TCP"
    finish
}
((tries == 1)) || ordinary

# medians COLUMN: reads rows of CSV, of several runs, and prints each key with the median of its column.
medians() {
    awk -F, -v column="$1" '
        /^#/ || NF < 2 { next }
        /key:/ {
            for (i = 1; i <= NF; i++) {
                is_key[i] = $i ~ /^key:/
                sub(/^[a-z]+:/, "", $i)
                if ($i == column)
                    value = i
            }
            next
        }
        value {
            key = ""
            for (i = 1; i <= NF; i++)
                if (is_key[i])
                    key = key (key == "" ? "" : "/") $i
            if (!(key in n))
                keys[++nkeys] = key
            for (i = n[key]++; i > 0 && sample[key, i] > $value + 0; i--)
                sample[key, i + 1] = sample[key, i]
            sample[key, i + 1] = $value + 0
        }
        END {
            for (k = 1; k <= nkeys; k++) {
                m = n[keys[k]]
                low = sample[keys[k], int((m + 1) / 2)]
                high = sample[keys[k], int(m / 2) + 1]
                printf "%s %g\n", keys[k], (low + high) / 2
            }
        }'
}

# figure TITLE COLUMN PROGRAM ARGUMENTS... -- REQUIREMENT...: what a program of 2 ranks compares within each run.
# A requirement is PATTERN<=X or PATTERN>=X on the column's median over the rounds.
figure() {
    local title=$1 column=$2 program=$3 arguments=() output="" missed=0 round rows key value
    shift 3
    while [[ $1 != -- ]]; do
        arguments+=("$1")
        shift
    done
    shift
    for ((round = 0; round < rounds; round++)); do
        output+=$(env "${environment[@]}" timeout 120 "$mpiexec" -n 2 "$bench/$program" --csv --validate \
            "${arguments[@]}")$'\n' || missed=1
    done
    rows=$(medians "$column" <<<"$output")
    echo "# $title: $column, median of $rounds rounds"
    awk '{ printf "  %-32s %s\n", $1, $2 }' <<<"$rows"
    for requirement in "$@"; do
        local pattern=${requirement%%[<>]=*} bound=${requirement##*=} sign=">=" nmatches=0
        [[ $requirement == *"<="* ]] && sign="<="
        while read -r key value; do
            # shellcheck disable=SC2053 # a pattern is meant
            [[ $key == $pattern ]] || continue
            nmatches=$((nmatches + 1))
            awk "BEGIN { exit !($value $sign $bound) }" && continue
            echo "bars: $title: $key has $column $value, $sign $bound is required" >&2
            missed=1
        done <<<"$rows"
        ((nmatches > 0)) || { echo "bars: $title: no row is $pattern" >&2; missed=1; }
    done
    nmissed=$((nmissed + missed))
    echo
}

# crowd TITLE PROGRAM ARGUMENTS...: 4 ranks, meant for 2 cores, do at least half of what 2 do, both under the tug. The
# column is mups; rows are KEY/RANKS/...
crowd() {
    local title=$1 program=$2 round ranks output rows
    shift 2
    for ((round = 0; round < rounds; round++)); do
        for ranks in 2 4; do
            output+=$(env "${environment[@]}" timeout 120 "$build/bin/tugboat" run "$mpiexec" -n "$ranks" \
                "$bench/$program" --csv --validate "$@")$'\n'
        done
    done
    rows=$(medians mups <<<"$output")
    echo "# $title: 4 ranks against 2, mups, medians of $rounds rounds"
    awk '
        { split($1, key, "/"); rate[key[1], key[2]] = $2; kinds[key[1]] }
        END {
            for (kind in kinds) {
                four = rate[kind, 4]; two = rate[kind, 2]
                printf "  %-12s %g of %g\n", kind, four, two
                missed += !(two > 0 && four >= two / 2); n++
            }
            exit n == 0 || missed > 0
        }' <<<"$rows" || { echo "bars: $title: 4 ranks do less than half of what 2 do" >&2; nmissed=$((nmissed + 1)); }
    echo
}

bar "target computes" 2 truly_passive -- '*<=500' '*/8<=50'
bar "both ranks compute" 2 truly_passive --busy-origin -- '*<=500'
bar "target computes, MPI_Win_create" 2 truly_passive --window create -- '*/8<=50'
environment=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
bar "target computes, TCP" 2 truly_passive -- '*/8<=150' 'put/1048576<=2000'
bar "both ranks compute, TCP" 2 truly_passive --busy-origin -- '*/8<=150' 'put/1048576<=2000'
environment=()
bar "put rate" 2 put_rate_threads -- 'put/*>=10'
bar "put rate, MPI_Win_create" 2 put_rate_threads --window create -- 'put/*>=4'
bar "fetch_and_op rate" 2 put_rate_threads --op fetch_and_op -- 'fetch_and_op/*>=8'
bar "broadcast, 2 ranks" 2 bcast_init_sizes -- '8>=0.9' '262144>=2.5' '2097152>=2.5' '16777216>=2'
bar "broadcast, 4 ranks" 4 bcast_init_sizes -- '8>=10' '2097152>=20'
bar "broadcast, 4 ranks, out of MPI_Alloc_mem" 4 bcast_init_sizes --memory alloc_mem --sizes 1M -- '1048576>=35'
bar "first starts and later ones, 2 ranks" 2 coll_init_sizes --first 30 --sizes 8,4K,32K,256K,2M --kinds \
    barrier,bcast,reduce,allreduce,scan,exscan,alltoall,alltoallv,allgatherv,gatherv,scatterv,reduce_scatter_block \
    -- '*/first>=0.9' '*/later>=0.97'
bar "allreduce, 2 ranks" 2 coll_init_sizes --kinds allreduce -- 'allreduce/8>=1.5' 'allreduce/1048576>=1.5'
bar "partitioned messages, 8 threads" 2 part_latency --threads 8 --partitions 64 --sizes 4K,64K -- '*>=3'
bar "partitioned messages, 1 thread" 2 part_latency --threads 1 --sizes 8,4K -- '*>=0.95'
environment=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
bar "partitioned messages, 8 threads, TCP" 2 part_latency --threads 8 --partitions 64 --sizes 4K,64K -- '*>=3'
bar "windows of partitioned messages, 8 threads, TCP" 2 part_bw --threads 8 --partitions 64 --sizes 4K,64K -- '*>=3'
bar "partitioned messages, 1 thread, TCP" 2 part_latency --threads 1 --sizes 8,4K -- '*>=0.95'
environment=(MPIR_CVAR_NUM_CLIQUES=2)
bar "broadcast, two nodes of 2 ranks" 4 bcast_init_sizes --seconds 1 -- '*>=1'
bar "collectives, two nodes of 2 ranks" 4 coll_init_sizes -- '*>=1'
environment=()

bar "updates of random words" 2 gups -- 'allocate/*>=5' 'create/*>=4'
environment=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self" TUGBOAT_RMA=packet)
bar "updates of random words, packets over TCP" 2 gups -- '*>=50'
bar "put rate, a flush for each 64, TCP" 2 put_rate_threads -- 'put/*>=4'
bar "put rate, packets over TCP" 2 put_rate_threads --batch 16384 --threads 1 -- 'put/*>=100'
bar "accumulate rate, packets over TCP" 2 put_rate_threads --op accumulate --batch 16384 --threads 1 -- 'accumulate/*>=50'
environment=(MPIR_CVAR_NOLOCAL=1)
crowd "updates with a flush for each, packets between nodes" gups --batch 1
environment=()
crowd "updates with a flush for each" gups --batch 1

figure "latency above one lock and polling, mapped memory" added_ns llcl_latency --sizes 8 -- '*/mapped/8<=20'
figure "time inside the call, mapped memory" engine_ns llcl_overhead -- '*/mapped<=30'
# A target that polls: with one that sleeps the rate of one thread is that of its wakes, a low bar.
figure "rate by threads, mapped memory" of_one llcl_rate_threads --threads 1,16 --target poll -- '*/16>=0.9'
figure "rate by threads, private memory" of_one llcl_rate_threads --threads 1,16 --memory private \
    --target poll -- '*/16>=0.9'
environment=(TUGBOAT_PROGRESS=thread)
figure "time inside the call, enqueued" engine_ns llcl_overhead --memory private -- '*<=60'
environment=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
figure "latency over one lock and polling, TCP" ratio llcl_latency --sizes 8,512,4K,64K -- '*/tcp/*<=1.05'
figure "rate by threads, TCP" of_one llcl_rate_threads --threads 1,16 --target poll -- '*/16>=0.9'
figure "writes of 8 bytes packed together, TCP" times_put llcl_aggregation -- 'tcp/8>=100'

finish

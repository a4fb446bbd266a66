#!/usr/bin/env bash
# report.sh BUILD_DIR [--quick|--least] [--rounds N] [--out DIR] [--only NAME,...] [--figures]: host MPI and tug, side by
# side, on one page.
#
# Runs the benchmarks of this folder, host against tug in alternation (and the host with its own progress
# thread, and Open MPI where mpicc.openmpi is installed), and writes DIR/index.html: plots, a table of all
# ratios, and what they were measured on, in one file that refers to nothing outside. The figures lie beside
# it in DIR/data, each with the facts of its measurement (NAME.facts). --quick measures less of each; --least so little
# that its figures mean nothing, to work on the page. --only measures the named steps anew and keeps the figures of the
# others. --figures puts all figures into docs/figures and makes docs/figures.md of them (figures.sh).
# Exit status 0 unless a program failed; being slower is no failure.
set -uo pipefail

usage="usage: report.sh BUILD_DIR [--quick|--least] [--rounds N] [--out DIR] [--only NAME,...] [--figures]"
build=$(cd "${1:?$usage}" && pwd) || exit 2
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=report amount=full rounds=5 repeats=3 only= figures=
while (($# > 0)); do
    case $1 in
    --quick) amount=quick rounds=2 repeats=1 ;;
    --least) amount=least rounds=1 repeats=1 ;;
    --rounds) rounds=${2:?$usage} repeats=$rounds; shift ;;
    --out) out=${2:?$usage}; shift ;;
    --only) only=${2:?$usage}; shift ;;
    --figures) figures=yes ;;
    *) echo "$usage" >&2; exit 2 ;;
    esac
    shift
done
bench=$build/bin/osu-style-bench
tugboat=$build/bin/tugboat
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec.hydra || command -v mpiexec)}
command -v gnuplot >/dev/null || { echo "report: gnuplot is not there (Debian: gnuplot-nox)" >&2; exit 2; }
mkdir -p "$out/data" && out=$(cd "$out" && pwd) || exit 2
[[ -n $only ]] || rm -f "$out"/data/*.{csv,facts}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
nfailed=0
# shellcheck source=osu-style-bench/page.sh
source "$here/page.sh"
# shellcheck disable=SC2034 # for llcl_columns.sh
{
    stand_in=$build/tests/verbs/fake
    llcl_threads=1,4 llcl_sizes=8,4K,64K llcl_rounds=$rounds llcl_samples=3 llcl_seconds=0.01
    [[ $amount != least ]] || llcl_samples=1 llcl_seconds=0.001
}
# shellcheck source=osu-style-bench/llcl_columns.sh
source "$here/llcl_columns.sh"

# --- Open MPI, where it is ----------------------------------------------------------------------------

openmpi=()
if command -v mpicc.openmpi >/dev/null && command -v mpiexec.openmpi >/dev/null; then
    openmpi=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpiexec.openmpi --oversubscribe --bind-to none)
    for program in put_rate_threads truly_passive gups bcast_init_sizes coll_init_sizes; do
        mpicc.openmpi -O2 -D_GNU_SOURCE "$here/$program.c" "$here"/bench{,_table,_window}.c \
            -o "$work/$program" -lpthread -lm -ldl 2>"$work/err" && continue
        echo "report: $program does not build with mpicc.openmpi: $(head -n 1 "$work/err")" >&2
    done
fi

# --- the steps, once to plan and once to run ----------------------------------------------------------

# A step is NAME SECONDS TITLE, the seconds it took where this was written; what they take here scales the
# time that is said to be left.
planning=1 planned=0 passed=0 begun=$SECONDS nsteps=0 step=0 place=0
names=()
declare -A title_of caption_of unit_of kind_of x_of

# begin NAME QUICK_SECONDS FULL_SECONDS KIND UNIT X TITLE CAPTION: whether the step is to be run now.
begin() {
    local seconds=$2
    [[ $amount != full ]] || seconds=$3
    place=$((place + 1))
    [[ -z $only || ,$only, == *,$1,* ]] || return 1
    if ((planning)); then
        planned=$((planned + seconds))
        nsteps=$((nsteps + 1))
        return 1
    fi
    names+=("$1")
    kind_of[$1]=$4 unit_of[$1]=$5 x_of[$1]=$6 title_of[$1]=$7 caption_of[$1]=$8
    step=$((step + 1))
    local gone=$((SECONDS - begun)) left
    left=$((passed > 0 ? (planned - passed) * gone / passed : planned))
    printf 'report: [%2d/%d] %-66s %d:%02d gone, about %d:%02d left\n' $step $nsteps "$7" \
        $((gone / 60)) $((gone % 60)) $((left / 60)) $((left % 60)) >&2
    passed=$((passed + seconds))
    record "$1"
}

# record NAME: what is about to be measured, when, how and on what: data/NAME.facts, lines of WORD=VALUE.
record() {
    rm -f "$out/data/$1.csv"
    {
        printf '%s=%s\n' place "$place" title "${title_of[$1]}" caption "${caption_of[$1]}" unit "${unit_of[$1]}"
        machine_facts | sed 's/|/=/'
    } >"$out/data/$1.facts"
}

failed() {
    echo "report: FAILED: $*" >&2
    nfailed=$((nfailed + 1))
}

# measured COMMAND...: runs it, into rows and err. Over TCP MPICH 4.0.2 alone hangs now and then in its MPI_Finalize; the
# benchmarks leave it then, and where one rank does so before another the launcher takes that for an error: such
# a comparison, which has the host alone in it, gets another chance.
measured() {
    "$@" >"$work/rows" 2>"$work/err" && return 0
    [[ " ${environment[*]} " == *" UCX_TLS=tcp,self "* ]] && "$@" >"$work/rows" 2>"$work/err"
}

# compare NAME RANKS CONTESTANTS PROGRAM ARGUMENTS...: by versus into data/NAME.csv. The variables in
# ${environment[@]} hold for all.
environment=()
compare() {
    local name=$1 ranks=$2 contestants=$3 program=$4 contestant commands=() options=()
    shift 4
    for contestant in $contestants; do
        local run=("$mpiexec" -n "$ranks" "$bench/$program" --csv "$@")
        case $contestant in
        host) run=(env "${environment[@]}" "${run[@]}") ;;
        async) run=(env "${environment[@]}" MPIR_CVAR_ASYNC_PROGRESS=1 "${run[@]}") ;;
        tug) run=(env "${environment[@]}" "$tugboat" run "${run[@]}") ;;
        openmpi)
            [[ -x $work/$program ]] || continue
            run=("${openmpi[@]}" -n "$ranks" "$work/$program" --csv "$@")
            ;;
        esac
        options+=(--name "$contestant")
        commands+=(-- "${run[@]}")
    done
    measured "$bench/versus" --rounds "$rounds" --timeout 60 --title "$name" --csv="$out/data/$name.csv" \
        "${options[@]}" "${commands[@]}" ||
        failed "${title_of[$name]}: $(grep . "$work/err" | tail -n 1)"
}

# columns NAME PROGRAM "COLUMN=SERIES ..." ARGUMENTS...: runs of a program that compares by itself; its columns become
# what versus would have written: the median and the range of the runs.
columns() {
    local name=$1 program=$2 pairs=$3 run
    shift 3
    : >"$work/runs"
    for ((run = 0; run < repeats; run++)); do
        measured env "${environment[@]}" timeout 60 "$mpiexec" -n 2 "$bench/$program" --csv "$@" ||
            failed "${title_of[$name]}: $(grep . "$work/err" | tail -n 1)"
        cat "$work/rows" >>"$work/runs"
    done
    awk -f "$here/report_columns.awk" -v pairs="$pairs" -v name="$name" "$work/runs" >"$out/data/$name.csv"
}

# reads NAME WHERE VALUE [THREADS]: reads of LLCL where the caller drives, where the offload thread does, and by the host alone; measured once for all
# steps. With a core for the thread, too, for the table of what the paper says.
declare -A reads_of
reads() {
    if [[ -z ${reads_of[$2]:-} ]]; then
        reads_of[$2]=yes
        { llcl_measure "$2" && { [[ $2 != shm ]] || ! llcl_has_two_cores || llcl_measure bound; }; } 2>"$work/err" ||
            failed "${title_of[$1]}: $(grep . "$work/err" | tail -n 1)"
    fi
    awk -F, -v name="$1" -v value="$3" -v threads="${4:-}" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        threads != "" && $3 != threads { next }
        {
            key = threads != "" ? $4 : $3 "/" $4
            if (!(key in known)) { known[key] = 1; keys[++n] = key }
            here[key, $1] = $(at[value])
            range[key, $1] = $(at[value] + 1) "," $(at[value] + 2)
        }
        END {
            print "title,key,value,better,host,caller,thread,host_least,host_most,caller_least,caller_most,thread_least,thread_most"
            for (i = 1; i <= n; i++) {
                key = keys[i]
                print name "," key ",,," here[key, "host"] "," here[key, "caller"] "," here[key, "thread"] "," range[key, "host"] "," range[key, "caller"] "," range[key, "thread"]
            }
        }' "$out/data/llcl_$2.csv" >"$out/data/$1.csv"
}

# beside NAME SERIES: reads "KEY VALUE" lines and puts them into data/NAME.csv as one more series.
beside() {
    awk -F, -v OFS=, -v series="$2" '
        NR == FNR { split($0, half, " "); value[half[1]] = half[2]; next }
        { $4 = $4 OFS (FNR == 1 ? series : value[$2]); print }' - "$out/data/$1.csv" >"$work/beside" &&
        cp "$work/beside" "$out/data/$1.csv"
}

predicted() { # what the model says of a broadcast on a node of $1 ranks: "BYTES MICROSECONDS"
    "$tugboat" calibrate -o "$work/tuning" "$mpiexec" -n "$1" >/dev/null 2>&1 || return 0
    "$tugboat" model --nodes 1 --ppn "$1" --size 8:16M --parameters "$work/tuning" --json 2>/dev/null | awk '
        match($0, /"bytes": [0-9]+/) { bytes = substr($0, RSTART + 9, RLENGTH - 9) }
        {
            while (match($0, /"predicted_s": [0-9.e+-]+/)) {
                s = substr($0, RSTART + 15, RLENGTH - 15) * 1e6
                if (!(bytes in best) || s < best[bytes])
                    best[bytes] = s
                $0 = substr($0, RSTART + RLENGTH)
            }
        }
        END { for (b in best) print b, best[b] }'
}

copied() { # memcpy's time for each size of the list: "BYTES MICROSECONDS"
    "$mpiexec" -n 1 "$bench/memcpy_sizes" --csv --seconds 0.05 --sizes "$1" |
        awk -F, '/^[0-9]/ { print $1, $2 }'
}

# woken NAME: puts what a bare socket takes beside figures of single operations after a pause.
woken() {
    local us
    us=$("$bench/socket_wakes" --csv --clients computes --servers computes --times "$single_times" |
        awk -F, 'NR == 2 { print $5 }')
    awk -F, -v us="$us" 'NR > 1 { print $2, us }' "$out/data/$1.csv" >"$work/woken"
    beside "$1" "bare socket" <"$work/woken"
}

# Arguments that say how much: nothing for what the programs do by themselves.
sizes=8,1K,4K,32K,256K,2M,16M crowd_sizes=8,4K,32K,256K,2M block_sizes=8,64K,1M
single_times=20
passive=() short=() updates=() epochs=(--seconds 0.01) partitions=(--sizes "8,4K,64K" --trips 5)
packed=(--samples 3) gets=(--samples 5) latencies=(--samples 11) rates=(--samples 3)
case $amount in
quick)
    single_times=10
    short=(--seconds 0.1)
    ;;
least)
    single_times=1
    sizes=8,32K,1M crowd_sizes=8,32K block_sizes=8,64K
    passive=(--compute-ms 5 --epochs 1) short=(--seconds 0.005) epochs=(--seconds 0.001)
    updates=(--samples 2 --seconds 0.005 --table-bits 12)
    packed=(--samples 1 --puts 1024 --passes 1 --table-bits 12)
    gets=(--samples 1 --seconds 0.0005) latencies=(--samples 1 --seconds 0.0005)
    rates=(--samples 1 --seconds 0.002 --threads "1,2")
    partitions=(--sizes 8 --partitions 4 --trips 2 --seconds 0.001)
    ;;
esac
tcp=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
over_tcp="between nodes (emulated, TCP)"

# limits NAME RANKS SIZES: puts what the model predicts and what a memcpy takes beside a broadcast's figures.
limits() {
    predicted "$2" | beside "$1" "predicted"
    copied "$3" | beside "$1" "memcpy"
}

steps() {
    place=0
    begin progress 15 24 bars microseconds "" "one-sided operations on a rank that computes" \
        "Rank 0 locks, operates and unlocks while rank 1 computes for 200 ms and makes no MPI call; operation and bytes, means. One node." &&
        compare progress 2 "host async tug openmpi" truly_passive "${passive[@]}"
    begin progress_create 8 14 bars microseconds "" "one-sided operations on a rank that computes, MPI_Win_create" \
        "Windows of MPI_Win_create over the program's own memory: the origin copies, or wakes the target's offload thread. Means. One node." &&
        compare progress_create 2 "host tug" truly_passive --window create "${passive[@]}"
    environment=("${tcp[@]}")
    begin progress_tcp 6 12 bars microseconds "" "one-sided operations on a rank that computes, $over_tcp" \
        "Two ranks that reach each other by TCP only." &&
        compare progress_tcp 2 "host tug" truly_passive "${passive[@]}"
    begin single_tcp 16 50 bars microseconds "" "single operations after a pause, on a rank that computes, $over_tcp" \
        "One each 50 ms, in MPI_Win_create: synchronisation, operation and load, medians. The limit is a message over a bare socket to a process that computes, and its answer." &&
        compare single_tcp 2 "host tug" window_epochs --flavours create --syncs lock,flush --ops put,get --loads 1x8 \
            --pause-ms 50 --compute-ms 20 --periods "$single_times" && woken single_tcp
    environment=()
    begin latency 3 10 lines nanoseconds "bytes" "latency of one operation of LLCL, one node" \
        "One at a time on mapped memory: as meant (engine), and under one lock with waits that poll (locked); active messages go through shared memory." &&
        columns latency llcl_latency "engine_ns=engine locked_ns=locked" "${latencies[@]}"
    begin latency_private 8 20 lines microseconds "bytes" "a read of LLCL by what drives it, one node" \
        "One at a time, memory that is not mapped. The caller waits in the library and drives it; or it looks at a flag, and the offload thread drives; or MPI_Get and a flush of the host." &&
        reads latency_private shm latency 1
    begin latency_tcp 8 20 lines microseconds "bytes" "a read of LLCL by what drives it, $over_tcp" \
        "One at a time: the caller drives, the offload thread drives, MPI_Get and a flush of the host." &&
        reads latency_tcp tcp latency 1
    begin overhead 1 1 bars microseconds "" "time inside the call that starts a read of LLCL" \
        "Threads and bytes, one node, memory that is not mapped: the caller drives, the offload thread drives, MPI_Get of the host." &&
        reads overhead shm overhead
    begin put_rate 10 40 lines "million a second" "threads" "8-byte puts by threads" \
        "MPI_Win_allocate on one node, a flush for every 64." &&
        compare put_rate 2 "host tug openmpi" put_rate_threads "${short[@]}"
    begin fetch_rate 12 40 lines "million a second" "threads" "8-byte fetch_and_ops by threads" \
        "MPI_Win_allocate on one node, a flush for every 64." &&
        compare fetch_rate 2 "host tug openmpi" put_rate_threads --op fetch_and_op "${short[@]}"
    begin create_rate 6 25 lines "million a second" "threads" "8-byte puts into MPI_Win_create, by threads" \
        "Memory of the program's own, one node, a flush for every 64." &&
        compare create_rate 2 "host tug" put_rate_threads --window create "${short[@]}"
    begin rate 3 6 lines "million a second" "threads" "8-byte operations of LLCL by threads" \
        "Memory that is not mapped, one node; as meant (engine), and with one lock around all calls (locked)." &&
        columns rate llcl_rate_threads "engine_mops=engine locked_mops=locked" --memory private --target poll \
            "${rates[@]}"
    begin epochs 5 12 bars microseconds "" "one epoch with one operation, the target waits in MPI" \
        "Window, synchronisation, operation, number and bytes. 2 ranks, one node." &&
        compare epochs 2 "host tug" window_epochs --flavours allocate,create --syncs fence,pscw,lock,flush --ops put,get \
            --loads 1x8,1x4K "${epochs[@]}"
    begin lifetimes 3 8 bars microseconds "" "a window made and freed again and again" "Window and bytes. 2 ranks, one node." &&
        compare lifetimes 2 "host tug" window_epochs --lifetimes --flavours allocate,create,dynamic --loads 1x4K "${epochs[@]}"
    environment=("${tcp[@]}")
    begin epochs_tcp 6 14 bars microseconds "" "one epoch with one operation, the target waits in MPI, $over_tcp" \
        "Window, synchronisation, operation, number and bytes. 2 ranks." &&
        compare epochs_tcp 2 "host tug" window_epochs --flavours create --syncs fence,pscw,lock,flush --ops put,get \
            --loads 1x8,1x4K "${epochs[@]}"
    begin put_rate_tcp 10 25 lines "million a second" "threads" "8-byte puts by threads, $over_tcp" \
        "MPI_Win_allocate, a flush for every 64." &&
        compare put_rate_tcp 2 "host tug" put_rate_threads "${short[@]}"
    begin accumulate_rate_tcp 8 16 lines "million a second" "threads" "8-byte accumulates in one epoch, $over_tcp" \
        "MPI_Win_allocate, a flush for every 16384." &&
        compare accumulate_rate_tcp 2 "host tug" put_rate_threads --op accumulate --batch 16384 --threads 1 "${short[@]}"
    begin aggregation 3 6 bars "million a second" "" "8-byte writes packed together, $over_tcp" \
        "LLCL against MPI_Put of the host with a flush for every 64." &&
        columns aggregation llcl_aggregation "put_mops=host write_mops=tug" "${packed[@]}"
    environment=()
    begin bcast 5 40 lines microseconds "bytes" "MPI_Bcast_init, 2 ranks on a node" \
        "With the model's prediction, from a calibration just before, and one core's memcpy of the same size as the limit." &&
        compare bcast 2 "host tug openmpi" bcast_init_sizes --sizes "$sizes" "${short[@]}" && limits bcast 2 "$sizes"
    begin bcast_crowd 8 60 lines microseconds "bytes" "MPI_Bcast_init, 4 ranks on this machine's cores" \
        "More ranks than cores, where there are fewer than four. The limit is still one memcpy, as if three readers had a core each." &&
        compare bcast_crowd 4 "host tug openmpi" bcast_init_sizes --sizes "$crowd_sizes" "${short[@]}" &&
        limits bcast_crowd 4 "$crowd_sizes"
    begin bcast_lent 4 30 lines microseconds "bytes" "MPI_Bcast_init out of MPI_Alloc_mem, 2 ranks on a node" \
        "The reader copies straight out of the root's buffer." &&
        compare bcast_lent 2 "host tug" bcast_init_sizes --memory alloc_mem --sizes 256K,2M,16M "${short[@]}"
    begin blocking_crowd 10 40 bars microseconds "" "blocking collectives, 4 ranks on this machine's cores" \
        "Kind and bytes. No window and no persistent request: Tugboat makes the waits polite. On 2 cores the host's ranks spin through each other's time slices." &&
        compare blocking_crowd 4 "host tug" coll_init_sizes --blocking --kinds barrier,allreduce,bcast --sizes 8,32K "${short[@]}"
    begin collectives_crowd 8 40 bars microseconds "" "persistent collectives, 4 ranks on this machine's cores" \
        "Kind and bytes of a block." &&
        compare collectives_crowd 4 "host tug" coll_init_sizes --kinds allreduce,bcast --sizes "$block_sizes" "${short[@]}"
    environment=(MPIR_CVAR_NUM_CLIQUES=2)
    begin collectives_nodes 8 40 bars microseconds "" "persistent collectives, two nodes (emulated, shared memory) of 2 ranks" \
        "Kind and bytes of a block. The 4 ranks share this machine's cores." &&
        compare collectives_nodes 4 "host tug" coll_init_sizes --kinds allreduce,bcast --sizes "$block_sizes" "${short[@]}"
    environment=()
    begin collectives 8 60 bars microseconds "" "other persistent collectives, 2 ranks" "Kind and bytes of a block. The allgathers of MPICH 4.0.2 copy nothing after the first start: they are fast, and their data are wrong." &&
        compare collectives 2 "host tug openmpi" coll_init_sizes --sizes "$block_sizes" "${short[@]}"
    if begin overlap 5 30 share microseconds "" "broadcasts with 2 ms of computing between start and wait" \
        "What is above the computing alone was not hidden. Both ranks compute, each on a core of its own where there are two."; then
        compare overlap 2 "host tug openmpi" bcast_init_sizes --sizes 256K,1M,4M --overlap 2000 "${short[@]}" &&
            printf '%s 2000\n' 262144 1048576 4194304 | beside overlap "computing alone"
    fi
    begin gups 6 20 bars "million a second" "" "updates of random words (GUPS), one node" "Window, ranks and updates between flushes." &&
        compare gups 2 "host tug openmpi" gups "${updates[@]}"
    environment=("${tcp[@]}")
    begin gups_tcp 4 15 bars "million a second" "" "updates of random words (GUPS), $over_tcp" "Window, ranks and updates between flushes." &&
        compare gups_tcp 2 "host tug" gups "${updates[@]}"
    environment=()
    begin gets 2 8 lines nanoseconds "bytes" "gets of a relocatable array, one node" \
        "Where the page's place is remembered, where it is found first, out of the read cache; and a plain read of LLCL." &&
        columns gets gas_latency "$gets_are" "${gets[@]}"
    environment=("${tcp[@]}")
    begin gets_tcp 4 25 lines nanoseconds "bytes" "gets of a relocatable array, $over_tcp" \
        "A remembered place saves the question; a copy in the read cache saves the network." &&
        columns gets_tcp gas_latency "$gets_are" --sizes 8,512,4K "${gets[@]}"
    environment=()
    begin partitioned 6 25 bars microseconds "" "a partitioned message, one node" "Threads, partitions and bytes of each. 2 ranks, to and fro, half the time of a round trip." &&
        compare partitioned 2 "host tug" part_latency "${partitions[@]}"
    environment=("${tcp[@]}")
    begin partitioned_tcp 8 30 bars microseconds "" "a partitioned message, $over_tcp" "Threads, partitions and bytes of each. 2 ranks, to and fro, half the time of a round trip." &&
        compare partitioned_tcp 2 "host tug" part_latency "${partitions[@]}"
    environment=()
}
gets_are="get_ns=remembered asking_ns=asked copy_ns=cached plain_ns=plain"

# --- the page -----------------------------------------------------------------------------------------

plot() { # the plot of step $1 as an image within the page
    [[ -s $out/data/$1.csv ]] || return 1
    awk -f "$here/report_plot.awk" -v kind="${kind_of[$1]}" -v unit="${unit_of[$1]}" -v x="${x_of[$1]}" \
        "$out/data/$1.csv" | gnuplot >"$work/plot.svg" 2>"$work/err" && [[ -s $work/plot.svg ]] || return 1
    printf '<img alt="plot: %s" src="data:image/svg+xml;base64,%s">\n' "$(escape <<<"${title_of[$1]}")" \
        "$(base64 -w 0 "$work/plot.svg")"
}

see() { # what there is to be seen in the plot of step $1, in a sentence
    [[ ! -s $out/data/$1.csv ]] || awk -f "$here/report_facts.awk" -f "$here/report_map.awk" -v sentence=1 "$out/data/$1.csv"
}

page() {
    local name facts="" files=()
    for name in "${names[@]}"; do
        facts+="$name|${unit_of[$name]}|$(escape <<<"${title_of[$name]}");"
        [[ -s $out/data/$name.csv ]] && files+=("$out/data/$name.csv")
    done
    page_head "Tugboat: measured here"
    cat <<'HTML'
<h1>Tugboat: measured here</h1>
<p>The same programs on the host MPI and under Tugboat, in alternation; medians. Axes of values are
logarithmic, that of overlap excepted.</p>
HTML
    echo "<dl>"
    machine
    echo "</dl>"
    ((nfailed == 0)) || echo "<p class=\"bad\">$nfailed of the comparisons failed; their plots may be missing.</p>"
    cat <<'HTML'
<h2>At a glance</h2>
<p>How many times as fast it is with Tugboat as on the host MPI alone, a cell for each case; what a case is, and its figures, appear
where the pointer rests on it. <span class="cell c1">below 0.5</span> <span class="cell c2">below 0.97</span>
<span class="cell c3">below, within the noise</span> <span class="cell c4">alike</span> <span class="cell c5">above 1.03</span>
<span class="cell c6">above 2</span></p>
HTML
    echo "<div class=\"table\"><table id=\"glance\">"
    ((${#files[@]} == 0)) || awk -f "$here/report_facts.awk" -f "$here/report_map.awk" -v facts="$facts" "${files[@]}"
    echo "</table></div><main>"
    for name in "${names[@]}"; do
        printf '<figure id="%s"><h2>%s</h2>\n' "$name" "$(escape <<<"${title_of[$name]}")"
        plot "$name" || echo '<p class="bad">no figures</p>'
        printf '<figcaption>%s %s</figcaption></figure>\n' "$(see "$name")" "$(escape <<<"${caption_of[$name]}")"
    done
    echo "</main>"
    [[ ! -s $out/data/llcl_shm.csv && ! -s $out/data/llcl_tcp.csv ]] || llcl_table 2
    echo "<h2>All ratios</h2><div class=\"table\"><table>"
    echo "<tr><th>what</th><th>case</th><th>host MPI</th><th>with Tugboat</th><th>unit</th><th>better by</th>"
    ((${#openmpi[@]} == 0)) || echo "<th>Open MPI</th><th>Tugboat to it</th>"
    echo "</tr>"
    ((${#files[@]} == 0)) ||
        awk -f "$here/report_facts.awk" -f "$here/report_page.awk" -v facts="$facts" -v beside=$((${#openmpi[@]} > 0)) "${files[@]}"
    echo "</table></div></body></html>"
}

steps
((nsteps > 0)) || { echo "report: no step is called '$only'" >&2; exit 2; }
planning=0
steps
page >"$out/index.html"
if [[ -n $figures ]]; then
    "$here/figures.sh" take "$out/data" "$here/../docs" || nfailed=$((nfailed + 1))
fi
echo "report: $out/index.html, $nsteps comparisons in $((SECONDS - begun)) s" >&2
((nfailed == 0))

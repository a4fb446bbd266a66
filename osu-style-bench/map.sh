#!/usr/bin/env bash
# map.sh BUILD_DIR [options]: where is the library slower than the host MPI?
#
# Measures a matrix of cells, host against tug in alternation, and writes DIR/map.json, one line a cell, and DIR/map.html,
# the same in colours; cells where the tug is slower (ratio host to tug below 0.97) are red and are listed on stdout.
#   windows      flavour x synchronisation x operation x load, on one node (the ranks free, or bound to a core each, as
#                many launchers do unless they are told) and over TCP, by 1 and 4 threads, the target
#                waiting in MPI, computing, or computing while two more processes keep the cores busy. Fence and
#                post-start-complete-wait are calls of both sides, so they are there for 1 thread and a waiting target
#                only: a target that computes first makes any MPI wait. MPI_Win_allocate_shared is for one node.
#   single       single operations, 50 ms after what was before them
#   lifetimes    windows made and freed
#   persistent   persistent collectives, every kind and size: 2 ranks (free, bound), 4 ranks, 2 x 2 emulated nodes
#   blocking     blocking collectives when they have repeated so often that the faster way is known, with
#                TUGBOAT_COLLECTIVES=off, and with TUGBOAT_WAIT=polite, in the same places
# Where the host brings wrong data, or ends the program, the cell says so in place of a ratio.
# The time is bounded: all tables are measured once, then once more, up to --rounds times, and no table is begun that
# would not end in time, judging by the round before. What was never begun is named.
# --against FILE compares with an earlier map.json: cells that got better or worse by more than the noise, which is when
# the ratios of all rounds, two at least, do not overlap and the medians differ by a tenth.
# Exit status 0, 1 if a step failed or a cell got worse, 2 on wrong usage. Red cells are no failure.
set -uo pipefail

usage="usage: map.sh BUILD_DIR [--quick|--least] [--doubtful] [--only PATTERN] [--rounds N] [--limit S]
                [--out DIR] [--against FILE] [--measured FILE]
  --quick          ordinary loads and few sizes, in 5 minutes; without it everything, in 40
  --least          so little that the figures mean nothing, for tests
  --doubtful       from the second round on only what is not clearly better than the host, oftener (9 rounds)
  --only PATTERN   tables whose name matches the shell pattern, such as 'windows/one node/*'; --only list shows the names
  --rounds N       so many times each of the two, if there is time (3)
  --limit S        so many seconds of measuring (280; everything: 2340)
  --out DIR        where map.json and map.html go (report)
  --against FILE   an earlier map.json to compare with
  --measured FILE  show and compare this map.json; measure nothing"
wrong_usage() { echo "map: $1
$usage" >&2; exit 2; }
[[ ${1:-} != --help ]] || { echo "$usage"; exit 0; }
build=$(cd "${1:-/nowhere}" 2>/dev/null && pwd) || wrong_usage "no build directory '${1:-}'"
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=report amount=full rounds='' doubtful=0 limit='' only='*' against='' measured=''
while (($# > 0)); do
    case $1 in
    --quick) amount=quick ;;
    --least) amount=least ;;
    --doubtful) doubtful=1 ;;
    --help) echo "$usage"; exit 0 ;;
    --only | --rounds | --limit | --out | --against | --measured)
        (($# > 1)) || wrong_usage "$1 needs a value"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    *) wrong_usage "unknown argument '$1'" ;;
    esac
    shift
done
if [[ -z $rounds ]]; then
    rounds=$((doubtful ? 9 : 3))
    [[ $amount != least ]] || rounds=1
fi
[[ $rounds =~ ^[1-9][0-9]{0,2}$ ]] || wrong_usage "--rounds is a number of 1 to 999, not '$rounds'"
[[ $limit =~ ^([1-9][0-9]{0,5})?$ ]] || wrong_usage "--limit is a number of seconds, not '$limit'"
for file in "$against" "$measured"; do
    [[ -z $file ]] || grep -q '^"format": "tugboat map 1"' "$file" 2>/dev/null || wrong_usage "'$file' is no map.json"
done
bench=$build/bin/osu-style-bench
tugboat=$build/bin/tugboat
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec.hydra || command -v mpiexec)}
work=$(mktemp -d) || exit 2
others=() # processes that keep the cores busy
others_start() {
    for _ in 1 2; do
        while :; do :; done &
        others+=($!)
    done
}
others_end() { # killed, for a shell that is asked to end would first do what this one does at its end
    ((${#others[@]} == 0)) || { kill -KILL "${others[@]}" && wait "${others[@]}"; } 2>/dev/null
    others=()
}
trap 'others_end; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# shellcheck disable=SC2034 # page.sh looks at it
openmpi=()
# shellcheck source=osu-style-bench/page.sh
source "$here/page.sh"

fields=(awk -f "$here/map_fields.awk" -f)

# --- measuring ----------------------------------------------------------------------------------------

round=0 # 0: tables are counted only
nsteps=0 step=0 nfailed=0 begun=$SECONDS
environment=() # of both sides
launcher=()    # arguments of its own
crowded=0      # whether others keep the cores busy
tables=()
took=()       # milliseconds, by step, in its last round
apart=()      # by step: whether its parts are run one by one
unmeasured=() # tables there was no time for

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
left_ms() { echo $((limit_at - $(now_ms))); }

# complete FILE: whether both sides have figures there.
complete() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $(column["host"]) != "" && $(column["tug"]) != "" { found = 1 }
        END { exit !found }' "$1" 2>/dev/null
}

takes_doubtful() { ((doubtful && round > 1)); } # whether the round is of what is doubtful only

# find_doubtful: writes $work/doubtful, what of the step is to be measured again. False: nothing.
find_doubtful() {
    local files
    printf -v files '%s/%03d.*.csv' "$work" $step
    # shellcheck disable=SC2086 # a pattern
    awk -F, -f "$here/map_json.awk" $files 2>/dev/null | "${fields[@]}" "$here/map_doubtful.awk" >"$work/doubtful"
    [[ -s $work/doubtful ]]
}

# is_due TABLE: whether it is to be measured now. Before the first round it is counted.
is_due() {
    # shellcheck disable=SC2053 # a pattern is meant
    [[ $only == list || $1 == $only ]] || return 1
    step=$((step + 1))
    if ((round == 0)); then
        nsteps=$step
        [[ ${tables[*]: -1} == "$1" ]] || tables+=("$1")
        return 1
    fi
    ! takes_doubtful || find_doubtful || return 1
    (($(left_ms) > ${took[step]:-0})) || { ((round > 1)) || unmeasured+=("$1"); return 1; }
    printf 'map: [round %d, %2d/%d] %d:%02d %s\n' $round $step $nsteps $(((SECONDS - begun) / 60)) \
        $(((SECONDS - begun) % 60)) "$1" >&2
}

# compare FILE COMMAND...: one round by versus, who begins with the other side in every other round. A table that is
# begun within the limit ends 15 s after it at most.
compare() {
    local file=$1 patience=$(($(left_ms) / 2000 + 5))
    shift
    local host=(-- env "${environment[@]}" "$@") tug=(-- env "${environment[@]}" "$tugboat" run "$@")
    local sides=(--name host --name tug "${host[@]}" "${tug[@]}")
    ((round % 2)) || sides=(--name tug --name host "${tug[@]}" "${host[@]}")
    "$bench/versus" --rounds 1 --timeout $((patience < patience_most ? patience : patience_most)) --title "$table" \
        --csv="$file" "${sides[@]}" >/dev/null 2>"$work/err"
    complete "$file"
}

# part INDEX NAMES: a round of a part of the step, ${run[@]} with NAMES. False where a side has no figures. What had none
# in the round before is left.
part() {
    local file before
    printf -v file '%s/%03d.%02d.%03d.csv' "$work" $step "$1" $round
    printf -v before '%s/%03d.%02d.%03d.csv' "$work" $step "$1" $((round - 1))
    ((round == 1)) || complete "$before" || return 0
    (($(left_ms) > 0)) && compare "$file" "${run[@]}" "$2" && return 0
    (($(left_ms) > 0)) && return 1
    rm -f "$file" # it was cut short
    ((round > 1)) || unmeasured+=("$table")
}

# again COMMAND... OPTION: a round of what of the step is doubtful, a part at a time.
again() {
    local file i=50 line name options last=${*: -1}
    while read -ra line; do
        name=${line[0]} options=("${line[@]:1}")
        printf -v file '%s/%03d.%02d.%03d.csv' "$work" $step $((i++)) $round
        compare "$file" "${@:1:$#-1}" "${options[@]}" "$last" "$name" || rm -f "$file"
    done <"$work/doubtful"
}

complain() {
    echo "map: FAILED: $table: $(grep . "$work/err" | tail -n 1)" >&2
    ! grep -q '^versus: tug failed' "$work/err" || nfailed=$((nfailed + 1)) # else its cells say so
}

# cells TABLE RANKS PROGRAM OPTION PARTS ARGUMENTS...: a step, which is one round of a table's rows. OPTION takes all
# PARTS at once. Where a side has no figures in the first round, each part is run by itself, and stays so, for the host
# may end in some with an error, and over TCP may hang in MPI_Finalize (report.sh says more).
cells() {
    local table=$1 parts i begin all=${5// /,}
    is_due "$table" || return 0
    read -ra parts <<<"$5"
    local run=("$mpiexec" "${launcher[@]}" -n "$2" "$bench/$3" --csv "${@:6}" "$4")
    begin=$(now_ms)
    ((!crowded)) || others_start
    if takes_doubtful; then
        again "${run[@]}"
    else
        if ((!${apart[step]:-0})) && ! part 0 "$all"; then
            if ((round == 1)); then apart[step]=1; else complain; fi
        fi
        ((!${apart[step]:-0})) || for i in "${!parts[@]}"; do part "$i" "${parts[i]}" || complain; done
    fi
    others_end
    took[step]=$(($(now_ms) - begin))
}

flavours_on() { # the flavours of the place $1
    local all=(allocate create dynamic create_stack create_alloc_mem)
    [[ $1 == TCP ]] || all+=(shared)
    [[ $amount != least ]] || all=(allocate create)
    echo "${all[@]}"
}

# target STATE: what rank 1 does, as arguments of window_epochs in ${doing[@]}, and whether it is crowded.
target() {
    doing=() crowded=0
    [[ $1 == waits ]] || doing=(--compute-ms "$compute_ms")
    [[ $1 != works ]] || doing=(--both)
    [[ $1 != "computes among others" ]] || crowded=1
}

# windows PLACE THREADS TARGET: a table of epochs. --quick takes one load where it is not one thread and a target that
# waits, and three flavours in a crowd.
windows() {
    local flavours threads="1 thread" loads=$loads seconds=$seconds
    (($2 == 1)) || threads="$2 threads"
    target "$3"
    flavours=$(flavours_on "$1")
    if [[ $amount == quick ]]; then
        [[ $2$3 == 1waits || $2$3 == 1works ]] || loads=1x8
        ((!crowded)) || flavours=$single_flavours
    fi
    # more threads than cores take turns of several milliseconds: less time shows one thread's alone
    (($2 == 1)) || [[ $amount != quick ]] || seconds=0.025
    cells "windows/$1/$threads/target $3" 2 window_epochs --flavours "$flavours" --threads "$2" --loads "$loads" \
        --seconds "$seconds" "${doing[@]}"
    crowded=0
}

# single PLACE TARGET: a table of operations out of the blue.
single() {
    target "$2"
    cells "single/$1/target $2" 2 window_epochs --flavours "$single_flavours" --syncs lock,flush --ops "$single_ops" \
        --loads "$single_loads" --pause-ms "$pause_ms" --periods "$single_times" "${doing[@]}"
    crowded=0
}

# persistent PLACE RANKS: a table of persistent collectives.
persistent() {
    local names
    for names in "${kinds[@]}"; do
        cells "persistent/$1" "$2" coll_init_sizes --kinds "$names" --sizes "$sizes" --warm 32 --seconds "$seconds"
    done
}

# collectives PLACE: a table of persistent collectives and three of blocking ones.
collectives() {
    local nranks=4 place=()
    [[ $1 != "2 ranks" ]] || nranks=2
    [[ $1 != "2 x 2 nodes" ]] || place=(MPIR_CVAR_NUM_CLIQUES=2)
    environment=("${place[@]}")
    persistent "$1" $nranks
    cells "blocking/$1" $nranks coll_init_sizes --kinds "$repeated" --blocking --sizes "$sizes" --warm 400 --seconds "$often_seconds"
    environment=("${place[@]}" TUGBOAT_COLLECTIVES=off)
    cells "blocking/$1/off" $nranks coll_init_sizes --kinds "$calls" --blocking --sizes "$sizes" --seconds "$seconds"
    environment=("${place[@]}" TUGBOAT_COLLECTIVES=off TUGBOAT_WAIT=polite)
    cells "blocking/$1/polite" $nranks coll_init_sizes --kinds "$calls" --blocking --sizes "$sizes" --seconds "$seconds"
    environment=()
}

steps() { # all of a round
    local place
    step=0
    for place in "one node" TCP; do
        environment=()
        [[ $place == "one node" ]] || environment=("${tcp[@]}")
        windows "$place" 1 waits
        windows "$place" 1 works
        windows "$place" 1 computes
        windows "$place" 1 "computes among others"
        windows "$place" 4 waits
        [[ $amount == quick ]] || windows "$place" 4 computes
        [[ $amount == quick ]] || windows "$place" 4 "computes among others"
        single "$place" waits
        single "$place" computes
        [[ $amount == quick ]] || single "$place" "computes among others"
        cells "lifetimes/$place" 2 window_epochs --flavours "$(flavours_on "$place")" --lifetimes --loads 1x4K,1x1M \
            --seconds "$seconds"
    done
    environment=()
    launcher=(-bind-to core)
    windows "one node bound" 1 waits
    persistent "2 ranks bound" 2
    launcher=()
    for place in "2 ranks" "4 ranks" "2 x 2 nodes"; do
        collectives "$place"
    done
}

tcp=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self")
kinds=("barrier bcast reduce allreduce" "reduce_scatter reduce_scatter_block scan exscan"
    "allgather allgatherv alltoall alltoallv alltoallw"
    "neighbor_allgather neighbor_allgatherv neighbor_alltoall neighbor_alltoallv neighbor_alltoallw"
    "gather gatherv" "scatter scatterv")
repeated="barrier bcast reduce allreduce allgather alltoall"
calls="$repeated reduce_scatter_block"
sizes=8,1K,4K,32K,256K,1M,4M
loads=1x8,16x8,1x4K,1x256K seconds=0.025 often_seconds=0.1 compute_ms=20 pause_ms=50
single_flavours="allocate create dynamic" single_ops=put,get,fetch_and_op single_loads=1x8,1x256K single_times=5
patience_most=120 # seconds, for one program
case $amount in
full) : "${limit:=2340}" ;;
quick)
    : "${limit:=280}"
    patience_most=45 sizes=8,32K,1M
    loads=1x8,16x8,1x4K seconds=0.005 compute_ms=5
    single_ops=put,fetch_and_op single_loads=1x8 single_times=3
    ;;
least)
    : "${limit:=280}"
    kinds=("bcast allgather" "gather scatter" neighbor_alltoall) calls=bcast repeated=bcast sizes=8
    loads=1x8 seconds=0.001 often_seconds=0.001 compute_ms=1 pause_ms=1
    single_flavours=create single_ops=put single_loads=1x8 single_times=1
    ;;
esac

# --- what comes of it ---------------------------------------------------------------------------------

json_string() { printf '"%s"' "$(sed 's/[\\"]/\\&/g' <<<"$1")"; }

write_json() {
    echo "{"
    echo '"format": "tugboat map 1",'
    echo "\"commit\": $(json_string "$(git -C "$here" describe --always --dirty --abbrev=10 2>/dev/null || echo unknown)"),"
    echo "\"date\": \"$(date -u '+%Y-%m-%dT%H:%M:%SZ')\","
    echo "\"machine\": $(json_string "$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) cores"),"
    echo "\"amount\": \"$amount\", \"rounds\": $rounds,"
    echo '"cells": ['
    awk -F, -f "$here/map_json.awk" "$work"/*.csv
    printf ']\n}\n'
}

page() { # page MAP: the map in colours
    page_head "Tugboat: map"
    cat <<'HTML'
<style>
body { max-width: none } h2 { margin: 1.5rem 0 .3rem } td, th { padding: .1rem .4rem } td { text-align: right }
td.name { text-align: left } .odd { background: #d9d9d9; color: #333 }
</style>
<h1>Tugboat: map</h1>
<p>Is Tugboat worth it for a program? Look for what the program does: which windows it makes and how it synchronises them, or
which collectives it repeats; on one node or over TCP; and whether the rank that is worked on waits in MPI or computes. Each
cell says how many times faster that is with Tugboat than on the host MPI alone: x2.00 takes half the time, x0.50 twice.
<span class="c1">&nbsp;below 0.5&nbsp;</span> <span class="c2">&nbsp;below 0.97&nbsp;</span>
<span class="c3">&nbsp;below 0.97, within the noise&nbsp;</span> <span class="c4">&nbsp;alike&nbsp;</span>
<span class="c5">&nbsp;above 1.03&nbsp;</span> <span class="c6">&nbsp;above 2&nbsp;</span> <span class="odd">&nbsp;no ratio&nbsp;</span></p>
<p>A cell's times appear where the pointer rests on it. Where it says <em>host wrong</em> or <em>host failed</em>, the host MPI
alone brings wrong data or does not come to an end, and Tugboat's data are right. What is orange, with a sign that points down, is a defect of Tugboat's,
or one of its <em>limitations</em>, which docs/limitations.md lists with causes. Medians of the rounds, host and Tugboat by turns.</p>
HTML
    if [[ -z $measured ]]; then
        echo "<dl>"
        machine
        echo "</dl>"
    fi
    "${fields[@]}" "$here/map_page.awk" "$1"
    echo "</body></html>"
}

steps
if [[ $only == list ]]; then
    printf '%s\n' "${tables[@]}"
    exit 0
fi
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
[[ -z $against ]] || cp "$against" "$work/against.json" || exit 2 # it may be the file that is written now
if [[ -z $measured ]]; then
    ((nsteps > 0)) || wrong_usage "no table is called '$only' (--only list shows the names)"
    limit_at=$(($(now_ms) + 1000 * limit))
    for ((round = 1; round <= rounds && $(left_ms) > 0; round++)); do
        steps
    done
    write_json >"$work/map.json"
else
    cp "$measured" "$work/map.json"
fi
cp "$work/map.json" "$out/map.json"
page "$out/map.json" >"$out/map.html"
"${fields[@]}" "$here/map_red.awk" "$out/map.json"
((${#unmeasured[@]} == 0)) || printf '%s: not measured, time was up\n' "${unmeasured[@]}" | uniq
echo "map: $out/map.html and map.json, in $(((SECONDS - begun) / 60)) min $(((SECONDS - begun) % 60)) s" >&2
[[ -z $against ]] || "${fields[@]}" "$here/map_against.awk" "$work/against.json" "$out/map.json" || nfailed=$((nfailed + 1))
((nfailed == 0))

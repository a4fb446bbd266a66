#!/usr/bin/env bash
# demo.sh BUILD_DIR: what the tug does for an MPI program that exists only as a binary, in under a minute.
#
# Runs a prebuilt coarray program on the host MPI and under the tug, then three comparisons. Each comparison
# runs the same binary on the host MPI and under the tug in alternation and compares medians; nothing is
# quoted from earlier runs. Ends with one table, which says where the tug is slower, and with
# `tugboat compare`. Exit status 0 unless something failed or computed wrong data; being slower is not a
# failure.
set -uo pipefail

if (($# != 1)) || [[ ! -d $1 ]]; then
    echo "usage: demo.sh BUILD_DIR (after the build)" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench=$build/bin/osu-style-bench
tugboat=$build/bin/tugboat
rounds=3
nfailed=0
any= # a program for the last part

# MPICH's own launcher: where Open MPI is installed too, the plain name may be Open MPI's.
find_mpiexec() {
    local candidate
    for candidate in ${MPIEXEC:-} mpiexec.mpich mpiexec.hydra mpiexec; do
        # no pipe: grep -q would end before the launcher has written all, which then counts as failed
        if [[ $("$candidate" --version 2>/dev/null) == *HYDRA* ]]; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

mpiexec=$(find_mpiexec) || { echo "demo: MPICH's mpiexec is not there (Debian: mpich)" >&2; exit 2; }
for file in "$bench"/{versus,truly_passive,put_rate_threads,bcast_init_sizes} "$tugboat" \
    "$build/lib/libtugboat.so"; do
    [[ -e $file ]] || { echo "demo: $file is not there: build first" >&2; exit 2; }
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

failed() {
    echo "   FAILED: $1"
    nfailed=$((nfailed + 1))
}

# compare NUMBER TITLE -- COMMAND -- COMMAND: host first; leaves its rows in $work/NUMBER.csv.
compare() {
    local number=$1 title=$2
    shift 2
    "$bench/versus" --rounds "$rounds" --timeout 20 --title "$title" --name host --name tug \
        --csv="$work/$number.csv" "$@" >/dev/null 2>"$work/err" && return
    failed "$title: $(tail -n 1 "$work/err")"
    return 1
}

# ---- programs that exist only as binaries -------------------------------------------------------

# fails_alone PROGRAM: whether a run of five on the host MPI alone fails. MPICH 4.2.1 (Debian 13) ends most
# coarray programs so: "Communicator being freed has 1 unmatched message(s)".
fails_alone() {
    for _ in 1 2 3 4 5; do
        timeout 60 "$mpiexec" -n 2 "$1" >"$work/alone" 2>&1 </dev/null || return 0
    done
    return 1
}

# compare_app NUMBER NAME WHAT...
compare_app() {
    local number=$1 name=$2 program=$apps/$2
    echo "   $name: ${*:3}"
    [[ -x $program ]] || { failed "$program is not there"; return; }
    if fails_alone "$program"; then
        echo "   left out, it fails on the host MPI alone: $(grep -v '^ *$' "$work/alone" | tail -n 1)"
        return
    fi
    [[ -n $any ]] || any=$program
    compare "$number" "coarray program" \
        -- "$here/app_seconds.sh" "$name" 'Test passed' "$mpiexec" -n 2 "$program" \
        -- "$here/app_seconds.sh" "$name" 'Test passed' \
        "$tugboat" run "$mpiexec" -n 2 "$program" || return
    echo "   passed $rounds times on the host MPI and $rounds times under the tug"
}

run_apps() {
    apps=$(dpkg -L libcoarrays-mpich-dev 2>/dev/null | grep -m1 'OpenCoarrays-.*-tests/get_array$')
    apps=$(dirname "${apps:-not-installed/get_array}")
    echo "1. Fortran coarray programs, binaries of Debian's libcoarrays-mpich-dev, 2 ranks:"
    compare_app 10 get_array "reads and writes all kinds of array sections of the other image, some" \
        "20 000 puts and 47 000 gets," $'\n  ' "each in an epoch of its own, and compares what it finds"
    compare_app 11 asynchronous_hello_world "puts a greeting, posts an event, gets the greeting"
}

# ---- the comparisons ----------------------------------------------------------------------------

# compare_bench NUMBER TITLE RANKS PROGRAM ARGUMENTS...
compare_bench() {
    local number=$1 title=$2 ranks=$3 program=$4
    shift 4
    compare "$number" "$title" \
        -- "$mpiexec" -n "$ranks" "$bench/$program" --csv "$@" \
        -- "$tugboat" run "$mpiexec" -n "$ranks" "$bench/$program" --csv "$@"
}

run_comparisons() {
    echo "2. Operations on a rank that computes and makes no MPI call"
    compare_bench 20 "target computes" 2 truly_passive --validate
    echo "3. 8-byte puts by 1, 2 and 4 threads"
    compare_bench 30 "put rate" 2 put_rate_threads --validate --seconds 0.05 --samples 3
    echo "4. Persistent broadcast (MPI_Bcast_init), 2 ranks and 4 ranks on $(nproc) cores"
    compare_bench 40 "bcast 2 ranks" 2 bcast_init_sizes --validate --seconds 0.1 \
        --sizes 8,4K,32K,256K,2M,16M
    compare_bench 50 "bcast 4 ranks" 4 bcast_init_sizes --validate --seconds 0.1 --sizes 8,32K,256K,2M
}

# What anybody can ask of a program of theirs.
run_compare() {
    local status=0 program=${any:-$bench/truly_passive}
    echo "5. Of any program: tugboat compare mpiexec -n 2 ${program##*/}"
    "$tugboat" compare "$mpiexec" -n 2 "$program" >"$work/compared" 2>"$work/err" || status=$?
    case $status in
    0 | 10 | 11) sed -n '/^tugboat/,$s/^/   /p' "$work/compared" ;;
    *) failed "tugboat compare ends with $status: $(tail -n 1 "$work/err")" ;;
    esac
}

# ---- the summary --------------------------------------------------------------------------------

# Rows of versus --csv: title,key,value,better,host,tug,ratio,overlap,host failures,tug failures
print_summary() {
    cat "$work"/*.csv 2>/dev/null | grep -v '^title,' | awk -F, '
    function figure(x) {
        if (x == "") return "failed"
        return sprintf(x >= 10000 ? "%.0f" : x >= 100 ? "%.1f" : x >= 1 ? "%.2f" : "%.4f", x)
    }
    function ratio(x) { return x == "" ? "-" : sprintf(x >= 100 ? "x%.0f" : "x%.2f", x) }
    function listed(list, n) { return n > 0 ? list "; " : "" }
    BEGIN {
        printf "%-17s %-26s %-10s %12s %12s %10s\n", "what", "case", "unit", "host MPI", "tug",
            "tug is"
    }
    {
        if ($1 != last && NR > 1) print ""
        last = $1
        unit = $3
        sub(/^(mean|median)_/, "", unit)
        note = ""
        if ($7 == "")
            nmissing++
        else if ($7 < 1) {
            name = sprintf("%s %s (%s)", $1, $2, ratio($7))
            if ($8 == "yes") {
                note = "  slower? (ranges overlap)"
                unsure = listed(unsure, nunsure++) name
            } else {
                note = "  slower"
                slower = listed(slower, nslower++) name
            }
        }
        printf "%-17s %-26s %-10s %12s %12s %10s%s\n", $1, $2, unit " " ($4 == "lower" ? "v" : "^"),
            figure($5), figure($6), ratio($7), note
    }
    END {
        print ""
        print "(v: lower is better, ^: higher is better; xN: N times better than the host MPI)"
        if (nmissing > 0) printf "%d of %d rows have no result: see FAILED above.\n", nmissing, NR
        if (nunsure > 0)
            printf "Slower by median, but the rounds overlap, in %d of %d rows: %s.\n", nunsure, NR,
                unsure
        if (nslower > 0)
            printf "The tug is slower than the host MPI in %d of %d rows: %s.\n", nslower, NR, slower
        else
            printf "The tug is clearly slower than the host MPI in none of the %d rows.\n", NR
    }'
}

SECONDS=0
"$bench/bcast_init_sizes" --sizes 8 --seconds 0.001 2>/dev/null | grep -E '^# (MPI:|bcast)' |
    sed 's/^# bcast_init_sizes, /# Tugboat /'
echo "# $(nproc) cores, $(date -u +%Y-%m-%dT%H:%M:%SZ); each figure is a median of $rounds alternating rounds"
echo
run_apps
run_comparisons
echo
print_summary
echo
run_compare
echo "($SECONDS s)"
((nfailed == 0)) || { echo "$nfailed parts of the demo FAILED" >&2; exit 1; }

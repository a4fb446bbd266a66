# For matrix.sh and package.sh: how a job is started, for how long it may run, and what is said of it. Sourced; uses $work,
# and $label once the MPI is known.
# shellcheck shell=bash disable=SC2034,SC2154
ranks=2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

say() { printf 'hosts: %s\n' "$*" >&2; }

# report COLUMN VERDICT [REASON]: a line of the outcome.
report() {
    printf '%s\t%s\t%s\t%s\n' "$label" "$1" "$2" "${3:-}" >>"$work/results"
    [ -z "${3:-}" ] || say "$label, $1: $2: $3"
}

# use_launcher mpich|openmpi LAUNCHER: sets launch.
use_launcher() {
    launch=("$2" -n "$ranks")
    [ "$1" = mpich ] || launch=("$2" --oversubscribe --bind-to none -n "$ranks")
}

# in_time COMMAND...: as timeout, to detect a hang. Its limit is 120 s and 400 times what a job takes that does nothing, which is
# timed for that, as the machine may do other work.
in_time() {
    local began=$EPOCHREALTIME limit_s
    timeout 120 "${launch[@]}" true >/dev/null 2>&1 <> <(:)
    limit_s=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d", 120 + 400 * (b - a) }')
    timeout -k 5 "$limit_s" "$@"
}

# selftest COLUMN TUGBOAT LOG: its status. Once more if it fails, which is noted: its jobs have limits of seconds.
selftest() {
    local try column=$1 tugboat=$2 log=$3
    for try in 1 2; do
        in_time "$tugboat" selftest "${launch[@]}" >"$log" 2>&1 <> <(:) && return 0
        [ $try = 2 ] || report "$column" note "selftest fails once: $(grep -m 1 FAILED "$log" || tail -n 1 "$log")"
    done
    return 1
}

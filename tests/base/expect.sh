# For scripts that look at a command from outside. Sourced; they have a folder $work until they end, and exit with
# $failed.
# shellcheck shell=bash disable=SC2034
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAILED $*"
    failed=1
}

# expect NAME STATUS PATTERN COMMAND...: exit status (or one of several, 0,10) and a pattern (grep -E; none if empty) in output and error, which
# are left in $work/out.
expect() {
    local name=$1 status=$2 pattern=$3 got
    shift 3
    "$@" >"$work/out" 2>&1
    got=$?
    if [[ ,$status, != *,$got,* ]] || { [ -n "$pattern" ] && ! grep -qE -- "$pattern" "$work/out"; }; then
        fail "$name: status $got, wanted $status; wanted output: $pattern; got:"
        sed 's/^/    /' "$work/out"
    fi
}

# has NAME PATTERN [FILE]: a line of the last output, or of another file in $work, matches; absent: none does.
has() {
    grep -qE -- "$2" "$work/${3-out}" || fail "$1: no line '$2' in: $(cat "$work/${3-out}")"
}
absent() {
    ! grep -qE -- "$2" "$work/out" || fail "$1: output has $2"
}

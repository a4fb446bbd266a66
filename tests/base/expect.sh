# For scripts that look at a command from outside; they have a folder $work. Sourced.
# shellcheck shell=bash
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

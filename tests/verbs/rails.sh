#!/usr/bin/env bash
# Runs ranks over verbs, in the machine of run_in_vm.sh, with a second device of the first one's kind for as long as
# it takes, and checks that both have shares of the long operations, or that none has: then everything goes whole by the
# first one; or that the second has what is short and names it.
#
# usage: rails.sh both|first|second COMMAND...
set -u
shared=$1
shift
output=$(mktemp)
cleanup() {
    rdma link delete rxe1
    ip link delete net1
    rm -f "$output"
}
trap cleanup EXIT
ip link add net1 type dummy
ip link set net1 address 02:00:0a:4d:01:01 mtu "$(cat /sys/class/net/net0/mtu)" up
ip addr add 10.77.1.1/24 dev net1
rdma link add rxe1 type rxe netdev net1 || exit 1
TUGBOAT_STATS=1 "$@" >"$output" 2>&1
rc=$?
count() { awk -v name="$1" '$1 == name { print $2 }' "$output"; }
first=$(count verbs_rail_1) second=$(count verbs_rail_2)
echo "${first:-no} bytes of shares by the first device, ${second:-no} by the second"
good=1
case $shared in
both) if [ "${first:-0}" -lt 131072 ] || [ "${second:-0}" -lt 131072 ]; then good=0; fi ;;
first) if [ "${first:-0}" != 0 ] || [ "${second:-0}" != 0 ]; then good=0; fi ;;
second) if [ "${first:-0}" != 0 ] || [ "${second:-0}" = 0 ]; then good=0; fi ;;
*) exit 2 ;;
esac
if [ $rc != 0 ] || [ $good = 0 ]; then
    echo "status $rc"
    tail -n 60 "$output"
    exit 1
fi

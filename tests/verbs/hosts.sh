#!/usr/bin/env bash
# Runs ranks on several "hosts", in the machine of run_in_vm.sh: each is a device of Soft-RoCE of its own, at a cable of
# its own to one switch, and a rank uses the device of its host only, in turn by its number.
#
# usage: hosts.sh N COMMAND...
#        hosts.sh N out SECONDS,SECONDS... FILE COMMAND...
#            when the second host has connections its cable is out, and in again, for that long each; then the file is made
#        hosts.sh held PROGRAM...
#            the part that each rank runs: mpiexec ... hosts.sh held PROGRAM
#
#     rxe_h0 - h0 ==== p0 - switch - p1 ==== h1 - rxe_h1
#
# All of them are in one network namespace: Soft-RoCE of Linux 6.1 sends and receives in the first one only, and requests of
# a device in another end with "local QP operation error". So that what one host sends another goes by the cables, and not
# straight to an address that is this machine's own, routes are chosen by the sender's address before the machine looks for
# its own addresses. The hosts know one another's addresses of the cable: nobody is asked for them when a cable is in again.
set -u
if [ "$1" = held ]; then
    shift
    env TUGBOAT_VERBS_DEVICE="rxe_h$((PMI_RANK % TUG_HOSTS))" "$@" && exit
    status=$?
    echo "rank $PMI_RANK ended with status $status" >&2
    exit $status
fi
hosts=$1
shift
pulling=
cleanup() {
    local h
    [ -z "$pulling" ] || kill "$pulling" # there is no such process if all went well
    for h in {0..3}; do
        rdma link delete "rxe_h$h"
        ip link delete "h$h"
        ip rule delete pref $((10 + h))
        ip rule delete pref $((20 + h))
        ip rule delete pref $((30 + h))
    done
    ip link delete switch
} 2>/dev/null
trap cleanup EXIT
[ ! -e /sys/class/net/switch ] || cleanup # of one that was killed
ip link add switch mtu 4200 type bridge || exit 1
ip rule show | grep -q '^90:' || ip rule add pref 90 lookup local || exit 1
ip rule delete pref 0 2>/dev/null
ip link set switch up
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
# No packet is lost because it comes faster than it is taken, as in the networks that RDMA is made for: where Soft-RoCE of
# Linux 6.1 cannot send the first packet of a read's answer, the read is told complete without data.
echo 100000 >/proc/sys/net/core/netdev_max_backlog
for ((h = 0; h < hosts; h++)); do
    ip link add "h$h" mtu 4200 address "02:00:0a:4e:00:0$((h + 1))" type veth peer name "p$h" mtu 4200 || exit 1
    for setting in accept_local=1 rp_filter=0 arp_ignore=1 arp_announce=2; do
        echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/h$h/${setting%=*}"
    done
    ip link set "p$h" master switch up
    ip link set "h$h" up
    address=10.78.0.$((h + 1))
    ip addr add "$address/24" dev "h$h"
    ip rule add pref $((10 + h)) iif "h$h" lookup local
    ip rule add pref $((20 + h)) from "$address" to "$address" lookup local
    ip rule add pref $((30 + h)) from "$address" to 10.78.0.0/24 lookup $((100 + h))
    ip route add 10.78.0.0/24 dev "h$h" src "$address" table $((100 + h))
    for ((other = 0; other < hosts; other++)); do
        ip neigh replace "10.78.0.$((other + 1))" lladdr "02:00:0a:4e:00:0$((other + 1))" dev "h$h" nud permanent
    done
    rdma link add "rxe_h$h" type rxe netdev "h$h" || exit 1
done
export TUG_HOSTS=$hosts
pull() { # SECONDS,SECONDS... FILE
    local seconds
    until rdma resource show qp | grep -q 'rxe_h1/.* type RC '; do sleep 0.1; done
    for seconds in ${1//,/ }; do
        sleep 0.3
        ip link set p1 down
        sleep "$seconds"
        ip link set p1 up
    done
    sleep 0.3
    touch "$2"
}
if [ "$1" = out ]; then
    rm -f "$3"
    pull "$2" "$3" &
    pulling=$!
    shift 3
fi
"$@"
status=$?
# Of what may have gone wrong below the program.
for ((h = 0; h < hosts; h++)); do
    again=$(cat "/sys/class/infiniband/rxe_h$h/ports/1/hw_counters/completer_retry_err")
    lost=$(cat "/sys/class/infiniband/rxe_h$h/ports/1/hw_counters/send_err")
    [ "$again$lost" = 00 ] || echo "rxe_h$h: $again times sent again, $lost packets not sent"
done
! dmesg | grep 'WARNING.*rxe_completer' ||
    echo "since this machine started Soft-RoCE has told a request complete that had failed (above: its kernel says so once)"
exit $status

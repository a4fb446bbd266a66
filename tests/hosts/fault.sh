#!/usr/bin/env bash
# What mpiexec_hosts.sh calls while a job runs and after it (HOSTS_MEANWHILE): a fault, and what the job has left.
#
#   fault.sh during | after
#
# FAULT: kill, stop, link, shm, descriptors or none; FAULT_AFTER: seconds until it comes; FAULT_FOR: seconds that it lasts;
# FAULT_AT: a number, by which a rank or a host is chosen; FAULT_PROGRAM: whose ranks. Says on standard error what it did.
set -u

# Zombies apart: on a host nobody takes them.
ranks() { pgrep -r R,S,D,T -x "$(basename "$FAULT_PROGRAM" | cut -c1-15)" | sort -n; }

# The ranks are there as soon as there are FAULT_RANKS of them.
wait_for_ranks() {
    local i
    for ((i = 0; i < 600; i++)); do
        [ "$(ranks | wc -l)" -ge "$FAULT_RANKS" ] && return 0
        sleep 0.05
    done
    return 1
}

pick() { awk -v at="$FAULT_AT" '{ line[NR] = $0 } END { if (NR) print line[at % NR + 1] }'; }

# Hydra (MPICH 4.0.2) does not end a job of which a rank ends by exit() alone: the proxy of its host is gone, mpiexec does not
# tell the others, and their ranks go on, waiting for it. After 20 s of that they are ended here, whereupon mpiexec ends, too.
end_abandoned() {
    local left seconds=0
    while sleep 1; do
        left=$(pgrep -r R,S,D -c -x hydra_pmi_proxy)
        seconds=$((left > 0 && left < HOSTS ? seconds + 1 : 0))
        ((seconds < 20)) && continue
        echo "fault: mpiexec has lost $((HOSTS - left)) of $HOSTS proxies and does not end the others" >&2
        ranks | xargs -r kill -KILL
        return
    done
}

during() {
    local rank cable host
    wait_for_ranks || { echo 'fault: no ranks' >&2; return; }
    end_abandoned &
    sleep "$FAULT_AFTER"
    rank=$(ranks | pick)
    [ -n "$rank" ] || { echo 'fault: too late' >&2; return; }
    host=$((FAULT_AT % HOSTS + 1))
    case $FAULT in
    kill) kill -KILL "$rank" && echo 'fault: killed a rank' >&2 ;;
    stop)
        kill -STOP "$rank" && echo "fault: stopped a rank" >&2
        sleep "$FAULT_FOR"
        kill -CONT "$rank"
        ;;
    link)
        cable=cable$host
        ip link set "$cable" down && echo "fault: $cable down" >&2
        sleep "$FAULT_FOR"
        ip link set "$cable" up
        ;;
    shm) # as much as is used, and no more
        nsenter --mount -t "$(cat "$HOSTS_STATE/pid.$host")" sh -c '
            used=$(df -k --output=used /dev/shm | tail -n 1)
            mount -o remount,size=$((used + 64))k /dev/shm' && echo "fault: /dev/shm of host $host is full" >&2
        ;;
    descriptors)
        prlimit --pid "$rank" --nofile="$(find "/proc/$rank/fd" -mindepth 1 | wc -l)" &&
            echo 'fault: a rank has no descriptor left' >&2
        ;;
    esac
}

# What is left some seconds after the job has ended, on all hosts; the host MPI's own files apart. A link that is still down
# comes up now; then it takes as long again until its host learns that mpiexec has gone.
after() {
    local pid left i tenths=100
    if [ "$FAULT" = link ]; then
        for ((i = 1; i <= HOSTS; i++)); do ip link set "cable$i" up; done
        tenths=900
    fi
    for ((i = 0; i < tenths; i++)); do
        [ -n "$(ranks)" ] || break
        sleep 0.1
    done
    for pid in "$HOSTS_STATE"/pid.*; do
        left=$(nsenter --mount -t "$(cat "$pid")" find /dev/shm -mindepth 1 ! -name 'ucx_shm_*' ! -name 'mpich_shar_*')
        [ -z "$left" ] || echo "fault: LEFT in /dev/shm of ${pid##*.}: $left" >&2
    done
    left=$(ranks)
    [ -z "$left" ] || echo "fault: LEFT processes:" $left >&2
}

"$1"

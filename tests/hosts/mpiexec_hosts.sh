#!/usr/bin/env bash
# An mpiexec over several hosts, which are namespaces of this machine.
#
#   HOSTS=N MPIEXEC=PATH mpiexec_hosts.sh -n RANKS PROGRAM [ARG]...
#
# Each host has a network, a host name, processes, /dev/shm and System V memory of its own, and is
# joined to the others by a cable (veth) and a switch (bridge). Hydra reaches them through a launcher
# that enters the namespaces; ranks are dealt out one to a host in turn. All of it stands within
# namespaces that end with this script, and nothing outside of them is touched.
# HOSTS_MEANWHILE=COMMAND: `COMMAND during` runs beside the job and is ended with it, `COMMAND after` follows it, both where
# all hosts can be seen; HOSTS_STATE has the files pid.1, pid.2, ... of processes that stand for the hosts.
# Wants root, or user namespaces for everybody; exit status 77 says that neither is there.
set -u

self=$(readlink -f "$0")
hosts=${HOSTS:?} mpiexec=${MPIEXEC:?}
network=10.77.0

host_make() { # host_make INDEX: prints the id of the process that stands for the host
    local ready=$state/ready.$1
    mkfifo "$ready"
    unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc bash -c '
        hostname "host$1" && ip link set lo up && mount -t tmpfs tmpfs /dev/shm &&
            echo $? > "$2" && exec sleep infinity' _ "$1" "$ready" > /dev/null &
    local unshared=$!
    [ "$(timeout 60 cat "$ready")" = 0 ] || return 1
    pgrep -P "$unshared"
}

host_connect() { # host_connect INDEX PID
    ip link add "cable$1" type veth peer name eth0 netns "$2" &&
        ip link set "cable$1" master switch up &&
        nsenter --net -t "$2" ip address add "$network.$1/24" dev eth0 &&
        nsenter --net -t "$2" ip link set eth0 up
}

# What Hydra calls in place of ssh: [-x] HOST COMMAND...
if [ -n "${HOSTS_STATE:-}" ]; then
    [ "$1" = -x ] && shift
    pid=$(cat "$HOSTS_STATE/pid.${1##*.}") || exit 1
    shift
    cd /
    exec nsenter --net --uts --ipc --mount --pid -t "$pid" --wd="$HOSTS_WD" sh -c "$*"
fi

if [ -z "${HOSTS_INSIDE:-}" ]; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(--user --map-root-user)
    inside=(unshare "${as_root[@]}" --net --mount --uts --ipc --pid --fork --kill-child --mount-proc)
    for tool in unshare nsenter ip pgrep; do
        command -v $tool > /dev/null || { echo "skipped: no $tool here"; exit 77; }
    done
    if ! "${inside[@]}" sh -c 'ip link add switch type bridge &&
        ip link add cable type veth peer name other && mount -t tmpfs tmpfs /dev/shm' 2> /dev/null; then
        echo "skipped: no namespaces for networks here (they want root, veth and bridge)"
        exit 77
    fi
    HOSTS_INSIDE=1 exec "${inside[@]}" "$self" "$@"
fi

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
ip link set lo up &&
    ip link add switch type bridge &&
    ip address add "$network.254/24" dev switch &&
    ip link set switch up || exit 2
list=
for ((i = 1; i <= hosts; i++)); do
    pid=$(host_make $i) && host_connect $i "$pid" || { echo "no host $i" >&2; exit 2; }
    echo "$pid" > "$state/pid.$i"
    list+=${list:+,}$network.$i:1
done

export HOSTS_STATE=$state HOSTS_WD=$PWD UCX_NET_DEVICES=eth0
[ -z "${HOSTS_MEANWHILE:-}" ] || { "$HOSTS_MEANWHILE" during & }
# Not exec: the trap is still to come.
"$mpiexec" -launcher ssh -launcher-exec "$self" -localhost "$network.254" -hosts "$list" "$@"
rc=$?
if [ -n "${HOSTS_MEANWHILE:-}" ]; then
    kill %1 2> /dev/null
    "$HOSTS_MEANWHILE" after
fi
exit $rc

#!/usr/bin/env bash
# Runs a command, in the machine of run_in_vm.sh, for which the RDMA device runs out of something.
#
# usage: scarce.sh locked BYTES COMMAND...    memory that it may have pinned, each process
#        scarce.sh objects N COMMAND...       regions, queue pairs and the like, all processes together
set -euo pipefail
what=$1 most=$2
shift 2
case $what in
locked) # without the privilege to lock more
    exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock="$most:$most" "$@"
    ;;
objects)
    groups=/run/scarce
    device=$(rdma link | sed -n 's|^link \([^/]*\)/.*|\1|p' | head -n 1)
    if [ ! -d "$groups" ]; then
        mkdir "$groups"
        mount -t cgroup2 none "$groups"
        echo +rdma >"$groups/cgroup.subtree_control"
    fi
    job=$groups/$$
    mkdir "$job"
    echo "$device hca_object=$most" >"$job/rdma.max"
    echo $$ >"$job/cgroup.procs"
    exec "$@"
    ;;
*) exit 2 ;;
esac

#!/usr/bin/env bash
# What Open MPI's launcher calls in place of ssh: HOST COMMAND...
#
# Runs the command here, under that host name: Open MPI takes processes whose hosts' names differ for
# processes of different nodes. Wants root, or user namespaces for everybody.
set -u
[ "$1" = -x ] && shift
host=$1
shift
as_root=()
[ "$(id -u)" = 0 ] || as_root=(--user --map-root-user)
exec unshare "${as_root[@]}" --uts sh -c "hostname $host && $*"

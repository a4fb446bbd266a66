#!/usr/bin/env bash
# Writes names.S, one entry for each name that a library for one of two hosts exports, and the two libraries as
# objects in which these names have the host's in front: mpich.o and openmpi.o.
# Usage: make.sh FOLDER LD OBJCOPY NM HOST LIBRARY ARCHIVE HOST LIBRARY ARCHIVE
set -euo pipefail
folder=$1 ld=$2 objcopy=$3 nm=$4
shift 4
mkdir -p "$folder"
cd "$folder"
while [ $# -gt 0 ]; do
    "$nm" -D --defined-only "$2" | awk '{ print $NF }' | LC_ALL=C sort >"$1.names"
    sed "s/.*/& $1__&/" "$1.names" >"$1.rename"
    "$ld" -r -o "$1.all.o" --whole-archive "$3"
    "$objcopy" --keep-global-symbols="$1.names" "$1.all.o"
    "$objcopy" --redefine-syms="$1.rename" "$1.all.o" "$1.o"
    rm "$1.all.o"
    shift 3
done

LC_ALL=C sort -u mpich.names openmpi.names | awk '
    function address(host, name) { return (host, name) in has ? host "__" name : 0 }
    FILENAME != "-" { has[substr(FILENAME, 1, length(FILENAME) - 6), $1] = 1; next }
    { names[n++] = $1 }
    END {
        print "#include \"pick/entry.S\""
        for (i = 0; i < n; i++)
            printf "ENTRY(%s, %d)\n", names[i], i
        print "    .data\n    .p2align 3\n    .globl tug_pick_table\n    .hidden tug_pick_table\ntug_pick_table:"
        for (i = 0; i < n; i++)
            printf "    .quad .Lfirst_%d\n", i
        print "    .section .data.rel.ro, \"aw\"\n    .p2align 3"
        print "    .globl tug_pick_rows\n    .hidden tug_pick_rows\ntug_pick_rows:"
        for (i = 0; i < n; i++)
            printf "    .quad .Lname_%d, %s, %s\n", i, address("mpich", names[i]), address("openmpi", names[i])
        print "    .section .rodata\n    .p2align 3"
        printf "    .globl tug_pick_nrows\n    .hidden tug_pick_nrows\ntug_pick_nrows: .quad %d\n", n
        for (i = 0; i < n; i++)
            printf ".Lname_%d: .string \"%s\"\n", i, names[i]
    }' mpich.names openmpi.names - >names.S

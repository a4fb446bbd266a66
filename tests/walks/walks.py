#!/usr/bin/env python3
"""walks.py MPIEXEC LIBRARY PROGRAM [--tree WALK]: how many functions of the library, and of how many files, a call takes.

Inline functions count. What a call takes depends a little on what other threads do meanwhile: the least of three runs
counts. A call that takes more than its limit below fails the test. --tree shows the functions of one walk as they call
one another."""

import os
import subprocess
import sys

RUNS = 3
NETWORKS = {
    "one node, MPI_Win_allocate": ("allocate", {}),
    "one node, MPI_Win_create": ("create", {}),
    "two nodes over TCP, MPI_Win_create": ("create", {"MPIR_CVAR_NUM_CLIQUES": "2", "UCX_TLS": "tcp,self"}),
}
# Functions, in the order of NETWORKS.
LIMITS = {
    "put-in-fence": (16, 65, 60),
    "fence-of-one-put": (17, 210, 360),
    "put-first": (16, 110, 410),
    "put-alone": (16, 110, 140),
    "flush-of-one-put": (12, 55, 270),
    "put-in-a-row": (16, 45, 19),
    "flush-of-a-row": (12, 110, 310),
    "put-after-a-pause": (16, 115, 260),
    "flush-after-a-pause": (12, 55, 290),
    "fetch-and-op": (34, 115, 300),
    "bcast-start": (34, 34, 60),
    "bcast-wait": (17, 17, 17),
}


def symbols(library, base, addresses):
    """Name and file of each function, by its address."""
    ordered = sorted(addresses)
    found = subprocess.run(
        ["addr2line", "-f", "-e", library],
        input="".join("%x\n" % (a - base) for a in ordered),
        stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {a: (found[2 * i], found[2 * i + 1].split(":")[0]) for i, a in enumerate(ordered)}


def run(mpiexec, library, program, kind, settings):
    """The walks of one run: by its name, depth and function of each entry."""
    out = subprocess.run(
        [mpiexec, "-n", "2", "-genv", "LD_PRELOAD", library, program, kind],
        env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
    base, walks, last = None, {}, None
    for line in out.splitlines():
        if not line.startswith(("base ", "walk ")) and not line[:1].isdigit():
            continue  # another's
        first, second = line.split()
        if first == "base":
            base = int(second, 16)
        elif first == "walk":
            last = walks.setdefault(second, [])
        else:
            last.append((int(first), int(second, 16)))
    where = symbols(library, base, {a for walk in walks.values() for _, a in walk})
    return {name: [(depth, where[a]) for depth, a in walk] for name, walk in walks.items()}


def print_tree(walk):
    top = "/src/"
    for depth, (function, path) in walk:
        print("  " * (depth - walk[0][0]) + function + "  " + path[path.find(top) + 1:])


def main():
    mpiexec, library, program = sys.argv[1:4]
    tree = sys.argv[5] if len(sys.argv) > 5 else None
    failed = False
    for column, (network, (kind, settings)) in enumerate(NETWORKS.items()):
        print("%-36s functions  files  limit" % network)
        runs = [run(mpiexec, library, program, kind, settings) for _ in range(RUNS)]
        for name, limits in LIMITS.items():
            least = min((r[name] for r in runs), key=lambda walk: len({where for _, where in walk}))
            functions = len({where for _, where in least})
            files = len({path for _, (_, path) in least})
            above = functions > limits[column] or functions == 0
            failed |= above
            print("  %-34s %9d %6d %6d%s" % (name, functions, files, limits[column], "  wrong" if above else ""))
            if tree == name:
                print_tree(least)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

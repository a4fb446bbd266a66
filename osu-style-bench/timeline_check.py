#!/usr/bin/env python3
"""timeline_check.py FILE.json NRANKS NAME...: is FILE the timeline of a job of so many ranks, with all these names in it?

Spans and runs are whole, numbers are numbers, each rank and thread has its name. Exit status 1 with a line that says
what is wrong."""
import collections
import json
import sys

file, nranks, names = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
with open(file, encoding="utf-8") as text:
    trace = json.load(text)
events = trace["traceEvents"]


def check(good, what):
    if not good:
        sys.exit(f"{file}: {what}")


check(trace["otherData"]["ranks"] == nranks, f"otherData tells of {trace['otherData']['ranks']} ranks")
ranks = {e["args"]["name"] for e in events if e["name"] == "process_name"}
check(ranks == {f"rank {r}" for r in range(nranks)}, f"the ranks are {sorted(ranks)}")
threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
for rank in range(nranks):
    check(any(pid == rank and name.startswith("offload thread") for (pid, _), name in threads.items()),
          f"rank {rank} has no offload thread")
is_open = collections.Counter()
for e in events:
    check(e["ph"] in "MXbei", f"a phase {e['ph']}")
    if e["ph"] == "M":
        continue
    check((e["pid"], e["tid"]) in threads, f"a thread without a name: {e}")
    check(isinstance(e["ts"], (int, float)) and -1e6 < e["ts"] < 600e6, f"a strange time: {e}")
    if e["ph"] == "X":
        check(0 <= e["dur"] < 600e6 and e["args"]["stands for"] >= 1, f"a strange span: {e}")
    elif e["ph"] in "be":
        is_open[(e["pid"], e["cat"], e["id"], e["name"])] += 1 if e["ph"] == "b" else -1
        check(min(is_open.values()) >= 0, f"an end without a begin: {e}")
    else:
        check(e["args"]["number"] >= 1, f"a count of nothing: {e}")
check(not any(is_open.values()), "a run without an end")
there = {e["name"] for e in events}
check(names <= there, f"lacks {sorted(names - there)}")
check(any("ended by" in e.get("args", {}) for e in events), "nothing tells what ended it")
print(f"{file}: {len(events)} events of {nranks} ranks, {len(threads)} threads")

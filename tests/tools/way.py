# For gdb, see way.sh: what the thread that calls way_mark() executes between the first call of it and the second
# (the put), and between the second and the third (the flush).
import subprocess

import gdb

LIMIT = 8000  # steps: what takes more waits for something


def number(expression):
    return int(gdb.parse_and_eval("(unsigned long)(%s)" % expression))


def library():
    """The library's file and where it begins in memory."""
    with open("/proc/%d/maps" % gdb.selected_inferior().pid) as maps:
        for line in maps:
            words = line.split()
            if len(words) > 5 and "/libtugboat" in words[5] and words[2] == "00000000":
                return words[5], int(words[0].split("-")[0], 16)
    raise gdb.GdbError("way: the library is not there")


def functions_at(path, offsets):
    """The functions of those places, and those that were inlined there: (file, name) each."""
    asked = "\n".join("%#x" % offset for offset in sorted(offsets))
    lines = subprocess.run(["addr2line", "-f", "-i", "-e", path], input=asked, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {(place.split(":")[0].split("/../")[-1], name) for name, place in zip(lines[::2], lines[1::2])}


def walk(end):
    """Steps to the next call of way_mark(): the places that were met, with how often. None: too long."""
    places = {}
    for _ in range(LIMIT):
        gdb.execute("stepi", to_string=True)
        pc = number("$pc")
        if pc == end:
            return places
        places[pc] = places.get(pc, 0) + 1
    return None


def report(what, places):
    if places is None:
        print("way: %s: more than %d steps, it waits" % (what, LIMIT))
        return
    path, base = library()
    inside = {pc: times for pc, times in places.items() if "/libtugboat" in (gdb.solib_name(pc) or "")}
    functions = functions_at(path, [pc - base for pc in inside])
    steps = sum(inside.values())
    print("way: %s: %d functions, %d files, %d steps, and %d in other libraries" %
          (what, len(functions), len({file for file, _ in functions}), steps, sum(places.values()) - steps))
    if WAY_LIST:
        for file in sorted({file for file, _ in functions}):
            print("way:     %s: %s" % (file, ", ".join(sorted(n for f, n in functions if f == file))))


for setting in ("pagination off", "confirm off", "breakpoint pending on", "startup-with-shell off",
                "print thread-events off"):
    gdb.execute("set " + setting, to_string=True)
gdb.execute("handle all nostop noprint pass", to_string=True)
gdb.execute("handle SIGTRAP stop", to_string=True)
gdb.execute("break *way_mark", to_string=True)
gdb.execute("run", to_string=True)
gdb.execute("delete", to_string=True)
END = number("&way_mark")
gdb.execute("set scheduler-locking on", to_string=True)  # or the offload thread finds that this one is slow
PUT = walk(END)
report("put", PUT)
if WAY_FLUSH and PUT is not None:
    gdb.execute("set scheduler-locking off", to_string=True)
    report("flush", walk(END))
gdb.execute("kill", to_string=True)

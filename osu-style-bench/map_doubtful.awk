# map_doubtful.awk: of the cells of one table, those that are not clearly better than the host, by the part that each is
# of: a line for each part, its name and the options that choose them, which may choose some more.
#
#   awk -f map_fields.awk -f map_doubtful.awk map.json
#
# Not clearly: the ratio is below 1.1. Cells that have wrong data or fail are not asked again.

# Adds one to a list, once.
function add(what, value) {
    if (!((part, what, value) in seen))
        list[part, what] = list[part, what] (list[part, what] == "" ? "" : ",") value
    seen[part, what, value] = 1
}

!is_cell() || text("state") != "measured" || number("ratio") >= 1.1 { next }

{
    n = split(text("cell"), key, "/")
    part = key[1]
    if (!(part in found))
        parts[++nparts] = part
    found[part] = 1
    width[part] = n
    if (n == 4) {
        add("syncs", key[2])
        add("ops", key[3])
        add("loads", key[4])
    } else if (text("table") !~ /^lifetimes/) {
        add("sizes", key[2])
    }
}

END {
    for (i = 1; i <= nparts; i++) {
        part = parts[i]
        line = part
        if (width[part] == 4)
            line = line " --syncs " list[part, "syncs"] " --ops " list[part, "ops"] " --loads " list[part, "loads"]
        else if (list[part, "sizes"] != "")
            line = line " --sizes " list[part, "sizes"]
        print line
    }
}

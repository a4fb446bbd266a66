# map_json.awk: the cells of map.json from CSV files of `versus` that compare host and tug, lower being better.
#
#   awk -F, -f map_json.awk FILE.csv...
#
# Each file has a round; of a cell's rounds the medians count. low and high: the range of the ratio, had the rounds met
# in other pairs; rounds: how many both sides have.

function json(value) { return value == "" ? "null" : value }

# Keeps a side's figures of a round in order.
function keep(side, value, wrong,   i) {
    nwrong[cell, side] += wrong
    if (value == "")
        return
    for (i = ++n[cell, side]; i > 1 && values[cell, side, i - 1] > value + 0; i--)
        values[cell, side, i] = values[cell, side, i - 1]
    values[cell, side, i] = value + 0
}

function least(side) { return values[cell, side, 1] }
function most(side) { return values[cell, side, n[cell, side]] }
function median(side,   k) {
    k = n[cell, side]
    return k == 0 ? "" : (values[cell, side, int((k + 1) / 2)] + values[cell, side, int(k / 2) + 1]) / 2
}

function state() {
    if (nwrong[cell, "tug"] > 0)
        return "tug wrong"
    if (nwrong[cell, "host"] > 0)
        return "host wrong"
    if (n[cell, "tug"] == 0)
        return "tug failed"
    return n[cell, "host"] == 0 ? "host failed" : "measured"
}

function ratio(over, under) { return under > 0 ? sprintf("%.4g", over / under) : "" }

function show(   known, nrounds) {
    known = state() == "measured"
    nrounds = n[cell, "host"] < n[cell, "tug"] ? n[cell, "host"] : n[cell, "tug"]
    printf("{\"table\": \"%s\", \"cell\": \"%s\", \"host\": %s, \"tug\": %s, \"ratio\": %s, \"low\": %s, \"high\": %s, \"rounds\": %d, \"state\": \"%s\"}",
        table[cell], name[cell], json(median("host")), json(median("tug")),
        json(known ? ratio(median("host"), median("tug")) : ""), json(known ? ratio(least("host"), most("tug")) : ""),
        json(known ? ratio(most("host"), least("tug")) : ""), nrounds, state())
}

FNR == 1 {
    delete column
    for (i = 1; i <= NF; i++)
        column[$i] = i
    next
}

{
    if (!(($1, $2) in number))
        number[$1, $2] = ++ncells
    cell = number[$1, $2]
    table[cell] = $1
    name[cell] = $2
    keep("host", $(column["host"]), $(column["host_wrong"]))
    keep("tug", $(column["tug"]), $(column["tug_wrong"]))
}

END {
    for (cell = 1; cell <= ncells; cell++) {
        show()
        print cell < ncells ? "," : ""
    }
}

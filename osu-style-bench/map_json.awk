# map_json.awk: the cells of map.json from CSV files of `versus` that compare host and tug, lower being better.
#
#   awk -F, -f map_json.awk FILE.csv...
#
# low and high: the range of the ratio, had the rounds met in other pairs.

function json(value) { return value == "" ? "null" : value }

function state() {
    if ($(column["tug_wrong"]) > 0)
        return "tug wrong"
    if ($(column["host_wrong"]) > 0)
        return "host wrong"
    if ($(column["tug"]) == "")
        return "tug failed"
    return $(column["host"]) == "" ? "host failed" : "measured"
}

function ratio(over, under) {
    return $(column[over]) == "" || $(column[under]) == "" ? "" : sprintf("%.4g", $(column[over]) / $(column[under]))
}

FNR == 1 {
    delete column
    for (i = 1; i <= NF; i++)
        column[$i] = i
    next
}

{
    s = state()
    known = s == "measured"
    printf("%s{\"table\": \"%s\", \"cell\": \"%s\", \"host\": %s, \"tug\": %s, \"ratio\": %s, \"low\": %s, \"high\": %s, \"state\": \"%s\"}",
        n++ ? ",\n" : "", $1, $2, json($(column["host"])), json($(column["tug"])), json(known ? ratio("host", "tug") : ""),
        json(known ? ratio("host_least", "tug_most") : ""), json(known ? ratio("host_most", "tug_least") : ""), s)
}

END { print "" }

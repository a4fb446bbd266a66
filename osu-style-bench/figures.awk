# figures.awk: rows of a Markdown table from one CSV file of report.sh.
#
#   awk -f figures.awk [-v only=KEY] [-v of="SERIES ..."] DATA.csv
#
# A column for each series with its median and range, and the ratio of `tug` to `host`. only: the row of that key, without
# its name and without a heading; of: these series.
BEGIN {
    FS = ","
    named["host"] = "host MPI"
    named["async"] = "host MPI, progress thread"
    named["tug"] = "Tugboat"
    named["openmpi"] = "Open MPI"
    named["caller"] = "the caller drives"
    named["thread"] = "the offload thread drives"
    nof = split(of, chosen, " ")
    for (i = 1; i <= nof; i++)
        wanted[chosen[i]] = 1
}

NR == 1 {
    for (i = 1; i <= NF; i++)
        at[$i] = i
    for (i = 5; i <= NF; i++)
        if ($i !~ /_(ratio|overlaps|failures|least|most|wrong)$/ && (nof == 0 || $i in wanted))
            series[++nseries] = $i
    if (only != "")
        next
    heading = "| case |"
    rule = "|---|"
    for (s = 1; s <= nseries; s++) {
        heading = heading " " (series[s] in named ? named[series[s]] : series[s]) " |"
        rule = rule "---|"
    }
    print heading (at["tug_ratio"] ? " ratio |" : "")
    print rule (at["tug_ratio"] ? "---|" : "")
    next
}

# Three digits, and thousands apart.
function number(v,    text, out) {
    text = v >= 100 ? sprintf("%.0f", v) : sprintf("%.3g", v)
    if (v < 10000)
        return text
    while (length(text) > 3) {
        out = " " substr(text, length(text) - 2) out
        text = substr(text, 1, length(text) - 3)
    }
    return text out
}
# Bytes and counts of a key as people write them.
function part(text) {
    if (text !~ /^[0-9]+$/ || text < 1024 || text % 1024)
        return text
    return text % 1048576 ? text / 1024 " Ki" : text / 1048576 " Mi"
}
function words(key,    n, parts, i, text) {
    n = split(key, parts, "/")
    for (i = 1; i <= n; i++)
        text = text (i > 1 ? " / " : "") part(parts[i])
    return text
}
function cell(name,    v, low, high) {
    v = $at[name]
    if (v == "")
        return "failed"
    low = at[name "_least"] ? $at[name "_least"] : ""
    high = at[name "_most"] ? $at[name "_most"] : ""
    return number(v) (low != "" && low != high ? " (" number(low) " to " number(high) ")" : "")
}

only == "" || $2 == only {
    line = only == "" ? "| " words($2) " |" : "|"
    for (s = 1; s <= nseries; s++)
        line = line " " cell(series[s]) " |"
    if (at["tug_ratio"])
        line = line ($at["tug_ratio"] == "" ? " |" : " x" number($at["tug_ratio"]) ($at["tug_overlaps"] == "yes" ? ", overlap" : "") " |")
    print line
}

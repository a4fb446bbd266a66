# report_facts.awk: what report_map.awk and report_page.awk know of their files: the facts given by -v, and the columns.
BEGIN {
    FS = ","
    n = split(facts, fact, ";")
    for (i = 1; i <= n; i++) {
        split(fact[i], part, "|")
        unit[part[1]] = part[2]
        title[part[1]] = part[3]
    }
}

FNR == 1 {
    delete column
    for (i = 1; i <= NF; i++)
        column[$i] = i
    next
}

function number(v) { return sprintf(v >= 100 ? "%.0f" : "%.3g", v) }

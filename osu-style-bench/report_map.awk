# report_map.awk: the ratios of a report as cells in colours, a row for each comparison; or, of one, in a sentence.
#
#   awk -f report_facts.awk -f report_map.awk -v facts="NAME|UNIT|TITLE;..." DATA.csv...
#   awk -f report_facts.awk -f report_map.awk -v sentence=1 DATA.csv
#
# Only cases that both the host and the tug have a value for. A cell says by a sign, too, what its colour says.
function class(ratio, overlaps) {
    if (ratio < 0.97)
        return overlaps ? "c3" : ratio < 0.5 ? "c1" : "c2"
    return ratio > 2 ? "c6" : ratio > 1.03 ? "c5" : "c4"
}

column["host"] && column["tug"] && $(column["tug_ratio"]) != "" {
    ratio = $(column["tug_ratio"]) + 0
    is = class(ratio, $(column["tug_overlaps"]) == "yes")
    count[is]++
    ncases++
    least = ncases == 1 || ratio < least ? ratio : least
    most = ncases == 1 || ratio > most ? ratio : most
    if (sentence)
        next
    if ($1 != row) {
        if (row != "")
            print "</td></tr>"
        row = $1
        printf "<tr><td class=\"name\"><a href=\"#%s\">%s</a></td><td>", row, title[row]
    }
    printf "<span class=\"cell %s\" title=\"%s: host %s, Tugboat %s %s\">%s</span> ", is, $2, number($(column["host"])),
        number($(column["tug"])), unit[$1], number(ratio)
}

END {
    if (!sentence) {
        if (row != "")
            print "</td></tr>"
    } else if (ncases == 0) {
        print column["host"] ? "Compare the curves: the host MPI is one of them." : "Compare the curves: there is no host MPI in this one."
    } else {
        ahead = count["c5"] + count["c6"]
        behind = count["c1"] + count["c2"]
        printf "With Tugboat it is faster in %d of %d cases and slower beyond the noise in %d: from %s to %s times as fast.\n", ahead,
            ncases, behind, number(least), number(most)
    }
}

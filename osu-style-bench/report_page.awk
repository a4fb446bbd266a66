# report_page.awk: the rows of the table of ratios, as HTML, from CSV files of `versus`.
#
#   awk -f report_facts.awk -f report_page.awk -v facts="NAME|UNIT|TITLE;..." -v beside=0|1 DATA.csv...
#
# A row for each key that both the host and the tug have a value for; beside: with Open MPI's value, where
# there is one, and how much better the tug is than that.
column["host"] && column["tug"] && $(column["tug_ratio"]) != "" {
    ratio = $(column["tug_ratio"])
    better = ratio >= 1 ? "good" : "bad"
    overlaps = $(column["tug_overlaps"]) == "yes" ? " <small>ranges overlap</small>" : ""
    printf("<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td class=\"%s\">&times;%s%s</td>",
        title[$1], $2, number($(column["host"])), number($(column["tug"])), unit[$1], better, number(ratio), overlaps)
    other = column["openmpi"] ? $(column["openmpi"]) : ""
    if (beside && other != "") {
        ratio /= $(column["openmpi_ratio"])
        printf("<td>%s</td><td class=\"%s\">&times;%s</td>", number(other), ratio >= 1 ? "good" : "bad", number(ratio))
    } else if (beside) {
        printf("<td></td><td></td>")
    }
    print "</tr>"
}

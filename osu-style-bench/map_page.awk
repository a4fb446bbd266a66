# map_page.awk: the tables of map.html from map.json; before them one that counts their cells.
#
#   awk -f map_fields.awk -f map_page.awk map.json

function note(name, list, count,   key) { # adds a name once to a list, in order
    key = list SUBSEP name
    if (key in seen)
        return
    seen[key] = 1
    names[list, ++count[list]] = name
}

is_cell() {
    table = text("table")
    key = text("cell")
    note(table, "tables", ntables)
    note(row_of(key), table " rows", nrows)
    note(column_of(key), table " columns", ncolumns)
    line[table, row_of(key), column_of(key)] = $0
    sort = kind()
    count[table, sort]++
    count["all", sort]++
}

function kind() {
    if (text("state") != "measured")
        return text("state") ~ /^host/ ? "host" : "slower"
    return is_red() ? is_surely_red() ? "slower" : "unsure" : number("ratio") > 1.03 ? "faster" : "alike"
}

function count_row(table,   k) {
    for (k = 1; k <= 5; k++)
        printf "<td>%d</td>", count[table, kinds[k]]
    print "</tr>"
}

# A table that counts cells, with a row for each of the others.
function counts(   t) {
    split("faster alike unsure slower host", kinds, " ")
    print "<table><tr><th>number of cells in</th><th>faster</th><th>alike</th><th>slower, within the noise</th><th>slower</th><th>host wrong or failed</th></tr>"
    for (t = 1; t <= ntables["tables"]; t++) {
        printf "<tr><td class=\"name\"><a href=\"#t%d\">%s</a></td>", t, names["tables", t]
        count_row(names["tables", t])
    }
    printf "<tr><td class=\"name\">all</td>"
    count_row("all")
    print "</table>"
}

function colour(   ratio) {
    ratio = number("ratio")
    if (is_red())
        return !is_surely_red() ? "c3" : ratio < 0.5 ? "c1" : "c2"
    return ratio > 2 ? "c6" : ratio > 1.03 ? "c5" : "c4"
}

function us(value) { return value == "" ? "not measured" : sprintf(value >= 100 ? "%.0f us" : "%.3g us", value) }

function cell(   class, shown) {
    class = "odd"
    shown = text("state")
    if (shown == "measured") {
        class = colour()
        shown = times(number("ratio"))
    } else if (shown ~ /^tug/) {
        class = "c1"
    }
    printf "<td class=\"%s\" title=\"host %s, Tugboat %s\">%s</td>", class, us(number("host")), us(number("tug")), shown
}

END {
    counts()
    for (t = 1; t <= ntables["tables"]; t++) {
        table = names["tables", t]
        rows = table " rows"
        columns = table " columns"
        printf "<h2 id=\"t%d\">%s</h2><div class=\"table\"><table><tr><th></th>", t, table
        for (c = 1; c <= ncolumns[columns]; c++)
            printf "<th>%s</th>", names[columns, c]
        print "</tr>"
        for (r = 1; r <= nrows[rows]; r++) {
            printf "<tr><td class=\"name\">%s</td>", names[rows, r]
            for (c = 1; c <= ncolumns[columns]; c++) {
                $0 = line[table, names[rows, r], names[columns, c]]
                if ($0 == "")
                    printf "<td></td>"
                else
                    cell()
            }
            print "</tr>"
        }
        print "</table></div>"
    }
}

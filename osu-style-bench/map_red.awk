# map_red.awk: lists the red cells of map.json by table and row, and how many there are.
#
#   awk -f map_fields.awk -f map_red.awk map.json


is_cell() {
    table = text("table")
    all[table]++
    if (!(table in red)) {
        red[table] = 0
        tables[++ntables] = table
    }
    state = text("state")
    if (state == "measured")
        shown = is_red() ? times(number("ratio")) (is_surely_red() ? "" : "~") : ""
    else
        shown = state
    if (state ~ /^host/)
        nhost[table]++
    else if (shown != "") {
        red[table]++
        row = row_of(text("cell"))
        if (!((table, row) in cells))
            rows[table, ++nrows[table]] = row
        cells[table, row] = cells[table, row] sprintf("  %s %s", column_of(text("cell")), shown)
    }
}

END {
    for (t = 1; t <= ntables; t++) {
        table = tables[t]
        printf "%s: %d of %d red%s\n", table, red[table], all[table],
            nhost[table] ? ", " nhost[table] " where the host is wrong or fails" : ""
        for (r = 1; r <= nrows[table]; r++)
            printf "  %-28s%s\n", rows[table, r], cells[table, rows[table, r]]
        nred += red[table]
        ncells += all[table]
    }
    printf "%d of %d cells are red; ~ is within the noise\n", nred, ncells
}

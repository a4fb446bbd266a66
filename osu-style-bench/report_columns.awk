# report_columns.awk: rows of a program that compares by itself, of one run or several, as `versus` would have written them.
#
#   awk -f report_columns.awk -v name=NAME -v pairs="COLUMN=SERIES ..." RUNS.csv
#
# A row for each key: the median of each column over the runs, how much better `tug` is than `host` where these are the
# two, and the range of each.
BEGIN {
    FS = ","
    npairs = split(pairs, pair, " ")
    for (p = 1; p <= npairs; p++) {
        split(pair[p], half, "=")
        column[p] = half[1]
        series[p] = half[2]
    }
    ratio = npairs == 2 && pairs ~ /=host .*=tug/
}

/^#/ || NF < 2 { next }

/key:/ {
    for (i = 1; i <= NF; i++) {
        is_key[i] = $i ~ /^key:/
        sub(/^[a-z]+:/, "", $i)
        at[$i] = i
    }
    next
}

{
    key = ""
    for (i = 1; i <= NF; i++)
        if (is_key[i])
            key = key (key == "" ? "" : "/") $i
    if (!(key in n))
        keys[++nkeys] = key
    n[key]++
    for (p = 1; p <= npairs; p++) {
        value = $at[column[p]]
        for (i = n[key]; i > 1 && sample[key, p, i - 1] + 0 > value + 0; i--)
            sample[key, p, i] = sample[key, p, i - 1]
        sample[key, p, i] = value
    }
}

function median(key, p,    low, high) {
    low = sample[key, p, int((n[key] + 1) / 2)]
    high = sample[key, p, int(n[key] / 2) + 1]
    return low == high ? low : (low + high) / 2
}
function overlaps(key) {
    return n[key] > 1 && sample[key, 1, 1] + 0 <= sample[key, 2, n[key]] + 0 &&
        sample[key, 2, 1] + 0 <= sample[key, 1, n[key]] + 0
}

END {
    line = "title,key,value,better"
    for (p = 1; p <= npairs; p++)
        line = line "," series[p]
    if (ratio)
        line = line ",tug_ratio,tug_overlaps"
    for (p = 1; p <= npairs; p++)
        line = line "," series[p] "_least," series[p] "_most"
    print line
    for (k = 1; k <= nkeys; k++) {
        key = keys[k]
        line = name "," key ",,"
        for (p = 1; p <= npairs; p++)
            line = line "," median(key, p)
        if (ratio)
            line = line "," median(key, 2) / median(key, 1) "," (overlaps(key) ? "yes" : "no")
        for (p = 1; p <= npairs; p++)
            line = line "," sample[key, p, 1] "," sample[key, p, n[key]]
        print line
    }
}

# papers_llcl.awk: medians over the runs of llcl_reads, for each driver, number of threads and size.
#
#   awk -F, -f papers_llcl.awk RUNS.csv
#
# RUNS.csv: the rows of all runs, with what drives in that run in front: caller, thread, host. Of each value the median of the
# runs' medians, and of the first three the lowest and the highest sample of all runs. to_host: how many times the host's
# latency it takes, the median over rounds, each of which has one run of every driver.
$5 !~ /^[0-9]+$/ { next }

{
    key = $1 "," $3 "," $4 "," $5
    if (!(key in n)) keys[++nkeys] = key
    round = ++n[key]
    for (c = 6; c <= 18; c += 3) {
        sample[key, c, round] = $c
        if (round == 1 || $(c + 1) < low[key, c]) low[key, c] = $(c + 1)
        if (round == 1 || $(c + 2) > high[key, c]) high[key, c] = $(c + 2)
    }
    if ($1 == "host") host[$4, $5, round] = $6
}

# The median of the numbers among a row's values. Empty: none is a number.
function median(key, c,    i, k, m, v, sorted) {
    for (i = 1; i <= n[key]; i++) {
        v = sample[key, c, i]
        if (v !~ /^-?[0-9.]/) continue
        for (k = ++m; k > 1 && sorted[k - 1] > v + 0; k--) sorted[k] = sorted[k - 1]
        sorted[k] = v + 0
    }
    return m == 0 ? "" : (sorted[int((m + 1) / 2)] + sorted[int(m / 2) + 1]) / 2
}

END {
    print "way,transport,threads,bytes,latency,latency_low,latency_high,overhead,overhead_low,overhead_high,rate,rate_low,rate_high,taken,lost,to_host"
    for (i = 1; i <= nkeys; i++) {
        key = keys[i]
        split(key, part, ",")
        for (round = 1; round <= n[key]; round++) {
            base = host[part[3], part[4], round]
            sample[key, "to_host", round] = base > 0 ? sample[key, 6, round] / base : ""
        }
        line = key
        for (c = 6; c <= 12; c += 3) line = line "," median(key, c) "," low[key, c] "," high[key, c]
        print line "," median(key, 15) "," median(key, 18) "," median(key, "to_host")
    }
}

# shellcheck shell=bash disable=SC2154
# papers_gas.sh: the section of papers.sh on Endo and Taura's relocatable global arrays (the slides' figure).
#
# gas_NAME.csv has the rows of gas_pages: case, bytes of a page, a get with the place remembered, a get that asks the
# home (nanoseconds), their ratio, own (microseconds). gas_users.csv has the number of processes, and the rows of gas_users.

gas_measure() {
    local options=(--sizes "$(by_effort 64,4K 64,512,4K,32K,256K 64,256,1K,4K,16K,64K,256K,1M)" --samples "$(by_effort 1 7 31)"
        --seconds "$(by_effort 0.001 0.01 0.1)" --owns "$(by_effort 3 20 100)")
    MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self rows 3 gas_pages "${options[@]}" >"$out/data/gas_tcp.csv"
    rows 3 gas_pages "${options[@]}" >"$out/data/gas_shm.csv"
    local ranks
    for ranks in 2 3; do
        MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self rows $ranks gas_users --samples "$(by_effort 1 $((ranks == 2 ? 7 : 3)) 11)" --phases "$(by_effort 1 4 4)" \
            --pages "$(by_effort 1 8 8)" --accesses "$(by_effort 30 4000 10000)" | sed "s/^/$ranks,/"
    done >"$out/data/gas_users.csv"
}

# gas_draw WHAT YLABEL CURVES: a panel for each transport. CURVES is gnuplot's, of the file `data`.
gas_draw() {
    gnuplot <<GNUPLOT
set terminal svg size 1100,460 dynamic font 'sans-serif,13'
set output '$out/data/gas_$1.svg'
set datafile separator ','
set multiplot layout 1,2
set logscale x 2
set logscale y 10
set format x '%.0b%B'
set format y '%g'
set xlabel 'bytes of a page'
set ylabel '$2'
set key below maxcols 2 font ',10'
set grid
of(name, value) = strcol(1) eq name ? value : NaN
do for [name in 'tcp shm'] {
    set title name eq 'tcp' ? 'TCP' : 'shared memory'
    data = '$out/data/gas_'.name.'.csv'
    plot $3
}
unset multiplot
GNUPLOT
}

# gas_claims NAME TITLE
gas_claims() {
    awk -F, -v title="$2" 'FNR > 1 {
            ratio = $4 / $3
            if (!($1 in low) || ratio < low[$1]) low[$1] = ratio
            if (ratio > high[$1]) high[$1] = ratio
            if (ratio >= 10) ten[$1] = ten[$1] " " $2
            if (!least) least = $2
            most = $2
            get[$1, $2] = $3; own[$1, $2] = $6
        }
        function span(name) { return sprintf("x%.2f to x%.2f", low[name], high[name]) }
        function cost(name) { return sprintf("%.2f &#181;s at %d bytes, %.2f at %d", own[name, least], least, own[name, most], most) }
        # From how many gets on is it less work to own the page first? Copies differ by half without a reason.
        function pays(bytes,  gain) {
            gain = get["distinct", bytes] - get["owner=reader", bytes]
            if (gain < get["owner=reader", bytes] / 2) return sprintf("at %d bytes at no number (nearly the same)", bytes)
            return sprintf("at %d bytes from %d gets on", bytes, int(own["distinct", bytes] * 1e3 / gain) + 1)
        }
        END {
            printf "<li>%s, three processes: a get is %s faster with the cache; ten times, as in the paper, at%s bytes.</li>\n", title,
                span("distinct"), "distinct" in ten ? ten["distinct"] : " no number of"
            printf "<li>%s, controls: owner = home %s; owner = reader %s (it never forgets its own pages).</li>\n", title,
                span("owner=home"), span("owner=reader")
            printf "<li>%s, own: three processes %s; owner = home %s; owner = reader %s.</li>\n", title, cost("distinct"),
                cost("owner=home"), cost("owner=reader")
            printf "<li>%s, own and then local gets take less time than remote gets: %s, %s.</li>\n", title, pays(least),
                pays(most)
        }' "$out/data/gas_$1.csv"
}

gas_users_table() {
    printf '<table>\n<tr><th>processes</th><th>program</th><th>own, ms</th><th>gets and puts alone, ms</th><th>automatic, ms</th><th>automatic / the best by hand</th><th>the fastest</th></tr>\n'
    awk -F, '$2 + 0 {
            split("sweep,hash table,graph walk", program, ","); split("own,gets and puts alone,automatic", way, ",")
            best = 3
            for (c = 4; c <= 5; c++) if ($c < $best) best = c
            printf "<tr><td>%d</td><td>%s</td><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>x%.2f</td><td>%s</td></tr>\n", $1, program[$2],
                $3 / 1e3, $4 / 1e3, $5 / 1e3, $5 / ($3 < $4 ? $3 : $4), way[best - 2]
        }' "$out/data/gas_users.csv"
    printf '</table>\n<ul>\n'
    awk -F, '$2 + 0 {
            split("sweep,hash table,graph walk", program, ",")
            hand = $3 < $4 ? $3 : $4
            within[$1] = within[$1] ($5 <= 1.2 * hand ? (within[$1] == "" ? "" : ", ") program[$2] : "")
        }
        END { for (ranks = 2; ranks <= 3; ranks++)
            printf "<li>%d processes, automatic moves: within 20 %% of the best by hand: %s.</li>\n", ranks, within[ranks] == "" ? "none" : within[ranks] }' \
        "$out/data/gas_users.csv"
    printf '</ul>\n'
}

gas() {
    printf '<h2>Endo and Taura: relocatable global arrays</h2>\n<h3>Latency of a get by the size of a page, and what a move costs</h3>\n'
    gas_measure
    gas_draw get 'get, microseconds' "\
        data using 2:(of('distinct', column(4) / 1e3)) skip 1 with linespoints pt 7 ps 0.5 title 'three processes, without cache', \
        data using 2:(of('distinct', column(3) / 1e3)) skip 1 with linespoints pt 7 ps 0.5 title 'three processes, with cache', \
        data using 2:(of('owner=home', column(4) / 1e3)) skip 1 with linespoints pt 1 ps 0.5 title 'owner = home, without', \
        data using 2:(of('owner=home', column(3) / 1e3)) skip 1 with linespoints pt 1 ps 0.5 title 'owner = home, with', \
        data using 2:(of('owner=reader', column(3) / 1e3)) skip 1 with linespoints pt 2 ps 0.5 title 'owner = reader', \
        data using 2:(of('distinct', column(4) / 1e4)) skip 1 with lines dt 2 lc rgb 'black' title 'paper: a tenth of without'"
    figure gas_get.svg 'Latency of a get of a whole page, with and without the cache of metadata. Dashed: the factor of ten that the paper prints, from this curve without cache.'
    gas_draw own 'own, microseconds' "for [name in 'distinct owner=home owner=reader'] \
        data using 2:(of(name, column(6))) skip 1 with linespoints pt 7 ps 0.5 title name"
    figure gas_own.svg 'Time of tug_array_own() of one page. The paper did not measure it.'
    printf '<ul>\n'
    gas_claims tcp TCP
    gas_claims shm 'shared memory'
    printf '</ul>\n<p>The same three programs with pages moved to their users by hand, not at all, and by themselves, over TCP. Where three processes
take part, home, owner and user are three for a third of the pages whenever the blocks go round:</p>\n'
    gas_users_table
    printf '<p>The same: requester, home and owner are three processes, and the requester gets whole pages again and again. Not the same: the
paper has three nodes of FX10. With the cache a get is there one remote read, which the card answers; the question to the home is answered by
software, so it weighs as much as ten reads and more. Over TCP software answers both, one message and its answer each: a factor of two is
to be expected, and less where the data take longer than the question. In shared memory a get with the cache is a copy without any message:
the factor is to be larger than the paper&#8217;s until the copy itself takes long. The paper gets the same page; here the
requester gets eight pages in turn, and remembers too few places where the cache is to be off. The slides print the factor, and no
numbers at the curves. The three processes share %s cores, so that absolute times do not compare.</p>\n' "$(nproc)"
}

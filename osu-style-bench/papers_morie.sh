# shellcheck shell=bash disable=SC2154
# papers_morie.sh: the section of papers.sh on the persistent broadcast of Morie et al.
#
# equations.csv is what papers_morie.awk prints. nodes12xPPN.csv has the simulations: bytes, the paper's relay (one engine), our
# relay, two-phase, our relay down one chain, a blocking broadcast (GB/s). measured.csv has what was run here: nodes, ranks
# a node, way, bytes, predicted and measured microseconds.

morie_equations() {
    awk -f "$here/papers_morie.awk" >"$out/data/equations.csv"
    gnuplot <<GNUPLOT
set terminal svg size 900,600
set output '$out/data/equations.svg'
set datafile separator ','
set title 'equations 1 to 4; dashed: peaks that the paper states'
set logscale x 2
set format x '%.0b %BB'
set xlabel 'message'
set ylabel '1000 MiB/s'
set key outside right
set grid
set yrange [0:]
scale = 1e9 / 1048576e3
plot for [ppn=2:4] '$out/data/equations.csv' using (\$1 == ppn ? \$2 : 1/0):(\$6 * scale) with linespoints lw 2 lc 2*ppn-3 \
        title sprintf('relay, %d a node', ppn), \
    for [ppn=2:4] '$out/data/equations.csv' using (\$1 == ppn ? \$2 : 1/0):(\$7 * scale) with linespoints lw 2 lc 2*ppn-2 \
        title sprintf('two-phase, %d a node', ppn), \
    9 with lines dt 2 lc 1 notitle, 4.5 with lines dt 2 lc 3 notitle, 3 with lines dt 2 lc 5 notitle, \
    22 with lines dt 2 lc 2 notitle, 16 with lines dt 2 lc 6 notitle
GNUPLOT
    printf '<h3>Figure 10: equations 1 to 4</h3>\n'
    figure equations.svg 'Bandwidth by the paper&#8217;s equations and parameters. Dashed: the peaks that its text states.'
    printf '<ul>\n'
    sed -n 's/^# \(.*\)/<li>\1<\/li>/p' "$out/data/equations.csv"
    awk -F, '/^[234],/ { if ($7 <= $6) behind[$1] = $2; if ($2 > last) last = $2 }
        END { for (ppn = 2; ppn <= 4; ppn++)
            printf "<li>%d ranks a node: two-phase is faster than the relay %s.</li>\n", ppn,
                behind[ppn] ? (behind[ppn] < last ? sprintf("above %d bytes", behind[ppn]) : "at no size") : "at every size" }' \
        "$out/data/equations.csv"
    printf '</ul>\n<p>The same: equations, parameters, segments. Not the same: the paper does not say which GB it means, nor that the
second phase copies a third of the message to each rank. Both are read here in the way that gives its peaks.</p>\n'
}

# morie_model PPN OPTIONS: the simulation, as "bytes algorithm phases seconds".
morie_model() {
    local ppn=$1
    shift
    "$tugboat" model --nodes 12 --ppn "$ppn" --torus 2x2x3 --parameters fx100 --size 1K:256M --simulate --json "$@" |
        awk -F'"' '
            function value(name) { return substr($0, index($0, "\"" name "\": ") + length(name) + 4) + 0 }
            /"bytes"/ { bytes = value("bytes") }
            /"algorithm"/ { printf "%d %s %s %.9g\n", bytes, $4, $8, value("simulated_s") }'
}

# The blocking broadcast is the textbook's: down a binomial tree, the whole message at each step, and out of the node's
# memory when it is there.
morie_simulate() { # PPN
    { morie_model "$1"; morie_model "$1" --algorithm binomial --segment 256M | sed 's/ binomial / blocking /'; } |
        awk '{ rate[$1, $2 " " $3] = $1 / $4 / 1e9; if (!seen[$1]++) sizes[++n] = $1 }
            function of(way) { return (bytes, way) in rate ? sprintf("%.4f", rate[bytes, way]) : "" }
            END {
                print "bytes,one_engine,relay,two_phase,chain,blocking"
                for (i = 1; i <= n; i++) {
                    bytes = sizes[i]
                    blocking = of("blocking two-phase")
                    printf "%d,%s,%s,%s,%s,%s\n", bytes, of("trinary one-engine"), of("trinary relay"), of("trinary two-phase"),
                        of("chain relay"), blocking == "" ? of("blocking relay") : blocking
                }
            }'
}

# morie_draw PPN: and what the paper measured, relay and MPI_Bcast.
morie_draw() {
    local relay=(0 0 9 5 3.5) blocking=(0 0 9 7 7)
    gnuplot <<GNUPLOT
set terminal svg size 900,420
set output '$out/data/nodes12x$1.svg'
set datafile separator ','
set title '12 nodes x $1 ranks, simulated'
set logscale x 2
set format x '%.0b %BB'
set xlabel 'message'
set ylabel 'GB/s'
set key outside right
set grid
set yrange [0:]
names = "'paper’s relay (one engine)' 'our relay, trinary x3' 'two-phase, trinary x3' 'our relay, one chain' 'blocking, binomial'"
plot for [c=2:6] '$out/data/nodes12x$1.csv' using 1:c skip 1 with linespoints pt 7 ps 0.4 lc c title word(names, c - 1), \
    '$out/data/nodes12x1.csv' using 1:3 skip 1 with lines lc 'gray' title 'our relay, 1 a node', \
    '$out/data/nodes12x1.csv' using 1:6 skip 1 with lines lc 'gray' dt 3 title 'blocking, 1 a node', \
    ${relay[$1]} with lines dt 2 lc 2 title 'paper, measured: relay', \
    ${blocking[$1]} with lines dt 2 lc 6 title 'paper, measured: MPI\\_Bcast'
GNUPLOT
}

# morie_claims PPN: of the paper's ways, of ours, and of the paper's peak, by the largest message.
morie_claims() {
    awk -F, -v ppn="$1" 'BEGIN { split("0 9 4.5 3", stated, " ") }
        NR > 1 {
            if ($4 <= $2) crosses = $1
            if ($2 > peak) peak = $2
            bytes = $1; one = $2; ours = $3; two = $4; blocking = $6
        }
        END {
            printf "<li>%d ranks a node, %d MiB: two-phase is x%.2f as fast as the paper&#8217;s relay, ", ppn, bytes / 1048576, two / one
            if (crosses) printf "and faster above %d bytes; ", crosses
            else printf "and faster at every size; "
            printf "x%.2f as fast as the blocking broadcast. ", two / blocking
            printf "Our relay is x%.2f as fast as two-phase.</li>\n", ours / two
            printf "<li>%d ranks a node: the paper&#8217;s relay comes to %.2f thousand MiB/s; its equation states %s: %+.1f %%.</li>\n",
                ppn, peak * 1e9 / 1048576e3, stated[ppn], (peak * 1e9 / 1048576e3 / stated[ppn] - 1) * 100
        }' "$out/data/nodes12x$1.csv"
}

# The paper's figure 7: what several ranks a node cost.
morie_shares() {
    local ppn
    for ppn in 2 3 4; do
        paste -d, <(tail -n 1 "$out/data/nodes12x1.csv") <(tail -n 1 "$out/data/nodes12x$ppn.csv") |
            awk -F, -v ppn=$ppn '{ printf "<li>%d ranks a node against one, %d MiB: our relay x%.2f, two-phase x%.2f, the blocking broadcast x%.2f.</li>\n",
                ppn, $1 / 1048576, $9 / $3, $10 / $3, $12 / $6 }'
    done
}

morie_nodes12() {
    local ppn
    printf '<h3>Figures 6 and 7: 12 nodes</h3>\n'
    for ppn in 1 2 3 4; do morie_simulate $ppn >"$out/data/nodes12x$ppn.csv"; done
    for ppn in 2 3 4; do
        morie_draw $ppn
        figure nodes12x$ppn.svg "Bandwidth of schedules on the simulated machine. Dashed: what the paper measured with $ppn ranks a node."
    done
    printf '<ul>\n'
    for ppn in 2 3 4; do morie_claims $ppn; done
    morie_shares
    printf '</ul>\n<p>The same: nodes, ranks a node, and the parameters of the paper&#8217;s section 6.1 on a torus of 2x2x3, which has its 4 hops.
The paper&#8217;s relay (<code>TUGBOAT_PHASES=one-engine</code>) is compiled as the paper describes it: one rank of a node, the root of its
node too, holds the three pipelines, and one queue gives each segment to each other rank. Not the same: the paper measured, this is
simulated. On the root&#8217;s node two-phase has but one phase, since the message is there from the start: the others take it while it is
sent on. The blocking broadcast is the textbook&#8217;s, since the paper does not say how that of Fujitsu works.</p>
<p>Why ours turns out otherwise: the paper concludes that the relay has to give way to two phases, because one engine copies for all ranks of
a node. Where that holds, two phases win here as well. In our relay each rank copies for itself, as in two-phase, and while further segments
arrive: the copies are hidden, and nothing is left for a second phase to gain (<code>tugboat model --parameters fx100</code>).</p>\n'
}

# ---- run here ----

# morie_run NODES RANKS: two ranks a node over TCP; what the library says of itself when its runs have settled.
morie_run() {
    local way
    for way in relay two-phase one-engine; do
        MPIR_CVAR_NUM_CLIQUES=$1 UCX_TLS=tcp,self TUGBOAT_VERBOSE=info TUGBOAT_PHASES=$way TUGBOAT_COLLECTIVES=on LD_PRELOAD=$build/lib/libtugboat.so \
            timeout 60 "$mpiexec" -n "$2" "$bench/bcast_init_sizes" --csv --sizes "$(by_effort 64K 64K,1M 64K,256K,1M,4M)" \
            --seconds "$(by_effort 0.5 1 2)" 2>&1 |
            awk -v nodes="$1" -v way=$way '
                /broadcast of [0-9]+ bytes by .*measured/ {
                    match($0, /of [0-9]+ bytes by [a-z]+/); split(substr($0, RSTART, RLENGTH), w, " ")
                    match($0, /predicted [0-9.]+/); predicted = substr($0, RSTART + 10, RLENGTH - 10)
                    match($0, /measured [0-9.]+/); measured = substr($0, RSTART + 9, RLENGTH - 9)
                    if (!(w[2] in row)) sizes[++n] = w[2]
                    if (!(w[2] in row) || /: taken$/)
                        row[w[2]] = sprintf("%d,2,%s,%d,%.1f,%.1f", nodes, w[5] " " way, w[2], predicted, measured)
                }
                END { for (i = 1; i <= n; i++) print row[sizes[i]] }'
    done
}

morie_measured() {
    local nodes
    printf '<h3>The same ways on this machine</h3>\n'
    echo nodes,ppn,way,bytes,predicted_us,measured_us >"$out/data/measured.csv"
    for nodes in $(by_effort 2 '2 3' '2 3 4'); do morie_run "$nodes" $((2 * nodes)) >>"$out/data/measured.csv"; done
    printf '<table>\n<tr><th>nodes x ranks</th><th>way</th><th>bytes</th><th>predicted, &#181;s</th><th>measured, &#181;s</th><th>ratio</th></tr>\n'
    awk -F, 'NR > 1 { printf "<tr><td>%d x %d</td><td>%s</td><td>%d</td><td>%.1f</td><td>%.1f</td><td>%.2f</td></tr>\n",
        $1, $2, $3, $4, $5, $6, $5 / $6 }' "$out/data/measured.csv"
    printf '</table>\n<ul>\n'
    # Of the largest message that all three ways have settled for.
    awk -F, 'NR > 1 { split($3, w, " "); us[$1, $4, w[2]] = $6; if (++ways[$1, $4] == 3 && $4 > most[$1]) most[$1] = $4 }
        END { for (n = 2; n <= 4; n++) if (n in most)
            printf "<li>%d nodes x 2 ranks, %d bytes: two-phase takes %.2f of the time of the paper&#8217;s relay, our relay %.2f.</li>\n", n, most[n],
                us[n, most[n], "two-phase"] / us[n, most[n], "one-engine"], us[n, most[n], "relay"] / us[n, most[n], "one-engine"] }' \
        "$out/data/measured.csv"
    printf '</ul>\n<p>The same: the schedules. Not the same: nodes are emulated, over TCP, on %s cores, and the engine that copies is a
processor, which also carries the messages between nodes; with two ranks a node it copies no more than the other would.</p>\n' "$(nproc)"
}

morie() {
    printf '<h2>Morie et al.: persistent broadcast</h2>\n'
    morie_equations
    morie_nodes12
    morie_measured
}

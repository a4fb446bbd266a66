# shellcheck shell=bash disable=SC2154
# papers_acp.sh: the section of papers.sh on ACP's basic layer over InfiniBand, figures 4 and 5, tables 1 to 3, and what the paper
# does with starter memory and colours.
#
# acp.csv has the rows of acp_latency: op, bytes, microseconds, the host's half of a ping-pong, and a ratio.
# acp_memory.csv has what `tugboat info --memory` says: ranks, ranks in use, and bytes: the layer below with its
# context, ACP, queue pairs. acp_parts.csv has parts of that for a million ranks: name, the paper's bytes, those here, and how
# many of what size. acp_start.csv has the rows of acp_start: are keys exchanged, ranks, microseconds of acp_init and
# of the first and the second put to a rank. acp_colors.csv: which memory, bytes that two ports had of it.

acp_draw() { # NAME UNIT VALUE: in which US is the time
    gnuplot <<GNUPLOT
set terminal svg size 800,400 dynamic font 'sans-serif,13'
set output '$out/data/acp_$1.svg'
set datafile separator ','
set datafile missing NaN
set logscale xy
set format x '%.0s%c'
set format y '%g'
set xlabel 'bytes'
set ylabel '$2'
set key outside right
set grid
plot for [op in 'put get third'] '$out/data/acp.csv' using (strcol(1) eq op ? column(2) : NaN):(${3//US/column(3)}) skip 1 \\
    with linespoints pt 7 ps 0.5 title op, '' using (strcol(1) eq 'put' ? column(2) : NaN):(${3//US/column(4)}) skip 1 \\
    with lines dt 2 lc rgb 'black' title 'host, ping-pong'
GNUPLOT
}

# Ratios to the ping-pong at both ends, and the sizes at which a put is not slower.
acp_claims() {
    awk -F, 'FNR > 1 && $1 != "third" {
            if (!($1 in first)) first[$1] = sprintf("%d bytes x%.2f", $2, $3 / $4)
            last[$1] = sprintf("%d bytes x%.2f", $2, $3 / $4)
            if ($3 <= $4) fast[$1] = fast[$1] " " $2
        }
        $1 == "put" { put[$2] = $3 }
        $1 == "third" { third = sprintf("%d bytes: a third-party copy takes %.2f of a put", $2, $3 / put[$2]) }
        END {
            for (i = 1; i <= 2; i++) {
                op = i == 1 ? "put" : "get"
                printf "<li>Time of a %s against the ping-pong: %s, %s; not slower at:%s bytes.</li>\n", op, first[op], last[op],
                    fast[op] == "" ? " no number of" : fast[op]
            }
            printf "<li>%s.</li>\n", third
        }' "$out/data/acp.csv"
    awk -F, 'FNR > 1 { printf "<li>Commands of 8 bytes: %.2f M/s at first, %.2f M/s in a long run.</li>\n", $2, $3 }' "$out/data/acp_rate.csv"
}

acp_memory_rows() {
    local ranks active
    echo ranks,active,llcl,acp,queues
    for ranks in 16 64 256 1024 4096 16384 65536 262144 1000000; do
        for active in 1024 $ranks; do
            "$tugboat" info --memory $ranks,$((active < ranks ? active : ranks)) | awk -v ranks=$ranks -v active=$active '
                /^all of it/ { llcl = $4 }
                /^and if ACP runs/ { acp = $5 }
                /^  connected peers / { queues = $3 }
                END { printf "%d,%d,%.0f,%.0f,%.0f\n", ranks, active < ranks ? active : ranks, llcl, acp, queues }'
        done
    done | uniq
}

# The paper's parts of table 3, and tables 1 and 2: its entries of the two queues have 120 bytes, 4096 of them each.
acp_parts_rows() {
    echo part,paper,bytes,entries
    "$tugboat" info --memory 1000000,1024 | awk '
        function row(name, paper) { sub(/^ +/, ""); match($0, /  +[0-9]+  /); text = substr($0, RSTART + RLENGTH)
            match($0, /[0-9]+  /); printf "%s,%d,%d,%s\n", name, paper, substr($0, RSTART, RLENGTH), text }
        /^  ACP commands / { row("command queue (table 1)", 4096 * 120) }
        /^  others. ACP commands / { row("commands of others (table 1)", 4096 * 120) }
        /^  registered memory / { row("registered memory", 40 * 255) }
        /^  others. ACP keys / { row("others&#8217; registered memory", 10e6) }
        /^  who has a table / { row("who has a table of whom", 4e6) }
        /^  connected peers / { row("queue pairs", 160e6) }
        /^  starter keys/ { row("starter memory&#8217;s keys", 12e6) }'
}

acp_parts() {
    acp_parts_rows >"$out/data/acp_parts.csv"
    printf '<h3>Tables 1 to 3: commands, addresses, and the parts of the memory with a million ranks</h3>\n'
    printf '<table>\n<tr><th>part</th><th>paper, KB</th><th>here, KB</th><th>here / paper</th><th>of what</th></tr>\n'
    awk -F, 'FNR > 1 { printf "<tr><td>%s</td><td>%.1f</td><td>%.1f</td><td>x%.2f</td><td>%s</td></tr>\n", $1, $2 / 1e3, $3 / 1e3,
        $3 / $2, $4 }' "$out/data/acp_parts.csv"
    printf '</table>\n'
    # The drawing of <acp.h>: rank, colour, key, offset.
    sed -n 's/^ \* *\([0-9]*\) bits  *\([0-9]*\)  *\([0-9]*\) bits  *\([0-9]*\) bits.*/\1,\2,\3,\4/p' "$here/../include/acp.h" >"$out/data/acp_address.csv"
    awk -F, '{ printf "<ul>\n<li>A global address has %d bits of rank, %d of colour, %d of key, %d of offset. Paper: 21, 1, 8, 34.</li>\n</ul>\n", $1, $2, $3, $4 }' \
        "$out/data/acp_address.csv"
    printf '<p>The same: what a process keeps for commands, addresses and peers, and its number of entries. Not the same: commands here lie on cache
lines of their own, so that two threads do not share one; tables and pairs are kept for the 1024 others in use; a key has the names
of four ports, where the paper has an address and a number.</p>\n'
}

acp_memory() {
    printf '<h3>Table 3: memory of a process</h3>\n'
    acp_memory_rows >"$out/data/acp_memory.csv"
    gnuplot <<GNUPLOT
set terminal svg size 800,400 dynamic font 'sans-serif,13'
set output '$out/data/acp_memory.svg'
set datafile separator ','
set datafile missing NaN
set logscale xy
set format x '%.0s%c'
set format y '%g'
set xlabel 'ranks'
set ylabel 'MB of a process'
set key outside right
set grid
all(in_use, value) = in_use ? value / 1e6 : NaN
plot '$out/data/acp_memory.csv' using 1:(all(column(2) <= 1024, column(3) + column(4))) skip 1 with linespoints pt 7 ps 0.5 title '1024 in use', \\
    '' using 1:(all(column(1) == column(2), column(3) + column(4))) skip 1 with linespoints pt 7 ps 0.5 title 'all in use', \\
    '' using 1:(all(column(1) == 1e6, 186e6)) skip 1 with points pt 2 lc rgb 'black' title 'paper'
GNUPLOT
    figure acp_memory.svg 'Memory of one process by ranks, as <code>tugboat info --memory</code> computes it: with queue pairs to 1024 others, and to all.'
    printf '<ul>\n'
    awk -F, '$1 == 1000000 {
            total = $3 + $4
            printf "<li>1000000 ranks, %d of them in use: %.1f MB, %.1f MB of them queue pairs: x%.2f of the paper&#8217;s 186 MB.</li>\n", $2,
                total / 1e6, $5 / 1e6, total / 186e6
        }' "$out/data/acp_memory.csv"
    printf '</ul>\n<p>The same: a million ranks, InfiniBand, tables of the registered memory of at most 1024 others. Not the same: the paper has a
queue pair to each rank from the start and counts 160 bytes for it; here a pair is made with its first use, and its queues, which the driver
allocates, are counted too. The figures are computed, as in the paper: no job has a million ranks here.</p>\n'
}

# ---- starter memory and colours ----

acp_start_rows() {
    local ranks exchange
    echo exchange,ranks,init_us,first_us,second_us
    for ranks in $(by_effort 2 '2 4 8' '2 4 8'); do
        for exchange in off on; do
            MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self TUGBOAT_ACP_KEYS=$([ $exchange = on ] && echo 1024 || echo 1) rows "$ranks" acp_start --samples "$(by_effort 1 21 51)" |
                sed -n '2s/,[^,]*$//p'
        done
    done
}

acp_start() {
    printf '<h3>Starter memory: keys exchanged at the start, or read</h3>\n'
    acp_start_rows >"$out/data/acp_start.csv"
    printf '<table>\n<tr><th>ranks</th><th>acp_init, ms</th><th>with exchange</th><th>first put, &#181;s</th><th>with exchange</th><th>second put, &#181;s</th><th>with exchange</th><th>the first reads for, &#181;s</th><th>with exchange</th></tr>\n'
    awk -F, 'FNR > 1 { init[$1, $2] = $3 / 1e3; first[$1, $2] = $4; second[$1, $2] = $5; ranks[$2] = $2 }
        END { for (r = 2; r <= 64; r *= 2) if (r in ranks)
            printf "<tr><td>%d</td><td>%.2f</td><td>%.2f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td></tr>\n", r,
                init["off", r], init["on", r], first["off", r], first["on", r], second["off", r], second["on", r],
                first["off", r] - second["off", r], first["on", r] - second["on", r] }' "$out/data/acp_start.csv"
    printf '</table>\n<p>The same: in the paper, too, the keys of all starter memory are exchanged when the layer begins, here up
to 1024 ranks (<code>TUGBOAT_ACP_KEYS</code>). Not the same: with more ranks a process gets the keys of 1024 of them, and the first put to
another reads its key from one of these. ACP begins and ends again and again in one job over TCP, so that no time is that of a connection; all ranks share
%s cores.</p>\n' "$(nproc)"
}

# By what rails.sh and the counters of TUGBOAT_STATS say.
acp_colors() {
    local shared=verbs.llcl_large.rails own=verbs.acp_interface.rails which
    printf '<h3>Colours: two ports</h3>\n'
    if ! verbs_log $shared >/dev/null || ! verbs_log $own >/dev/null; then
        verbs_missing
        return
    fi
    echo memory,first,second >"$out/data/acp_colors.csv"
    for which in $shared $own; do
        verbs_log $which | awk -v which=$which '/bytes of shares by the first device/ { printf "%s,%d,%d\n", which, $1, $(NF - 3) }'
    done >>"$out/data/acp_colors.csv"
    printf '<table>\n<tr><th>operations</th><th>bytes by the first port</th><th>by the second</th></tr>\n'
    awk -F, 'FNR > 1 { printf "<tr><td>%s</td><td>%d</td><td>%d</td></tr>\n",
        $1 ~ /large/ ? "long ones that name no port" : "short ones on memory of the second colour", $2, $3 }' "$out/data/acp_colors.csv"
    printf '</table>\n<p>The same: a process with two ports has two colours (<code>acp_colors()</code>), and an operation goes by the port of its
memory&#8217;s colour. Not the same: the two ports are two devices of Soft-RoCE in a virtual machine, of which rank 0 counts the bytes that they had
(<code>TUGBOAT_STATS=1</code>, shares of long operations and short ones that name the port); no time is measured, as both share one
processor. What is long is cut into a share for each port, whatever its colour.</p>\n'
}

acp() {
    printf '<h2>ACP: the basic layer</h2>\n<h3>Figures 4 and 5</h3>\n'
    MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self rows 3 acp_latency --sizes "$(by_effort 8,64K 8,64,512,4K,32K,256K,1M 8,64,512,4K,32K,256K,2M,16M)" \
        --samples "$(by_effort 2 7 31)" --seconds "$(by_effort 0.002 0.05 0.5)" >"$out/data/acp.csv"
    MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self rows 2 acp_rate --samples "$(by_effort 1 3 7)" --few 10000 --many "$(by_effort 50000 2000000 8000000)" \
        --repeat 2 >"$out/data/acp_rate.csv"
    acp_draw latency microseconds US
    figure acp_latency.svg 'Time of a put, a get and a third-party copy, over TCP.'
    acp_draw bandwidth 'GB/s' 'column(2) / US / 1e3'
    figure acp_bandwidth.svg 'Bandwidth, from the same times.'
    printf '<ul>\n'
    acp_claims
    printf '</ul>\n<p>The same: put and get of starter memory one after the other, against half a ping-pong of the host MPI. The paper: up to 20 %% faster
at 8 KiB, 50 %% slower at 64 bytes and less, 10 %% slower from 128 MiB on. Not the same: TCP between two processes of one machine, not
InfiniBand QDR, so that absolute times do not compare; a put of ACP ends when rank 0 knows that it is done, which is a round
trip. The paper did not measure third-party copies.</p>\n'
    acp_start
    acp_colors
    acp_parts
    acp_memory
}

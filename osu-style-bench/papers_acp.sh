# shellcheck shell=bash disable=SC2154
# papers_acp.sh: the section of papers.sh on ACP's basic layer over InfiniBand, figures 4 and 5.
#
# acp.csv has the rows of acp_latency: op, bytes, microseconds, the host's half of a ping-pong, and a ratio.

acp_draw() { # NAME UNIT VALUE: in which US is the time
    gnuplot <<GNUPLOT
set terminal svg size 800,400 dynamic font 'sans-serif,13'
set output '$out/data/acp_$1.svg'
set datafile separator ','
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

acp() {
    printf '<h2>ACP: the basic layer</h2>\n<h3>Figures 4 and 5</h3>\n'
    MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self rows 3 acp_latency --sizes "$(by_effort 8,64K 8,64,512,4K,32K,256K,1M 8,64,512,4K,32K,256K,2M,16M)" \
        --samples "$(by_effort 2 7 31)" --seconds "$(by_effort 0.002 0.05 0.5)" >"$out/data/acp.csv"
    MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self rows 2 acp_rate --samples "$(by_effort 1 3 7)" --few 10000 --many "$(by_effort 50000 2000000 8000000)" \
        --repeat 2 >"$out/data/acp_rate.csv"
    acp_draw latency '&#181;s' US
    figure acp_latency.svg 'Time of a put, a get and a third-party copy, over TCP.'
    acp_draw bandwidth 'GB/s' 'column(2) / US / 1e3'
    figure acp_bandwidth.svg 'Bandwidth, from the same times.'
    printf '<ul>\n'
    acp_claims
    printf '</ul>\n<p>The same: put and get of starter memory one after the other, against half a ping-pong of the host MPI. The paper: up to 20 %% faster
at 8 KiB, 50 %% slower at 64 bytes and less, 10 %% slower from 128 MiB on. Not the same: TCP between two processes of one machine, not
InfiniBand QDR, so that absolute times do not compare; a put of ACP ends when rank 0 knows that it is done, which is a round
trip. The paper did not measure third-party copies. Its table 3 (186 MB for a million ranks, 160 MB of them queue pairs) is not
measured here.</p>\n'
}

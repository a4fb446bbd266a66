# papers_llcl.awk: what the data of llcl_reads say, as items of a list. One file of rows; see papers_llcl.sh.
FNR == 1 { next }
{
    latency[$1, $3, $4] = $5; latency_ci[$1, $3, $4] = $6
    overhead[$1, $3, $4] = $7; overhead_ci[$1, $3, $4] = $8
    rate[$1, $3, $4] = $9; rate_ci[$1, $3, $4] = $10
    if (!($4 in known)) { known[$4] = 1; size[++nsizes] = $4 }
    if (!($3 in has)) { has[$3] = 1; threads[++nthreads] = $3 }
    if ($9 > best[$1]) { best[$1] = $9; best_threads[$1] = $3; best_bytes[$1] = $4 }
}

function of_threads(n) { return n " thread" (n == 1 ? "" : "s") }

function apart(a, a_ci, b, b_ci) {
    return a - a_ci > b + b_ci || b - b_ci > a + a_ci ? "" : " (the intervals overlap)"
}

# the first size from which on the rate with offload is not below that without
function crossing(t,    i, from) {
    for (i = nsizes; i >= 1; i--) {
        if (rate["engine", t, size[i]] < rate["queues", t, size[i]]) break
        from = size[i]
    }
    return from == "" ? "at no size" : from == size[1] ? "at all sizes" : "from " from " bytes on"
}

END {
    s = size[1]; t = threads[1]; most = threads[nthreads]
    printf "<li>Latency, %d bytes, %s: with offload %.2f us, without %.2f us, ratio %.2f%s; host %.2f us. Paper: 3.67, 3.31, ratio 1.11; 4.03.</li>\n",
        s, of_threads(t), latency["engine", t, s], latency["queues", t, s], latency["engine", t, s] / latency["queues", t, s],
        apart(latency["engine", t, s], latency_ci["engine", t, s], latency["queues", t, s], latency_ci["queues", t, s]),
        latency["host", t, s]
    printf "<li>Overhead, %d bytes, %s: with offload %.2f us, without %.2f us, ratio %.2f%s. Paper: 0.689, 0.486, ratio 1.42.</li>\n",
        s, of_threads(t), overhead["engine", t, s], overhead["queues", t, s], overhead["engine", t, s] / overhead["queues", t, s],
        apart(overhead["engine", t, s], overhead_ci["engine", t, s], overhead["queues", t, s], overhead_ci["queues", t, s])
    printf "<li>Part of the latency that is overhead, %d bytes, %s: %.0f %%. Paper: 4 %% on Tofu, 19 %% on InfiniBand.</li>\n",
        s, of_threads(t), 100 * overhead["engine", t, s] / latency["engine", t, s]
    printf "<li>Overhead, %d bytes, %d threads against %d: with offload x%.2f, without x%.2f.</li>\n", s, most, t,
        overhead["engine", most, s] / overhead["engine", t, s], overhead["queues", most, s] / overhead["queues", t, s]
    printf "<li>Largest rate: with offload %.3g M/s (%s, %d bytes), without %.3g M/s (%d, %d), host %.3g M/s (%d, %d). Paper: 11.8 (2 threads), 10.2 (1 thread, 2048 bytes).</li>\n",
        best["engine"], of_threads(best_threads["engine"]), best_bytes["engine"], best["queues"], best_threads["queues"], best_bytes["queues"],
        best["host"], best_threads["host"], best_bytes["host"]
    printf "<li>Rate, %d bytes, %s: with offload / without %.2f%s, with offload / host %.2f. Paper: without 6.54 M/s.</li>\n",
        s, of_threads(t), rate["engine", t, s] / rate["queues", t, s],
        apart(rate["engine", t, s], rate_ci["engine", t, s], rate["queues", t, s], rate_ci["queues", t, s]),
        rate["engine", t, s] / rate["host", t, s]
    printf "<li>Rate with offload, %d bytes, %d threads against %d: x%.2f. Paper: x0.88 on Tofu (15 threads against 4).</li>\n",
        s, most, t, rate["engine", most, s] / rate["engine", t, s]
    for (i = 1; i <= nthreads; i++)
        printf "<li>%s: the rate with offload is at least that without %s.</li>\n", of_threads(threads[i]), crossing(threads[i])
}

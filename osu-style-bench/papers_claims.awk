# papers_claims.awk: what Endo and Taura say of their layer, beside what was measured here, and whether it holds: rows of a table.
#
#   awk -F, -f papers_claims.awk -v where=TEXT -v cores=N -v given=0|1 MEDIANS.csv
#
# MEDIANS.csv is what papers_llcl.awk makes. cores: those that the job may use; given: the calling thread and the offload
# thread of rank 0 have one core each, and rank 1 takes no part; the host does not go over that card.
#
# The rule. A claim holds if the median is within the paper's number, wherever that was measured. If it is not, it
# does not hold where the offload thread had a core of its own: it was given one, or there is one for
# each calling thread and each offload thread of both ranks. Elsewhere, and where nothing was measured, it cannot be shown here.
# A slow read makes the call a small part of it: that part is within the paper's number only if the latency is, against the caller's.
function verdict(value, limit, at_least, own) {
    if (value != "" && (at_least ? value >= limit : value <= limit)) return "holds"
    return value != "" && own ? "does not hold" : "cannot be shown here"
}

function own_core(nthreads) { return given ? nthreads == 1 : cores >= nthreads + 3 }

FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{
    for (name in at) v[$1, $3, $4, name] = $(at[name])
    if (bytes == "" || $4 + 0 < bytes) bytes = $4 + 0
    if ($3 + 0 > most) most = $3 + 0
    if (!($3 in has)) { has[$3] = 1; threads[++nthreads] = $3 + 0 }
}

# ---- cells ----

function is(value) { return value ~ /^-?[0-9.]/ }
function cell(value, form) { return is(value) ? sprintf(form, value) : "" }
function of(way, name) { return v[way, 1, bytes, name] }
function over(a, b) { return is(a) && is(b) && b > 0 ? a / b : "" }
function part(way) { return is(of(way, "latency")) ? 100 * over(of(way, "overhead"), of(way, "latency")) : "" }
# the highest of a way's values over all numbers of threads, at one size or at all
function highest(way, name, all,    k, i, high) {
    high = ""
    for (k in v) {
        split(k, i, SUBSEP)
        if (i[1] == way && i[4] == name && (all || i[3] == bytes) && is(v[k]) && (high == "" || v[k] + 0 > high)) high = v[k] + 0
    }
    return high
}

function row(what, form, caller, thread, host, value, value_form, limit, at_least, paper, own) {
    printf "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", where, what,
        cell(caller, form), cell(thread, form), cell(host, form), cell(value, value_form), paper,
        verdict(value, limit, at_least, own)
}

# unlike: the columns do not go the same way, so that what is not within the number shows nothing
function row_of(what, name, form, value, value_form, limit, at_least, paper, unlike) {
    row(what, form, of("caller", name), of("thread", name), of("host", name), value, value_form, limit, at_least, paper,
        own_core(1) && !unlike)
}

END {
    one = bytes " bytes, 1 thread"
    many = bytes " bytes, " most " threads"
    row_of("latency, " one ", &#181;s; thread / host", "latency", "%.3f", of("thread", "to_host"), "x%.2f", 1.19, 0,
        "x1.19 (2.813 / 2.365 on Tofu)", given)
    slower = over(of("thread", "to_host"), of("caller", "to_host"))
    row_of("the same; thread / caller", "latency", "%.3f", slower, "x%.2f", 1.11, 0,
        "x1.11 (3.67 / 3.31 on InfiniBand)")
    row_of("time in the call, " one ", &#181;s", "overhead", "%.3f", of("thread", "overhead"), "%.3f", 0.117, 0, "0.117 on Tofu")
    row_of("the same; thread / caller", "overhead", "%.3f", over(of("thread", "overhead"), of("caller", "overhead")), "x%.2f", 1.42, 0,
        "x1.42 (0.689 / 0.486 on InfiniBand)")
    row("time in the call, as part of the latency, %", "%.1f", part("caller"), part("thread"), part("host"), part("thread"), "%.2f", slower <= 1.11 ? 4.19 : -1, 0,
        "4.19 on Tofu, the rest is to overlap", own_core(1))
    row_of("computing slowed down by a read that is out, %", "taken", "%.1f", of("thread", "taken"), "%.2f", 4.19, 0,
        "nothing printed; not more than the 4.19 above")
    row_of("all that a loop loses which computes while a read is out, %", "lost", "%.1f", of("thread", "lost"), "%.2f", 4.19, 0,
        "nothing printed; the 4.19 above if the rest overlaps")
    if (most > 1) {
        row("time in the call, " bytes " bytes, the longest by 1 to " most " threads, &#181;s", "%.3f", highest("caller", "overhead"),
            highest("thread", "overhead"), highest("host", "overhead"), highest("thread", "overhead"), "%.3f", 0.196, 0, "0.196 (2 threads) on Tofu", own_core(most))
        row("million reads a second, " many "; against the best number of threads", "%.2f", v["caller", most, bytes, "rate"],
            v["thread", most, bytes, "rate"], v["host", most, bytes, "rate"], over(v["thread", most, bytes, "rate"], highest("thread", "rate")),
            "x%.2f", 0.88, 1, "x0.88 (15 threads, 4) on Tofu", own_core(most))
    }
    if (highest("thread", "rate") != "")
        row("million reads a second, the most of all sizes and threads; thread / caller", "%.2f", highest("caller", "rate", 1), highest("thread", "rate", 1),
            highest("host", "rate", 1), over(highest("thread", "rate", 1), highest("caller", "rate", 1)), "x%.2f", 1.16, 1,
            "x1.16 (11.8 / 10.2 on InfiniBand)", own_core(1))
}

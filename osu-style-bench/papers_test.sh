#!/usr/bin/env bash
# papers_test.sh BUILD_DIR: are all figures on the page of the papers, and do its claims follow from the data that are
# drawn? Exit status 77 where gnuplot is missing.
set -uo pipefail

build=$(cd "${1:?usage: papers_test.sh BUILD_DIR}" && pwd) || exit 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bash "$here/papers_llcl_test.sh" >/dev/null || exit 1
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not there"; exit 77; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fail() {
    echo "papers_test: $*" >&2
    exit 1
}

# What the virtual machine might have left.
mkdir "$work/verbs"
said_in_vm() { # CASE: what it said is the input
    cat >"$work/verbs/verbs.$1.log"
    echo 0 >"$work/verbs/verbs.$1.status"
}
echo '4194304 bytes of shares by the first device, 4194306 by the second' | said_in_vm llcl_large.rails
echo '0 bytes of shares by the first device, 32 by the second' | said_in_vm acp_interface.rails

bash "$here/papers.sh" "$build" --out "$work" --verbs "$work/verbs" --tiny 2>"$work/log" || fail "no page: $(cat "$work/log")"
page=$work/papers.html
nfigures=15 # without a card
ngroups=10
stand_in=$build/tests/verbs/fake/libibverbs.so.1
[ ! -e "$stand_in" ] || ngroups=$((ngroups + 1))
for part in '<svg' '</svg>' '<figcaption>'; do
    [ "$(grep -c "$part" "$page")" = $nfigures ] || fail "not $nfigures of $part"
done
[ "$(grep -c 'The same: ' "$page")" = $ngroups ] || fail "not every group says what is the same"
[ "$(grep -c 'Not the same: ' "$page")" = $ngroups ] || fail "not every group says what is not the same"

# ---- every sentence with figures, and every row of a table, worked out again from the rows ----

expect() { cat >>"$work/expected"; }

# The low-level layer: 1 and 4 threads, 8 and 4096 bytes; the caller drives, the thread does, there is no library.
claims() { # NAME WHERE GIVEN
    local data=$work/data/llcl_$1.csv
    awk -F, -v where="$2" -v given="$3" -v cores="$(nproc)" 'NR > 1 { for (c = 5; c <= 16; c++) if ($c != "") {
            v[$1, $3, $4, c] = $c
            top[$1, $4, c] = (($1, $4, c) in top) && top[$1, $4, c] > $c ? top[$1, $4, c] : $c
            top[$1, "", c] = (($1, "", c) in top) && top[$1, "", c] > $c ? top[$1, "", c] : $c
            more = more || $3 == 4
        } }
        function row(what, form, caller, thread, host, shown, worse, paper, nthreads) {
            printf "<tr><td>%s</td><td>%s</td><td>" form "</td><td>" form "</td><td>" form "</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", where, what, caller, thread, host,
                shown, paper, !worse ? "holds" : (given ? nthreads == 1 : cores - 3 >= nthreads) ? "does not hold" : "cannot be shown here"
        }
        function each(what, c, form, value, as, limit, paper, nthreads) {
            row(what, form, v["caller", 1, 8, c], v["thread", 1, 8, c], v["host", 1, 8, c], sprintf(as, value), value > limit, paper, nthreads ? nthreads : 1)
        }
        function part(way) { return 100 * v[way, 1, 8, 8] / v[way, 1, 8, 5] }
        END {
            t = "thread" SUBSEP 1 SUBSEP 8 SUBSEP; c = "caller" SUBSEP 1 SUBSEP 8 SUBSEP
            each("latency, 8 bytes, 1 thread, &#181;s; thread / host", 5, "%.3f", v[t 16], "x%.2f", 1.19, "x1.19 (2.813 / 2.365 on Tofu)", given ? 99 : 1) # the host does not go over the card
            each("the same; thread / caller", 5, "%.3f", v[t 16] / v[c 16], "x%.2f", 1.11, "x1.11 (3.67 / 3.31 on InfiniBand)")
            each("time in the call, 8 bytes, 1 thread, &#181;s", 8, "%.3f", v[t 8], "%.3f", 0.117, "0.117 on Tofu")
            each("the same; thread / caller", 8, "%.3f", v[t 8] / v[c 8], "x%.2f", 1.42, "x1.42 (0.689 / 0.486 on InfiniBand)")
            row("time in the call, as part of the latency, %", "%.1f", part("caller"), part("thread"), part("host"), sprintf("%.2f", part("thread")),
                part("thread") > 4.19 || v[t 16] / v[c 16] > 1.11, "4.19 on Tofu, the rest is to overlap", 1)
            each("computing slowed down by a read that is out, %", 14, "%.1f", v[t 14], "%.2f", 4.19, "nothing printed; not more than the 4.19 above")
            each("all that a loop loses which computes while a read is out, %", 15, "%.1f", v[t 15], "%.2f", 4.19, "nothing printed; the 4.19 above if the rest overlaps")
            if (more) {
                row("time in the call, 8 bytes, the longest by 1 to 4 threads, &#181;s", "%.3f", top["caller", 8, 8], top["thread", 8, 8], top["host", 8, 8],
                    sprintf("%.3f", top["thread", 8, 8]), top["thread", 8, 8] > 0.196, "0.196 (2 threads) on Tofu", 4)
                steady = v["thread", 4, 8, 11] / top["thread", 8, 11]
                row("million reads a second, 8 bytes, 4 threads; against the best number of threads", "%.2f", v["caller", 4, 8, 11], v["thread", 4, 8, 11], v["host", 4, 8, 11],
                    sprintf("x%.2f", steady), steady < 0.88, "x0.88 (15 threads, 4) on Tofu", 4)
            }
            most = top["thread", "", 11] / top["caller", "", 11]
            row("million reads a second, the most of all sizes and threads; thread / caller", "%.2f", top["caller", "", 11], top["thread", "", 11], top["host", "", 11],
                sprintf("x%.2f", most), most < 1.16, "x1.16 (11.8 / 10.2 on InfiniBand)", 1)
        }' "$data"
}
for transport in 'shm:shared memory' tcp:TCP; do
    data=$work/data/llcl_${transport%%:*}.csv
    [ "$(grep -cE "^((caller|thread),${transport%%:*}|host,none),[14],(8|4096)," "$data")" = 12 ] || fail "$data: not all rows"
    [ "$(grep -cE '^(caller,wait|thread,flag|host,host),' "${data%.csv}_runs.csv")" = 12 ] || fail "${data%.csv}_runs.csv: not all rows"
    claims "${transport%%:*}" "${transport#*:}" 0 | expect
done
if [ -e "$stand_in" ] && [ "$(nproc)" -ge 2 ]; then
    [ "$(grep -cE '^((caller|thread),verbs|host,none),1,8,' "$work/data/llcl_bound.csv")" = 3 ] || fail "llcl_bound.csv: not all rows"
    claims bound 'stand-in for a card, a core for the thread' 1 | expect
fi

# What the card is given: one request for each read; with many at once few doorbells for those that are short. An offload thread that
# keeps up with the callers has few at once.
if [ -e "$stand_in" ]; then
    [ "$(wc -l <"$work/data/llcl_counts.csv")" = 17 ] || fail "llcl_counts.csv: not all rows"
    awk -F, 'FNR > 1 {
            printf "<tr><td>%s</td><td>%s</td><td>%d</td><td>%d</td><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>%.2f</td></tr>\n",
                $1, $2, $3, $4, $6 / $5, $7 / $5, $8 / $5, $9 / $5
            if ($6 > $5 + 8 || $6 < $5 || $7 > $6 || $9 > 8) exit 1
            if ($1 == "many" && $2 == "caller" && $4 == 8 && ($7 > $5 / 4 || $8 > $5 / 4)) exit 1
        }' "$work/data/llcl_counts.csv" >"$work/sums" || fail "the card is given more than it should"
    expect <"$work/sums"
fi

expect <<'LINES' # of what was said in the virtual machine, see above
<tr><td>long ones that name no port</td><td>4194304</td><td>4194306</td></tr>
<tr><td>short ones on memory of the second colour</td><td>0</td><td>32</td></tr>
LINES

# ACP: against the ping-pong, where it is not slower, and a million ranks.
for op in put get; do
    awk -F, -v op=$op '$1 == op { ends = ends sprintf("%s%d bytes x%.2f", ends ? ", " : "", $2, $3 / $4); fast = fast ($3 <= $4 ? " " $2 : "") }
        END { printf "<li>Time of a %s against the ping-pong: %s; not slower at:%s bytes.</li>\n", op, ends, fast ? fast : " no number of" }' \
        "$work/data/acp.csv" | expect
done
awk -F, '$2 == 65536 { us[$1] = $3 }
    END { printf "<li>65536 bytes: a third-party copy takes %.2f of a put.</li>\n", us["third"] / us["put"] }' "$work/data/acp.csv" | expect
awk -F, 'NR == 2 { printf "<li>Commands of 8 bytes: %.2f M/s at first, %.2f M/s in a long run.</li>\n", $2, $3 }' "$work/data/acp_rate.csv" | expect
awk -F, '$2 == 2 { for (c = 3; c <= 5; c++) v[$1, c] = $c }
    END { printf "<tr><td>2</td><td>%.2f</td><td>%.2f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td></tr>\n",
        v["off", 3] / 1e3, v["on", 3] / 1e3, v["off", 4], v["on", 4], v["off", 5], v["on", 5], v["off", 4] - v["off", 5], v["on", 4] - v["on", 5] }' \
    "$work/data/acp_start.csv" | expect
awk -F, '$1 == 1000000 { printf "<li>1000000 ranks, %d of them in use: %.1f MB, %.1f MB of them queue pairs: x%.2f of the paper&#8217;s 186 MB.</li>\n",
        $2, ($3 + $4) / 1e6, $5 / 1e6, ($3 + $4) / 186e6; n++ }
    FNR > 1 && !($3 > 0 && $4 > 0 && $5 > 0) { bad = 1 }
    END { exit bad || n != 2 }' "$work/data/acp_memory.csv" >"$work/sums" || fail "ACP's memory: not two rows for a million ranks, or a part is missing"
expect <"$work/sums"

[ "$(wc -l <"$work/data/acp_parts.csv")" = 8 ] || fail "ACP's memory: not all parts"
awk -F, 'NR > 1 { if (!($2 > 0 && $3 > 0)) exit 1
    printf "<tr><td>%s</td><td>%.1f</td><td>%.1f</td><td>x%.2f</td><td>%s</td></tr>\n", $1, $2 / 1e3, $3 / 1e3, $3 / $2, $4 }' \
    "$work/data/acp_parts.csv" >"$work/sums" || fail "ACP's memory: a part is missing"
expect <"$work/sums"
expect <<'LINES' # the defaults of CMakeLists.txt
<li>A global address has 21 bits of rank, 1 of colour, 8 of key, 34 of offset. Paper: 21, 1, 8, 34.</li>
LINES

# Relocatable global arrays: factors, what own costs, and when it pays.
for transport in tcp:TCP 'shm:shared memory'; do
    data=$work/data/gas_${transport%%:*}.csv
    [ "$(grep -cE '^(distinct|owner=home|owner=reader),(64|4096),' "$data")" = 6 ] || fail "$data: not all rows"
    awk -F, -v title="${transport#*:}" 'NR > 1 { f[$1, $2] = $4 / $3; get[$1, $2] = $3; own[$1, $2] = $6 }
        function span(who,  a, b) { a = f[who, 64]; b = f[who, 4096]; return a < b ? sprintf("x%.2f to x%.2f", a, b) : sprintf("x%.2f to x%.2f", b, a) }
        function cost(who) { return sprintf("%.2f &#181;s at 64 bytes, %.2f at 4096", own[who, 64], own[who, 4096]) }
        function pays(bytes,  here, gain) {
            here = get["owner=reader", bytes]
            gain = get["distinct", bytes] - here
            return "at " bytes " bytes " (2 * gain < here ? "at no number (nearly the same)" : sprintf("from %d gets on", 1 + int(own["distinct", bytes] * 1e3 / gain)))
        }
        END {
            tens = (f["distinct", 64] >= 10 ? " 64" : "") (f["distinct", 4096] >= 10 ? " 4096" : "")
            printf "<li>%s, three processes: a get is %s faster with the cache; ten times, as in the paper, at%s bytes.</li>\n", title, span("distinct"), tens ? tens : " no number of"
            printf "<li>%s, controls: owner = home %s; owner = reader %s (it never forgets its own pages).</li>\n", title, span("owner=home"), span("owner=reader")
            printf "<li>%s, own: three processes %s; owner = home %s; owner = reader %s.</li>\n", title, cost("distinct"), cost("owner=home"), cost("owner=reader")
            printf "<li>%s, own and then local gets take less time than remote gets: %s, %s.</li>\n", title, pays(64), pays(4096)
        }' "$data" | expect
done
[ "$(grep -cE '^[23],[123],' "$work/data/gas_users.csv")" = 6 ] || fail "gas_users.csv: not all rows"
for ranks in 2 3; do
    grep "^$ranks,[123]," "$work/data/gas_users.csv" | awk -F, '{
            hand = $3 < $4 ? $3 : $4
            fastest = $5 < hand ? "automatic" : $3 <= $4 ? "own" : "gets and puts alone"
            name = $2 == 1 ? "sweep" : $2 == 2 ? "hash table" : "graph walk"
            printf "<tr><td>%d</td><td>%s</td><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>x%.2f</td><td>%s</td></tr>\n",
                $1, name, $3 / 1e3, $4 / 1e3, $5 / 1e3, $5 / hand, fastest
            if ($5 / hand <= 1.2) near = near ", " name
        }
        END { printf "<li>%d processes, automatic moves: within 20 %% of the best by hand: %s.</li>\n", $1, near ? substr(near, 3) : "none" }' | expect
done

# Persistent broadcasts: peaks of the drawn equations and of those that the paper states, and from where on who is faster.
for ppn in 2 3 4; do
    case $ppn in
        2) stated='relay 9 two-phase 22' ;;
        3) stated='relay 4.5' ;;
        4) stated='relay 3 two-phase 16' ;;
    esac
    awk -F, -v ppn=$ppn -v stated="$stated" '$1 == ppn { if ($6 > most["relay"]) most["relay"] = $6; if ($7 > most["two-phase"]) most["two-phase"] = $7
            if ($7 <= $6) behind = $2 }
        function off(value) { return sprintf("%+.1f", (value / paper[way] - 1) * 100) }
        END {
            n = split(stated, word, " ")
            for (i = 1; i < n; i += 2) paper[word[i]] = word[i + 1]
            for (i = 0; i < 2; i++) {
                way = i ? "two-phase" : "relay"; gb = most[way]; gib = gb * 1e9 / 1073741824; mib = gb * 1e9 / 1048576e3
                printf "<li>peak of %s, %d ranks a node: %.2f GB/s, %.2f GiB/s, %.2f thousand MiB/s", way, ppn, gb, gib, mib
                if (way in paper) printf "; the paper states %s: %s, %s, %s %%", paper[way], off(gb), off(gib), off(mib)
                print "</li>"
            }
            printf "<li>%d ranks a node: two-phase is faster than the relay %s.</li>\n", ppn, !behind ? "at every size" : behind < 2 ^ 30 ? "above " behind " bytes" : "at no size"
        }' "$work/data/equations.csv" | expect
done

# The simulation: who is faster with the largest message, and from where on; the relay's peaks within 5 % of those that its
# equation states.
last_of() { tail -n 1 "$work/data/nodes12x$1.csv" | cut -d, -f"$2"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
stated=(0 0 9 4.5 3)
for ppn in 2 3 4; do
    data=$work/data/nodes12x$ppn.csv
    [ "$(wc -l <"$data")" = 20 ] || fail "$data: not 19 sizes"
    awk -F, 'NR > 1 { for (c = 2; c <= 6; c++) bad += !($c > 0) } END { exit bad }' "$data" || fail "$data: a way is missing"
    awk -F, -v stated="${stated[$ppn]}" 'NR > 1 { if ($2 > peak) peak = $2; wins = $4 > $2 }
        END { off = peak * 1e9 / 1048576e3 / stated - 1; exit !(wins && off < 0.05 && off > -0.05) }' "$data" ||
        fail "$ppn ranks a node: the paper's conclusion does not come out"
    from=$(awk -F, 'NR > 1 && $4 <= $2 { from = $1 } END { print from ? "above " from " bytes" : "at every size" }' "$data")
    expect <<LINES
<li>$ppn ranks a node, 256 MiB: two-phase is x$(ratio "$(last_of $ppn 4)" "$(last_of $ppn 2)") as fast as the paper&#8217;s relay, and faster $from; x$(ratio "$(last_of $ppn 4)" "$(last_of $ppn 6)") as fast as the blocking broadcast. Our relay is x$(ratio "$(last_of $ppn 3)" "$(last_of $ppn 4)") as fast as two-phase.</li>
<li>$ppn ranks a node: the paper&#8217;s relay comes to $(awk -F, -v stated="${stated[$ppn]}" 'NR > 1 && $2 > peak { peak = $2 }
    END { k = peak * 1e9 / 1048576e3; printf "%.2f thousand MiB/s; its equation states %s: %+.1f %%", k, stated, (k / stated - 1) * 100 }' "$data").</li>
<li>$ppn ranks a node against one, 256 MiB: our relay x$(ratio "$(last_of $ppn 3)" "$(last_of 1 3)"), two-phase x$(ratio "$(last_of $ppn 4)" "$(last_of 1 3)"), the blocking broadcast x$(ratio "$(last_of $ppn 6)" "$(last_of 1 6)").</li>
LINES
done

# What was run here.
data=$work/data/measured.csv
for way in relay two-phase one-engine; do
    grep -qE "^2,2,[a-z]+ $way,65536,[0-9.]+,[0-9.]+$" "$data" || fail "$data: no row of $way"
done
of() { awk -F, -v way="$1" '$3 ~ " " way "$" { print $6 }' "$data"; }
awk -F, 'NR > 1 { printf "<tr><td>%d x %d</td><td>%s</td><td>%d</td><td>%.1f</td><td>%.1f</td><td>%.2f</td></tr>\n", $1, $2, $3, $4, $5, $6, $5 / $6 }' "$data" | expect
expect <<LINES
<li>2 nodes x 2 ranks, 65536 bytes: two-phase takes $(ratio "$(of two-phase)" "$(of one-engine)") of the time of the paper&#8217;s relay, our relay $(ratio "$(of relay)" "$(of one-engine)").</li>
LINES

# No sentence with figures but those, and each of them.
grep -E '^<li>|^<tr><td>' "$page" | sort >"$work/said"
sort "$work/expected" | diff "$work/said" - || fail "the page (<) does not say what its data do (>)"
echo "all fine"

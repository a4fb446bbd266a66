# page.sh: what the pages of report.sh and map.sh have in common; sourced, for its functions.
#
# They use the caller's $here, $tugboat, $rounds, $begun and, where Open MPI is measured too, ${openmpi[@]}.
# shellcheck shell=bash disable=SC2154

escape() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'; }

fact() { printf '<dt>%s</dt><dd>%s</dd>\n' "$1" "$(escape <<<"$2")"; }

# What is measured on, as lines of NAME|VALUE.
machine_facts() {
    echo "measured|$(date -u '+%Y-%m-%d %H:%M UTC'), $rounds rounds"
    echo "machine|$(uname -n), $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) cores, $(uname -sr)"
    echo "host MPI|$("$tugboat" info | awk 'host { $1 = $1; print; exit } /^host MPI/ { host = 1 }')"
    echo "Tugboat|$("$tugboat" --version), commit $(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)"
    ((${#openmpi[@]} == 0)) || echo "Open MPI|$(mpiexec.openmpi --version | head -n 1)"
}

machine() {
    local name value
    while IFS='|' read -r name value; do
        fact "$name" "$value"
    done < <(machine_facts)
    fact duration "$(((SECONDS - begun + 59) / 60)) min"
    fact "system load" "$(cut -d ' ' -f 1-3 /proc/loadavg) when the page was written"
}

# The page's beginning, up to its first heading, with the title $1.
page_head() {
    cat <<'HTML'
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
HTML
    echo "<title>$1</title>"
    cat <<'HTML'
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; --back: #fff; --ink: #222; --line: #ddd; --good: #00609a; --bad: #b04a00 }
body { margin: 0 auto; max-width: 78rem; padding: 1rem; background: var(--back); color: var(--ink); font: 16px/1.5 sans-serif }
main { margin: 1.5rem 0; display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem }
figure { margin: 0 } figcaption { font-size: .9rem } h2 { font-size: 1.1rem; margin: 0 }
img { width: 100%; height: auto }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem } dd { margin: 0 }
.table { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line) }
.good { color: var(--good) } .bad { color: var(--bad) } a { color: inherit }
/* Cells, from slower to faster: Okabe and Ito's colours, and a sign each, for readers who cannot tell the colours apart. */
.c1 { background: #a34700; color: #fff } .c2 { background: #d55e00; color: #111 } .c3 { background: #f6d2ac; color: #111 }
.c4 { background: #e6e6dc; color: #111 } .c5 { background: #a9d9f5; color: #111 } .c6 { background: #0072b2; color: #fff }
.c1::before { content: '\25BC\25BC ' } .c2::before { content: '\25BC ' } .c3::before { content: '\25BD ' }
.c4::before { content: '= ' } .c5::before { content: '\25B2 ' } .c6::before { content: '\25B2\25B2 ' }
.cell { display: inline-block; min-width: 4rem; padding: 0 .3rem; margin: 1px 0; text-align: right }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181c; --ink: #ddd; --line: #3a3d44; --good: #7cc8f5; --bad: #ffa95c }
  img { filter: invert(.88) hue-rotate(180deg) }
}
</style></head><body>
HTML
}

# What a report of ctest (--output-junit) says: lines of "VERDICT NAME REASON" parted by tabs. VERDICT is right, failed (also
# a test that could not be started) or skipped. A skipped test says why itself; of a failed one it is the first error.
function plain(text) {
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&apos;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    gsub(/\t/, " ", text)
    return substr(text, 1, 200)
}
function note_line(line) {
    gsub(/<\/?system-out>/, "", line)
    sub(/^[ \t]+/, "", line)
    if (line == "") return
    last = line
    if (skip == "" && line ~ /skipped: /) skip = line
    if (error == "" && line ~ /WRONG|[Ee]rror|[Aa]ssert/) error = line
}
function attribute(line, name) {
    if (!match(line, " " name "=\"[^\"]*\"")) return ""
    return substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
}
/<testcase / {
    name = attribute($0, "name")
    seconds = attribute($0, "time")
    status = attribute($0, "status")
    verdict = status == "disabled" ? "skipped" : status == "fail" ? "failed" : "right"
    last = skip = error = ""
    inside = 0
}
/<skipped / { verdict = /SKIP_/ ? "skipped" : "failed" }
/<system-out>/ { inside = 1 }
inside { note_line($0) }
/<\/system-out>/ { inside = 0 }
/<\/testcase>/ {
    reason = ""
    if (verdict == "skipped") reason = skip != "" ? skip : last != "" ? last : "it does not say why"
    if (verdict == "failed") reason = (error != "" ? error : last != "" ? last : "it says nothing") sprintf(" (%.0f s)", seconds)
    sub(/^.*skipped: /, "", reason)
    printf "%s\t%s\t%s\n", verdict, name, plain(reason)
}

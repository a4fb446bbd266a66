# Markdown of a simple kind becomes a manual page (mdoc) of section 7: headings, paragraphs, bullets,
# blocks of code, tables (one entry a row) and marks inside of lines.
#
#   awk -v page=tugboat-lanes -v date=DATE -f markdown.awk semantics.md >tugboat-lanes.7

function marks(text) {
    gsub(/\\/, "\\e", text)
    while (match(text, /\[[^]]*\]\([^)]*\)/)) # links keep their words
        text = substr(text, 1, RSTART - 1) words(substr(text, RSTART, RLENGTH)) substr(text, RSTART + RLENGTH)
    while (match(text, /`[^`]*`/))
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fP" substr(text, RSTART + RLENGTH)
    while (match(text, /\*\*[^*]+\*\*/))
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 2, RLENGTH - 4) "\\fP" substr(text, RSTART + RLENGTH)
    while (match(text, /\*[a-zA-Z][^*]*\*/))
        text = substr(text, 1, RSTART - 1) "\\fI" substr(text, RSTART + 1, RLENGTH - 2) "\\fP" substr(text, RSTART + RLENGTH)
    return text
}
function words(link) {
    sub(/^\[/, "", link)
    sub(/\]\(.*/, "", link)
    return link
}
function guard(line) { print (line ~ /^[.']/ ? "\\&" : "") line }
function flush(    text, at) {
    text = marks(pending)
    pending = ""
    if (text == "")
        return
    if (paragraph && !fresh)
        print ".Pp"
    paragraph = fresh = 0
    while (match(text, /[.:]\)? (\\f[BI])?[A-Z]/)) {
        at = RSTART + index(substr(text, RSTART), " ") - 1
        guard(substr(text, 1, at - 1))
        text = substr(text, at + 1)
    }
    guard(text)
}
function list(kind) {
    if (listing == kind)
        return
    flush()
    if (listing != "")
        print ".El"
    if (kind != "")
        print kind == "bullet" ? ".Bl -bullet" : ".Bl -tag -width Ds"
    listing = kind
    paragraph = kind == ""
    fresh = kind != ""
}
function row(line,    cells, n, i) {
    gsub(/^\| *| *\|$/, "", line)
    n = split(line, cells, / *\| */)
    if (line ~ /^[-| ]*$/)
        return
    if (!heads) {
        heads = split(line, head, / *\| */)
        list("tag")
        return
    }
    print ".It " marks(cells[1])
    pending = cells[n] "."
    flush()
    for (i = 2; i < n; i++)
        print ".br\n" toupper(substr(head[i], 1, 1)) substr(head[i], 2) ": " marks(cells[i])
}

/^```/ || (code && /^```/) {
    flush()
    print code ? ".Ed" : ".Bd -literal -offset indent"
    code = !code
    paragraph = 1
    fresh = 0
    next
}
code { gsub(/\\/, "\\e"); guard($0); next }
/^<!--|^!\[/ { next } # nor images
/^# / {
    printf ".Dd %s\n.Dt %s 7\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n", date, toupper(page), page, tolower(substr($0, 3, 1)) substr($0, 4)
    introduction = 1
    next
}
/^## / { list(""); flush(); print ".Sh " toupper(substr($0, 4)); introduction = 0; fresh = 1; next }
/^### / { list(""); flush(); print ".Ss " substr($0, 5); fresh = 1; next }
/^\|/ { flush(); row($0); next }
/^$/ { flush(); if (heads || listing == "tag") list(""); heads = 0; paragraph = 1; next }
/^- / { flush(); list("bullet"); print ".It"; fresh = 1; pending = substr($0, 3); next }
/^  +/ && listing == "bullet" { sub(/^ +/, " "); pending = pending $0; next }
{
    if (introduction) {
        print ".Sh DESCRIPTION"
        introduction = 0
        fresh = 1
    }
    if (pending == "")
        list("")
    pending = pending (pending == "" ? "" : " ") $0
}
END { list(""); flush() }

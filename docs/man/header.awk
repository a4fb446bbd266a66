# A public header becomes manual pages (mdoc) of section 3: the contract stands once, in the header.
#
#   awk -v header=tugboat/llcl.h -v page=tugboat_llcl -v date=DATE -v folder=OUT -f header.awk llcl.h
#
# What precedes the first marker `/* ---- name ---- */` goes to `page`, beginning with the head
# comment; every marker begins a page named after the first function that follows it. The other functions of
# a page get links to it. A comment belongs to the declarations below it, up to a blank
# line. In comments, a line followed by indented ones is a heading, and a gap of two blanks parts a
# word from what is said about it; drawings stay as they are. PMPI twins are left out.

function plain(text) {
    gsub(/\\/, "\\e", text)
    gsub(/[ \t]+/, " ", text)
    return text
}

# Text to be filled: each sentence begins a line, as the tools for manual pages wish.
function sentences(text) {
    text = plain(text)
    sub(/^ /, "", text)
    while (match(text, /[.:]\)? [A-Z`]/)) {
        guard(substr(text, 1, RSTART + RLENGTH - 3))
        text = substr(text, RSTART + RLENGTH - 1)
    }
    guard(text)
}
function guard(line) {
    if (line ~ /^[.']/)
        line = "\\&" line
    if (line != "")
        put(line)
}
function put(line) { body = body line "\n" }

function list(open) {
    if (open && !listing)
        put(".Bl -tag -width Ds")
    if (!open && listing)
        put(".El")
    listing = open
}

# Does a drawing stand between here and the next empty line?
function drawn(c, n, i) {
    for (; i <= n && c[i] !~ /^ *$/; i++)
        if (c[i] ~ /\+--/)
            return 1
    return 0
}

# Writes comment lines c[1..n].
function prose(c, n,    i, indent, next_indent, text, gap, tagged) {
    for (i = 1; i <= n; i++) {
        if ((i == 1 || c[i - 1] ~ /^ *$/) && drawn(c, n, i)) {
            put(".Bd -literal")
            for (; i <= n && c[i] !~ /^ *$/; i++)
                put(c[i])
            put(".Ed")
        }
        match(c[i], /^ */)
        indent = RLENGTH
        match(c[i + 1], /^ */)
        next_indent = i < n && c[i + 1] !~ /^ *$/ ? RLENGTH : 0
        gap = match(c[i], /[^ .:]  +[^ ]/)
        if (c[i] ~ /^ *$/ || (tagged && indent < 10 && !gap)) {
            sentences(text)
            text = ""
            if (tagged)
                put(".El\n.Pp")
            tagged = 0
            if (c[i] ~ /^ *$/ && i < n && !(c[i + 1] ~ /^[^ ]/ && c[i + 2] ~ /^ /))
                put(".Pp")
        }
        if (indent == 0 && next_indent >= 2 && !gap && c[i] !~ /^ *$/) {
            sentences(text)
            text = ""
            put(".Ss " plain(c[i]))
        } else if (gap && indent) {
            sentences(text)
            if (!tagged)
                put(".Bl -tag -width Ds")
            tagged = 1
            put(".It " plain(substr(c[i], indent + 1, gap - indent)))
            text = substr(c[i], gap + 1)
        } else if (c[i] !~ /^ *$/) {
            text = text (text == "" ? "" : " ") substr(c[i], indent + 1)
        }
    }
    sentences(text)
    if (tagged)
        put(".El")
}

# "int f(a, b)" becomes .Ft and .Fo; its name is remembered.
function prototype(text,    name, type, depth, i, character, argument) {
    sub(/^TUG_API /, "", text)
    sub(/;.*/, "", text)
    text = plain(text)
    match(text, /[A-Za-z_0-9]+\(/)
    name = substr(text, RSTART, RLENGTH - 1)
    type = substr(text, 1, RSTART - 1)
    sub(/ $/, "", type)
    names[++nnames] = name
    synopsis = synopsis ".Ft " type "\n.Fo " name "\n"
    text = substr(text, RSTART + RLENGTH)
    sub(/\)$/, "", text)
    for (i = 1; i <= length(text) + 1; i++) {
        character = substr(text, i, 1)
        depth += (character == "(") - (character == ")")
        if (character == "" || (character == "," && depth == 0)) {
            sub(/^ /, "", argument)
            synopsis = synopsis ".Fa \"" argument "\"\n"
            argument = ""
        } else {
            argument = argument character
        }
    }
    synopsis = synopsis ".Fc\n"
}

# The declarations d[1..nd] under the comment c[1..nc].
function item(    i, declared, found) {
    if (nd == 0 && nc == 0)
        return
    for (i = 1; i <= nd; i++)
        declared = declared (i > 1 ? "\n" : "") d[i]
    if (declared ~ /^TUG_MPIX/) { # TUG_MPIX(Name, (parameters)) declares MPIX_Name and PMPIX_Name
        gsub(/TUG_MPIX\(/, "TUG_API int MPIX_", declared)
        gsub(/,[ \n]+\(/, "(", declared)
        gsub(/\)\)/, ");", declared)
    }
    if (declared ~ /^TUG_API/) {
        found = functions(declared)
        if (nc && found > 0 && found <= 4) {
            list(1)
            for (i = nnames - found + 1; i <= nnames; i++)
                put(".It Fn " names[i])
        } else if (nc) {
            list(0)
            put(".Pp")
        }
        prose(c, nc)
    } else {
        list(0)
        if (nc) {
            put(".Pp")
            prose(c, nc)
        }
        if (nd) {
            gsub(/\\/, "\\e", declared)
            put(".Bd -literal\n" declared "\n.Ed")
        }
    }
    nc = nd = 0
}

# Each prototype of a block, with the words behind it on its line, if any.
function functions(block,    parts, n, i, before) {
    before = nnames
    n = split(block, parts, /TUG_API /)
    for (i = 2; i <= n; i++) {
        gsub(/\n/, " ", parts[i])
        if (parts[i] ~ /^[a-z ]*PMPI/)
            continue
        prototype(parts[i])
        if (match(parts[i], /\/\*.*\*\//))
            c[++nc] = substr(parts[i], RSTART + 3, RLENGTH - 6)
    }
    return nnames - before
}

function flush_page(    file, i, title) {
    item()
    list(0)
    title = page != "" ? page : names[1]
    if (title == "" || body == "")
        return
    file = folder "/" title ".3"
    printf ".Dd %s\n.Dt %s 3\n.Os\n.Sh NAME\n", date, toupper(title) > file
    if (page != "")
        names[0] = page
    for (i = page != "" ? 0 : 1; i <= nnames; i++)
        printf ".Nm %s%s\n", names[i], i < nnames ? " ," : "" > file
    printf ".Nd %s\n.Sh SYNOPSIS\n.In %s\n%s.Sh DESCRIPTION\n%s", about, header, synopsis, trim(body) > file
    printf ".Sh SEE ALSO\n%s.Xr tugboat-lanes 7 ,\n.Xr tugboat-persistent 7 ,\n.Xr tugboat-settings 7\n",
        page != "" ? "" : ".Xr " overview " 3 ,\n" > file
    close(file)
    for (i = 1; i <= nnames; i++)
        if (names[i] != title)
            system("ln -s " title ".3 " folder "/" names[i] ".3")
    page = body = synopsis = ""
    nnames = 0
}

# No paragraph begins where a section does, and none is empty.
function trim(text) {
    sub(/^\.Pp\n/, "", text)
    while (gsub(/\.Pp\n\.Pp\n/, ".Pp\n", text))
        ;
    gsub(/\.Pp\n\.Bl/, ".Bl", text)
    gsub(/\.Pp\n\.Bd/, ".Bd", text)
    gsub(/\.Pp\n\.Ss/, ".Ss", text)
    gsub(/\.Pp\n\.El/, ".El", text)
    return text
}

BEGIN { overview = page }

/^\/\* ---- .* ---- \*\/$/ {
    flush_page()
    about = $0
    gsub(/^\/\* ---- | ---- \*\/$/, "", about)
    about = subject ": " about
    next
}
/^#(if|else|endif|include|undef|define [A-Z_]*_H$)|^extern "C"|^}$/ { next }
/^#define TUG_MPIX/ { nc = 0 } # the macro and its comment are no call
/^#define TUG_MPIX/, !/\\$/ { next }
!commenting && !nd && /^\/\*/ { # not one beside a declaration
    commenting = opening = 1
    sub(/^\/\*\*? ?/, "")
}
commenting {
    last = /\*\/ *$/
    sub(/ *\*\/ *$/, "")
    if (!opening)
        sub(/^ \* ?/, "")
    opening = 0
    if (!(nc == 0 && $0 ~ /^ *$/) && !(last && $0 ~ /^ *$/))
        c[++nc] = $0
    if (last) {
        commenting = 0
        if (about == "") { # the head of the file
            about = subject = c[1]
            if (!sub(/:.*/, "", subject))
                subject = header
            sub(/^[^:]*: /, "", about)
            sub(/\.$/, "", about)
            item()
        }
    }
    next
}
/^$/ { item(); next }
{ d[++nd] = $0 }
END { flush_page() }

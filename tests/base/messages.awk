# Collects what the library and the command say from their source: KIND, a tab, the format, for each
# call; kinds are error, warning, info, debug (tug_log, tug_warn_once), command (tug_cmd_say), check (lines
# of tugboat selftest that are not ok) and status (tug_strerror). A format of "%s" alone is none: what it
# brings is said by somebody else.

function find_kind(call, arguments) {
    if (call ~ /^tug_warn_once/)
        return "warning"
    if (call ~ /^tug_cmd_say/)
        return "command"
    if (call ~ /^tell/)
        return arguments ~ /^(BAD|NOTE|verdict|mib)/ ? "check" : ""
    if (call ~ /^snprintf/)
        return arguments ~ /^load_error,/ ? "error" : ""
    if (arguments ~ /^TUG_LOG_ERROR/)
        return "error"
    if (match(arguments, /^TUG_VERBOSE_[A-Z]+/))
        return substr(arguments, 13, RLENGTH - 12) == "WARN" ? "warning" : tolower(substr(arguments, 13, RLENGTH - 12))
    return ""
}

# The format in the arguments: literals side by side are one, and so are those with a macro such as PRIx64
# between them. skip: so many formats go before it.
function find_format(arguments, skip,    format, character, begun) {
    format = ""
    begun = 0
    while (arguments != "") {
        character = substr(arguments, 1, 1)
        if (character == "\"") {
            if (!match(arguments, /^"([^"\\]|\\.)*"/))
                return format
            format = format substr(arguments, 2, RLENGTH - 2)
            arguments = substr(arguments, RLENGTH + 1)
            begun = 1
            continue
        }
        if (begun && match(arguments, /^PRI[a-zA-Z0-9]+/)) {
            format = format substr(arguments, 4, 1)
            arguments = substr(arguments, RLENGTH + 1)
            continue
        }
        if (begun && character !~ /[ \t\n]/) {
            if (skip-- == 0)
                return format
            format = ""
            begun = 0
        }
        arguments = substr(arguments, 2)
    }
    return begun && skip == 0 ? format : ""
}

function collect(text,    call, kind, format) {
    while (match(text, /(tug_log|tug_warn_once|tug_cmd_say|tell|snprintf)\(/)) {
        call = substr(text, RSTART, RLENGTH)
        before = RSTART > 1 ? substr(text, RSTART - 1, 1) : ""
        text = substr(text, RSTART + RLENGTH)
        sub(/^[ \t\n]+/, "", text)
        if (before ~ /[A-Za-z0-9_]/)
            continue
        kind = find_kind(call, substr(text, 1, 40))
        if (kind == "")
            continue
        # the statement's end: none of the formats has a semicolon at the end of a line
        if (!match(text, /\);[ \t]*\n/))
            continue
        format = find_format(substr(text, 1, RSTART), call ~ /^tell/ && text !~ /^(verdict, what|BAD, what)/ ? 1 : 0)
        if (format !~ /^(%s)?$/)
            print kind "\t" format
    }
}

# [-TUG_ERR_X] = "sentence",
function collect_statuses(text) {
    while (match(text, /\[-TUG_[A-Z_]+\] = "[^"]*"/)) {
        status = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/^[^"]*"/, "", status)
        sub(/"$/, "", status)
        print "status\t" status
    }
}

FNR == 1 && NR > 1 {
    collect(text)
    collect_statuses(text)
    text = ""
}
{ text = text $0 "\n" }
END {
    collect(text)
    collect_statuses(text)
}

# map_fields.awk: reads lines of map.json, which has a cell a line; for the other map_*.awk.
#
# text(NAME) and number(NAME) are fields of the current line; a number that is null is "".

function text(name) {
    if (!match($0, "\"" name "\": \"[^\"]*\""))
        return ""
    return substr($0, RSTART + length(name) + 5, RLENGTH - length(name) - 6)
}

function number(name) {
    if (!match($0, "\"" name "\": [-+.0-9e]+"))
        return ""
    return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) + 0
}

function is_cell() { return $0 ~ /^\{"table": / }

# What is red beyond the noise, and what only seems so. One round tells nothing of the noise.
function is_red() { return text("state") == "measured" && number("ratio") < 0.97 }
function is_surely_red() { return is_red() && is_repeated() && number("high") < 0.97 }
function is_repeated() { return number("rounds") != 1 }

# A key of four parts has two of the row and two of the column, one of two has one each.
function row_of(key,   parts) {
    return split(key, parts, "/") == 4 ? parts[1] " " parts[2] : parts[1]
}
function column_of(key,   parts) {
    return split(key, parts, "/") == 4 ? parts[3] " " parts[4] : parts[2]
}

function times(ratio) { return sprintf(ratio >= 100 ? "x%.0f" : ratio >= 10 ? "x%.1f" : "x%.2f", ratio) }

# map_against.awk: what got worse and better from one map.json to another; exit status 1 if anything got worse.
#
#   awk -f map_fields.awk -f map_against.awk OLD.json NEW.json
#
# Ratios to the host are compared, not times: the machine may have been busier. Worse: the median by a tenth, and the
# ranges of two rounds or more do not overlap; or a cell that was measured has wrong data or fails now.

!is_cell() { next }

{ key = text("table") ": " text("cell") }

NR == FNR {
    old_state[key] = text("state")
    old[key] = number("ratio")
    low[key] = number("low")
    high[key] = number("high")
    repeated[key] = is_repeated()
    next
}

!(key in old_state) { nnew++; next }

{ ncommon++ }

text("state") != old_state[key] {
    print (text("state") ~ /^tug/ ? "worse  " : "other  ") key ": " old_state[key] ", now " text("state")
    nworse += text("state") ~ /^tug/
    next
}

text("state") != "measured" || !is_repeated() || !repeated[key] { next }

{
    ratio = number("ratio")
    if (ratio < 0.9 * old[key] && number("high") < low[key]) {
        print "worse  " key ": " times(old[key]) ", now " times(ratio)
        nworse++
    } else if (ratio * 0.9 > old[key] && number("low") > high[key]) {
        print "better " key ": " times(old[key]) ", now " times(ratio)
        nbetter++
    }
}

END {
    printf "%d cells in both: %d got worse, %d better, the others are within the noise\n", ncommon, nworse, nbetter
    exit nworse > 0 || ncommon == 0
}

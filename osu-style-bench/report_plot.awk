# report_plot.awk: a gnuplot script for the comparison of one CSV file of `versus`.
#
#   awk -f report_plot.awk -v kind=lines|bars|share -v unit="M/s" -v x="bytes" DATA.csv
#
# The columns between `better` and the first *_ratio or *_least are what was compared. lines: the last part of a
# row's key is its place on the x axis and the parts before name a curve, one for each column; bars:
# a group of bars for each key; share: such bars on a linear axis from 0.
BEGIN {
    FS = ","
    label["host"] = "host MPI"
    label["async"] = "host MPI, async progress"
    label["tug"] = "with Tugboat"
    label["openmpi"] = "Open MPI"
    split("#c0504d #e0a030 #1f77b4 #5a9e4b #8064a2 #7f7f7f #17a2a2 #d070a0", colour, " ")
    colour_of["host"] = 1
    colour_of["async"] = 2
    colour_of["tug"] = 3
    colour_of["openmpi"] = 4
    ncolours = 4
    drawn_in["memcpy"] = drawn_in["predicted"] = 1 # nobody's measurement: dashed
}

FNR == 1 {
    for (i = 5; i <= NF && $i !~ /_(ratio|least)$/; i++)
        names[++nnames] = $i
    next
}

{
    key = $2
    at = match(key, "[^/]*$")
    place = substr(key, at)
    if (kind != "lines")
        key = substr(key, 1, at - 1) short(place)
    curve = at > 1 ? substr(key, 1, at - 2) : ""
    if (!(key in seen)) {
        seen[key] = 1
        keys[++nkeys] = key
    }
    if (!(curve in known)) {
        known[curve] = 1
        curves[++ncurves] = curve
    }
    for (i = 1; i <= nnames; i++) {
        value[key, i] = $(4 + i)
        if ($(4 + i) != "") {
            points[curve, i] = points[curve, i] place " " $(4 + i) "\n"
            npoints[curve, i]++
        }
    }
    if (place + 0 > widest)
        widest = place + 0
}

# 1048576 as 1M; what is no round number of bytes stays
function short(n) {
    if (n !~ /^[0-9]+$/ || n % 1024)
        return n
    return n % 1048576 ? n / 1024 "K" : n / 1048576 "M"
}

function named(i) { return names[i] in label ? label[names[i]] : names[i] }

function painted(text) {
    if (!(text in colour_of))
        colour_of[text] = ++ncolours
    return colour[(colour_of[text] - 1) % 8 + 1]
}

function lines(   c, i, title, list) {
    for (c = 1; c <= ncurves; c++)
        for (i = 1; i <= nnames; i++) {
            if (!npoints[curves[c], i])
                continue
            title = curves[c] == "" || ncurves == 1 ? named(i) : curves[c] ", " named(i)
            printf "$d%d_%d << EOD\n%sEOD\n", c, i, points[curves[c], i]
            list = list (list == "" ? "" : ", ") sprintf("$d%d_%d using 1:2 with linespoints pt 7 ps 0.6 lw 2%s lc rgb '%s' title '%s'",
                c, i, names[i] in drawn_in ? " dt 2" : "", painted(ncurves == 1 ? names[i] : title), title)
        }
    print "set logscale x 2"
    print "set xlabel '" x "'"
    if (widest > 64)
        print "set format x '%.0b %BB'"
    print "set logscale y 10"
    print "set format y '%g'"
    print "plot " list
}

function bars(   k, i, list) {
    print "$d << EOD"
    for (k = 1; k <= nkeys; k++) {
        printf "\"%s\"", keys[k]
        for (i = 1; i <= nnames; i++)
            printf " %s", value[keys[k], i] == "" ? "NaN" : value[keys[k], i]
        print ""
    }
    print "EOD"
    for (i = 1; i <= nnames; i++)
        list = list (list == "" ? "" : ", ") sprintf("$d using %d:xtic(1) lc rgb '%s' title '%s'", i + 1, painted(names[i]), named(i))
    print "set style data histograms"
    print "set style histogram clustered gap 1"
    print "set style fill solid 0.9"
    print kind == "share" ? "set yrange [0:*]" : "set logscale y 10"
    print "set format y '%g'"
    # many names, or long ones, stand steeper, to keep out of each other's way
    print "set xtics rotate by " (nkeys > 8 ? "-60 font ',11'" : "-25") " scale 0 noenhanced"
    print "plot " list
}

END {
    print "set terminal svg size 720,420 dynamic font 'sans-serif,14' noenhanced"
    print "set key outside below maxrows 4"
    print "set grid ytics lc rgb '#cccccc'"
    print "set border 3"
    print "set rmargin 8"
    print "set tics nomirror"
    print "set ylabel '" unit "'"
    if (kind == "lines")
        lines()
    else
        bars()
}

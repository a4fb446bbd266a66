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
    label["caller"] = "the caller drives"
    label["thread"] = "the offload thread drives"
    split("#d55e00 #e69f00 #0072b2 #009e73 #cc79a7 #7f7f7f #56b4e9 #6b5b00", colour, " ")
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

# letters of the longest name in the legend
function longest(   c, i, letters, most) {
    for (c = 1; c <= ncurves; c++)
        for (i = 1; i <= nnames; i++) {
            letters = length(named(i)) + (kind == "lines" && ncurves > 1 ? length(curves[c]) + 2 : 0)
            most = letters > most ? letters : most
        }
    return most
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
            list = list (list == "" ? "" : ", ") sprintf("$d%d_%d using 1:2 with linespoints pt %d ps 0.7 lw 2%s lc rgb '%s' title '%s'",
                c, i, 2 * ((c + i) % 5) + 5, names[i] in drawn_in ? " dt 2" : "", painted(ncurves == 1 ? names[i] : title), title)
        }
    print "set logscale x 2"
    print "set xlabel '" x "'"
    if (widest > 64)
        print "set format x '%.0b%BB'\nset xtics 4 font ',12'"
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
    # the legend is beside the plot, and wide where a name is long
    printf "set terminal svg size %d,420 dynamic font 'sans-serif,15' noenhanced\n", 640 + 9 * longest()
    print "set key outside right top vertical"
    print "set grid ytics lc rgb '#cccccc'"
    print "set border 3"
    print "set tics nomirror"
    print "set ylabel '" unit "'"
    if (kind == "lines")
        lines()
    else
        bars()
}

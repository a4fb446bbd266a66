# papers_morie.awk: equations 1 to 4 of Morie et al. with the parameters of the paper's section 6.1, as CSV, with the peaks
# behind it in lines that begin with #. Trinary x3 on FX100: each of three pipelines carries a third of the message, G is
# Gn, and a node has 4 engines (TNIs).
#
# Relay (T1): every segment that arrives is copied to the ppn - 1 other ranks, all of them by one engine. Two-phase (T2):
# all segments first, then ppn - 1 copies of a pipeline's share by all engines.

# Pieces into which each pipeline cuts a message: the paper's table.
function segments_of(bytes,   i) {
    for (i = 1; i <= 8; i++)
        if (bytes < below[i] * 1024)
            return segments[i]
    return 512
}

# Until the first segment has reached the farthest node.
function fill_s(segment) { return (hops + 1) * (latency_s + segment * byte_s) }

function relay_s(bytes, ppn,   n, segment) {
    n = segments_of(bytes)
    segment = bytes / 3 / n
    return fill_s(segment) + (3 * n * (ppn - 1) - 1) * (segment * byte_s + gap_s)
}

function two_phase_s(bytes, ppn,   n, segment) {
    n = segments_of(bytes)
    segment = bytes / 3 / n
    return fill_s(segment) + (n - 1) * (segment * byte_s + gap_s) + \
        latency_s + bytes / 3 * (ppn - 1) / engines * byte_s + gap_s
}

# The paper names its unit GB/s, and does not say which. Only in thousands of MiB/s are all five stated peaks met within
# 5 %.
function tell_peak(name, ppn, rate, stated,   line, u, unit) {
    split("1e9 1073741824 1048576000", unit, " ")
    line = sprintf("# peak of %s, %d ranks a node: %.2f GB/s, %.2f GiB/s, %.2f thousand MiB/s", name, ppn, rate / unit[1],
        rate / unit[2], rate / unit[3])
    if (stated > 0)
        line = line sprintf("; the paper states %g: %+.1f, %+.1f, %+.1f %%", stated, (rate / unit[1] / stated - 1) * 100,
            (rate / unit[2] / stated - 1) * 100, (rate / unit[3] / stated - 1) * 100)
    print line
}

BEGIN {
    latency_s = 1e-7; byte_s = 1.04762e-10; gap_s = 1e-9; hops = 4; engines = 4
    split("64 256 1024 16384 131072 262144 524288 1048576", below, " ") # KiB
    split("1 4 8 16 32 64 128 256", segments, " ")
    split("0 9 4.5 3", stated_relay, " ")
    split("0 22 0 16", stated_two_phase, " ")
    print "ranks_a_node,bytes,segments,relay_us,two_phase_us,relay_gb_s,two_phase_gb_s"
    for (ppn = 2; ppn <= 4; ppn++)
        for (bytes = 1024; bytes <= 1073741824; bytes *= 2) {
            relay = relay_s(bytes, ppn); two_phase = two_phase_s(bytes, ppn)
            printf "%d,%d,%d,%.4f,%.4f,%.4f,%.4f\n", ppn, bytes, segments_of(bytes), relay * 1e6, two_phase * 1e6,
                bytes / relay / 1e9, bytes / two_phase / 1e9
            if (bytes / relay > most_relay[ppn]) most_relay[ppn] = bytes / relay
            if (bytes / two_phase > most_two_phase[ppn]) most_two_phase[ppn] = bytes / two_phase
        }
    for (ppn = 2; ppn <= 4; ppn++) {
        tell_peak("relay", ppn, most_relay[ppn], stated_relay[ppn])
        tell_peak("two-phase", ppn, most_two_phase[ppn], stated_two_phase[ppn])
    }
}

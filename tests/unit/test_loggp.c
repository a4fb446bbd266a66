/* The equations against what they must say, the paper's machine, the choice, and
 * files of parameters. */
#include <unistd.h>

#include "check.h"
#include "model/choose.h"
#include "model/loggp.h"

static const uint64_t KiB = 1024, MiB = 1048576;

/* ---- the paper ---- */

static void assert_about(double value, double wanted, double share) {
    if (value < wanted * (1 - share) || value > wanted * (1 + share))
        fail_msg("%g is not within %g %% of %g", value, share * 100, wanted);
}

static struct tug_model_parameters named(const char *name);
static struct tug_places places_of(uint32_t nodes, uint32_t ppn, const char *torus);
static double predict(const struct tug_places *places, enum tug_algorithm algorithm,
                      enum tug_phases phases, uint64_t bytes, uint64_t segment,
                      const struct tug_model_parameters *parameters);

/* `tugboat model` says that our relay wins where it copies with as many engines as two-phase, be
 * they four or one, and that it loses if it alone has one. */
static void paper_reason(void **state) {
    (void)state;
    struct tug_model_parameters p = named("fx100");
    struct tug_places places = places_of(12, 4, "2x2x3");
    struct tug_tree_shape shape = tug_tree_shape_of(&places, TUG_TRINARY, 0);
    double relay_s = predict(&places, TUG_TRINARY, TUG_RELAY, 64 * MiB, 8 * KiB, &p);
    double two_phase_s = predict(&places, TUG_TRINARY, TUG_TWO_PHASE, 64 * MiB, 8 * KiB, &p);
    assert_true(relay_s < two_phase_s);
    assert_true(two_phase_s < tug_predict_bcast(&shape, TUG_ONE_ENGINE, 64 * MiB, 8 * KiB, &p));
    p.copiers = 1;
    relay_s = predict(&places, TUG_TRINARY, TUG_RELAY, 64 * MiB, 8 * KiB, &p);
    two_phase_s = predict(&places, TUG_TRINARY, TUG_TWO_PHASE, 64 * MiB, 8 * KiB, &p);
    assert_true(relay_s < two_phase_s);
    tug_places_fini(&places);
}

static void paper_segments(void **state) {
    (void)state;
    static const struct {
        uint64_t kib;
        uint32_t segments;
    } table[] = {{1, 1},       {32, 1},       {64, 4},       {128, 4},      {256, 8},
                 {512, 8},     {1024, 16},    {8192, 16},    {16384, 32},   {65536, 32},
                 {131072, 64}, {262144, 128}, {524288, 256}, {1048576, 512}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(tug_paper_segments(table[i].kib * KiB), table[i].segments);
}

/* ---- ours ---- */

static struct tug_model_parameters named(const char *name) {
    struct tug_model_parameters parameters;
    assert_int_equal(tug_model_named(name, &parameters), 0);
    return parameters;
}

static struct tug_places places_of(uint32_t nodes, uint32_t ppn, const char *torus) {
    struct tug_model_shape shape = {.nodes = nodes, .ppn = ppn};
    struct tug_places places;
    sscanf(torus, "%ux%ux%u", &shape.torus[0], &shape.torus[1], &shape.torus[2]);
    assert_int_equal(tug_model_places(&shape, &places), 0);
    return places;
}

static double predict(const struct tug_places *places, enum tug_algorithm algorithm,
                      enum tug_phases phases, uint64_t bytes, uint64_t segment,
                      const struct tug_model_parameters *parameters) {
    struct tug_bcast_plan plan = {
        .algorithm = algorithm, .phases = phases, .elements = bytes, .segment = segment};
    return tug_model_predict(places, &plan, 1, parameters);
}

static const struct tug_model_parameters two_to_a_core = {.between = {3e-6, 1e-6, 0, 1e-9},
                                                          .inside = {2e-7, 1e-7, 0, 1e-10},
                                                          .engines = 1,
                                                          .copiers = 2,
                                                          .crowd = 2,
                                                          .turn_s = 5e-6};

/* Ranks that share a core: what all processors have to do bounds a message of several segments, and
 * the nodes wait for their turns one after another, but where there are cores for several messages
 * at a time; the ranks of a node are counted once. */
static void crowded(void **state) {
    (void)state;
    struct tug_model_parameters p = two_to_a_core;
    struct tug_places chain = places_of(5, 1, "");
    assert_about(predict(&chain, TUG_CHAIN, TUG_RELAY, 1000, 1000, &p), 4 * 11e-6, 1e-9);
    /* four messages of 16 us at either end, by 5 ranks of whom two share a core */
    const double work_s = 2 * 4 * 2 * 16e-6 / 5, turns = 2 * 4 * 2 / 5.;
    assert_about(predict(&chain, TUG_CHAIN, TUG_RELAY, 64000, 16000, &p),
                 4 * 26e-6 + 3 * (work_s + turns * 5e-6), 1e-9);
    p.turn_s = 40e-6;
    assert_about(predict(&chain, TUG_CHAIN, TUG_RELAY, 64000, 16000, &p),
                 4 * 61e-6 + 3 * (work_s + turns * 40e-6), 1e-9);
    p.crowd = 1.1; /* no more than who has most to do needs: to receive one and to send one */
    assert_about(predict(&chain, TUG_CHAIN, TUG_RELAY, 64000, 16000, &p),
                 4 * 61e-6 + 3 * (32e-6 + 1.1 / 2 * turns * 40e-6), 1e-9);
    p.crowd = 2;
    tug_places_fini(&chain);
    struct tug_places node = places_of(1, 4, "");
    const double node_s = predict(&node, TUG_CHAIN, TUG_RELAY, 3000, 1000, &p);
    p.crowd = 1;
    assert_about(node_s, predict(&node, TUG_CHAIN, TUG_RELAY, 3000, 1000, &p), 1e-9);
    p.crowd = 4; /* of another node, too */
    assert_true(predict(&node, TUG_CHAIN, TUG_RELAY, 3000, 1000, &p) > 1.5 * node_s);
    tug_places_fini(&node);
}

/* Ranks that share a core: messages that are not on the way to the last node take the cores from
 * those that are, as many at a time as there are pairs of cores. */
static void crowded_trees(void **state) {
    (void)state;
    struct tug_model_parameters p = two_to_a_core;
    p.turn_s = 30e-6;
    struct tug_places four = places_of(4, 1, ""), eight = places_of(8, 1, "");
    struct tug_places pairs = places_of(3, 2, "");
    /* of three messages of a trip of 6 us, which takes a processor for 1 us, one is on no way */
    assert_about(predict(&four, TUG_BINOMIAL, TUG_RELAY, 1000, 1000, &p),
                 2 * 36e-6 + (1e-6 + 10e-6), 1e-9);
    assert_about(predict(&eight, TUG_BINOMIAL, TUG_RELAY, 1000, 1000, &p),
                 3 * 36e-6 + 4 / 2. * (1e-6 + 10e-6), 1e-9);
    /* of nine messages, six: a third of the bytes each */
    assert_about(predict(&four, TUG_TRINARY, TUG_RELAY, 3000, 1000, &p),
                 3 * 36e-6 + 6 * (1e-6 + 10e-6), 1e-9);
    /* a copy of 0.2 us into the memory of a node, and one out of it by ranks that share a core */
    assert_about(predict(&pairs, TUG_CHAIN, TUG_RELAY, 1000, 1000, &p), 2 * 36e-6 + 0.8e-6, 1e-9);
    assert_about(predict(&pairs, TUG_BINOMIAL, TUG_RELAY, 1000, 1000, &p),
                 36e-6 + (1e-6 + 10e-6) + 0.8e-6, 1e-9);
    p.crowd = 1;
    assert_about(predict(&four, TUG_BINOMIAL, TUG_RELAY, 1000, 1000, &p), 2 * 36e-6, 1e-9);
    tug_places_fini(&four);
    tug_places_fini(&eight);
    tug_places_fini(&pairs);
}

/* Ranks that share a core: a processor is busy with a message for as long as it keeps the next from
 * leaving, so it comes no sooner. */
static void crowded_transfer(void **state) {
    (void)state;
    struct tug_model_parameters p = {
        .crowd = 1, .ntransfers = 1, .transfers = {{1000, 10e-6, 25e-6, 2e-6}}};
    struct tug_transfer_speed transfer = tug_transfer_at(&p, 1000, 0);
    assert_about(transfer.trip_s, 10e-6, 1e-9);
    assert_about(transfer.handle_s, 2e-6, 1e-9);
    p.crowd = 2;
    transfer = tug_transfer_at(&p, 1000, 0);
    assert_about(transfer.trip_s, 25e-6, 1e-9);
    assert_about(transfer.handle_s, 25e-6, 1e-9);
}

/* Where LogGP leaves nothing to interpretation. */
static void by_hand(void **state) {
    (void)state;
    struct tug_model_parameters p = {.between = {3e-6, 1e-6, 0, 1e-9},
                                     .inside = {2e-7, 1e-7, 0, 1e-10},
                                     .engines = 1,
                                     .copiers = 8};
    struct tug_places chain = places_of(5, 1, "");
    assert_about(predict(&chain, TUG_CHAIN, TUG_RELAY, 1000, 1000, &p), 4 * 6e-6, 1e-9);
    assert_about(predict(&chain, TUG_CHAIN, TUG_RELAY, 64000, 16000, &p), 4 * 21e-6 + 3 * 16e-6,
                 1e-9);
    tug_places_fini(&chain);
    struct tug_places tree = places_of(8, 1, "");
    assert_about(predict(&tree, TUG_BINOMIAL, TUG_RELAY, 1000, 1000, &p), 3 * 6e-6, 1e-9);
    tug_places_fini(&tree);
    struct tug_places node = places_of(1, 4, "");
    assert_about(predict(&node, TUG_CHAIN, TUG_RELAY, 3000, 1000, &p), 2e-7 + 4 * 2e-7, 1e-9);
    p.copiers = 2; /* half of the ranks copy while the others wait */
    assert_about(predict(&node, TUG_CHAIN, TUG_RELAY, 3000, 1000, &p), 2e-7 + 2e-7 + 3 * 4e-7,
                 1e-9);
    assert_true(predict(&node, TUG_CHAIN, TUG_RELAY, 0, 1, &p) == 0);
    tug_places_fini(&node);
}

static void copy_speeds(void **state) {
    (void)state;
    struct tug_model_parameters p = named("default");
    assert_true(tug_copy_byte_s(&p, MiB) == p.inside.byte_s);
    p.ncopies = 3;
    p.copies[0] = (struct tug_copy_speed){64 * KiB, 1e-11};
    p.copies[1] = (struct tug_copy_speed){MiB, 3e-11};
    p.copies[2] = (struct tug_copy_speed){16 * MiB, 3.5e-11};
    assert_about(tug_copy_byte_s(&p, 8), 1e-11, 1e-9);
    assert_about(tug_copy_byte_s(&p, 64 * KiB), 1e-11, 1e-9);
    assert_about(tug_copy_byte_s(&p, 256 * KiB), 2e-11, 1e-9);
    assert_about(tug_copy_byte_s(&p, MiB), 3e-11, 1e-9);
    assert_about(tug_copy_byte_s(&p, 4 * MiB), 3.25e-11, 1e-9);
    assert_about(tug_copy_byte_s(&p, 640 * MiB), 3.5e-11, 1e-9);
}

/* Messages from 8 KiB on take another protocol. */
static struct tug_model_parameters jumping(void) {
    struct tug_model_parameters p = named("default");
    p.start_s = 0;
    p.ntransfers = 4;
    p.transfers[0] = (struct tug_transfer_speed){1024, 5e-6, 4e-6, 1e-6};
    p.transfers[1] = (struct tug_transfer_speed){4096, 8e-6, 5e-6, 3e-6};
    p.transfers[2] = (struct tug_transfer_speed){8192, 50e-6, 30e-6, 30e-6};
    p.transfers[3] = (struct tug_transfer_speed){64 * KiB, 60e-6, 40e-6, 30e-6};
    return p;
}

static void assert_transfer(const struct tug_model_parameters *p, uint64_t segment, uint64_t bytes,
                            double trip_us, double interval_us, double handle_us) {
    struct tug_transfer_speed t = tug_transfer_at(p, segment, bytes);
    assert_about(t.trip_s * 1e6, trip_us, 1e-9);
    assert_about(t.interval_s * 1e6, interval_us, 1e-9);
    assert_about(t.handle_s * 1e6, handle_us, 1e-9);
}

static void transfers(void **state) {
    (void)state;
    struct tug_model_parameters p = named("default");
    assert_transfer(&p, 10000, 10000, 2 + 1 + 1, 0.2 + 1, 0.5);
    p = jumping();
    assert_transfer(&p, 8, 8, 5, 4, 1);
    assert_transfer(&p, 4096, 4096, 8, 5, 3);
    assert_transfer(&p, 1024 + 1024, MiB, 6, 4 + 1. / 3, 1 + 2. / 3);
    assert_transfer(&p, 128 * KiB, MiB, 60 + 40, 80, 60);
    p.far_byte_s = 2e-9;
    assert_transfer(&p, 4096, MiB, 8, 5, 3);
    assert_transfer(&p, 4096, 64 * MiB, 8 + 3.192, 8.192, 3);
}

/* ---- choosing ---- */

/* Segments stay below the jump, and where nothing was measured there are none. */
static void chooses_by_transfers(void **state) {
    (void)state;
    struct tug_model_parameters p = jumping();
    struct tug_candidate candidates[TUG_CANDIDATES_MOST];
    struct tug_places places = places_of(2, 1, "");
    struct tug_broadcast message = {.elements = 16 * KiB, .element_bytes = 1};
    assert_int_equal(tug_model_choose(&places, &message, &p, candidates), 1);
    assert_int_equal(candidates[0].plan.segment, 4096);
    assert_about(candidates[0].seconds, 8e-6 + 3 * 5e-6, 1e-9);
    message.elements = 64 * MiB;
    tug_model_choose(&places, &message, &p, candidates);
    assert_int_equal(candidates[0].plan.segment, 64 * KiB);
    tug_places_fini(&places);
    places = places_of(4, 1, ""); /* who passes on has to receive as well */
    assert_about(predict(&places, TUG_CHAIN, TUG_RELAY, 16 * KiB, 4096, &p), 3 * 8e-6 + 3 * 6e-6,
                 1e-9);
    tug_places_fini(&places);
}

static void chooses(void **state) {
    (void)state;
    struct tug_model_parameters p = named("default");
    struct tug_candidate candidates[TUG_CANDIDATES_MOST];
    struct tug_places places = places_of(64, 4, "");
    struct tug_broadcast message = {.elements = 2, .element_bytes = 8};
    assert_int_equal(tug_model_choose(&places, &message, &p, candidates), 6);
    assert_int_equal(candidates[0].plan.algorithm, TUG_BINOMIAL);
    message.elements = 8 * MiB;
    uint32_t n = tug_model_choose(&places, &message, &p, candidates);
    assert_int_not_equal(candidates[0].plan.algorithm, TUG_BINOMIAL);
    for (uint32_t i = 1; i < n; i++)
        assert_true(candidates[i - 1].seconds <= candidates[i].seconds);
    assert_true(candidates[0].plan.segment > 0);
    assert_true(candidates[0].plan.segment * 8 <= p.segment_most);
    assert_true(tug_model_predict(&places, &candidates[0].plan, 8, &p) == candidates[0].seconds);
    message.segment_bytes = 4096;
    tug_model_choose(&places, &message, &p, candidates);
    assert_int_equal(candidates[0].plan.segment, 512);
    message.element_bytes = 5000; /* an element is never cut */
    tug_model_choose(&places, &message, &p, candidates);
    assert_int_equal(candidates[0].plan.segment, 1);
    tug_places_fini(&places);
}

/* What would be the same schedule is one candidate. */
static void few_candidates(void **state) {
    (void)state;
    static const struct {
        uint32_t nodes, ppn, candidates;
    } cases[] = {{1, 1, 1}, {1, 7, 1}, {2, 1, 1}, {2, 2, 4}, {3, 1, 3}, {3, 2, 6}};
    struct tug_model_parameters p = named("default");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tug_candidate candidates[TUG_CANDIDATES_MOST];
        struct tug_places places = places_of(cases[i].nodes, cases[i].ppn, "");
        struct tug_broadcast message = {.elements = 100, .element_bytes = 8};
        assert_int_equal(tug_model_choose(&places, &message, &p, candidates), cases[i].candidates);
        message.elements = 0;
        assert_int_equal(tug_model_choose(&places, &message, &p, candidates), cases[i].candidates);
        assert_true(candidates[0].plan.segment > 0);
        tug_places_fini(&places);
    }
}

/* More bandwidth or less latency never makes anything slower. */
static void monotone(void **state) {
    (void)state;
    struct tug_model_parameters p = named("default");
    struct tug_model_parameters worse = p;
    worse.between.latency_s *= 2;
    worse.between.byte_s *= 2;
    worse.inside.overhead_s *= 2;
    worse.inside.byte_s *= 2;
    struct tug_model_shape shape = {.nodes = 27, .ppn = 4, .torus = {3, 3, 3}};
    struct tug_model_prediction a[TUG_MODEL_WAYS], b[TUG_MODEL_WAYS];
    uint32_t n;
    double before = 0;
    for (uint64_t bytes = 1; bytes <= KiB * MiB; bytes *= 4) {
        assert_int_equal(tug_model_bcast(&shape, bytes, &p, a, &n), 0);
        assert_int_equal(tug_model_bcast(&shape, bytes, &worse, b, &n), 0);
        assert_int_equal(n, 6);
        assert_true(a[0].seconds < b[0].seconds);
        assert_true(a[0].seconds >= before);
        before = a[0].seconds;
    }
}

static void bad_shapes(void **state) {
    (void)state;
    struct tug_model_parameters p = named("default");
    struct tug_model_prediction predictions[TUG_MODEL_WAYS];
    uint32_t n = 77;
    static const struct tug_model_shape shapes[] = {
        {.nodes = 0, .ppn = 1},
        {.nodes = 1, .ppn = 0},
        {.nodes = 1u << 31, .ppn = 2},
        {.nodes = 8, .ppn = 1, .torus = {2, 2, 3}},
        {.nodes = 8, .ppn = 1, .torus = {8, 1, 0}},
        {.nodes = 0x10000, .ppn = 1, .torus = {0x10000, 0x10000, 0x10001}},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        assert_int_equal(tug_model_bcast(&shapes[i], 8, &p, predictions, &n), TUG_ERR_INVALID);
    assert_int_equal(n, 77);
    assert_int_equal(tug_model_named("nonesuch", &p), TUG_ERR_INVALID);
}

/* ---- files ---- */

static char file_name[64];

static int with_file(void **state) {
    (void)state;
    snprintf(file_name, sizeof(file_name), "/tmp/tug-tuning-%d", (int)getpid());
    return 0;
}

static int without_file(void **state) {
    (void)state;
    unlink(file_name);
    return 0;
}

static void write_text(const char *text) {
    FILE *file = fopen(file_name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void there_and_back(void **state) {
    (void)state;
    struct tug_model_parameters p = named("fx100"), q;
    char why[256];
    p.between_is_guess = 1;
    p.ncopies = 2;
    p.copies[0] = (struct tug_copy_speed){1, 1e-11};
    p.copies[1] = (struct tug_copy_speed){MiB, 3e-11};
    p.ntransfers = 2;
    p.transfers[0] = (struct tug_transfer_speed){8, 1e-6, 2e-6, 0};
    p.transfers[1] = (struct tug_transfer_speed){MiB, 5e-4, 4e-4, 3e-4};
    p.far_byte_s = 3e-10;
    p.crowd = 2.5;
    p.turn_s = 125e-6;
    assert_int_equal(tug_model_write(file_name, &p), 0);
    assert_int_equal(tug_model_read(file_name, &q, why, sizeof(why)), 0);
    const double *a = (const double *)&p, *b = (const double *)&q;
    for (size_t i = 0; i < 9; i++)
        assert_true(a[i] == b[i] || (b[i] > a[i] * 0.99999 && b[i] < a[i] * 1.00001));
    assert_int_equal(q.engines, p.engines);
    assert_int_equal(q.copiers, p.copiers);
    assert_int_equal(q.segment_most, p.segment_most);
    assert_int_equal(q.between_is_guess, 1);
    assert_int_equal(q.ncopies, 2);
    assert_int_equal(q.copies[1].bytes, MiB);
    assert_about(q.copies[1].byte_s, 3e-11, 1e-5);
    assert_int_equal(q.ntransfers, 2);
    assert_about(q.crowd, 2.5, 1e-5);
    q.crowd = 1;
    assert_transfer(&q, 8, 8, 1, 2, 0);
    assert_int_equal(q.transfers[1].bytes, MiB);
    assert_about(q.transfers[1].trip_s, 5e-4, 1e-5);
    assert_about(q.transfers[1].interval_s, 4e-4, 1e-5);
    assert_about(q.transfers[1].handle_s, 3e-4, 1e-5);
    assert_about(q.far_byte_s, 3e-10, 1e-5);
    assert_about(q.turn_s, 125e-6, 1e-5);
    assert_int_equal(tug_model_write("/no/such/folder/file", &p), TUG_ERR_SYSTEM);
}

/* A machine on which two ranks share a core, four nodes of one rank each emulated on two cores:
 * what its calibration found, and the medians of all ways by turns (./dev cluster --model). Of each
 * size the model's choice is listed first. */
static void crowded_machine(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        enum tug_algorithm algorithm;
        enum tug_phases phases;
        uint64_t segment;
        double measured_s;
    } ways[] = {
        {32768, TUG_BINOMIAL, TUG_RELAY, 32768, 138.2e-6},
        {32768, TUG_CHAIN, TUG_RELAY, 32768, 165.3e-6},
        {32768, TUG_TRINARY, TUG_RELAY, 16384, 276.4e-6},
        {262144, TUG_BINOMIAL, TUG_RELAY, 262144, 331.3e-6},
        {262144, TUG_TRINARY, TUG_RELAY, 131072, 545.9e-6},
        {262144, TUG_CHAIN, TUG_RELAY, 131072, 581.7e-6},
        {1048576, TUG_BINOMIAL, TUG_RELAY, 1048576, 1324.0e-6},
        {1048576, TUG_TRINARY, TUG_RELAY, 524288, 1332.7e-6},
        {1048576, TUG_CHAIN, TUG_RELAY, 1048576, 1519.4e-6},
        {4194304, TUG_TRINARY, TUG_RELAY, 524288, 4663.1e-6},
        {4194304, TUG_BINOMIAL, TUG_RELAY, 1048576, 4462.0e-6},
        {4194304, TUG_CHAIN, TUG_RELAY, 1048576, 5252.5e-6},
    };
    struct tug_model_parameters p;
    struct tug_places places = places_of(4, 1, "");
    char why[256];
    write_text("between.latency_us = 10.3447\n"
               "between.overhead_us = 0.178143\n"
               "between.gap_us = 9.64561\n"
               "between.bandwidth_gb_s = 2.81164\n"
               "between.guess = 0\n"
               "start_us = 0.2\n"
               "between.far_ns_byte = 0.39842\n"
               "hop_us = 0.1\n"
               "engines = 1\n"
               "inside.latency_us = 0.2\n"
               "inside.overhead_us = 0.05\n"
               "inside.gap_us = 0\n"
               "inside.bandwidth_gb_s = 10\n"
               "copiers = 2\n"
               "crowd = 2\n"
               "turn_us = 70\n"
               "segment_most = 65536\n"
               "transfer 8 = 8.988 10.0279 0.178143\n"
               "transfer 1024 = 10.542 10.7164 5.84014\n"
               "transfer 2048 = 12.178 10.5879 6.50757\n"
               "transfer 4096 = 19.868 12.7249 4.12043\n"
               "transfer 8192 = 14.957 14.9844 2.86857\n"
               "transfer 16384 = 17.508 12.9154 9.55343\n"
               "transfer 32768 = 17.58 15.2443 12.0873\n"
               "transfer 65536 = 50.104 52.2047 37.903\n"
               "transfer 262144 = 137.61 128.535 100.381\n"
               "transfer 1048576 = 323.947 401.828 401.828\n");
    assert_int_equal(tug_model_read(file_name, &p, why, sizeof(why)), 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const double s =
            predict(&places, ways[i].algorithm, ways[i].phases, ways[i].bytes, ways[i].segment, &p);
        if (s > 2 * ways[i].measured_s || ways[i].measured_s > 2 * s)
            fail_msg("%g us for %llu bytes, measured %g", s * 1e6,
                     (unsigned long long)ways[i].bytes, ways[i].measured_s * 1e6);
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i += 3) {
        const struct tug_broadcast message = {.elements = ways[i].bytes, .element_bytes = 1};
        struct tug_candidate candidates[TUG_CANDIDATES_MOST];
        assert_int_equal(tug_model_choose(&places, &message, &p, candidates), 3);
        assert_int_equal(candidates[0].plan.algorithm, ways[i].algorithm);
        for (size_t j = i; j < i + 3; j++)
            assert_true(ways[i].measured_s < 1.25 * ways[j].measured_s);
    }
    tug_places_fini(&places);
}

static void half_a_file(void **state) {
    (void)state;
    struct tug_model_parameters p, normal = named("default");
    char why[256];
    write_text("# by hand\n\n  between.latency_us=7 # slow\n\tengines = 2\r\n");
    assert_int_equal(tug_model_read(file_name, &p, why, sizeof(why)), 0);
    assert_about(p.between.latency_s, 7e-6, 1e-9);
    assert_int_equal(p.engines, 2);
    assert_int_equal(p.between_is_guess, 0);
    assert_true(p.inside.byte_s == normal.inside.byte_s);
    assert_true(p.crowd == 1 && p.turn_s == 0);
}

static void bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *line, *word;
    } cases[] = {
        {"engines = 1\nspeed = 3\n", ":2:", "speed"},
        {"engines\n", ":1:", "engines"},
        {"engines =\n", ":1:", "engines"},
        {"engines = 0\n", ":1:", "0"},
        {"engines = 1.5\n", ":1:", "whole number"},
        {"engines = 1 2\n", ":1:", "1 2"},
        {"\n\nbetween.latency_us = -1\n", ":3:", "-1"},
        {"between.latency_us = nan\n", ":1:", "nan"},
        {"between.latency_us = 1e400\n", ":1:", "1e400"},
        {"between.bandwidth_gb_s = 0\n", ":1:", "GB/s"},
        {"segment_most = 100\n", ":1:", "1024"},
        {"between.guess = 2\n", ":1:", "0 or 1"},
        {"copy 0 = 4\n", ":1:", "bytes"},
        {"copy = 4\n", ":1:", "copy"},
        {"copy 100 = fast\n", ":1:", "fast"},
        {"copy 100 = 4\ncopy 100 = 3\n", ":2:", "100"},
        {"copy 1=1\ncopy 2=1\ncopy 3=1\ncopy 4=1\ncopy 5=1\ncopy 6=1\ncopy 7=1\ncopy 8=1\n"
         "copy 9=1\n",
         ":9:", "full"},
        {"transfer 8 = 1 2\n", ":1:", "three times"},
        {"transfer 8 = 1 2 3 4\n", ":1:", "no more"},
        {"transfer 8 = 1 x 3\n", ":1:", "x"},
        {"transfer 8 = 1 2 3\ntransfer 8 = 1 2 3\n", ":2:", "more bytes"},
        {"between.far_ns_byte = -1\n", ":1:", "nanoseconds"},
    };
    struct tug_model_parameters p, untouched;
    memset(&p, 42, sizeof(p));
    memcpy(&untouched, &p, sizeof(p));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[256] = "";
        write_text(cases[i].text);
        assert_int_equal(tug_model_read(file_name, &p, why, sizeof(why)), TUG_ERR_INVALID);
        if (strstr(why, file_name) == NULL || strstr(why, cases[i].line) == NULL ||
            strstr(why, cases[i].word) == NULL)
            fail_msg("case %zu: %s", i, why);
    }
    char why[256];
    assert_int_equal(tug_model_read("/no/such/file", &p, why, sizeof(why)), TUG_ERR_SYSTEM);
    assert_non_null(strstr(why, "/no/such/file: No such"));
    assert_memory_equal(&p, &untouched, sizeof(p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paper_segments),
        cmocka_unit_test(paper_reason),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(crowded),
        cmocka_unit_test(crowded_trees),
        cmocka_unit_test(crowded_transfer),
        cmocka_unit_test(copy_speeds),
        cmocka_unit_test(transfers),
        cmocka_unit_test(chooses),
        cmocka_unit_test(chooses_by_transfers),
        cmocka_unit_test(few_candidates),
        cmocka_unit_test(monotone),
        cmocka_unit_test(bad_shapes),
        cmocka_unit_test_setup_teardown(there_and_back, with_file, without_file),
        cmocka_unit_test_setup_teardown(crowded_machine, with_file, without_file),
        cmocka_unit_test_setup_teardown(half_a_file, with_file, without_file),
        cmocka_unit_test_setup_teardown(bad_files, with_file, without_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

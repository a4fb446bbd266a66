/*
 * `tugboat model`: what a broadcast would cost on a machine, by size and algorithm; the schedules
 * it would run; and what a simulation of them says.
 *
 * Nothing is measured and no MPI is needed: the machine is its parameters.
 */
#include "cmd/model.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cmd/cmd.h"
#include "model/loggp.h"
#include "model/simulate.h"
#include "tugboat/tugboat.h"

#define SIZE_MOST ((uint64_t)1 << 44)
#define RANKS_SIMULATED 4000000

struct options {
    struct tug_model_report *report;
    uint64_t first, last; /* bytes */
    const char *parameters;
    int algorithm;          /* -1: all */
    uint64_t segment_bytes; /* 0: the best one of each */
    bool json, dump;
    uint32_t dump_rank;
};

static bool complain(const char *option, const char *value, const char *wanted) {
    tug_cmd_say("model: %s %s: it must be %s", option, value, wanted);
    return false;
}

/* ---- options ---- */

static bool parse_count(const char *option, const char *text, uint32_t most, uint32_t *count) {
    uint64_t number;
    char wanted[64];
    const char *at = text;
    if (tug_take_number(&at, most, &number) && *at == '\0') {
        *count = (uint32_t)number;
        return true;
    }
    snprintf(wanted, sizeof(wanted), "a whole number, 1 to %u", most);
    return complain(option, text, wanted);
}

/* Bytes, with K, M or G for powers of 1024. */
static bool take_size(const char **text, uint64_t *bytes) {
    static const char units[] = "KMG";
    if (!tug_take_number(text, SIZE_MOST, bytes))
        return false;
    const char *unit = **text != '\0' ? strchr(units, **text) : NULL;
    if (unit != NULL) {
        *bytes <<= 10 * (unit - units + 1);
        (*text)++;
    }
    return *bytes <= SIZE_MOST;
}

static bool parse_sizes(struct options *options, const char *text) {
    const char *at = text;
    bool good = take_size(&at, &options->first);
    options->last = options->first;
    if (good && *at == ':') {
        at++;
        good = take_size(&at, &options->last);
    }
    if (good && *at == '\0' && options->first <= options->last)
        return true;
    return complain("--size", text, "bytes such as 64K, or two with a colon between, 1K:1G");
}

static bool parse_segment(struct options *options, const char *text) {
    const char *at = text;
    return (take_size(&at, &options->segment_bytes) && *at == '\0') ||
           complain("--segment", text, "bytes such as 64K");
}

static bool parse_torus(struct options *options, const char *text) {
    const char *at = text;
    for (int d = 0; d < 3; d++) {
        uint64_t side;
        if ((d > 0 && *at++ != 'x') || !tug_take_number(&at, UINT32_MAX, &side))
            return complain("--torus", text, "nodes along three axes, such as 2x3x2");
        options->report->shape.torus[d] = (uint32_t)side;
    }
    options->report->network.kind = TUG_NETWORK_TORUS;
    return *at == '\0' || complain("--torus", text, "nodes along three axes, such as 2x3x2");
}

static bool parse_tree(struct options *options, const char *text) {
    struct tug_network *network = &options->report->network;
    uint64_t radix = 0;
    uint64_t taper = 1;
    const char *at = text;
    bool good = tug_take_number(&at, 65536, &radix);
    if (good && *at == ':') {
        at++;
        good = tug_take_number(&at, 65536, &taper);
    }
    if (!good || *at != '\0')
        return complain("--tree", text, "nodes of a switch, such as 16, or with a taper, 16:2");
    network->kind = TUG_NETWORK_TREE;
    network->radix = (uint32_t)radix;
    network->taper = (uint32_t)taper;
    return true;
}

static bool parse_algorithm(struct options *options, const char *text) {
    for (int a = 0; a < TUG_ALGORITHMS; a++)
        if (strcmp(tug_algorithm_name(a), text) == 0) {
            options->algorithm = a;
            return true;
        }
    return complain("--algorithm", text, "chain, binomial or trinary");
}

static bool parse_dump(struct options *options, const char *text) {
    options->dump = true;
    if (text == NULL || strcmp(text, "0") == 0)
        return true;
    return parse_count("--dump", text, INT32_MAX, &options->dump_rank);
}

static bool parse_option(struct options *options, int option, const char *text) {
    switch (option) {
    case 'n':
        return parse_count("--nodes", text, INT32_MAX, &options->report->shape.nodes);
    case 'p':
        return parse_count("--ppn", text, INT32_MAX, &options->report->shape.ppn);
    case 's':
        return parse_sizes(options, text);
    case 't':
        return parse_torus(options, text);
    case 'f':
        return parse_tree(options, text);
    case 'a':
        return parse_algorithm(options, text);
    case 'g':
        return parse_segment(options, text);
    case 'm':
        options->parameters = text;
        return true;
    case 'S':
        options->report->simulated = true;
        return true;
    case 'd':
        return parse_dump(options, text);
    case 'j':
        options->json = true;
        return true;
    default:
        return false;
    }
}

/* Refuses options that do not fit together. */
static bool check_options(const struct options *options) {
    const struct tug_model_shape *shape = &options->report->shape;
    const uint32_t *side = shape->torus;
    uint64_t ranks = (uint64_t)shape->nodes * shape->ppn;
    const char *wrong = NULL;
    if (ranks > INT32_MAX)
        wrong = "more ranks than MPI can have";
    else if (side[0] > 0 && (double)side[0] * side[1] * side[2] != shape->nodes)
        wrong = "the torus has another number of nodes than --nodes";
    else if (side[0] > 0 && options->report->network.kind == TUG_NETWORK_TREE)
        wrong = "a network is a torus or a tree";
    else if (options->dump && options->first != options->last)
        wrong = "--dump wants one size";
    else if (options->dump && options->dump_rank >= ranks)
        wrong = "--dump wants a rank that there is";
    else if (options->report->simulated && ranks > RANKS_SIMULATED)
        wrong = "--simulate takes at most 4000000 ranks";
    if (wrong != NULL)
        tug_cmd_say("model: %s", wrong);
    return wrong == NULL;
}

static bool parse(struct options *options, int argc, char **argv) {
    static const struct option longs[] = {
        {"nodes", required_argument, NULL, 'n'},   {"ppn", required_argument, NULL, 'p'},
        {"size", required_argument, NULL, 's'},    {"torus", required_argument, NULL, 't'},
        {"tree", required_argument, NULL, 'f'},    {"algorithm", required_argument, NULL, 'a'},
        {"segment", required_argument, NULL, 'g'}, {"parameters", required_argument, NULL, 'm'},
        {"simulate", no_argument, NULL, 'S'},      {"dump", optional_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},          {NULL, 0, NULL, 0},
    };
    int option;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (option == '?' || option == ':') {
            (void)(option == '?' ? tug_cmd_no_option("model", argv[optind - 1])
                                 : tug_cmd_no_value("model", argv[optind - 1]));
            return false;
        }
        if (!parse_option(options, option, optarg))
            return false;
    }
    if (optind < argc) {
        (void)tug_cmd_no_argument("model", argv[optind]);
        return false;
    }
    return check_options(options);
}

/* ---- work ---- */

/* The parameters that were asked for, else those the library would use, else a guess. */
static int load_parameters(struct options *options) {
    char why[512];
    struct tug_model_report *report = options->report;
    if (tug_cmd_load_settings() != 0)
        return 1;
    report->machine = options->parameters != NULL ? options->parameters : tug_settings.tuning;
    if (report->machine == NULL)
        report->machine = "default";
    if (tug_model_named(report->machine, &report->parameters) == 0 ||
        tug_model_read(report->machine, &report->parameters, why, sizeof(why)) == 0)
        return 0;
    tug_cmd_say("%s", why);
    if (strpbrk(report->machine, "./") == NULL)
        tug_cmd_say("parameters are a file, default, or fx100");
    return 1;
}

struct job {
    const struct tug_places *places;
    const struct tug_bcast_plan *plan;
};

static int compile(void *state, uint32_t rank, struct tug_schedule *schedule) {
    const struct job *job = state;
    return tug_compile_bcast(schedule, job->places, job->plan, rank);
}

static int simulate(const struct tug_model_report *report, const struct tug_places *places,
                    const struct tug_bcast_plan *plan, double *seconds) {
    char why[256] = "";
    struct job job = {places, plan};
    struct tug_simulated result;
    const struct tug_simulation simulation = {
        .places = places,
        .parameters = &report->parameters,
        .network = report->network,
        .element_bytes = 1,
        .message_bytes = plan->elements,
        .slots = TUG_SIMULATED_SLOTS,
        .one_engine = plan->phases == TUG_ONE_ENGINE && tug_engines_carry(&report->parameters),
        .compile = compile,
        .state = &job,
    };
    int error = tug_simulate(&simulation, &result, why, sizeof(why));
    if (error) {
        tug_cmd_say("the simulation of %s fails: %s%s%s", tug_algorithm_name(plan->algorithm),
                    tug_strerror(error), why[0] != '\0' ? ": " : "", why);
        return error;
    }
    *seconds = result.seconds;
    return 0;
}

/* Keeps only the candidates of one algorithm. */
static void keep(struct tug_model_row *row, int algorithm) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < row->ncandidates; i++)
        if (algorithm < 0 || (int)row->candidates[i].plan.algorithm == algorithm)
            row->candidates[kept++] = row->candidates[i];
    row->ncandidates = kept;
}

/* Only programs look at all ways: a table has room for the fastest alone; the paper's relay stands
 * behind it. */
static int simulate_row(const struct options *options, const struct tug_places *places,
                        struct tug_model_row *row) {
    int error = 0;
    for (uint32_t i = 0; i < row->ncandidates && !error; i++)
        if (options->json || i == 0 || row->candidates[i].plan.phases == TUG_ONE_ENGINE)
            error =
                simulate(options->report, places, &row->candidates[i].plan, &row->simulated_s[i]);
    return error;
}

/* On the paper's machine its own relay stands beside ours, with the paper's segments. */
static void add_one_engine(const struct tug_model_report *report, const struct tug_places *places,
                           struct tug_model_row *row) {
    if (strcmp(report->machine, "fx100") != 0 || report->shape.ppn < 2 || report->shape.nodes < 2)
        return;
    uint64_t pieces = (uint64_t)tug_pipelines(places, TUG_TRINARY) * tug_paper_segments(row->bytes);
    struct tug_candidate *relay = &row->candidates[row->ncandidates++];
    relay->plan = (struct tug_bcast_plan){.algorithm = TUG_TRINARY,
                                          .phases = TUG_ONE_ENGINE,
                                          .elements = row->bytes,
                                          .segment = (row->bytes + pieces - 1) / pieces};
    relay->seconds = tug_model_predict(places, &relay->plan, 1, &report->parameters);
}

static int fill(const struct options *options, const struct tug_places *places) {
    struct tug_model_report *report = options->report;
    for (uint64_t bytes = options->first;; bytes *= 2) {
        struct tug_model_row *row = &report->rows[report->nrows++];
        struct tug_broadcast message = {.element_bytes = 1,
                                        .segment_bytes = options->segment_bytes};
        row->bytes = bytes < options->last ? bytes : options->last;
        message.elements = row->bytes;
        row->ncandidates = tug_model_choose(places, &message, &report->parameters, row->candidates);
        add_one_engine(report, places, row);
        keep(row, options->algorithm);
        if (row->ncandidates == 0) {
            tug_cmd_say("model: with so few nodes %s is the same as chain: ask for that",
                        tug_algorithm_name(options->algorithm));
            return TUG_ERR_INVALID;
        }
        int error = report->simulated ? simulate_row(options, places, row) : 0;
        if (error)
            return error;
        if (bytes >= options->last)
            return 0;
    }
}

static int dump(const struct options *options, const struct tug_places *places) {
    struct tug_schedule schedule;
    const struct tug_bcast_plan *plan = &options->report->rows[0].candidates[0].plan;
    int error = tug_compile_bcast(&schedule, places, plan, options->dump_rank);
    if (error) {
        tug_cmd_say("%s", tug_strerror(error));
        return 1;
    }
    printf("rank %u of %u: %s, %s; bytes\n", options->dump_rank, places->nranks,
           tug_algorithm_name(plan->algorithm), tug_phases_name(plan->phases));
    tug_schedule_dump(&schedule, stdout);
    tug_schedule_fini(&schedule);
    return 0;
}

static int show(const struct options *options, const struct tug_places *places) {
    if (options->json)
        tug_model_print_json(options->report, stdout);
    else
        tug_model_print_table(options->report, stdout);
    if (!options->dump)
        return 0;
    putchar('\n');
    return dump(options, places);
}

int tug_cmd_model(int argc, char **argv) {
    struct tug_model_report report = {.shape = {.nodes = 2, .ppn = 1}};
    struct options options = {
        .report = &report, .first = 1024, .last = (uint64_t)64 << 20, .algorithm = -1};
    /* getopt_long() takes the first for the command's name */
    char **arguments = argv - 1;
    if (!parse(&options, argc + 1, arguments))
        return TUG_EXIT_USAGE;
    if (load_parameters(&options) != 0)
        return 1;
    struct tug_places places;
    int error = tug_model_places(&report.shape, &places);
    if (error) {
        tug_cmd_say("%s", tug_strerror(error));
        return 1;
    }
    error = fill(&options, &places);
    int status = error ? 1 : show(&options, &places);
    tug_places_fini(&places);
    return status;
}

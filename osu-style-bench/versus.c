/* versus.c: runs commands alternately, for several rounds, and compares what they measured.
 *
 *     versus --rounds 5 --name host --name tug -- CMD1 -- CMD2
 *
 * Each command prints CSV whose header says which columns are keys, which one is the value and
 * whether lower or higher is better; the benchmarks of this folder do so with --csv. Rounds
 * alternate, and every other round goes the other way round, so that a machine that slows down or
 * speeds up meanwhile treats all alike.
 * Exit status: 0, 1 when a --require is missed, 2 when a command failed in any round or on wrong
 * usage.
 * Threading: one thread; a signal kills the running command's group and ends versus.
 */
#include "versus.h"

#include <fnmatch.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REQUIREMENTS = 64, MAX_ROUNDS = 1000 };

static const char help_text[] =
    "usage: versus [options] -- COMMAND1 -- COMMAND2 [-- COMMAND3 ...]\n"
    "Runs the commands alternately and compares the medians of their CSV rows with COMMAND1's.\n\n"
    "  --rounds N           run each command so often (5)\n"
    "  --name TEXT          a name for the next command (command 1, ...)\n"
    "  --title TEXT         what is compared\n"
    "  --timeout S          a command that takes longer has failed (120)\n"
    "  --require [NAME@]PATTERN>=X\n"
    "                       exit with 1 unless each row whose key matches the shell pattern has "
    "at\n"
    "                       least this ratio; for all commands but the first, or the one named\n"
    "  --require [NAME@]PATTERN<=X\n"
    "                       the same for the value itself, which may be X at most\n"
    "  --csv[=FILE]         CSV instead of the table, or CSV into FILE as well\n"
    "  --json[=FILE]        the same for JSON\n"
    "  --progress           say on stderr what is being run\n"
    "  --help               this text\n";

struct requirement {
    const char *command; /* NULL: all but the baseline */
    const char *pattern;
    bool at_most; /* the value at most `bound`; else the ratio at least `bound` */
    double bound;
};

struct form {
    bool wanted;
    const char *file; /* NULL: stdout, instead of the table */
};

static struct versus_table table = {.nrounds = 5};
static struct requirement requirements[MAX_REQUIREMENTS];
static int nrequirements;
static double timeout_s = 120;
static struct form csv, json;
static bool progress;

/* ---- command line ---- */

static _Noreturn void usage_error(const char *message, const char *text) {
    fprintf(stderr, "versus: %s%s (--help lists the options)\n", message, text);
    exit(2);
}

static double positive(const char *name, const char *text) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0))
        usage_error(name, " needs a number above 0");
    return value;
}

static void add_requirement(char *text) {
    char *sign = strpbrk(text, "<>");
    if (sign == NULL || sign == text || sign[1] != '=' || nrequirements == MAX_REQUIREMENTS)
        usage_error("--require wants [NAME@]PATTERN>=X or <=X, not ", text);
    struct requirement *requirement = &requirements[nrequirements++];
    requirement->bound = positive("--require", sign + 2);
    requirement->at_most = *sign == '<';
    *sign = '\0';
    char *at = strchr(text, '@');
    if (at != NULL)
        *at = '\0';
    requirement->command = at != NULL ? text : NULL;
    requirement->pattern = at != NULL ? at + 1 : text;
}

static void read_option(int option) {
    static int nnames;
    switch (option) {
    case 'r':
        table.nrounds = (int)positive("--rounds", optarg);
        if (table.nrounds < 1 || table.nrounds > MAX_ROUNDS)
            usage_error("--rounds is 1..1000, not ", optarg);
        return;
    case 'n':
        if (nnames == VERSUS_MAX_COMMANDS)
            usage_error("too many names: ", optarg);
        table.commands[nnames++].name = optarg;
        return;
    case 't':
        timeout_s = positive("--timeout", optarg);
        return;
    case 'T':
        table.title = optarg;
        return;
    case 'R':
        add_requirement(optarg);
        return;
    case 'c':
        csv = (struct form){.wanted = true, .file = optarg};
        return;
    case 'j':
        json = (struct form){.wanted = true, .file = optarg};
        return;
    case 'p':
        progress = true;
        return;
    case 'h':
        fputs(help_text, stdout);
        exit(0);
    default:
        usage_error("wrong option", "");
    }
}

/* What follows an "--" up to the next is a command. */
static void read_commands(int argc, char **argv, int first) {
    static const char *const default_names[VERSUS_MAX_COMMANDS] = {
        "command 1", "command 2", "command 3", "command 4",
        "command 5", "command 6", "command 7", "command 8"};
    for (int i = first; i < argc; i++) {
        if (table.ncommands == VERSUS_MAX_COMMANDS)
            usage_error("too many commands at ", argv[i]);
        struct versus_command *command = &table.commands[table.ncommands];
        if (command->name == NULL)
            command->name = default_names[table.ncommands];
        command->argv = &argv[i];
        table.ncommands++;
        while (i < argc && strcmp(argv[i], "--") != 0)
            i++;
        if (&argv[i] == command->argv)
            usage_error("an empty command: ", command->name);
        argv[i] = NULL;
    }
    if (table.ncommands < 2)
        usage_error("two commands are needed", "");
}

static void read_command_line(int argc, char **argv) {
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'},  {"name", required_argument, NULL, 'n'},
        {"timeout", required_argument, NULL, 't'}, {"title", required_argument, NULL, 'T'},
        {"require", required_argument, NULL, 'R'}, {"csv", optional_argument, NULL, 'c'},
        {"json", optional_argument, NULL, 'j'},    {"progress", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1)
        read_option(option);
    read_commands(argc, argv, optind);
    for (int i = 0; i < nrequirements; i++) {
        bool known = requirements[i].command == NULL;
        for (int j = 1; j < table.ncommands && !known; j++)
            known = strcmp(requirements[i].command, table.commands[j].name) == 0;
        if (!known)
            usage_error("--require: no command to compare has the name ", requirements[i].command);
    }
}

/* ---- rounds ---- */

static void run_command(int index, int round) {
    struct versus_command *command = &table.commands[index];
    if (progress)
        fprintf(stderr, "versus: round %d of %d: %s\n", round + 1, table.nrounds, command->name);
    char *text = versus_run(command->argv, timeout_s, command->failure, sizeof command->failure);
    if (text == NULL ||
        versus_rows_add(&table, index, text, command->failure, sizeof command->failure) <= 0)
        command->nfailures++;
    free(text);
}

static void end_by_signal(int number) {
    versus_run_kill();
    _exit(128 + number);
}

static void run_rounds(void) {
    signal(SIGINT, end_by_signal);
    signal(SIGTERM, end_by_signal);
    signal(SIGHUP, end_by_signal);
    for (int round = 0; round < table.nrounds; round++)
        for (int i = 0; i < table.ncommands; i++)
            run_command(round % 2 == 0 ? i : table.ncommands - 1 - i, round);
}

/* ---- verdict ---- */

static bool print_form(const struct form *form,
                       void (*report)(const struct versus_table *, FILE *to)) {
    FILE *to = form->file != NULL ? fopen(form->file, "w") : stdout;
    if (to == NULL) {
        perror(form->file);
        return false;
    }
    report(&table, to);
    if (to != stdout)
        return fclose(to) == 0;
    return true;
}

static bool print_all(void) {
    bool on_stdout = (csv.wanted && csv.file == NULL) || (json.wanted && json.file == NULL);
    bool good = true;
    if (!on_stdout)
        versus_report_text(&table, stdout);
    if (csv.wanted)
        good = print_form(&csv, versus_report_csv) && good;
    if (json.wanted)
        good = print_form(&json, versus_report_json) && good;
    return good;
}

static bool meets(const struct requirement *requirement, const struct versus_row *row,
                  int command) {
    const char *name = table.commands[command].name;
    double value = versus_median(row, command), ratio = versus_ratio(&table, row, command);
    if (requirement->at_most) {
        if (value <= requirement->bound)
            return true;
        fprintf(stderr, "versus: %s at %s has %s %g, at most %g is required\n", name, row->key,
                table.value_name, value, requirement->bound);
        return false;
    }
    if (ratio >= requirement->bound)
        return true;
    fprintf(stderr, "versus: %s at %s is x%.2f, x%.2f is required\n", name, row->key, ratio,
            requirement->bound);
    return false;
}

/* A requirement that no row matches is missed too: it would hold for ever. */
static bool check_requirement(const struct requirement *requirement) {
    bool met = true;
    int nmatches = 0;
    for (int i = 0; i < table.nrows; i++) {
        if (fnmatch(requirement->pattern, table.rows[i].key, 0) != 0)
            continue;
        nmatches++;
        for (int j = 1; j < table.ncommands; j++)
            if (requirement->command == NULL ||
                strcmp(requirement->command, table.commands[j].name) == 0)
                met = meets(requirement, &table.rows[i], j) && met;
    }
    if (nmatches == 0)
        fprintf(stderr, "versus: no row matches '%s'\n", requirement->pattern);
    return met && nmatches > 0;
}

int main(int argc, char **argv) {
    read_command_line(argc, argv);
    run_rounds();
    int status = print_all() ? 0 : 2;
    fflush(stdout);
    for (int i = 0; i < nrequirements; i++)
        if (!check_requirement(&requirements[i]) && status == 0)
            status = 1;
    for (int i = 0; i < table.ncommands; i++) {
        if (table.commands[i].nfailures == 0)
            continue;
        fprintf(stderr, "versus: %s failed: %s\n", table.commands[i].name,
                table.commands[i].failure);
        status = 2;
    }
    for (int i = 0; i < table.nrows; i++)
        for (int j = 0; j < table.ncommands; j++)
            free(table.rows[i].samples[j].values);
    return status;
}

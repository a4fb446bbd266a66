/* Parameters of machines: those known by name, and files of them.
 *
 * A file has a line for each number, in units people like, in any order; the table of fields below
 * both reads and writes it. What follows a # is a comment.
 *
 *     between.latency_us      = 4.4
 *     between.bandwidth_gb_s  = 5.8
 *     copy 262144             = 55       # bytes of the message, GB/s
 *     transfer 1024           = 2 1 0.5  # bytes; us: of a trip, to the next, of a processor
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tuning.h"

#define LINE_BYTES 256

enum unit { MICROSECONDS, NANOSECONDS, GIGABYTES_PER_SECOND, RATIO, COUNT, BYTES, FLAG };

#define FIELD(member, name, unit)                                                                  \
    { name, unit, offsetof(struct tug_model_parameters, member) }

static const struct field {
    const char *name;
    enum unit unit;
    size_t offset;
} fields[] = {
    FIELD(between.latency_s, "between.latency_us", MICROSECONDS),
    FIELD(between.overhead_s, "between.overhead_us", MICROSECONDS),
    FIELD(between.gap_s, "between.gap_us", MICROSECONDS),
    FIELD(between.byte_s, "between.bandwidth_gb_s", GIGABYTES_PER_SECOND),
    FIELD(between_is_guess, "between.guess", FLAG),
    FIELD(start_s, "start_us", MICROSECONDS),
    FIELD(far_byte_s, "between.far_ns_byte", NANOSECONDS),
    FIELD(hop_s, "hop_us", MICROSECONDS),
    FIELD(engines, "engines", COUNT),
    FIELD(inside.latency_s, "inside.latency_us", MICROSECONDS),
    FIELD(inside.overhead_s, "inside.overhead_us", MICROSECONDS),
    FIELD(inside.gap_s, "inside.gap_us", MICROSECONDS),
    FIELD(inside.byte_s, "inside.bandwidth_gb_s", GIGABYTES_PER_SECOND),
    FIELD(copiers, "copiers", COUNT),
    FIELD(crowd, "crowd", RATIO),
    FIELD(turn_s, "turn_us", MICROSECONDS),
    FIELD(segment_most, "segment_most", BYTES),
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))
#define COPY "copy"
#define TRANSFER "transfer"

/* What a number may be, by unit, and for people. scale: of what the model has, a double; 0: see
 * set_field(). */
static const struct {
    double least, most;
    bool whole;
    double scale;
    const char *range;
} units[] = {
    [MICROSECONDS] = {0, 1e9, false, 1e-6, "a time in microseconds, 0 to 1e9"},
    [NANOSECONDS] = {0, 1e6, false, 1e-9, "a time in nanoseconds, 0 to 1e6"},
    [GIGABYTES_PER_SECOND] = {1e-6, 1e6, false, 0, "a bandwidth in GB/s, 1e-6 to 1e6"},
    [RATIO] = {1, 1024, false, 1, "a number, 1 to 1024"},
    [COUNT] = {1, 1024, true, 0, "a whole number, 1 to 1024"},
    [BYTES] = {1024, 1073741824, true, 0, "bytes, 1024 to 1073741824"},
    [FLAG] = {0, 1, true, 0, "0 or 1"},
};

/* ---- by name ---- */

int tug_model_named(const char *name, struct tug_model_parameters *parameters) {
    if (strcmp(name, "default") == 0) {
        *parameters = (struct tug_model_parameters){
            .between = {2e-6, 0.5e-6, 0.2e-6, 1 / 10e9},
            .inside = {0.2e-6, 0.05e-6, 0, 1 / 10e9},
            .start_s = 0.2e-6,
            .hop_s = 0.1e-6,
            .engines = 1,
            .copiers = 16,
            .crowd = 1,
            .segment_most = 65536,
            .between_is_guess = 1,
        };
        return 0;
    }
    if (strcmp(name, "fx100") == 0) {
        /* Morie et al., section 6.1. The engines carry data without a processor. Inside a node they
         * move a share of the message each, which is what the paper's two-phase figures say:
         * Gn / 3, 29 GB/s, 4 of which need half of the memory's 480 GB/s. */
        const double byte_s = 1.04762e-10;
        *parameters = (struct tug_model_parameters){
            .between = {1e-7, 0, 1e-9, byte_s},
            .inside = {1e-7, 1e-9, 0, byte_s / 3},
            .hop_s = 1e-7,
            .engines = 4,
            .copiers = 4,
            .crowd = 1,
            .segment_most = 4194304,
        };
        return 0;
    }
    return TUG_ERR_INVALID;
}

/* ---- files ---- */

struct reader {
    const char *path;
    unsigned line;
    char *why;
    size_t why_bytes;
    struct tug_model_parameters parameters;
};

static int refuse(struct reader *reader, const char *what, const char *allowed) {
    snprintf(reader->why, reader->why_bytes, "%s:%u: %s: it must be %s", reader->path, reader->line,
             what, allowed);
    return TUG_ERR_INVALID;
}

static bool parse_number(const char *text, enum unit unit, double *number) {
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && *number >= units[unit].least &&
           *number <= units[unit].most &&
           (!units[unit].whole || *number == (double)(long long)*number);
}

static void set_field(struct tug_model_parameters *parameters, const struct field *field,
                      double number) {
    void *at = (char *)parameters + field->offset;
    if (units[field->unit].scale > 0)
        *(double *)at = number * units[field->unit].scale;
    else if (field->unit == GIGABYTES_PER_SECOND)
        *(double *)at = 1 / (number * 1e9);
    else if (field->unit == COUNT)
        *(uint32_t *)at = (uint32_t)number;
    else if (field->unit == BYTES)
        *(uint64_t *)at = (uint64_t)number;
    else
        *(int *)at = (int)number;
}

static double field_of(const struct tug_model_parameters *parameters, const struct field *field) {
    const void *at = (const char *)parameters + field->offset;
    if (units[field->unit].scale > 0)
        return *(const double *)at / units[field->unit].scale;
    if (field->unit == GIGABYTES_PER_SECOND)
        return 1 / (*(const double *)at * 1e9);
    if (field->unit == COUNT)
        return *(const uint32_t *)at;
    return field->unit == BYTES ? (double)*(const uint64_t *)at : *(const int *)at;
}

/* The bytes that a line of a table is about: more than those of the line before. */
static int read_bytes(struct reader *reader, const char *text, uint32_t lines, uint32_t lines_most,
                      uint64_t before, uint64_t *bytes) {
    double number;
    if (lines == lines_most)
        return refuse(reader, text, "left out: the table is full");
    if (!parse_number(text, COUNT, &number) && !parse_number(text, BYTES, &number))
        return refuse(reader, text, units[BYTES].range);
    if (lines > 0 && number <= (double)before)
        return refuse(reader, text, "more bytes than in the line of this table before");
    *bytes = (uint64_t)number;
    return 0;
}

/* "copy BYTES = GB/s" */
static int read_copy(struct reader *reader, const char *bytes_text, char *value) {
    struct tug_model_parameters *p = &reader->parameters;
    struct tug_copy_speed *copy = &p->copies[p->ncopies];
    double speed;
    int error = read_bytes(reader, bytes_text, p->ncopies, TUG_COPY_SPEEDS,
                           p->ncopies > 0 ? copy[-1].bytes : 0, &copy->bytes);
    if (error)
        return error;
    if (!parse_number(value, GIGABYTES_PER_SECOND, &speed))
        return refuse(reader, value, units[GIGABYTES_PER_SECOND].range);
    copy->byte_s = 1 / (speed * 1e9);
    p->ncopies++;
    return 0;
}

/* "transfer BYTES = trip interval processor", in microseconds */
static int read_transfer(struct reader *reader, const char *bytes_text, char *value) {
    struct tug_model_parameters *p = &reader->parameters;
    struct tug_transfer_speed *transfer = &p->transfers[p->ntransfers];
    double *const times[] = {&transfer->trip_s, &transfer->interval_s, &transfer->handle_s};
    int error = read_bytes(reader, bytes_text, p->ntransfers, TUG_TRANSFER_SPEEDS,
                           p->ntransfers > 0 ? transfer[-1].bytes : 0, &transfer->bytes);
    char *rest = value;
    for (int i = 0; i < 3 && !error; i++) {
        const char *text = strtok_r(rest, " \t", &rest);
        if (text == NULL || !parse_number(text, MICROSECONDS, times[i]))
            return refuse(reader, text != NULL ? text : bytes_text,
                          "three times in microseconds, 0 to 1e9");
        *times[i] *= 1e-6;
    }
    if (!error && rest != NULL && *rest != '\0')
        return refuse(reader, rest, "three times and no more");
    p->ntransfers += !error;
    return error;
}

/* Cuts blanks off at both ends. */
static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

static int read_line(struct reader *reader, char *line) {
    line[strcspn(line, "#\n")] = '\0';
    char *name = trim(line);
    if (*name == '\0')
        return 0;
    char *value = strchr(name, '=');
    if (value == NULL)
        return refuse(reader, name, "a name, =, and a number");
    *value++ = '\0';
    name = trim(name);
    value = trim(value);
    if (strncmp(name, COPY " ", sizeof(COPY)) == 0)
        return read_copy(reader, trim(name + sizeof(COPY)), value);
    if (strncmp(name, TRANSFER " ", sizeof(TRANSFER)) == 0)
        return read_transfer(reader, trim(name + sizeof(TRANSFER)), value);
    for (size_t i = 0; i < FIELDS; i++) {
        double number;
        if (strcmp(fields[i].name, name) != 0)
            continue;
        if (!parse_number(value, fields[i].unit, &number))
            return refuse(reader, value[0] != '\0' ? value : name, units[fields[i].unit].range);
        set_field(&reader->parameters, &fields[i], number);
        return 0;
    }
    return refuse(reader, name, "one of the names that `tugboat calibrate` writes");
}

int tug_model_read(const char *path, struct tug_model_parameters *parameters, char *why,
                   size_t why_bytes) {
    struct reader reader = {.path = path, .why = why, .why_bytes = why_bytes};
    char line[LINE_BYTES];
    int error = tug_model_named("default", &reader.parameters);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        return TUG_ERR_SYSTEM;
    }
    reader.parameters.between_is_guess = 0;
    while (!error && fgets(line, sizeof(line), file) != NULL) {
        reader.line++;
        if (strchr(line, '\n') == NULL && strlen(line) == sizeof(line) - 1)
            error = refuse(&reader, "the line", "shorter than 255 characters");
        else
            error = read_line(&reader, line);
    }
    if (!error && ferror(file)) {
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        error = TUG_ERR_SYSTEM;
    }
    fclose(file);
    if (!error)
        *parameters = reader.parameters;
    return error;
}

void tug_model_print(FILE *file, const struct tug_model_parameters *parameters) {
    fprintf(file, "# Tugboat %s: what this machine does, for TUGBOAT_TUNING\n", tug_version());
    for (size_t i = 0; i < FIELDS; i++)
        fprintf(file, units[fields[i].unit].whole ? "%-23s = %.0f\n" : "%-23s = %.6g\n",
                fields[i].name, field_of(parameters, &fields[i]));
    if (parameters->ncopies > 0)
        fprintf(file, "# GB/s of a copy inside a node, by the bytes of the message\n");
    for (uint32_t i = 0; i < parameters->ncopies; i++)
        fprintf(file, "copy %-18llu = %.6g\n", (unsigned long long)parameters->copies[i].bytes,
                1 / (parameters->copies[i].byte_s * 1e9));
    if (parameters->ntransfers > 0)
        fprintf(file, "# us between nodes, by bytes: of a trip, to the next of a stream, of a "
                      "processor at either end\n");
    for (uint32_t i = 0; i < parameters->ntransfers; i++) {
        const struct tug_transfer_speed *t = &parameters->transfers[i];
        fprintf(file, TRANSFER " %-14llu = %.6g %.6g %.6g\n", (unsigned long long)t->bytes,
                t->trip_s * 1e6, t->interval_s * 1e6, t->handle_s * 1e6);
    }
}

int tug_model_write(const char *path, const struct tug_model_parameters *parameters) {
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return TUG_ERR_SYSTEM;
    tug_model_print(file, parameters);
    bool failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    return failed ? TUG_ERR_SYSTEM : 0;
}

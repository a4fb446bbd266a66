/*
 * What all commands say when they cannot go on, numbers, and text for JSON. See cmd.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cmd/cmd.h"

void tug_cmd_say(const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "tugboat: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
}

int tug_cmd_no_option(const char *command, const char *option) {
    tug_cmd_say("%s has no option '%s'; see tugboat --help", command, option);
    return TUG_EXIT_USAGE;
}

int tug_cmd_no_value(const char *command, const char *option) {
    tug_cmd_say("%s wants a value behind '%s'; see tugboat --help", command, option);
    return TUG_EXIT_USAGE;
}

int tug_cmd_no_argument(const char *command, const char *argument) {
    tug_cmd_say("%s takes no argument '%s'; see tugboat --help", command, argument);
    return TUG_EXIT_USAGE;
}

int tug_cmd_cannot_run(const char *name, int error) {
    tug_cmd_say("cannot run %s: %s", name, strerror(error));
    return error == ENOENT ? TUG_EXIT_NOT_FOUND : TUG_EXIT_NOT_EXECUTABLE;
}

bool tug_take_number(const char **text, uint64_t most, uint64_t *number) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 && *number >= 1 && *number <= most;
}

int tug_cmd_load_settings(void) {
    char why[512];
    if (tug_settings_load(why, sizeof why) == 0)
        return 0;
    tug_cmd_say("%s", why);
    return 1;
}

void tug_print_string(const char *text, FILE *out) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    fputc('"', out);
}

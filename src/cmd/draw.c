/*
 * gnuplot behind a pipe. See draw.h.
 */
#include "cmd/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

bool tug_draw_can(const char *file) {
    if (system("command -v gnuplot >/dev/null 2>&1") == 0)
        return true;
    tug_cmd_say("%s is not drawn: gnuplot is not installed here", file);
    return false;
}

FILE *tug_draw_begin(const char *file) {
    const char *suffix = strrchr(file, '.');
    const char *terminal = suffix != NULL && strcmp(suffix, ".png") == 0 ? "png" : "svg";
    if (!tug_draw_can(file))
        return NULL;
    FILE *gnuplot = popen("exec gnuplot", "w");
    if (gnuplot == NULL)
        tug_cmd_say("%s is not drawn: cannot run gnuplot: %s", file, strerror(errno));
    else
        fprintf(gnuplot, "set terminal %s size 900,600\nset output '%s'\n", terminal, file);
    return gnuplot;
}

int tug_draw_end(FILE *gnuplot, const char *file) {
    if (pclose(gnuplot) == 0)
        return 0;
    tug_cmd_say("gnuplot could not draw %s: can it be written?", file);
    return -1;
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

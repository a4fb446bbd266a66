/*
 * Drawing with gnuplot, and text for JSON, for all commands.
 */
#ifndef TUG_CMD_DRAW_H
#define TUG_CMD_DRAW_H

#include <stdbool.h>
#include <stdio.h>

/* Whether `file` can be drawn: gnuplot is here. Says so if not. */
bool tug_draw_can(const char *file);

/* A gnuplot to write commands to, which draws into `file`: PNG by its suffix, or SVG. NULL, with
 * the reason said. */
FILE *tug_draw_begin(const char *file);

/* Lets it draw. 0, or -1 with the reason said. */
int tug_draw_end(FILE *gnuplot, const char *file);

/* A JSON string, in its quotes: file names and arguments may hold anything. */
void tug_print_string(const char *text, FILE *out);

#endif

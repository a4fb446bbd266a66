/* The libraries of a program, as the loader would find them, without running anything. */
#ifndef TUG_CMD_NEEDED_H
#define TUG_CMD_NEEDED_H

#include <stdbool.h>

/* One library: the name that it is asked for by, and its file, or NULL where none is found. */
typedef bool tug_needed_visit(const char *name, const char *file, void *argument);

/* Calls visit for each library that this executable or one of its libraries needs, nearest first
 * and each once, until it returns true. 0, or -1: the file is no dynamic program of this machine.
 */
int tug_needed_each(const char *file, tug_needed_visit *visit, void *argument);

/* Does the file hold this text? */
bool tug_file_holds(const char *file, const char *text);

#endif

/*
 * Prints the table of settings as docs/settings.md shows it.
 */
#include "base/settings.h"

int main(void) {
    tug_settings_print_markdown(stdout);
    return 0;
}

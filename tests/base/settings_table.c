/*
 * Prints the table of settings as the README shows it.
 */
#include "base/settings.h"

int main(void) {
    tug_settings_print_markdown(stdout);
    return 0;
}

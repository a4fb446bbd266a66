/*
 * Prints the table of settings as docs/settings.md shows it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/settings.h"

int main(void) {
    struct tug_setting_row row;
    clearenv(); /* so the values are the defaults */
    printf("| setting | default | allowed | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; tug_settings_row(i, &row); i++)
        printf("| `%s` | `%s` | %s | %s |\n", row.name, row.value, row.range, row.help);
    return 0;
}

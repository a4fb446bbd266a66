#include "base/random.h"

#include <stdio.h>
#include <sys/random.h>

bool tug_random_draw(void *to, size_t bytes) {
    if (getrandom(to, bytes, 0) == (ssize_t)bytes)
        return true;
    /* a container that refuses the call, or Linux before 3.17 */
    FILE *file = fopen("/dev/urandom", "re");
    const bool drawn = file != NULL && fread(to, 1, bytes, file) == bytes;
    if (file != NULL)
        (void)fclose(file);
    return drawn;
}

#include "persistent/copy.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    size_t bytes;
    int ncores; /* that share it */
} last_level;

/* One line of what the kernel says about a cache of the first core. */
static bool read_line(int index, const char *what, char *line, int bytes) {
    char path[80];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool got = fgets(line, bytes, file) != NULL;
    fclose(file);
    return got;
}

/* Bits set in a CPU mask such as 00000000,0000ffff. */
static int count_cores(const char *mask) {
    int ncores = 0;
    for (; *mask != '\0'; mask++) {
        char digit[2] = {*mask, '\0'};
        ncores += __builtin_popcountl(strtoul(digit, NULL, 16));
    }
    return ncores;
}

/* Not sysconf(_SC_LEVEL3_CACHE_SIZE): glibc 2.36 reports the sum over a socket's caches for AMD. */
static void find_last_level(void) {
    char size[32], mask[1024];
    for (int i = 0; read_line(i, "size", size, sizeof(size)) &&
                    read_line(i, "shared_cpu_map", mask, sizeof(mask));
         i++) {
        last_level.bytes = (size_t)strtoul(size, NULL, 10) << 10; /* the kernel writes 32768K */
        last_level.ncores = count_cores(mask);
    }
}

size_t tug_copy_cache_share(int nranks) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_last_level);
    if (last_level.bytes == 0 || last_level.ncores == 0)
        return SIZE_MAX;
    return last_level.bytes / (size_t)(nranks < last_level.ncores ? nranks : last_level.ncores);
}

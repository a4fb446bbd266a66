#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Up to two numbers that begin a file of a control group; how many. */
static int read_numbers(const char *directory, const char *file, double *first, double *second) {
    char name[PATH_MAX];
    if (snprintf(name, sizeof(name), "%s/%s", directory, file) >= (int)sizeof(name))
        return 0;
    FILE *stream = fopen(name, "re");
    if (stream == NULL)
        return 0;
    const int read = fscanf(stream, "%lf %lf", first, second);
    fclose(stream);
    return read;
}

/* Microseconds of processor time in each period, and the period. Version 2 has both in cpu.max, of
 * which the first can be "max"; version 1 has a file for each, where -1 is no limit. */
static bool read_quota(const char *directory, struct tug_quota *quota) {
    double limit_us, period_us, none;
    struct stat status;
    if (read_numbers(directory, "cpu.max", &limit_us, &period_us) != 2 &&
        (read_numbers(directory, "cpu.cfs_quota_us", &limit_us, &none) != 1 ||
         read_numbers(directory, "cpu.cfs_period_us", &period_us, &none) != 1))
        return false;
    if (limit_us <= 0 || period_us <= 0 || stat(directory, &status) != 0)
        return false;
    *quota = (struct tug_quota){limit_us / period_us, status.st_ino};
    return true;
}

/* Takes the other quota if it is lower. */
static void lower(struct tug_quota *quota, bool *limited, const struct tug_quota *other) {
    if (!*limited || other->cores < quota->cores)
        *quota = *other;
    *limited = true;
}

bool tug_quota_find(const char *root, const char *path, struct tug_quota *quota) {
    char directory[PATH_MAX];
    size_t root_length = strlen(root);
    bool limited = false;
    /* outside of what the mount shows, as a group can be that was entered from another namespace */
    if (strstr(path, "/..") != NULL)
        path = "";
    if (snprintf(directory, sizeof(directory), "%s%s", root, path) >= (int)sizeof(directory))
        return false;
    for (;;) {
        struct tug_quota here;
        if (read_quota(directory, &here))
            lower(quota, &limited, &here);
        char *last = strrchr(directory, '/');
        if (last == NULL || (size_t)(last - directory) < root_length)
            return limited;
        *last = '\0';
    }
}

const char *tug_quota_group(char *line, const char **root) {
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return NULL;
    *path++ = '\0';
    controllers++;
    path[strcspn(path, "\n")] = '\0';
    path += strcmp(path, "/") == 0;
    *root = "/sys/fs/cgroup";
    if (controllers[0] == '\0')
        return path;
    *root = "/sys/fs/cgroup/cpu";
    for (char *one; (one = strsep(&controllers, ",")) != NULL;)
        if (strcmp(one, "cpu") == 0)
            return path;
    return NULL;
}

static bool own_quota(struct tug_quota *quota) {
    char line[PATH_MAX];
    const char *root;
    struct tug_quota here;
    bool limited = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *path = tug_quota_group(line, &root);
        if (path != NULL && tug_quota_find(root, path, &here))
            lower(quota, &limited, &here);
    }
    fclose(file);
    return limited;
}

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

uint64_t tug_cores_machine(void) {
    const uint64_t hash = 0xcbf29ce484222325u;
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return hash;
    size_t bytes = fread(id, 1, sizeof(id), file);
    fclose(file);
    return mix(hash, id, bytes);
}

static _Atomic unsigned sharing; /* ranks, the most that anybody has said */
static _Atomic double crowd;     /* of them to a core */

void tug_cores_shared_by(unsigned ranks, unsigned cores) {
    unsigned most = atomic_load(&sharing);
    while (ranks > most && !atomic_compare_exchange_weak(&sharing, &most, ranks))
        ;
    atomic_store(&crowd, (double)atomic_load(&sharing) / cores);
}

double tug_cores_crowd(void) {
    return atomic_load_explicit(&crowd, memory_order_relaxed);
}

bool tug_cores_crowded(void) {
    return tug_cores_crowd() > 1;
}

bool tug_cpus_find(struct tug_cpus *cpus) {
    memset(cpus, 0, sizeof(*cpus));
    return sched_getaffinity(0, sizeof(*cpus), cpus->sets) == 0;
}

/* Mixes in the mask up to its last core: most of it is empty on usual machines. */
static uint64_t mix_cpus(uint64_t hash, const struct tug_cpus *cpus) {
    size_t used = sizeof(cpus->sets) / sizeof(cpus->sets[0]);
    while (used > 1 && CPU_COUNT(&cpus->sets[used - 1]) == 0)
        used--;
    return mix(hash, cpus->sets, used * sizeof(cpus->sets[0]));
}

struct tug_cores tug_cores_find(void) {
    struct tug_cores cores = {1, tug_cores_machine()};
    struct tug_quota quota;
    struct tug_cpus cpus;
    if (tug_cpus_find(&cpus)) {
        cores.count = tug_cpus_count(&cpus);
        cores.id = mix_cpus(cores.id, &cpus);
    }
    if (own_quota(&quota) && quota.cores < cores.count) {
        cores.count = quota.cores < 1 ? 1 : (unsigned)quota.cores;
        cores.id = mix(cores.id, &quota.group, sizeof(quota.group));
    }
    return cores;
}

static int by_id(const void *left, const void *right) {
    const struct tug_cores *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

struct tug_sharing tug_cores_sharing(struct tug_cores all[], size_t n, uint64_t id) {
    struct tug_sharing found = {0};
    qsort(all, n, sizeof(*all), by_id);
    for (size_t i = 0; i < n; i++) {
        found.processes += all[i].id == id;
        if (i == 0 || all[i].id != all[i - 1].id)
            found.cores += all[i].count;
    }
    return found;
}

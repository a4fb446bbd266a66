#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* cpu.max: microseconds of processor time in each period, or "max", and the period. */
static bool read_quota(const char *directory, struct tug_quota *quota) {
    char name[PATH_MAX];
    double limit_us, period_us;
    struct stat status;
    if (snprintf(name, sizeof(name), "%s/cpu.max", directory) >= (int)sizeof(name))
        return false;
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return false;
    bool limited = fscanf(file, "%lf %lf", &limit_us, &period_us) == 2 && period_us > 0 &&
                   stat(directory, &status) == 0;
    fclose(file);
    if (limited)
        *quota = (struct tug_quota){limit_us / period_us, status.st_ino};
    return limited;
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
        if (read_quota(directory, &here) && (!limited || here.cores < quota->cores)) {
            *quota = here;
            limited = true;
        }
        char *last = strrchr(directory, '/');
        if (last == NULL || (size_t)(last - directory) < root_length)
            return limited;
        *last = '\0';
    }
}

static bool own_quota(struct tug_quota *quota) {
    char line[PATH_MAX];
    bool limited = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            limited =
                tug_quota_find("/sys/fs/cgroup", strcmp(line + 3, "/") ? line + 3 : "", quota);
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

/* This machine, since it was started. */
static uint64_t mix_machine(uint64_t hash) {
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
    struct tug_cores cores = {1, mix_machine(0xcbf29ce484222325u)};
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

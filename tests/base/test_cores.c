/* The cores a process may use: its mask, its control groups' quotas, and who shares them. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cores.h"

static char root[] = "/tmp/tug-cores-XXXXXX";

static void write_file(const char *path, const char *name, const char *text) {
    char whole[256];
    snprintf(whole, sizeof(whole), "%s%s/%s", root, path, name);
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A group with what its cpu.max says; NULL: it has none. */
static void make_group(const char *path, const char *cpu_max) {
    char name[256];
    snprintf(name, sizeof(name), "%s%s", root, path);
    assert_true(mkdir(name, 0700) == 0 || errno == EEXIST);
    if (cpu_max != NULL)
        write_file(path, "cpu.max", cpu_max);
}

static uint64_t inode(const char *path) {
    char name[256];
    struct stat status;
    snprintf(name, sizeof(name), "%s%s", root, path);
    assert_int_equal(stat(name, &status), 0);
    return status.st_ino;
}

static int begin(void **state) {
    (void)state;
    return mkdtemp(root) == NULL;
}

static int end(void **state) {
    char command[sizeof(root) + 16];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static void the_least_quota_counts(void **state) {
    (void)state;
    struct tug_quota quota;
    make_group("", NULL);
    make_group("/job", "max 100000\n");
    make_group("/job/step", NULL);
    assert_false(tug_quota_find(root, "/job/step", &quota));

    make_group("/job", "250000 100000\n");
    assert_true(tug_quota_find(root, "/job/step", &quota));
    assert_true(quota.cores == 2.5);
    assert_int_equal(quota.group, inode("/job"));

    make_group("/job/step", "400000 100000\n");
    assert_true(tug_quota_find(root, "/job/step", &quota));
    assert_true(quota.cores == 2.5);

    make_group("/job/step", "50000 100000\n");
    assert_true(tug_quota_find(root, "/job/step", &quota));
    assert_true(quota.cores == 0.5);
    assert_int_equal(quota.group, inode("/job/step"));
}

static void version_1_has_two_files(void **state) {
    (void)state;
    struct tug_quota quota;
    make_group("/v1", NULL);
    make_group("/v1/step", NULL);
    write_file("/v1", "cpu.cfs_period_us", "100000\n");
    write_file("/v1", "cpu.cfs_quota_us", "-1\n");
    assert_false(tug_quota_find(root, "/v1/step", &quota));
    write_file("/v1", "cpu.cfs_quota_us", "150000\n");
    assert_true(tug_quota_find(root, "/v1/step", &quota));
    assert_true(quota.cores == 1.5);
    assert_int_equal(quota.group, inode("/v1"));
}

static void expect_group(const char *line, const char *root_there, const char *path) {
    char text[128];
    const char *at = NULL;
    snprintf(text, sizeof(text), "%s\n", line);
    const char *group = tug_quota_group(text, &at);
    if (path == NULL) {
        assert_null(group);
        return;
    }
    assert_string_equal(group, path);
    assert_string_equal(at, root_there);
}

static void both_versions_name_the_group(void **state) {
    (void)state;
    expect_group("0::/user/job", "/sys/fs/cgroup", "/user/job");
    expect_group("0::/", "/sys/fs/cgroup", "");
    expect_group("4:cpu,cpuacct:/docker/1", "/sys/fs/cgroup/cpu", "/docker/1");
    expect_group("4:cpuacct,cpu:/", "/sys/fs/cgroup/cpu", "");
    expect_group("7:cpuset:/docker/1", NULL, NULL);
    expect_group("1:name=systemd:/cpu", NULL, NULL);
    expect_group("nonsense", NULL, NULL);
}

static void a_container_sees_its_own_as_the_root(void **state) {
    (void)state;
    struct tug_quota quota;
    make_group("", "200000 100000\n");
    assert_true(tug_quota_find(root, "", &quota));
    assert_true(quota.cores == 2);
    assert_true(tug_quota_find(root, "/../elsewhere", &quota));
    assert_int_equal(quota.group, inode(""));
    make_group("", "nonsense");
    assert_false(tug_quota_find(root, "", &quota));
    assert_false(tug_quota_find("/nowhere", "/job", &quota));
}

static void the_mask_counts(void **state) {
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    struct tug_cores before = tug_cores_find(), again = tug_cores_find();
    assert_in_range(before.count, 1, CPU_COUNT(&all));
    assert_int_equal(before.count, again.count);
    assert_int_equal(before.id, again.id);

    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    struct tug_cores bound = tug_cores_find();
    assert_int_equal(bound.count, 1);
    if (CPU_COUNT(&all) > 1)
        assert_int_not_equal(bound.id, before.id);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static bool large; /* the kernel is one for 8 192 processors, of which three are here */

/* In place of the C library's. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus) {
    const size_t last = 8191;
    if (large && bytes < (last + 1) / 8) {
        errno = EINVAL;
        return -1;
    }
    memset(cpus, 0, bytes);
    if (!large)
        return syscall(SYS_sched_getaffinity, pid, bytes, cpus) < 0 ? -1 : 0;
    CPU_SET_S(0, bytes, cpus);
    CPU_SET_S(1500, bytes, cpus);
    CPU_SET_S(last, bytes, cpus);
    return 0;
}

static void masks_may_be_larger_than_the_c_librarys(void **state) {
    (void)state;
    struct tug_cpus cpus;
    const struct tug_cores here = tug_cores_find();
    large = true;
    assert_true(tug_cpus_find(&cpus));
    assert_int_equal(tug_cpus_count(&cpus), 3);
    const struct tug_cores there = tug_cores_find();
    large = false;
    assert_in_range(there.count, here.count < 3 ? here.count : 3, 3); /* a quota may lie below */
    assert_int_not_equal(there.id, here.id);
}

static void the_most_ranks_that_were_told_of_crowd(void **state) {
    (void)state;
    const unsigned cores = tug_cores_find().count;
    tug_cores_shared_by(cores, cores);
    assert_false(tug_cores_crowded());
    tug_cores_shared_by(cores + 1, cores);
    assert_true(tug_cores_crowded());
    tug_cores_shared_by(1, cores); /* a communicator of one */
    assert_true(tug_cores_crowded());
}

static void who_is_bound_shares_with_nobody(void **state) {
    (void)state;
    struct tug_cores bound[] = {{1, 7}, {1, 5}, {1, 9}, {1, 6}};
    struct tug_sharing sharing = tug_cores_sharing(bound, 4, 9);
    assert_int_equal(sharing.processes, 1);
    assert_int_equal(sharing.cores, 4);
    struct tug_cores free_ones[] = {{2, 7}, {2, 7}, {2, 7}};
    sharing = tug_cores_sharing(free_ones, 3, 7);
    assert_int_equal(sharing.processes, 3);
    assert_int_equal(sharing.cores, 2);
    struct tug_cores sockets[] = {{8, 2}, {8, 1}, {8, 2}, {8, 1}, {8, 1}};
    sharing = tug_cores_sharing(sockets, 5, 2);
    assert_int_equal(sharing.processes, 2);
    assert_int_equal(sharing.cores, 16);
    sharing = tug_cores_sharing(sockets, 5, 3); /* nobody */
    assert_int_equal(sharing.processes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_quota_counts),
        cmocka_unit_test(version_1_has_two_files),
        cmocka_unit_test(both_versions_name_the_group),
        cmocka_unit_test(a_container_sees_its_own_as_the_root),
        cmocka_unit_test(the_mask_counts),
        cmocka_unit_test(masks_may_be_larger_than_the_c_librarys),
        cmocka_unit_test(the_most_ranks_that_were_told_of_crowd),
        cmocka_unit_test(who_is_bound_shares_with_nobody),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

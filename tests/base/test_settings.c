/*
 * The settings table: every row accepts what it says, refuses what it does not, and says so.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/settings.h"
#include "tugboat/tugboat.h"

static const char *const names[] = {"TUGBOAT",
                                    "TUGBOAT_PROGRESS",
                                    "TUGBOAT_THREADS",
                                    "TUGBOAT_AFFINITY",
                                    "TUGBOAT_SPIN_US",
                                    "TUGBOAT_RING_SIZE",
                                    "TUGBOAT_STATS",
                                    "TUGBOAT_VERBOSE",
                                    "TUGBOAT_SEGMENT",
                                    "TUGBOAT_NONSENSE",
                                    "TUGBOAT_SPIN_USEC",
                                    "TUGBOAT_RMA",
                                    "TUGBOAT_COLLECTIVES",
                                    "TUGBOAT_TRANSPORTS",
                                    "TUGBOAT_OPERATIONS",
                                    "TUGBOAT_AGGREGATE",
                                    "TUGBOAT_VERBS_DEVICE",
                                    "TUGBOAT_VERBS_PAIRS",
                                    "TUGBOAT_VERBS_PORT",
                                    "TUGBOAT_VERBS_RAILS",
                                    "TUGBOAT_VERBS_TIMEOUT"};

static int clean(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    tug_settings_reset();
    return 0;
}

static int load_with(const char *name, const char *value, char *error, size_t error_bytes) {
    clean(NULL);
    setenv(name, value, 1);
    return tug_settings_load(error, error_bytes);
}

static void accept(const char *name, const char *value) {
    char error[512];
    const int status = load_with(name, value, error, sizeof error);
    if (status != 0)
        print_error("%s=%s refused: %s\n", name, value, error);
    assert_int_equal(status, 0);
    assert_string_equal(error, "");
}

static void refuse(const char *name, const char *value, const char *allowed) {
    char error[512] = "";
    const int status = load_with(name, value, error, sizeof error);
    if (status != TUG_ERR_SETTING)
        print_error("%s=%s accepted\n", name, value);
    assert_int_equal(status, TUG_ERR_SETTING);
    assert_non_null(strstr(error, name));
    assert_non_null(strstr(error, value));
    assert_non_null(strstr(error, allowed));
}

static void assert_defaults(void) {
    assert_true(tug_settings.enabled);
    assert_int_equal(tug_settings.progress, TUG_PROGRESS_AUTO);
    assert_int_equal(tug_settings.affinity_mode, TUG_AFFINITY_AUTO);
    assert_string_equal(tug_settings.affinity, "auto");
    assert_int_equal(tug_settings.spin_us, 5);
    assert_int_equal(tug_settings.ring_size, 1024);
    assert_null(tug_settings.stats);
    assert_int_equal(tug_settings.verbose, TUG_VERBOSE_WARN);
    assert_int_equal(tug_settings.segment_bytes, 0);
    assert_true(tug_settings.aggregate);
    assert_string_equal(tug_settings.verbs_device, "auto");
    for (unsigned i = 0; i < TUG_PORT_FIELDS; i++)
        assert_int_equal(tug_settings.verbs_port[i], -1);
    assert_int_equal(tug_settings.collectives, TUG_COLLECTIVES_AUTO);
}

static void test_defaults_before_and_after_load(void **state) {
    (void)state;
    assert_defaults();
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    assert_defaults();
}

static void test_empty_is_not_set(void **state) {
    (void)state;
    for (size_t i = 0; i < 8; i++)
        setenv(names[i], "", 1);
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    assert_defaults();
}

static void test_switch(void **state) {
    (void)state;
    accept("TUGBOAT", "off");
    assert_false(tug_settings.enabled);
    accept("TUGBOAT", "on");
    assert_true(tug_settings.enabled);
    accept("TUGBOAT", "0");
    assert_false(tug_settings.enabled);
    accept("TUGBOAT", "1");
    assert_true(tug_settings.enabled);
    refuse("TUGBOAT", "perhaps", "on, off");
    assert_true(tug_settings.enabled);
}

static void test_torus(void **state) {
    (void)state;
    const uint32_t three[TUG_TORUS_AXES] = {4, 3, 2, 1, 1, 1}, six[] = {2, 1, 3, 4, 5, 6};
    const uint32_t none[TUG_TORUS_AXES] = {0};
    accept("TUGBOAT_TORUS", "4x3x2");
    assert_memory_equal(tug_settings.torus, three, sizeof three);
    accept("TUGBOAT_TORUS", "2x1x3x4x5x6");
    assert_memory_equal(tug_settings.torus, six, sizeof six);
    const char *const bad[] = {"4",   "4x",    "4x3x",          "x4",  "0x4", "4x0",
                               "4*3", "4x3y2", "1x1x1x1x1x1x1", "auto"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse("TUGBOAT_TORUS", bad[i], "two to six axes");
    accept("TUGBOAT_TORUS", "none");
    assert_memory_equal(tug_settings.torus, none, sizeof none);
}

static void test_net_devices(void **state) {
    (void)state;
    setenv("UCX_NET_DEVICES", "eth0,lo", 1);
    accept("TUGBOAT", "1");
    assert_string_equal(tug_settings.net_devices, "eth0,lo");
    setenv("UCX_NET_DEVICES", "^eth0", 1);
    accept("TUGBOAT", "1");
    assert_string_equal(tug_settings.net_devices, "");
    unsetenv("UCX_NET_DEVICES");
}

static void test_verbs_device(void **state) {
    (void)state;
    accept("TUGBOAT_VERBS_DEVICE", "mlx5_0");
    assert_string_equal(tug_settings.verbs_device, "mlx5_0");
    accept("TUGBOAT_VERBS_DEVICE", "rocep1s0f1:2,mlx5_0,mlx5_1:255");
    assert_string_equal(tug_settings.verbs_device, "rocep1s0f1:2,mlx5_0,mlx5_1:255");
    const char *const bad[] = {":1",   "a:",   "a:0", "a:256", "a:1x", "a b",
                               "a:-1", "../x", "a,",  ",a",    "a,,b", "a;b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse("TUGBOAT_VERBS_DEVICE", bad[i], "mlx5_0:1");
        assert_string_equal(tug_settings.verbs_device, "auto");
    }
    char *longest = calloc(1, TUG_VERBS_NAME_MAX + 2);
    memset(longest, 'x', TUG_VERBS_NAME_MAX);
    accept("TUGBOAT_VERBS_DEVICE", longest);
    assert_string_equal(tug_settings.verbs_device, longest);
    longest[TUG_VERBS_NAME_MAX] = 'x';
    refuse("TUGBOAT_VERBS_DEVICE", longest, "mlx5_0:1");
    free(longest);
}

static void test_verbs_port(void **state) {
    (void)state;
    accept("TUGBOAT_VERBS_PORT", "mtu=1024,pkey=0x8001,gid=0");
    const int these[TUG_PORT_FIELDS] = {0, 0x8001, -1, -1, -1, 1024, -1};
    assert_memory_equal(tug_settings.verbs_port, these, sizeof these);
    accept("TUGBOAT_VERBS_PORT", "gid=255,sl=15,tc=106,path=127,relaxed=1");
    const int others[TUG_PORT_FIELDS] = {255, -1, 15, 106, 127, -1, 1};
    assert_memory_equal(tug_settings.verbs_port, others, sizeof others);
    const char *const bad[] = {"gid",        "gid=",   "gid=256", "gid=1,",   ",gid=1",
                               "sl=16",      "pkey=0", "tc=256",  "mtu=1500", "gid=-1",
                               "gid=1;sl=0", "lid=3",  "5",       "relaxed=2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse("TUGBOAT_VERBS_PORT", bad[i], "mtu=256 to 4096");
        assert_int_equal(tug_settings.verbs_port[TUG_PORT_GID], -1);
    }
}

static void test_node_rank(void **state) {
    (void)state;
    static const char *const launchers[] = {"SLURM_LOCALID", "PALS_LOCAL_RANKID", "MPI_LOCALRANKID",
                                            "OMPI_COMM_WORLD_LOCAL_RANK"};
    for (unsigned i = 0; i < 4; i++)
        unsetenv(launchers[i]);
    assert_int_equal(tug_settings_node_rank(7), 7);
    setenv("SLURM_LOCALID", "none", 1);
    assert_int_equal(tug_settings_node_rank(7), 7);
    for (unsigned i = 0; i < 4; i++) { /* the later ones weigh more */
        setenv(launchers[i], (const char *const[]){"0", "1", "23", "3"}[i], 1);
        assert_int_equal(tug_settings_node_rank(7), i == 2 ? 23 : i);
    }
    for (unsigned i = 0; i < 4; i++)
        unsetenv(launchers[i]);
}

static void test_choices(void **state) {
    (void)state;
    accept("TUGBOAT_PROGRESS", "thread");
    assert_int_equal(tug_settings.progress, TUG_PROGRESS_THREAD);
    accept("TUGBOAT_PROGRESS", "caller");
    assert_int_equal(tug_settings.progress, TUG_PROGRESS_CALLER);
    accept("TUGBOAT_PROGRESS", "auto");
    assert_int_equal(tug_settings.progress, TUG_PROGRESS_AUTO);
    refuse("TUGBOAT_PROGRESS", "sometimes", "auto, thread, caller");
    refuse("TUGBOAT_PROGRESS", "Auto", "auto, thread, caller");

    accept("TUGBOAT_THREADS", "multiple");
    assert_int_equal(tug_settings.threads, 1);
    accept("TUGBOAT_THREADS", "auto");
    assert_int_equal(tug_settings.threads, 0);
    refuse("TUGBOAT_THREADS", "single", "auto, multiple");

    accept("TUGBOAT_COLLECTIVES", "off");
    assert_int_equal(tug_settings.collectives, TUG_COLLECTIVES_OFF);
    accept("TUGBOAT_COLLECTIVES", "on");
    assert_int_equal(tug_settings.collectives, TUG_COLLECTIVES_ON);
    accept("TUGBOAT_COLLECTIVES", "auto");
    assert_int_equal(tug_settings.collectives, TUG_COLLECTIVES_AUTO);
    refuse("TUGBOAT_COLLECTIVES", "always", "off, auto, on");

    accept("TUGBOAT_RMA", "native");
    assert_int_equal(tug_settings.rma, TUG_RMA_NATIVE);
    accept("TUGBOAT_RMA", "off");
    assert_int_equal(tug_settings.rma, TUG_RMA_OFF);
    accept("TUGBOAT_RMA", "packet");
    assert_int_equal(tug_settings.rma, TUG_RMA_PACKET);
    accept("TUGBOAT_RMA", "auto");
    assert_int_equal(tug_settings.rma, TUG_RMA_AUTO);
    refuse("TUGBOAT_RMA", "direct", "auto, packet, native, off");
    accept("TUGBOAT_VERBOSE", "quiet");
    assert_int_equal(tug_settings.verbose, TUG_VERBOSE_QUIET);
    accept("TUGBOAT_VERBOSE", "debug");
    assert_int_equal(tug_settings.verbose, TUG_VERBOSE_DEBUG);
    refuse("TUGBOAT_VERBOSE", "loud", "quiet, warn, info, debug");
}

static void test_numbers(void **state) {
    (void)state;
    accept("TUGBOAT_SPIN_US", "0");
    assert_int_equal(tug_settings.spin_us, 0);
    accept("TUGBOAT_SPIN_US", "10000");
    assert_int_equal(tug_settings.spin_us, 10000);
    static const char *const bad[] = {"10001", "-1",  "+1",   " 1",  "1 ",
                                      "x",     "1us", "0x10", "1.5", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse("TUGBOAT_SPIN_US", bad[i], "0 to 10000");
        assert_int_equal(tug_settings.spin_us, 5);
    }
}

static void test_ring_size(void **state) {
    (void)state;
    accept("TUGBOAT_RING_SIZE", "16");
    assert_int_equal(tug_settings.ring_size, 16);
    accept("TUGBOAT_RING_SIZE", "1048576");
    assert_int_equal(tug_settings.ring_size, 1048576);
    static const char *const bad[] = {"0", "3", "8", "24", "1000", "2097152", "1K"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse("TUGBOAT_RING_SIZE", bad[i], "power of two");
}

static void test_segment(void **state) {
    (void)state;
    accept("TUGBOAT_SEGMENT", "0");
    assert_int_equal(tug_settings.segment_bytes, 0);
    accept("TUGBOAT_SEGMENT", "4096");
    assert_int_equal(tug_settings.segment_bytes, 4096);
    accept("TUGBOAT_SEGMENT", "64K");
    assert_int_equal(tug_settings.segment_bytes, 65536);
    accept("TUGBOAT_SEGMENT", "4M");
    assert_int_equal(tug_settings.segment_bytes, 4194304);
    accept("TUGBOAT_SEGMENT", "50000");
    assert_int_equal(tug_settings.segment_bytes, 50000);
    static const char *const bad[] = {"1", "4095", "5M", "4G", "64KB", "K", "18014398509481985K"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse("TUGBOAT_SEGMENT", bad[i], "4K to 4M");
}

static void test_transports(void **state) {
    (void)state;
    assert_true(tug_settings.transports & TUG_WAY_MAPPED);
    assert_false(tug_settings.transports_named);
    accept("TUGBOAT_TRANSPORTS", "mpi");
    assert_int_equal(tug_settings.transports, TUG_WAY_MPI);
    assert_true(tug_settings.transports_named);
    accept("TUGBOAT_TRANSPORTS", "shm,self,mpi");
    assert_int_equal(tug_settings.transports, TUG_WAY_SHM | TUG_WAY_SELF | TUG_WAY_MPI);
    accept("TUGBOAT_TRANSPORTS", "self,mapped,cma,shm,verbs,ofi,tcp,mpi");
    assert_int_equal(tug_settings.transports, 255);
    static const char *const bad[] = {",",       "mpi,", ",mpi", "mp",        "mpix",
                                      "mpi shm", "udp",  "MPI",  "native,mpi"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse("TUGBOAT_TRANSPORTS", bad[i], "self, mapped, cma, shm, verbs, ofi, tcp, mpi");
    accept("TUGBOAT_OPERATIONS", "16");
    assert_int_equal(tug_settings.operations, 16);
    refuse("TUGBOAT_OPERATIONS", "100", "a power of two, 16 to 1048576");
    accept("TUGBOAT_AGGREGATE", "off");
    assert_false(tug_settings.aggregate);
    refuse("TUGBOAT_AGGREGATE", "perhaps", "on, off");
}

static void test_affinity(void **state) {
    (void)state;
    accept("TUGBOAT_AFFINITY", "none");
    assert_int_equal(tug_settings.affinity_mode, TUG_AFFINITY_NONE);
    accept("TUGBOAT_AFFINITY", "0,2-4,7");
    assert_int_equal(tug_settings.affinity_mode, TUG_AFFINITY_LIST);
    assert_int_equal(CPU_COUNT(&tug_settings.affinity_cpus), 5);
    static const int wanted[] = {0, 2, 3, 4, 7};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_true(CPU_ISSET(wanted[i], &tug_settings.affinity_cpus));
    accept("TUGBOAT_AFFINITY", "1023");
    static const char *const bad[] = {
        ",",  "0,", ",0", "0-", "-1", "3-2", "1024", "0 1", "0-1-2", "0x1", "99999999999999999999",
        "any"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse("TUGBOAT_AFFINITY", bad[i], "auto, none");
        assert_int_equal(tug_settings.affinity_mode, TUG_AFFINITY_AUTO);
    }
}

static void test_stats(void **state) {
    (void)state;
    accept("TUGBOAT_STATS", "0");
    assert_null(tug_settings.stats);
    accept("TUGBOAT_STATS", "1");
    assert_string_equal(tug_settings.stats, "1");
    accept("TUGBOAT_STATS", "/tmp/a.json");
    setenv("TUGBOAT_STATS", "changed by the program", 1);
    assert_string_equal(tug_settings.stats, "/tmp/a.json");
    refuse("TUGBOAT_STATS", "yes", ".json");
    refuse("TUGBOAT_STATS", ".json", ".json");
    refuse("TUGBOAT_STATS", "a.txt", ".json");
    refuse("TUGBOAT_STATS", "verdict", ".json");
    accept("TUGBOAT_STATS", "verdict.json"); /* a file like any other */
}

static void test_first_error_is_told_and_the_rest_is_read(void **state) {
    (void)state;
    setenv("TUGBOAT", "off", 1);
    setenv("TUGBOAT_PROGRESS", "never", 1);
    setenv("TUGBOAT_SPIN_US", "many", 1);
    setenv("TUGBOAT_RING_SIZE", "64", 1);
    char error[512];
    assert_int_equal(tug_settings_load(error, sizeof error), TUG_ERR_SETTING);
    assert_non_null(strstr(error, "TUGBOAT_PROGRESS=never"));
    assert_null(strstr(error, "SPIN"));
    assert_false(tug_settings.enabled);
    assert_int_equal(tug_settings.ring_size, 64);
    assert_int_equal(tug_settings.progress, TUG_PROGRESS_AUTO);

    /* Asked again, it says the same, into a buffer that is too small as well. */
    char cut[8];
    assert_int_equal(tug_settings_load(cut, sizeof cut), TUG_ERR_SETTING);
    assert_string_equal(cut, "TUGBOAT");
}

static void test_read_once(void **state) {
    (void)state;
    setenv("TUGBOAT_SPIN_US", "7", 1);
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    setenv("TUGBOAT_SPIN_US", "8", 1);
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    assert_int_equal(tug_settings.spin_us, 7);
}

static void *load_on_thread(void *arg) {
    (void)arg;
    const int status = tug_settings_load(NULL, 0);
    return status == 0 && tug_settings.ring_size == 128 ? (void *)1 : NULL;
}

static void test_load_on_many_threads(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        clean(NULL);
        setenv("TUGBOAT_RING_SIZE", "128", 1);
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, load_on_thread, NULL), 0);
        for (int i = 0; i < 8; i++) {
            void *saw_it = NULL;
            pthread_join(threads[i], &saw_it);
            assert_non_null(saw_it);
        }
    }
}

static void remember_name(const char *name, void *arg) {
    strcat(arg, name);
    strcat(arg, ";");
}

static void test_unknown(void **state) {
    (void)state;
    setenv("TUGBOAT_SPIN_US", "7", 1);
    assert_int_equal(tug_settings_unknown(NULL, NULL), 0);
    setenv("TUGBOAT_NONSENSE", "1", 1);
    setenv("TUGBOAT_SPIN_USEC", "1", 1);
    char seen[256] = "";
    assert_int_equal(tug_settings_unknown(remember_name, seen), 2);
    assert_non_null(strstr(seen, "TUGBOAT_NONSENSE;"));
    assert_non_null(strstr(seen, "TUGBOAT_SPIN_USEC;"));
}

static void test_print_names_value_and_source(void **state) {
    (void)state;
    setenv("TUGBOAT_SPIN_US", "77", 1);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    tug_settings_print(out);
    fclose(out);
    const char *row = strstr(text, "TUGBOAT_SPIN_US ");
    assert_non_null(row);
    assert_int_equal(strncmp(row + strlen("TUGBOAT_SPIN_US    "), "77", 2), 0);
    assert_non_null(strstr(row, "(environment; 0 to 10000)"));
    for (size_t i = 0; i < 8; i++)
        assert_non_null(strstr(text, names[i]));
    assert_non_null(strstr(text, "(default; quiet, warn, info, debug)"));
    free(text);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, clean, clean)
    const struct CMUnitTest tests[] = {
        CASE(test_defaults_before_and_after_load),
        CASE(test_empty_is_not_set),
        CASE(test_switch),
        CASE(test_verbs_device),
        CASE(test_verbs_port),
        CASE(test_node_rank),
        CASE(test_choices),
        CASE(test_numbers),
        CASE(test_ring_size),
        CASE(test_segment),
        CASE(test_torus),
        CASE(test_net_devices),
        CASE(test_transports),
        CASE(test_affinity),
        CASE(test_stats),
        CASE(test_first_error_is_told_and_the_rest_is_read),
        CASE(test_read_once),
        CASE(test_load_on_many_threads),
        CASE(test_unknown),
        CASE(test_print_names_value_and_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

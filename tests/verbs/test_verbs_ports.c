/* Which port a process uses, and how: with the stand-in for libibverbs, whose ports are described
 * here, and a folder in the place of the kernel's list of devices. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../unit/check.h"
#include "base/settings.h"
#include "fake_ports.h"
#include "transport/verbs/private.h"

#define IB IBV_LINK_LAYER_INFINIBAND
#define ETHERNET IBV_LINK_LAYER_ETHERNET
enum { X1 = 1, X4 = 2, EDR = 32, HDR = 64, NDR = 128 };

static char sysfs[64];
static const char *near_address; /* it is on the host's interface; those of 10.0.0.0/8 are near */
static struct tug_verbs_place place;
static struct tug_ibv real;

static int weigh(const struct in6_addr *address) {
    char text[64];
    assert_non_null(inet_ntop(AF_INET6, address, text, sizeof text));
    if (near_address != NULL && strcmp(text, near_address) == 0)
        return 2;
    return strncmp(text, "::ffff:10.", 10) == 0 || strncmp(text, "2001:", 5) == 0;
}

/* Writes a file of the device's in that folder. */
__attribute__((format(printf, 2, 3))) static void write_file(const char *text, const char *format,
                                                             ...) {
    char path[512];
    va_list arguments;
    int used = snprintf(path, sizeof path, "%s/", sysfs);
    va_start(arguments, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, arguments);
    va_end(arguments);
    for (char *at = strchr(path + used, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state) {
    (void)state;
    char reason[256];
    strcpy(sysfs, "/tmp/tugboat-ports-XXXXXX");
    assert_non_null(mkdtemp(sysfs));
    assert_true(tug_verbs_library(reason));
    real = tug_ibv;
    near_address = NULL;
    place = (struct tug_verbs_place){0, -1, sysfs, weigh};
    setenv("FAKE_DEVICES", "4", 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", sysfs);
    assert_int_equal(system(command), 0);
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; i < n; i++)
        list[i]->transport_type = IBV_TRANSPORT_IB;
    fake_ports_forget();
    unsetenv("FAKE_PORTS");
    tug_ibv = real;
    tug_settings_reset();
    return 0;
}

static void describe(unsigned device, uint8_t link_layer, uint8_t speed, uint8_t width) {
    *fake_port(device, 1) = (struct fake_port){.described = true,
                                               .link_layer = link_layer,
                                               .speed = speed,
                                               .width = width,
                                               .lid = (uint16_t)(16 * (device + 1)),
                                               .pkeys = {0xffff}};
    if (link_layer == ETHERNET) {
        fake_port(device, 1)->gids[0].gid = (union ibv_gid){
            .raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(1 + device)}};
        fake_port(device, 1)->gids[0].v2 = true;
    }
}

/* The ports of the rails, as "fake2:1 fake3:1". */
static const char *ports_used(void) {
    static char text[300];
    char reason[256];
    struct tug_verbs_device first, other;
    if (!tug_verbs_device_open(&first, &place, reason)) {
        snprintf(text, sizeof text, "none: %s", reason);
        return text;
    }
    int used = snprintf(text, sizeof text, "%s:%u", first.name, first.port);
    for (unsigned n = 0; tug_verbs_device_open_other(&other, &first, n, reason); n++) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %s:%u", other.name, other.port);
        assert_non_null(other.context);
        assert_ptr_not_equal(other.context, first.context);
        tug_verbs_device_close(&other);
    }
    tug_verbs_device_close(&first);
    return text;
}

static void set(const char *name, const char *value) {
    char error[256];
    tug_settings_reset();
    setenv(name, value, 1);
    if (tug_settings_load(error, sizeof error) != 0)
        fail_msg("%s", error);
    unsetenv(name);
}

static void infiniband_then_the_fastest(void **state) {
    (void)state;
    describe(0, ETHERNET, NDR, X4);
    describe(1, IB, EDR, X4);
    describe(2, IB, HDR, X4);
    describe(3, IB, HDR, X4);
    assert_string_equal(ports_used(), "fake2:1 fake3:1");
    fake_port(2, 1)->down = true;
    assert_string_equal(ports_used(), "fake3:1");
    describe(3, IB, HDR, X1); /* slower than EDR by four lanes */
    assert_string_equal(ports_used(), "fake1:1");
    fake_port(1, 1)->down = fake_port(3, 1)->down = true;
    assert_string_equal(ports_used(), "fake0:1");
    fake_port(0, 1)->down = true;
    assert_string_equal(ports_used(), "none: no active port that can be used on any RDMA device");
}

static void near_before_far(void **state) {
    (void)state;
    for (unsigned device = 0; device < 4; device++) {
        describe(device, IB, HDR, X4);
        write_file(device < 2 ? "0\n" : "1\n", "fake%u/device/numa_node", device);
    }
    assert_string_equal(ports_used(), "fake0:1 fake1:1 fake2:1 fake3:1");
    place.numa_node = 1;
    assert_string_equal(ports_used(), "fake2:1 fake3:1 fake0:1 fake1:1");
    describe(1, IB, NDR, X4); /* the rate weighs more */
    assert_string_equal(ports_used(), "fake1:1");
}

static void named_for_each_rank(void **state) {
    (void)state;
    static const char *const of_rank[] = {"fake1:1 fake3:1 fake0:1", "fake3:1 fake0:1 fake1:1",
                                          "fake0:1 fake1:1 fake3:1", "fake1:1 fake3:1 fake0:1"};
    set("TUGBOAT_VERBS_DEVICE", "fake1,fake3,fake0");
    for (place.node_rank = 0; place.node_rank < 4; place.node_rank++)
        assert_string_equal(ports_used(), of_rank[place.node_rank]);
    place.node_rank = 0;
    setenv("FAKE_PORTS", "2", 1);
    set("TUGBOAT_VERBS_DEVICE", "fake2:2,fake0");
    assert_string_equal(ports_used(), "fake2:2 fake0:1 fake0:2");
    place.node_rank = 1;
    assert_string_equal(ports_used(), "fake0:1 fake0:2 fake2:2");
    set("TUGBOAT_VERBS_DEVICE", "fake7");
    assert_string_equal(ports_used(), "none: no RDMA device fake7");
}

static void left_out(void **state) {
    (void)state;
    char link[128];
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    list[0]->transport_type = IBV_TRANSPORT_IWARP;
    list[1]->transport_type = IBV_TRANSPORT_USNIC_UDP;
    assert_string_equal(ports_used(), "fake2:1 fake3:1");
    write_file("", "fake2/device/enable");
    snprintf(link, sizeof link, "%s/fake2/device/driver", sysfs);
    assert_int_equal(symlink("../../bus/pci/drivers/hfi1", link), 0);
    assert_string_equal(ports_used(), "fake3:1");
    set("TUGBOAT_VERBS_DEVICE", "fake2");
    assert_string_equal(ports_used(), "fake2:1");
    set("TUGBOAT_VERBS_DEVICE", "fake0");
    assert_string_equal(ports_used(), "none: no RDMA device fake0");
}

static unsigned opened;

static struct ibv_context *count_opened(struct ibv_device *device) {
    opened++;
    return real.open_device(device);
}

/* Whether there is a device is seen without opening any, and each is opened once for all rails. */
static void opened_once(void **state) {
    (void)state;
    char reason[256];
    opened = 0;
    tug_ibv.open_device = count_opened;
    assert_false(tug_verbs_device_missing(&place, reason));
    for (unsigned device = 0; device < 4; device++)
        write_file(device == 2 ? "4: ACTIVE\n" : "1: DOWN\n", "fake%u/ports/1/state", device);
    assert_false(tug_verbs_device_missing(&place, reason));
    set("TUGBOAT_VERBS_DEVICE", "fake1,fake2:2");
    assert_true(tug_verbs_device_missing(&place, reason));
    assert_string_equal(reason, "no active port that can be used on fake1,fake2:2");
    set("TUGBOAT_VERBS_DEVICE", "fake7");
    assert_true(tug_verbs_device_missing(&place, reason));
    assert_string_equal(reason, "no RDMA device fake7");
    assert_int_equal(opened, 0);
    tug_settings_reset();
    assert_string_equal(ports_used(), "fake2:1");
    assert_int_equal(opened, 1);
    for (unsigned device = 0; device < 4; device++)
        write_file("4: ACTIVE\n", "fake%u/ports/1/state", device);
    assert_string_equal(ports_used(), "fake0:1 fake1:1 fake2:1 fake3:1");
    assert_int_equal(opened, 1 + 4);
    set("TUGBOAT_VERBS_RAILS", "2");
    assert_string_equal(ports_used(), "fake0:1 fake1:1");
}

/* ---- GIDs ---- */

static void add_gid(unsigned index, const char *address, bool v2) {
    assert_int_equal(inet_pton(AF_INET6, address, fake_port(0, 1)->gids[index].gid.raw), 1);
    fake_port(0, 1)->gids[index].v2 = v2;
}

static int gid_used(void) {
    char reason[256];
    struct tug_verbs_device device;
    if (!tug_verbs_device_open(&device, &place, reason))
        return -1;
    const int index = device.path.gid_index;
    assert_memory_equal(device.path.gid.raw, fake_port(0, 1)->gids[index].gid.raw, 16);
    tug_verbs_device_close(&device);
    return index;
}

static void gids(void **state) {
    (void)state;
    set("TUGBOAT_VERBS_DEVICE", "fake0");
    *fake_port(0, 1) =
        (struct fake_port){.described = true, .link_layer = ETHERNET, .pkeys = {0xffff}};
    assert_int_equal(gid_used(), -1);
    add_gid(0, "fe80::1", false);
    add_gid(1, "fe80::1", true);
    assert_int_equal(gid_used(), 1); /* RoCE v2 */
    add_gid(2, "2002::1", false);
    assert_int_equal(gid_used(), 2); /* reaches further */
    add_gid(2, "2001:db8::1", false);
    assert_int_equal(gid_used(), 2);
    add_gid(3, "2001:db8::1", true);
    assert_int_equal(gid_used(), 3);
    add_gid(4, "::ffff:192.168.0.1", true); /* of another network namespace */
    assert_int_equal(gid_used(), 3);
    add_gid(5, "::ffff:10.0.0.1", true);
    assert_int_equal(gid_used(), 5);
    add_gid(6, "::ffff:10.9.0.1", true);
    assert_int_equal(gid_used(), 5);
    near_address = "::ffff:10.9.0.1"; /* the host's */
    assert_int_equal(gid_used(), 6);
    set("TUGBOAT_VERBS_PORT", "gid=4");
    assert_int_equal(gid_used(), 4);
    set("TUGBOAT_VERBS_PORT", "gid=7"); /* none there */
    fake_port(1, 1)->described = fake_port(2, 1)->described = fake_port(3, 1)->described = true;
    fake_port(1, 1)->down = fake_port(2, 1)->down = fake_port(3, 1)->down = true;
    assert_int_equal(gid_used(), -1);
}

/* Where libibverbs does not tell the RoCE version, the kernel does. */
static void gid_types_by_the_kernel(void **state) {
    (void)state;
    set("TUGBOAT_VERBS_DEVICE", "fake0");
    *fake_port(0, 1) =
        (struct fake_port){.described = true, .link_layer = ETHERNET, .pkeys = {0xffff}};
    add_gid(0, "::ffff:10.0.0.1", false);
    add_gid(1, "::ffff:10.0.0.1", false);
    tug_ibv.query_gid_ex = NULL;
    assert_int_equal(gid_used(), 0);
    write_file("IB/RoCE v1\n", "fake0/ports/1/gid_attrs/types/0");
    write_file("RoCE v2\n", "fake0/ports/1/gid_attrs/types/1");
    assert_int_equal(gid_used(), 1);
}

/* ---- the rest of a path ---- */

static struct tug_verbs_path path_used(void) {
    char reason[256];
    struct tug_verbs_device device;
    if (!tug_verbs_device_open(&device, &place, reason))
        fail_msg("%s", reason);
    tug_verbs_device_close(&device);
    return device.path;
}

static void partitions(void **state) {
    (void)state;
    setenv("FAKE_DEVICES", "1", 1);
    describe(0, IB, HDR, X4);
    uint16_t *keys = fake_port(0, 1)->pkeys;
    memcpy(keys, (uint16_t[FAKE_PKEYS]){0x7fff, 0, 0x8012, 0x8013}, 2 * FAKE_PKEYS);
    assert_int_equal(path_used().pkey_index, 2); /* the first full member */
    set("TUGBOAT_VERBS_PORT", "pkey=0x13");
    assert_int_equal(path_used().pkey_index, 3);
    set("TUGBOAT_VERBS_PORT", "pkey=0xffff");
    assert_int_equal(path_used().pkey_index, 0); /* a limited member is one */
    set("TUGBOAT_VERBS_PORT", "pkey=0x8014");
    assert_string_equal(ports_used(), "none: no active port that can be used on any RDMA device");
    tug_settings_reset();
    memcpy(keys, (uint16_t[FAKE_PKEYS]){0, 0x12}, 2 * FAKE_PKEYS);
    assert_int_equal(path_used().pkey_index, 1);
}

static void paths(void **state) {
    (void)state;
    describe(0, IB, NDR, X4);
    fake_port(0, 1)->lmc = 2;
    place.node_rank = 7;
    struct tug_verbs_path path = path_used();
    assert_int_equal(path.bits, 3);
    assert_int_equal(path.lid, 16 + 3);
    assert_int_equal(path.mtu, IBV_MTU_4096);
    assert_int_equal(path.sl | path.traffic_class, 0);
    set("TUGBOAT_VERBS_PORT", "path=1,sl=3,tc=40,mtu=1024");
    path = path_used();
    assert_int_equal(path.bits, 1);
    assert_int_equal(path.lid, 16 + 1);
    assert_int_equal(path.mtu, IBV_MTU_1024);
    assert_int_equal(path.sl, 3);
    assert_int_equal(path.traffic_class, 40);
    tug_settings_reset();
    describe(0, ETHERNET, NDR, X4);
    set("TUGBOAT_VERBS_DEVICE", "fake0");
    assert_int_equal(path_used().traffic_class, 106);
    fake_port(0, 1)->gids[0].v2 = false;
    assert_int_equal(path_used().traffic_class, 0);
}

/* What has changed is read again, when the port is active. */
static void read_again(void **state) {
    (void)state;
    char reason[256];
    struct tug_verbs_device device;
    setenv("FAKE_DEVICES", "1", 1);
    describe(0, IB, HDR, X4);
    assert_true(tug_verbs_device_open(&device, &place, reason));
    fake_port(0, 1)->down = true;
    fake_port(0, 1)->lid = 99;
    assert_false(tug_verbs_device_read_path(&device));
    assert_int_equal(device.path.lid, 16);
    fake_port(0, 1)->down = false;
    assert_true(tug_verbs_device_read_path(&device));
    assert_int_equal(device.path.lid, 99);
    tug_verbs_device_close(&device);
}

/* ---- memory ---- */

static unsigned asked;

static struct ibv_mr *note_access(struct ibv_pd *pd, void *memory, size_t bytes, uint64_t at,
                                  unsigned access) {
    asked = access;
    return real.reg_mr_iova2(pd, memory, bytes, at, access);
}

static void writes_that_overtake(void **state) {
    (void)state;
    static unsigned char memory[64];
    const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    char reason[256];
    struct tug_verbs_device device;
    const struct {
        int access;
        const char *relaxed;
        unsigned asked; /* 0: by the older call */
    } those[] = {
        {IBV_ACCESS_LOCAL_WRITE, "relaxed=0", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING},
        {remote, "relaxed=0", 0},
        {remote, "relaxed=1", (unsigned)remote | IBV_ACCESS_RELAXED_ORDERING},
    };
    assert_true(tug_verbs_device_open(&device, &place, reason));
    tug_ibv.reg_mr_iova2 = note_access;
    for (size_t i = 0; i < sizeof those / sizeof those[0]; i++) {
        set("TUGBOAT_VERBS_PORT", those[i].relaxed);
        asked = 0;
        struct ibv_mr *mr =
            tug_verbs_device_register(&device, memory, sizeof memory, 0, those[i].access);
        assert_non_null(mr);
        assert_int_equal(asked, those[i].asked);
        tug_ibv.dereg_mr(mr);
    }
    tug_verbs_device_close(&device);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {CASE(infiniband_then_the_fastest),
                                       CASE(near_before_far),
                                       CASE(named_for_each_rank),
                                       CASE(left_out),
                                       CASE(opened_once),
                                       CASE(gids),
                                       CASE(gid_types_by_the_kernel),
                                       CASE(partitions),
                                       CASE(paths),
                                       CASE(read_again),
                                       CASE(writes_that_overtake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

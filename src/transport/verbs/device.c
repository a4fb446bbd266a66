/* The devices, their ports, and which of them a process uses.
 *
 * All ports that the settings allow are looked at when the first rail is opened, and put in order:
 * as TUGBOAT_VERBS_DEVICE lists them, InfiniBand before Ethernet, fast before slow, those of the
 * process's NUMA node before others, then as libibverbs lists them. The first one is the first
 * rail's, and those as fast as it are for the further rails, in that order. Each device is opened
 * once for that; the devices of ports that are not used are closed again.
 *
 * How connections go by a port (struct tug_verbs_path) is read when it is opened, and again when
 * the device has reported a change. On Ethernet a port has several GIDs, one for each address and
 * RoCE version: see gid_worth().
 *
 * Threading: open and close under the lock of endpoint.c; the path, the holder after open. */
#include <arpa/inet.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/sockets.h"
#include "transport/verbs/private.h"

#define MOST_READS 16
#define MOST_PIECE (1u << 30)
#define MOST_GIDS 128
#define MOST_PORTS 64 /* that are looked at */
#define FULL_MEMBER 0x8000
#define ROCE_V2_TRAFFIC_CLASS 106 /* as UCX's and the vendor's default: DSCP 26, ECN */

void tug_verbs_place_here(struct tug_verbs_place *place, uint32_t node_rank) {
    unsigned node;
    *place = (struct tug_verbs_place){.node_rank = tug_settings_node_rank(node_rank),
                                      .numa_node = getcpu(NULL, &node) == 0 ? (int)node : -1,
                                      .sysfs = "/sys/class/infiniband",
                                      .weigh = tug_sockets_weigh};
}

/* Reads the first line of a file of the device's. False: there is none. */
__attribute__((format(printf, 4, 5))) static bool read_line(const struct tug_verbs_place *place,
                                                            const char *device, char line[64],
                                                            const char *format, ...) {
    char name[64], path[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    snprintf(path, sizeof path, "%s/%s/%s", place->sysfs, device, name);
    FILE *file = fopen(path, "re");
    const bool read = file != NULL && fgets(line, 64, file) != NULL;
    if (file != NULL)
        (void)fclose(file);
    return read;
}

/* ---- what the settings allow ---- */

static bool is_any(void) {
    return strcmp(tug_settings.verbs_device, "auto") == 0;
}

/* Where TUGBOAT_VERBS_DEVICE lists the port (0: any of the device), counted from this process's
 * turn. -1: nowhere. */
static int listed_at(const char *name, unsigned port, uint32_t node_rank) {
    const char *at = tug_settings.verbs_device;
    const size_t length = strlen(name);
    int found = -1, n = 0;
    for (bool more = !is_any(); more; n++) {
        const size_t named = strcspn(at, ":,");
        const unsigned its = at[named] == ':' ? (unsigned)strtoul(at + named + 1, NULL, 10) : 0;
        if (found < 0 && named == length && strncmp(at, name, length) == 0 &&
            (its == 0 || port == 0 || its == port))
            found = n;
        at += strcspn(at, ",");
        more = *at++ == ',';
    }
    return n == 0 ? 0 : found < 0 ? -1 : (found + n - (int)(node_rank % (uint32_t)n)) % n;
}

/* Not those that lack what pair.c does (iWARP, usNIC, EFA); nor, unless it is named, a driver that
 * does verbs by the processor (hfi1 on Omni-Path, which the host MPI uses better). */
static bool is_allowed(const struct tug_verbs_place *place, struct ibv_device *candidate) {
    const char *name = tug_ibv.get_device_name(candidate);
    char link[512], driver[256];
    if (candidate->transport_type != IBV_TRANSPORT_IB || listed_at(name, 0, 0) < 0)
        return false;
    snprintf(link, sizeof link, "%s/%s/device/driver", place->sysfs, name);
    const ssize_t length = is_any() ? readlink(link, driver, sizeof driver - 1) : -1;
    driver[length > 0 ? length : 0] = '\0';
    const char *last = strrchr(driver, '/');
    return strcmp(last != NULL ? last + 1 : driver, "hfi1") != 0;
}

/* Is one of the device's ports up, as the kernel lists them? Where it lists none it may be. */
static bool may_be_up(const struct tug_verbs_place *place, const char *name) {
    char state[64];
    unsigned port = 1;
    for (; read_line(place, name, state, "ports/%u/state", port); port++)
        if (listed_at(name, port, 0) >= 0 && atoi(state) == IBV_PORT_ACTIVE)
            return true;
    return port == 1;
}

static void explain(char *reason, bool seen) {
    snprintf(reason, 256, "%s%s%s",
             seen       ? "no active port that can be used on "
             : is_any() ? "this machine has no RDMA device"
                        : "no RDMA device ",
             seen && is_any() ? "any RDMA device" : "", is_any() ? "" : tug_settings.verbs_device);
}

/* ---- how connections go by a port ---- */

/* Of a port, in units of 100 Mbit/s; 0: it says nothing that is known. */
static uint32_t rate_of(const struct ibv_port_attr *attributes) {
    static const uint16_t lane[] = {25, 50, 100, 100, 140, 250, 500, 1000};
    static const uint8_t lanes[] = {1, 4, 8, 12, 2};
    const int speed = ffs(attributes->active_speed), width = ffs(attributes->active_width);
    const uint32_t n = width > 0 && width <= (int)sizeof lanes ? lanes[width - 1] : 1;
    return speed > 0 ? n * lane[speed - 1] : 0;
}

static bool is_v2(const struct tug_verbs_device *device, int index) {
    struct ibv_gid_entry entry;
    char type[64];
    if (tug_ibv.query_gid_ex != NULL)
        return tug_ibv.query_gid_ex(device->context, device->port, (uint32_t)index, &entry, 0,
                                    sizeof entry) == 0 &&
               entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    return read_line(&device->place, device->name, type, "ports/%u/gid_attrs/types/%d",
                     device->port, index) &&
           strncmp(type, "RoCE v2", 7) == 0;
}

/* How good a GID of an Ethernet port is; 0: there is none. The address must be one of this
 * process's network (those of other network namespaces are listed, too); then it should reach
 * further than the link, be routed (RoCE v2), be an IPv4 address, which is always configured, and
 * be on the interface that the host MPI uses. */
static int gid_worth(const struct tug_verbs_device *device, int index, union ibv_gid *gid) {
    static const union ibv_gid zero;
    struct in6_addr address;
    if (tug_ibv.query_gid(device->context, device->port, index, gid) != 0 ||
        memcmp(gid, &zero, sizeof zero) == 0)
        return 0;
    memcpy(&address, gid->raw, sizeof address);
    const int near = device->place.weigh(&address);
    return 1 + (near > 0 ? 32 : 0) + (IN6_IS_ADDR_LINKLOCAL(&address) ? 0 : 16) +
           (is_v2(device, index) ? 8 : 0) + (IN6_IS_ADDR_V4MAPPED(&address) ? 4 : 0) +
           (near > 1 ? 2 : 0);
}

/* On InfiniBand the first one, which is left zero if it cannot be had. */
static bool choose_gid(const struct tug_verbs_device *device, bool ethernet, int length,
                       struct tug_verbs_path *path) {
    const int set = tug_settings.verbs_port[TUG_PORT_GID];
    const int from = set >= 0 ? set : 0;
    const int most = ethernet && set < 0 ? MOST_GIDS : from + 1;
    int best = 0;
    for (int i = from; i < length && i < most; i++) {
        union ibv_gid gid;
        const int worth = gid_worth(device, i, &gid);
        if (worth > best) {
            best = worth;
            path->gid_index = (uint8_t)i;
            path->gid = gid;
        }
    }
    return best > 0 || (!ethernet && set < 0);
}

/* The index of the partition's key, with full membership if there is one: of that which is set, or
 * of any. -1: there is none. */
static int find_pkey(const struct tug_verbs_device *device, int length) {
    const int set = tug_settings.verbs_port[TUG_PORT_PKEY];
    int found = set < 0 && length == 0 ? 0 : -1;
    for (int i = 0; i < length; i++) {
        __be16 raw;
        if (tug_ibv.query_pkey(device->context, device->port, i, &raw) != 0)
            continue;
        const int key = ntohs(raw);
        if ((key & ~FULL_MEMBER) == 0 || (set >= 0 && ((key ^ set) & ~FULL_MEMBER) != 0))
            continue;
        if (key & FULL_MEMBER)
            return i;
        found = found < 0 ? i : found;
    }
    return found;
}

/* As the settings or the port have it. False: the settings name what the port does not have. */
static bool make_path(const struct tug_verbs_device *device, const struct ibv_port_attr *port,
                      struct tug_verbs_path *path) {
    const int *set = tug_settings.verbs_port;
    const bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
    const int pkey = find_pkey(device, port->pkey_tbl_len);
    *path = (struct tug_verbs_path){.mtu = (uint8_t)port->active_mtu};
    if (pkey < 0 || !choose_gid(device, ethernet, port->gid_tbl_len, path))
        return false;
    path->pkey_index = (uint16_t)pkey;
    while (set[TUG_PORT_MTU] > 0 && path->mtu > IBV_MTU_256 && 128 << path->mtu > set[TUG_PORT_MTU])
        path->mtu--;
    const uint32_t bits =
        set[TUG_PORT_PATH] >= 0 ? (uint32_t)set[TUG_PORT_PATH] : device->place.node_rank;
    path->bits = (uint8_t)(bits & ((1u << (port->lmc & 7)) - 1));
    path->lid = port->lid | path->bits;
    path->sl = set[TUG_PORT_SL] >= 0 ? (uint8_t)set[TUG_PORT_SL] : 0;
    path->traffic_class = set[TUG_PORT_TC] >= 0                        ? (uint8_t)set[TUG_PORT_TC]
                          : ethernet && is_v2(device, path->gid_index) ? ROCE_V2_TRAFFIC_CLASS
                                                                       : 0;
    return true;
}

/* Fills the port in. False: it is not active, or not as the settings want it. */
static bool query_port(struct tug_verbs_device *device, uint8_t number) {
    struct ibv_port_attr port = {0};
    device->port = number;
    if (tug_ibv.query_port(device->context, number, (void *)&port) != 0 ||
        port.state != IBV_PORT_ACTIVE)
        return false;
    device->link_layer = port.link_layer;
    device->rate = rate_of(&port);
    device->most_message = port.max_msg_sz < MOST_PIECE ? port.max_msg_sz : MOST_PIECE;
    return make_path(device, &port, &device->path);
}

/* Nothing but the path is written: other threads read the rest. */
bool tug_verbs_device_read_path(struct tug_verbs_device *device) {
    struct tug_verbs_device now = *device;
    if (!query_port(&now, device->port))
        return false;
    device->path = now.path;
    return true;
}

/* ---- which port ---- */

struct candidate {
    struct tug_verbs_device device;
    int listed, number;
    bool near;
};

static bool open_context(struct tug_verbs_device *device, struct ibv_device *candidate) {
    tug_verbs_prepare_fork();
    device->context = tug_ibv.open_device(candidate);
    snprintf(device->name, sizeof device->name, "%s", tug_ibv.get_device_name(candidate));
    return device->context != NULL;
}

/* Fills the device in. False: it cannot do what is wanted. */
static bool query_device(struct tug_verbs_device *device, uint8_t *ports) {
    struct ibv_device_attr attributes = {0};
    if (tug_ibv.query_device(device->context, &attributes) != 0)
        return false;
    const int reads = attributes.max_qp_init_rd_atom, serves = attributes.max_qp_rd_atom;
    device->reads = (uint8_t)(reads < MOST_READS ? reads : MOST_READS);
    device->serves = (uint8_t)(serves < MOST_READS ? serves : MOST_READS);
    device->atomics = attributes.atomic_cap != IBV_ATOMIC_NONE;
    device->most_cqe = attributes.max_cqe;
    device->most_receives = (uint32_t)attributes.max_srq_wr;
    *ports = attributes.phys_port_cnt;
    return reads >= 1 && serves >= 1;
}

/* Adds the device's ports that can be used, each with a context of its own. Returns how many there
 * are then. */
static unsigned add_ports(struct candidate *found, unsigned n, const struct tug_verbs_place *place,
                          struct ibv_device *candidate) {
    struct tug_verbs_device device = {.place = *place};
    uint8_t ports = 1;
    char line[64];
    const bool near =
        place->numa_node >= 0 &&
        read_line(place, tug_ibv.get_device_name(candidate), line, "device/numa_node") &&
        atoi(line) == place->numa_node;
    for (unsigned port = 1; port <= ports && n < MOST_PORTS; port++) {
        if (device.context == NULL &&
            (!open_context(&device, candidate) || !query_device(&device, &ports)))
            break;
        const int listed = listed_at(device.name, port, place->node_rank);
        if (listed < 0 || !query_port(&device, (uint8_t)port))
            continue;
        found[n] = (struct candidate){device, listed, (int)n, near};
        device.context = NULL;
        n++;
    }
    if (device.context != NULL)
        tug_ibv.close_device(device.context);
    return n;
}

static int compare(const void *a, const void *b) {
    const struct candidate *one = a, *other = b;
    if (one->listed != other->listed)
        return one->listed - other->listed;
    if (one->device.link_layer != other->device.link_layer)
        return one->device.link_layer == IBV_LINK_LAYER_INFINIBAND ? -1 : 1;
    if (one->device.rate != other->device.rate)
        return one->device.rate > other->device.rate ? -1 : 1;
    return one->near != other->near ? other->near - one->near : one->number - other->number;
}

/* The first is the device's port, those as fast as it are others; the rest is closed. */
static void choose(struct candidate *found, unsigned n, struct tug_verbs_device *device) {
    qsort(found, n, sizeof *found, compare);
    *device = found[0].device;
    for (unsigned i = 1; i < n; i++) {
        const struct tug_verbs_device *next = &found[i].device;
        if (next->link_layer == device->link_layer && next->rate == device->rate &&
            device->nothers + 1 < tug_settings.verbs_rails) {
            struct tug_verbs_other *other = &device->others[device->nothers++];
            *other = (struct tug_verbs_other){.context = next->context, .port = next->port};
            memcpy(other->name, next->name, sizeof other->name);
        } else {
            tug_ibv.close_device(next->context);
        }
    }
}

/* ---- opening ---- */

static bool finish(struct tug_verbs_device *device, char *reason) {
    device->pd = tug_ibv.alloc_pd(device->context);
    if (device->pd != NULL) {
        tug_verbs_count_open(1);
        return true;
    }
    snprintf(reason, 256, "%s has no protection domain left", device->name);
    tug_verbs_device_close(device);
    return false;
}

bool tug_verbs_device_open(struct tug_verbs_device *device, const struct tug_verbs_place *place,
                           char *reason) {
    int count = 0;
    unsigned n = 0;
    bool seen = false;
    memset(device, 0, sizeof *device);
    if (!tug_verbs_library(reason))
        return false;
    struct candidate *found = calloc(MOST_PORTS, sizeof *found);
    struct ibv_device **list = found != NULL ? tug_ibv.get_device_list(&count) : NULL;
    for (int i = 0; list != NULL && i < count; i++)
        if (is_allowed(place, list[i])) {
            seen = true;
            if (may_be_up(place, tug_ibv.get_device_name(list[i])))
                n = add_ports(found, n, place, list[i]);
        }
    if (list != NULL)
        tug_ibv.free_device_list(list);
    if (n > 0)
        choose(found, n, device);
    else
        explain(reason, seen);
    free(found);
    return n > 0 && finish(device, reason);
}

/* Opens the device of that name, which has been closed since it was found. */
static void open_again(struct tug_verbs_device *device) {
    int count = 0;
    struct ibv_device **list = tug_ibv.get_device_list(&count);
    for (int i = 0; list != NULL && i < count && device->context == NULL; i++)
        if (strcmp(tug_ibv.get_device_name(list[i]), device->name) == 0)
            (void)open_context(device, list[i]);
    if (list != NULL)
        tug_ibv.free_device_list(list);
}

bool tug_verbs_device_open_other(struct tug_verbs_device *device, struct tug_verbs_device *first,
                                 unsigned n, char *reason) {
    uint8_t ports;
    snprintf(reason, 256, "no further port");
    if (n >= first->nothers)
        return false;
    struct tug_verbs_other *other = &first->others[n];
    *device = (struct tug_verbs_device){.place = first->place, .context = other->context};
    memcpy(device->name, other->name, sizeof device->name);
    other->context = NULL;
    if (device->context == NULL)
        open_again(device);
    if (device->context != NULL && query_device(device, &ports) && query_port(device, other->port))
        return finish(device, reason);
    tug_verbs_device_close(device);
    return false;
}

void tug_verbs_device_close(struct tug_verbs_device *device) {
    if (device->pd != NULL) {
        tug_verbs_count_open(-1);
        tug_ibv.dealloc_pd(device->pd);
    }
    if (device->context != NULL)
        tug_ibv.close_device(device->context);
    for (unsigned i = 0; i < device->nothers; i++)
        if (device->others[i].context != NULL)
            tug_ibv.close_device(device->others[i].context);
    device->pd = NULL;
    device->context = NULL;
    device->nothers = 0;
}

/* ---- without opening ---- */

bool tug_verbs_device_missing(const struct tug_verbs_place *place, char *reason) {
    int count = 0;
    bool seen = false, up = false;
    if (!tug_verbs_library(reason))
        return true;
    struct ibv_device **list = tug_ibv.get_device_list(&count);
    for (int i = 0; list != NULL && i < count && !up; i++)
        if (is_allowed(place, list[i])) {
            seen = true;
            up = may_be_up(place, tug_ibv.get_device_name(list[i]));
        }
    if (list != NULL)
        tug_ibv.free_device_list(list);
    explain(reason, seen);
    return !up;
}

/* ---- memory ---- */

struct ibv_mr *tug_verbs_device_register(const struct tug_verbs_device *device, void *memory,
                                         size_t bytes, uint64_t at, int access) {
    const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if (tug_ibv.reg_mr_iova2 != NULL &&
        (!(access & remote) || tug_settings.verbs_port[TUG_PORT_RELAXED] == 1))
        return tug_ibv.reg_mr_iova2(device->pd, memory, bytes, at,
                                    (unsigned)access | IBV_ACCESS_RELAXED_ORDERING);
    return tug_ibv.reg_mr_iova(device->pd, memory, bytes, at, access);
}

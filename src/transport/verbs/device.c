/* The device and the port of a rail: the same for all peers.
 *
 * On Ethernet a port has several GIDs, one for each address and RoCE version; the one of an IPv4
 * address under RoCE v2 is taken where there is one, since it is routed and always configured.
 * Threading: open and close only. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transport/verbs/private.h"

#define MOST_READS 16
#define MOST_PIECE (1u << 30)

static bool is_ipv4(const union ibv_gid *gid) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, mapped, sizeof mapped) == 0;
}

/* How good a GID is: 0 not at all. */
static int gid_worth(const struct tug_verbs_device *device, int index, union ibv_gid *gid) {
    static const union ibv_gid zero;
    if (tug_ibv.query_gid(device->context, device->port, index, gid) != 0 ||
        memcmp(gid, &zero, sizeof zero) == 0)
        return 0;
    int worth = is_ipv4(gid) ? 2 : 1;
    struct ibv_gid_entry entry;
    if (tug_ibv.query_gid_ex != NULL &&
        tug_ibv.query_gid_ex(device->context, device->port, (uint32_t)index, &entry, 0,
                             sizeof entry) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2)
        worth += 2;
    return worth;
}

static bool choose_gid(struct tug_verbs_device *device, int table_length) {
    const bool ethernet = device->link_layer == IBV_LINK_LAYER_ETHERNET;
    int best = 0;
    for (int i = 0; i < table_length && i < (ethernet ? 64 : 1); i++) {
        union ibv_gid gid;
        int worth = gid_worth(device, i, &gid);
        if (worth > best) {
            best = worth;
            device->gid_index = (uint8_t)i;
            device->gid = gid;
        }
    }
    return best > 0 || !ethernet;
}

/* Which port is wanted. */
struct search {
    unsigned port;                        /* 0: any */
    const struct tug_verbs_device *alike; /* NULL: any */
    unsigned skip;                        /* so many that would do are not it */
};

static bool is_alike(const struct tug_verbs_device *device, const struct tug_verbs_device *alike) {
    return alike == NULL || (device->link_layer == alike->link_layer &&
                             device->speed == alike->speed && device->width == alike->width);
}

/* Fills the port in if it is active. */
static bool port_usable(struct tug_verbs_device *device, uint8_t port) {
    struct ibv_port_attr attributes = {0};
    if (tug_ibv.query_port(device->context, port, (void *)&attributes) != 0 ||
        attributes.state != IBV_PORT_ACTIVE)
        return false;
    device->port = port;
    device->link_layer = attributes.link_layer;
    device->speed = attributes.active_speed;
    device->width = attributes.active_width;
    device->mtu = (uint8_t)attributes.active_mtu;
    device->lid = attributes.lid;
    device->most_message = attributes.max_msg_sz < MOST_PIECE ? attributes.max_msg_sz : MOST_PIECE;
    return choose_gid(device, attributes.gid_tbl_len);
}

/* Fills the device in if one of its ports is the one. */
static bool device_usable(struct tug_verbs_device *device, struct search *search) {
    struct ibv_device_attr attributes = {0};
    if (tug_ibv.query_device(device->context, &attributes) != 0)
        return false;
    const int reads = attributes.max_qp_init_rd_atom, serves = attributes.max_qp_rd_atom;
    device->reads = (uint8_t)(reads < MOST_READS ? reads : MOST_READS);
    device->serves = (uint8_t)(serves < MOST_READS ? serves : MOST_READS);
    device->atomics = attributes.atomic_cap != IBV_ATOMIC_NONE;
    device->most_cqe = attributes.max_cqe;
    if (reads < 1 || serves < 1)
        return false;
    for (uint8_t port = 1; port <= attributes.phys_port_cnt; port++)
        if ((search->port == 0 || search->port == port) && port_usable(device, port) &&
            is_alike(device, search->alike) && search->skip-- == 0)
            return true;
    return false;
}

static bool open_one(struct tug_verbs_device *device, struct ibv_device *candidate,
                     struct search *search) {
    memset(device, 0, sizeof *device);
    tug_verbs_prepare_fork();
    device->context = tug_ibv.open_device(candidate);
    if (device->context == NULL)
        return false;
    snprintf(device->name, sizeof device->name, "%s", tug_ibv.get_device_name(candidate));
    if (device_usable(device, search)) {
        device->pd = tug_ibv.alloc_pd(device->context);
        if (device->pd != NULL) {
            tug_verbs_count_open(1);
            return true;
        }
    }
    tug_ibv.close_device(device->context);
    device->context = NULL;
    return false;
}

bool tug_verbs_device_open_like(struct tug_verbs_device *device,
                                const struct tug_verbs_device *first, unsigned n, char *reason) {
    struct search search = {tug_settings.verbs_port, first, n};
    if (!tug_verbs_library(reason))
        return false;
    const bool any = strcmp(tug_settings.verbs_device, "auto") == 0;
    int count = 0;
    struct ibv_device **list = tug_ibv.get_device_list(&count);
    bool seen = false, opened = false;
    for (int i = 0; list != NULL && i < count && !opened; i++) {
        if (!any && strcmp(tug_ibv.get_device_name(list[i]), tug_settings.verbs_device) != 0)
            continue;
        seen = true;
        opened = open_one(device, list[i], &search);
    }
    if (list != NULL)
        tug_ibv.free_device_list(list);
    if (!opened && !seen)
        snprintf(reason, 256, "%s%s", any ? "this machine has no RDMA device" : "no RDMA device ",
                 any ? "" : tug_settings.verbs_device);
    else if (!opened)
        snprintf(reason, 256, "no active port that can be used on %s",
                 any ? "any RDMA device" : tug_settings.verbs_device);
    return opened;
}

bool tug_verbs_device_open(struct tug_verbs_device *device, char *reason) {
    return tug_verbs_device_open_like(device, NULL, 0, reason);
}

void tug_verbs_device_close(struct tug_verbs_device *device) {
    if (device->pd != NULL) {
        tug_verbs_count_open(-1);
        tug_ibv.dealloc_pd(device->pd);
    }
    if (device->context != NULL)
        tug_ibv.close_device(device->context);
    device->pd = NULL;
    device->context = NULL;
}

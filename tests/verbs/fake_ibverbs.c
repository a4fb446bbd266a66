/* A libibverbs.so.1 with one device, or FAKE_DEVICES (up to 4) of FAKE_PORTS (up to 4) ports each,
 * of this process or of all that name the same FAKE_CARD; see fake_ibverbs.h. It remembers what was
 * called in which order. FAKE_CARD_COUNTS: prints what fake_card.h counts when the process ends.
 * FAKE_FORK_ERROR: what ibv_fork_init returns. FAKE_NO_SRQ: it has no shared receive queues.
 * FAKE_SLOW: the number of a device that is slower. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_ibverbs.h"
#include "fake_ports.h"

#undef ibv_query_port

const char *fake_calls(void);

static char calls[256];

const char *fake_calls(void) {
    return calls;
}

static void called(const char *name) {
    strncat(calls, name, sizeof calls - strlen(calls) - 1);
    strncat(calls, " ", sizeof calls - strlen(calls) - 1);
}

#define DEVICES 4
#define PORTS 4

static struct ibv_device devices[DEVICES] = {
    {.name = "fake0"}, {.name = "fake1"}, {.name = "fake2"}, {.name = "fake3"}};
static struct ibv_device *list[DEVICES + 1];

static int number_of(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text != NULL ? atoi(text) : otherwise;
}

int ibv_fork_init(void) {
    const char *error = getenv("FAKE_FORK_ERROR");
    called("fork_init");
    return error != NULL ? atoi(error) : 0;
}

/* FAKE_FORK: what the kernel does. */
enum ibv_fork_status ibv_is_fork_initialized(void) {
    return (enum ibv_fork_status)number_of("FAKE_FORK", IBV_FORK_UNNEEDED);
}

struct ibv_device **ibv_get_device_list(int *count) {
    *count = number_of("FAKE_DEVICES", 1);
    for (int i = 0; i <= *count; i++)
        list[i] = i < *count ? &devices[i] : NULL;
    return list;
}

void ibv_free_device_list(struct ibv_device **those) {
    (void)those;
}

const char *ibv_get_device_name(struct ibv_device *which) {
    return which->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *which) {
    called("open_device");
    if (!card_join())
        return NULL;
    struct ibv_context *context = calloc(1, sizeof *context);
    context->device = which;
    context->async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    context->num_comp_vectors = 4;
    context->ops.poll_cq = fake_poll_cq;
    context->ops.req_notify_cq = fake_req_notify_cq;
    context->ops.post_send = fake_post_send;
    context->ops.post_recv = fake_post_recv;
    context->ops.post_srq_recv = fake_post_srq_recv;
    return context;
}

int ibv_close_device(struct ibv_context *which) {
    close(which->async_fd);
    free(which);
    return 0;
}

int ibv_query_device(struct ibv_context *which, struct ibv_device_attr *attributes) {
    (void)which;
    *attributes = (struct ibv_device_attr){.max_mr_size = UINT64_MAX,
                                           .max_mr = CARD_REGIONS - 1,
                                           .max_qp = CARD_PAIRS - 1,
                                           .max_cq = CARD_QUEUES,
                                           .max_srq = CARD_RINGS,
                                           .max_sge = CARD_PIECES,
                                           .max_srq_sge = CARD_PIECES,
                                           .max_qp_wr = 32767,
                                           .max_srq_wr = 32767,
                                           .max_qp_init_rd_atom = 16,
                                           .max_qp_rd_atom = 16,
                                           .max_cqe = 32767,
                                           .atomic_cap = IBV_ATOMIC_HCA,
                                           .phys_port_cnt = (uint8_t)number_of("FAKE_PORTS", 1)};
    return 0;
}

int ibv_query_port(struct ibv_context *which, uint8_t port, struct _compat_ibv_port_attr *compat) {
    struct ibv_port_attr *attributes = (struct ibv_port_attr *)compat;
    if (port < 1 || port > number_of("FAKE_PORTS", 1))
        return EINVAL;
    memset(attributes, 0, sizeof *attributes);
    attributes->state = IBV_PORT_ACTIVE;
    attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
    attributes->active_mtu = IBV_MTU_4096;
    attributes->lid = fake_lid(which, port);
    attributes->gid_tbl_len = 1;
    attributes->active_speed = which->device - devices == number_of("FAKE_SLOW", -1) ? 16 : 32;
    attributes->max_msg_sz = CARD_MESSAGE;
    fake_describe(which, port, attributes);
    return 0;
}

/* Each process's ports have addresses of their own, as those of a node have. */
uint16_t fake_lid(const struct ibv_context *context, unsigned port) {
    const unsigned device = (unsigned)(context->device - devices);
    if (fake_port(device, port)->described)
        return fake_port(device, port)->lid;
    return (uint16_t)(1 + (card_self * DEVICES + device) * PORTS + port - 1);
}

uint64_t fake_guid(uint16_t lid) {
    return UINT64_C(0xfa00000000000000) | lid;
}

int ibv_query_gid(struct ibv_context *which, uint8_t port, int index, union ibv_gid *gid) {
    const struct fake_port *described = fake_port((unsigned)(which->device - devices), port);
    if (index >= (described->described ? FAKE_GIDS : 1))
        return EINVAL;
    if (described->described) {
        *gid = described->gids[index].gid;
        return 0;
    }
    gid->global.subnet_prefix = htobe64(UINT64_C(0xfe80000000000000));
    gid->global.interface_id = fake_guid(fake_lid(which, port));
    return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
        return "remote access error";
    case IBV_WC_RETRY_EXC_ERR:
        return "transport retry counter exceeded";
    case IBV_WC_WR_FLUSH_ERR:
        return "Work Request Flushed Error";
    default:
        return "an error of the stand-in";
    }
}

/* A libibverbs.so.1 with one device, or FAKE_DEVICES (up to 4) of FAKE_PORTS ports each, whose
 * memory and queues are in fake_queues.c; it remembers what was called in which order.
 * FAKE_FORK_ERROR: what ibv_fork_init returns. FAKE_NO_SRQ: it has no shared receive queues.
 * FAKE_SLOW: the number of a device that is slower. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_ibverbs.h"

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
    struct ibv_context *context = calloc(1, sizeof *context);
    context->device = which;
    context->async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    context->ops.poll_cq = fake_poll_cq;
    context->ops.req_notify_cq = fake_req_notify_cq;
    context->ops.post_send = fake_post_send;
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
    *attributes = (struct ibv_device_attr){.max_qp_init_rd_atom = 16,
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
    attributes->lid = 1;
    attributes->active_speed = which->device - devices == number_of("FAKE_SLOW", -1) ? 16 : 32;
    attributes->max_msg_sz = 8u << 20;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *which) {
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    pd->context = which;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *which) {
    free(which);
    return 0;
}

/* ---- what never happens here ---- */

int ibv_query_gid(struct ibv_context *which, uint8_t port, int index, union ibv_gid *gid) {
    (void)which;
    (void)port;
    (void)index;
    (void)gid;
    return EINVAL;
}

int ibv_get_async_event(struct ibv_context *which, struct ibv_async_event *event) {
    (void)which;
    (void)event;
    return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event) {
    (void)event;
}

const char *ibv_event_type_str(enum ibv_event_type type) {
    (void)type;
    return "an event of the stand-in";
}

const char *ibv_wc_status_str(enum ibv_wc_status status) {
    return status == IBV_WC_REM_ACCESS_ERR ? "remote access error" : "an error of the stand-in";
}

#include "fake_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr_iova

/* ---- ports ---- */

#define DEVICES 4
#define PORTS 4

static struct fake_port ports[DEVICES][PORTS];

struct fake_port *fake_port(unsigned device, unsigned port) {
    return &ports[device][port - 1];
}

void fake_ports_forget(void) {
    memset(ports, 0, sizeof ports);
}

static struct fake_port *port_of(const struct ibv_context *context, unsigned port) {
    const char *name = context->device->name;
    return fake_port((unsigned)(name[strlen(name) - 1] - '0'), port);
}

void fake_describe(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes) {
    const struct fake_port *its = port_of(context, port);
    if (!its->described)
        return;
    attributes->state = its->down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    attributes->link_layer = its->link_layer;
    attributes->active_speed = its->speed;
    attributes->active_width = its->width;
    attributes->lid = its->lid;
    attributes->lmc = its->lmc;
    attributes->gid_tbl_len = FAKE_GIDS;
    attributes->pkey_tbl_len = FAKE_PKEYS;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey) {
    const struct fake_port *its = port_of(context, port);
    *pkey = htons(its->described ? its->pkeys[index] : 0xffff);
    return index < FAKE_PKEYS ? 0 : EINVAL;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t bytes) {
    const struct fake_port *its = port_of(context, port);
    (void)flags;
    if (!its->described || index >= FAKE_GIDS || bytes != sizeof *entry)
        return ENODATA;
    *entry = (struct ibv_gid_entry){.gid = its->gids[index].gid,
                                    .gid_index = index,
                                    .port_num = port,
                                    .gid_type = its->link_layer == IBV_LINK_LAYER_INFINIBAND
                                                    ? IBV_GID_TYPE_IB
                                                : its->gids[index].v2 ? IBV_GID_TYPE_ROCE_V2
                                                                      : IBV_GID_TYPE_ROCE_V1};
    return 0;
}

/* What may be asked for and is not there is passed over. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *memory, size_t bytes, uint64_t at,
                                unsigned access) {
    return ibv_reg_mr_iova(pd, memory, bytes, at, (int)(access & ~IBV_ACCESS_OPTIONAL_RANGE));
}

/* ---- events ---- */

/* As libibverbs has it, a queue pair is not destroyed while a thread holds an event of it. */
struct event {
    struct ibv_context *context;
    struct ibv_async_event event;
    bool taken, silent;
    struct event *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;
static struct event *events;
static bool is_silent;

static void ring(const struct event *event) {
    if (write(event->context->async_fd, &(uint64_t){1}, 8) != 8)
        abort();
}

static void add(struct ibv_context *context, const struct ibv_async_event *its) {
    struct event *event = calloc(1, sizeof *event), **at = &events;
    event->context = context;
    event->event = *its;
    pthread_mutex_lock(&lock);
    event->silent = is_silent && its->event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    while (*at != NULL)
        at = &(*at)->next;
    *at = event;
    if (!event->silent)
        ring(event);
    pthread_mutex_unlock(&lock);
}

void fake_report(struct ibv_context *context, enum ibv_event_type type, int port) {
    add(context, &(struct ibv_async_event){.element.port_num = port, .event_type = type});
}

void fake_last_request(struct ibv_qp *qp) {
    if (qp->srq != NULL)
        add(qp->context, &(struct ibv_async_event){.element.qp = qp,
                                                   .event_type = IBV_EVENT_QP_LAST_WQE_REACHED});
}

void fake_be_silent(bool silent) {
    pthread_mutex_lock(&lock);
    is_silent = silent;
    for (struct event *event = events; event != NULL && !silent; event = event->next)
        if (event->silent) {
            event->silent = false;
            ring(event);
        }
    pthread_mutex_unlock(&lock);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
    uint64_t n;
    int status = -1;
    pthread_mutex_lock(&lock);
    if (read(context->async_fd, &n, sizeof n) != (ssize_t)sizeof n)
        n = 0;
    for (struct event *at = events; at != NULL; at = at->next) {
        if (at->context != context || at->taken || at->silent)
            continue;
        if (status == 0) {
            ring(at); /* there is more */
            break;
        }
        *event = at->event;
        at->taken = true;
        status = 0;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void drop(struct event **at) {
    struct event *event = *at;
    *at = event->next;
    free(event);
}

void ibv_ack_async_event(struct ibv_async_event *event) {
    pthread_mutex_lock(&lock);
    struct event **at = &events;
    while (!(*at)->taken || memcmp(&(*at)->event, event, sizeof *event) != 0)
        at = &(*at)->next;
    drop(at);
    pthread_cond_broadcast(&acknowledged);
    pthread_mutex_unlock(&lock);
}

void fake_forget_events(struct ibv_qp *qp) {
    pthread_mutex_lock(&lock);
    for (struct event **at = &events; *at != NULL;) {
        const struct event *event = *at;
        if (event->event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED ||
            event->event.element.qp != qp) {
            at = &(*at)->next;
        } else if (event->taken) {
            pthread_cond_wait(&acknowledged, &lock);
            at = &events;
        } else {
            drop(at);
        }
    }
    pthread_mutex_unlock(&lock);
}

const char *ibv_event_type_str(enum ibv_event_type type) {
    (void)type;
    return "an event of the stand-in";
}

/* A libibverbs.so.1 with one device, which opens and does nothing else; it remembers what was
 * called in which order. FAKE_FORK_ERROR: what ibv_fork_init returns. */
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

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

static struct ibv_device device = {.name = "fake0"};
static struct ibv_device *list[] = {&device, NULL};
static struct ibv_context context = {.device = &device};
static struct ibv_pd domain = {.context = &context};

int ibv_fork_init(void) {
    const char *error = getenv("FAKE_FORK_ERROR");
    called("fork_init");
    return error != NULL ? atoi(error) : 0;
}

struct ibv_device **ibv_get_device_list(int *count) {
    *count = 1;
    return list;
}

void ibv_free_device_list(struct ibv_device **devices) {
    (void)devices;
}

const char *ibv_get_device_name(struct ibv_device *which) {
    return which->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *which) {
    called("open_device");
    return which == &device ? &context : NULL;
}

int ibv_close_device(struct ibv_context *which) {
    (void)which;
    return 0;
}

int ibv_query_device(struct ibv_context *which, struct ibv_device_attr *attributes) {
    (void)which;
    *attributes = (struct ibv_device_attr){
        .max_qp_init_rd_atom = 1, .max_qp_rd_atom = 1, .max_cqe = 1, .phys_port_cnt = 1};
    return 0;
}

int ibv_query_port(struct ibv_context *which, uint8_t port, struct _compat_ibv_port_attr *compat) {
    struct ibv_port_attr *attributes = (struct ibv_port_attr *)compat;
    (void)which;
    (void)port;
    memset(attributes, 0, sizeof *attributes);
    attributes->state = IBV_PORT_ACTIVE;
    attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *which) {
    (void)which;
    return &domain;
}

int ibv_dealloc_pd(struct ibv_pd *which) {
    (void)which;
    return 0;
}

/* The others are looked for, and not called. */
#define NEVER(name)                                                                                \
    void never_##name(void) __asm__("ibv_" #name);                                                 \
    void never_##name(void) {                                                                      \
        abort();                                                                                   \
    }
NEVER(ack_async_event)
NEVER(ack_cq_events)
NEVER(create_comp_channel)
NEVER(create_cq)
NEVER(create_qp)
NEVER(dereg_mr)
NEVER(destroy_comp_channel)
NEVER(destroy_cq)
NEVER(destroy_qp)
NEVER(event_type_str)
NEVER(get_async_event)
NEVER(get_cq_event)
NEVER(modify_qp)
NEVER(query_gid)
NEVER(reg_mr)
NEVER(reg_mr_iova)
NEVER(wc_status_str)

/* Memory and queues of the stand-in for libibverbs (fake_ibverbs.c): what a request asks is done at
 * once, by the thread that posts it, between queue pairs of one process.
 *
 * Checked as a device does: the state of both ends, keys, ranges, rights, protection domains and
 * the room in the completion queue. Who asks for what he may not ends in an error, and his queue
 * pair with all that is behind. A queue pair that is destroyed takes its completions along, as
 * mlx5's do. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_ibverbs.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct region {
    struct ibv_mr mr; /* the first member */
    uint64_t at;      /* where the device has it */
    int access;
    struct region *next;
};

struct queue {
    struct ibv_cq cq; /* the first member */
    struct ibv_wc *entries;
    unsigned head, used, size;
    bool armed;
};

struct pair {
    struct ibv_qp qp; /* the first member */
    uint32_t other;   /* number of the queue pair at the other end */
    struct ibv_qp_cap room;
    int access;
    struct pair *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the lists: memory has any thread */
static struct region *regions;
static struct pair *pairs;
static uint32_t keys = 0x1000, numbers = 16;

/* ---- memory ---- */

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t bytes, uint64_t at,
                               int access) {
    struct region *region = calloc(1, sizeof *region);
    pthread_mutex_lock(&lock);
    const uint32_t key = ++keys;
    region->mr = (struct ibv_mr){.context = pd->context,
                                 .pd = pd,
                                 .addr = address,
                                 .length = bytes,
                                 .lkey = key,
                                 .rkey = key};
    region->at = at;
    region->access = access;
    region->next = regions;
    regions = region;
    pthread_mutex_unlock(&lock);
    return &region->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access) {
    return ibv_reg_mr_iova(pd, address, bytes, (uint64_t)(uintptr_t)address, access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
    pthread_mutex_lock(&lock);
    struct region **at = &regions;
    while (&(*at)->mr != mr)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&lock);
    free(mr);
    return 0;
}

/* The memory that a key names; NULL: it may not be used in that way. */
static unsigned char *find_memory(const struct ibv_pd *pd, uint32_t key, uint64_t at,
                                  uint64_t bytes, int access) {
    unsigned char *found = NULL;
    pthread_mutex_lock(&lock);
    for (const struct region *region = regions; region != NULL; region = region->next)
        if (region->mr.lkey == key && region->mr.pd == pd && at >= region->at &&
            bytes <= region->mr.length && at - region->at <= region->mr.length - bytes &&
            (region->access & access) == access)
            found = (unsigned char *)region->mr.addr + (at - region->at);
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- completions ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context) {
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    channel->context = context;
    channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel) {
    close(channel->fd);
    free(channel);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **argument) {
    uint64_t events;
    *cq = NULL;
    *argument = NULL;
    return read(channel->fd, &events, sizeof events) == (ssize_t)sizeof events ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned events) {
    (void)cq;
    (void)events;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *argument,
                             struct ibv_comp_channel *channel, int vector) {
    struct queue *queue = calloc(1, sizeof *queue);
    (void)vector;
    queue->cq = (struct ibv_cq){
        .context = context, .channel = channel, .cq_context = argument, .cqe = size};
    queue->size = (unsigned)size;
    queue->entries = calloc(queue->size, sizeof *queue->entries);
    return &queue->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
    free(((struct queue *)cq)->entries);
    free(cq);
    return 0;
}

int fake_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *found) {
    struct queue *queue = (struct queue *)cq;
    int n = 0;
    for (; n < most && queue->used > 0; n++, queue->used--)
        found[n] = queue->entries[queue->head++ % queue->size];
    return n;
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited) {
    (void)solicited;
    ((struct queue *)cq)->armed = true;
    return 0;
}

/* A queue that runs over is a mistake of the program's. */
static void report(const struct pair *pair, const struct ibv_send_wr *request,
                   enum ibv_wc_status status) {
    struct queue *queue = (struct queue *)pair->qp.send_cq;
    if (queue->used == queue->size)
        abort();
    queue->entries[(queue->head + queue->used++) % queue->size] =
        (struct ibv_wc){.wr_id = request->wr_id, .status = status, .qp_num = pair->qp.qp_num};
    if (queue->armed && write(queue->cq.channel->fd, &(uint64_t){1}, 8) != 8)
        abort();
    queue->armed = false;
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    if (attributes->cap.max_inline_data > 512) {
        errno = EINVAL;
        return NULL;
    }
    struct pair *pair = calloc(1, sizeof *pair);
    pair->qp = (struct ibv_qp){.context = pd->context,
                               .pd = pd,
                               .send_cq = attributes->send_cq,
                               .recv_cq = attributes->recv_cq,
                               .state = IBV_QPS_RESET,
                               .qp_type = attributes->qp_type};
    pair->room = attributes->cap;
    pthread_mutex_lock(&lock);
    pair->qp.qp_num = ++numbers;
    pair->next = pairs;
    pairs = pair;
    pthread_mutex_unlock(&lock);
    return &pair->qp;
}

static void forget_completions(struct queue *queue, uint32_t number) {
    const unsigned used = queue->used;
    queue->used = 0;
    for (unsigned i = 0; i < used; i++) {
        const struct ibv_wc entry = queue->entries[(queue->head + i) % queue->size];
        if (entry.qp_num != number)
            queue->entries[(queue->head + queue->used++) % queue->size] = entry;
    }
}

int ibv_destroy_qp(struct ibv_qp *qp) {
    pthread_mutex_lock(&lock);
    struct pair **at = &pairs;
    while (&(*at)->qp != qp)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&lock);
    forget_completions((struct queue *)qp->send_cq, qp->qp_num);
    free(qp);
    return 0;
}

/* From each state only to the next, or into error. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    struct pair *pair = (struct pair *)qp;
    if (!(mask & IBV_QP_STATE) ||
        (attributes->qp_state != qp->state + 1 && attributes->qp_state != IBV_QPS_ERR))
        return EINVAL;
    if (mask & IBV_QP_DEST_QPN)
        pair->other = attributes->dest_qp_num;
    if (mask & IBV_QP_ACCESS_FLAGS)
        pair->access = (int)attributes->qp_access_flags;
    qp->state = attributes->qp_state;
    return 0;
}

static const struct pair *find_pair(uint32_t number) {
    pthread_mutex_lock(&lock);
    const struct pair *pair = pairs;
    while (pair != NULL && pair->qp.qp_num != number)
        pair = pair->next;
    pthread_mutex_unlock(&lock);
    return pair;
}

/* ---- requests ---- */

static bool is_atomic(const struct ibv_send_wr *request) {
    return request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
           request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static void do_atomic(const struct ibv_send_wr *request, unsigned char *remote,
                      unsigned char *local) {
    uint64_t found, value;
    memcpy(&found, remote, 8);
    value = found;
    if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        value += request->wr.atomic.compare_add;
    else if (found == request->wr.atomic.compare_add)
        value = request->wr.atomic.swap;
    memcpy(remote, &value, 8);
    memcpy(local, &found, 8);
}

static enum ibv_wc_status execute(const struct pair *pair, const struct ibv_send_wr *request) {
    const struct pair *other = find_pair(pair->other);
    if (other == NULL || other->qp.state < IBV_QPS_RTR || other->qp.state == IBV_QPS_ERR)
        return IBV_WC_RETRY_EXC_ERR;
    const bool reads = request->opcode == IBV_WR_RDMA_READ, atomic = is_atomic(request);
    const struct ibv_sge none = {0}, *piece = request->num_sge > 0 ? request->sg_list : &none;
    if (!reads && !atomic && request->opcode != IBV_WR_RDMA_WRITE)
        return IBV_WC_LOC_QP_OP_ERR;
    if (piece->length == 0)
        return IBV_WC_SUCCESS;
    unsigned char *local = (unsigned char *)(uintptr_t)piece->addr;
    if (!(request->send_flags & IBV_SEND_INLINE))
        local = find_memory(pair->qp.pd, piece->lkey, piece->addr, piece->length,
                            reads || atomic ? IBV_ACCESS_LOCAL_WRITE : 0);
    else if (piece->length > pair->room.max_inline_data)
        return IBV_WC_LOC_LEN_ERR;
    if (local == NULL)
        return IBV_WC_LOC_PROT_ERR;
    const int right = reads    ? IBV_ACCESS_REMOTE_READ
                      : atomic ? IBV_ACCESS_REMOTE_ATOMIC
                               : IBV_ACCESS_REMOTE_WRITE;
    unsigned char *remote =
        find_memory(other->qp.pd, atomic ? request->wr.atomic.rkey : request->wr.rdma.rkey,
                    atomic ? request->wr.atomic.remote_addr : request->wr.rdma.remote_addr,
                    piece->length, right);
    if (remote == NULL || !(other->access & right))
        return IBV_WC_REM_ACCESS_ERR;
    if (atomic)
        do_atomic(request, remote, local);
    else
        memmove(reads ? local : remote, reads ? remote : local, piece->length);
    return IBV_WC_SUCCESS;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad) {
    struct pair *pair = (struct pair *)qp;
    for (; request != NULL; request = request->next) {
        if (qp->state < IBV_QPS_RTS) {
            *bad = request;
            return EINVAL;
        }
        enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
        if (qp->state != IBV_QPS_ERR)
            status = execute(pair, request);
        if (status != IBV_WC_SUCCESS)
            qp->state = IBV_QPS_ERR;
        if (status != IBV_WC_SUCCESS || (request->send_flags & IBV_SEND_SIGNALED))
            report(pair, request, status);
    }
    return 0;
}

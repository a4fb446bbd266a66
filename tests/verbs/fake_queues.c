/* Memory and queues of the stand-in for libibverbs (fake_ibverbs.c): what a request asks is done at
 * once, by the thread that posts it, between queue pairs of one process.
 *
 * Checked as a device does: the state of both ends, keys, ranges, rights, protection domains and
 * the room in the completion queue. Who asks for what he may not ends in an error, and his queue
 * pair with all that is behind. A queue pair that is destroyed takes its completions along, as
 * mlx5's do. A message for which its receiver has no room waits, with all that is behind, until
 * there is some (rnr_retry 7), or fails at once. */
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

#define INLINE_MOST 512

/* A request that waits for room at its receiver. */
struct kept {
    struct ibv_send_wr request;
    struct ibv_sge piece;
    unsigned char data[INLINE_MOST];
    struct kept *next;
};

struct pair {
    struct ibv_qp qp; /* the first member */
    uint32_t other;   /* number of the queue pair at the other end */
    struct ibv_qp_cap room;
    int access;
    bool patient; /* rnr_retry 7 */
    struct kept *first, **last;
    struct pair *next;
};

/* A shared receive queue. */
struct receives {
    struct ibv_srq srq; /* the first member */
    unsigned head, used, size;
    struct {
        uint64_t wr_id;
        struct ibv_sge piece;
    } entries[];
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
static void report(struct ibv_cq *cq, const struct ibv_wc *completion) {
    struct queue *queue = (struct queue *)cq;
    if (queue->used == queue->size)
        abort();
    queue->entries[(queue->head + queue->used++) % queue->size] = *completion;
    if (queue->armed && write(queue->cq.channel->fd, &(uint64_t){1}, 8) != 8)
        abort();
    queue->armed = false;
}

static void report_sent(const struct pair *pair, const struct ibv_send_wr *request,
                        enum ibv_wc_status status) {
    const struct ibv_wc completion = {
        .wr_id = request->wr_id, .status = status, .qp_num = pair->qp.qp_num};
    report(pair->qp.send_cq, &completion);
}

/* ---- shared receive queues ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attributes) {
    const unsigned size = attributes->attr.max_wr;
    if (getenv("FAKE_NO_SRQ") != NULL) {
        errno = ENOSYS;
        return NULL;
    }
    struct receives *receives = calloc(1, sizeof *receives + size * sizeof receives->entries[0]);
    receives->srq = (struct ibv_srq){.context = pd->context, .pd = pd};
    receives->size = size;
    return &receives->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq) {
    bool used = false;
    pthread_mutex_lock(&lock);
    for (const struct pair *pair = pairs; pair != NULL; pair = pair->next)
        used |= pair->qp.srq == srq;
    pthread_mutex_unlock(&lock);
    if (used)
        return EBUSY;
    free(srq);
    return 0;
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    if (attributes->cap.max_inline_data > INLINE_MOST) {
        errno = EINVAL;
        return NULL;
    }
    struct pair *pair = calloc(1, sizeof *pair);
    pair->qp = (struct ibv_qp){.context = pd->context,
                               .pd = pd,
                               .send_cq = attributes->send_cq,
                               .recv_cq = attributes->recv_cq,
                               .srq = attributes->srq,
                               .state = IBV_QPS_RESET,
                               .qp_type = attributes->qp_type};
    pair->room = attributes->cap;
    pair->last = &pair->first;
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

/* The first request that waits, which is the caller's to free. */
static struct kept *take_kept(struct pair *pair) {
    struct kept *kept = pair->first;
    pair->first = kept->next;
    if (pair->first == NULL)
        pair->last = &pair->first;
    return kept;
}

static void flush_kept(struct pair *pair) {
    while (pair->first != NULL) {
        struct kept *kept = take_kept(pair);
        report_sent(pair, &kept->request, IBV_WC_WR_FLUSH_ERR);
        free(kept);
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
    forget_completions((struct queue *)qp->recv_cq, qp->qp_num);
    struct pair *pair = (struct pair *)qp;
    while (pair->first != NULL)
        free(take_kept(pair));
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
    if (mask & IBV_QP_RNR_RETRY)
        pair->patient = attributes->rnr_retry == 7;
    qp->state = attributes->qp_state;
    if (qp->state == IBV_QPS_ERR)
        flush_kept(pair);
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

/* No status of a device's: the receiver has no room. */
#define NO_ROOM ((enum ibv_wc_status)1000)

static bool is_message(const struct ibv_send_wr *request) {
    return request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_SEND_WITH_IMM;
}

/* The local memory of a request, of which there is some. NULL: it may not be used, *status. */
static unsigned char *find_local(const struct pair *pair, const struct ibv_send_wr *request,
                                 int access, enum ibv_wc_status *status) {
    const struct ibv_sge *piece = request->sg_list;
    *status = IBV_WC_LOC_PROT_ERR;
    if (!(request->send_flags & IBV_SEND_INLINE))
        return find_memory(pair->qp.pd, piece->lkey, piece->addr, piece->length, access);
    *status = IBV_WC_LOC_LEN_ERR;
    return piece->length <= pair->room.max_inline_data ? (unsigned char *)(uintptr_t)piece->addr
                                                       : NULL;
}

/* Into the first receive of the other end's shared queue. */
static enum ibv_wc_status execute_message(const struct pair *pair, const struct pair *other,
                                          const struct ibv_send_wr *request) {
    struct receives *receives = (struct receives *)other->qp.srq;
    const struct ibv_sge none = {0}, *piece = request->num_sge > 0 ? request->sg_list : &none;
    enum ibv_wc_status status;
    if (receives == NULL || receives->used == 0)
        return NO_ROOM;
    const unsigned char *data = piece->length > 0 ? find_local(pair, request, 0, &status) : NULL;
    if (piece->length > 0 && data == NULL)
        return status;
    const unsigned at = receives->head % receives->size;
    const struct ibv_sge *to = &receives->entries[at].piece;
    unsigned char *room =
        find_memory(receives->srq.pd, to->lkey, to->addr, to->length, IBV_ACCESS_LOCAL_WRITE);
    if (room == NULL)
        return IBV_WC_REM_OP_ERR;
    if (piece->length > to->length)
        return IBV_WC_REM_INV_REQ_ERR;
    if (piece->length > 0)
        memcpy(room, data, piece->length);
    receives->head++;
    receives->used--;
    const bool number = request->opcode == IBV_WR_SEND_WITH_IMM;
    const struct ibv_wc completion = {.wr_id = receives->entries[at].wr_id,
                                      .status = IBV_WC_SUCCESS,
                                      .opcode = IBV_WC_RECV,
                                      .byte_len = piece->length,
                                      .imm_data = number ? request->imm_data : 0,
                                      .wc_flags = number ? IBV_WC_WITH_IMM : 0,
                                      .qp_num = other->qp.qp_num};
    report(other->qp.recv_cq, &completion);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status execute(const struct pair *pair, const struct ibv_send_wr *request) {
    const struct pair *other = find_pair(pair->other);
    if (other == NULL || other->qp.state < IBV_QPS_RTR || other->qp.state == IBV_QPS_ERR)
        return IBV_WC_RETRY_EXC_ERR;
    if (is_message(request))
        return execute_message(pair, other, request);
    const bool reads = request->opcode == IBV_WR_RDMA_READ, atomic = is_atomic(request);
    const struct ibv_sge none = {0}, *piece = request->num_sge > 0 ? request->sg_list : &none;
    if (!reads && !atomic && request->opcode != IBV_WR_RDMA_WRITE)
        return IBV_WC_LOC_QP_OP_ERR;
    if (piece->length == 0)
        return IBV_WC_SUCCESS;
    enum ibv_wc_status status;
    unsigned char *local =
        find_local(pair, request, reads || atomic ? IBV_ACCESS_LOCAL_WRITE : 0, &status);
    if (local == NULL)
        return status;
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

/* Waits, with the data that were to be copied when it was posted. */
static void keep(struct pair *pair, const struct ibv_send_wr *request) {
    struct kept *kept = calloc(1, sizeof *kept);
    kept->request = *request;
    if (request->num_sge > 0)
        kept->piece = request->sg_list[0];
    if ((request->send_flags & IBV_SEND_INLINE) && kept->piece.length <= INLINE_MOST) {
        memcpy(kept->data, (void *)(uintptr_t)kept->piece.addr, kept->piece.length);
        kept->piece.addr = (uint64_t)(uintptr_t)kept->data;
    }
    kept->request.sg_list = &kept->piece;
    *pair->last = kept;
    pair->last = &kept->next;
}

/* False: it is to wait. */
static bool carry_out(struct pair *pair, const struct ibv_send_wr *request) {
    enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
    if (pair->qp.state != IBV_QPS_ERR)
        status = execute(pair, request);
    if (status == NO_ROOM && pair->patient)
        return false;
    if (status == NO_ROOM)
        status = IBV_WC_RNR_RETRY_EXC_ERR;
    if (status != IBV_WC_SUCCESS)
        pair->qp.state = IBV_QPS_ERR;
    if (status != IBV_WC_SUCCESS || (request->send_flags & IBV_SEND_SIGNALED))
        report_sent(pair, request, status);
    return true;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad) {
    struct pair *pair = (struct pair *)qp;
    for (; request != NULL; request = request->next) {
        if (qp->state < IBV_QPS_RTS) {
            *bad = request;
            return EINVAL;
        }
        if (pair->first != NULL || !carry_out(pair, request))
            keep(pair, request);
    }
    return 0;
}

/* What has waited goes on. The list of pairs does not change meanwhile: one thread. */
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad) {
    struct receives *receives = (struct receives *)srq;
    for (; receive != NULL; receive = receive->next) {
        if (receives->used == receives->size || receive->num_sge != 1) {
            *bad = receive;
            return ENOMEM;
        }
        const unsigned at = (receives->head + receives->used++) % receives->size;
        receives->entries[at].wr_id = receive->wr_id;
        receives->entries[at].piece = receive->sg_list[0];
    }
    for (struct pair *pair = pairs; pair != NULL; pair = pair->next)
        while (pair->first != NULL && carry_out(pair, &pair->first->request))
            free(take_kept(pair));
    return 0;
}

/* Memory and queues of the stand-in for libibverbs: what of a program's are entries of the card's
 * tables.
 *
 * A queue pair that is destroyed takes its completions along, as mlx5's do. A completion queue that
 * runs over is a mistake of its owner's, and ends the process that finds it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_ibverbs.h"
#include "fake_ports.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* What a program holds. The first member is libibverbs' own. */
struct domain {
    struct ibv_pd pd;
    uint32_t number;
};

struct channel {
    struct ibv_comp_channel channel;
    uint32_t number;
};

struct queue {
    struct ibv_cq cq;
    uint32_t index;
};

struct receives {
    struct ibv_srq srq;
    uint32_t index;
};

static uint32_t domain_of(const struct ibv_pd *pd) {
    return ((const struct domain *)pd)->number;
}

static uint32_t index_of(const struct ibv_cq *cq) {
    return ((const struct queue *)cq)->index;
}

/* ---- tables ---- */

static bool is_taken(enum card_table table, uint32_t index) {
    switch (table) {
    case CARD_OF_REGIONS:
        return index == 0 || card->regions[index].key != 0; /* no key has the index 0 */
    case CARD_OF_PAIRS:
        return index == 0 || card->pairs[index].number != 0; /* 0 and 1 are not for programs */
    case CARD_OF_QUEUES:
        return card->queues[index].taken;
    default:
        return card->rings[index].taken;
    }
}

/* The index of a free entry, which was free for longest, about; or `entries`, with errno. */
static uint32_t find_free(enum card_table table, uint32_t entries) {
    for (uint32_t i = 0; i < entries; i++) {
        const uint32_t index = (card->from[table] + i) % entries;
        if (is_taken(table, index))
            continue;
        card->from[table] = index + 1;
        if (index >= card->top[table])
            card->top[table] = index + 1;
        return index;
    }
    errno = ENOMEM;
    return entries;
}

/* ---- protection domains ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context) {
    struct domain *domain = calloc(1, sizeof *domain);
    domain->pd.context = context;
    card_lock();
    domain->number = ++card->pds;
    card_unlock();
    return &domain->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
    free(pd);
    return 0;
}

/* ---- memory ---- */

/* Is there memory? (A device pins it.) */
static bool is_mapped(void *address, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)address;
    const uintptr_t from = begin / page * page;
    return bytes == 0 || msync((void *)from, begin + bytes - from, MS_ASYNC) == 0;
}

static uint32_t add_region(const struct card_region *filled) {
    card_lock();
    const uint32_t index = find_free(CARD_OF_REGIONS, CARD_REGIONS);
    uint32_t key = 0;
    if (index < CARD_REGIONS) {
        struct card_region *region = &card->regions[index];
        const uint32_t generation = region->generation % 0xffff + 1;
        *region = *filled;
        region->generation = generation;
        key = region->key = index | generation << 16;
        card_counts(card_self)->registrations++;
        card_counts(card_self)->registered_bytes += filled->bytes;
    }
    card_unlock();
    return key;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t bytes, uint64_t at,
                               int access) {
    const struct card_region region = {.owner = card_self,
                                       .pd = domain_of(pd),
                                       .access = access,
                                       .address = (uint64_t)(uintptr_t)address,
                                       .at = at,
                                       .bytes = bytes};
    if (!is_mapped(address, bytes)) {
        errno = EFAULT;
        return NULL;
    }
    const uint32_t key = add_region(&region);
    if (key == 0)
        return NULL;
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    *mr = (struct ibv_mr){.context = pd->context,
                          .pd = pd,
                          .addr = address,
                          .length = bytes,
                          .lkey = key,
                          .rkey = key};
    return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access) {
    return ibv_reg_mr_iova(pd, address, bytes, (uint64_t)(uintptr_t)address, access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
    card_lock();
    card_counts(card_self)->deregistrations++;
    card_counts(card_self)->registered_bytes -= mr->length;
    card->regions[mr->lkey % CARD_REGIONS].key = 0;
    card_unlock();
    free(mr);
    return 0;
}

bool card_find_memory(struct card_memory *memory, uint32_t pd, uint32_t key, uint64_t at,
                      uint64_t bytes, int access) {
    const struct card_region *region = &card->regions[key % CARD_REGIONS];
    if (key == 0 || region->key != key || region->pd != pd || at < region->at ||
        bytes > region->bytes || at - region->at > region->bytes - bytes ||
        (region->access & access) != access || memory->n == CARD_PIECES)
        return false;
    memory->process = region->owner;
    memory->bytes += bytes;
    memory->pieces[memory->n++] =
        (struct iovec){(void *)(uintptr_t)(region->address + (at - region->at)), bytes};
    return true;
}

/* ---- completions ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context) {
    struct channel *channel = calloc(1, sizeof *channel);
    channel->channel.context = context;
    channel->channel.fd = card_channel(&channel->number);
    if (channel->channel.fd >= 0)
        return &channel->channel;
    free(channel);
    return NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel) {
    close(channel->fd);
    free(channel);
    return 0;
}

/* Never blocks. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **argument) {
    uint64_t handle;
    if (read(channel->fd, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return -1;
    *cq = (struct ibv_cq *)(uintptr_t)handle;
    *argument = (*cq)->cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned events) {
    (void)cq;
    (void)events;
}

static bool add_queue(struct queue *queue, uint32_t size) {
    const struct ibv_comp_channel *channel = queue->cq.channel;
    card_lock();
    queue->index = find_free(CARD_OF_QUEUES, CARD_QUEUES);
    const uint64_t entries =
        queue->index < CARD_QUEUES ? card_take(size * sizeof(struct card_completion)) : 0;
    if (entries != 0)
        card->queues[queue->index] =
            (struct card_queue){.taken = true,
                                .owner = card_self,
                                .channel = channel ? ((const struct channel *)channel)->number : 0,
                                .handle = (uint64_t)(uintptr_t)queue,
                                .entries = entries,
                                .size = size};
    card_unlock();
    return entries != 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *argument,
                             struct ibv_comp_channel *channel, int vector) {
    (void)vector;
    struct queue *queue = calloc(1, sizeof *queue);
    queue->cq = (struct ibv_cq){
        .context = context, .channel = channel, .cq_context = argument, .cqe = size};
    if (size > 0 && add_queue(queue, (uint32_t)size))
        return &queue->cq;
    free(queue);
    errno = ENOMEM;
    return NULL;
}

static void drop_queue(struct card_queue *queue) {
    card_give(queue->entries, queue->size * sizeof(struct card_completion));
    queue->taken = false;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
    card_lock();
    drop_queue(&card->queues[index_of(cq)]);
    card_unlock();
    free(cq);
    return 0;
}

static struct card_completion *completion_at(const struct card_queue *queue, uint32_t at) {
    return (struct card_completion *)card_at(queue->entries) + at % queue->size;
}

/* A send queue has room again for what has been polled, and for what was before it. */
static void make_room(const struct card_completion *completion) {
    struct card_pair *pair = card_pair_of(completion->wc.qp_num);
    if (completion->sends && pair != NULL)
        pair->freed = completion->freed;
}

int fake_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *found) {
    struct card_queue *queue = &card->queues[index_of(cq)];
    int n = 0;
    /* acquire: pairs with the release in card_report */
    if (atomic_load_explicit(&queue->used, memory_order_acquire) == 0)
        return 0;
    card_lock_one(&card->reports);
    for (; n < most && queue->used > 0; n++, queue->used--) {
        const struct card_completion *completion = completion_at(queue, queue->head++);
        found[n] = completion->wc;
        make_room(completion);
    }
    card_counts(card_self)->completions += (uint64_t)n;
    pthread_mutex_unlock(&card->reports);
    return n;
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited) {
    (void)solicited;
    card_lock_one(&card->reports);
    card->queues[index_of(cq)].armed = true;
    pthread_mutex_unlock(&card->reports);
    return 0;
}

void card_report(uint32_t index, const struct card_completion *completion) {
    struct card_queue *queue = &card->queues[index];
    card_lock_one(&card->reports);
    if (queue->used == queue->size) {
        fprintf(stderr, "a completion queue of process %d runs over\n",
                (int)card->processes[queue->owner].pid);
        abort();
    }
    *completion_at(queue, queue->head + queue->used) = *completion;
    /* release: pairs with the acquire in fake_poll_cq */
    atomic_fetch_add_explicit(&queue->used, 1, memory_order_release);
    if (queue->armed && queue->channel != 0)
        card_wake(queue);
    queue->armed = false;
    pthread_mutex_unlock(&card->reports);
}

static void forget_completions(struct card_queue *queue, uint32_t number) {
    uint32_t kept = 0;
    card_lock_one(&card->reports);
    const uint32_t used = queue->used;
    for (uint32_t i = 0; i < used; i++) {
        const struct card_completion entry = *completion_at(queue, queue->head + i);
        if (entry.wc.qp_num != number)
            *completion_at(queue, queue->head + kept++) = entry;
    }
    queue->used = kept;
    pthread_mutex_unlock(&card->reports);
}

/* ---- receives ---- */

/* The index of a new ring, or CARD_RINGS. */
static uint32_t add_ring(uint32_t pd, uint32_t size) {
    const uint32_t index = find_free(CARD_OF_RINGS, CARD_RINGS);
    const uint64_t entries = index < CARD_RINGS ? card_take(size * sizeof(struct card_receive)) : 0;
    if (entries == 0)
        return CARD_RINGS;
    card->rings[index] = (struct card_ring){
        .taken = true, .owner = card_self, .pd = pd, .entries = entries, .size = size};
    return index;
}

static void drop_ring(struct card_ring *ring) {
    card_give(ring->entries, ring->size * sizeof(struct card_receive));
    ring->taken = false;
}

/* FAKE_NO_SRQ: the device has none. */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attributes) {
    struct receives *receives;
    if (getenv("FAKE_NO_SRQ") != NULL) {
        errno = ENOSYS;
        return NULL;
    }
    card_lock();
    const uint32_t index = add_ring(domain_of(pd), attributes->attr.max_wr);
    card_unlock();
    if (index == CARD_RINGS) {
        errno = ENOMEM;
        return NULL;
    }
    receives = calloc(1, sizeof *receives);
    receives->srq = (struct ibv_srq){.context = pd->context, .pd = pd};
    receives->index = index;
    return &receives->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq) {
    struct card_ring *ring = &card->rings[((struct receives *)srq)->index];
    card_lock();
    const bool used = ring->users > 0;
    if (!used)
        drop_ring(ring);
    card_unlock();
    if (used)
        return EBUSY;
    free(srq);
    return 0;
}

static bool add_receive(struct card_ring *ring, const struct ibv_recv_wr *receive) {
    struct card_receive *entries = card_at(ring->entries);
    if (ring->used == ring->size || receive->num_sge < 0 || receive->num_sge > (int)CARD_PIECES)
        return false;
    struct card_receive *entry = &entries[(ring->head + ring->used) % ring->size];
    entry->wr_id = receive->wr_id;
    entry->npieces = (uint32_t)receive->num_sge;
    for (uint32_t i = 0; i < entry->npieces; i++)
        entry->pieces[i] = receive->sg_list[i];
    ring->used++;
    return true;
}

/* Adds them. What has waited goes on. */
static int post_receives(uint32_t ring, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad) {
    while (receive != NULL && add_receive(&card->rings[ring], receive))
        receive = receive->next;
    card_progress_at(ring);
    *bad = receive;
    return receive != NULL ? ENOMEM : 0;
}

int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad) {
    card_lock();
    card_counts(card_self)->post_srq_recvs++;
    const int error = post_receives(((struct receives *)srq)->index, receive, bad);
    card_unlock();
    return error;
}

int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad) {
    int error = EINVAL;
    *bad = receive;
    card_lock();
    card_counts(card_self)->post_recvs++;
    const struct card_pair *pair = card_pair_of(qp->qp_num);
    if (pair->state != IBV_QPS_RESET && pair->has_ring && !pair->shared)
        error = post_receives(pair->ring, receive, bad);
    card_unlock();
    return error;
}

/* ---- queue pairs ---- */

struct card_pair *card_pair_of(uint32_t number) {
    struct card_pair *pair = &card->pairs[number % CARD_PAIRS];
    return number != 0 && pair->number == number ? pair : NULL;
}

static bool make_queues(struct card_pair *pair, const struct ibv_qp_init_attr *attributes) {
    const struct ibv_srq *srq = attributes->srq;
    pair->send_queue = index_of(attributes->send_cq);
    pair->receive_queue = index_of(attributes->recv_cq);
    pair->request_bytes =
        (uint32_t)(sizeof(struct card_request) + pair->room.max_inline_data + 7) / 8 * 8;
    pair->requests = card_take((uint64_t)pair->room.max_send_wr * pair->request_bytes);
    pair->shared = srq != NULL;
    pair->has_ring = pair->shared || pair->room.max_recv_wr > 0;
    if (pair->shared)
        pair->ring = ((const struct receives *)srq)->index;
    else if (pair->has_ring)
        pair->ring = add_ring(pair->pd, pair->room.max_recv_wr);
    if (pair->requests != 0 && (!pair->has_ring || pair->ring < CARD_RINGS))
        return true;
    card_give(pair->requests, (uint64_t)pair->room.max_send_wr * pair->request_bytes);
    return false;
}

static uint32_t add_pair(uint32_t pd, const struct ibv_qp_init_attr *attributes) {
    const uint32_t index = find_free(CARD_OF_PAIRS, CARD_PAIRS);
    if (index == CARD_PAIRS)
        return 0;
    struct card_pair *pair = &card->pairs[index];
    const uint32_t generation = pair->generation % 0x3ff + 1;
    *pair = (struct card_pair){.generation = generation,
                               .owner = card_self,
                               .pd = pd,
                               .state = IBV_QPS_RESET,
                               .room = attributes->cap};
    if (!make_queues(pair, attributes))
        return 0;
    if (pair->has_ring)
        card->rings[pair->ring].users++;
    pair->number = index | generation << 14;
    return pair->number;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    if (attributes->cap.max_inline_data > CARD_INLINE ||
        attributes->cap.max_send_sge > CARD_PIECES || attributes->cap.max_recv_sge > CARD_PIECES ||
        attributes->qp_type != IBV_QPT_RC) {
        errno = EINVAL;
        return NULL;
    }
    card_lock();
    const uint32_t number = add_pair(domain_of(pd), attributes);
    card_unlock();
    if (number == 0) {
        errno = ENOMEM;
        return NULL;
    }
    struct ibv_qp *qp = calloc(1, sizeof *qp);
    *qp = (struct ibv_qp){.context = pd->context,
                          .qp_context = attributes->qp_context,
                          .pd = pd,
                          .send_cq = attributes->send_cq,
                          .recv_cq = attributes->recv_cq,
                          .srq = attributes->srq,
                          .qp_num = number,
                          .state = IBV_QPS_RESET,
                          .qp_type = attributes->qp_type};
    return qp;
}

static void drop_pair(struct card_pair *pair) {
    pair->number = 0;
    card->waiting -= pair->waits;
    card_give(pair->requests, (uint64_t)pair->room.max_send_wr * pair->request_bytes);
    if (!pair->has_ring)
        return;
    card->rings[pair->ring].users--;
    if (!pair->shared)
        drop_ring(&card->rings[pair->ring]);
}

int ibv_destroy_qp(struct ibv_qp *qp) {
    fake_forget_events(qp);
    card_lock();
    struct card_pair *pair = card_pair_of(qp->qp_num);
    forget_completions(&card->queues[pair->send_queue], pair->number);
    forget_completions(&card->queues[pair->receive_queue], pair->number);
    drop_pair(pair);
    card_unlock();
    free(qp);
    return 0;
}

/* Receives of its own end with it. */
static void flush_receives(const struct card_pair *pair) {
    struct card_ring *ring = &card->rings[pair->ring];
    if (!pair->has_ring || pair->shared)
        return;
    for (; ring->used > 0; ring->head++, ring->used--) {
        const struct card_receive *entries = card_at(ring->entries);
        const struct card_completion flushed = {
            .wc = {.wr_id = entries[ring->head % ring->size].wr_id,
                   .status = IBV_WC_WR_FLUSH_ERR,
                   .qp_num = pair->number}};
        card_report(pair->receive_queue, &flushed);
    }
}

static void set_path(struct card_pair *pair, const struct ibv_ah_attr *path) {
    pair->dlid = path->dlid;
    pair->lid |= path->src_path_bits;
    pair->dguid = path->is_global ? path->grh.dgid.global.interface_id : 0;
}

/* From each state only to the next, or into error. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    const int path = IBV_QP_AV | IBV_QP_DEST_QPN;
    if (!(mask & IBV_QP_STATE) ||
        (attributes->qp_state != qp->state + 1 && attributes->qp_state != IBV_QPS_ERR) ||
        (attributes->qp_state == IBV_QPS_RTR && (mask & path) != path))
        return EINVAL;
    card_lock();
    struct card_pair *pair = card_pair_of(qp->qp_num);
    if (mask & IBV_QP_PORT) {
        pair->lid = fake_lid(qp->context, attributes->port_num);
        pair->guid = fake_guid(pair->lid);
    }
    if (mask & IBV_QP_DEST_QPN)
        pair->other = attributes->dest_qp_num;
    if (mask & IBV_QP_AV)
        set_path(pair, &attributes->ah_attr);
    if (mask & IBV_QP_ACCESS_FLAGS)
        pair->access = (int)attributes->qp_access_flags;
    if (mask & IBV_QP_RNR_RETRY)
        pair->patient = attributes->rnr_retry == 7;
    pair->state = qp->state = attributes->qp_state;
    if (pair->state == IBV_QPS_ERR) {
        card_progress(pair);
        flush_receives(pair);
    }
    card_unlock();
    if (qp->state == IBV_QPS_ERR)
        fake_last_request(qp);
    return 0;
}

/* ---- a process that has died ---- */

void card_forget(uint32_t process) {
    for (uint32_t i = 0; i < card->top[CARD_OF_PAIRS]; i++)
        if (card->pairs[i].number != 0 && card->pairs[i].owner == process)
            drop_pair(&card->pairs[i]);
    for (uint32_t i = 0; i < card->top[CARD_OF_REGIONS]; i++)
        if (card->regions[i].owner == process)
            card->regions[i].key = 0;
    for (uint32_t i = 0; i < card->top[CARD_OF_QUEUES]; i++)
        if (card->queues[i].taken && card->queues[i].owner == process)
            drop_queue(&card->queues[i]);
    for (uint32_t i = 0; i < card->top[CARD_OF_RINGS]; i++)
        if (card->rings[i].taken && card->rings[i].owner == process)
            drop_ring(&card->rings[i]);
}

/* Work requests of the stand-in for libibverbs: carried out in order, at once, by the thread that
 * posts them. FAKE_CARD_LATE: by a thread of the stand-in, that many microseconds later at least,
 * so that memory which is used again too early is found; what waits there may also be carried out
 * when the receiver posts a receive. A moment passes there between an atomic's read and its write,
 * so that a processor's update of the same word is found, which a card does not keep out.
 *
 * Checked as a card does: the state of both ends, where the path leads, keys, ranges, rights,
 * protection domains, lengths, and the room in the queues. A request that may not be ends in an
 * error, and its queue pair with all that is behind. A SEND, or a WRITE with immediate data, for
 * which its receiver has no room waits, with all that is behind, until there is some (rnr_retry 7),
 * or fails at once. It ends like a request to a dead process, RETRY_EXC_ERR, if the receiver dies:
 * a thread of the stand-in looks after that, in a process whose requests wait. */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_ibverbs.h"

/* No statuses of a card's: the receiver has no room, and the requester is dead. */
#define NO_ROOM ((enum ibv_wc_status)1000)
#define NOBODY_ASKS ((enum ibv_wc_status)1001)

#define AGAIN_NS 20000000 /* how often requests are looked after that wait */
#define IDLE_ROUNDS 50

static enum fake_kind kind_of(uint32_t opcode) {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return FAKE_SEND;
    case IBV_WR_RDMA_WRITE:
        return FAKE_WRITE;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return FAKE_WRITE_WITH_IMM;
    case IBV_WR_RDMA_READ:
        return FAKE_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return FAKE_CMP_AND_SWP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return FAKE_FETCH_AND_ADD;
    default:
        return FAKE_KINDS;
    }
}

static bool is_atomic(enum fake_kind kind) {
    return kind == FAKE_CMP_AND_SWP || kind == FAKE_FETCH_AND_ADD;
}

/* What a kind wants of the memory at the target; 0: it goes into a receive. */
static int right_of(enum fake_kind kind) {
    switch (kind) {
    case FAKE_SEND:
        return 0;
    case FAKE_READ:
        return IBV_ACCESS_REMOTE_READ;
    case FAKE_CMP_AND_SWP:
    case FAKE_FETCH_AND_ADD:
        return IBV_ACCESS_REMOTE_ATOMIC;
    default:
        return IBV_ACCESS_REMOTE_WRITE;
    }
}

/* ---- the two ends ---- */

static struct card_request *request_at(const struct card_pair *pair, uint32_t at) {
    return card_at(pair->requests + (uint64_t)(at % pair->room.max_send_wr) * pair->request_bytes);
}

static bool leads_to(const struct card_pair *pair, const struct card_pair *other) {
    const bool there = pair->dguid != 0 ? pair->dguid == other->guid : pair->dlid == other->lid;
    return there && other->state >= IBV_QPS_RTR && other->state != IBV_QPS_ERR;
}

/* A copy has ended so: the end that this thread's process is not at may be dead, or its memory
 * unmapped. */
static enum ibv_wc_status status_of(const struct card_pair *pair, int error,
                                    enum ibv_wc_status without_memory) {
    if (error == ESRCH)
        return pair->owner == card_self ? IBV_WC_RETRY_EXC_ERR : NOBODY_ASKS;
    return error != 0 ? without_memory : IBV_WC_SUCCESS;
}

/* The requester's memory. */
static enum ibv_wc_status find_local(const struct card_pair *pair,
                                     const struct card_request *request, enum fake_kind kind,
                                     struct card_memory *memory) {
    const bool arrives = kind == FAKE_READ || is_atomic(kind);
    *memory = (struct card_memory){.process = card_self};
    if (request->bytes > CARD_MESSAGE || (is_atomic(kind) && request->bytes != 8))
        return IBV_WC_LOC_LEN_ERR;
    if ((request->flags & IBV_SEND_INLINE) && arrives)
        return IBV_WC_LOC_QP_OP_ERR;
    if (request->flags & IBV_SEND_INLINE) {
        memory->n = 1;
        memory->bytes = request->bytes;
        memory->pieces[0] = (struct iovec){(void *)(uintptr_t)request->data, request->bytes};
        return IBV_WC_SUCCESS;
    }
    for (uint32_t i = 0; i < request->npieces; i++) {
        const struct ibv_sge *piece = &request->pieces[i];
        if (piece->length > 0 &&
            !card_find_memory(memory, pair->pd, piece->lkey, piece->addr, piece->length,
                              arrives ? IBV_ACCESS_LOCAL_WRITE : 0))
            return IBV_WC_LOC_PROT_ERR;
    }
    return IBV_WC_SUCCESS;
}

/* ---- by kind ---- */

/* The first receive at the other end takes it. */
static void report_received(const struct card_pair *other, const struct card_request *request,
                            struct card_ring *ring) {
    const struct card_receive *entries = card_at(ring->entries);
    const bool number = request->opcode != IBV_WR_SEND;
    const struct card_completion completion = {
        .wc = {.wr_id = entries[ring->head % ring->size].wr_id,
               .status = IBV_WC_SUCCESS,
               .opcode = request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM
                                                                       : IBV_WC_RECV,
               .byte_len = request->bytes,
               .imm_data = number ? request->imm : 0,
               .wc_flags = number ? IBV_WC_WITH_IMM : 0,
               .qp_num = other->number}};
    ring->head++;
    ring->used--;
    card_report(other->receive_queue, &completion);
}

/* The memory of the first receive. */
static enum ibv_wc_status find_room(const struct card_ring *ring, uint64_t bytes,
                                    struct card_memory *room) {
    const struct card_receive *entries = card_at(ring->entries);
    const struct card_receive *receive = &entries[ring->head % ring->size];
    *room = (struct card_memory){.process = ring->owner};
    for (uint32_t i = 0; i < receive->npieces; i++) {
        const struct ibv_sge *piece = &receive->pieces[i];
        if (!card_find_memory(room, ring->pd, piece->lkey, piece->addr, piece->length,
                              IBV_ACCESS_LOCAL_WRITE))
            return IBV_WC_REM_OP_ERR;
    }
    return bytes > room->bytes ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_send(const struct card_pair *pair, const struct card_pair *other,
                                  const struct card_request *request,
                                  const struct card_memory *local) {
    struct card_ring *ring = &card->rings[other->ring];
    struct card_memory room;
    enum ibv_wc_status status = find_room(ring, request->bytes, &room);
    if (status == IBV_WC_SUCCESS)
        status = status_of(pair, card_copy(&room, local), IBV_WC_REM_OP_ERR);
    if (status == IBV_WC_SUCCESS)
        report_received(other, request, ring);
    return status;
}

static long late_us(void) {
    const char *text = getenv("FAKE_CARD_LATE");
    return text != NULL ? atol(text) : 0;
}

static enum ibv_wc_status do_atomic(const struct card_pair *pair,
                                    const struct card_request *request,
                                    const struct card_memory *local,
                                    const struct card_memory *remote) {
    uint64_t found = 0, value;
    const struct card_memory was = {card_self, 1, 8, {{&found, 8}}};
    const struct card_memory becomes = {card_self, 1, 8, {{&value, 8}}};
    int error = card_copy(&was, remote);
    value = found;
    if (late_us() > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        value += request->compare_add;
    else if (found == request->compare_add)
        value = request->swap;
    error = error != 0 ? error : card_copy(remote, &becomes);
    error = error != 0 ? error : card_copy(local, &was);
    return status_of(pair, error, IBV_WC_REM_ACCESS_ERR);
}

static enum ibv_wc_status do_rdma(const struct card_pair *pair, const struct card_pair *other,
                                  const struct card_request *request, enum fake_kind kind,
                                  const struct card_memory *local) {
    struct card_memory remote = {.process = other->owner};
    const int right = right_of(kind);
    if (request->bytes == 0)
        return IBV_WC_SUCCESS;
    if (!card_find_memory(&remote, other->pd, request->rkey, request->address, request->bytes,
                          right) ||
        !(other->access & right))
        return IBV_WC_REM_ACCESS_ERR;
    if (is_atomic(kind) && request->address % 8 != 0)
        return IBV_WC_REM_INV_REQ_ERR;
    if (is_atomic(kind))
        return do_atomic(pair, request, local, &remote);
    return status_of(pair,
                     kind == FAKE_READ ? card_copy(local, &remote) : card_copy(&remote, local),
                     IBV_WC_REM_ACCESS_ERR);
}

static enum ibv_wc_status execute(const struct card_pair *pair,
                                  const struct card_request *request) {
    const struct card_pair *other = card_pair_of(pair->other);
    const enum fake_kind kind = kind_of(request->opcode);
    const bool receives = kind == FAKE_SEND || kind == FAKE_WRITE_WITH_IMM;
    struct card_memory local;
    if (other == NULL || !leads_to(pair, other))
        return IBV_WC_RETRY_EXC_ERR;
    if (kind == FAKE_KINDS)
        return IBV_WC_LOC_QP_OP_ERR;
    const bool no_room = receives && (!other->has_ring || card->rings[other->ring].used == 0);
    if ((no_room || request->bytes == 0) && !card_lives(other->owner))
        return IBV_WC_RETRY_EXC_ERR;
    if (no_room)
        return NO_ROOM;
    enum ibv_wc_status status = find_local(pair, request, kind, &local);
    if (status == IBV_WC_SUCCESS)
        status = kind == FAKE_SEND ? do_send(pair, other, request, &local)
                                   : do_rdma(pair, other, request, kind, &local);
    if (status == IBV_WC_SUCCESS && kind == FAKE_WRITE_WITH_IMM)
        report_received(other, request, &card->rings[other->ring]);
    return status;
}

/* ---- in order ---- */

static void report_sent(const struct card_pair *pair, const struct card_request *request,
                        enum ibv_wc_status status) {
    static const enum ibv_wc_opcode opcodes[FAKE_KINDS + 1] = {
        IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
        IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD,  IBV_WC_SEND};
    const struct card_completion completion = {.wc = {.wr_id = request->wr_id,
                                                      .status = status,
                                                      .opcode = opcodes[kind_of(request->opcode)],
                                                      .byte_len = request->bytes,
                                                      .qp_num = pair->number},
                                               .sends = true,
                                               .freed = pair->first};
    card_report(pair->send_queue, &completion);
}

/* False: the next request is to wait. */
static bool carry_out(struct card_pair *pair) {
    const struct card_request *request = request_at(pair, pair->first);
    enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
    if (pair->state != IBV_QPS_ERR)
        status = execute(pair, request);
    if (status == NO_ROOM && pair->patient)
        return false;
    if (status == NO_ROOM)
        status = IBV_WC_RNR_RETRY_EXC_ERR;
    if (status != IBV_WC_SUCCESS)
        pair->state = IBV_QPS_ERR;
    pair->first = status == NOBODY_ASKS ? pair->posted : pair->first + 1;
    if (status == NOBODY_ASKS)
        return true;
    if (status == IBV_WC_SUCCESS)
        card_counts(pair->owner)->bytes[kind_of(request->opcode)] += request->bytes;
    if (status != IBV_WC_SUCCESS || (request->flags & IBV_SEND_SIGNALED))
        report_sent(pair, request, status);
    return true;
}

static void note_waiting(struct card_pair *pair) {
    const bool waits = pair->first != pair->posted;
    card->waiting += (uint32_t)waits - (uint32_t)pair->waits;
    pair->waits = waits;
}

void card_progress(struct card_pair *pair) {
    while (pair->first != pair->posted && carry_out(pair)) {
    }
    note_waiting(pair);
}

void card_progress_at(uint32_t ring) {
    for (uint32_t i = 0; card->waiting > 0 && i < card->top[CARD_OF_PAIRS]; i++) {
        struct card_pair *pair = &card->pairs[i];
        if (pair->number == 0 || !pair->waits)
            continue;
        const struct card_pair *other = card_pair_of(pair->other);
        if (other != NULL ? other->has_ring && other->ring == ring : pair->owner == card_self)
            card_progress(pair);
    }
}

bool card_progress_of(uint32_t process) {
    bool any = false;
    for (uint32_t i = 0; card->waiting > 0 && i < card->top[CARD_OF_PAIRS]; i++) {
        struct card_pair *pair = &card->pairs[i];
        if (pair->number == 0 || !pair->waits || pair->owner != process)
            continue;
        card_progress(pair);
        any |= pair->waits;
    }
    return any;
}

/* ---- threads of the stand-in ---- */

static void start_thread(void *(*run)(void *)) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int watching, working; /* the process that has a thread for it; with the lock */

static void *look_after(void *unused) {
    (void)unused;
    for (unsigned idle = 0; idle < IDLE_ROUNDS; idle++) {
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
        card_lock();
        if (card_progress_of(card_self))
            idle = 0;
        if (idle == IDLE_ROUNDS - 1)
            watching = 0;
        card_unlock();
    }
    return NULL;
}

/* A process that is alone on its card needs none: nobody dies there. */
static void begin_to_look(void) {
    if (watching == getpid() || getenv("FAKE_CARD") == NULL)
        return;
    watching = getpid();
    start_thread(look_after);
}

static sem_t posted; /* since the thread has looked */

/* Until something is posted, or, if requests wait for their receivers, for a moment. */
static void wait_for_work(bool waits) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += AGAIN_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (waits)
        (void)sem_timedwait(&posted, &until);
    else
        (void)sem_wait(&posted);
}

static void *work(void *unused) {
    const long us = late_us();
    bool waits = false;
    (void)unused;
    for (;;) {
        wait_for_work(waits);
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
        card_lock();
        waits = card_progress_of(card_self);
        card_unlock();
    }
    return NULL;
}

static void leave_to_thread(struct card_pair *pair) {
    note_waiting(pair);
    if (working != getpid()) {
        working = getpid();
        sem_init(&posted, 0, 0);
        start_thread(work);
    }
    sem_post(&posted);
}

/* ---- posting ---- */

static void count(const struct card_request *request) {
    struct fake_card_counts *counts = card_counts(card_self);
    const enum fake_kind kind = kind_of(request->opcode);
    if (kind == FAKE_KINDS)
        return;
    counts->requests[kind]++;
    counts->in_line[kind] += (request->flags & IBV_SEND_INLINE) != 0;
    counts->signalled[kind] += (request->flags & IBV_SEND_SIGNALED) != 0;
}

static void fill(struct card_request *request, const struct ibv_send_wr *from) {
    const bool atomic = is_atomic(kind_of(from->opcode));
    request->wr_id = from->wr_id;
    request->opcode = from->opcode;
    request->flags = from->send_flags;
    request->imm = from->imm_data;
    request->address = atomic ? from->wr.atomic.remote_addr : from->wr.rdma.remote_addr;
    request->rkey = atomic ? from->wr.atomic.rkey : from->wr.rdma.rkey;
    request->compare_add = atomic ? from->wr.atomic.compare_add : 0;
    request->swap = atomic ? from->wr.atomic.swap : 0;
    request->npieces = (uint32_t)from->num_sge;
    request->bytes = 0;
    for (uint32_t i = 0; i < request->npieces; i++) {
        const struct ibv_sge *piece = &from->sg_list[i];
        request->pieces[i] = *piece;
        if (request->flags & IBV_SEND_INLINE)
            memcpy(request->data + request->bytes, (void *)(uintptr_t)piece->addr, piece->length);
        request->bytes += piece->length;
    }
}

static uint64_t bytes_of(const struct ibv_send_wr *request) {
    uint64_t bytes = 0;
    for (int i = 0; i < request->num_sge; i++)
        bytes += request->sg_list[i].length;
    return bytes;
}

/* 0, or what a device says: ENOMEM beyond what the queue pair was made for. */
static int add(struct card_pair *pair, const struct ibv_send_wr *request) {
    if (pair->state < IBV_QPS_RTS)
        return EINVAL;
    if (pair->posted - pair->freed == pair->room.max_send_wr ||
        request->num_sge > (int)pair->room.max_send_sge ||
        ((request->send_flags & IBV_SEND_INLINE) && bytes_of(request) > pair->room.max_inline_data))
        return ENOMEM;
    struct card_request *entry = request_at(pair, pair->posted);
    fill(entry, request);
    count(entry);
    pair->posted++;
    return 0;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad) {
    int error = 0;
    card_lock();
    struct card_pair *pair = card_pair_of(qp->qp_num);
    card_counts(card_self)->post_sends++;
    while (request != NULL && (error = add(pair, request)) == 0)
        request = request->next;
    if (late_us() > 0) {
        leave_to_thread(pair);
    } else {
        card_progress(pair);
        if (pair->waits)
            begin_to_look();
    }
    card_unlock();
    if (error != 0)
        *bad = request;
    return error;
}

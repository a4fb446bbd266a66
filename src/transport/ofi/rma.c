/* Registered memory and operations of the row ofi: reads, writes and atomics that the provider
 * executes, with a card without the target's processor.
 *
 * A registration is one region of the provider's. Its key stands in the registration's first rkey,
 * so it has 32 bits and is not 0; memory for which the provider chooses another key goes in
 * packets. Where this process chooses the keys, each is new, so that a key that has ended is
 * refused. The provider registers local memory itself if it has to (library.c).
 *
 * An operation has a *job* until libfabric has executed its request. The job has what libfabric
 * reads or writes and the program does not own: the data of a short write, the operands and the
 * result of an atomic. A write ends when its data are visible at the target (FI_DELIVERY_COMPLETE;
 * not with FI_INJECT, as libfabric 1.17's net then reports the end too early). Requests complete in
 * any order, so each reports its completion. More than max_msg_size bytes take several requests,
 * one after the other. A request for which there is no room now waits for the next poll.
 *
 * After an error of a read or write, the operation goes by the next row, in packets: the owner of
 * the memory checks the key again and answers with the right error, and a lost peer is noticed. An
 * atomic may have been executed. It ends with TUG_ERR_KEY if the target has refused the key, else
 * with TUG_ERR_PEER.
 *
 * A context has them by a provider with such a card, or by any with TUGBOAT_OFI_RMA, and where no
 * row verbs is open: rkeys are those of one row. Providers in software may answer a key that has
 * ended by ending the connection, with the packets on it (tcp), or not at all (shm).
 */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/stats.h"
#include "transport/ofi/private.h"

struct tug_ofi_job {
    struct tug_ofi_request request; /* the first member */
    struct tug_ofi_view *view;
    struct tug_operation *operation;
    uint64_t words[3]; /* a short write's data; an atomic's operand, compared and found value */
    struct tug_ofi_job *next, *all; /* in the list of unused or unsent ones; of all */
};

_Static_assert(TUG_OPERATION_INLINE <= sizeof(((struct tug_ofi_job *)NULL)->words),
               "a short write's data");

/* By enum tug_atomic_op. */
static const enum fi_op fetches[] = {[TUG_ADD] = FI_SUM,
                                     [TUG_AND] = FI_BAND,
                                     [TUG_OR] = FI_BOR,
                                     [TUG_XOR] = FI_BXOR,
                                     [TUG_SWAP] = FI_ATOMIC_WRITE};

#define FETCHES (sizeof fetches / sizeof fetches[0])

bool tug_ofi_operates(const struct tug_ofi_endpoint *endpoint) {
    const struct fi_domain_attr *domain = endpoint->info->domain_attr;
    return tug_ofi_reads(endpoint) &&
           (tug_settings.ofi_rma || tug_ofi_is_by_card(endpoint->info)) &&
           ((domain->mr_mode & FI_MR_PROV_KEY) || domain->mr_key_size >= sizeof(uint32_t));
}

bool tug_ofi_has_atomics(const struct tug_ofi_endpoint *endpoint) {
    size_t n = 0;
    if (!(endpoint->info->caps & FI_ATOMIC) || !tug_ofi_operates(endpoint) ||
        fi_compare_atomicvalid(endpoint->ep, FI_UINT64, FI_CSWAP, &n) != 0)
        return false;
    for (size_t i = 0; i < FETCHES; i++)
        if (fi_fetch_atomicvalid(endpoint->ep, FI_UINT64, fetches[i], &n) != 0)
            return false;
    return true;
}

/* ---- memory ---- */

int tug_ofi_register(void *state, struct tug_registration *registration) {
    const struct tug_ofi_view *view = state;
    struct tug_ofi_endpoint *endpoint = view->endpoint;
    int error;
    if (view->wire.ports == 0 || registration->bytes == 0)
        return 0;
    const uint32_t name = atomic_fetch_add_explicit(&endpoint->names, 1, memory_order_relaxed) + 1;
    struct fid_mr *region =
        tug_ofi_open_region(endpoint, registration->base, registration->bytes,
                            FI_REMOTE_READ | FI_REMOTE_WRITE, name & ~TUG_OFI_TRAILER_KEY, &error);
    const uint64_t key = region != NULL ? fi_mr_key(region) : 0;
    if (key == 0 || key > UINT32_MAX) {
        tug_warn_once("ofi: provider %s cannot register %zu bytes: %s; they go in packets, more "
                      "slowly: raise the limits of the device or of this process",
                      endpoint->info->fabric_attr->prov_name, registration->bytes,
                      region == NULL ? tug_ofi.strerror(error) : "its key does not fit");
        if (region != NULL)
            tug_ofi_close_object(&region->fid);
        return 0;
    }
    registration->of_transport[TUG_BY_OFI] = region;
    registration->rkeys[0] = (uint32_t)key;
    return 0;
}

void tug_ofi_deregister(void *state, struct tug_registration *registration) {
    struct fid_mr *region = registration->of_transport[TUG_BY_OFI];
    (void)state;
    registration->of_transport[TUG_BY_OFI] = NULL;
    if (region != NULL)
        tug_ofi_close_object(&region->fid);
}

/* ---- jobs ---- */

/* NULL: no memory. */
static struct tug_ofi_job *take_job(struct tug_ofi_endpoint *endpoint) {
    struct tug_ofi_job *job = endpoint->unused;
    if (job != NULL) {
        endpoint->unused = job->next;
        return job;
    }
    job = calloc(1, sizeof(*job));
    if (job == NULL)
        return NULL;
    job->request.kind = TUG_OFI_OPERATION;
    job->all = endpoint->jobs;
    endpoint->jobs = job;
    return job;
}

static void give_job(struct tug_ofi_endpoint *endpoint, struct tug_ofi_job *job) {
    job->next = endpoint->unused;
    endpoint->unused = job;
}

void tug_ofi_free_jobs(struct tug_ofi_endpoint *endpoint) {
    while (endpoint->jobs != NULL) {
        struct tug_ofi_job *job = endpoint->jobs;
        endpoint->jobs = job->all;
        free(job);
    }
}

/* ---- requests ---- */

/* Bytes of the operation's next request. */
static size_t next_bytes(const struct tug_ofi_job *job) {
    const size_t most = job->view->endpoint->info->ep_attr->max_msg_size;
    return job->operation->left < most ? job->operation->left : most;
}

/* Hands the next request to libfabric, whose status it returns. */
static ssize_t issue(struct tug_ofi_job *job) {
    const struct tug_ofi_view *view = job->view;
    struct tug_operation *operation = job->operation;
    struct fid_ep *ep = view->endpoint->ep;
    const fi_addr_t peer = view->addresses[operation->peer];
    const uint64_t done = operation->bytes - operation->left, key = operation->rkey;
    const bool addressed = view->endpoint->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    const uint64_t at = (addressed ? operation->address : operation->offset) + done;
    unsigned char *local =
        operation->local != NULL ? operation->local + done : (unsigned char *)job->words;
    const size_t bytes = next_bytes(job);
    uint64_t *words = job->words;
    switch (operation->kind) {
    case TUG_OPERATION_FETCH:
        return fi_fetch_atomic(ep, &words[0], 1, NULL, &words[2], NULL, peer, at, key, FI_UINT64,
                               fetches[operation->op], job);
    case TUG_OPERATION_COMPARE:
        return fi_compare_atomic(ep, &words[0], 1, NULL, &words[1], NULL, &words[2], NULL, peer, at,
                                 key, FI_UINT64, FI_CSWAP, job);
    case TUG_OPERATION_READ:
        return fi_read(ep, local, bytes, NULL, peer, at, key, job);
    default:
        break;
    }
    const struct iovec from = {local, bytes};
    const struct fi_rma_iov to = {at, bytes, key};
    const struct fi_msg_rma message = {.msg_iov = &from,
                                       .iov_count = 1,
                                       .addr = peer,
                                       .rma_iov = &to,
                                       .rma_iov_count = 1,
                                       .context = job};
    return fi_writemsg(ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

/* ---- the ends of operations ---- */

/* A read or write goes by the next row. The card's atomics and the CPU's are not atomic to each
 * other: an atomic ends with the status. */
static void give_up(const struct tug_ofi_view *view, struct tug_operation *operation, int status) {
    if (!tug_operation_is_atomic(operation)) {
        tug_fabric_pass_on(view->wire.fabric, operation, TUG_BY_OFI);
        return;
    }
    operation->status = (int8_t)status;
    tug_fabric_complete(view->wire.fabric, operation);
}

/* The job is free, and the operation no more out here. */
static void end_job(struct tug_ofi_job *job) {
    struct tug_ofi_view *view = job->view;
    view->out--;
    tug_endpoint_note(&view->wire);
    give_job(view->endpoint, job);
}

static void fail(struct tug_ofi_job *job, int error) {
    struct tug_ofi_view *view = job->view;
    struct tug_operation *operation = job->operation;
    tug_log(TUG_VERBOSE_INFO, "ofi: an operation to process %u: %s", operation->peer,
            tug_ofi.strerror(error));
    end_job(job);
    give_up(view, operation,
            error == FI_EKEYREJECTED || error == FI_EACCES ? TUG_ERR_KEY : TUG_ERR_PEER);
}

/* Sends the next request, unless there is no room: false. */
static bool attempt(struct tug_ofi_job *job) {
    const ssize_t status = issue(job);
    if (status == -FI_EAGAIN)
        return false;
    tug_stat_add(TUG_STAT_OFI_REQUESTS, 1);
    if (status != 0)
        fail(job, (int)-status);
    return true;
}

static void send_job(struct tug_ofi_job *job) {
    struct tug_ofi_endpoint *endpoint = job->view->endpoint;
    if (endpoint->unsent == NULL && attempt(job))
        return;
    TUG_LIST_PUT(endpoint->unsent, endpoint->unsent_last, job);
}

bool tug_ofi_send_jobs(struct tug_ofi_endpoint *endpoint) {
    bool any = false;
    while (endpoint->unsent != NULL) {
        struct tug_ofi_job *job = endpoint->unsent;
        endpoint->unsent = job->next; /* first: callbacks may send more */
        if (!attempt(job)) {
            endpoint->unsent = job;
            break;
        }
        any = true;
    }
    return any;
}

void tug_ofi_job_ended(struct tug_ofi_job *job, int error) {
    struct tug_ofi_view *view = job->view;
    struct tug_operation *operation = job->operation;
    if (error != 0) {
        fail(job, error);
        return;
    }
    operation->left -= next_bytes(job);
    if (operation->left > 0) {
        send_job(job);
        return;
    }
    if (tug_operation_is_atomic(operation))
        tug_fabric_result(operation, job->words[2]);
    end_job(job);
    tug_fabric_complete(view->wire.fabric, operation);
}

/* ---- the row ---- */

bool tug_ofi_takes(void *state, const struct tug_operation *operation) {
    const struct tug_ofi_view *view = state;
    return operation->bytes > 0 && tug_fabric_device_takes(view->wire.fabric, operation) &&
           (!tug_operation_is_atomic(operation) || operation->op < FETCHES);
}

void tug_ofi_post(void *state, struct tug_operation *operation) {
    struct tug_ofi_view *view = state;
    struct tug_ofi_job *job = take_job(view->endpoint);
    if (job == NULL) {
        give_up(view, operation, TUG_ERR_NO_MEMORY);
        return;
    }
    job->view = view;
    job->operation = operation;
    if (tug_operation_is_atomic(operation))
        memcpy(job->words, (uint64_t[]){operation->operand, operation->compare}, 16);
    else if (operation->local == NULL)
        memcpy(job->words, operation->data, operation->bytes);
    operation->left = operation->bytes;
    view->out++;
    send_job(job);
}

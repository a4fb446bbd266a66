/* Dynamic windows in the packet lane: memory that ranks attach and detach as they like.
 *
 * Only a rank itself knows what it has attached. Every attached region is a registration of its
 * own. An origin that meets an address for the first time asks the target's engine for the region
 * around it and remembers the answer in the target's *book*, so that from then on puts and gets go
 * as they do to any other memory. Who asked is remembered too: detaching ends the registration,
 * whose key is refused from then on, and has those ranks strike the region out. The next attachment
 * waits until they all have: a region that is new where an old one was is never taken for that one.
 * Accumulates and the like carry addresses; the target looks them up when it handles them.
 *
 * Books are changed in answers and messages, and what is attached here is the holder's of the baton
 * alone; everything else is any thread's.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "llcl/llcl.h"
#include "rma/remote.h"

/* ---- the origin: where is it? ---- */

struct asking {
    struct tug_book *book;
    struct tug_region region;
    struct tug_counter answered;
};

static void learn(void *pointer, int status) {
    struct asking *asking = pointer;
    if (status == 0)
        tug_book_enter(asking->book, &asking->region);
    tug_counter_add(&asking->answered, status);
}

/* Copied by the calls. */
static struct tug_remote_head head_of(const struct tug_remote *remote, int rank, uint64_t address) {
    return (struct tug_remote_head){.window = remote->targets[rank].number,
                                    .type = (uint32_t)remote->rank,
                                    .range = address << 16};
}

static int ask(struct tug_remote *remote, int rank, uint64_t address, struct tug_region *region) {
    struct asking asking = {.book = &tug_remote_state_of(remote, rank)->book};
    const struct tug_remote_head head = head_of(remote, rank, address);
    const struct tug_call_params call = {.dest_proc = remote->targets[rank].process,
                                         .handler = TUG_CALL_REGION,
                                         .payload = &head,
                                         .size_in_bytes = sizeof(head),
                                         .answer = &asking.region,
                                         .answer_in_bytes = sizeof(asking.region),
                                         .on_complete = {learn, &asking}};
    TUG_REMOTE_TRY(remote->domain->context, tug_try_call_async(remote->domain->context, &call));
    int status = tug_remote_wait_counter(remote, &asking.answered, 1);
    *region = asking.region;
    return tug_remote_error(status);
}

int tug_remote_find(struct tug_remote *remote, int rank, uint64_t address,
                    struct tug_region *region) {
    if (__builtin_expect(tug_book_find(&tug_remote_state_of(remote, rank)->book, address, region),
                         1))
        return MPI_SUCCESS;
    return address >> TUG_REMOTE_OFFSET_BITS ? MPI_ERR_RMA_RANGE
                                             : ask(remote, rank, address, region);
}

int tug_remote_check(struct tug_remote *remote, int rank, uint64_t address, size_t bytes) {
    struct tug_region region;
    uint64_t end = address + bytes;
    if (end < address)
        return MPI_ERR_RMA_RANGE;
    for (; address < end; address = region.base + region.bytes) {
        int error = tug_remote_find(remote, rank, address, &region);
        if (error != MPI_SUCCESS)
            return error;
    }
    return MPI_SUCCESS;
}

/* ---- the target: what is attached here ---- */

struct attached {
    struct tug_region region;
    tug_registration *registration;
    uint64_t *askers; /* bit set: the rank has the region in its book; NULL: none has */
};

/* By address. Those that are not empty do not overlap. */
struct tug_attachments {
    struct attached *list;
    uint32_t n, size;
};

/* How many begin at the address or below it. */
static uint32_t count_below(const struct tug_attachments *attachments, uint64_t address) {
    uint32_t low = 0, high = attachments->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (attachments->list[middle].region.base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last one that begins at the address or below it and is not empty. */
static struct attached *last_below(const struct tug_attachments *attachments, uint64_t address) {
    uint32_t n = count_below(attachments, address);
    while (n > 0 && attachments->list[n - 1].region.bytes == 0)
        n--;
    return n > 0 ? &attachments->list[n - 1] : NULL;
}

static struct attached *find(const struct tug_attachments *attachments, uint64_t address) {
    struct attached *attached = last_below(attachments, address);
    return attached != NULL && tug_region_holds(&attached->region, address) ? attached : NULL;
}

unsigned char *tug_remote_attached(const struct tug_remote *remote, uint64_t address,
                                   size_t bytes) {
    const struct attached *attached;
    for (uint64_t at = address; at < address + bytes;
         at = attached->region.base + attached->region.bytes) {
        attached = find(remote->attachments, at);
        if (attached == NULL)
            return NULL;
    }
    return (unsigned char *)(uintptr_t)address;
}

const struct tug_region *tug_remote_tell_region(struct tug_remote *remote, uint32_t rank,
                                                uint64_t address) {
    struct attached *attached = find(remote->attachments, address);
    if (attached != NULL && attached->askers == NULL)
        attached->askers = calloc(((size_t)remote->nranks + 63) / 64, sizeof(uint64_t));
    if (attached == NULL || attached->askers == NULL)
        return NULL;
    attached->askers[rank / 64] |= (uint64_t)1 << (rank % 64);
    return &attached->region;
}

/* ---- attaching and detaching ---- */

/* What the holder is to do. */
struct change {
    struct tug_attachments *attachments;
    struct attached attached;
    int error;
};

static bool overlaps(const struct tug_attachments *attachments, const struct tug_region *region) {
    const struct attached *last =
        region->bytes == 0 ? NULL : last_below(attachments, region->base + region->bytes - 1);
    return last != NULL && last->region.base + last->region.bytes > region->base;
}

static void insert(void *argument) {
    struct change *change = argument;
    struct tug_attachments *attachments = change->attachments;
    if (overlaps(attachments, &change->attached.region)) {
        change->error = MPI_ERR_RMA_ATTACH;
        return;
    }
    if (attachments->n == attachments->size) {
        uint32_t size = attachments->size == 0 ? 8 : 2 * attachments->size;
        struct attached *list = realloc(attachments->list, size * sizeof(*list));
        if (list == NULL) {
            change->error = MPI_ERR_NO_MEM;
            return;
        }
        attachments->list = list;
        attachments->size = size;
    }
    uint32_t position = count_below(attachments, change->attached.region.base);
    struct attached *at = &attachments->list[position];
    memmove(at + 1, at, (attachments->n++ - position) * sizeof(*at));
    *at = change->attached;
}

/* The first one that begins there. */
static void take_out(void *argument) {
    struct change *change = argument;
    struct tug_attachments *attachments = change->attachments;
    uint64_t base = change->attached.region.base;
    uint32_t position = base == 0 ? 0 : count_below(attachments, base - 1);
    if (position == attachments->n || attachments->list[position].region.base != base) {
        change->error = MPI_ERR_BASE;
        return;
    }
    struct attached *at = &attachments->list[position];
    change->attached = *at;
    memmove(at, at + 1, (--attachments->n - position) * sizeof(*at));
}

static void release(struct tug_remote *remote, struct attached *attached) {
    tug_remote_deregister(remote, &attached->registration);
    free(attached->askers);
}

void tug_remote_await_detached(struct tug_remote *remote) {
    (void)tug_remote_wait_counter(remote, &remote->struck, atomic_load(&remote->to_strike));
}

int tug_remote_attach(struct tug_remote *remote, void *base, MPI_Aint size) {
    tug_context *context = remote->domain->context;
    struct change change = {.attachments = remote->attachments};
    struct attached *attached = &change.attached;
    attached->region.base = (uintptr_t)base;
    attached->region.bytes = (uint64_t)size;
    if ((attached->region.base + attached->region.bytes) >> TUG_REMOTE_OFFSET_BITS)
        return MPI_ERR_RMA_ATTACH;
    if (tug_mem_register(context, size > 0 ? base : NULL, (size_t)size, &attached->registration) !=
        0)
        return MPI_ERR_RMA_ATTACH;
    tug_mem_key(attached->registration, &attached->region.key);
    tug_remote_await_detached(remote);
    tug_engine_call(insert, &change);
    if (change.error != MPI_SUCCESS)
        release(remote, attached);
    return change.error;
}

static void tell_detached(struct tug_remote *remote, int rank, uint64_t base) {
    const struct tug_remote_head head = head_of(remote, rank, base);
    const struct tug_am_params message = {.dest_proc = remote->targets[rank].process,
                                          .handler = TUG_MESSAGE_DETACHED,
                                          .payload = &head,
                                          .size_in_bytes = sizeof(head),
                                          .on_complete = {tug_counter_add, &remote->struck}};
    atomic_fetch_add(&remote->to_strike, 1);
    TUG_REMOTE_TRY(remote->domain->context, tug_try_am_async(remote->domain->context, &message));
}

int tug_remote_detach(struct tug_remote *remote, const void *base) {
    struct change change = {.attachments = remote->attachments};
    struct attached *attached = &change.attached;
    attached->region.base = (uintptr_t)base;
    tug_engine_call(take_out, &change);
    if (change.error != MPI_SUCCESS)
        return change.error;
    for (int r = 0; attached->askers != NULL && r < remote->nranks; r++)
        if (attached->askers[r / 64] >> (r % 64) & 1)
            tell_detached(remote, r, attached->region.base);
    release(remote, attached);
    return MPI_SUCCESS;
}

struct tug_attachments *tug_attachments_make(void) {
    return calloc(1, sizeof(struct tug_attachments));
}

void tug_attachments_free(struct tug_remote *remote) {
    struct tug_attachments *attachments = remote->attachments;
    if (attachments == NULL)
        return;
    for (uint32_t i = 0; i < attachments->n; i++)
        release(remote, &attachments->list[i]);
    free(attachments->list);
    free(attachments);
}

/* Dynamic windows in the packet lane: memory that ranks attach and detach as they like.
 *
 * Only a rank itself knows what it has attached: it keeps a *book* of it (book.h). Every attached
 * region is a registration of its own. An origin of the same node reads the book where it is. One
 * elsewhere that meets an address for the first time asks the target's engine for the region around
 * it and remembers the answer in a book of its own, so that from then on puts and gets go as they
 * do to any other memory; and so does one of the same node that cannot read the book. Who asked is
 * remembered too: detaching ends the registration, whose key is refused from then on, and has those
 * ranks strike the region out. The next attachment waits until they all have: a region that is new
 * where an old one was is never taken for that one. Accumulates and the like carry addresses; the
 * target looks them up when it handles them.
 *
 * Books are changed in answers and messages, and what is attached here is changed by the holder of
 * the baton alone; everything else is any thread's.
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

/* A region of no bytes: the target had no memory to say more. */
static void learn(void *pointer, int status) {
    struct asking *asking = pointer;
    if (status == 0 && asking->region.bytes == 0)
        status = TUG_ERR_NO_MEMORY;
    if (status == 0) { /* what it overlaps is older */
        tug_book_strike_out(asking->book, asking->region.base, asking->region.bytes);
        (void)tug_book_enter(asking->book, &asking->region);
    }
    tug_counter_add(&asking->answered, status);
}

/* Copied by the calls. */
static struct tug_remote_head head_of(const struct tug_remote *remote, int rank, uint64_t address) {
    return (struct tug_remote_head){.window = remote->targets[rank].number,
                                    .type = (uint32_t)remote->rank,
                                    .range = address << 16};
}

static int ask(struct tug_remote *remote, int rank, uint64_t address, struct tug_region *region) {
    struct asking asking = {.book = &tug_remote_state_of(remote, rank)->books[TUG_BOOK_ASKED]};
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
    struct tug_book *books = tug_remote_state_of(remote, rank)->books;
    if (books[TUG_BOOK_SHOWN].room != NULL) {
        const enum tug_book_answer answer = tug_book_find(&books[TUG_BOOK_SHOWN], address, region);
        if (__builtin_expect(answer != TUG_BOOK_CANNOT_SAY, 1))
            return answer == TUG_BOOK_HAS ? MPI_SUCCESS : MPI_ERR_RMA_RANGE;
    }
    if (__builtin_expect(tug_book_find(&books[TUG_BOOK_ASKED], address, region) == TUG_BOOK_HAS, 1))
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
    tug_registration *registration;
    uint64_t *askers; /* bit set: the rank has the region in a book of its own; NULL: none has */
};

struct tug_attachments {
    struct tug_book book;
    struct attached *list; /* by slot of the book */
    uint32_t size;
};

unsigned char *tug_remote_attached(const struct tug_remote *remote, uint64_t address,
                                   size_t bytes) {
    struct tug_region region;
    for (uint64_t at = address; at < address + bytes; at = region.base + region.bytes)
        if (tug_book_find(&remote->attachments->book, at, &region) != TUG_BOOK_HAS)
            return NULL;
    return (unsigned char *)(uintptr_t)address;
}

int tug_remote_tell_region(struct tug_remote *remote, uint32_t rank, uint64_t address,
                           struct tug_region *region) {
    struct tug_attachments *attachments = remote->attachments;
    const uint32_t slot = tug_book_slot(&attachments->book, address, region);
    struct attached *attached = slot != TUG_BOOK_NOWHERE ? &attachments->list[slot] : NULL;
    if (attached == NULL)
        return TUG_ERR_RANGE;
    if (attached->askers == NULL)
        attached->askers = calloc(((size_t)remote->nranks + 63) / 64, sizeof(uint64_t));
    if (attached->askers == NULL)
        return TUG_ERR_NO_MEMORY;
    attached->askers[rank / 64] |= (uint64_t)1 << (rank % 64);
    return 0;
}

/* ---- attaching and detaching ---- */

/* What the holder is to do. */
struct change {
    struct tug_attachments *attachments;
    struct tug_region region;
    struct attached attached;
    int error;
};

/* Room in the list for what comes into the book next. */
static bool make_room(struct tug_attachments *attachments) {
    if (attachments->book.used < attachments->size)
        return true;
    const uint32_t size = attachments->size == 0 ? TUG_BOOK_FIRST : 2 * attachments->size;
    struct attached *list = realloc(attachments->list, size * sizeof(*list));
    if (list == NULL)
        return false;
    memset(list + attachments->size, 0, (size - attachments->size) * sizeof(*list));
    attachments->list = list;
    attachments->size = size;
    return true;
}

static void insert(void *argument) {
    struct change *change = argument;
    struct tug_attachments *attachments = change->attachments;
    const struct tug_region *region = &change->region;
    uint32_t slot = TUG_BOOK_NOWHERE;
    if (tug_book_overlaps(&attachments->book, region->base, region->bytes))
        change->error = MPI_ERR_RMA_ATTACH;
    else if (!make_room(attachments) ||
             (slot = tug_book_enter(&attachments->book, region)) == TUG_BOOK_NOWHERE)
        change->error = MPI_ERR_NO_MEM;
    else
        attachments->list[slot] = change->attached;
}

static void take_out(void *argument) {
    struct change *change = argument;
    struct tug_attachments *attachments = change->attachments;
    const uint32_t slot = tug_book_take_out(&attachments->book, change->region.base);
    if (slot == TUG_BOOK_NOWHERE) {
        change->error = MPI_ERR_BASE;
        return;
    }
    change->attached = attachments->list[slot];
    attachments->list[slot] = (struct attached){0};
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
    struct tug_region *region = &change.region;
    region->base = (uintptr_t)base;
    region->bytes = (uint64_t)size;
    if ((region->base + region->bytes) >> TUG_REMOTE_OFFSET_BITS)
        return MPI_ERR_RMA_ATTACH;
    if (tug_mem_register(context, size > 0 ? base : NULL, (size_t)size,
                         &change.attached.registration) != 0)
        return MPI_ERR_RMA_ATTACH;
    tug_mem_key(change.attached.registration, &region->key);
    tug_remote_await_detached(remote);
    tug_engine_call(insert, &change);
    if (change.error != MPI_SUCCESS)
        release(remote, &change.attached);
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
    change.region.base = (uintptr_t)base;
    tug_engine_call(take_out, &change);
    if (change.error != MPI_SUCCESS)
        return change.error;
    for (int r = 0; attached->askers != NULL && r < remote->nranks; r++)
        if (attached->askers[r / 64] >> (r % 64) & 1)
            tell_detached(remote, r, change.region.base);
    release(remote, attached);
    return MPI_SUCCESS;
}

struct tug_attachments *tug_attachments_make(void) {
    return calloc(1, sizeof(struct tug_attachments));
}

void tug_attachments_show(struct tug_attachments *attachments, struct tug_book_room *room) {
    attachments->book.room = room;
}

void tug_attachments_free(struct tug_remote *remote) {
    struct tug_attachments *attachments = remote->attachments;
    if (attachments == NULL)
        return;
    for (uint32_t i = 0; i < attachments->size; i++)
        release(remote, &attachments->list[i]);
    tug_book_close(&attachments->book);
    if (attachments->book.room != NULL && attachments->book.used > 0)
        memset(attachments->book.room, 0, sizeof(*attachments->book.room));
    free(attachments->list);
    free(attachments);
}

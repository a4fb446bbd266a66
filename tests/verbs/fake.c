#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/agreement.h"
#include "tests/joined.h"

struct fake fakes[FAKE_PROCESSES * FAKE_CONTEXTS];
bool fake_hold, fake_mute, fake_carries;
unsigned fake_rails, fake_queued, fake_counted;
struct fake *fake_acting;

static struct tug_endpoint *homes[FAKE_PROCESSES][TUG_RKEYS]; /* where its endpoints are found */

struct message {
    struct message *next;
    uint32_t from;
    struct fake *to;
    size_t bytes;
    unsigned char data[TUG_CONTROL_MAX];
};

static struct message *messages;

/* ---- what the transport calls; these take the place of the library's own ---- */

void tug_fabric_complete(struct tug_fabric *fabric, struct tug_operation *operation) {
    tug_fabric_local(operation);
    struct tug_callback callback = operation->on_complete;
    const int status = operation->status;
    operation->kind = TUG_OPERATION_NONE;
    if (operation->registration != NULL)
        operation->registration->users--;
    tug_tags_give(&fabric->tags, tug_fabric_tag(fabric, operation));
    if (callback.f != NULL)
        callback.f(callback.d, status);
}

/* The others have what this one has, and as many rails as that, which is the last word. */
int tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n) {
    (void)comm, (void)how;
    if (words[n - 1] < -(int64_t)fake_rails)
        words[n - 1] = -(int64_t)fake_rails;
    return MPI_SUCCESS;
}

bool tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

static struct fake *fake_of(struct tug_fabric *fabric) {
    return (struct fake *)fabric; /* its first member */
}

static void send_control(struct tug_fabric *fabric, uint32_t peer, const void *data, size_t bytes) {
    struct message *message = calloc(1, sizeof *message);
    message->from = fabric->rank;
    message->to = fake_of(fabric) - fabric->rank + peer;
    message->bytes = bytes;
    memcpy(message->data, data, bytes);
    struct message **at = &messages;
    while (*at != NULL)
        at = &(*at)->next;
    *at = message;
    fake_queued++;
    fake_counted++;
}

int tug_fabric_control(struct tug_fabric *fabric, uint32_t peer, unsigned transport,
                       const void *data, size_t bytes) {
    struct fake *acting = fake_acting;
    if (transport != TUG_BY_VERBS || bytes > TUG_CONTROL_MAX || peer >= fabric->nranks)
        abort();
    if (fake_mute)
        return TUG_ERR_NO_MEMORY;
    fake_acting = NULL;
    send_control(fabric, peer, data, bytes);
    fake_acting = acting;
    return 0;
}

/* Each is a node of its own. */
uint32_t tug_fabric_search_node(const struct tug_fabric *fabric, uint32_t peer) {
    (void)fabric, (void)peer;
    return TUG_ELSEWHERE;
}

void tug_fabric_pass_on(struct tug_fabric *fabric, struct tug_operation *operation, unsigned from) {
    if (from != TUG_BY_VERBS)
        abort();
    fake_of(fabric)->passed++;
    tug_fabric_complete(fabric, operation);
}

/* There are no packets, and no signals. */
void tug_fabric_follow(struct tug_fabric *fabric, struct tug_operation *write,
                       struct tug_operation *signal) {
    (void)fabric, (void)write, (void)signal;
    abort();
}

/* ---- the fabric ---- */

struct fake *fake_add(unsigned context, uint32_t rank) {
    struct fake *fake = &fakes[context * FAKE_PROCESSES + rank];
    memset(fake, 0, sizeof *fake);
    struct tug_fabric *fabric = &fake->fabric;
    if (!joined_begin(fabric, rank, FAKE_OPERATIONS))
        abort();
    fabric->id += context;
    fabric->nranks = FAKE_PROCESSES;
    fabric->bell = &fake->bell;
    if (fake_rails > 0)
        memset(&fabric->comm, 1, sizeof fabric->comm); /* any but MPI_COMM_NULL */
    fabric->to_be_carried = fake_carries;
    void *state = NULL;
    char reason[256];
    fake_acting = fake;
    const int status = tug_verbs_open_at(homes[rank], fabric, &state, reason);
    fake_acting = NULL;
    if (status != 0) {
        fprintf(stderr, "open: %s\n", tug_strerror(status));
        exit(1);
    }
    fake->view = state;
    fake->verbs = fake->view->verbs;
    fabric->device_atomics = fabric->open_to_atomics = ((const struct tug_wire *)state)->atomics;
    return fake;
}

void fake_remove(struct fake *fake) {
    tug_transport_verbs.close(fake->view);
    fake->view = NULL;
    joined_end(&fake->fabric);
}

void fake_open(void) {
    fake_add(0, 0);
    fake_add(0, 1);
}

void fake_close(void) {
    fake_drop_messages();
    for (int i = 0; i < FAKE_PROCESSES * FAKE_CONTEXTS; i++)
        if (fakes[i].view != NULL)
            fake_remove(&fakes[i]);
}

void fake_drop_messages(void) {
    while (messages != NULL) {
        struct message *message = messages;
        messages = message->next;
        free(message);
        fake_queued--;
    }
}

void fake_reverse_messages(void) {
    struct message *reversed = NULL;
    while (messages != NULL) {
        struct message *message = messages;
        messages = message->next;
        message->next = reversed;
        reversed = message;
    }
    messages = reversed;
}

bool fake_round(void) {
    bool moved = false;
    while (messages != NULL && !fake_hold) {
        struct message *message = messages;
        messages = message->next;
        fake_queued--;
        fake_acting = message->to;
        if (message->to->view != NULL && !message->to->deaf)
            tug_transport_verbs.control(message->to->view, message->from, message->data,
                                        message->bytes);
        fake_acting = NULL;
        free(message);
        moved = true;
    }
    for (int i = 0; i < FAKE_PROCESSES * FAKE_CONTEXTS; i++) {
        fake_acting = &fakes[i];
        if (fakes[i].view != NULL)
            moved |= tug_transport_verbs.poll(fakes[i].view);
    }
    fake_acting = NULL;
    return moved;
}

static uint32_t registrations;

struct tug_registration *fake_register(struct fake *fake, void *base, size_t bytes) {
    struct tug_registration *registration = calloc(1, sizeof *registration);
    registration->base = base;
    registration->bytes = bytes;
    registration->id = UINT64_C(1) << 32 | ++registrations;
    const int status = tug_transport_verbs.register_memory(fake->view, registration);
    if (status != 0) {
        fprintf(stderr, "register %zu bytes: %s\n", bytes, tug_strerror(status));
        exit(1);
    }
    return registration;
}

void fake_deregister(struct fake *fake, struct tug_registration *registration) {
    tug_transport_verbs.deregister_memory(fake->view, registration);
    free(registration);
}

static void on_local(void *d, int status) {
    struct fake_end *end = d;
    (void)status;
    end->local++;
}

static void on_complete(void *d, int status) {
    struct fake_end *end = d;
    end->complete++;
    end->status = status;
}

struct tug_operation *fake_operation(struct fake *fake, uint32_t peer, enum tug_operation_kind kind,
                                     struct tug_registration *remote, uint64_t offset,
                                     struct tug_registration *local, uint64_t local_offset,
                                     uint64_t bytes, struct fake_end *end) {
    uint32_t tag = TUG_NO_TAG;
    if (!tug_tags_take_in_hand(&fake->fabric.tags, &tag))
        abort();
    struct tug_operation *operation = &fake->fabric.operations[tag];
    memset(operation, 0xee, sizeof *operation); /* nothing may be relied on */
    operation->kind = (uint8_t)kind;
    operation->op = 0;
    operation->status = 0;
    operation->peer = peer;
    operation->key = remote->id;
    operation->offset = offset;
    operation->address = (uint64_t)(uintptr_t)remote->base + offset;
    operation->rkey = remote->rkeys[0];
    if (bytes >= TUG_OPERATION_LONG)
        memcpy(operation->rkeys, remote->rkeys, sizeof remote->rkeys);
    operation->bytes = bytes;
    operation->local = local != NULL ? local->base + local_offset : NULL;
    operation->registration = local;
    if (local != NULL)
        local->users++;
    operation->on_local = (struct tug_callback){NULL, NULL};
    operation->on_complete = (struct tug_callback){NULL, NULL};
    if (end != NULL) {
        *end = (struct fake_end){0, 0, 1};
        operation->on_complete = (struct tug_callback){on_complete, end};
        if (kind == TUG_OPERATION_WRITE)
            operation->on_local = (struct tug_callback){on_local, end};
    }
    return operation;
}

void fake_post(struct fake *fake, struct tug_operation *operation) {
    fake_acting = fake;
    tug_transport_verbs.post(fake->view, operation);
    fake_acting = NULL;
}

void fake_flush(struct fake *fake) {
    fake_acting = fake;
    tug_transport_verbs.flush(fake->view);
    fake_acting = NULL;
}

static bool is_any_busy(void) {
    bool busy = false;
    for (int i = 0; i < FAKE_PROCESSES * FAKE_CONTEXTS; i++)
        busy |= fakes[i].view != NULL && fake_busy(fakes[i].view);
    return busy;
}

bool fake_finish(unsigned seconds) {
    const uint64_t end = tug_clock_ns() + seconds * 1000000000ull;
    for (int i = 0; i < FAKE_PROCESSES * FAKE_CONTEXTS; i++)
        if (fakes[i].view != NULL)
            fake_flush(&fakes[i]);
    while (is_any_busy()) {
        fake_round();
        if (tug_clock_ns() > end)
            return false;
    }
    return true;
}

/* The GMA calls: handles, order, completion.
 *
 * Handles count up from 1. The command of a handle has the slot handle % TUG_ACP_COMMANDS, which is
 * free again when everything up to the handle that had it before is complete. `done` of a slot is
 * the last of its handles that is complete (before the first: as if there had been one), so it only
 * grows; `head` is the handle up to which all are complete, and is moved on by whoever looks.
 *
 * Failures: the first and the last failed handle that the program has not passed yet. What is
 * ordered behind the first of them fails as well.
 */
#include <stdlib.h>

#include "acp/layer.h"

#define MASK (TUG_ACP_COMMANDS - 1)

static struct {
    _Atomic acp_handle_t tail __attribute__((aligned(64)));         /* given out so far */
    _Atomic acp_handle_t head __attribute__((aligned(64)));         /* complete so far */
    _Atomic acp_handle_t failed_first __attribute__((aligned(64))); /* INT64_MAX: none */
    _Atomic acp_handle_t failed_last;
    _Atomic int failed_status;
} commands;

int tug_acp_commands_open(void) {
    tug_acp.memory = aligned_alloc(64, sizeof(*tug_acp.memory));
    if (tug_acp.memory == NULL)
        return TUG_ERR_NO_MEMORY;
    struct tug_acp_slot *slots = tug_acp.memory->slots;
    for (acp_handle_t i = 0; i < TUG_ACP_COMMANDS; i++) {
        slots[i] = (struct tug_acp_slot){0};
        atomic_init(&slots[i].done, i == 0 ? 0 : i - TUG_ACP_COMMANDS);
    }
    atomic_store(&commands.tail, 0);
    atomic_store(&commands.head, 0);
    atomic_store(&commands.failed_first, INT64_MAX);
    atomic_store(&commands.failed_last, 0);
    return tug_mem_register(tug_acp.context, slots, sizeof(*tug_acp.memory), &tug_acp.registration);
}

void tug_acp_commands_close(void) {
    free(tug_acp.memory);
    tug_acp.memory = NULL;
}

/* ---- completion ---- */

acp_handle_t tug_acp_complete_until(void) {
    /* acquire: pairs with the compare-exchange below, whoever reads a head reads the results */
    acp_handle_t seen = atomic_load_explicit(&commands.head, memory_order_acquire), until = seen;
    /* seq_cst: pairs with the store in publish, see tug_engine_wait() */
    while (atomic_load(&tug_acp_slot_of(until + 1)->done) > until)
        until++;
    while (seen < until &&
           !atomic_compare_exchange_weak_explicit(&commands.head, &seen, until,
                                                  memory_order_acq_rel, memory_order_acquire))
        ;
    return seen > until ? seen : until;
}

static void note_failure(acp_handle_t handle, int status) {
    atomic_store(&commands.failed_status, status);
    acp_handle_t last = atomic_load(&commands.failed_last);
    while (last < handle && !atomic_compare_exchange_weak(&commands.failed_last, &last, handle))
        ;
    acp_handle_t first = atomic_load(&commands.failed_first);
    while (first > handle && !atomic_compare_exchange_weak(&commands.failed_first, &first, handle))
        ;
}

/* The program has passed the handle, and is told now. The status of a failure, or 0. */
static int forget_failures(acp_handle_t handle) {
    acp_handle_t first = atomic_load(&commands.failed_first);
    while (first <= handle) {
        const int status = atomic_load(&commands.failed_status);
        tug_acp_set_errno(status);
        acp_handle_t left = atomic_load(&commands.failed_last) <= handle ? INT64_MAX : handle + 1;
        if (atomic_compare_exchange_weak(&commands.failed_first, &first, left))
            return status;
    }
    return 0;
}

int tug_acp_order_failed(const struct tug_acp_command *command) {
    return __builtin_expect(atomic_load(&commands.failed_first) <= command->order, 0)
               ? atomic_load(&commands.failed_status)
               : 0;
}

static const char *name_of(const struct tug_acp_request *request) {
    static const char *const names[] = {"acp_add", "acp_and", "acp_or", "acp_xor", "acp_swap"};
    if (request->kind == TUG_ACP_COPY)
        return "acp_copy";
    return request->kind == TUG_ACP_FETCH ? names[request->op] : "acp_cas";
}

void tug_acp_end(struct tug_acp_command *command, int status) {
    acp_handle_t handle = command->handle;
    if (handle == 0) {
        tug_acp_relay_end(command, status);
        return;
    }
    if (__builtin_expect(status != 0, 0)) {
        note_failure(handle, status);
        tug_acp_fail(name_of(&command->request), status);
    }
    /* seq_cst: pairs with the load in tug_acp_complete_until; the slot may be used again */
    atomic_store(&tug_acp_slot_of(handle)->done, handle);
    tug_acp_order_moved();
}

static bool complete(void *argument) {
    const acp_handle_t *handle = argument;
    return tug_acp_complete_until() >= *handle;
}

static void wait_until(acp_handle_t handle) {
    tug_wait(tug_acp.context, complete, &handle);
}

static bool means_all(acp_handle_t handle) {
    return handle == (acp_handle_t)ACP_HANDLE_ALL || handle == (acp_handle_t)ACP_HANDLE_CONT;
}

/* The last handle that is meant, 0: none. */
static acp_handle_t meant(acp_handle_t handle) {
    acp_handle_t tail = atomic_load_explicit(&commands.tail, memory_order_relaxed);
    if (means_all(handle))
        return tail;
    return handle < 0 || handle > tail ? 0 : handle;
}

int tug_acp_complete(acp_handle_t handle) {
    handle = meant(handle);
    wait_until(handle);
    return forget_failures(handle);
}

void acp_complete(acp_handle_t handle) {
    if (tug_acp_runs("acp_complete"))
        (void)tug_acp_complete(handle);
}

int acp_inquire(acp_handle_t handle) {
    if (!tug_acp_runs("acp_inquire"))
        return 0;
    handle = meant(handle);
    if (!tug_context_test(tug_acp.context, complete, &handle))
        return 1;
    forget_failures(handle);
    return 0;
}

/* ---- issuing ---- */

/* Starts it now if that is possible. */
static void start(struct tug_acp_command *command) {
    if (command->order <= tug_acp_complete_until()) {
        int status = tug_acp_order_failed(command);
        if (status != 0) {
            tug_acp_end(command, status);
            return;
        }
        enum tug_acp_outcome outcome;
        while ((outcome = tug_acp_start(command)) == TUG_ACP_FULL)
            tug_progress(tug_acp.context);
        if (outcome == TUG_ACP_TAKEN)
            return;
    }
    tug_acp_hand_over(command);
}

/* No reason to refuse the request, or why. */
static int look_over(const struct tug_acp_request *request, acp_handle_t order) {
    bool known =
        means_all(order) ||
        (order >= 0 && order <= atomic_load_explicit(&commands.tail, memory_order_relaxed));
    return known ? tug_acp_check(request) : TUG_ERR_INVALID;
}

static acp_handle_t issue(const struct tug_acp_request *request, acp_handle_t order) {
    if (!tug_acp_runs(name_of(request)))
        return ACP_HANDLE_NULL;
    int status = look_over(request, order);
    if (__builtin_expect(status != 0, 0)) {
        tug_acp_fail(name_of(request), status);
        return ACP_HANDLE_NULL;
    }
    acp_handle_t handle = atomic_fetch_add_explicit(&commands.tail, 1, memory_order_relaxed) + 1;
    if (!complete(&(acp_handle_t){handle - TUG_ACP_COMMANDS}))
        wait_until(handle - TUG_ACP_COMMANDS + TUG_ACP_COMMANDS / 4); /* room for more than one */
    struct tug_acp_command *command = &tug_acp_slot_of(handle)->command;
    *command = (struct tug_acp_command){
        .request = *request, .handle = handle, .order = order < 0 ? handle - 1 : order};
    start(command);
    return handle;
}

acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size_in_bytes, acp_handle_t order) {
    return issue(
        &(struct tug_acp_request){
            .kind = TUG_ACP_COPY, .dst = dst, .src = src, .bytes = size_in_bytes},
        order);
}

#define ATOMIC(bits, bytes_each)                                                                   \
    acp_handle_t acp_cas##bytes_each(acp_ga_t dst, acp_ga_t src, uint##bits##_t oldval,            \
                                     uint##bits##_t newval, acp_handle_t order) {                  \
        return issue(&(struct tug_acp_request){.kind = TUG_ACP_COMPARE,                            \
                                               .dst = dst,                                         \
                                               .src = src,                                         \
                                               .bytes = bytes_each,                                \
                                               .compare = oldval,                                  \
                                               .operand = newval},                                 \
                     order);                                                                       \
    }                                                                                              \
    FETCH(swap, TUG_SWAP, bits, bytes_each)                                                        \
    FETCH(add, TUG_ADD, bits, bytes_each)                                                          \
    FETCH(xor, TUG_XOR, bits, bytes_each)                                                          \
    FETCH(or, TUG_OR, bits, bytes_each)                                                            \
    FETCH(and, TUG_AND, bits, bytes_each)

#define FETCH(name, which, bits, bytes_each)                                                       \
    acp_handle_t acp_##name##bytes_each(acp_ga_t dst, acp_ga_t src, uint##bits##_t value,          \
                                        acp_handle_t order) {                                      \
        return issue(&(struct tug_acp_request){.kind = TUG_ACP_FETCH,                              \
                                               .op = which,                                        \
                                               .dst = dst,                                         \
                                               .src = src,                                         \
                                               .bytes = bytes_each,                                \
                                               .operand = value},                                  \
                     order);                                                                       \
    }

ATOMIC(32, 4)
ATOMIC(64, 8)

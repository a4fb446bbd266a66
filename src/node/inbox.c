#include "node/inbox.h"

static struct tug_slot *slot_at(struct tug_inbox *inbox, uint64_t position) {
    return &inbox->slots[position % TUG_INBOX_SLOTS];
}

/* relaxed: its owner alone moves it */
static uint64_t head_of(const struct tug_inbox *inbox) {
    return atomic_load_explicit(&inbox->head, memory_order_relaxed);
}

static uint64_t turn_of(uint64_t position) {
    return position - position % TUG_INBOX_SLOTS;
}

struct tug_slot *tug_inbox_reserve(struct tug_inbox *inbox) {
    uint64_t position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
    for (;;) {
        struct tug_slot *slot = slot_at(inbox, position);
        /* acquire: pairs with the release in tug_inbox_release */
        const uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
        if ((int64_t)(turn - turn_of(position)) < 0)
            return NULL;
        if (turn != turn_of(position))
            position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&inbox->tail, &position, position + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            return slot;
    }
}

void tug_inbox_expect(struct tug_inbox *inbox) {
    const uint64_t position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
    __builtin_prefetch(slot_at(inbox, position), 0);
}

void tug_inbox_commit(struct tug_slot *slot, struct tug_bell *bell) {
    /* who has reserved it alone changes it */
    const uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);
    atomic_store(&slot->turn, turn + 1);
    (void)tug_bell_ring(bell, true);
}

struct tug_slot *tug_inbox_first(struct tug_inbox *inbox) {
    const uint64_t head = head_of(inbox);
    struct tug_slot *slot = slot_at(inbox, head);
    return atomic_load(&slot->turn) == turn_of(head) + 1 ? slot : NULL;
}

bool tug_inbox_has(const struct tug_inbox *inbox) {
    const uint64_t head = head_of(inbox);
    return atomic_load_explicit(&inbox->slots[head % TUG_INBOX_SLOTS].turn, memory_order_relaxed) ==
           turn_of(head) + 1;
}

void tug_inbox_settle(struct tug_inbox *inbox) {
    const uint64_t head = head_of(inbox);
    for (; inbox->released != head; inbox->released++)
        /* release: pairs with the acquire in tug_inbox_reserve */
        atomic_store_explicit(&slot_at(inbox, inbox->released)->turn,
                              turn_of(inbox->released) + TUG_INBOX_SLOTS, memory_order_release);
}

void tug_inbox_pass(struct tug_inbox *inbox) {
    tug_inbox_settle(inbox);
    atomic_store_explicit(&inbox->head, head_of(inbox) + 1, memory_order_relaxed);
}

void tug_inbox_release(struct tug_inbox *inbox) {
    atomic_store_explicit(&inbox->head, head_of(inbox) + 1, memory_order_relaxed);
    tug_inbox_settle(inbox);
}

void tug_inbox_await(struct tug_inbox *inbox) {
    /* release: pairs with the acquire in tug_inbox_owes(), who waits has been said */
    atomic_store_explicit(&inbox->awaited, 1, memory_order_release);
    /* pairs with the fence in tug_inbox_owes(): the caller's next look at a slot comes after it */
    atomic_thread_fence(memory_order_seq_cst);
}

bool tug_inbox_owes(struct tug_inbox *inbox) {
    const uint64_t head = head_of(inbox);
    if (head - inbox->asked >= TUG_INBOX_SLOTS / 2) {
        tug_inbox_settle(inbox);
        /* pairs with the fence in tug_inbox_await() */
        atomic_thread_fence(memory_order_seq_cst);
        inbox->asked = head;
    }
    if (atomic_load_explicit(&inbox->awaited, memory_order_relaxed) == 0 && !inbox->owes)
        return false;
    tug_inbox_settle(inbox);
    (void)atomic_exchange_explicit(&inbox->awaited, 0, memory_order_acq_rel);
    inbox->owes = false;
    return true;
}

void tug_inbox_still_owes(struct tug_inbox *inbox) {
    inbox->owes = true;
}

#include "node/inbox.h"

#include <string.h>

static struct tug_slot *slot_at(struct tug_inbox *inbox, uint64_t position) {
    return &inbox->slots[position % TUG_INBOX_SLOTS];
}

static uint64_t turn_of(uint64_t position) {
    return position - position % TUG_INBOX_SLOTS;
}

bool tug_inbox_put(struct tug_inbox *inbox, struct tug_bell *bell, const void *packet,
                   uint32_t bytes) {
    uint64_t position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
    struct tug_slot *slot;
    for (;;) {
        slot = slot_at(inbox, position);
        /* acquire: pairs with the release in tug_inbox_take */
        const uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
        if ((int64_t)(turn - turn_of(position)) < 0)
            return false;
        if (turn != turn_of(position))
            position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&inbox->tail, &position, position + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    slot->bytes = bytes;
    memcpy(slot->packet, packet, bytes);
    atomic_store(&slot->turn, turn_of(position) + 1);
    (void)tug_bell_ring(bell, true);
    return true;
}

uint32_t tug_inbox_take(struct tug_inbox *inbox, void *packet) {
    const uint64_t position = inbox->head;
    struct tug_slot *slot = slot_at(inbox, position);
    if (atomic_load(&slot->turn) != turn_of(position) + 1)
        return 0;
    uint32_t bytes = slot->bytes;
    if (bytes > TUG_INBOX_PACKET_BYTES)
        bytes = TUG_INBOX_PACKET_BYTES; /* its header will not agree */
    memcpy(packet, slot->packet, bytes);
    atomic_store_explicit(&slot->turn, turn_of(position) + TUG_INBOX_SLOTS, memory_order_release);
    inbox->head = position + 1;
    return bytes > 0 ? bytes : 1; /* of nothing: no packet either, and refused as such */
}

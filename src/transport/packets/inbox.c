#include "transport/packets/inbox.h"

#include <string.h>

void tug_inbox_init(struct tug_inbox *inbox) {
    for (uint64_t i = 0; i < TUG_INBOX_SLOTS; i++)
        atomic_init(&inbox->slots[i].seq, i);
}

bool tug_inbox_put(struct tug_inbox *inbox, struct tug_bell *bell, const void *packet,
                   uint32_t bytes) {
    uint64_t position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
    struct tug_slot *slot;
    for (;;) {
        slot = &inbox->slots[position % TUG_INBOX_SLOTS];
        /* acquire: pairs with the release in tug_inbox_take */
        uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
        if ((int64_t)(seq - position) < 0)
            return false;
        if (seq != position)
            position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&inbox->tail, &position, position + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    slot->bytes = bytes;
    memcpy(slot->packet, packet, bytes);
    atomic_store(&slot->seq, position + 1);
    (void)tug_bell_ring(bell, true);
    return true;
}

uint32_t tug_inbox_take(struct tug_inbox *inbox, uint64_t *head, void *packet) {
    struct tug_slot *slot = &inbox->slots[*head % TUG_INBOX_SLOTS];
    if (atomic_load(&slot->seq) != *head + 1)
        return 0;
    uint32_t bytes = slot->bytes;
    if (bytes > TUG_INBOX_PACKET_BYTES)
        bytes = TUG_INBOX_PACKET_BYTES; /* its header will not agree */
    memcpy(packet, slot->packet, bytes);
    atomic_store_explicit(&slot->seq, *head + TUG_INBOX_SLOTS, memory_order_release);
    ++*head;
    return bytes > 0 ? bytes : 1; /* of nothing: no packet either, and refused as such */
}

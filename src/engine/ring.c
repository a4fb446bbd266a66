#include "engine/ring.h"

#include <stdlib.h>

#include "tugboat/tugboat.h"

int tug_ring_init(struct tug_ring *ring, uint64_t size) {
    ring->cells = aligned_alloc(_Alignof(struct tug_command), size * sizeof(struct tug_command));
    if (ring->cells == NULL)
        return TUG_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < size; i++)
        atomic_init(&ring->cells[i].seq, i);
    atomic_init(&ring->state, 0);
    atomic_init(&ring->head, 0);
    ring->mask = size - 1;
    return 0;
}

void tug_ring_fini(struct tug_ring *ring) {
    free(ring->cells);
    ring->cells = NULL;
}

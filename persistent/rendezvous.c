/* The two ends of a rendezvous.
 *
 * The reader alone writes `to` and `written` until it opens the claims, and again when it has
 * closed them. While they are open both ends claim pieces by compare-and-swap, and the writer
 * counts up `written`. The message must stay as it is until the reader's count of slots passes the
 * offer.
 */
#include "persistent/rendezvous.h"

#include <string.h>

#include "base/copy.h"
#include "node/cma.h"
#include "persistent/copy.h"
#include "persistent/pair.h"

/* Short pieces let both ends take part in short messages; a call of attach costs as much as copying
 * some 10 KiB. */
#define PIECE_LEAST ((size_t)16384)
#define PIECE_MOST ((size_t)262144)
#define PIECES_MOST UINT16_MAX
#define TICKET ((uint32_t)1 << 31) /* no ticket is 0 */
#define CLOSED UINT32_MAX          /* below the ticket: more pieces than there are */

/* A reader that copies alone takes the message in one piece. */
static size_t piece_bytes(size_t bytes, bool alone) {
    size_t piece = alone ? bytes : PIECE_LEAST;
    while (piece < PIECE_MOST && 4 * piece <= bytes)
        piece *= 2;
    while (bytes / piece >= PIECES_MOST)
        piece *= 2;
    return piece;
}

static size_t pieces_of(size_t bytes, bool alone) {
    size_t piece = piece_bytes(bytes, alone);
    return (bytes + piece - 1) / piece;
}

/* A piece of a message. */
struct span {
    size_t at, bytes;
};

static struct span piece_at(size_t bytes, bool alone, size_t n) {
    size_t piece = piece_bytes(bytes, alone), at = n * piece;
    return (struct span){at, bytes - at < piece ? bytes - at : piece};
}

static uint64_t ticket_of(const struct tug_rendezvous_state *state) {
    return (uint64_t)((uint32_t)state->offer | TICKET) << 32;
}

static bool is_open(uint64_t claims, uint64_t ticket) {
    return claims >> 32 == ticket >> 32 && (uint32_t)claims != CLOSED;
}

static size_t from_front(uint64_t claims) {
    return claims >> 16 & UINT16_MAX;
}

static size_t from_back(uint64_t claims) {
    return claims & UINT16_MAX;
}

/* Claims the next piece from one's end. False: none is left, or the rendezvous is not open. */
static bool claim(struct tug_rendezvous *shared, const struct tug_rendezvous_state *state,
                  size_t bytes, bool alone, bool at_front, struct span *piece) {
    const size_t n = pieces_of(bytes, alone);
    const uint64_t ticket = ticket_of(state);
    /* acquire: `to` and `written` as they were when the reader opened it */
    uint64_t claims = atomic_load_explicit(&shared->claims, memory_order_acquire);
    while (is_open(claims, ticket) && from_front(claims) + from_back(claims) < n) {
        const uint64_t more = claims + (at_front ? (uint64_t)1 << 16 : 1);
        if (!atomic_compare_exchange_weak_explicit(&shared->claims, &claims, more,
                                                   memory_order_acquire, memory_order_acquire))
            continue;
        *piece = piece_at(bytes, alone, at_front ? from_front(claims) : n - 1 - from_back(claims));
        return true;
    }
    return false;
}

/* ---- the writer ---- */

void tug_rendezvous_offer(struct tug_segment_ring *ring, struct tug_rendezvous_state *state,
                          const void *message, struct tug_bell *readers) {
    if (!tug_pair_has_room(ring, 1))
        return;
    struct tug_slot_head *head = &ring->heads[ring->position % TUG_SEGMENT_SLOTS];
    const uint64_t address = (uint64_t)(uintptr_t)message;
    memcpy(head->data, &address, sizeof(address));
    state->offer = ++ring->position;
    /* release: the address, and the message, before the number; seq_cst: before the look at the
     * bell */
    atomic_store(&head->number, ring->position);
    tug_bell_ring(readers, true);
}

/* The writer copies a piece. False: there was none for it. */
static bool help(struct tug_rendezvous *shared, struct tug_rendezvous_state *state,
                 const unsigned char *message, size_t bytes, const struct tug_partner *reader) {
    struct span piece;
    if (reader->reader_alone || !claim(shared, state, bytes, false, false, &piece))
        return false;
    if (tug_cma_write(reader->pid, message + piece.at, shared->to + piece.at, piece.bytes) == 0) {
        state->copied++;
        /* release: what the kernel wrote before its count; seq_cst: before the look at the bell */
        atomic_fetch_add(&shared->written, 1);
    } else {
        atomic_store(&shared->claims, ticket_of(state) | CLOSED);
    }
    tug_bell_ring(reader->bell, true);
    return true;
}

bool tug_rendezvous_put(struct tug_segment_ring *ring, struct tug_rendezvous_state *state,
                        const void *message, size_t bytes, const struct tug_partner *reader) {
    if (state->offer == 0)
        tug_rendezvous_offer(ring, state, message, reader->bell);
    if (state->offer == 0 || help(ring->rendezvous, state, message, bytes, reader) ||
        !tug_pair_is_read(ring))
        return false;
    /* the reader has told that it is past the offer; the claims say whether it has the message */
    state->refused = atomic_load(&ring->rendezvous->claims) == (ticket_of(state) | CLOSED);
    return !state->refused;
}

/* ---- the reader ---- */

static void open_claims(struct tug_rendezvous *shared, const struct tug_rendezvous_state *state,
                        const void *message, const struct tug_partner *writer) {
    shared->to = (uint64_t)(uintptr_t)message;
    atomic_store_explicit(&shared->written, 0, memory_order_relaxed);
    /* release: both before the claims; pairs with claim(). seq_cst: before the look at the bell */
    atomic_store(&shared->claims, ticket_of(state));
    if (writer->wakes)
        tug_bell_ring(writer->bell, true);
}

static bool copy(const struct tug_segment_ring *ring, unsigned char *message, struct span piece,
                 const struct tug_partner *writer) {
    uint64_t address;
    if (writer->view != NULL) {
        if (writer->view_streams)
            tug_copy_streaming(message + piece.at, writer->view + piece.at, piece.bytes);
        else
            tug_copy(message + piece.at, writer->view + piece.at, piece.bytes);
        return true;
    }
    memcpy(&address, ring->heads[ring->position % TUG_SEGMENT_SLOTS].data, sizeof(address));
    return writer->pid != 0 &&
           tug_cma_read(writer->pid, message + piece.at, address + piece.at, piece.bytes) == 0;
}

/* The reader is past the offer: the writer may use the message and the pair again. */
static void let_go(struct tug_segment_ring *ring, const struct tug_partner *writer) {
    ring->position++;
    /* release: our reads are over, and the claims say how; seq_cst: before the look at the bell.
     * Pairs with tug_pair_is_read(). */
    atomic_store(&ring->reads->count, ring->position);
    tug_bell_ring(writer->bell, true);
}

bool tug_rendezvous_take(struct tug_segment_ring *ring, struct tug_rendezvous_state *state,
                         void *message, size_t bytes, const struct tug_partner *writer) {
    struct tug_rendezvous *shared = ring->rendezvous;
    struct span piece;
    if (state->offer == 0) {
        if (!tug_pair_has_news(ring))
            return false;
        state->offer = ring->position + 1;
        open_claims(shared, state, message, writer);
    }
    if (claim(shared, state, bytes, writer->reader_alone, true, &piece)) {
        if (copy(ring, message, piece, writer))
            state->copied++;
        else
            atomic_store(&shared->claims, ticket_of(state) | CLOSED);
    }
    /* acquire: pairs with the count in help(); seq_cst: the second look before we sleep */
    if (atomic_load(&shared->written) + state->copied == pieces_of(bytes, writer->reader_alone)) {
        atomic_store_explicit(&shared->claims, 0, memory_order_relaxed);
        let_go(ring, writer);
        return true;
    }
    state->refused = !is_open(atomic_load(&shared->claims), ticket_of(state));
    if (state->refused)
        let_go(ring, writer);
    return false;
}

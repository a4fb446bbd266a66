#include "base/copy.h"

#include <stdatomic.h>

#include "base/clock.h"

#define IN_PIECES_MOST 8192
#define SLOW 4 /* times as long as in pieces; on a machine that has it: twenty times */

#define PAGE 4096
#define CLOCK_NS 50 /* to look at the clock takes less */

enum { UNKNOWN, TRYING, FAST, IS_SLOW };

void tug_copy_pieces(void *to, const void *from, size_t bytes) {
    unsigned char *at = to;
    const unsigned char *rest = from;
    /* the compiler must not know how long a piece is: it has copies of its own by `rep` */
    for (size_t piece; bytes > 0; at += piece, rest += piece, bytes -= piece) {
        piece = bytes < TUG_COPY_PIECE ? bytes : TUG_COPY_PIECE;
        memmove(at, rest, piece);
    }
}

#ifdef __x86_64__
static void by_rep(void *to, const void *from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static uint64_t time_of(void (*copy)(void *to, const void *from, size_t bytes), unsigned char *to,
                        const unsigned char *from, size_t bytes) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 4; i++) { /* the first one brings the pages */
        const uint64_t begin = tug_clock_ns();
        copy(to, from, bytes);
        const uint64_t took = tug_clock_ns() - begin;
        least = took < least ? took : least;
    }
    return least;
}

bool tug_copy_is_slow(void) {
    static _Atomic int known;
    static unsigned char pages[4 * PAGE] __attribute__((aligned(PAGE)));
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN && atomic_compare_exchange_strong(&known, &answer, TRYING)) {
        unsigned char *to = pages + 2 * PAGE + TUG_COPY_NEAR / 2;
        const uint64_t pieces = time_of(tug_copy_pieces, to, pages, PAGE);
        const uint64_t took = time_of(by_rep, to, pages, PAGE);
        answer = took > SLOW * (pieces + CLOCK_NS) ? IS_SLOW : FAST;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == IS_SLOW;
}
#else
bool tug_copy_is_slow(void) {
    return false;
}
#endif

void tug_copy_long(void *to, const void *from, size_t bytes) {
    if (bytes <= IN_PIECES_MOST || (tug_copy_is_near(to, from) && tug_copy_is_slow()))
        tug_copy_pieces(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* What a test may ask the stand-in for libibverbs (fake_ibverbs.c): what this process has had the
 * card do. A program that is not linked with the stand-in finds fake_card_counts() by dlsym() in
 * libibverbs.so.1. Any thread. */
#ifndef TUG_TEST_FAKE_CARD_H
#define TUG_TEST_FAKE_CARD_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of work requests. A SEND with immediate data is a SEND. */
enum fake_kind {
    FAKE_SEND,
    FAKE_WRITE,
    FAKE_WRITE_WITH_IMM,
    FAKE_READ,
    FAKE_CMP_AND_SWP,
    FAKE_FETCH_AND_ADD,
    FAKE_KINDS
};

/* Since the process opened its first device; all members are uint64_t. */
struct fake_card_counts {
    uint64_t requests[FAKE_KINDS];  /* posted */
    uint64_t in_line[FAKE_KINDS];   /* of these, with their data in line */
    uint64_t signalled[FAKE_KINDS]; /* of these, with a completion that was asked for */
    uint64_t bytes[FAKE_KINDS];     /* moved by those that ended well */
    uint64_t post_sends;            /* calls of ibv_post_send: doorbells */
    uint64_t post_recvs;            /* calls of ibv_post_recv */
    uint64_t post_srq_recvs;        /* calls of ibv_post_srq_recv */
    uint64_t completions;           /* polled, of receives too */
    uint64_t registrations;         /* calls of ibv_reg_mr and ibv_reg_mr_iova */
    uint64_t deregistrations;
    uint64_t registered_bytes; /* at the moment, not since then */
};

/* All zeros before a device has been opened. */
void fake_card_counts(struct fake_card_counts *out);

/* What has been counted between two calls. registered_bytes: the growth, modulo 2^64. */
static inline struct fake_card_counts fake_card_between(const struct fake_card_counts *before,
                                                        const struct fake_card_counts *after) {
    struct fake_card_counts between;
    const uint64_t *from = (const uint64_t *)before, *to = (const uint64_t *)after;
    for (size_t i = 0; i < sizeof between / sizeof(uint64_t); i++)
        ((uint64_t *)&between)[i] = to[i] - from[i];
    return between;
}

#endif

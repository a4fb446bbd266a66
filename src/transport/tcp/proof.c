#include "transport/tcp/proof.h"

#include <string.h>

/* What is digested; no padding. */
struct message {
    char label[16];
    uint64_t side, word;
    struct tug_tcp_said said;
};

bool tug_tcp_prove(const unsigned char *key, const struct tug_tcp_said *said,
                   enum tug_tcp_side side, uint64_t word, unsigned char proof[TUG_DIGEST_BYTES]) {
    const struct message message = {
        .label = "tugboat tcp", .side = side, .word = word, .said = *said};
    memset(proof, 0, TUG_DIGEST_BYTES);
    return key == NULL || tug_digest(key, TUG_TCP_KEY_BYTES, &message, sizeof(message), proof);
}

bool tug_tcp_is_proof(const unsigned char *key, const struct tug_tcp_said *said,
                      enum tug_tcp_side side, uint64_t word,
                      const unsigned char proof[TUG_DIGEST_BYTES]) {
    unsigned char right[TUG_DIGEST_BYTES];
    return tug_tcp_prove(key, said, side, word, right) && tug_digest_same(right, proof);
}

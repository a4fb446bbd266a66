/* What two processes say to each other before packets go by a connection, and how each proves that
 * it knows the key of the process that is connected to.
 *
 * Every process has a key, random bytes, which it tells the processes that it has a context with,
 * by the host's own messages, and nobody else. By the connection the key is never sent: who is
 * asked sends a digest of what has been said under it (base/digest.h).
 *
 *      connects                                 is connected to
 *        | -- hello: to whom, who, word, nonce --> |  ends it, if the id is not its own
 *        | <------------------ challenge: nonce -- |
 *        | -- proof -----------------------------> |  ends it, if the digest is wrong
 *        | <---------------- answer: word, proof - |
 *
 * Both nonces are in both digests, so what was said by another connection is of no use. So are both
 * ids, the words, and which of the two it is that speaks, so a proof is not good for the other way.
 *
 * Who can change what goes by the network is not kept out by that: packets carry no proofs.
 *
 * Without digests (TUGBOAT_PROOF=off, or a job whose connections do not leave the host) all proofs
 * are zeros: then a process that knows the ids is believed.
 */
#ifndef TUG_TRANSPORT_TCP_PROOF_H
#define TUG_TRANSPORT_TCP_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"

#define TUG_TCP_KEY_BYTES 16 /* 128 bits cannot be tried out */
#define TUG_TCP_NONCE_BYTES 16

#define TUG_TCP_HELLO_MAGIC 0x3670637462677574u     /* "tugbtcp6" */
#define TUG_TCP_CHALLENGE_MAGIC 0x3663637462677574u /* "tugbtcc6" */

struct tug_tcp_hello {
    uint64_t magic;
    uint64_t destination, source; /* ids */
    uint64_t word;                /* enum tug_tcp_word */
    unsigned char nonce[TUG_TCP_NONCE_BYTES];
};

struct tug_tcp_challenge {
    uint64_t magic;
    unsigned char nonce[TUG_TCP_NONCE_BYTES];
};

struct tug_tcp_answer {
    uint64_t word; /* enum tug_tcp_word */
    unsigned char proof[TUG_DIGEST_BYTES];
};

/* What has been said by a connection. */
struct tug_tcp_said {
    struct tug_tcp_hello hello;
    unsigned char nonce[TUG_TCP_NONCE_BYTES]; /* the challenge's */
};

enum tug_tcp_side { TUG_TCP_CONNECTS, TUG_TCP_IS_CONNECTED_TO };

/* The proof of that side, whose word is that (of the one that connects: hello's), under the key of
 * the process that is connected to; NULL: zeros. False: there is none to be had now. */
bool tug_tcp_prove(const unsigned char *key, const struct tug_tcp_said *said,
                   enum tug_tcp_side side, uint64_t word, unsigned char proof[TUG_DIGEST_BYTES]);

/* Is it that proof? */
bool tug_tcp_is_proof(const unsigned char *key, const struct tug_tcp_said *said,
                      enum tug_tcp_side side, uint64_t word,
                      const unsigned char proof[TUG_DIGEST_BYTES]);

#endif

#include "base/digest.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define BLOCK_BYTES 64

/* ---- SHA-256 ---- */

struct sha256 {
    uint32_t state[8];
    unsigned char block[BLOCK_BYTES];
    uint64_t bytes; /* so far; the rest of a division by the block's is in the block */
};

/* The first bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t word, unsigned bits) {
    return word >> bits | word << (32 - bits);
}

static void mix_block(struct sha256 *sha256) {
    uint32_t w[64], s[8];
    for (size_t i = 0; i < 16; i++) {
        memcpy(&w[i], sha256->block + 4 * i, sizeof(w[i]));
        w[i] = be32toh(w[i]);
    }
    for (size_t i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, sha256->state, sizeof(s));
    for (size_t i = 0; i < 64; i++) {
        const uint32_t one = s[7] + (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) +
                             ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
        const uint32_t two = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) +
                             ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(&s[1], &s[0], 7 * sizeof(s[0]));
        s[4] += one;
        s[0] = one + two;
    }
    for (size_t i = 0; i < 8; i++)
        sha256->state[i] += s[i];
}

static void take(struct sha256 *sha256, const void *message, size_t bytes) {
    const unsigned char *from = message;
    for (size_t i = 0; i < bytes; i++) {
        sha256->block[sha256->bytes++ % BLOCK_BYTES] = from[i];
        if (sha256->bytes % BLOCK_BYTES == 0)
            mix_block(sha256);
    }
}

/* Of two pieces, one behind the other. */
static void hash(const void *first, size_t first_bytes, const void *second, size_t second_bytes,
                 unsigned char digest[TUG_DIGEST_BYTES]) {
    static const unsigned char padding[BLOCK_BYTES] = {0x80};
    struct sha256 sha256 = {.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    take(&sha256, first, first_bytes);
    take(&sha256, second, second_bytes);
    const uint64_t bits = htobe64(8 * sha256.bytes);
    const size_t used = (sha256.bytes + sizeof(bits)) % BLOCK_BYTES;
    take(&sha256, padding, BLOCK_BYTES - used);
    take(&sha256, &bits, sizeof(bits));
    for (size_t i = 0; i < 8; i++)
        sha256.state[i] = htobe32(sha256.state[i]);
    memcpy(digest, sha256.state, TUG_DIGEST_BYTES);
}

/* ---- HMAC ---- */

void tug_digest(const void *key, size_t key_bytes, const void *message, size_t bytes,
                unsigned char digest[TUG_DIGEST_BYTES]) {
    unsigned char inner[BLOCK_BYTES] = {0}, outer[BLOCK_BYTES];
    if (key_bytes <= BLOCK_BYTES)
        memcpy(inner, key, key_bytes);
    else
        hash(key, key_bytes, NULL, 0, inner);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    hash(inner, BLOCK_BYTES, message, bytes, digest);
    hash(outer, BLOCK_BYTES, digest, TUG_DIGEST_BYTES, digest);
}

bool tug_digest_same(const unsigned char one[TUG_DIGEST_BYTES],
                     const unsigned char other[TUG_DIGEST_BYTES]) {
    const volatile unsigned char *a = one, *b = other; /* each byte is read */
    unsigned char differ = 0;
    for (size_t i = 0; i < TUG_DIGEST_BYTES; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* Keyed digests: HMAC-SHA-256 (RFC 2104, FIPS 180-4), by which a process shows that it knows a key
 * without telling it. Any thread. Takes a few microseconds.
 */
#ifndef TUG_BASE_DIGEST_H
#define TUG_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#define TUG_DIGEST_BYTES 32

/* The digest of a message under a key, both of any length. */
void tug_digest(const void *key, size_t key_bytes, const void *message, size_t bytes,
                unsigned char digest[TUG_DIGEST_BYTES]);

/* Are the two alike? Takes as long whatever they differ in. */
bool tug_digest_same(const unsigned char one[TUG_DIGEST_BYTES],
                     const unsigned char other[TUG_DIGEST_BYTES]);

#endif

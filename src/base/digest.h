/* Keyed digests: HMAC-SHA-256 (RFC 2104, FIPS 180-4), by which a process shows that it knows a key
 * without telling it.
 *
 * SHA-256 is libcrypto.so.3's, found at run time, or the whole digest the kernel's (AF_ALG): the
 * library needs neither to be there. From libcrypto it takes the functions that keep no state:
 * HMAC() there takes 6 ms and 2 MB at its first call, and reads OpenSSL's configuration for the
 * whole program.
 *
 * Either is used only if it gets a known digest right. Any thread. Takes a microsecond, by the
 * kernel some tens and two descriptors meanwhile.
 */
#ifndef TUG_BASE_DIGEST_H
#define TUG_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#define TUG_DIGEST_BYTES 32

/* Who makes digests here: "libcrypto.so.3", "the kernel", or NULL: nobody. The first call loads the
 * library, which takes a millisecond. */
const char *tug_digest_source(void);

/* The digest of a message under a key, both of any length. False: nobody makes digests here, or
 * the kernel has no descriptor for it now. */
bool tug_digest(const void *key, size_t key_bytes, const void *message, size_t bytes,
                unsigned char digest[TUG_DIGEST_BYTES]);

/* Are the two alike? Takes as long whatever they differ in. */
bool tug_digest_same(const unsigned char one[TUG_DIGEST_BYTES],
                     const unsigned char other[TUG_DIGEST_BYTES]);

/* ---- for tests ---- */

/* By one of the two. False: it is not to be had. */
bool tug_digest_by_library(const void *key, size_t key_bytes, const void *message, size_t bytes,
                           unsigned char digest[TUG_DIGEST_BYTES]);
bool tug_digest_by_kernel(const void *key, size_t key_bytes, const void *message, size_t bytes,
                          unsigned char digest[TUG_DIGEST_BYTES]);

#endif

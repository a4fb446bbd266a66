#include "base/digest.h"

#include <dlfcn.h>
#include <linux/if_alg.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIBRARY "libcrypto.so.3"
#define BLOCK_BYTES 64 /* SHA-256's */

typedef bool making(const void *key, size_t key_bytes, const void *message, size_t bytes,
                    unsigned char digest[TUG_DIGEST_BYTES]);

static pthread_once_t load_once = PTHREAD_ONCE_INIT, choose_once = PTHREAD_ONCE_INIT;
static const char *source;
static making *make;

/* ---- by the library ---- */

/* SHA256_CTX, which takes 112 bytes. */
struct sha256 {
    uint64_t words[32];
};

static struct {
    int (*init)(struct sha256 *sha256);
    int (*update)(struct sha256 *sha256, const void *message, size_t bytes);
    int (*final)(unsigned char digest[TUG_DIGEST_BYTES], struct sha256 *sha256);
} library;

static void load(void) {
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return;
    library.init = (__typeof__(library.init))dlsym(handle, "SHA256_Init");
    library.update = (__typeof__(library.update))dlsym(handle, "SHA256_Update");
    library.final = (__typeof__(library.final))dlsym(handle, "SHA256_Final");
}

/* Of two pieces, one behind the other. */
static bool hash(const void *first, size_t first_bytes, const void *second, size_t second_bytes,
                 unsigned char digest[TUG_DIGEST_BYTES]) {
    struct sha256 sha256;
    return library.init(&sha256) == 1 && library.update(&sha256, first, first_bytes) == 1 &&
           library.update(&sha256, second, second_bytes) == 1 &&
           library.final(digest, &sha256) == 1;
}

bool tug_digest_by_library(const void *key, size_t key_bytes, const void *message, size_t bytes,
                           unsigned char digest[TUG_DIGEST_BYTES]) {
    unsigned char block[BLOCK_BYTES] = {0}, inner[BLOCK_BYTES], outer[BLOCK_BYTES];
    pthread_once(&load_once, load);
    if (library.init == NULL || library.update == NULL || library.final == NULL)
        return false;
    if (key_bytes <= sizeof(block))
        memcpy(block, key, key_bytes);
    else if (!hash(key, key_bytes, NULL, 0, block))
        return false;
    for (size_t i = 0; i < sizeof(block); i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    return hash(inner, sizeof(inner), message, bytes, digest) &&
           hash(outer, sizeof(outer), digest, TUG_DIGEST_BYTES, digest);
}

/* ---- by the kernel ---- */

bool tug_digest_by_kernel(const void *key, size_t key_bytes, const void *message, size_t bytes,
                          unsigned char digest[TUG_DIGEST_BYTES]) {
    const struct sockaddr_alg name = {
        .salg_family = AF_ALG, .salg_type = "hash", .salg_name = "hmac(sha256)"};
    const int keyed = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int one = -1;
    if (keyed >= 0 && bind(keyed, (const struct sockaddr *)&name, sizeof(name)) == 0 &&
        setsockopt(keyed, SOL_ALG, ALG_SET_KEY, key, (socklen_t)key_bytes) == 0)
        one = accept4(keyed, NULL, NULL, SOCK_CLOEXEC);
    const bool made = one >= 0 && send(one, message, bytes, 0) == (ssize_t)bytes &&
                      read(one, digest, TUG_DIGEST_BYTES) == TUG_DIGEST_BYTES;
    if (one >= 0)
        close(one);
    if (keyed >= 0)
        close(keyed);
    return made;
}

/* ---- by one of them ---- */

/* The second case of RFC 4231. */
static bool gets_it_right(making *by) {
    static const char key[] = "Jefe", message[] = "what do ya want for nothing?";
    static const unsigned char right[TUG_DIGEST_BYTES] = {
        0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
        0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
        0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    unsigned char digest[TUG_DIGEST_BYTES];
    return by(key, sizeof(key) - 1, message, sizeof(message) - 1, digest) &&
           tug_digest_same(digest, right);
}

static void choose(void) {
    if (gets_it_right(tug_digest_by_library)) {
        make = tug_digest_by_library;
        source = LIBRARY;
    } else if (gets_it_right(tug_digest_by_kernel)) {
        make = tug_digest_by_kernel;
        source = "the kernel";
    }
}

const char *tug_digest_source(void) {
    pthread_once(&choose_once, choose);
    return source;
}

bool tug_digest(const void *key, size_t key_bytes, const void *message, size_t bytes,
                unsigned char digest[TUG_DIGEST_BYTES]) {
    return tug_digest_source() != NULL && make(key, key_bytes, message, bytes, digest);
}

bool tug_digest_same(const unsigned char one[TUG_DIGEST_BYTES],
                     const unsigned char other[TUG_DIGEST_BYTES]) {
    const volatile unsigned char *a = one, *b = other; /* each byte is read */
    unsigned char differ = 0;
    for (size_t i = 0; i < TUG_DIGEST_BYTES; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

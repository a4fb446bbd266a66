/* Keyed digests: those of RFC 4231, by whoever makes them here, and comparison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"

#define LONGEST 200

/* Test cases 1 to 4, 6 and 7; the fifth is of a digest cut short. A text, or so many bytes alike,
 * or 1, 2, 3, ... */
struct piece {
    const char *text;
    unsigned char byte;
    size_t bytes;
};

static const struct {
    struct piece key, message;
    const char *digest;
} vectors[] = {
    {{NULL, 0x0b, 20},
     {"Hi There", 0, 0},
     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {{"Jefe", 0, 0},
     {"what do ya want for nothing?", 0, 0},
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {{NULL, 0xaa, 20},
     {NULL, 0xdd, 50},
     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {{NULL, 0, 25},
     {NULL, 0xcd, 50},
     "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    {{NULL, 0xaa, 131},
     {"Test Using Larger Than Block-Size Key - Hash Key First", 0, 0},
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {{NULL, 0xaa, 131},
     {"This is a test using a larger than block-size key and a larger than block-size data. The "
      "key needs to be hashed before being used by the HMAC algorithm.",
      0, 0},
     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
};

static size_t spell(const struct piece *piece, unsigned char to[LONGEST]) {
    const size_t bytes = piece->text != NULL ? strlen(piece->text) : piece->bytes;
    assert_true(bytes <= LONGEST);
    for (size_t i = 0; i < bytes; i++)
        to[i] = piece->text != NULL ? (unsigned char)piece->text[i]
                : piece->byte != 0  ? piece->byte
                                    : (unsigned char)(i + 1);
    return bytes;
}

typedef bool making(const void *key, size_t key_bytes, const void *message, size_t bytes,
                    unsigned char digest[TUG_DIGEST_BYTES]);

static void expect_vectors(making *by) {
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        unsigned char key[LONGEST], message[LONGEST], digest[TUG_DIGEST_BYTES];
        char hex[2 * TUG_DIGEST_BYTES + 1];
        const size_t key_bytes = spell(&vectors[i].key, key);
        const size_t bytes = spell(&vectors[i].message, message);
        assert_true(by(key, key_bytes, message, bytes, digest));
        for (size_t k = 0; k < TUG_DIGEST_BYTES; k++)
            snprintf(hex + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(hex, vectors[i].digest);
    }
}

/* False: it is not to be had here. */
static bool is_there(making *by) {
    unsigned char digest[TUG_DIGEST_BYTES];
    return by("key", 3, "message", 7, digest);
}

static void by_the_library(void **state) {
    (void)state;
    if (!is_there(tug_digest_by_library)) {
        assert_true(tug_digest_source() == NULL || strcmp(tug_digest_source(), "the kernel") == 0);
        skip();
    }
    expect_vectors(tug_digest_by_library);
    assert_string_equal(tug_digest_source(), "libcrypto.so.3");
}

static void by_the_kernel(void **state) {
    (void)state;
    if (!is_there(tug_digest_by_kernel))
        skip();
    expect_vectors(tug_digest_by_kernel);
}

static void by_whoever_is_there(void **state) {
    (void)state;
    assert_true((tug_digest_source() != NULL) ==
                (is_there(tug_digest_by_library) || is_there(tug_digest_by_kernel)));
    if (tug_digest_source() == NULL)
        assert_false(is_there(tug_digest));
    else
        expect_vectors(tug_digest);
}

static void digests_differ_in_any_bit(void **state) {
    unsigned char one[TUG_DIGEST_BYTES], other[TUG_DIGEST_BYTES];
    (void)state;
    memset(one, 0x5a, sizeof(one));
    memcpy(other, one, sizeof(one));
    assert_true(tug_digest_same(one, other));
    for (unsigned bit = 0; bit < 8 * TUG_DIGEST_BYTES; bit++) {
        other[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(tug_digest_same(one, other));
        other[bit / 8] = one[bit / 8];
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_library),
        cmocka_unit_test(by_the_kernel),
        cmocka_unit_test(by_whoever_is_there),
        cmocka_unit_test(digests_differ_in_any_bit),
    };
    return cmocka_run_group_tests_name("base/digest", tests, NULL, NULL);
}

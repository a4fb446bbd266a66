/* Copying out of memory that ranks share, into the program's buffers.
 *
 * A plain copy leaves the lines in the copier's cache. It is best as long as the buffers stay in
 * the last-level cache, where the program will find its data. Beyond, the lines it writes are
 * fetched from memory and pushed out again before anybody reads them. A streaming copy writes past
 * the caches, and does not read first what it is going to overwrite.
 *
 * Into that memory the copy is always plain: the reader fetches the lines from the writer's cache.
 */
#ifndef TUG_PERSISTENT_COPY_H
#define TUG_PERSISTENT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/copy.h"

/* Bytes of a last-level cache that one of `nranks` ranks of this node has, if as many of them share
 * the cache as have cores there; SIZE_MAX if the kernel does not say. Any thread. */
size_t tug_copy_cache_share(int nranks);

/* The copy is visible before any later store. */
static inline void tug_copy_streaming(void *destination, const void *source, size_t bytes) {
#ifdef __SSE2__
    const size_t line = 64;
    unsigned char *to = destination;
    const unsigned char *from = source;
    size_t head = -(uintptr_t)to % line;
    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    to += head;
    from += head;
    bytes -= head;
    size_t whole = bytes / line * line;
    for (size_t i = 0; i < whole; i += line) {
        __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); /* streaming stores are not ordered by the release store that follows */
#else
    tug_copy(destination, source, bytes);
#endif
}

#endif

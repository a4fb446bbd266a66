/* Copying into memory that another core will read.
 *
 * Two ways. A plain memcpy leaves the lines in the writer's cache, and the reader fetches them from
 * there: best where cores share a last-level cache. A streaming copy writes past the caches, and
 * the reader's prefetchers stream from memory: twice as fast where every line would have to cross
 * between two last-level caches. Which of the two a machine (or a placement on it) wants is
 * measured by tug_probe_channel().
 */
#ifndef TUG_PERSISTENT_COPY_H
#define TUG_PERSISTENT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* destination is aligned to a cache line. The copy is visible before any later store. */
static inline void tug_copy_streaming(void *destination, const void *source, size_t bytes) {
#ifdef __SSE2__
    const size_t line = 64;
    unsigned char *to = destination;
    const unsigned char *from = source;
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
    memcpy(destination, source, bytes);
#endif
}

#endif

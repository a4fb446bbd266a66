/* The input of the fuzz target: a script of bytes, each of which decides something. */
#include "played.h"

static const uint8_t *next, *end;

void script_begin(const uint8_t *data, size_t bytes) {
    next = data;
    end = data + bytes;
}

bool script_is_over(void) {
    return next >= end;
}

void script_skip(void) {
    next = end;
}

unsigned take(void) {
    return next < end ? *next++ : 0;
}

uint64_t take_number(void) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | take();
    return value;
}

uint64_t take_size(void) {
    static const uint32_t sizes[] = {0,         1,     4,     8,     23,         24,    25,
                                     64,        100,   4096,  4097,  PIECE - 1,  PIECE, PIECE + 1,
                                     3 * PIECE, 65535, 65536, 70000, 40 * PIECE, 8192,  20000};
    return sizes[take() % (sizeof(sizes) / sizeof(sizes[0]))];
}

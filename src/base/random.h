/* Random bytes from the kernel: what no other process can guess. */
#ifndef TUG_BASE_RANDOM_H
#define TUG_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/* False: the kernel has none to give. Any thread. */
bool tug_random_draw(void *to, size_t bytes);

#endif

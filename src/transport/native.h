/* The native transport (native.c): what others may know of it. */
#ifndef TUG_TRANSPORT_NATIVE_H
#define TUG_TRANSPORT_NATIVE_H

#include "transport/transport.h"

/* Smaller blocks are left to packets, since each block takes three messages more. */
#define TUG_NATIVE_MIN ((uint64_t)65536)

/* Bytes a process, while it moves nothing. */
size_t tug_native_footprint(uint32_t operations);

#endif

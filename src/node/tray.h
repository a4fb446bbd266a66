/* Trays: where the others of its node put what a process has asked them for (transport/lone.h).
 *
 * A tray lies behind the process's page (page.h) and has some cells, which it hands out itself. Who
 * is asked fills one and then says so, in the cell's first cache line, with which a short answer
 * comes. Zeroed memory is an empty tray.
 *
 * Pairing: `answer` is stored and loaded seq_cst: what is in the cell is seen, and who answers
 * looks then whether the owner sleeps, who looks last at the tray before it does (park.h).
 */
#ifndef TUG_NODE_TRAY_H
#define TUG_NODE_TRAY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/cpu.h"

#define TUG_TRAY_CELLS 64u
#define TUG_CELL_BYTES                                                                             \
    (65u * TUG_CACHE_LINE)                 /* an odd number of lines: cells differ in their sets */
#define TUG_CELL_ROOM (TUG_CELL_BYTES - 8) /* of data */

struct tug_cell {
    _Atomic uint32_t answer; /* 0: none so far; else 1 + the positive value of a TUG_ERR_*, or 1 */
    uint32_t bytes;          /* of data, where some were asked for */
    unsigned char data[TUG_CELL_ROOM];
} __attribute__((aligned(TUG_CACHE_LINE)));

_Static_assert(sizeof(struct tug_cell) == TUG_CELL_BYTES, "a cell is whole cache lines");

struct tug_tray {
    struct tug_cell cells[TUG_TRAY_CELLS];
};

#endif

#include "host/level.h"

#include "base/log.h"

struct tug_level tug_level;

void tug_level_note_passed(void) {
    tug_warn_once("MPI runs at the program's own thread level, so that windows and persistent "
                  "collectives pass through to the host (TUGBOAT_THREADS=multiple takes them): "
                  "nothing that was loaded when it started calls for them, or what makes error "
                  "handlers there throws or jumps");
}

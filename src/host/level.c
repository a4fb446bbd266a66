#include "host/level.h"

#include "base/log.h"

struct tug_level tug_level;

void tug_level_note_passed(void) {
    tug_warn_once("nothing that was loaded when MPI started calls for windows or persistent "
                  "collectives, so it runs at the program's own thread level: those that come now "
                  "pass through to the host (TUGBOAT_THREADS=multiple takes them)");
}

/* Memory of devices: what the program hands over may lie where no CPU can load and store.
 *
 * Whoever can tell is the runtime of the device, if there is one in the process: CUDA's, HIP's or
 * Level Zero's driver library. It is found by its symbols when MPI starts, needs no headers, and is
 * asked when a window is made or a persistent collective initialised. Such memory is left to the
 * host. Any thread.
 */
#ifndef TUG_HOST_DEVICE_H
#define TUG_HOST_DEVICE_H

#include <stdbool.h>

/* A runtime is in the process. */
extern bool tug_devices;

/* Looks for one, if objects have been loaded since it was last called. By one thread at a time
 * where a runtime comes late. */
void tug_device_look(void);

bool tug_device_owns(const void *address);

/* True for addresses in a device's memory. Without a runtime one predictable branch. */
static inline bool tug_is_device(const void *address) {
    return __builtin_expect(tug_devices, 0) && tug_device_owns(address);
}

#endif

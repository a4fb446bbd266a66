/* What this kernel, or the container, has of the system calls that Tugboat would rather use. */
#ifndef TUG_CMD_KERNEL_H
#define TUG_CMD_KERNEL_H

/* Calls tell() for each that is refused: its name, where it comes from, and what is done without
 * it. Returns how many there are. */
unsigned tug_kernel_refusals(void (*tell)(const char *call, const char *since,
                                          const char *instead));

#endif

/* What the original ACP's programs for measuring take from <acpbl_sync.h>: its clock. Include
 * <acp.h> for all else. The original's atomics on a process's own memory (sync_*) are not here:
 * libraries above its basic layer use them, and its programs do not. */
#ifndef __ACPBL_SYNC_H__ /* the guard of the original header */
#define __ACPBL_SYNC_H__

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On x86-64 the ticks of the processor's time-stamp counter, elsewhere nanoseconds of the
 * system's clock. Any thread. */
static inline uint64_t get_clock(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    struct timespec now = {0, 0};
    (void)timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

#ifdef __cplusplus
}
#endif

#endif

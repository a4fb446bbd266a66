/* Whether a schedule could run by itself. */
#ifndef SCHEDULE_CHECK_H
#define SCHEDULE_CHECK_H

#include <stdint.h>

#include "schedule/schedule.h"

/* 0, or -1 with the reason in `why`, for a schedule that could not run: steps to queues that do not
 * exist, places outside of their areas, positions beyond passes, more steps than segments, a queue
 * that can never end. input, output: elements of the program's buffers. */
int schedule_check(const struct tug_schedule *schedule, uint64_t input, uint64_t output,
                   char why[128]);

#endif

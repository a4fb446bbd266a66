/*
 * lane.h: which lane a window says it is in.
 */
#ifndef TUG_TESTS_MPI_LANE_H
#define TUG_TESTS_MPI_LANE_H

#include "check.h"

#define LANE_MOST 32

/* "direct", "packet", "native", or "none" without the tug. */
__attribute__((unused)) static void lane_of(MPI_Win win, char lane[LANE_MOST]) {
    int flag;
    MPI_Info info;
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get(info, "tugboat_lane", LANE_MOST - 1, lane, &flag));
    int told;
    char reason[MPI_MAX_INFO_VAL + 1] = "";
    MUST(MPI_Info_get(info, "tugboat_lane_reason", MPI_MAX_INFO_VAL, reason, &told));
    CHECK(told == flag && (!told || reason[0] != '\0'), "lane %s, reason '%s'", lane, reason);
    MUST(MPI_Info_free(&info));
    if (!flag)
        strcpy(lane, "none");
}

__attribute__((unused)) static bool lane_is(MPI_Win win, const char *name) {
    char lane[LANE_MOST];
    lane_of(win, lane);
    return strcmp(lane, name) == 0;
}

__attribute__((unused)) static bool lane_is_direct(MPI_Win win) {
    return lane_is(win, "direct");
}

__attribute__((unused)) static bool lane_is_packet(MPI_Win win) {
    return lane_is(win, "packet");
}

/* In these lanes the library itself does what is asked for; the host MPI's limits are not there. */
__attribute__((unused)) static bool lane_is_ours(MPI_Win win) {
    return lane_is_direct(win) || lane_is_packet(win);
}

#endif

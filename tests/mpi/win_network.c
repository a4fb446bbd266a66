/*
 * win_network: windows where the host MPI reaches other nodes by a card that does RDMA.
 *
 * Usage: win_network LANE [WORD]: windows over several nodes are in that lane, with a reason, in
 * which the word is, and right.
 * To the tool rdma_host this process has a card open: /dev/zero. What the program asks for by info
 * it gets in any case.
 */
#include "lane.h"

#include <fcntl.h>
#include <unistd.h>

enum { WORDS = 1024 };

static void check_reason(MPI_Win win, const char *word) {
    int told;
    MPI_Info info;
    char reason[MPI_MAX_INFO_VAL + 1] = "";
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get(info, "tugboat_lane_reason", MPI_MAX_INFO_VAL, reason, &told));
    CHECK(strstr(reason, word) != NULL, "reason '%s', without '%s'", reason, word);
    MUST(MPI_Info_free(&info));
}

static void run(MPI_Info info, const char *lane, const char *word) {
    int64_t *memory, mine[WORDS];
    MPI_Win win;
    const int next = (check_rank + 1) % check_nranks;
    const int before = (check_rank + check_nranks - 1) % check_nranks;
    MUST(MPI_Alloc_mem(sizeof mine, MPI_INFO_NULL, &memory));
    memset(memory, 0, sizeof mine);
    MUST(MPI_Win_create(memory, sizeof mine, 8, info, MPI_COMM_WORLD, &win));
    char is[LANE_MOST];
    lane_of(win, is);
    CHECK(strcmp(is, "none") == 0 || strcmp(is, lane) == 0, "lane %s, not %s", is, lane);
    if (word != NULL)
        check_reason(win, word);
    for (int i = 0; i < WORDS; i++)
        mine[i] = check_rank * 10000 + i;
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(mine, WORDS, MPI_INT64_T, next, 0, WORDS, MPI_INT64_T, win));
    MUST(MPI_Win_fence(0, win));
    for (int i = 0; i < WORDS; i++)
        CHECK(memory[i] == before * 10000 + i, "word %d is %ld", i, (long)memory[i]);
    MUST(MPI_Win_free(&win));
    MUST(MPI_Free_mem(memory));
}

int main(int argc, char **argv) {
    const int card = open("/dev/zero", O_RDONLY);
    CHECK(card >= 0, "no /dev/zero");
    check_begin(&argc, &argv, "win_network");
    const char *lane = argc > 1 ? argv[1] : "packet";
    run(MPI_INFO_NULL, lane, argc > 2 ? argv[2] : NULL);
    MPI_Info info;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "tugboat_lane", "packet"));
    run(info, "packet", NULL);
    MUST(MPI_Info_set(info, "tugboat_lane", "native"));
    run(info, "native", NULL);
    MUST(MPI_Info_free(&info));
    close(card);
    return check_end();
}

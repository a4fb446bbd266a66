/* acp_row.c: a first ACP program. Rank 0 lets a row of numbers travel through the memory of all
 * ranks, although it owns none of the ends but the first and the last; then all draw tickets. */
#include <acp.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 100 };

/* A command that could not begin has no handle: then the row would not be what it should. */
static acp_handle_t begun(acp_handle_t handle) {
    if (handle == ACP_HANDLE_NULL)
        acp_abort("a command could not begin");
    return handle;
}

int main(int argc, char **argv) {
    if (acp_init(&argc, &argv) != 0)
        return 1;
    int me = acp_rank(), ranks = acp_procs();

    /* memory of one's own, whose address the others read in the starter memory */
    static double row[NUMBERS];
    acp_atkey_t key = acp_register_memory(row, sizeof row, 0);
    acp_ga_t starter = acp_query_starter_ga(me);
    acp_ga_t *board = acp_query_address(starter);
    board[0] = acp_query_ga(key, row);
    acp_sync();

    if (me == 0) {
        acp_ga_t at[2] = {board[0], 0};
        for (int i = 0; i < NUMBERS; i++)
            row[i] = i + 0.5;
        for (int i = 1; i <= ranks; i++) {
            /* the address of the next, then the row goes there: each when the one before is done */
            acp_ga_t theirs = acp_query_starter_ga(i % ranks);
            acp_complete(begun(acp_copy(starter + 8, theirs, sizeof(acp_ga_t), ACP_HANDLE_ALL)));
            at[1] = board[1];
            begun(acp_copy(at[1], at[0], sizeof row, ACP_HANDLE_ALL));
            at[0] = at[1];
        }
        acp_complete(ACP_HANDLE_ALL);
    }
    acp_sync();

    /* a counter in rank 0's starter memory; the old value comes to one's own */
    uint64_t *ticket = (uint64_t *)(board + 3);
    acp_complete(begun(acp_add8(starter + 24, acp_query_starter_ga(0) + 16, 1, ACP_HANDLE_NULL)));
    int right = row[NUMBERS - 1] == NUMBERS - 0.5 && *ticket < (uint64_t)ranks;
    acp_sync();
    if (me == 0)
        right = right && board[2] == (acp_ga_t)ranks;
    printf("rank %d of %d: ticket %d, %s\n", me, ranks, (int)*ticket, right ? "right" : "WRONG");

    acp_unregister_memory(key);
    return acp_finalize() != 0 || !right;
}

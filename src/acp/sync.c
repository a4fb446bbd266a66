/* The barrier: dissemination. In round k everybody tells the rank 2^k further on, and waits until
 * it has been told as often as it has been here. The rank that tells is the same each time, so
 * counts are enough. For whom there was no memory is told again: it waits for that. One thread at a
 * time. */
#include <string.h>

#include "acp/layer.h"

#define ROUNDS 31

static struct {
    struct tug_counter told[ROUNDS];
    uint32_t number[ROUNDS]; /* what messages say */
    uint64_t times, tells;
    struct tug_counter gone, sent; /* messages that have been taken, or not; that have ended */
} barrier;

static void told(tug_context *context, int source, const void *payload, size_t bytes, void *d) {
    uint32_t round = ROUNDS;
    (void)context;
    (void)d;
    if (bytes == sizeof(round))
        memcpy(&round, payload, bytes);
    if (round < ROUNDS &&
        ((uint32_t)source + (UINT64_C(1) << round)) % tug_acp.nranks == tug_acp.rank)
        tug_counter_add(&barrier.told[round], 0);
    else
        tug_message_complain(source, TUG_ACP_MESSAGE);
}

int tug_acp_sync_open(void) {
    memset(&barrier, 0, sizeof(barrier));
    for (uint32_t round = 0; round < ROUNDS; round++)
        barrier.number[round] = round;
    return tug_am_register(tug_acp.context, 0, told, NULL);
}

/* Without memory it has not begun, and is told again. */
static void ended(void *counter, int status) {
    if (status != TUG_ERR_NO_MEMORY)
        tug_counter_add(counter, status);
}

static void tell(uint32_t round) {
    const struct tug_am_params params = {
        .dest_proc = (int)((tug_acp.rank + (UINT64_C(1) << round)) % tug_acp.nranks),
        .payload = &barrier.number[round],
        .size_in_bytes = sizeof(round),
        .on_local = {tug_counter_add, &barrier.gone},
        .on_complete = {ended, &barrier.sent}};
    while (!tug_try_am_async(tug_acp.context, &params))
        tug_progress(tug_acp.context);
    barrier.tells++;
}

/* False: there was no memory for the message. */
static bool has_told(void) {
    const int status = tug_counter_wait(tug_acp.context, &barrier.gone, barrier.tells);
    barrier.gone.status = 0;
    return status != TUG_ERR_NO_MEMORY;
}

int tug_acp_sync_all(void) {
    barrier.times++;
    for (uint32_t round = 0; UINT64_C(1) << round < tug_acp.nranks; round++) {
        tell(round);
        (void)tug_counter_wait(tug_acp.context, &barrier.told[round], barrier.times);
        while (!has_told())
            tell(round);
    }
    return barrier.sent.status;
}

int acp_sync(void) {
    if (!tug_acp_runs("acp_sync"))
        return -1;
    int status = tug_acp_sync_all();
    if (status != 0)
        tug_acp_fail("acp_sync", status);
    return status != 0 ? -1 : 0;
}

/* Reading others' registrations: the first access to one reads its entry (address.h) from memory of
 * the owner, whose processor takes no part where a card or loads do that.
 *
 * The entries lie in front of starter memory. A process knows the starter keys of all group leaders
 * from the start, and reads those of other ranks from their leader's table:
 *
 *   starter memory of rank r   entry TUG_ACP_KEYS + r's place in its group, of the leader
 *   number n of rank r         entry n of r
 *
 * A copy with two different ids, or without one, was read during a change and counts as not
 * registered: the registration began or ended after the command was issued, which may not rely on
 * it. So nobody waits for an owner that is descheduled in the middle. Holder only.
 */
#include "acp/layer.h"
#include "transport/memory.h"

/* Those that read, or NULL; none before the beginning and after the end of ACP. */
static struct tug_acp_command *lookups[TUG_ACP_LOOKUPS];

/* The command starts at once, before another key can push this one out of the cache. */
static void ended(void *argument, int status) {
    struct tug_acp_command **lookup = argument, *command = *lookup;
    const uint32_t rank = tug_acp_ga_rank(command->missing);
    const struct tug_acp_entry *copy = &tug_acp.memory->copies[lookup - lookups];
    struct tug_key key = {{0}};
    if (status == 0 && tug_acp_entry_holds(copy) && copy->id != command->stale &&
        tug_key_allows(&copy->key, tug_context_id(tug_acp.context), rank, 0, 0) == 0)
        key = copy->key;
    if (status == 0)
        status =
            tug_acp_cache_store(&tug_acp.cache, rank, tug_acp_ga_number(command->missing), &key);
    *lookup = NULL;
    command->looked_up = true;
    if (status != 0 || key.word[0] == 0)
        tug_acp_end(command, status != 0 ? status : TUG_ERR_KEY);
    else
        tug_acp_start_queued(command);
}

bool tug_acp_look_up(struct tug_acp_command *command) {
    const uint32_t rank = tug_acp_ga_rank(command->missing), in_group = rank % tug_acp.cache.group;
    uint32_t table = rank, index = tug_acp_ga_number(command->missing), i = 0;
    struct tug_key key;
    if (index != 0 && !tug_acp_cache_find(&tug_acp.cache, rank, 0, &key))
        command->missing = tug_acp_ga(rank, 0, index = 0, 0);
    if (index == 0) {
        table = rank - in_group;
        index = TUG_ACP_KEYS + in_group;
        (void)tug_acp_cache_find(&tug_acp.cache, table, 0, &key);
    }
    while (i < TUG_ACP_LOOKUPS && lookups[i] != NULL)
        i++;
    if (i == TUG_ACP_LOOKUPS)
        return false;
    const struct tug_read_params read = {
        .src_proc = (int)table,
        .src_raddr = {&key, index * sizeof(struct tug_acp_entry)},
        .dest_laddr = {tug_acp.registration,
                       (size_t)((char *)&tug_acp.memory->copies[i] - (char *)tug_acp.memory)},
        .size_in_bytes = sizeof(struct tug_acp_entry),
        .on_complete = {ended, &lookups[i]}};
    const unsigned started = tug_burst.started;
    lookups[i] = command;
    const bool taken = tug_try_read_async(tug_acp.context, &read);
    tug_burst.started = started; /* the READ is not part of the program's burst */
    if (!taken)
        lookups[i] = NULL;
    return taken;
}

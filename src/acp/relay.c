/* What ranks ask of one another: commands whose source they have.
 *
 * A command is a call of LLCL. The engine of the source's rank carries it out and answers when it
 * is complete.
 *
 * Flow control: a rank has room for TUG_ACP_RELAYED commands of all others together. What does not
 * fit is refused, and the issuer sends it again; its credit, the number of commands it may have
 * out, falls to those that are out, and grows by one with every command that is done. Nobody waits
 * for room at another rank but issuers, and what a rank does for others takes no room at a third
 * one (it only writes there), so what is here always ends, and room comes back. For those writes
 * half of the LLCL context's operations is left free.
 *
 * Holder only.
 */
#include <string.h>

#include "acp/layer.h"

#define CALL_COMMAND 0

static struct {
    struct tug_acp_list unused; /* of the pool */
    unsigned credit, most, out;
} relay;

/* ---- commands: the issuer's side ---- */

static void answered_command(void *argument, int status) {
    struct tug_acp_command *command = argument;
    relay.out--;
    if (status == 0)
        status = tug_message_status((int)tug_acp_ga_rank(command->request.src), TUG_ACP_MESSAGE,
                                    command->answer, true);
    if (status == TUG_ERR_FULL) {
        relay.credit = relay.out > 0 ? relay.out : 1; /* as many as are there or on their way */
        tug_acp_relay_again(command);
        return;
    }
    if (relay.credit < relay.most)
        relay.credit++;
    tug_acp_end(command, status);
}

enum tug_acp_relay tug_acp_relay(struct tug_acp_command *command) {
    if (relay.out >= relay.credit)
        return TUG_ACP_NO_CREDIT;
    relay.out++;
    const struct tug_call_params params = {.dest_proc = (int)tug_acp_ga_rank(command->request.src),
                                           .handler = CALL_COMMAND,
                                           .payload = &command->request,
                                           .size_in_bytes = sizeof(command->request),
                                           .answer = &command->answer,
                                           .answer_in_bytes = sizeof(command->answer),
                                           .on_complete = {answered_command, command}};
    if (tug_try_call_async(tug_acp.context, &params))
        return TUG_ACP_SENT;
    relay.out--;
    return TUG_ACP_NO_ROOM;
}

/* ---- commands: the source's side ---- */

static void answer(struct tug_caller caller, int32_t status) {
    tug_answer(tug_acp.context, caller, &status, sizeof(status));
}

static int check(const void *payload, size_t bytes, struct tug_acp_request *request) {
    if (bytes != sizeof(*request))
        return TUG_ERR_INVALID;
    memcpy(request, payload, bytes);
    if (tug_acp_ga_rank(request->src) != tug_acp.rank)
        return TUG_ERR_INVALID;
    return tug_acp_check(request);
}

static void called_command(tug_context *context, struct tug_caller caller, const void *payload,
                           size_t bytes, void *d) {
    struct tug_acp_request request;
    struct tug_acp_command *command = relay.unused.first;
    (void)context;
    (void)d;
    int status = check(payload, bytes, &request);
    if (status != 0)
        tug_message_complain(caller.process, TUG_ACP_MESSAGE);
    if (status == 0 && command == NULL)
        status = TUG_ERR_FULL;
    if (status != 0) {
        answer(caller, status);
        return;
    }
    relay.unused.first = command->next;
    *command = (struct tug_acp_command){.request = request, .caller = caller};
    tug_acp_start_queued(command);
}

void tug_acp_relay_end(struct tug_acp_command *command, int status) {
    answer(command->caller, status);
    command->next = relay.unused.first;
    relay.unused.first = command;
}

/* ---- beginning ---- */

int tug_acp_relay_open(void) {
    memset(&relay, 0, sizeof(relay));
    uint32_t operations = tug_context_operations(tug_acp.context);
    relay.most = operations / 2 < TUG_ACP_COMMANDS ? operations / 2 : TUG_ACP_COMMANDS;
    relay.credit = relay.most;
    for (unsigned i = 0; i < TUG_ACP_RELAYED; i++)
        tug_acp_append(&relay.unused, &tug_acp.memory->relayed[i]);
    return tug_call_register(tug_acp.context, CALL_COMMAND, called_command, NULL);
}

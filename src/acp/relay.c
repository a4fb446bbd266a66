/* What ranks ask of one another: keys of registrations, and commands whose source they have.
 *
 * Both are calls of LLCL. The answer to a question is the key, or zeroes; questions of one process
 * for the same key are one. A command is carried out by the engine of the source's rank, which
 * answers when it is complete.
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
#include "transport/memory.h"

enum { CALL_KEY, CALL_COMMAND };

#define QUESTIONS 64

struct question {
    bool open;
    acp_ga_t base; /* of the registration */
    uint32_t number;
    struct tug_key answer;
    struct tug_acp_list askers;
};

static struct {
    struct question questions[QUESTIONS];
    struct tug_acp_list unused; /* of the pool */
    unsigned credit, most, out;
} relay;

/* ---- keys ---- */

static void answer_key(tug_context *context, struct tug_caller caller, const void *payload,
                       size_t bytes, void *d) {
    struct tug_acp_pinned own;
    struct tug_key key = {{0}};
    uint32_t number = TUG_ACP_KEYS;
    (void)d;
    if (bytes == sizeof(number))
        memcpy(&number, payload, bytes);
    if (number >= TUG_ACP_KEYS)
        tug_message_complain(caller.process, TUG_ACP_MESSAGE);
    else if (tug_acp_pin(tug_acp_ga(tug_acp.rank, 0, number, 0), 0, &own) == 0) {
        key = own.key;
        tug_acp_unpin(&own);
    }
    tug_answer(context, caller, &key, sizeof(key));
}

/* Commands that waited for the key start at once, before another answer can push it out of the
 * cache. */
static void answered_key(void *argument, int status) {
    struct question *question = argument;
    acp_ga_t base = question->base; /* the question may be used for another key soon */
    struct tug_acp_command *next, *at = tug_acp_take_all(&question->askers);
    const uint32_t rank = tug_acp_ga_rank(base);
    const struct tug_key *key = &question->answer;
    if (status == 0)
        status = tug_message_status((int)rank, TUG_ACP_MESSAGE, 0,
                                    key->word[0] == 0 || tug_key_owner(key) == rank);
    if (status == 0)
        status = tug_acp_cache_store(&tug_acp.cache, rank, question->number, key);
    question->open = false;
    for (; at != NULL; at = next) {
        next = at->next;
        at->answers++;
        if (status != 0)
            tug_acp_end(at, status);
        else
            tug_acp_start_queued(at);
    }
}

static struct question *find_question(acp_ga_t base) {
    struct question *unused = NULL;
    for (struct question *q = relay.questions; q < relay.questions + QUESTIONS; q++) {
        if (q->open && q->base == base)
            return q;
        if (!q->open)
            unused = q;
    }
    return unused;
}

bool tug_acp_ask(struct tug_acp_command *command) {
    acp_ga_t base = command->missing;
    struct question *question = find_question(base);
    if (question == NULL)
        return false;
    if (question->open) {
        tug_acp_append(&question->askers, command);
        return true;
    }
    *question = (struct question){.open = true, .base = base, .number = tug_acp_ga_number(base)};
    tug_acp_append(&question->askers, command);
    const struct tug_call_params params = {.dest_proc = (int)tug_acp_ga_rank(base),
                                           .handler = CALL_KEY,
                                           .payload = &question->number,
                                           .size_in_bytes = sizeof(question->number),
                                           .answer = &question->answer,
                                           .answer_in_bytes = sizeof(question->answer),
                                           .on_complete = {answered_key, question}};
    if (tug_try_call_async(tug_acp.context, &params))
        return true;
    question->open = false;
    return false;
}

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
        tug_acp_append(&relay.unused, &tug_acp.relayed[i]);
    int status = tug_call_register(tug_acp.context, CALL_KEY, answer_key, NULL);
    return status != 0 ? status
                       : tug_call_register(tug_acp.context, CALL_COMMAND, called_command, NULL);
}

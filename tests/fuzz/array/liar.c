/* The process that lies: its messages are changed in a field, to something near or to anything. */
#include "played.h"

/* Mostly one of the numbers around which something changes. */
static uint64_t take_odd(uint64_t right) {
    switch (take() % 8) {
    case 0:
        return right + 1;
    case 1:
        return right - 1;
    case 2:
        return take() % 16;
    case 3:
        return take_number();
    case 4:
        return UINT32_MAX;
    case 5:
        return UINT64_MAX;
    case 6:
        return right ^ (uint64_t)1 << take() % 64;
    default:
        return 0;
    }
}

static void change_place(struct tug_page_slot *place, unsigned which) {
    if (which == 0)
        place->generation = take_odd(place->generation);
    else if (which == 1)
        place->owner = (uint32_t)take_odd(place->owner);
    else
        place->slot = (uint32_t)take_odd(place->slot);
}

static void change_question(struct message *message, unsigned which) {
    struct tug_question question;
    memcpy(&question, message->data, sizeof(question));
    if (which < 2)
        question.page = take_odd(question.page);
    else if (which < 4)
        question.to = (uint32_t)take_odd(question.to);
    else
        *(which == 4   ? &question.puts
          : which == 5 ? &question.wanted
                       : &question.gently) = (uint8_t)take();
    memcpy(message->data, &question, sizeof(question));
}

static void change_step(struct message *message, unsigned which) {
    struct tug_message step;
    memcpy(&step, message->data, sizeof(step));
    if (which < 3)
        change_place(&step.place, which);
    else if (which < 6)
        step.page = take_odd(step.page);
    else
        step.gently = take() % 4;
    memcpy(message->data, &step, sizeof(step));
}

static void change_reply(struct message *message, unsigned which) {
    struct tug_reply reply;
    memcpy(&reply, message->data, sizeof(reply));
    if (which < 3)
        change_place(&reply.place, which);
    else if (which < 5)
        reply.status = (int32_t)take_odd((uint64_t)reply.status);
    else
        reply.puts = (uint32_t)take_odd(reply.puts);
    memcpy(message->data, &reply, sizeof(reply));
}

static void change_words(struct message *message) {
    const size_t at = take() % (message->bytes / 4);
    uint32_t word;
    memcpy(&word, message->data + 4 * at, 4);
    word = (uint32_t)take_odd(word);
    memcpy(message->data + 4 * at, &word, 4);
}

static void change(struct message *message) {
    const unsigned which = take() % 8;
    const bool question = message->kind == TUG_CALL_ASK || message->kind == TUG_CALL_MOVE;
    if (which == 7)
        message->bytes = take() % (sizeof(message->data) + 1);
    else if (question && message->is_answer)
        change_reply(message, which);
    else if (question)
        change_question(message, which);
    else if (!message->is_answer && message->kind != TUG_CALL_POOL)
        change_step(message, which);
    else if (message->bytes >= 4)
        change_words(message);
}

void liar_sends(struct message message) {
    const unsigned how = take() % 16;
    reached.lies += how < 7;
    if (how == 0) {
        job_drop(&message);
        return;
    }
    if (how < 6)
        change(&message);
    job_post(&message);
    if (how == 6 && !message.is_answer)
        job_forge(message.kind, message.to, message.data, message.bytes);
}

/* Nearly right: about a page as the callee knows it. */
void liar_calls(void) {
    struct message message = {.from = LIAR, .to = take() % LIAR, .kind = take() % TUG_CALL_KINDS};
    const tug_array *array = arrays[message.to];
    const uint64_t page = take() % (PAGES + 1);
    const struct tug_page *entry = tug_pages_find(&array->pages, page);
    struct tug_message step = {.page = page, .gently = take() % 2};
    if (entry != NULL)
        step.place = entry->coming ? entry->next : entry->place;
    if (message.kind == TUG_CALL_FREE)
        step.place.owner = message.to;
    if (take() % 2)
        step.place.generation++;
    if (take() % 4 == 0)
        step.place.owner = take() % RANKS;
    if (take() % 4 == 0)
        step.place.slot = take() % 8;
    const struct tug_question question = {.page = page,
                                          .to = message.kind == TUG_CALL_ASK ? TUG_NO_OWNER
                                                                             : take() % RANKS,
                                          .wanted = take() % 2,
                                          .puts = take() % 2,
                                          .gently = take() % 4 == 0};
    const uint32_t number = take() % 4;
    if (message.kind == TUG_CALL_ASK || message.kind == TUG_CALL_MOVE)
        memcpy(message.data, &question, message.bytes = sizeof(question));
    else if (message.kind == TUG_CALL_POOL)
        memcpy(message.data, &number, message.bytes = sizeof(number));
    else
        memcpy(message.data, &step, message.bytes = sizeof(step));
    if (take() % 2)
        change(&message);
    reached.lies++;
    job_forge(message.kind, message.to, message.data, message.bytes);
}

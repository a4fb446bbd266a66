/* The home: the directory of the pages whose home is here, and their moves.
 *
 * A record says where a page is and who has been told (its list; the owner always knows). Moves of
 * a page take place one after the other, in the order in which they came. Questions that need puts
 * allowed wait for the end of the one under way, and are answered before the next begins: a put
 * waits for one move, whatever wants the page. Others are answered at once while the page is still
 * where it was: who asks is on the list by then, and is told when it changes.
 *
 * Who forgets a page does not say so: it says that it does not know it when it is told of a change,
 * and is taken off the list.
 *
 * Threading: the holder of the baton.
 */
#include <stdlib.h>
#include <string.h>

#include "gas/array.h"

struct record;

/* A move, or a question that waits its turn. */
struct turn {
    struct tug_deferred work; /* there was no room */
    struct turn *next;
    struct tug_array *array;
    struct record *record;
    struct tug_caller caller;
    struct tug_question question;
    bool is_move;
    /* a move that has begun */
    struct tug_page_slot old;
    enum tug_gas_call step;
    uint32_t cursor, out; /* told so far; not answered yet */
    int status;
    struct tug_message message; /* of stop, fetch and free: the old place; of change: the new */
    struct tug_fetched fetched;
    struct answer {
        struct turn *turn;
        uint32_t rank, absent;
    } answers[]; /* [nranks] */
};

struct record {
    struct tug_page_slot place;
    struct turn *move;         /* under way */
    struct turn *first, *last; /* those that wait for it */
};

struct tug_home {
    uint32_t fetches, fetches_most; /* under way, see array.h */
    size_t nrecords, list_words;
    struct record *records; /* by a page's ordinal */
    uint64_t *lists;        /* [nrecords][list_words] */
};

/* ---- records ---- */

static struct record *record_of(struct tug_array *array, uint64_t page) {
    return &array->home->records[tug_array_home(array, page).ordinal];
}

static uint64_t *list_of(struct tug_array *array, const struct record *record) {
    return array->home->lists + (size_t)(record - array->home->records) * array->home->list_words;
}

static void enlist(struct tug_array *array, const struct record *record, uint32_t rank) {
    list_of(array, record)[rank / 64] |= (uint64_t)1 << rank % 64;
}

static void strike(struct tug_array *array, const struct record *record, uint32_t rank) {
    list_of(array, record)[rank / 64] &= ~((uint64_t)1 << rank % 64);
}

/* Must the process be told of a step in the move of the page? */
static bool concerned(struct tug_array *array, const struct record *record, uint32_t rank) {
    return rank == record->place.owner || (list_of(array, record)[rank / 64] >> rank % 64 & 1) != 0;
}

static void reply(struct tug_array *array, const struct record *record, struct tug_caller caller,
                  int status, bool puts) {
    const struct tug_reply what = {.place = record->place, .status = status, .puts = puts};
    if (status == 0)
        enlist(array, record, (uint32_t)caller.process);
    tug_answer(array->context, caller, &what, sizeof(what));
}

/* ---- turns ---- */

/* Brings the page to the process, unless it is there. False: it is, and the turn is over. */
static bool begin(struct turn *turn);

/* Answers a move, whose asker may own the page again and look at its wants at once. */
static void end_turn(const struct turn *turn, int status) {
    if (turn->question.wanted)
        atomic_fetch_sub(tug_array_wants(turn->array, turn->question.page), 1);
    reply(turn->array, turn->record, turn->caller, status, true);
}

/* A move has ended: the next one begins. */
static void end_move(struct record *record) {
    struct turn *turn = record->move;
    record->move = NULL;
    end_turn(turn, turn->status);
    while (record->move == NULL && (turn = record->first) != NULL) {
        record->first = turn->next;
        if (turn->is_move && begin(turn))
            return;
        end_turn(turn, 0);
        free(turn);
    }
}

/* ---- the steps of a move ---- */

static void all_have_answered(struct turn *turn);
static void take_step(struct tug_deferred *work);

static void answered(void *d, int status) {
    struct answer *answer = d;
    struct turn *turn = answer->turn;
    if (status != 0 && turn->status == 0 && turn->step == TUG_CALL_STOP)
        turn->status = status; /* a process that is lost need not be told of the change */
    if (answer->absent && turn->step == TUG_CALL_CHANGE)
        strike(turn->array, turn->record, answer->rank);
    if (--turn->out == 0 && turn->cursor == turn->array->nranks)
        all_have_answered(turn);
}

static bool tell(struct turn *turn, uint32_t rank, void *reply_to, size_t reply_bytes,
                 struct tug_callback on_complete) {
    const struct tug_call_params call = {.dest_proc = (int)rank,
                                         .handler = turn->step,
                                         .payload = &turn->message,
                                         .size_in_bytes = sizeof(turn->message),
                                         .answer = reply_to,
                                         .answer_in_bytes = reply_bytes,
                                         .on_complete = on_complete};
    return tug_try_call_async(turn->array->context, &call);
}

/* Sends stop or change to all whom it concerns. False: there is no room for the next one. */
static bool tell_all(struct turn *turn) {
    struct tug_array *array = turn->array;
    for (; turn->cursor < array->nranks; turn->cursor++) {
        struct answer *answer = &turn->answers[turn->cursor];
        if (!concerned(array, turn->record, turn->cursor))
            continue;
        *answer = (struct answer){turn, turn->cursor, 0};
        if (!tell(turn, turn->cursor, &answer->absent, sizeof(answer->absent),
                  (struct tug_callback){answered, answer}))
            return false;
        turn->out++;
    }
    return true; /* the owner is concerned: its answer ends the step */
}

static void step_to(struct turn *turn, enum tug_gas_call step, const struct tug_page_slot *place) {
    turn->step = step;
    turn->message.place = *place;
    turn->cursor = turn->out = 0;
    take_step(&turn->work);
}

static void give_up(struct turn *turn) {
    turn->record->place.generation++; /* a new one: puts were stopped in the generation before */
    end_move(turn->record);
    free(turn);
}

static void fetched(void *d, int status) {
    struct turn *turn = d;
    struct record *record = turn->record;
    turn->array->home->fetches--;
    turn->status = status != 0 ? status : turn->fetched.status;
    if (turn->status != 0) {
        give_up(turn);
        return;
    }
    enlist(turn->array, record, turn->old.owner); /* it knows the place of the page, too */
    record->place = (struct tug_page_slot){.generation = turn->old.generation + 1,
                                           .owner = turn->question.to,
                                           .slot = turn->fetched.slot};
    step_to(turn, TUG_CALL_CHANGE, &record->place);
}

static void freed(void *d, int status) {
    (void)status;
    free(d);
}

static void all_have_answered(struct turn *turn) {
    if (turn->status != 0)
        give_up(turn);
    else if (turn->step == TUG_CALL_STOP)
        step_to(turn, TUG_CALL_FETCH, &turn->old);
    else
        step_to(turn, TUG_CALL_FREE, &turn->old);
}

static void take_step(struct tug_deferred *work) {
    struct turn *turn = (struct turn *)work;
    bool taken;
    switch (turn->step) {
    case TUG_CALL_FETCH:
        taken = turn->array->home->fetches < turn->array->home->fetches_most &&
                tell(turn, turn->question.to, &turn->fetched, sizeof(turn->fetched),
                     (struct tug_callback){fetched, turn});
        turn->array->home->fetches += taken;
        break;
    case TUG_CALL_FREE: /* arrives before any page that the next move brings there */
        taken = tell(turn, turn->old.owner, &turn->answers[0].absent, sizeof(uint32_t),
                     (struct tug_callback){freed, turn});
        if (taken)
            end_move(turn->record);
        break;
    default:
        taken = tell_all(turn);
    }
    if (!taken)
        tug_deferred_retry(&turn->array->deferred, work);
}

static bool begin(struct turn *turn) {
    struct record *record = turn->record;
    if (record->place.owner == turn->question.to)
        return false;
    record->move = turn;
    turn->old = record->place;
    step_to(turn, TUG_CALL_STOP, &turn->old);
    return true;
}

/* ---- what others ask ---- */

static struct turn *take_turn(struct tug_array *array, struct tug_caller caller,
                              const struct tug_question *question, bool is_move) {
    size_t nanswers = is_move ? array->nranks : 0;
    struct turn *turn = calloc(1, sizeof(*turn) + nanswers * sizeof(struct answer));
    if (turn == NULL)
        return NULL;
    turn->work.run = take_step;
    turn->array = array;
    turn->record = record_of(array, question->page);
    turn->caller = caller;
    turn->question = *question;
    turn->is_move = is_move;
    turn->message.page = question->page;
    return turn;
}

/* Moves behind those who came before; questions, which cost nobody anything, before all moves. */
static void line_up(struct turn *turn) {
    struct record *record = turn->record;
    if (record->first == NULL) {
        record->first = record->last = turn;
    } else if (turn->is_move) {
        record->last->next = turn;
        record->last = turn;
    } else {
        turn->next = record->first;
        record->first = turn;
    }
}

static void on_ask(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_question question;
    memcpy(&question, payload, sizeof(question));
    struct record *record = record_of(array, question.page);
    const struct turn *move = record->move;
    if (move == NULL) {
        reply(array, record, caller, 0, true);
    } else if (!question.puts && (move->step == TUG_CALL_STOP || move->step == TUG_CALL_FETCH)) {
        reply(array, record, caller, 0, false);
    } else {
        struct turn *turn = take_turn(array, caller, &question, false);
        if (turn != NULL)
            line_up(turn);
        else
            reply(array, record, caller, TUG_ERR_NO_MEMORY, false);
    }
}

static void on_move(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_question question;
    memcpy(&question, payload, sizeof(question));
    struct record *record = record_of(array, question.page);
    if (!question.wanted) /* from a node that cannot reach them */
        atomic_fetch_add(tug_array_wants(array, question.page), 1);
    question.wanted = true;
    struct turn *turn = take_turn(array, caller, &question, true);
    if (turn == NULL) {
        atomic_fetch_sub(tug_array_wants(array, question.page), 1);
        reply(array, record, caller, TUG_ERR_NO_MEMORY, false);
    } else if (record->move != NULL) {
        line_up(turn);
    } else if (!begin(turn)) {
        end_turn(turn, 0);
        free(turn);
    }
}

void tug_home_begin(struct tug_array *array, uint64_t page, uint32_t slot) {
    struct record *record = record_of(array, page);
    record->place = (struct tug_page_slot){
        .generation = record->place.generation + 1, .owner = array->rank, .slot = slot};
    memset(list_of(array, record), 0, array->home->list_words * sizeof(uint64_t));
}

struct tug_page_slot tug_home_place(struct tug_array *array, uint64_t page) {
    return record_of(array, page)->place;
}

/* ---- beginning and end ---- */

static size_t list_words(uint64_t nranks) {
    return (nranks + 63) / 64;
}

size_t tug_home_footprint(uint64_t nranks) {
    return sizeof(struct record) + list_words(nranks) * sizeof(uint64_t) + sizeof(uint32_t);
}

int tug_home_open(struct tug_array *array, enum tug_placement placement) {
    struct tug_home *home = calloc(1, sizeof(*home));
    if (home == NULL)
        return TUG_ERR_NO_MEMORY;
    array->home = home;
    home->fetches_most = tug_context_operations(array->context) / 4;
    home->nrecords = array->nhomed;
    home->list_words = list_words(array->nranks);
    home->records = calloc(home->nrecords + 1, sizeof(*home->records));
    home->lists = calloc(home->nrecords + 1, home->list_words * sizeof(*home->lists));
    if (home->records == NULL || home->lists == NULL)
        return TUG_ERR_NO_MEMORY;
    const bool by_rank = array->homes == NULL;
    for (uint64_t page = by_rank ? array->rank : 0; page < array->npages;
         page += by_rank ? array->nranks : 1)
        if (tug_array_home(array, page).rank == array->rank)
            record_of(array, page)->place = tug_array_first_place(array, placement, page);
    return 0;
}

void tug_home_register(struct tug_array *array) {
    tug_array_receive(array, TUG_CALL_ASK, on_ask);
    tug_array_receive(array, TUG_CALL_MOVE, on_move);
}

void tug_home_close(struct tug_array *array) {
    struct tug_home *home = array->home;
    if (home == NULL)
        return;
    free(home->records);
    free(home->lists);
    free(home);
}

/* The home: the directory of the pages whose home is here, and their moves.
 *
 * A record says where a page is and who has been told (its list; the owner always knows). Moves of
 * a page take place one after the other, in the order in which they came. Questions that need puts
 * allowed wait for the end of the one under way, and are answered before the next begins: a put
 * waits for one move, whatever wants the page. Other questions are answered at once while the page
 * is still where it was: the asker is on the list then, and is told when the page moves. Between
 * moves most processes need not ask: they look (array.h).
 *
 * Who forgets a page does not say so: it says that it does not know it when it is told of a change,
 * and is taken off the list.
 *
 * Lists, and the work of a move, grow with those who have asked, not with the ranks of the job. A
 * move tells up to TOLD_AT_ONCE of them at once.
 *
 * Threading: the holder of the baton.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rankset.h"
#include "gas/array.h"

#define TOLD_AT_ONCE 32u /* fewer than the bits of `spare` */

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
    uint32_t cursor, out; /* all below that rank are told; who has not answered yet */
    uint64_t spare;       /* answers that are not out, a bit each */
    int status;
    struct tug_message message; /* of stop, fetch and free: the old place; of change: the new */
    struct tug_fetched fetched;
    struct answer {
        struct turn *turn;
        uint32_t rank, no; /* stop: the page is held; change: not known there */
    } answers[];           /* of a move: [TOLD_AT_ONCE, or one a rank] */
};

struct record {
    struct tug_page_slot place;
    struct turn *move;         /* under way */
    struct turn *first, *last; /* those that wait for it */
    struct tug_rankset told;   /* its list; the owner may stand there or not */
};

struct tug_home {
    uint32_t fetches, fetches_most; /* under way, see array.h */
    size_t nrecords;
    struct record *records; /* by a page's ordinal */
};

/* ---- records ---- */

static struct record *record_of(struct tug_array *array, uint64_t page) {
    return &array->home->records[tug_array_home(array, page).ordinal];
}

/* The first rank, from that one on, that must be told of a step in the move of the page. */
static uint32_t next_concerned(const struct tug_array *array, const struct record *record,
                               uint32_t from) {
    const uint32_t told = tug_rankset_next(&record->told, array->nranks, from);
    const uint32_t owner = record->place.owner;
    return owner >= from && owner < told ? owner : told;
}

static void reply(struct tug_array *array, struct record *record, struct tug_caller caller,
                  int status, bool puts) {
    const uint32_t asker = (uint32_t)caller.process;
    if (status == 0 && asker != record->place.owner &&
        !tug_rankset_add(&record->told, array->nranks, asker))
        status = TUG_ERR_NO_MEMORY;
    const struct tug_reply what = {.place = record->place, .status = status, .puts = puts};
    tug_answer(array->context, caller, &what, sizeof(what));
}

/* ---- what others see ---- */

static void show(const struct tug_array *array, uint64_t page, const struct record *record) {
    tug_record_show(&tug_array_record(array, page)->seen, &record->place);
}

/* Those who have entered themselves are on the list. False: no memory for one of them. */
static bool take_askers(const struct tug_array *array, uint64_t page, struct record *record) {
    struct tug_page_record *shown = tug_array_record(array, page);
    bool taken = true;
    /* all seq_cst: see array.h. A word without an asker is left alone: one may enter itself now. */
    for (unsigned i = 0; i < TUG_RECORD_ASKERS && taken; i++) {
        const uint64_t asker = atomic_load(&shown->askers[i]);
        if (asker == 0)
            continue;
        taken = asker > array->nranks ||
                tug_rankset_add(&record->told, array->nranks, (uint32_t)asker - 1);
        if (taken)
            atomic_store(&shown->askers[i], 0);
    }
    return taken;
}

/* ---- turns ---- */

/* Brings the page to the process, unless it is there. False: it is, or there is no memory, and the
 * turn is over with its status. */
static bool begin(struct turn *turn);

/* Takes one move off the page's count of wanted moves. The count may be 0: a faulty process may
 * withdraw a move that it never counted. */
static void stop_wanting(const struct tug_array *array, uint64_t page) {
    _Atomic uint32_t *wants = &tug_array_record(array, page)->wants;
    uint32_t now = atomic_load(wants);
    while (now != 0 && !atomic_compare_exchange_weak(wants, &now, now - 1)) {
    }
}

/* Answers a move, whose asker may own the page again and look at its wants at once. */
static void end_turn(const struct turn *turn, int status) {
    if (turn->question.wanted)
        stop_wanting(turn->array, turn->question.page);
    reply(turn->array, turn->record, turn->caller, status, true);
}

/* A move has ended: the next one begins. */
static void end_move(struct record *record) {
    struct turn *turn = record->move;
    struct tug_array *array = turn->array;
    const uint64_t page = turn->question.page;
    record->move = NULL;
    end_turn(turn, turn->status);
    while (record->move == NULL && (turn = record->first) != NULL) {
        record->first = turn->next;
        if (turn->is_move && begin(turn))
            return;
        end_turn(turn, turn->status);
        free(turn);
    }
    show(array, page, record);
}

/* ---- the steps of a move ---- */

static void all_have_answered(struct turn *turn);
static void take_step(struct tug_deferred *work);

static void answered(void *d, int status) {
    struct answer *answer = d;
    struct turn *turn = answer->turn;
    const bool stop = turn->step == TUG_CALL_STOP;
    const uint32_t no_most = !stop || turn->message.gently; /* else a stop waits for holds */
    status = tug_array_status(status, answer->rank, 0, answer->no <= no_most);
    if (status == 0 && answer->no && stop)
        status = TUG_ERR_STATE;
    if (status != 0 && turn->status == 0 && stop)
        turn->status = status; /* a process that is lost need not be told of the change */
    if (answer->no && turn->step == TUG_CALL_CHANGE)
        tug_rankset_remove(&turn->record->told, answer->rank);
    const bool all_are_told = turn->cursor == TUG_RANKSET_END;
    const bool was_awaited = turn->spare == 0 && !all_are_told;
    turn->spare |= (uint64_t)1 << (answer - turn->answers);
    turn->out--;
    if (was_awaited)
        take_step(&turn->work);
    else if (turn->out == 0 && all_are_told)
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

/* Sends stop or change to the next ones whom it concerns, as many as there are answers for. False:
 * there is no room for the next one. */
static bool tell_all(struct turn *turn) {
    uint32_t rank;
    while ((rank = next_concerned(turn->array, turn->record, turn->cursor)) != TUG_RANKSET_END) {
        if (turn->spare == 0)
            return true; /* the next answer goes on */
        const int i = __builtin_ctzll(turn->spare);
        struct answer *answer = &turn->answers[i];
        *answer = (struct answer){turn, rank, 0};
        if (!tell(turn, rank, &answer->no, sizeof(answer->no),
                  (struct tug_callback){answered, answer}))
            return false;
        turn->spare &= ~((uint64_t)1 << i);
        turn->cursor = rank + 1;
        turn->out++;
    }
    turn->cursor = TUG_RANKSET_END;
    return true; /* the owner is concerned: its answer, or one after it, ends the step */
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
    turn->status = tug_array_status(status, turn->question.to, turn->fetched.status,
                                    turn->fetched.slot < turn->array->nslots);
    if (turn->status != 0) {
        give_up(turn);
        return;
    }
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
        taken = tell(turn, turn->old.owner, &turn->answers[0].no, sizeof(uint32_t),
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
    atomic_store(&tug_array_record(turn->array, turn->question.page)->seen.generation, 0);
    /* the owner will know the place of the page, too */
    if (!take_askers(turn->array, turn->question.page, record) ||
        !tug_rankset_add(&record->told, turn->array->nranks, record->place.owner)) {
        turn->status = TUG_ERR_NO_MEMORY;
        return false;
    }
    record->move = turn;
    turn->old = record->place;
    step_to(turn, TUG_CALL_STOP, &turn->old);
    return true;
}

/* ---- what others ask ---- */

static struct turn *take_turn(struct tug_array *array, struct tug_caller caller,
                              const struct tug_question *question, bool is_move) {
    const unsigned most = array->nranks < TOLD_AT_ONCE ? array->nranks : TOLD_AT_ONCE;
    const unsigned nanswers = is_move ? most : 0;
    struct turn *turn = calloc(1, sizeof(*turn) + nanswers * sizeof(struct answer));
    if (turn == NULL)
        return NULL;
    turn->work.run = take_step;
    turn->array = array;
    turn->record = record_of(array, question->page);
    turn->caller = caller;
    turn->question = *question;
    turn->is_move = is_move;
    turn->spare = ((uint64_t)1 << nanswers) - 1;
    turn->message.page = question->page;
    turn->message.gently = question->gently;
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

static bool read_question(const struct tug_array *array, const void *payload,
                          struct tug_question *question) {
    memcpy(question, payload, sizeof(*question));
    return tug_array_is_home(array, question->page, array->rank) && question->puts <= 1 &&
           question->wanted <= 1 && question->gently <= 1;
}

static bool on_ask(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_question question;
    if (!read_question(array, payload, &question) || question.to != TUG_NO_OWNER)
        return false;
    struct record *record = record_of(array, question.page);
    const struct turn *move = record->move;
    if (move == NULL) {
        (void)take_askers(array, question.page, record); /* frees the words for others */
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
    return true;
}

static bool may_wait_for_a_hold(const struct turn *turn) {
    return turn->is_move && !turn->question.gently;
}

/* Is there one among those who come before? */
static bool any_may_wait(const struct record *record) {
    if (record->move != NULL && may_wait_for_a_hold(record->move))
        return true;
    for (const struct turn *turn = record->first; turn != NULL; turn = turn->next)
        if (may_wait_for_a_hold(turn))
            return true;
    return false;
}

static bool on_move(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_question question;
    if (!read_question(array, payload, &question) || question.to >= array->nranks)
        return false;
    struct record *record = record_of(array, question.page);
    if (!question.wanted) /* from a node that cannot reach them */
        atomic_fetch_add(&tug_array_record(array, question.page)->wants, 1);
    question.wanted = true;
    const bool refused = question.gently && any_may_wait(record);
    struct turn *turn = refused ? NULL : take_turn(array, caller, &question, true);
    if (turn == NULL) {
        stop_wanting(array, question.page);
        reply(array, record, caller, refused ? TUG_ERR_STATE : TUG_ERR_NO_MEMORY, false);
    } else if (record->move != NULL) {
        line_up(turn);
    } else if (!begin(turn)) {
        show(array, question.page, record);
        end_turn(turn, turn->status);
        free(turn);
    }
    return true;
}

struct tug_page_slot tug_home_begin(struct tug_array *array, uint64_t page, uint32_t slot) {
    struct record *record = record_of(array, page);
    record->place = (struct tug_page_slot){
        .generation = record->place.generation + 1, .owner = array->rank, .slot = slot};
    tug_rankset_clear(&record->told);
    show(array, page, record);
    return record->place;
}

void tug_home_show(struct tug_array *array) {
    for (uint64_t page = 0; page < array->npages; page++)
        if (tug_array_home(array, page).rank == array->rank)
            show(array, page, record_of(array, page));
}

/* ---- beginning and end ---- */

size_t tug_home_footprint(void) {
    return sizeof(struct record) + sizeof(struct tug_page_record);
}

int tug_home_open(struct tug_array *array, enum tug_placement placement) {
    struct tug_home *home = calloc(1, sizeof(*home));
    if (home == NULL)
        return TUG_ERR_NO_MEMORY;
    array->home = home;
    home->fetches_most = tug_context_operations(array->context) / 4;
    home->nrecords = array->nhomed;
    home->records = calloc(home->nrecords + 1, sizeof(*home->records));
    if (home->records == NULL)
        return TUG_ERR_NO_MEMORY;
    const bool by_rank = array->homes == NULL;
    for (uint64_t page = by_rank ? array->rank : 0; page < array->npages;
         page += by_rank ? array->nranks : 1)
        if (tug_array_home(array, page).rank == array->rank)
            record_of(array, page)->place = tug_array_first_place(array, placement, page);
    tug_array_receive(array, TUG_CALL_ASK, on_ask);
    tug_array_receive(array, TUG_CALL_MOVE, on_move);
    return 0;
}

void tug_home_close(struct tug_array *array) {
    struct tug_home *home = array->home;
    if (home == NULL)
        return;
    for (size_t i = 0; home->records != NULL && i < home->nrecords; i++)
        tug_rankset_clear(&home->records[i].told);
    free(home->records);
    free(home);
}

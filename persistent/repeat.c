#include "persistent/repeat.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/keyval.h"
#include "host/layout.h"
#include "host/level.h"
#include "host/participants.h"
#include "persistent/collectives.h"
#include "persistent/rival.h"
#include "request/request.h"

/* ---- what stays the host's ---- */

static bool reduces(enum tug_collective_kind kind) {
    return kind == TUG_COLLECTIVE_REDUCE || kind == TUG_COLLECTIVE_ALLREDUCE;
}

static bool has_blocks(enum tug_collective_kind kind) {
    return kind == TUG_COLLECTIVE_ALLGATHER || kind == TUG_COLLECTIVE_ALLTOALL;
}

static bool is_in_place(const struct tug_repeat_call *call) {
    return call->send.buffer == MPI_IN_PLACE;
}

/* Bytes of one side; 0 for nothing, and for arguments that are the host's to judge. */
static uint64_t side_bytes(const struct tug_repeat_side *side) {
    MPI_Count size = 0;
    if (side->count <= 0 || !tug_type_is_one(side->type))
        return 0;
    if (tug_type_is_basic(side->type))
        return (uint64_t)side->count * tug_type_basic_size(side->type);
    if (tug_host.Type_size_c(side->type, &size) != MPI_SUCCESS || size <= 0)
        return 0;
    return (uint64_t)(side->count * size);
}

/* What a call is told apart by, of which a program that is right has the same on all ranks. Zero
 * bytes: nothing to do, or the host's. */
static struct tug_repeat_key key_of(const struct tug_repeat_call *call) {
    struct tug_repeat_key key = {.kind = call->kind, .root = call->root, .bytes = 1};
    if (call->kind == TUG_COLLECTIVE_BARRIER)
        return key;
    key.bytes = side_bytes(&call->receive);
    if (reduces(call->kind)) {
        key.reduction = tug_type_is_basic(call->receive.type)
                            ? tug_reduction_find(call->op, call->receive.type)
                            : NULL;
        if (key.reduction == NULL)
            key.bytes = 0;
    } else if (has_blocks(call->kind) && !is_in_place(call) &&
               side_bytes(&call->send) != key.bytes) {
        key.bytes = 0;
    }
    return key;
}

/* MPI_BOTTOM, which is NULL, is for types with addresses of their own. */
static bool has_data(const struct tug_repeat_side *side, MPI_Datatype type) {
    return (side->buffer != NULL || !tug_type_is_predefined(type)) && side->buffer != MPI_IN_PLACE;
}

/* False: the host reports them. */
static bool has_sound_buffers(const struct tug_repeat_call *call, int rank) {
    const struct tug_repeat_side *send = &call->send, *receive = &call->receive;
    const unsigned char *out = receive->buffer;
    if (call->kind == TUG_COLLECTIVE_BARRIER)
        return true;
    if (reduces(call->kind)) {
        if (call->kind == TUG_COLLECTIVE_REDUCE && rank != call->root)
            return has_data(send, receive->type);
        return has_data(receive, receive->type) && send->buffer != NULL && send->buffer != out;
    }
    if (!has_data(receive, receive->type))
        return false;
    if (call->kind == TUG_COLLECTIVE_BCAST || is_in_place(call))
        return true;
    if (call->kind == TUG_COLLECTIVE_ALLGATHER && tug_type_is_basic(receive->type))
        out += (size_t)rank * (size_t)receive->count * tug_type_basic_size(receive->type);
    /* of other types addresses alone do not say which bytes they are */
    const bool tells = tug_type_is_basic(receive->type) && tug_type_is_basic(send->type);
    return has_data(send, send->type) && !(tells && send->buffer == out);
}

/* ---- what is kept ---- */

static struct tug_repeat the_hosts = {.state = TUG_REPEAT_HOSTS};

static void drop(struct tug_repeat *repeat) {
    if (repeat->request != NULL)
        tug_request_release(repeat->request);
    repeat->request = NULL;
    for (int i = 0; i < 2; i++)
        free(repeat->aside[i].memory);
    memset(repeat->aside, 0, sizeof(repeat->aside));
}

void tug_repeats_drop(struct tug_repeats *repeats) {
    for (int i = 0; i < TUG_REPEATS_KEPT; i++) {
        if (repeats->kept[i].key.bytes == 0)
            continue;
        drop(&repeats->kept[i]);
        repeats->kept[i] = (struct tug_repeat){0};
    }
    repeats->next = repeats->replaced = 0;
}

static bool is_same(const struct tug_repeat_key *a, const struct tug_repeat_key *b) {
    return a->bytes == b->bytes && a->kind == b->kind && a->root == b->root &&
           a->reduction == b->reduction;
}

/* One that is only counted gives way, in turn; the rest stay. */
static struct tug_repeat *find(struct tug_repeats *repeats, const struct tug_repeat_key *key) {
    for (int i = 0; i < TUG_REPEATS_KEPT; i++)
        if (is_same(&repeats->kept[i].key, key))
            return &repeats->kept[i];
    for (int i = 0; i < TUG_REPEATS_KEPT && repeats->replaced < TUG_REPEATS_REPLACED; i++) {
        struct tug_repeat *repeat = &repeats->kept[repeats->next++ % TUG_REPEATS_KEPT];
        if (repeat->key.bytes != 0 && repeat->state != TUG_REPEAT_COUNTED)
            continue;
        repeats->replaced += repeat->key.bytes != 0;
        *repeat = (struct tug_repeat){.key = *key};
        return repeat;
    }
    return &the_hosts;
}

/* One more call; true if there have been enough. The sizes are the same on all ranks. */
static bool is_worth_it(struct tug_repeat_count *before, unsigned calls, uint64_t bytes) {
    const bool few_do = tug_settings.collectives == TUG_COLLECTIVES_ON;
    if (before->calls >= calls && (few_do || before->worth >= TUG_REPEATS_WORTH))
        return true;
    const uint64_t more = bytes / TUG_REPEATS_COUNTS_AS_ONE;
    before->calls++;
    before->worth += 1 + (unsigned)(more < TUG_REPEATS_WORTH ? more : TUG_REPEATS_WORTH);
    return false;
}

/* What is known of a communicator, whose attribute it is. Communicators of few calls are left
 * alone: a team costs more than all of them. */
struct habit {
    int rank, nranks;
    struct tug_repeat_count before;
};

static _Atomic uint64_t habits_gone;

static int forget(MPI_Comm comm, int key, void *attribute, void *state) {
    (void)comm, (void)key, (void)state;
    /* release: pairs with the acquire in habit_of(), in threads that get the handle from now on */
    atomic_fetch_add_explicit(&habits_gone, 1, memory_order_release);
    free(attribute);
    return MPI_SUCCESS;
}

static struct habit *make_habit(MPI_Comm comm, int key) {
    struct habit *habit = calloc(1, sizeof(*habit));
    if (habit == NULL || tug_host.Comm_set_attr(comm, key, habit) != MPI_SUCCESS) {
        tug_log(TUG_LOG_ERROR, "no memory to count this rank's collective calls in, which all "
                               "ranks have to count alike, so the program is aborted: give the "
                               "ranks more memory, or set TUGBOAT_COLLECTIVES=off");
        abort(); /* the other ranks count this call */
    }
    tug_host.Comm_rank(comm, &habit->rank);
    tug_host.Comm_size(comm, &habit->nranks);
    return habit;
}

/* Of one whose ranks all take part. The last one is known by the handle: to ask the host takes its
 * lock. */
static struct habit *habit_of(MPI_Comm comm) {
    static struct tug_keyval kept = {.forget = forget};
    static _Thread_local struct {
        MPI_Comm comm;
        struct habit *habit; /* NULL: none yet */
        uint64_t gone;
    } last;
    const uint64_t gone = atomic_load_explicit(&habits_gone, memory_order_acquire);
    int found = 0;
    if (last.habit != NULL && last.comm == comm && last.gone == gone)
        return last.habit;
    last.habit = NULL;
    const int key = tug_comm_is_one(comm) ? tug_keyval_number(&kept) : MPI_KEYVAL_INVALID;
    if (key == MPI_KEYVAL_INVALID ||
        tug_host.Comm_get_attr(comm, key, (void *)&last.habit, &found) != MPI_SUCCESS)
        return NULL;
    if (!found)
        last.habit = tug_all_known_to_take_part(comm) ? make_habit(comm, key) : NULL;
    last.comm = comm;
    last.gone = gone;
    return last.habit;
}

/* What is kept for a call; NULL: the host's, this time. */
static struct tug_repeat *look_up(const struct tug_repeat_call *call) {
    struct tug_team *team;
    const struct tug_repeat_key key = key_of(call);
    struct habit *habit = key.bytes > 0 ? habit_of(call->comm) : NULL;
    if (habit == NULL || call->root < 0 || call->root >= habit->nranks ||
        !has_sound_buffers(call, habit->rank))
        return NULL;
    if (habit->nranks == 1 || /* turns would change the result from call to call */
        (reduces(call->kind) &&
         !tug_rival_has_one_result(call->op, call->receive.type, habit->nranks)))
        return &the_hosts;
    if (!is_worth_it(&habit->before, TUG_REPEATS_YOUNG, key.bytes))
        return NULL;
    if (tug_collectives_team(call->comm, &team) != 0)
        return &the_hosts;
    struct tug_repeat *repeat = find(&tug_collectives_of(team)->repeats, &key);
    if (repeat != &the_hosts)
        repeat->team = team;
    return repeat;
}

/* ---- runs of ours ---- */

/* A schedule on plain bytes, whose buffers come with each run; reductions are in place where there
 * is a result. On all ranks or none. */
static int make(struct tug_repeat *repeat, const struct tug_repeat_call *call) {
    static unsigned char nothing;
    const bool in_place = call->kind == TUG_COLLECTIVE_ALLREDUCE ||
                          (call->kind == TUG_COLLECTIVE_REDUCE && repeat->team->rank == call->root);
    const struct tug_side plain = {
        .buffer = &nothing, .count = (MPI_Count)repeat->key.bytes, .type = MPI_BYTE};
    struct tug_collective described = {.kind = call->kind,
                                       .send = plain,
                                       .receive = plain,
                                       .op = call->op,
                                       .root = call->root,
                                       .comm = call->comm,
                                       .rebinds = true};
    if (reduces(call->kind)) {
        described.receive.count = call->receive.count;
        described.receive.type = call->receive.type;
    }
    if (in_place)
        described.send.buffer = MPI_IN_PLACE;
    tug_device_look();
    return tug_collective_create(&described, NULL, &repeat->request);
}

/* The program's data as plain bytes: where they lie, or aside. */
struct plain {
    unsigned char *bytes;
    struct tug_data data; /* of the program's, if they are aside */
    bool is_aside;
    bool is_device;
};

static unsigned char *room_aside(struct tug_repeat *repeat, int i, size_t bytes) {
    if (repeat->aside[i].bytes < bytes) {
        free(repeat->aside[i].memory);
        repeat->aside[i].memory = malloc(bytes);
        repeat->aside[i].bytes = repeat->aside[i].memory != NULL ? bytes : 0;
    }
    return repeat->aside[i].memory;
}

static int move(const struct tug_data *to, const struct tug_data *from, bool is_device,
                MPI_Comm comm) {
    return is_device ? tug_data_move_device(to, from, from->bytes) : tug_data_move(to, from, comm);
}

static struct tug_data bytes_at(unsigned char *memory, size_t bytes) {
    return (struct tug_data){.address = memory,
                             .count = (MPI_Count)bytes,
                             .type = MPI_BYTE,
                             .bytes = bytes,
                             .end = (MPI_Aint)bytes,
                             .contiguous = true};
}

/* i: which of the two rooms aside. An error class. */
static int lay_out(struct tug_repeat *repeat, int i, const struct tug_repeat_side *side,
                   MPI_Count blocks, bool reads, struct plain *plain) {
    *plain = (struct plain){.bytes = (unsigned char *)side->buffer};
    if (tug_type_is_basic(side->type) && !tug_has_devices())
        return MPI_SUCCESS;
    struct tug_data *data = &plain->data;
    *data = (struct tug_data){
        .address = (void *)side->buffer, .count = side->count * blocks, .type = side->type};
    if (!tug_data_describe(data, repeat->team->comm))
        return MPI_ERR_TYPE;
    plain->is_device = tug_has_devices() && tug_data_is_device(data);
    plain->is_aside = plain->is_device || !data->contiguous;
    if (!plain->is_aside) {
        plain->bytes = tug_run_address(data->address, data->first);
        return MPI_SUCCESS;
    }
    plain->bytes = room_aside(repeat, i, data->bytes);
    if (plain->bytes == NULL)
        return MPI_ERR_NO_MEM;
    const struct tug_data bytes = bytes_at(plain->bytes, data->bytes);
    return reads ? move(&bytes, data, plain->is_device, repeat->team->comm) : MPI_SUCCESS;
}

static int deliver(const struct tug_repeat *repeat, const struct plain *plain) {
    const struct tug_data bytes = bytes_at(plain->bytes, plain->data.bytes);
    return plain->is_aside ? move(&plain->data, &bytes, plain->is_device, repeat->team->comm)
                           : MPI_SUCCESS;
}

static int run(struct tug_request *request, const unsigned char *input, unsigned char *output) {
    tug_collective_rebind(request, input, output);
    tug_request_start(request);
    tug_request_wait(request);
    request->active = false;
    return request->error;
}

static int run_bcast(struct tug_repeat *repeat, const struct tug_repeat_call *call) {
    struct plain data;
    const bool reads = repeat->team->rank == call->root;
    int error = lay_out(repeat, 0, &call->receive, 1, reads, &data);
    if (error == MPI_SUCCESS)
        error = run(repeat->request, NULL, data.bytes);
    return error == MPI_SUCCESS && !reads ? deliver(repeat, &data) : error;
}

static int run_reduction(struct tug_repeat *repeat, const struct tug_repeat_call *call) {
    struct plain in = {0}, out = {0};
    const bool receives =
        call->kind == TUG_COLLECTIVE_ALLREDUCE || repeat->team->rank == call->root;
    const struct tug_repeat_side send = {call->send.buffer, call->receive.count,
                                         call->receive.type};
    int error = MPI_SUCCESS;
    if (receives)
        error = lay_out(repeat, 0, &call->receive, 1, is_in_place(call), &out);
    if (error == MPI_SUCCESS && !is_in_place(call))
        error = lay_out(repeat, 1, &send, 1, true, &in);
    if (error != MPI_SUCCESS)
        return error;
    if (receives && !is_in_place(call))
        tug_copy(out.bytes, in.bytes, repeat->key.bytes);
    error = run(repeat->request, receives ? out.bytes : in.bytes, out.bytes);
    return error == MPI_SUCCESS && receives ? deliver(repeat, &out) : error;
}

static int run_blocks(struct tug_repeat *repeat, const struct tug_repeat_call *call) {
    struct plain in = {0}, out;
    const bool all = call->kind == TUG_COLLECTIVE_ALLTOALL;
    const MPI_Count n = repeat->team->nranks;
    int error = lay_out(repeat, 0, &call->receive, n, is_in_place(call), &out);
    if (error == MPI_SUCCESS && !is_in_place(call))
        error = lay_out(repeat, 1, &call->send, all ? n : 1, true, &in);
    if (error != MPI_SUCCESS)
        return error;
    if (is_in_place(call) && !all)
        in.bytes = out.bytes + (size_t)repeat->team->rank * repeat->key.bytes;
    if (is_in_place(call) && all) {
        in.bytes = room_aside(repeat, 1, (size_t)n * repeat->key.bytes);
        if (in.bytes == NULL)
            return MPI_ERR_NO_MEM;
        tug_copy(in.bytes, out.bytes, (size_t)n * repeat->key.bytes);
    }
    error = run(repeat->request, in.bytes, out.bytes);
    return error == MPI_SUCCESS ? deliver(repeat, &out) : error;
}

static int run_ours(struct tug_repeat *repeat, const struct tug_repeat_call *call) {
    int error = call->kind == TUG_COLLECTIVE_BARRIER ? run(repeat->request, NULL, NULL)
                : call->kind == TUG_COLLECTIVE_BCAST ? run_bcast(repeat, call)
                : reduces(call->kind)                ? run_reduction(repeat, call)
                                                     : run_blocks(repeat, call);
    tug_stat_add(TUG_STAT_COLLECTIVE_TAKEN, 1);
    return error;
}

/* ---- whose turn it is ---- */

/* Ours is the blind one: it has to be faster by what the tuner asks of these. */
enum { HOSTS, OURS, WAYS };

static void begin_to_tune(struct tug_repeat *repeat) {
    repeat->state = TUG_REPEAT_TUNED;
    repeat->tuner.ncandidates = OURS;
    repeat->tuner.nblind = WAYS - OURS;
    tug_tuner_init(&repeat->tuner);
}

static void note(struct tug_repeat *repeat, uint64_t begin_ns) {
    tug_tuner_note(&repeat->tuner, begin_ns != 0 ? (double)(tug_clock_ns() - begin_ns) * 1e-9 : 0);
}

void tug_repeat_end(const struct tug_repeat_turn *turn) {
    note(turn->timed, turn->begin_ns);
}

/* A round is over, and which of the two is taken. Of later rounds, what has changed. */
static void settle(struct tug_repeat *repeat) {
    const struct tug_tuner *tuner = &repeat->tuner;
    const bool anew = repeat->taken != 1 + tuner->current;
    repeat->rest = tuner->rest - 1; /* the call that comes now is the first */
    repeat->taken = 1 + tuner->current;
    if (anew && repeat->team->rank == 0)
        tug_log(TUG_VERBOSE_INFO, "%s of %zu bytes: %.2f us, by the host %.2f us: %s",
                tug_collective_name(repeat->key.kind),
                repeat->key.kind == TUG_COLLECTIVE_BARRIER ? 0 : (size_t)repeat->key.bytes,
                tuner->measured_s[OURS] * 1e6, tuner->measured_s[HOSTS] * 1e6,
                tuner->current == OURS ? "taken" : "left to the host");
}

/* By the rank on which each run takes longest. False: the ranks cannot tell each other. */
static bool agree(struct tug_repeat *repeat) {
    double times_s[TUG_TUNER_SAMPLES];
    int64_t words[TUG_TUNER_SAMPLES]; /* ns */
    tug_tuner_vote(&repeat->tuner, times_s);
    for (int i = 0; i < TUG_TUNER_SAMPLES; i++)
        words[i] = (int64_t)(times_s[i] * 1e9);
    if (tug_agree(repeat->team->comm, MPI_MAX, words, TUG_TUNER_SAMPLES) != MPI_SUCCESS)
        return false;
    for (int i = 0; i < TUG_TUNER_SAMPLES; i++)
        times_s[i] = (double)words[i] * 1e-9;
    tug_tuner_agreed(&repeat->tuner, times_s);
    settle(repeat);
    return true;
}

static bool is_finding_its_way(struct tug_repeat *repeat) {
    if (repeat->unsettled == TUG_REPEATS_UNSETTLED || tug_collective_is_settled(repeat->request))
        return false;
    repeat->unsettled++;
    return true;
}

/* A call of a round. True: it has been done. */
static bool try(struct tug_repeat *repeat, const struct tug_repeat_call *call,
                struct tug_repeat_turn *turn) {
    const bool ours = repeat->tuner.current == OURS;
    const bool counts = !ours || !is_finding_its_way(repeat);
    turn->begin_ns = counts && tug_tuner_counts(&repeat->tuner) ? tug_clock_ns() : 0;
    turn->timed = ours ? NULL : repeat;
    if (!ours)
        return false;
    turn->error = run_ours(repeat, call);
    if (counts)
        note(repeat, turn->begin_ns);
    return true;
}

/* One that is tuned. True: it has been done. */
static bool take_turn(struct tug_repeat *repeat, const struct tug_repeat_call *call,
                      struct tug_repeat_turn *turn) {
    struct tug_tuner *tuner = &repeat->tuner;
    if (tuner->settled && repeat->rest-- == 0)
        tug_tuner_resume(tuner);
    if (tug_tuner_must_agree(tuner) && !agree(repeat)) {
        repeat->state = TUG_REPEAT_HOSTS;
        drop(repeat);
        return false;
    }
    if (!tuner->settled)
        return try(repeat, call, turn);
    if (tuner->current == HOSTS)
        return false;
    turn->error = run_ours(repeat, call);
    return true;
}

bool tug_repeat_begin(const struct tug_repeat_call *call, struct tug_repeat_turn *turn) {
    struct tug_repeat *repeat = look_up(call);
    turn->timed = NULL;
    if (repeat == NULL || repeat->state == TUG_REPEAT_HOSTS)
        return false;
    if (repeat->state == TUG_REPEAT_COUNTED) {
        if (!is_worth_it(&repeat->before, TUG_REPEATS_BEFORE, repeat->key.bytes))
            return false;
        if (make(repeat, call) == 0)
            begin_to_tune(repeat);
        else
            repeat->state = TUG_REPEAT_HOSTS;
    }
    return repeat->state == TUG_REPEAT_TUNED && take_turn(repeat, call, turn);
}

#include "transport/lone.h"

#include <string.h>

#include "base/copy.h"
#include "base/stats.h"
#include "node/page.h"
#include "node/team.h"
#include "transport/packets/apply.h"
#include "transport/transport.h"

static inline void copy(void *to, const void *from, size_t bytes) {
    if (__builtin_expect(bytes == 8, 1))
        memcpy(to, from, 8);
    else if (bytes > 0)
        tug_copy(to, from, bytes);
}

/* ---- the origin ---- */

/* The lowest cell that is free; TUG_TRAY_CELLS: there is none. */
static unsigned take_cell(struct tug_lone *lone) {
    uint64_t taken = atomic_load_explicit(&lone->taken, memory_order_relaxed);
    do {
        if (taken == UINT64_MAX)
            return TUG_TRAY_CELLS;
        /* acquire: pairs with the release in give_cell */
    } while (!atomic_compare_exchange_weak_explicit(&lone->taken, &taken, taken | (taken + 1),
                                                    memory_order_acquire, memory_order_relaxed));
    return (unsigned)__builtin_ctzll(~taken);
}

static void give_cell(struct tug_lone *lone, unsigned cell) {
    atomic_fetch_and_explicit(&lone->taken, ~((uint64_t)1 << cell), memory_order_release);
}

/* What has come goes where it was wanted. */
static inline void take(const struct tug_lone_asked *asked, unsigned char *const *places,
                        const unsigned char *data) {
    if (asked->each == 0) {
        copy(asked->to, data, asked->bytes);
        return;
    }
    for (uint32_t i = 0; i <= asked->more; i++, data += asked->each)
        copy(places[i], data, asked->each);
}

/* A run of reads of which each ends by itself; the cell is free for another meanwhile. */
static void end_each(struct tug_lone *lone, unsigned cell, int status) {
    const struct tug_lone_asked *asked = &lone->cells[cell];
    void (*const ends)(void *, int) = asked->each_ends;
    const uint32_t n = asked->more + 1;
    void *all[TUG_LONE_READS];
    memcpy(all, lone->ends[cell], n * sizeof(all[0]));
    give_cell(lone, cell);
    for (uint32_t i = 0; i < n; i++)
        ends(all[i], status);
}

/* Others may collect at the same time: who moves the turn has the operation to itself. If it has
 * not moved since it was looked at, fabric and answer were of that turn: it began behind them. */
static bool collect_one(struct tug_lone *lone, const struct tug_fabric *fabric, unsigned cell) {
    struct tug_lone_asked *asked = &lone->cells[cell];
    struct tug_cell *there = &lone->tray->cells[cell];
    uint32_t turn = atomic_load(&asked->turn); /* seq_cst: pairs with end() */
    if (turn % 2 == 0 || atomic_load_explicit(&asked->fabric, memory_order_relaxed) != fabric)
        return false;
    const uint32_t answer = atomic_load(&there->answer);
    if (answer == 0 ||
        !atomic_compare_exchange_strong_explicit(&asked->turn, &turn, turn + 1,
                                                 memory_order_relaxed, memory_order_relaxed))
        return false;
    const struct tug_callback then = asked->on_complete;
    const uint32_t more = asked->more;
    const bool comes = asked->to != NULL || asked->each > 0;
    int status = -(int)((answer - 1) & 0xff);
    if (status == 0 && comes && there->bytes != asked->bytes)
        status = TUG_ERR_RANGE;
    else if (status == 0 && comes)
        take(asked, lone->places[cell], there->data);
    if (asked->each_ends != NULL) {
        end_each(lone, cell, status);
        return true;
    }
    give_cell(lone, cell);
    if (then.f != NULL)
        then.f(then.d, status);
    if (more > 0)
        fabric->count(then.d, more);
    return true;
}

bool tug_lone_collect(struct tug_fabric *fabric) {
    struct tug_lone *lone = fabric->lone;
    bool any = false;
    for (uint64_t left = atomic_load(&lone->taken); left != 0; left &= left - 1)
        any |= collect_one(lone, fabric, (unsigned)__builtin_ctzll(left));
    return any;
}

/* The slot, with all but a write's data in it. NULL: there is no room. */
static inline struct tug_slot *begin(struct tug_fabric *fabric, struct tug_inbox *inbox,
                                     const struct tug_lone_head *head,
                                     const struct tug_lone_asked *asked) {
    struct tug_lone *lone = fabric->lone;
    unsigned cell = take_cell(lone);
    if (cell == TUG_TRAY_CELLS && tug_lone_collect(fabric)) /* one who never waits comes here */
        cell = take_cell(lone);
    if (cell == TUG_TRAY_CELLS)
        return NULL;
    struct tug_slot *slot = tug_inbox_reserve(inbox);
    if (slot == NULL) {
        give_cell(lone, cell);
        return NULL;
    }
    struct tug_lone_asked *mine = &lone->cells[cell];
    mine->to = asked->to;
    mine->bytes = asked->bytes;
    mine->more = asked->more;
    mine->each = asked->each;
    mine->each_ends = asked->each_ends;
    mine->on_complete = asked->on_complete;
    atomic_store_explicit(&mine->fabric, fabric, memory_order_relaxed);
    atomic_store_explicit(&lone->tray->cells[cell].answer, 0, memory_order_relaxed);
    struct tug_lone_head *filled = (struct tug_lone_head *)slot->head;
    *filled = *head;
    filled->cell = (uint16_t)cell;
    slot->bytes = TUG_SLOT_LONE;
    return slot;
}

/* It goes, and may be collected when its buffer has been told to be free. seq_cst, and a look after
 * that: who was woken by an answer before that has not found it, and sleeps again. */
static inline void end(struct tug_fabric *fabric, uint32_t node_rank, struct tug_inbox *inbox,
                       struct tug_slot *slot, const struct tug_callback *on_local) {
    struct tug_lone *lone = fabric->lone;
    const unsigned cell = ((const struct tug_lone_head *)slot->head)->cell;
    tug_inbox_commit(slot, tug_team_bell(fabric->team, (int)node_rank));
    tug_inbox_expect(inbox);
    tug_stat_add(TUG_STAT_LONE, 1);
    if (on_local->f != NULL)
        on_local->f(on_local->d, 0);
    struct tug_lone_asked *asked = &lone->cells[cell];
    atomic_store(&asked->turn, atomic_load_explicit(&asked->turn, memory_order_relaxed) + 1);
    if (__builtin_expect(atomic_load(&lone->tray->cells[cell].answer) != 0, 0))
        (void)tug_bell_ring(tug_team_bell(fabric->team, fabric->team->node_rank), true);
}

/* Of a run of reads the distances go, and the places stay, and their ends if they have any. */
static inline void split(unsigned char *distances, unsigned char **places, void **ends,
                         const unsigned char *run, unsigned count) {
    const size_t step = tug_run_step(0);
    for (unsigned i = 0; i < count; i++) {
        memcpy(distances + i * step, run, step);
        memcpy(&places[i], run + step, sizeof(*places));
        run += step + sizeof(*places);
        if (ends != NULL) {
            memcpy(&ends[i], run, sizeof(*ends));
            run += sizeof(*ends);
        }
    }
}

/* Puts it into the process's inbox, with the data that follow. False: it cannot be. */
static inline __attribute__((always_inline)) bool start(struct tug_fabric *fabric, uint32_t peer,
                                                        struct tug_lone_head head, const void *data,
                                                        const struct tug_lone_asked *asked,
                                                        const struct tug_callback *on_local) {
    const uint32_t node_rank = tug_fabric_node_rank(fabric, peer);
    if (fabric->lone == NULL || node_rank == TUG_ELSEWHERE)
        return false;
    struct tug_inbox *inbox = fabric->team->neighbours[node_rank]->inbox;
    head.label.context = fabric->id;
    head.label.source = fabric->rank;
    struct tug_slot *slot = begin(fabric, inbox, &head, asked);
    if (slot == NULL)
        return false;
    unsigned char *behind = slot->head + sizeof(head);
    const unsigned cell = ((const struct tug_lone_head *)slot->head)->cell;
    if (head.what == TUG_LONE_READ_RUN)
        split(behind, fabric->lone->places[cell],
              asked->each_ends != NULL ? fabric->lone->ends[cell] : NULL, data, head.count);
    else if (head.what != TUG_LONE_READ)
        copy(behind, data, head.label.bytes);
    end(fabric, node_rank, inbox, slot, on_local);
    return true;
}

static const struct tug_callback nothing;

bool tug_lone_read(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                   void *to, uint32_t bytes, struct tug_callback on_complete) {
    const struct tug_lone_head head = {
        .label.bytes = bytes, .key = key, .offset = offset, .what = TUG_LONE_READ};
    const struct tug_lone_asked asked = {.to = to, .bytes = bytes, .on_complete = on_complete};
    return start(fabric, peer, head, NULL, &asked, &nothing);
}

bool tug_lone_write(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                    const void *from, uint32_t bytes, const struct tug_callback *on_local,
                    struct tug_callback on_complete) {
    const struct tug_lone_head head = {
        .label.bytes = bytes, .key = key, .offset = offset, .what = TUG_LONE_WRITE};
    const struct tug_lone_asked asked = {.on_complete = on_complete};
    return start(fabric, peer, head, from, &asked, on_local);
}

bool tug_lone_write_run(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                        const void *run, uint32_t count, uint32_t length, void *counter) {
    const struct tug_lone_head head = {.label.bytes = count * (uint32_t)tug_run_step(length),
                                       .key = key,
                                       .offset = offset,
                                       .what = TUG_LONE_RUN,
                                       .length = (uint8_t)length,
                                       .count = (uint16_t)count};
    const struct tug_lone_asked asked = {.more = count - 1,
                                         .on_complete = {fabric->counter, counter}};
    return head.label.bytes <= TUG_LONE_WRITE_MOST &&
           start(fabric, peer, head, run, &asked, &nothing);
}

bool tug_lone_read_run(struct tug_fabric *fabric, uint32_t peer, uint64_t key, uint64_t offset,
                       const void *run, uint32_t count, uint32_t length, void *counter,
                       void (*each_ends)(void *d, int status)) {
    const struct tug_lone_head head = {.label.bytes = count * (uint32_t)tug_run_step(0),
                                       .key = key,
                                       .offset = offset,
                                       .what = TUG_LONE_READ_RUN,
                                       .length = (uint8_t)length,
                                       .count = (uint16_t)count};
    const struct tug_lone_asked asked = {.more = count - 1,
                                         .bytes = count * length,
                                         .each = length,
                                         .each_ends = each_ends,
                                         .on_complete = {fabric->counter, counter}};
    return count <= TUG_LONE_READS && count * length <= TUG_LONE_READ_MOST &&
           start(fabric, peer, head, run, &asked, &nothing);
}

bool tug_lone_message(struct tug_fabric *fabric, uint32_t peer, unsigned handler,
                      const void *payload, uint32_t bytes, struct tug_callback on_complete) {
    const struct tug_lone_head head = {
        .label.bytes = bytes, .what = TUG_LONE_MESSAGE, .handler = (uint8_t)handler};
    const struct tug_lone_asked asked = {.on_complete = on_complete};
    return start(fabric, peer, head, payload, &asked, &nothing);
}

bool tug_lone_call(struct tug_fabric *fabric, uint32_t peer, unsigned handler, const void *payload,
                   uint32_t bytes, void *answer, uint32_t answer_bytes,
                   struct tug_callback on_complete) {
    const struct tug_lone_head head = {
        .label.bytes = bytes, .what = TUG_LONE_CALL, .handler = (uint8_t)handler};
    const struct tug_lone_asked asked = {
        .to = answer, .bytes = answer_bytes, .on_complete = on_complete};
    return start(fabric, peer, head, payload, &asked, &nothing);
}

bool tug_lone_out(const struct tug_fabric *fabric) {
    const struct tug_lone *lone = fabric->lone;
    uint64_t left = atomic_load_explicit(&lone->taken, memory_order_acquire);
    for (; left != 0; left &= left - 1)
        if (atomic_load_explicit(&lone->cells[__builtin_ctzll(left)].fabric,
                                 memory_order_relaxed) == fabric)
            return true;
    return false;
}

/* ---- the target ---- */

/* seq_cst: before the look whether the origin sleeps. error: the positive value of a TUG_ERR_*. */
static void answer(const struct tug_fabric *fabric, uint32_t node_rank, struct tug_cell *cell,
                   uint32_t error) {
    atomic_store(&cell->answer, 1 + error);
    (void)tug_bell_ring(tug_team_bell(fabric->team, (int)node_rank), true);
}

static struct tug_applied apply(struct tug_fabric *fabric, const struct tug_lone_head *head,
                                unsigned kind, const unsigned char *data) {
    const uint64_t words[] = {head->key, head->offset, 0, head->label.bytes};
    const struct tug_record record = {
        .kind = (uint8_t)kind, .length = (uint16_t)head->label.bytes, .words = words, .data = data};
    return tug_apply(&fabric->memory, &record);
}

/* Does a run, of which so many bytes each are data, one operation's after the other's. What is read
 * goes into the cell. A TUG_ERR_*. */
static int apply_run(struct tug_fabric *fabric, const struct tug_lone_head *head,
                     const unsigned char *run, size_t each, struct tug_cell *cell) {
    const uint64_t words[] = {head->key, head->offset};
    const struct tug_record record = {.kind = TUG_RECORD_RUN,
                                      .sub = head->length,
                                      .length = head->count,
                                      .words = words,
                                      .data = run};
    if (head->length == 0 || head->label.bytes != head->count * tug_run_step(each))
        return TUG_ERR_INVALID;
    if (cell == NULL)
        return tug_apply_run(&fabric->memory, &record);
    if ((uint32_t)head->count * head->length > TUG_LONE_READ_MOST)
        return TUG_ERR_INVALID;
    cell->bytes = (uint32_t)head->count * head->length;
    return tug_apply_read_run(&fabric->memory, &record, cell->data);
}

/* A TUG_ERR_*. */
static int answer_read(struct tug_fabric *fabric, const struct tug_lone_head *head,
                       struct tug_cell *cell) {
    const struct tug_applied applied = apply(fabric, head, TUG_RECORD_READ, NULL);
    if (applied.status == 0) {
        copy(cell->data, applied.data, head->label.bytes);
        cell->bytes = head->label.bytes;
    }
    return applied.status;
}

/* Handles a message or call, in memory that nobody changes meanwhile. A TUG_ERR_*. */
static int handle(struct tug_fabric *fabric, const struct tug_lone_head *head,
                  const unsigned char *data) {
    uint64_t payload[TUG_AM_MAX_PAYLOAD / 8];
    const uint32_t source = head->label.source, bytes = head->label.bytes;
    _Static_assert(TUG_AM_HANDLERS > UINT8_MAX, "any number is one of a handler");
    if (bytes > TUG_AM_MAX_PAYLOAD)
        return TUG_ERR_INVALID;
    copy(payload, data, bytes);
    if (head->what == TUG_LONE_MESSAGE)
        return fabric->deliver(fabric, source, head->handler, payload, bytes, 1);
    const struct tug_caller caller = {(int)source, TUG_LONE_CALLER | head->cell};
    return fabric->called(fabric, caller, head->handler, payload, bytes);
}

void tug_lone_serve(struct tug_fabric *fabric, const struct tug_slot *slot) {
    struct tug_lone_head head; /* by a peer, who may still change it */
    memcpy(&head, slot->head, sizeof(head));
    const unsigned char *data = slot->head + sizeof(head);
    const uint32_t node_rank = tug_fabric_node_rank(fabric, head.label.source);
    int status = TUG_ERR_INVALID;
    if (node_rank == TUG_ELSEWHERE || head.cell >= TUG_TRAY_CELLS)
        return;
    struct tug_cell *cell = &fabric->team->neighbours[node_rank]->tray->cells[head.cell];
    if (head.label.bytes > (head.what == TUG_LONE_READ ? TUG_LONE_READ_MOST : TUG_LONE_WRITE_MOST))
        ;
    else if (head.what == TUG_LONE_WRITE)
        status = apply(fabric, &head, TUG_RECORD_WRITE, data).status;
    else if (head.what == TUG_LONE_READ)
        status = answer_read(fabric, &head, cell);
    else if (head.what == TUG_LONE_RUN)
        status = apply_run(fabric, &head, data, head.length, NULL);
    else if (head.what == TUG_LONE_READ_RUN)
        status = apply_run(fabric, &head, data, 0, cell);
    else if (head.what <= TUG_LONE_CALL)
        status = handle(fabric, &head, data);
    if (status != 0 || head.what != TUG_LONE_CALL) /* who is called answers */
        answer(fabric, node_rank, cell, (uint32_t)-status);
}

void tug_lone_answer(struct tug_fabric *fabric, struct tug_caller caller, int status,
                     const void *data, size_t bytes) {
    const uint32_t node_rank = tug_fabric_node_rank(fabric, (uint32_t)caller.process);
    struct tug_cell *cell =
        &fabric->team->neighbours[node_rank]->tray->cells[caller.tag & ~TUG_LONE_CALLER];
    if (bytes > TUG_LONE_READ_MOST)
        status = TUG_ERR_RANGE;
    if (status == 0) {
        copy(cell->data, data, bytes);
        cell->bytes = (uint32_t)bytes;
    }
    answer(fabric, node_rank, cell, (uint32_t)-status);
}

/* Pages that follow their users, without a call of the program's.
 *
 * Beside the place of a page stands what this process has paid for its accesses to it while the
 * page was elsewhere: the *rent*, in nanoseconds. When the rent is as much as a move takes, the
 * page moves here. That is the rule of who rents skis and buys them when the rent has reached the
 * price: a process that uses a page alone pays at most twice what it would have paid had it known
 * how often it would use it (less than the price in vain, if it stops just after the move). And
 * all moves of a process together never take longer than its accesses before them.
 *
 * Rent and price are measured. Accesses, or moves, that are under way together share the time.
 * Before the first move is measured the price is that of four accesses (own, stop, fetch, change).
 *
 * No ping-pong: a page that is taken away soon after it came, within STAY times the price, costs
 * twice as much the next time, up to 2^PATIENCE_MOST times, so that processes that go on using a
 * page together move it more and more seldom. A page that stayed longer has its first price again.
 *
 * Pages in memory that this process maps are used where they are, and do not follow.
 *
 * Threading: the holder of the baton.
 */
#include "base/clock.h"
#include "gas/array.h"

#define STAY 16
#define PATIENCE_MOST 10
#define FIRST_PRICE 4 /* accesses */
#define USES_LEAST 2  /* what is used once does not come */
#define WEIGHT 8      /* of what was measured before, against the newest */

static void measure(uint64_t *mean, uint64_t ns) {
    *mean = *mean == 0 ? ns : (*mean * (WEIGHT - 1) + ns) / WEIGHT;
}

static uint64_t price_of(const struct tug_follow *follow) {
    return follow->move_ns != 0 ? follow->move_ns : FIRST_PRICE * follow->access_ns;
}

static void start_anew(struct tug_page *entry) {
    entry->rent_ns = entry->uses = 0;
}

static void moved(void *d, int status) {
    struct tug_page *entry = d;
    struct tug_follow *follow = &entry->array->follow;
    const uint64_t now = tug_clock_ns();
    entry->following = false;
    if (status == 0)
        measure(&follow->move_ns, (now - entry->since_ns) / follow->moves_out);
    else if (entry->patience < PATIENCE_MOST) /* no room here, perhaps */
        entry->patience++;
    follow->moves_out--;
    entry->since_ns = status == 0 ? now : 0;
}

static void come_here(struct tug_page *entry) {
    struct tug_array *array = entry->array;
    struct tug_order *order = tug_order_take(array);
    if (order == NULL)
        return; /* at the next access */
    order->kind = TUG_ORDER_MOVE;
    order->index = atomic_load_explicit(&entry->page, memory_order_relaxed) * array->page_bytes;
    order->bytes = 1;
    order->buffer = NULL;
    order->to = array->rank;
    order->on_complete = (struct tug_callback){moved, entry};
    entry->following = true;
    entry->since_ns = tug_clock_ns();
    array->follow.moves_out++;
    start_anew(entry);
    tug_order_start(order);
}

void tug_follow_begin(struct tug_page *entry, struct tug_task *task) {
    struct tug_follow *follow = &entry->array->follow;
    if (!follow->on)
        return;
    task->begun_ns = tug_clock_ns();
    follow->accesses_out++;
}

void tug_follow_cancel(struct tug_page *entry) {
    if (entry->array->follow.on)
        entry->array->follow.accesses_out--;
}

void tug_follow_end(struct tug_page *entry, const struct tug_task *task, int status) {
    struct tug_follow *follow = &entry->array->follow;
    if (!follow->on)
        return;
    const uint64_t ns = (tug_clock_ns() - task->begun_ns) / follow->accesses_out--;
    measure(&follow->access_ns, ns);
    if (status != 0 || entry->following || entry->place.owner == entry->array->rank)
        return;
    entry->rent_ns += ns;
    entry->uses++;
    if (entry->uses >= USES_LEAST && !entry->asking && !entry->changing &&
        entry->rent_ns >= price_of(follow) << entry->patience)
        come_here(entry);
}

void tug_follow_left(struct tug_page *entry) {
    const struct tug_follow *follow = &entry->array->follow;
    if (!follow->on)
        return;
    start_anew(entry);
    if (entry->since_ns == 0 || entry->following)
        return; /* it did not come by itself */
    if (tug_clock_ns() - entry->since_ns >= STAY * price_of(follow))
        entry->patience = 0;
    else if (entry->patience < PATIENCE_MOST)
        entry->patience++;
    entry->since_ns = 0;
}

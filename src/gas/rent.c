#include "gas/rent.h"

#define FIRST_PRICE 8 /* accesses, while it is not known */
#define FIRST_STREAK 2
#define BY_CHANCE 16           /* one of so many streaks that return would go on */
#define BYTES_MOST (64u << 10) /* whose copy costs about as much as the messages of a move */
#define MOST_ARE_HERE 2        /* accesses here for each elsewhere */
#define STREAK 256u            /* the weight of the newest */
#define STREAKS_MOST 512       /* then old ones lose half of theirs */
#define OFTEN 4
#define LEAST_MOST 3 /* OFTEN times that is still counted, see TUG_USES_MOST */
#define WEIGHT 8     /* of what was measured before, against the newest */

void tug_rent_open(struct tug_rent *rent, size_t page_bytes) {
    uint32_t run = 1;
    while (run < TUG_RUN_MOST && 2 * run * page_bytes <= BYTES_MOST)
        run *= 2;
    *rent = (struct tug_rent){.run = run, .run_most = run};
}

static void measure(uint64_t *mean, uint64_t ns) {
    *mean = *mean == 0 ? ns : (*mean * (WEIGHT - 1) + ns) / WEIGHT;
}

void tug_rent_accessed(struct tug_rent *rent, uint64_t ns) {
    measure(&rent->access_ns, ns);
}

void tug_rent_moved(struct tug_rent *rent, uint64_t ns) {
    measure(&rent->move_ns, ns);
}

uint64_t tug_rent_price(const struct tug_rent *rent) {
    return rent->move_ns;
}

struct tug_run_of_pages tug_rent_run(const struct tug_rent *rent, uint64_t page, uint64_t npages) {
    const uint64_t first = page - page % rent->run, left = npages - first;
    return (struct tug_run_of_pages){first, left < rent->run ? (uint32_t)left : rent->run};
}

/* Pages of the same run as the one at `of`. */
static uint32_t uses_of_run(const struct tug_rent *rent, const uint64_t pages[], uint32_t npages,
                            uint32_t of) {
    uint32_t uses = 0;
    for (uint32_t i = 0; i < npages; i++)
        uses += pages[i] / rent->run == pages[of] / rent->run;
    return uses;
}

bool tug_rent_leads(const struct tug_rent *rent, const uint64_t pages[], uint32_t npages) {
    const uint32_t uses = uses_of_run(rent, pages, npages, npages - 1);
    for (uint32_t i = 0; i + 1 < npages; i++)
        if (uses_of_run(rent, pages, npages, i) > uses)
            return false;
    return true;
}

/* ---- streaks ---- */

static void forget_a_part(struct tug_rent *rent) {
    if (rent->changes + rent->returns[1] < STREAKS_MOST * STREAK)
        return;
    rent->changes /= 2;
    for (int i = 0; i <= TUG_STREAK_MOST; i++)
        rent->returns[i] /= 2;
}

void tug_rent_returned(struct tug_rent *rent, uint32_t accesses) {
    for (uint32_t i = 1; i <= accesses && i <= TUG_STREAK_MOST; i++)
        rent->returns[i] += STREAK;
    forget_a_part(rent);
}

void tug_rent_changed(struct tug_rent *rent) {
    rent->changes += STREAK;
    forget_a_part(rent);
}

/* How many returned after so many accesses or more: chance alone makes some of them longer, also
 * where none has been seen. */
static uint64_t returns_of(const struct tug_rent *rent, uint32_t accesses) {
    uint64_t returns = rent->returns[1];
    for (uint32_t i = 2; i <= accesses; i++)
        returns = returns / BY_CHANCE > rent->returns[i] ? returns / BY_CHANCE : rent->returns[i];
    return returns;
}

/* Is a streak that has come so far a change? */
static bool foresees(const struct tug_rent *rent, uint32_t streak) {
    const bool known = rent->move_ns != 0;
    const uint64_t changes = known ? rent->changes : STREAK;
    const uint64_t price = known ? rent->move_ns : FIRST_PRICE * rent->access_ns;
    if (changes == 0 || changes < 2 * rent->returns[TUG_STREAK_MOST] ||
        (!known && streak < FIRST_STREAK))
        return false;
    for (uint32_t i = streak + 1; i <= TUG_STREAK_MOST; i++) {
        const uint64_t returns = returns_of(rent, streak) - returns_of(rent, i);
        if (returns * TUG_IN_VAIN * price > changes * (i - streak) * rent->access_ns)
            return false;
    }
    return true;
}

bool tug_rent_buys(const struct tug_rent *rent, const struct tug_run_seen *seen) {
    if (rent->access_ns == 0 || seen->streak == 0)
        return false;
    if (!seen->others_come && seen->leads && foresees(rent, seen->streak))
        return true;
    const uint64_t price = tug_rent_price(rent) << seen->patience;
    return price != 0 && (seen->idle_ns >= price || seen->rent_ns >= TUG_CONTEST * price);
}

uint32_t tug_rent_due(const struct tug_rent *rent, uint32_t npages) {
    const uint64_t due = rent->access_ns != 0 ? tug_rent_price(rent) / rent->access_ns : 0;
    const uint32_t most = npages * OFTEN * LEAST_MOST;
    return due < 1 ? 1 : due < most ? (uint32_t)due : most;
}

/* ---- pages ---- */

uint8_t tug_rent_least(const struct tug_rent *rent, uint32_t npages) {
    const uint64_t part = tug_rent_price(rent) / npages;
    const uint64_t least = rent->access_ns != 0 ? part / rent->access_ns : 0;
    return (uint8_t)(least < 1 ? 1 : least > LEAST_MOST ? LEAST_MOST : least);
}

bool tug_rent_was_change(uint32_t uses, uint32_t due, uint32_t elsewhere) {
    return uses >= due && uses >= MOST_ARE_HERE * elsewhere;
}

enum tug_verdict tug_rent_judge(uint8_t uses, uint8_t least) {
    if (uses < least)
        return TUG_CAME_IN_VAIN;
    return uses < OFTEN * least ? TUG_HAS_PAID : TUG_HAS_PAID_OFTEN;
}

uint8_t tug_rent_patience(uint8_t patience, enum tug_verdict verdict) {
    if (verdict == TUG_HAS_PAID_OFTEN)
        return 0;
    if (verdict == TUG_CAME_IN_VAIN && patience < TUG_PATIENCE_MOST)
        return (uint8_t)(patience + 1);
    return patience;
}

void tug_rent_count(struct tug_rent *rent, enum tug_verdict verdict) {
    (*(verdict == TUG_CAME_IN_VAIN ? &rent->vain : &rent->paid))++;
}

void tug_rent_learn(struct tug_rent *rent) {
    const uint32_t paid = rent->paid, vain = rent->vain;
    if (paid + vain < (rent->run + 1) / 2)
        return;
    rent->paid = rent->vain = 0;
    if (vain > paid && rent->run > 1)
        rent->run /= 2;
    else if (vain == 0 && rent->run < rent->run_most)
        rent->run *= 2;
}

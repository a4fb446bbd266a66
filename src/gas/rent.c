#include "gas/rent.h"

#define FIRST_PRICE 2          /* accesses */
#define BYTES_MOST (64u << 10) /* whose copy costs about as much as the messages of a move */
#define TRUST_BITS 3           /* of the price, for each */
#define TRUST_MOST 3
#define TRUST_AT_ONCE 2
#define VAIN_TO_PAID 4 /* pages: as many in vain, or more, and there is no trust */
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
    return rent->move_ns != 0 ? rent->move_ns : FIRST_PRICE * rent->access_ns;
}

struct tug_run_of_pages tug_rent_run(const struct tug_rent *rent, uint64_t page, uint64_t npages) {
    const uint64_t first = page - page % rent->run, left = npages - first;
    return (struct tug_run_of_pages){first, left < rent->run ? (uint32_t)left : rent->run};
}

bool tug_rent_buys(const struct tug_rent *rent, const struct tug_run_seen *seen) {
    const uint64_t price = tug_rent_price(rent) << seen->patience;
    if (price == 0)
        return false;
    uint64_t idle_price = price;
    if (!seen->others_come) {
        const bool at_once = seen->foreseen || rent->trust >= TRUST_AT_ONCE;
        const uint64_t least = at_once ? 1 : FIRST_PRICE * rent->access_ns;
        idle_price = price >> TRUST_BITS * rent->trust;
        if (idle_price < least)
            idle_price = least;
    }
    return seen->idle_ns >= idle_price || seen->rent_ns >= TUG_CONTEST * price;
}

uint8_t tug_rent_least(const struct tug_rent *rent, uint32_t npages) {
    const uint64_t part = tug_rent_price(rent) / npages;
    const uint64_t least = rent->access_ns != 0 ? part / rent->access_ns : 0;
    return (uint8_t)(least < 1 ? 1 : least > LEAST_MOST ? LEAST_MOST : least);
}

enum tug_verdict tug_rent_judge(struct tug_rent *rent, uint8_t uses, uint8_t least) {
    if (uses < least) {
        rent->vain++;
        return TUG_CAME_IN_VAIN;
    }
    rent->paid++;
    return uses < OFTEN * least ? TUG_HAS_PAID : TUG_HAS_PAID_OFTEN;
}

uint8_t tug_rent_patience(uint8_t patience, enum tug_verdict verdict) {
    if (verdict == TUG_HAS_PAID_OFTEN)
        return 0;
    if (verdict == TUG_CAME_IN_VAIN && patience < TUG_PATIENCE_MOST)
        return (uint8_t)(patience + 1);
    return patience;
}

void tug_rent_learn(struct tug_rent *rent) {
    const uint32_t paid = rent->paid, vain = rent->vain;
    if (paid + vain < (rent->run + 1) / 2)
        return;
    rent->paid = rent->vain = 0;
    if (vain * VAIN_TO_PAID > paid)
        rent->trust = 0;
    else if (rent->trust < TRUST_MOST)
        rent->trust++;
    if (vain > paid && rent->run > 1)
        rent->run /= 2;
    else if (vain == 0 && rent->run < rent->run_most)
        rent->run *= 2;
}

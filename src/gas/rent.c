#include "gas/rent.h"

#define FIRST_PRICE 8          /* accesses, while it is not known */
#define BYTES_MOST (64u << 10) /* whose copy costs about as much as the messages of a move */
#define LEAST_MOST 15          /* that is counted, see TUG_USES_MOST */
#define WEIGHT 8               /* of what was measured before, against the newest */

void tug_rent_open(struct tug_rent *rent, size_t page_bytes) {
    uint32_t run = 1;
    while (run < TUG_RUN_MOST && 2 * run * page_bytes <= BYTES_MOST)
        run *= 2;
    *rent = (struct tug_rent){.run = run};
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

struct tug_run_of_pages tug_rent_run(const struct tug_rent *rent, uint64_t page, uint64_t npages) {
    const uint64_t first = page - page % rent->run, left = npages - first;
    return (struct tug_run_of_pages){first, left < rent->run ? (uint32_t)left : rent->run};
}

/* Of a run; 0: not even an access has been measured. */
static uint64_t price_of(const struct tug_rent *rent) {
    return rent->move_ns != 0 ? rent->move_ns : FIRST_PRICE * rent->access_ns;
}

bool tug_rent_buys(const struct tug_rent *rent, uint64_t rent_ns, uint64_t idle_ns,
                   uint8_t patience) {
    const uint64_t price = price_of(rent) << patience;
    return price != 0 && (idle_ns >= price || rent_ns >= TUG_CONTEST * price);
}

uint8_t tug_rent_least(const struct tug_rent *rent, uint32_t npages) {
    const uint64_t part = price_of(rent) / npages;
    const uint64_t least = rent->access_ns != 0 ? part / rent->access_ns : 0;
    return (uint8_t)(least < 1 ? 1 : least > LEAST_MOST ? LEAST_MOST : least);
}

uint8_t tug_rent_patience(uint8_t patience, uint8_t uses, uint8_t least) {
    if (uses >= least)
        return 0;
    return patience < TUG_PATIENCE_MOST ? (uint8_t)(patience + 1) : patience;
}

/* Live registrations: what a process has registered, as the others of its node see it, who reach it
 * from where they are: by cross-memory attach, or where it is lent by loads and stores.
 *
 * A process has one list, in memory that they have mapped (page.h), for all of its contexts. An
 * entry belongs to the registration with that id in that context, which may have one of WAYS
 * entries. They follow one another in the order of the registrations' indices, from four entries
 * that the context says, so those of one context do not compete:
 *
 *       0         8             16          24                        64
 *      +---------+-------------+-----------+--------------------------+
 *      | id, or 0| attachers   | context   | offer                    |
 *      +---------+-------------+-----------+--------------------------+
 *
 * Who attaches is counted first and looks at the id then; the owner withdraws the id first and
 * looks at the count then: either the one or the other sees it (seq_cst). What is not in the list
 * is reached by packets.
 *
 * Any thread; publish, withdraw, restore and end by the list's owner.
 */
#ifndef TUG_NODE_LIVE_H
#define TUG_NODE_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "node/lent.h"

#define TUG_LIVE 2048u /* entries: a power of two */

struct tug_live {
    _Atomic uint64_t id;        /* 0: none, for attachers */
    _Atomic uint64_t attachers; /* transfers under way */
    _Atomic uint64_t context;   /* 0: the entry is free */
    struct tug_offer offer;     /* all zeros: not lent. Written before the id, read by attachers */
} __attribute__((aligned(TUG_CACHE_LINE)));

_Static_assert(sizeof(struct tug_live) == 64, "see the drawing");

/* The entry is the registration's, until tug_live_end(). NULL: none is free, or list is NULL. */
struct tug_live *tug_live_publish(struct tug_live *list, uint64_t context, uint64_t id,
                                  const struct tug_offer *offer);

/* Nobody attaches to the registration any more. False, and nothing happens, while a transfer is
 * under way. entry may be NULL. */
bool tug_live_withdraw(struct tug_live *entry);

/* After withdraw. restore: it may be attached to again; end: the entry is free. */
void tug_live_restore(struct tug_live *entry, uint64_t id);
void tug_live_end(struct tug_live *entry);

/* The registration's entry in another process's list (or NULL), where it stays until
 * tug_live_detach(). NULL: it is not there. */
struct tug_live *tug_live_attach(struct tug_live *list, uint64_t context, uint64_t id);
void tug_live_detach(struct tug_live *entry);

/* By an attacher: nobody attaches to the registration any more. */
void tug_live_spoil(struct tug_live *entry);

#endif

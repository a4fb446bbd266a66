/* Neighbours: the processes of this node, as this one sees them: where their pages are mapped
 * (page.h), what they have registered (live.h), and whether it can attach to them (cma.h).
 *
 * A process tells the others what it takes to find it, its *introduction*. A neighbour is found
 * once for all teams that it is in, and forgotten when the last of them goes.
 *
 * Any thread.
 */
#ifndef TUG_NODE_NEIGHBOUR_H
#define TUG_NODE_NEIGHBOUR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/lent.h"

struct tug_node_memory;
struct tug_node_page;

/* A word of the process, whose value the others know, tells its address space from others'. */
struct tug_introduction {
    pid_t pid; /* 0: without random numbers there is no such word, and nobody attaches */
    uint64_t address, word;
    struct tug_offer page; /* all zeros: it cannot be had */
};

/* This process's. to_others: other processes of the node get it, and are let attach to this one if
 * `cma` is in TUGBOAT_TRANSPORTS. */
struct tug_introduction tug_introduce(bool to_others);

struct tug_neighbour {
    struct tug_node_page *page;
    struct tug_live *live;           /* its list; NULL: none */
    struct tug_inbox *inbox;         /* NULL: none */
    struct tug_tray *tray;           /* NULL: none */
    struct tug_views *_Atomic views; /* of what it lends, see view.h; NULL: none */
    pid_t pid;                       /* 0: this process cannot attach to it */
    struct tug_offer offer;          /* of its page; all zeros: the caller brought the page */
    bool opened;                     /* its page was opened by that offer */
    bool before;                     /* of this process, in an order that all of the node have */
    unsigned users;
    struct tug_neighbour *next;
};

/* The neighbour who introduces itself so, until tug_neighbour_leave(). page: where to find it in
 * place of the page it offers, NULL: by the offer. NULL: its page cannot be opened, or there is no
 * memory. */
struct tug_neighbour *tug_neighbour_meet(const struct tug_introduction *theirs,
                                         struct tug_node_page *page);
void tug_neighbour_leave(struct tug_neighbour *neighbour);

/* visit(neighbour, d) for each whose page is its own, this process among them. False, at once: the
 * list is in use. */
bool tug_neighbours_try(void (*visit)(const struct tug_neighbour *neighbour, void *d), void *d);

/* Where its list, inbox and tray are, if not behind its page. By the maker of the page. */
void tug_neighbour_use(struct tug_neighbour *neighbour, struct tug_node_memory *memory);

#endif

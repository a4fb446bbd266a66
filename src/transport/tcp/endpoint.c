/* The endpoint of the tcp wire: this process's listener, its links, and the epoll set that tells of
 * them, for all contexts. Their wires are views of it: tcp.c.
 *
 * One epoll set holds the listener and all links; a link that could not take all bytes waits in it
 * for room. The set is readable when there is anything to do: the engine sleeps on it, or, where
 * peers of the node ring a shared bell too, the process's watcher does and rings that bell:
 * ../endpoint.h.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "base/sockets.h"
#include "base/stats.h"
#include "transport/tcp/private.h"

#define EVENTS 64   /* looked at in one poll */
#define IN_A_ROW 16 /* looks at one link without one at the set */

/* ---- the epoll set ---- */

static uint32_t listener_events(bool wanted) {
    return wanted ? EPOLLIN : 0;
}

bool tug_tcp_watch_listener(const struct tug_tcp_endpoint *endpoint, bool wanted, int how) {
    struct epoll_event event = {.events = listener_events(wanted), .data.ptr = NULL};
    return epoll_ctl(endpoint->base.descriptor, how, endpoint->listener.number, &event) == 0;
}

/* A user may have watches for so many descriptors only. */
void tug_tcp_watch(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = link};
    if (epoll_ctl(endpoint->base.descriptor, EPOLL_CTL_ADD, link->socket.number, &event) == 0)
        return;
    link->blind = true;
    endpoint->nblind++;
    tug_stat_add(TUG_STAT_UNWATCHED, 1);
}

/* ---- links that end ---- */

/* Its memory goes after the poll: an event may still name it. */
void tug_tcp_close_link(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct tug_tcp_link *beside = link->beside;
    if (link->closed)
        return;
    link->broken = link->closed = endpoint->closed_any = true;
    tug_tcp_close_socket(endpoint, link);
    endpoint->nlater -= link->later;
    endpoint->nwanted -= link->wants_beside;
    link->later = link->wants_beside = false;
    if (link->part != NULL)
        tug_pool_give(&link->part_wire->pool, link->part);
    link->part = NULL;
    if (link->peer == NULL)
        tug_tcp_no_stranger(endpoint, link);
    if (link->is_beside)
        link->peer = NULL; /* which may go before it */
    endpoint->nbeside -= link->is_beside;
    endpoint->nstuck -= link->stuck;
    link->held = link->stuck = false;
    if (link->left > 0 && link->left_wire != NULL)
        link->left_wire->arrived(link->left_wire->receiver, link->left_peer, false);
    link->left = 0;
    link->beside = NULL;
    if (beside == NULL)
        return;
    beside->beside = NULL;
    if (!link->is_beside)
        tug_tcp_close_link(endpoint, beside);
}

/* Does the link wait for what is to come beside it? */
static bool expects_beside(const struct tug_tcp_link *link) {
    return link->left > 0 && link->left_beside;
}

/* A connection beside a link has ended. If nothing was under way there the link goes on alone. */
static void end_beside(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *beside) {
    struct tug_tcp_link *link = beside->beside;
    tug_tcp_close_link(endpoint, beside);
    if (link == NULL || !(expects_beside(link) || (link->part != NULL && link->part_beside)))
        return;
    link->broken = true;
    tug_tcp_end_link(endpoint, link);
}

/* The link has broken. If nothing had gone by it the two may meet again, else what is to go to its
 * peer does not: the stream is told, again if it still tries. */
void tug_tcp_end_link(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    if (link->is_beside) {
        end_beside(endpoint, link);
        return;
    }
    if (link->by_host || tug_tcp_meet_again(endpoint, link))
        return;
    tug_tcp_close_link(endpoint, link);
    if (tug_tcp_is_way(link) && !link->to_tell) {
        link->to_tell = true;
        endpoint->to_tell++;
    }
}

/* The streams see whether they mind: at the end of a job nothing is outstanding. */
static void tell_lost(struct tug_tcp_endpoint *endpoint) {
    struct tug_tcp_link *link = endpoint->all;
    for (; endpoint->to_tell > 0 && link != NULL; link = link->next) {
        if (!link->to_tell)
            continue;
        link->to_tell = false;
        endpoint->to_tell--;
        tug_tcp_tell_ended(link->peer);
    }
}

static void free_link(struct tug_tcp_link *link) {
    free(link->rest);
    free(link);
}

/* A closed link that was the way to a peer stays: it says that there is no way any more. It goes
 * when nobody has to do with the peer. */
static void take_out_closed(struct tug_tcp_endpoint *endpoint) {
    endpoint->closed_any = false;
    for (struct tug_tcp_link **at = &endpoint->all; *at != NULL;) {
        struct tug_tcp_link *link = *at;
        struct tug_tcp_peer *peer = link->peer;
        const bool is_way = tug_tcp_is_way(link);
        if (!link->closed ||
            (is_way && (link->by_host || link->to_tell || peer->contacts != NULL))) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        if (endpoint->latest == link)
            endpoint->latest = NULL;
        free_link(link);
        if (is_way) {
            tug_table_remove(&endpoint->peers, peer->address.id);
            free(peer);
        }
    }
}

struct tug_tcp_peer *tug_tcp_peer_at(struct tug_tcp_endpoint *endpoint,
                                     const struct tug_tcp_address *address) {
    struct tug_tcp_peer *peer = tug_tcp_find_peer(endpoint, address->id);
    if (peer != NULL)
        return peer;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->address = *address;
    if (tug_table_add(&endpoint->peers, address->id, peer))
        return peer;
    free(peer);
    return NULL;
}

void tug_tcp_forget_peer(struct tug_tcp_endpoint *endpoint, struct tug_tcp_peer *peer) {
    if (peer->contacts != NULL)
        return;
    if (peer->link != NULL) {
        endpoint->closed_any |= peer->link->closed;
        return;
    }
    tug_table_remove(&endpoint->peers, peer->address.id);
    free(peer);
}

/* ---- what the program has closed ---- */

bool tug_tcp_link_holds(struct tug_tcp_link *link) {
    const uint64_t tick = tug_own_tick();
    if (link->tick != tick && link->socket.number >= 0 && !tug_own_holds(&link->socket))
        link->broken = true;
    link->tick = tick;
    return !link->broken;
}

/* Neither a link that the program has closed brings news, nor a network that is down: all are
 * looked at. */
static void look_at_all(struct tug_tcp_endpoint *endpoint) {
    const uint64_t before = endpoint->looked_ns;
    endpoint->looked_ns = endpoint->tick;
    for (struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next)
        if (!link->closed &&
            (!tug_tcp_link_holds(link) || tug_tcp_gives_up(link, before, endpoint->tick)))
            tug_tcp_end_link(endpoint, link);
}

/* The set or the listener is gone: all links end. */
static void lose(struct tug_tcp_endpoint *endpoint) {
    endpoint->base.lost = true;
    for (struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next) {
        link->broken = link->final = true;
        tug_tcp_end_link(endpoint, link);
    }
}

bool tug_tcp_holds(struct tug_tcp_endpoint *endpoint) {
    const uint64_t tick = tug_own_tick();
    if (tick == endpoint->tick || endpoint->base.lost)
        return !endpoint->base.lost;
    endpoint->tick = tick;
    if (!tug_own_set(endpoint->base.descriptor, &endpoint->listener,
                     listener_events(!endpoint->full), 0))
        lose(endpoint);
    else if (tick - endpoint->looked_ns >= (uint64_t)TUG_OWN_LOOK_NS)
        look_at_all(endpoint);
    return !endpoint->base.lost;
}

/* ---- what may go and come ---- */

/* Packets come by the link to a peer and no other, but from this process itself. */
static bool may_bring(const struct tug_tcp_endpoint *endpoint, const struct tug_tcp_link *link) {
    return link->greeted && (tug_tcp_is_way(link) || link->peer->address.id == endpoint->id);
}

/* Has the epoll set tell what is waited for at a link. */
static void change_events(const struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct epoll_event event = {.events = (link->held || link->deaf ? 0u : EPOLLIN) |
                                          (link->waits ? EPOLLOUT : 0u),
                                .data.ptr = link};
    if (!link->blind &&
        epoll_ctl(endpoint->base.descriptor, EPOLL_CTL_MOD, link->socket.number, &event) != 0)
        link->broken = true;
}

void tug_tcp_set(const struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link, bool *flag,
                 bool value) {
    if (link->broken || *flag == value)
        return;
    *flag = value;
    change_events(endpoint, link);
}

void tug_tcp_await_room(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const struct tug_tcp_link *in_the_way =
        link->part != NULL ? tug_tcp_link_in_the_way(link) : NULL;
    tug_tcp_set(endpoint, link, &link->waits, link == in_the_way);
    if (link->beside != NULL)
        tug_tcp_set(endpoint, link->beside, &link->beside->waits, link->beside == in_the_way);
}

void tug_tcp_prick_up(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct tug_tcp_link *next = expects_beside(link) ? link->beside : link;
    if (link->beside != NULL)
        tug_tcp_set(endpoint, next, &next->deaf, false);
}

/* ---- polling ---- */

/* Something that is not done from inside the host, where links are neither made nor ended, since
 * packets may have to go by the host's messages then: is it left? */
static bool is_left(struct tug_tcp_endpoint *endpoint, bool there_is) {
    endpoint->base.left |= there_is && endpoint->base.inside;
    return there_is && endpoint->base.inside;
}

/* True if anything came. */
static bool take_from(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    if (!link->greeted)
        return tug_tcp_hear(endpoint, link); /* a stream may have waited for it */
    if (may_bring(endpoint, link))
        return tug_tcp_link_take(link, endpoint);
    link->broken = true; /* the peer has given it up, as it should */
    return false;
}

/* Packets tell what comes beside the link. True if anything came. */
static bool take_beside(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *beside) {
    struct tug_tcp_link *link = beside->beside;
    if (!beside->greeted)
        return tug_tcp_hear(endpoint, beside);
    if (beside->is_ours || link == NULL)
        return !(beside->broken = true); /* nothing comes but its end */
    const bool moved = tug_tcp_link_take(link, endpoint);
    if (link->broken)
        tug_tcp_end_link(endpoint, link);
    return moved;
}

static bool take(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const bool moved = link->is_beside ? take_beside(endpoint, link) : take_from(endpoint, link);
    if (moved && !link->broken && !link->is_ours)
        endpoint->latest = link;
    return moved;
}

/* There is room. */
static void go_on(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct tug_tcp_link *whole = link->is_beside ? link->beside : link;
    (void)tug_tcp_link_put_rest(whole); /* what streams hold back goes with the flush */
    if (whole->broken && whole != link)
        tug_tcp_end_link(endpoint, whole);
    else
        tug_tcp_await_room(endpoint, whole);
}

static bool on_link(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link, uint32_t events) {
    bool moved = false;
    if (link->closed || link->later || is_left(endpoint, !link->greeted && !link->is_beside))
        return false;
    if (!tug_tcp_link_holds(link)) {
        /* ends */
    } else if (link->connecting) {
        tug_tcp_connected(endpoint, link);
        moved = true;
    } else {
        if (events & EPOLLOUT) {
            go_on(endpoint, link);
            moved = true;
        }
        if (events & ~(uint32_t)EPOLLOUT && !link->broken)
            moved |= take(endpoint, link);
    }
    if (!link->broken)
        return moved;
    tug_tcp_end_link(endpoint, link);
    return true;
}

/* Looks at the links that are in no epoll set. */
static bool poll_blind(struct tug_tcp_endpoint *endpoint) {
    bool moved = false;
    for (struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next) {
        if (!link->blind || link->closed)
            continue;
        struct pollfd look = {.fd = link->socket.number,
                              .events = link->waits ? POLLIN | POLLOUT : POLLIN};
        if (poll(&look, 1, 0) == 1)
            moved |= on_link(endpoint, link, (uint32_t)look.revents);
    }
    return moved;
}

/* The set tells of something that is not to come next; if it is not the end it waits its turn. */
static void put_off(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    if (link->closed || link->beside == NULL || !link->greeted ||
        link->is_beside == expects_beside(link->is_beside ? link->beside : link))
        return;
    if (link->is_beside)
        tug_tcp_link_see_end(link);
    tug_tcp_set(endpoint, link, &link->deaf, true);
    if (link->broken)
        tug_tcp_end_link(endpoint, link);
}

static bool poll_set(struct tug_tcp_endpoint *endpoint) {
    struct epoll_event events[EVENTS];
    bool moved = false;
    int n = epoll_wait(endpoint->base.descriptor, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL)
            moved |= !is_left(endpoint, true) && tug_tcp_take_connections(endpoint);
        else if (on_link(endpoint, events[i].data.ptr, events[i].events))
            moved = true;
        else
            put_off(endpoint, events[i].data.ptr);
    }
    return moved;
}

/* The link that something has come by last is asked ahead of the set: what is there comes a call
 * sooner (64 puts and a flush between two nodes of one machine: 15.5 us, and 14). Now and then the
 * others have their turn. */
static bool poll_latest(struct tug_tcp_endpoint *endpoint) {
    struct tug_tcp_link *link = endpoint->latest;
    if (link == NULL || !link->greeted || link->held || endpoint->in_a_row == IN_A_ROW ||
        !on_link(endpoint, link, EPOLLIN)) {
        endpoint->in_a_row = 0;
        return false;
    }
    endpoint->in_a_row++;
    return true;
}

/* Is there memory now for what could not be taken? */
static void resume_stuck(struct tug_tcp_endpoint *endpoint) {
    for (struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next) {
        if (!link->stuck)
            continue;
        tug_tcp_link_resume(link, endpoint);
        if (link->broken)
            tug_tcp_end_link(endpoint, link);
    }
}

static bool has_ended(const struct tug_tcp_endpoint *endpoint) {
    return endpoint->to_tell > 0 || endpoint->closed_any;
}

/* The link's own descriptor is seen to be ours first, the set's only where it is looked at.
 * Whatever was consumed counts as moved: who sleeps next has seen nothing come, and nothing go. */
bool tug_tcp_poll(struct tug_endpoint *base) {
    struct tug_tcp_endpoint *endpoint = (struct tug_tcp_endpoint *)base;
    if (endpoint->nstuck > 0)
        resume_stuck(endpoint);
    bool moved = poll_latest(endpoint) || (tug_tcp_holds(endpoint) && poll_set(endpoint));
    if (endpoint->nblind > 0)
        moved |= poll_blind(endpoint);
    if ((endpoint->nlater > 0 || endpoint->nwanted > 0 || endpoint->full) &&
        !is_left(endpoint, true))
        tug_tcp_attend(endpoint);
    if (has_ended(endpoint) && !is_left(endpoint, true)) {
        tell_lost(endpoint);
        take_out_closed(endpoint);
        moved = true;
    }
    return moved;
}

/* ---- sleeping ---- */

static bool arm_watch(struct tug_tcp_endpoint *endpoint) {
    if (tug_endpoint_arm(&endpoint->base))
        return true;
    if (!endpoint->unwatched)
        tug_stat_add(TUG_STAT_UNWATCHED, 1);
    endpoint->unwatched = true;
    return false;
}

/* One that is lost is waited for by nobody. */
bool tug_tcp_arm(struct tug_tcp_endpoint *endpoint) {
    if (endpoint->to_tell > 0 || endpoint->nlater > 0 || endpoint->nwanted > 0 ||
        endpoint->nblind > 0 || endpoint->nstuck > 0 || endpoint->full)
        return false;
    return tug_tcp_holds(endpoint) ? arm_watch(endpoint) : endpoint->to_tell == 0;
}

/* ---- opening and closing ---- */

static void close_set(struct tug_tcp_endpoint *endpoint) {
    if (endpoint->base.descriptor >= 0)
        tug_sockets_disclaim(endpoint->base.descriptor);
    if (tug_own_set(endpoint->base.descriptor, &endpoint->listener, 0, 0))
        tug_descriptor_close(endpoint->base.descriptor);
    endpoint->base.descriptor = -1;
}

static void forget(void *value, void *d) {
    (void)d;
    free(value);
}

void tug_tcp_endpoint_close(struct tug_endpoint *base) {
    struct tug_tcp_endpoint *endpoint = (struct tug_tcp_endpoint *)base;
    tug_endpoint_fini(base);
    while (endpoint->all != NULL) {
        struct tug_tcp_link *link = endpoint->all;
        endpoint->all = link->next;
        tug_tcp_close_link(endpoint, link);
        free_link(link);
    }
    close_set(endpoint);
    tug_tcp_end_socket(endpoint, &endpoint->listener);
    for (int i = 0; i < TUG_TCP_RESERVES; i++)
        tug_own_close(&endpoint->reserve[i]);
    tug_table_each(&endpoint->peers, forget, NULL);
    tug_table_fini(&endpoint->peers);
    free(endpoint->received);
    free(endpoint);
}

/* The set holds the listener from the beginning. */
static bool open_set(struct tug_tcp_endpoint *endpoint) {
    endpoint->base.descriptor = tug_own_keep(epoll_create1(EPOLL_CLOEXEC)).number;
    if (endpoint->base.descriptor >= 0 && tug_tcp_watch_listener(endpoint, true, EPOLL_CTL_ADD))
        return true;
    tug_descriptor_close(endpoint->base.descriptor);
    endpoint->base.descriptor = -1;
    return false;
}

struct tug_tcp_endpoint *tug_tcp_endpoint_make(struct tug_tcp_address *mine, bool spares_links) {
    struct tug_tcp_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (endpoint == NULL)
        return NULL;
    tug_endpoint_init(&endpoint->base, &tug_tcp_kind);
    endpoint->reserve[TUG_TCP_TO_CONNECT] = endpoint->reserve[TUG_TCP_TO_ACCEPT] =
        (struct tug_own)TUG_OWN_NONE;
    endpoint->spares_links = spares_links;
    endpoint->received = malloc(TUG_TCP_RECEIVE_BYTES);
    endpoint->proves = tug_settings.proof != TUG_PROOF_OFF && tug_digest_source() != NULL;
    endpoint->listener = tug_own_keep(tug_tcp_listen(mine));
    const bool drawn = tug_random_draw(&endpoint->id, sizeof(endpoint->id)) &&
                       tug_random_draw(mine->key, sizeof(mine->key));
    mine->id = endpoint->id;
    endpoint->address = *mine;
    if (drawn && endpoint->received != NULL && endpoint->listener.number >= 0 &&
        open_set(endpoint) && tug_tcp_restock(endpoint))
        return endpoint;
    tug_tcp_endpoint_close(&endpoint->base);
    return NULL;
}

/* How two processes come to the one connection between them, their link.
 *
 * The process that has the first packet for the other connects. Each proves to the other that it is
 * of the job (proof.h), and nothing else goes before that: a process that has not been answered has
 * lost nothing when the connection ends, and tries again, for TUGBOAT_PEER_TIMEOUT. Two that begin
 * at once make two connections. That of the lower id stays; that of the higher one is kept until it
 * is certain that the other is there. (Ranks would not do: one context has the two in one order,
 * the next in the other.)
 *
 *     one that connects                     the other
 *       | -- hello -------------------------> |
 *       | <---------------------- challenge - |
 *       | -- proof -------------------------> |  takes the connection, gives its own up if it has
 *       | <--------- answer, packets ... ---- |  begun to make one and is the higher one
 *       | -- packets ... -------------------> |
 *
 * Many connections at once. A connection is a *stranger* until it has proved to be of the job. If
 * it waited in the backlog its hello is there when it is accepted, and is read at once. A stranger
 * that says something else is closed at once, one with a wrong id only when its hello is whole. At
 * most SILENT_MOST strangers without a hello are kept, and INTRODUCED_MOST with one: a hello takes
 * knowing the id, which only the job's processes have (and listeners at the network). At these
 * limits, or without descriptors, the oldest stranger whose time is over is closed first. The time
 * is SILENT_NS for the hello, which is sent as soon as the connection is there, and PROOF_NS for
 * the proof, for which the other process may need a turn on a crowded core. A process of the job
 * whose connection is closed connects again.
 *
 * Until then, newcomers wait in the kernel's backlog. They do so, too, when ROUND_MOST have been
 * accepted in a round of ROUND_NS and have not proved who they are: a flood of them is to take a
 * small part of a core.
 *
 * Peers that are lost without a word, since their node has gone or the network is down. Where
 * something is out to one, the engine looks once a second whether it is acknowledged; where nothing
 * is, the kernel asks for signs of life and ends the connection. Either takes TUGBOAT_PEER_TIMEOUT.
 * (Not TCP_USER_TIMEOUT: it also ends connections to processes that are stopped while their sockets
 * are full.) A network that comes back in that time is found to be there within a twelfth of it, by
 * kernels that can be told to (Linux 6.15): others wait about as long again as it was down.
 *
 * Descriptors. One is kept in reserve to connect, one to accept, so that no two processes wait for
 * each other. Where no other is left, a connection is made or accepted with the reserve. If the two
 * are not in reserve again when hello is due, hello says that packets go by the host's messages;
 * then the two processes end the connection, and both know. A free descriptor is the reserve to
 * accept first: one that connects waits until the other process has accepted, so nobody may wait to
 * connect without being able to accept. A process that has said so once says it again, by whatever
 * connection it can, since the other may have no descriptor to take one more with. A connection
 * beside a link (link.h) is made with no reserve: it is given up instead.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/random.h"
#include "base/stats.h"
#include "transport/tcp/private.h"

#define ACCEPTS 64u /* in one poll */
#define DROPS 64u   /* strangers closed at once so that others may come */
#define SILENT_MOST 256u
#define INTRODUCED_MOST 1024u
#define ROUND_MOST 128u
#define BESIDE_MOST 64u /* connections beside links: the program's descriptors are not for them */
#define SILENT_NS ((uint64_t)20000000)
#define PROOF_NS ((uint64_t)2000000000)
#define ROUND_NS ((uint64_t)20000000)
#define REST_NS ((uint64_t)2000000) /* until strangers are looked at again */
/* The wait before the second try; it is doubled before each later one, so many times. */
#define AGAIN_NS ((uint64_t)1000000)
#define AGAIN_DOUBLED 7u
/* Signs of life are asked for after half the time, and then so often until it is over. */
#define ASKED 6
/* Linux sends so often before it ends a connection (net.ipv4.tcp_retries2 is 15), and the first
 * few follow each other sooner. */
#define SENT_AGAIN 12
#ifndef TCP_RTO_MAX_MS /* Linux 6.15 */
#define TCP_RTO_MAX_MS 44
#endif
#define RTO_LEAST_MS 1000
#define RTO_MOST_MS 120000

/* NULL: no memory. */
static struct tug_tcp_link *add_link(struct tug_tcp_endpoint *endpoint, struct tug_own socket,
                                     struct tug_tcp_peer *peer) {
    struct tug_tcp_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    *link = (struct tug_tcp_link){
        .socket = socket, .peer = peer, .since_ns = tug_clock_ns(), .next = endpoint->all};
    endpoint->all = link;
    return link;
}

/* ---- what is said ---- */

/* Of the process that is connected to, for proofs. NULL: there are none. */
static const unsigned char *key_of(const struct tug_tcp_endpoint *endpoint,
                                   const struct tug_tcp_address *address) {
    return endpoint->proves ? address->key : NULL;
}

/* Says hello: the connection is there. */
static void say_hello(const struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct tug_tcp_hello *hello = &link->said.hello;
    *hello = (struct tug_tcp_hello){.magic = TUG_TCP_HELLO_MAGIC,
                                    .destination = link->peer->address.id,
                                    .source = endpoint->id,
                                    .word = link->word};
    link->due = TUG_TCP_CHALLENGE_DUE;
    if (tug_random_draw(hello->nonce, sizeof(hello->nonce)))
        tug_tcp_link_say(link, hello, sizeof(*hello));
    else
        link->broken = true;
}

/* To a stranger who has said hello. */
static void challenge(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct tug_tcp_challenge challenge = {.magic = TUG_TCP_CHALLENGE_MAGIC};
    if (!tug_random_draw(challenge.nonce, sizeof(challenge.nonce))) {
        link->broken = true;
        return;
    }
    memcpy(link->said.nonce, challenge.nonce, sizeof(challenge.nonce));
    link->due = TUG_TCP_PROOF_DUE;
    endpoint->introduced++;
    tug_tcp_link_say(link, &challenge, sizeof(challenge));
}

/* To who has proved that he is of the job. */
static void answer(const struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link,
                   enum tug_tcp_word word) {
    struct tug_tcp_answer answer = {.word = word};
    link->due = TUG_TCP_PACKETS_DUE;
    if (tug_tcp_prove(key_of(endpoint, &endpoint->address), &link->said, TUG_TCP_IS_CONNECTED_TO,
                      word, answer.proof))
        tug_tcp_link_say(link, &answer, sizeof(answer));
    else
        link->broken = true;
}

/* ---- descriptors ---- */

/* Not lifted: their numbers are to be such as any socket may have. */
bool tug_tcp_restock(struct tug_tcp_endpoint *endpoint) {
    unsigned i = 0;
    for (; i < TUG_TCP_RESERVES; i++) {
        struct tug_own *reserve = &endpoint->reserve[i];
        if (reserve->number < 0)
            *reserve = tug_own_note(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (reserve->number < 0)
            break;
    }
    return i == TUG_TCP_RESERVES;
}

static bool have_reserve(struct tug_tcp_endpoint *endpoint, enum tug_tcp_reserve which) {
    (void)tug_tcp_restock(endpoint);
    return endpoint->reserve[which].number >= 0;
}

void tug_tcp_end_socket(const struct tug_tcp_endpoint *endpoint, struct tug_own *socket) {
    if (tug_own_holds(socket)) {
        (void)epoll_ctl(endpoint->base.descriptor, EPOLL_CTL_DEL, socket->number, NULL);
        (void)shutdown(socket->number, SHUT_RDWR);
    }
    tug_own_close(socket);
}

void tug_tcp_close_socket(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    if (link->socket.number < 0)
        return;
    tug_tcp_end_socket(endpoint, &link->socket);
    endpoint->nblind -= link->blind;
    link->blind = false;
    (void)tug_tcp_restock(endpoint); /* at once: others may look for a descriptor */
}

/* There was no descriptor. True: there may be one now; *last: it is the one in reserve. */
static bool find_descriptor(struct tug_tcp_endpoint *endpoint, enum tug_tcp_reserve which,
                            bool *last) {
    if (errno == EMFILE && tug_descriptors_raise())
        return true;
    if ((errno != EMFILE && errno != ENFILE) || endpoint->reserve[which].number < 0 ||
        !endpoint->spares_links)
        return false;
    tug_own_close(&endpoint->reserve[which]);
    return *last = true;
}

/* If nothing was made, the descriptor goes back into reserve. Keeps errno. */
static struct tug_own made_or_not(struct tug_tcp_endpoint *endpoint, int made) {
    const int error = errno;
    if (made < 0)
        (void)tug_tcp_restock(endpoint);
    const struct tug_own own = tug_own_keep(made);
    errno = error;
    return own;
}

/* A socket, or none, with errno. None while the reserve is in use. */
static struct tug_own make_socket(struct tug_tcp_endpoint *endpoint, int family, bool *last) {
    int made;
    *last = false;
    if (!have_reserve(endpoint, TUG_TCP_TO_CONNECT))
        return (struct tug_own)TUG_OWN_NONE;
    do
        made = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (made < 0 && find_descriptor(endpoint, TUG_TCP_TO_CONNECT, last));
    return made_or_not(endpoint, made);
}

static struct tug_own accept_socket(struct tug_tcp_endpoint *endpoint, bool *last) {
    int made;
    *last = false;
    do
        made = accept4(endpoint->listener.number, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    while (made < 0 && find_descriptor(endpoint, TUG_TCP_TO_ACCEPT, last));
    return made_or_not(endpoint, made);
}

/* Must the link be given up so that both are in reserve again? (Not only the one that it was made
 * with: the other's descriptor may have taken its place.) */
static bool is_too_much(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    link->last = link->last && !tug_tcp_restock(endpoint);
    return link->last;
}

/* ---- signs of life ---- */

static uint64_t patience_ns(void) {
    return tug_settings.peer_timeout_s * 1000000000u;
}

static void set(int socket, int level, int option, int value) {
    (void)setsockopt(socket, level, option, &value, sizeof(value));
}

/* A connection, or what is to become one. False: it is none. */
static bool prepare_socket(int socket) {
    const int on = 1, half_s = (int)(tug_settings.peer_timeout_s + 1) / 2;
    int rto_ms = (int)(tug_settings.peer_timeout_s * 1000 / SENT_AGAIN);
    rto_ms = rto_ms < RTO_LEAST_MS ? RTO_LEAST_MS : rto_ms > RTO_MOST_MS ? RTO_MOST_MS : rto_ms;
    set(socket, SOL_SOCKET, SO_KEEPALIVE, on);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, half_s);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, (half_s + ASKED - 1) / ASKED);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, ASKED);
    set(socket, IPPROTO_TCP, TCP_RTO_MAX_MS, rto_ms);
    return setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0;
}

bool tug_tcp_gives_up(struct tug_tcp_link *link, uint64_t looked_ns, uint64_t now_ns) {
    if (link->peer == NULL || link->broken || link->later ||
        !(link->connecting ? (int64_t)(now_ns - link->since_ns) > (int64_t)patience_ns()
                           : tug_tcp_link_is_silent(link, looked_ns, now_ns, patience_ns())))
        return false;
    tug_log(TUG_LOG_ERROR,
            "nothing has been heard of process %u for %u s, so operations on it fail: look whether "
            "its node runs and at the network between, or set TUGBOAT_PEER_TIMEOUT higher",
            tug_tcp_rank(link->peer), (unsigned)tug_settings.peer_timeout_s);
    return link->broken = link->final = true;
}

/* ---- connecting ---- */

/* Can another try end otherwise after this error? 0: the peer has closed the connection. */
static bool may_pass(int error) {
    return error == 0 || error == ECONNRESET || error == ECONNABORTED || error == EPIPE ||
           error == ETIMEDOUT || error == EAGAIN || error == EADDRNOTAVAIL || error == ENOBUFS ||
           error == ENOMEM || error == EMFILE || error == ENFILE;
}

static void fail(struct tug_tcp_link *link, int error) {
    link->broken = true;
    if (link->is_beside)
        return; /* it can be done without */
    link->final = !may_pass(error);
    if (link->final)
        tug_log(TUG_LOG_ERROR,
                "no connection to process %u, so operations on it fail: %s; look at the network "
                "and firewalls between the nodes",
                tug_tcp_rank(link->peer), strerror(error));
}

static void begin(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct sockaddr_storage address;
    socklen_t bytes = tug_tcp_sockaddr(&link->peer->address, &address);
    link->connecting = link->waits = true;
    link->socket = make_socket(endpoint, address.ss_family, &link->last);
    const int made = link->socket.number;
    if (made < 0 || !prepare_socket(made) ||
        (connect(made, (struct sockaddr *)&address, bytes) != 0 && errno != EINPROGRESS)) {
        fail(link, errno);
        tug_tcp_end_link(endpoint, link);
        return;
    }
    tug_tcp_watch(endpoint, link, EPOLLIN | EPOLLOUT);
}

struct tug_tcp_link *tug_tcp_connect(struct tug_tcp_endpoint *endpoint, struct tug_tcp_peer *peer) {
    struct tug_tcp_link *link = add_link(endpoint, (struct tug_own)TUG_OWN_NONE, peer);
    if (link == NULL)
        return NULL;
    peer->link = link;
    if (!tug_tcp_holds(endpoint)) {
        fail(link, EBADF);
        tug_tcp_end_link(endpoint, link);
        return link;
    }
    begin(endpoint, link);
    return link;
}

void tug_tcp_seek_beside(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    if (!link->brought_long || endpoint->id <= link->peer->address.id ||
        endpoint->nbeside == BESIDE_MOST)
        return;
    link->sought = link->wants_beside = true;
    endpoint->nwanted++;
}

static void make_beside(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    link->wants_beside = false;
    endpoint->nwanted--;
    struct tug_tcp_link *beside = endpoint->nbeside < BESIDE_MOST
                                      ? add_link(endpoint, (struct tug_own)TUG_OWN_NONE, link->peer)
                                      : NULL;
    if (beside == NULL)
        return;
    endpoint->nbeside++;
    beside->is_beside = beside->is_ours = true;
    beside->word = TUG_TCP_ASIDE;
    beside->beside = link;
    link->beside = beside;
    begin(endpoint, beside);
}

void tug_tcp_connected(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(link->socket.number, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    const bool too_much = is_too_much(endpoint, link);
    link->connecting = false;
    if (link->is_beside && (too_much || link->blind))
        error = EMFILE;
    else if (too_much)
        link->word = TUG_TCP_BY_HOST;
    if (error != 0)
        fail(link, error);
    else
        say_hello(endpoint, link);
    tug_tcp_set(endpoint, link, &link->waits, false);
}

/* Another connection to or from that process, by which it has proved who it is. NULL: there is
 * none. */
static struct tug_tcp_link *other_link(const struct tug_tcp_endpoint *endpoint,
                                       const struct tug_tcp_peer *peer,
                                       const struct tug_tcp_link *way) {
    struct tug_tcp_link *link = endpoint->all;
    while (link != NULL && (link == way || link->closed || link->is_beside || link->peer != peer))
        link = link->next;
    return link;
}

/* ---- what becomes of it ---- */

/* Packets go by the host's messages: the link ends, and stays to say that. */
static void settle_by_host(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    struct tug_tcp_peer *peer = link->peer;
    struct tug_tcp_link *way = peer->link;
    peer->link = link;
    if (way != NULL && way != link)
        tug_tcp_close_link(endpoint, way);
    link->by_host = true;
    tug_tcp_close_link(endpoint, link);
    tug_tcp_tell_settled(endpoint, peer);
}

/* The peer has made the link, and is answered; way: the one that there was, or NULL. */
static void welcome(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link,
                    struct tug_tcp_link *way) {
    const bool said = way != NULL && (way->by_host || way->word == TUG_TCP_BY_HOST);
    link->peer->link = link;
    if (way != NULL)
        tug_tcp_close_link(endpoint, way);
    if (said || link->word == TUG_TCP_BY_HOST || is_too_much(endpoint, link)) {
        answer(endpoint, link, TUG_TCP_BY_HOST);
        settle_by_host(endpoint, link);
        return;
    }
    answer(endpoint, link, TUG_TCP_WELCOME);
    tug_tcp_tell_settled(endpoint, link->peer);
}

bool tug_tcp_meet_again(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const uint64_t now = tug_clock_ns();
    if (link->greeted || link->closed || link->final || !tug_tcp_is_way(link))
        return false;
    struct tug_tcp_link *other = other_link(endpoint, link->peer, link);
    if (other != NULL) {
        welcome(endpoint, other, link);
        return true; /* if that has broken its next event says so */
    }
    if (now - link->since_ns > patience_ns()) {
        tug_log(TUG_LOG_ERROR,
                "process %u does not answer, so operations on it fail, after %u connections have "
                "ended: look why that process does not run, and at the network",
                tug_tcp_rank(link->peer), link->tries + 1);
        return false;
    }
    tug_tcp_close_socket(endpoint, link);
    link->broken = link->connecting = link->waits = false;
    link->nrest = 0;
    link->again_ns =
        now + (AGAIN_NS << (link->tries < AGAIN_DOUBLED ? link->tries : AGAIN_DOUBLED));
    link->tries++;
    link->later = true;
    endpoint->nlater++;
    return true;
}

/* ---- being connected to ---- */

void tug_tcp_no_stranger(struct tug_tcp_endpoint *endpoint, const struct tug_tcp_link *link) {
    endpoint->strangers--;
    endpoint->introduced -= link->due == TUG_TCP_PROOF_DUE;
}

/* A stranger is that process. */
static void know(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link,
                 struct tug_tcp_peer *peer) {
    tug_tcp_no_stranger(endpoint, link);
    endpoint->accepted -= endpoint->accepted > 0;
    link->due = TUG_TCP_PACKETS_DUE;
    link->peer = peer;
}

/* That process has made the connection. False: it has no reason to. */
static bool adopt(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link,
                  struct tug_tcp_peer *peer) {
    const uint64_t source = peer->address.id;
    struct tug_tcp_link *way = peer->link;
    know(endpoint, link, peer);
    if (way != NULL && !way->by_host && (way->closed || (way->greeted && endpoint->id > source)))
        return false;
    link->greeted = true;
    link->word = (enum tug_tcp_word)link->said.hello.word;
    if (endpoint->id > source || way == NULL || way->later || way->by_host ||
        way->word == TUG_TCP_BY_HOST || link->word == TUG_TCP_BY_HOST ||
        (endpoint->id == source && is_too_much(endpoint, link)))
        welcome(endpoint, link, way);
    else if (endpoint->id == source)
        answer(endpoint, link, TUG_TCP_WELCOME);
    /* else ours is the link, if it can be: the peer will give this one up */
    return true;
}

/* The peer has the key, and has answered. False: the link goes no further. */
static bool go_by(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link, uint64_t word) {
    link->due = TUG_TCP_PACKETS_DUE;
    if (link->is_beside)
        return link->greeted = word == TUG_TCP_WELCOME;
    if (word == TUG_TCP_BY_HOST) {
        settle_by_host(endpoint, link);
        return true;
    }
    link->greeted = word == TUG_TCP_WELCOME && link->word == TUG_TCP_WELCOME;
    link->final = !link->greeted;
    if (link->greeted)
        tug_tcp_tell_settled(endpoint, link->peer);
    return link->greeted;
}

/* The peer's answer. False: the link goes no further. */
static bool take_answer(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const struct tug_tcp_answer *answer = &link->comes.answer;
    if (tug_tcp_is_proof(key_of(endpoint, &link->peer->address), &link->said,
                         TUG_TCP_IS_CONNECTED_TO, answer->word, answer->proof))
        return go_by(endpoint, link, answer->word);
    link->final = true;
    tug_log(TUG_LOG_ERROR,
            "what answers at the port of process %u does not prove to be that process, so "
            "operations on it fail: look whether it still runs, and who else is on the network",
            tug_tcp_rank(link->peer));
    return false;
}

/* The peer asks for proof. False: it is another program. */
static bool take_challenge(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const struct tug_tcp_challenge *challenge = &link->comes.challenge;
    unsigned char proof[TUG_DIGEST_BYTES];
    if (challenge->magic != TUG_TCP_CHALLENGE_MAGIC)
        return false;
    memcpy(link->said.nonce, challenge->nonce, sizeof(challenge->nonce));
    if (!tug_tcp_prove(key_of(endpoint, &link->peer->address), &link->said, TUG_TCP_CONNECTS,
                       link->said.hello.word, proof))
        return false;
    link->due = TUG_TCP_ANSWER_DUE;
    tug_tcp_link_say(link, proof, sizeof(proof));
    return !link->broken;
}

/* A connection beside the link to that process: it is answered if there is a descriptor for it.
 * False: it goes no further, and the peer does without. */
static bool adopt_beside(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link,
                         struct tug_tcp_peer *peer) {
    struct tug_tcp_link *way = peer != NULL ? peer->link : NULL;
    if (way == NULL || !way->greeted || way->closed || way->sought ||
        endpoint->id >= peer->address.id || endpoint->nbeside == BESIDE_MOST || link->blind ||
        is_too_much(endpoint, link))
        return false;
    know(endpoint, link, peer);
    endpoint->nbeside++;
    link->greeted = link->is_beside = way->sought = true;
    link->beside = way;
    way->beside = link;
    answer(endpoint, link, TUG_TCP_WELCOME);
    return !link->broken;
}

/* Can what has arrived become a hello? Only the magic, which is public, is compared: a connection
 * that is closed earlier for a wrong byte of the id would let a stranger find the id byte by byte.
 */
static bool may_be_hello(const struct tug_tcp_link *link) {
    static const uint64_t magic = TUG_TCP_HELLO_MAGIC;
    return memcmp(&link->comes.hello, &magic,
                  link->nrest < sizeof(magic) ? link->nrest : sizeof(magic)) == 0;
}

/* Is the whole hello one to this process? The id is compared as one word, in constant time. */
static bool is_hello(const struct tug_tcp_endpoint *endpoint, const struct tug_tcp_hello *hello) {
    return hello->magic == TUG_TCP_HELLO_MAGIC && hello->word < TUG_TCP_WORDS &&
           hello->word != TUG_TCP_GONE && hello->destination == endpoint->id;
}

/* A stranger is of the job. False: the link goes no further. */
static bool take_in(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const struct tug_tcp_hello *hello = &link->said.hello;
    if (hello->word == TUG_TCP_ASIDE)
        return adopt_beside(endpoint, link, tug_tcp_find_peer(endpoint, hello->source));
    /* it knows us, and where it listens is not asked for */
    struct tug_tcp_peer *peer =
        tug_tcp_peer_at(endpoint, &(struct tug_tcp_address){.id = hello->source});
    if (peer == NULL || other_link(endpoint, peer, peer->link) != NULL)
        return false; /* the other one has ended, which will be seen: there will be another */
    if (adopt(endpoint, link, peer))
        return true;
    answer(endpoint, link, TUG_TCP_GONE);
    return false;
}

static bool refuse_stranger(void) {
    tug_warn_once("connections that are not of this job's are closed (said once): some other "
                  "program connects to ports of this process; nothing is lost");
    return false;
}

/* A stranger has said something, a hello first. False: the link goes no further. */
static bool hear_stranger(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const bool hello_due = link->due == TUG_TCP_HELLO_DUE;
    if (hello_due && is_hello(endpoint, &link->comes.hello)) {
        link->said.hello = link->comes.hello;
        challenge(endpoint, link);
        return !link->broken;
    }
    if (!hello_due && tug_tcp_is_proof(key_of(endpoint, &endpoint->address), &link->said,
                                       TUG_TCP_CONNECTS, link->said.hello.word, link->comes.proof))
        return take_in(endpoint, link);
    return refuse_stranger();
}

bool tug_tcp_hear(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link) {
    const size_t heard = link->nrest;
    bool goes_on = true;
    if (tug_tcp_link_hear(link))
        goes_on = link->peer == NULL                   ? hear_stranger(endpoint, link)
                  : link->due == TUG_TCP_CHALLENGE_DUE ? take_challenge(endpoint, link)
                                                       : take_answer(endpoint, link);
    else if (link->due == TUG_TCP_HELLO_DUE && !may_be_hello(link))
        goes_on = refuse_stranger();
    else
        return link->broken || link->nrest != heard;
    link->broken |= !goes_on;
    return true;
}

/* ---- many connections at once ---- */

static void look_at_listener(struct tug_tcp_endpoint *endpoint, bool wanted) {
    endpoint->full = !wanted;
    (void)tug_tcp_watch_listener(endpoint, wanted, EPOLL_CTL_MOD);
    if (!wanted)
        tug_stat_add(TUG_STAT_UNWATCHED, 1);
}

static bool has_had_its_time(const struct tug_tcp_link *link, uint64_t now) {
    return link->peer == NULL && !link->closed &&
           now - link->since_ns > (link->due == TUG_TCP_PROOF_DUE ? PROOF_NS : SILENT_NS);
}

/* Closes the strangers that came first, a bounded number, but for those who have spoken meanwhile.
 */
static void drop_strangers(struct tug_tcp_endpoint *endpoint, uint64_t now) {
    uint32_t late = 0;
    for (const struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next)
        late += has_had_its_time(link, now);
    for (struct tug_tcp_link *link = endpoint->all; late > 0 && link != NULL; link = link->next) {
        if (!has_had_its_time(link, now) || late-- > DROPS)
            continue;
        (void)tug_tcp_hear(endpoint, link);
        if (link->broken)
            tug_tcp_end_link(endpoint, link);
        else if (has_had_its_time(link, now))
            tug_tcp_close_link(endpoint, link);
    }
}

/* The hello of a connection that has waited is there already. */
static void take_connection(struct tug_tcp_endpoint *endpoint, struct tug_own socket, bool last) {
    struct tug_tcp_link *link = add_link(endpoint, socket, NULL);
    if (link == NULL) {
        tug_tcp_end_socket(endpoint, &socket);
        return;
    }
    link->last = last;
    endpoint->strangers++;
    endpoint->accepted++;
    if (!prepare_socket(socket.number)) {
        link->broken = true;
    } else {
        tug_tcp_watch(endpoint, link, EPOLLIN);
        (void)tug_tcp_hear(endpoint, link);
    }
    if (link->broken)
        tug_tcp_end_link(endpoint, link);
}

static bool is_full(struct tug_tcp_endpoint *endpoint) {
    return endpoint->strangers - endpoint->introduced >= SILENT_MOST ||
           endpoint->introduced >= INTRODUCED_MOST || !have_reserve(endpoint, TUG_TCP_TO_ACCEPT);
}

/* Is there room for one more stranger, and time? */
static bool has_room(struct tug_tcp_endpoint *endpoint) {
    const uint64_t now = tug_clock_ns();
    if (now < endpoint->rest_ns)
        return false;
    if (now - endpoint->round_ns >= ROUND_NS) {
        endpoint->round_ns = now;
        endpoint->accepted = 0;
    }
    if (endpoint->accepted >= ROUND_MOST) {
        endpoint->rest_ns = endpoint->round_ns + ROUND_NS;
        return false;
    }
    if (is_full(endpoint))
        drop_strangers(endpoint, now);
    if (!is_full(endpoint))
        return true;
    endpoint->rest_ns = now + REST_NS;
    return false;
}

bool tug_tcp_take_connections(struct tug_tcp_endpoint *endpoint) {
    unsigned taken = 0;
    for (; taken < ACCEPTS; taken++) {
        bool last;
        const bool room = has_room(endpoint);
        const struct tug_own socket =
            room ? accept_socket(endpoint, &last) : (struct tug_own)TUG_OWN_NONE;
        if (socket.number < 0) {
            if (!room || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED))
                look_at_listener(endpoint, false);
            break;
        }
        take_connection(endpoint, socket, last);
    }
    return taken > 0;
}

void tug_tcp_attend(struct tug_tcp_endpoint *endpoint) {
    const uint64_t now = tug_clock_ns();
    if (endpoint->full && has_room(endpoint))
        look_at_listener(endpoint, true);
    for (struct tug_tcp_link *link = endpoint->all;
         endpoint->nlater + endpoint->nwanted > 0 && link != NULL; link = link->next) {
        if (link->wants_beside)
            make_beside(endpoint, link);
        if (!link->later || now < link->again_ns)
            continue;
        link->later = false;
        endpoint->nlater--;
        begin(endpoint, link);
    }
}

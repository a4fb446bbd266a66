/* Proofs by which two processes that connect over tcp show each other that they are of the job:
 * which are good, and what the wire does with a program that has none. The wire is this process's,
 * over the loopback device; the programs that connect to it, and one that it connects to, are
 * sockets. Seen: who has the key is answered; who has learned the ids, or what was said by another
 * connection, or has the key of another job, is not, whoever else is silent, slow, or comes by the
 * thousand. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/clock.h"
#include "tcp_receiver.h"

#define CONTEXT 0x7475677072726f66u
#define SOURCE 4711u
#define PATIENCE_NS ((uint64_t)60 * 1000000000u)
#define CROWD 1000

static struct tug_fabric fabric;
static struct tug_tcp_address address, other;
static struct tug_wire *wire;
static struct tug_tcp_endpoint *endpoint;
static unsigned lost;

/* ---- proofs ---- */

static const unsigned char some_key[TUG_TCP_KEY_BYTES] = {1, 2, 3};

static struct tug_tcp_said something(void) {
    return (struct tug_tcp_said){.hello = {.magic = TUG_TCP_HELLO_MAGIC,
                                           .destination = 1,
                                           .source = 2,
                                           .word = TUG_TCP_WELCOME,
                                           .nonce = {3}},
                                 .nonce = {4}};
}

static void a_proof_is_of_one_key_side_and_word(void **state) {
    const struct tug_tcp_said said = something();
    unsigned char proof[TUG_DIGEST_BYTES], key[TUG_TCP_KEY_BYTES];
    (void)state;
    assert_true(tug_tcp_prove(some_key, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
    assert_true(tug_tcp_is_proof(some_key, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
    assert_false(
        tug_tcp_is_proof(some_key, &said, TUG_TCP_IS_CONNECTED_TO, TUG_TCP_WELCOME, proof));
    assert_false(tug_tcp_is_proof(some_key, &said, TUG_TCP_CONNECTS, TUG_TCP_GONE, proof));
    for (unsigned bit = 0; bit < 8 * sizeof(key); bit++) {
        memcpy(key, some_key, sizeof(key));
        key[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(tug_tcp_is_proof(key, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
    }
}

/* Ids, word and both nonces. */
static void a_proof_is_of_all_that_was_said(void **state) {
    const struct tug_tcp_said said = something();
    unsigned char proof[TUG_DIGEST_BYTES];
    (void)state;
    assert_true(tug_tcp_prove(some_key, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
    for (size_t i = 0; i < sizeof(said); i++) {
        struct tug_tcp_said more = said;
        ((unsigned char *)&more)[i] ^= 1;
        assert_false(tug_tcp_is_proof(some_key, &more, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
    }
    for (size_t i = 0; i < sizeof(proof); i++) {
        proof[i] ^= 1;
        assert_false(tug_tcp_is_proof(some_key, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
        proof[i] ^= 1;
    }
}

static void without_a_key_it_is_zeros(void **state) {
    const struct tug_tcp_said said = something();
    static const unsigned char zeros[TUG_DIGEST_BYTES];
    unsigned char proof[TUG_DIGEST_BYTES];
    (void)state;
    assert_true(tug_tcp_prove(NULL, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, proof));
    assert_memory_equal(proof, zeros, sizeof(zeros));
    assert_true(tug_tcp_is_proof(NULL, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, zeros));
    assert_false(tug_tcp_is_proof(some_key, &said, TUG_TCP_CONNECTS, TUG_TCP_WELCOME, zeros));
}

/* ---- a wire ---- */

static bool receive(void *receiver, struct tug_wire *from, const void *memory, size_t bytes) {
    (void)receiver, (void)from, (void)memory, (void)bytes;
    return true;
}

static void ended(void *receiver, uint32_t peer) {
    (void)receiver, (void)peer;
    lost++;
}

static int begin(void **state) {
    (void)state;
    lost = 0;
    fabric = (struct tug_fabric){.nranks = 2, .id = CONTEXT};
    wire = tcp_open(&fabric, &address, &fabric, receive, ended);
    endpoint = ((struct tug_tcp_view *)wire)->endpoint;
    other = (struct tug_tcp_address){.id = SOURCE, .family = AF_INET, .ip = {127, 0, 0, 1}};
    tcp_wire_addresses(wire)[0] = address;
    tcp_wire_addresses(wire)[1] = other;
    return 0;
}

static int begin_unproved(void **state) {
    tug_settings.proof = TUG_PROOF_OFF;
    return begin(state);
}

static int end(void **state) {
    (void)state;
    wire->row->close(wire);
    tug_settings_reset();
    return 0;
}

/* One look of the wire's, in a wait that began then. */
static void look(uint64_t start_ns) {
    assert_true(tug_clock_ns() - start_ns < PATIENCE_NS);
    (void)wire->row->poll(wire);
}

/* ---- a program that connects ---- */

static int connection(void) {
    struct sockaddr_storage to;
    const socklen_t bytes = tug_tcp_sockaddr(&address, &to);
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(connect(made, (struct sockaddr *)&to, bytes), 0);
    return made;
}

static void say(int socket, const void *what, size_t bytes) {
    assert_int_equal(send(socket, what, bytes, MSG_NOSIGNAL), bytes);
}

/* Bytes that come, at most so many; fewer: it has been closed. */
static size_t hear(int socket, void *what, size_t bytes) {
    size_t come = 0;
    ssize_t now = -1;
    for (const uint64_t start = tug_clock_ns(); come < bytes && now != 0; look(start)) {
        now = recv(socket, (char *)what + come, bytes - come, MSG_DONTWAIT);
        if (now > 0)
            come += (size_t)now;
        else if (now < 0 && errno == ECONNRESET)
            now = 0;
    }
    return come;
}

static void expect_closed(int socket) {
    char byte;
    assert_int_equal(hear(socket, &byte, 1), 0);
    close(socket);
}

/* A hello by that connection, and the challenge. */
static struct tug_tcp_said introduce(int socket) {
    struct tug_tcp_challenge challenge;
    struct tug_tcp_said said = something();
    said.hello.destination = address.id;
    said.hello.source = SOURCE;
    say(socket, &said.hello, sizeof(said.hello));
    assert_int_equal(hear(socket, &challenge, sizeof(challenge)), sizeof(challenge));
    assert_int_equal(challenge.magic, TUG_TCP_CHALLENGE_MAGIC);
    memcpy(said.nonce, challenge.nonce, sizeof(said.nonce));
    return said;
}

static void prove(int socket, const struct tug_tcp_said *said, const unsigned char *key,
                  unsigned char proof[TUG_DIGEST_BYTES]) {
    assert_true(tug_tcp_prove(key, said, TUG_TCP_CONNECTS, said->hello.word, proof));
    say(socket, proof, TUG_DIGEST_BYTES);
}

/* Who has the key: it has been answered, and the answer is the process's. */
static struct tug_tcp_answer meet(int socket, struct tug_tcp_said *said,
                                  unsigned char proof[TUG_DIGEST_BYTES]) {
    struct tug_tcp_answer answer;
    *said = introduce(socket);
    prove(socket, said, address.key, proof);
    assert_int_equal(hear(socket, &answer, sizeof(answer)), sizeof(answer));
    assert_int_equal(answer.word, TUG_TCP_WELCOME);
    assert_true(
        tug_tcp_is_proof(address.key, said, TUG_TCP_IS_CONNECTED_TO, answer.word, answer.proof));
    return answer;
}

static void expect_answered(void) {
    struct tug_tcp_said said;
    unsigned char proof[TUG_DIGEST_BYTES];
    const int socket = connection();
    (void)meet(socket, &said, proof);
    assert_true(tug_tcp_find_peer(endpoint, SOURCE)->link->greeted);
    close(socket);
}

/* ---- the cases ---- */

static void who_has_the_key_is_answered(void **state) {
    (void)state;
    expect_answered();
    assert_int_equal(endpoint->strangers, 0);
    assert_int_equal(endpoint->introduced, 0);
}

static void who_has_another_key_is_not(void **state) {
    unsigned char proof[TUG_DIGEST_BYTES];
    (void)state;
    for (int i = 0; i < 2; i++) {
        const int socket = connection();
        const struct tug_tcp_said said = introduce(socket);
        prove(socket, &said, i == 0 ? some_key : NULL, proof);
        expect_closed(socket);
    }
    assert_null(tug_tcp_find_peer(endpoint, SOURCE));
    expect_answered();
}

/* All that was said by a good connection is said again. */
static void what_was_said_before_is_of_no_use(void **state) {
    struct tug_tcp_said said;
    struct tug_tcp_challenge challenge;
    unsigned char proof[TUG_DIGEST_BYTES];
    (void)state;
    int socket = connection();
    (void)meet(socket, &said, proof);
    close(socket);
    socket = connection();
    say(socket, &said.hello, sizeof(said.hello));
    say(socket, proof, sizeof(proof));
    assert_int_equal(hear(socket, &challenge, sizeof(challenge)), sizeof(challenge));
    assert_memory_not_equal(challenge.nonce, said.nonce, sizeof(said.nonce));
    expect_closed(socket);
}

/* The process's own words, as those of the one that connects. */
static void what_the_process_has_said_is_of_no_use(void **state) {
    struct tug_tcp_said said;
    unsigned char proof[TUG_DIGEST_BYTES];
    (void)state;
    int socket = connection();
    const struct tug_tcp_answer answer = meet(socket, &said, proof);
    close(socket);
    socket = connection();
    (void)introduce(socket);
    say(socket, answer.proof, sizeof(answer.proof));
    expect_closed(socket);
}

static void who_does_not_know_the_id_is_closed_at_once(void **state) {
    struct tug_tcp_said said = something();
    static const char nonsense[] = "GET / HTTP/1.1\r\n";
    (void)state;
    int socket = connection();
    said.hello.destination = address.id ^ 1;
    say(socket, &said.hello, sizeof(said.hello));
    expect_closed(socket);
    for (size_t bytes = 1; bytes < sizeof(nonsense); bytes += 7) {
        socket = connection();
        say(socket, nonsense, bytes);
        expect_closed(socket);
    }
    said.hello.destination = address.id;
    said.hello.word = TUG_TCP_GONE;
    socket = connection();
    say(socket, &said.hello, sizeof(said.hello));
    expect_closed(socket);
}

/* Each byte of the id is tried, right and wrong: nothing is different before the hello is whole. */
static void a_part_of_the_id_tells_nothing(void **state) {
    struct tug_tcp_said said = something();
    char byte;
    (void)state;
    for (size_t known = 0; known < sizeof(address.id); known++) {
        int sockets[2];
        for (int wrong = 0; wrong < 2; wrong++) {
            said.hello.destination = address.id ^ (uint64_t)wrong << 8 * known;
            sockets[wrong] = connection();
            say(sockets[wrong], &said.hello,
                offsetof(struct tug_tcp_hello, destination) + known + 1);
        }
        for (int i = 0; i < 20; i++) /* they have come: the connections are local */
            (void)wire->row->poll(wire);
        assert_int_equal(endpoint->strangers, 2);
        for (int wrong = 0; wrong < 2; wrong++) {
            assert_int_equal(recv(sockets[wrong], &byte, 1, MSG_DONTWAIT), -1);
            assert_int_equal(errno, EAGAIN);
            assert_int_equal(shutdown(sockets[wrong], SHUT_WR), 0);
            expect_closed(sockets[wrong]);
        }
    }
}

/* Hello and proof come byte by byte, and are waited for; half a proof and an end are nothing. */
static void who_is_slow_is_answered(void **state) {
    struct tug_tcp_said said = something();
    struct tug_tcp_challenge challenge;
    struct tug_tcp_answer answer;
    unsigned char proof[TUG_DIGEST_BYTES];
    (void)state;
    said.hello.destination = address.id;
    for (size_t most = sizeof(proof) / 2; most <= sizeof(proof); most *= 2) {
        const int socket = connection();
        for (size_t i = 0; i < sizeof(said.hello); i++) {
            say(socket, (char *)&said.hello + i, 1);
            (void)wire->row->poll(wire);
        }
        assert_int_equal(hear(socket, &challenge, sizeof(challenge)), sizeof(challenge));
        memcpy(said.nonce, challenge.nonce, sizeof(said.nonce));
        assert_true(tug_tcp_prove(address.key, &said, TUG_TCP_CONNECTS, said.hello.word, proof));
        for (size_t i = 0; i < most; i++) {
            say(socket, proof + i, 1);
            (void)wire->row->poll(wire);
        }
        if (most == sizeof(proof)) {
            assert_int_equal(hear(socket, &answer, sizeof(answer)), sizeof(answer));
            close(socket);
            continue;
        }
        assert_int_equal(shutdown(socket, SHUT_WR), 0);
        expect_closed(socket);
    }
}

static void without_proofs_the_ids_are_enough(void **state) {
    struct tug_tcp_answer answer;
    unsigned char proof[TUG_DIGEST_BYTES];
    const int socket = connection();
    (void)state;
    assert_false(endpoint->proves);
    const struct tug_tcp_said said = introduce(socket);
    prove(socket, &said, NULL, proof);
    assert_int_equal(hear(socket, &answer, sizeof(answer)), sizeof(answer));
    assert_int_equal(answer.word, TUG_TCP_WELCOME);
    close(socket);
}

/* ---- a program that is connected to ---- */

/* The wire connects to a socket that listens here, which says that in place of a challenge and an
 * answer. */
static void expect_no_link(const struct tug_tcp_challenge *challenge,
                           const struct tug_tcp_answer *answer) {
    struct tug_tcp_hello hello;
    unsigned char proof[TUG_DIGEST_BYTES];
    const int listener = tug_tcp_listen(&other);
    assert_true(listener >= 0);
    other.id = SOURCE;
    tcp_wire_addresses(wire)[1] = other;
    assert_false(wire->row->meet(wire, 1));
    int socket = -1;
    for (const uint64_t start = tug_clock_ns(); socket < 0; look(start))
        socket = accept(listener, NULL, NULL);
    assert_int_equal(hear(socket, &hello, sizeof(hello)), sizeof(hello));
    assert_int_equal(hello.destination, SOURCE);
    assert_int_equal(hello.source, address.id);
    say(socket, challenge, sizeof(*challenge));
    if (answer != NULL) {
        assert_int_equal(hear(socket, proof, sizeof(proof)), sizeof(proof));
        say(socket, answer, sizeof(*answer));
        for (const uint64_t start = tug_clock_ns(); lost == 0;)
            look(start);
    } else {
        expect_closed(socket);
        socket = -1;
    }
    assert_false(tug_tcp_find_peer(endpoint, SOURCE)->link->greeted);
    if (socket >= 0)
        close(socket);
    close(listener);
}

static void who_is_connected_to_proves_itself_too(void **state) {
    const struct tug_tcp_challenge challenge = {.magic = TUG_TCP_CHALLENGE_MAGIC};
    const struct tug_tcp_answer answer = {.word = TUG_TCP_WELCOME};
    (void)state;
    expect_no_link(&challenge, &answer);
}

static void something_else_listens_there(void **state) {
    const struct tug_tcp_challenge challenge = {.magic = 1};
    (void)state;
    expect_no_link(&challenge, NULL);
}

/* ---- crowds ---- */

/* Two thirds of them are silent, the others say half a hello. */
static void connect_many(int sockets[CROWD]) {
    const struct tug_tcp_hello hello = {.magic = TUG_TCP_HELLO_MAGIC, .destination = address.id};
    for (int i = 0; i < CROWD; i++) {
        sockets[i] = connection();
        if (i % 3 == 0)
            say(sockets[i], &hello, sizeof(hello) / 2);
        (void)wire->row->poll(wire);
    }
}

static void close_many(int sockets[CROWD]) {
    for (int i = 0; i < CROWD; i++)
        close(sockets[i]);
}

/* A process whose proof is due keeps its place, and another one finds one. */
static void silent_strangers_are_dropped_and_others_not(void **state) {
    struct tug_tcp_answer answer;
    unsigned char proof[TUG_DIGEST_BYTES];
    int sockets[CROWD];
    (void)state;
    const int first = connection();
    const struct tug_tcp_said said = introduce(first);
    connect_many(sockets);
    const uint64_t start = tug_clock_ns();
    expect_closed(dup(sockets[0]));
    expect_answered();
    assert_true(tug_clock_ns() - start < (uint64_t)1500000000u);
    assert_true(endpoint->strangers <= 257);
    assert_int_equal(endpoint->introduced, 1);
    prove(first, &said, address.key, proof);
    assert_int_equal(hear(first, &answer, sizeof(answer)), sizeof(answer));
    close(first);
    close_many(sockets);
}

/* They are accepted in rounds, however fast they go again. */
static void a_flood_is_taken_in_rounds(void **state) {
    int sockets[CROWD];
    char byte;
    (void)state;
    for (int i = 0; i < CROWD; i++) {
        sockets[i] = connection();
        say(sockets[i], "nonsense", 8);
    }
    const uint64_t start = tug_clock_ns();
    assert_int_equal(hear(sockets[CROWD - 1], &byte, 1), 0);
    assert_true(tug_clock_ns() - start > (uint64_t)100000000);
    assert_true(tug_clock_ns() - start < (uint64_t)2000000000);
    close_many(sockets);
}

int main(void) {
    struct rlimit most;
    if (tug_digest_source() == NULL || getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_max < 4096)
        return 77; /* nobody makes digests here, or there are too few descriptors */
    most.rlim_cur = most.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &most);
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_proof_is_of_one_key_side_and_word),
        cmocka_unit_test(a_proof_is_of_all_that_was_said),
        cmocka_unit_test(without_a_key_it_is_zeros),
        CASE(who_has_the_key_is_answered),
        CASE(who_has_another_key_is_not),
        CASE(what_was_said_before_is_of_no_use),
        CASE(what_the_process_has_said_is_of_no_use),
        CASE(who_does_not_know_the_id_is_closed_at_once),
        CASE(a_part_of_the_id_tells_nothing),
        CASE(who_is_slow_is_answered),
        cmocka_unit_test_setup_teardown(without_proofs_the_ids_are_enough, begin_unproved, end),
        CASE(who_is_connected_to_proves_itself_too),
        CASE(something_else_listens_there),
        CASE(silent_strangers_are_dropped_and_others_not),
        CASE(a_flood_is_taken_in_rounds),
    };
    return cmocka_run_group_tests_name("transport/proof", cases, NULL, NULL);
}

/* The world at the tcp wire: many processes that connect to one at once, beside strangers who say
 * nothing. All of them are in this process, each with a wire of its own over the loopback device,
 * and are polled in turn. Seen: everybody's packet arrives and is answered, whoever was there
 * first, and nobody is given up. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "tcp_receiver.h"

#define CONTEXT 0x7475677465737421u
#define PATIENCE_NS ((uint64_t)60 * 1000000000u)

struct process {
    struct tug_fabric fabric;
    struct tug_wire *wire;
    struct tug_tcp_address address;
    bool *heard_of;             /* [n] a packet of that one has come */
    struct tug_buffer **unsent; /* [n] to that one */
    uint32_t nheard, nunsent;
};

static struct process *processes;
static uint32_t n;
static unsigned lost;

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct process *process = receiver;
    struct tug_packet_reader reader;
    struct tug_record record;
    (void)wire;
    assert_int_equal(tug_packet_open(&reader, memory, bytes, CONTEXT, n), TUG_PACKET_GOOD);
    const uint32_t source = reader.header.source;
    assert_true(tug_packet_next(&reader, &record));
    assert_int_equal(record.kind, TUG_RECORD_VALUE);
    assert_int_equal(record.words[0], source * 1000 + process->fabric.rank);
    assert_false(process->heard_of[source]);
    process->heard_of[source] = true;
    process->nheard++;
    return true;
}

static void ended(void *receiver, uint32_t peer) {
    (void)receiver, (void)peer;
    lost++;
}

static void open_one(uint32_t rank) {
    struct process *process = &processes[rank];
    process->fabric.rank = rank;
    process->fabric.nranks = n;
    process->fabric.id = CONTEXT;
    process->heard_of = calloc(n, sizeof(bool));
    process->unsent = (struct tug_buffer **)calloc(n, sizeof(struct tug_buffer *));
    process->wire = tcp_open(&process->fabric, &process->address, process, receive, ended);
}

static void begin(uint32_t nprocesses) {
    n = nprocesses;
    lost = 0;
    processes = calloc(n, sizeof(struct process));
    assert_non_null(processes);
    for (uint32_t i = 0; i < n; i++)
        open_one(i);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            tcp_wire_addresses(processes[i].wire)[j] = processes[j].address;
}

static void end(void) {
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(processes[i].nunsent, 0);
        processes[i].wire->row->close(processes[i].wire);
        free(processes[i].heard_of);
        free((void *)processes[i].unsent);
    }
    free(processes);
}

static void try_to_send(struct process *process, uint32_t to) {
    struct tug_buffer *buffer = process->unsent[to];
    if (buffer == NULL || !process->wire->row->send(process->wire, to, buffer))
        return;
    process->unsent[to] = NULL;
    process->nunsent--;
}

/* A packet that says from where and to where. */
static void send_one(uint32_t from, uint32_t to) {
    struct process *process = &processes[from];
    struct tug_buffer *buffer = tug_pool_take(&process->wire->pool);
    assert_non_null(buffer);
    *tug_packet_add(&buffer->packet, TUG_RECORD_VALUE, 0, 0, 0) = from * 1000 + to;
    tug_packet_end(&buffer->packet, from, 0, 0, CONTEXT);
    process->unsent[to] = buffer;
    process->nunsent++;
    try_to_send(process, to);
}

static void poll_one(uint32_t rank) {
    struct process *process = &processes[rank];
    (void)process->wire->row->poll(process->wire);
    for (uint32_t to = 0; process->nunsent > 0 && to < n; to++)
        try_to_send(process, to);
}

/* Until everybody but the first has been heard by the first, and has heard of it. */
static void until_all_have_met(void) {
    const uint64_t start = tug_clock_ns();
    for (;;) {
        uint32_t met = 0;
        for (uint32_t i = 0; i < n; i++)
            poll_one(i);
        for (uint32_t i = 1; i < n; i++)
            met += processes[0].heard_of[i] && processes[i].heard_of[0];
        if (met == n - 1 || lost > 0)
            break;
        if (tug_clock_ns() - start > PATIENCE_NS)
            fail_msg("%u of %u have met the first one", met, n - 1);
    }
    assert_int_equal(lost, 0);
}

/* ---- strangers ---- */

static int stranger(uint32_t to) {
    struct sockaddr_storage address;
    socklen_t bytes = tug_tcp_sockaddr(&processes[to].address, &address);
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(made >= 0);
    assert_true(connect(made, (struct sockaddr *)&address, bytes) == 0 || errno == EINPROGRESS);
    return made;
}

/* ---- the cases ---- */

/* Everybody sends to rank `to`, which has not looked yet, and it to them. */
static void crowd(uint32_t nprocesses, unsigned nstrangers) {
    int strangers[1000];
    begin(nprocesses);
    for (unsigned i = 0; i < nstrangers; i++)
        strangers[i] = stranger(0);
    for (uint32_t i = 1; i < n; i++)
        send_one(i, 0);
    for (uint32_t i = 1; i < n; i++)
        poll_one(i); /* it is connected, and has said hello */
    for (uint32_t i = 1; i < n; i++)
        send_one(0, i);
    until_all_have_met();
    for (unsigned i = 0; i < nstrangers; i++)
        close(strangers[i]);
    end();
}

static void two_meet(void **state) {
    (void)state;
    crowd(2, 0);
}

static void two_hundred_connect_at_once(void **state) {
    (void)state;
    crowd(201, 0);
}

static void a_thousand_strangers_are_there_first(void **state) {
    (void)state;
    crowd(201, 1000);
}

/* Everybody to everybody, both ends at once. */
static void all_connect_to_all(void **state) {
    (void)state;
    begin(24);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            send_one(i, j);
    uint64_t heard = 0;
    const uint64_t start = tug_clock_ns();
    while (heard < n * n && lost == 0 && tug_clock_ns() - start < PATIENCE_NS) {
        heard = 0;
        for (uint32_t i = 0; i < n; i++) {
            poll_one(i);
            heard += processes[i].nheard;
        }
    }
    assert_int_equal(lost, 0);
    assert_int_equal(heard, n * n);
    end();
}

int main(void) {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_max < 4096)
        return 77; /* of descriptors there are too few */
    most.rlim_cur = most.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &most);
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(two_meet),
        cmocka_unit_test(two_hundred_connect_at_once),
        cmocka_unit_test(a_thousand_strangers_are_there_first),
        cmocka_unit_test(all_connect_to_all),
    };
    return cmocka_run_group_tests_name("transport/crowd", cases, NULL, NULL);
}

/* Writes the seeds of the receiver's fuzz target: scripts of what has gone wrong or could, and some
 * random ones. Usage: fuzz_seeds_receiver FOLDER. What the bytes mean: fuzz_receiver.c and
 * receiver/. */
#include <stdio.h>

static FILE *file;
static int failed;

static void open_script(const char *folder, const char *name, unsigned which) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s-%u", folder, name, which);
    file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        failed = 1;
    }
}

static void say(unsigned byte) {
    if (file != NULL && fputc((int)(byte & 255), file) == EOF)
        failed = 1;
}

static void close_script(void) {
    if (file != NULL && fclose(file) != 0)
        failed = 1;
    file = NULL;
}

enum { READ, WRITE, FETCH, COMPARE, MESSAGE, CALL };
enum { SIZE_8 = 3, SIZE_PIECES_3 = 14, SIZE_70000 = 17, SIZE_PIECES_40 = 18, SIZE_20000 = 20 };

static void post(unsigned kind, unsigned peer, unsigned size) {
    say(0);
    say(kind);
    say(peer);
    say(size);
    say(0);
}

static void poll(void) {
    say(12);
}

static void flush(void) {
    say(14);
}

/* 3, 8 or 40 answers of rank 1 in one packet; how: 0 right, 7 a READ's at a wrong position. */
static void answer(unsigned count, unsigned first_tag, unsigned how) {
    say(6);
    say(count == 3 ? 66 : count == 8 ? 131 : 196);
    say(1);
    for (unsigned i = 0; i < count; i++) {
        say(0);
        say(first_tag);
        say(how);
        if (how == 7)
            say(i);
    }
}

/* A READ that is not asked for to its end, answered to its end. */
static void answers_to_what_was_not_asked(void) {
    post(READ, 1, SIZE_PIECES_3);
    post(READ, 1, SIZE_PIECES_3);
    post(READ, 1, SIZE_PIECES_40);
    flush();
    for (int i = 0; i < 2; i++)
        answer(3, 2, 0);
    poll();
    for (int i = 0; i < 8; i++) /* 34 */
        answer(i < 2 ? 8 : 3, 2, 7);
    post(WRITE, 1, SIZE_8);
    poll();
    poll();
}

/* Large blocks to and from a peer that then makes no sense. */
static void blocks_of_a_lost_peer(void) {
    post(READ, 3, SIZE_70000);
    post(WRITE, 3, SIZE_70000);
    flush();
    poll();
    say(6);
    say(3);
    say(253); /* a wrong number */
    say(9);
    poll();
}

/* A FETCH that waits behind a long WRITE is answered. */
static void answers_to_what_waits(void) {
    post(WRITE, 1, SIZE_PIECES_40);
    post(FETCH, 1, SIZE_8);
    flush();
    answer(3, 224 + 1, 0);
    post(COMPARE, 2, SIZE_8);
    say(6); /* the WRITE's first packets are acknowledged */
    say(1);
    say(8);
    poll();
    poll();
}

/* Rank 1 READs more at a time than fits a packet. */
static void asks_for_too_much(void) {
    say(6);
    say(64 + 2 + 32 + 8); /* rank 1, numbered, three records */
    say(0);
    for (int i = 0; i < 3; i++) {
        say(120 + 1); /* a READ */
        say(2);       /* of the large registration, from its start */
        say(0);
        say(0);
        say(SIZE_20000);
        say(i);
    }
    poll();
}

/* Long READs, answered by what follows packets, the second one with less than was asked for. */
static void answers_behind_packets(void) {
    post(READ, 1, SIZE_70000);
    flush();
    answer(3, 0, 0);
    poll();
    post(READ, 1, SIZE_PIECES_40);
    flush();
    answer(3, 0, 8);
    poll();
}

/* Rank 1 answers a call, then another with too much. */
static void answers_to_calls(void) {
    for (unsigned how = 0; how < 9; how += 8) {
        post(CALL, 1, SIZE_8);
        flush();
        answer(3, 0, how);
        poll();
    }
}

/* Late writes and signals, that are asked for, that are held up, and that are left. */
static void late_ones(void) {
    enum { LATE_WRITE = 100, LATE_SIGNAL = 34, CONDITIONS = 15, ASK = 64 };
    for (int i = 0; i < 8; i++) {
        post(LATE_WRITE, i < 4 ? 1 : 3, SIZE_8);
        post(LATE_SIGNAL, i < 4 ? 1 : 3, SIZE_8);
        flush();
        poll();
        if (i == 2) {
            say(CONDITIONS);
            say(ASK);
        }
    }
}

int main(int argc, char **argv) {
    unsigned seed = 3;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    open_script(argv[1], "not-asked", 0);
    answers_to_what_was_not_asked();
    close_script();
    open_script(argv[1], "lost-block", 0);
    blocks_of_a_lost_peer();
    close_script();
    open_script(argv[1], "waits", 0);
    answers_to_what_waits();
    close_script();
    open_script(argv[1], "calls", 0);
    answers_to_calls();
    close_script();
    open_script(argv[1], "long-reads", 0);
    answers_behind_packets();
    close_script();
    open_script(argv[1], "too-much", 0);
    asks_for_too_much();
    close_script();
    open_script(argv[1], "late", 0);
    late_ones();
    close_script();
    for (unsigned which = 0; which < 60; which++) {
        static const unsigned below[] = {256, 240, 120, 200};
        open_script(argv[1], "chance", which);
        for (unsigned i = 0; i < 40 + which % 7 * 80; i++) {
            seed = seed * 1103515245 + 12345;
            say((seed >> 16) % below[which % 4]);
        }
        close_script();
    }
    return failed;
}

/* What the parts of the fuzz target of arrays share.
 *
 * All processes of a job are in this one: each has a real array (src/gas), and LLCL and the engine
 * below them are played (job.c). Calls, answers and copies wait in queues until the script delivers
 * them, in the order of each pair of processes or in any order between pairs. One process, LIAR, is
 * an ordinary one whose calls and answers are changed, kept back, sent twice or made up (liar.c).
 * Every decision comes from the fuzzer's input. One thread. */
#ifndef TUG_FUZZ_ARRAY_PLAYED_H
#define TUG_FUZZ_ARRAY_PLAYED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gas/array.h"
#include "tests/fuzz/require.h"

#define RANKS 4u
#define NODE 2u /* ranks 0 and 1 are a node and map each other's memory */
#define LIAR 3u
#define PAGE 64u
#define PAGES 12u
#define CALLS 4096u

/* ---- ../receiver/script.c: the input ---- */

void script_begin(const uint8_t *data, size_t bytes);
bool script_is_over(void);
void script_skip(void); /* to its end */
unsigned take(void);    /* the next byte; 0 behind the end */
uint64_t take_number(void);

/* ---- fuzz_array.c ---- */

extern tug_array *arrays[RANKS];

/* Pages whose data LIAR may have lost or changed: it has been their home or their owner. */
extern bool spoiled[PAGES];

/* What a run has done, for run.sh. */
struct reached {
    unsigned long calls, refused, lies, moved, operations, failed;
    unsigned kinds; /* that were refused, by bits */
};
extern struct reached reached;

/* ---- job.c ---- */

/* A process's end of the context. */
struct tug_context {
    uint32_t rank;
    struct {
        tug_call_handler f;
        void *d;
    } handlers[TUG_CALL_KINDS];
    void (*at_end)(void *d);
    void *end_argument;
};

/* A call, or the answer to it. */
struct message {
    uint32_t from, to, tag; /* tag: of the call, below CALLS */
    unsigned kind;
    bool is_answer;
    unsigned char data[sizeof(struct tug_pool_key)];
    size_t bytes;
};

/* The process whose array is being made, and the one that is at work. */
extern uint32_t creating, acting;

void job_begin(void);
void job_end(void);

/* Sends without asking the liar. */
void job_post(const struct message *message);

/* A message of LIAR's is not sent. */
void job_drop(const struct message *message);

/* A made-up call of LIAR's, whose answer nobody takes. */
void job_forge(unsigned kind, uint32_t to, const void *data, size_t bytes);

/* Delivers one waiting thing, chosen by the number, or lets the deferred work of a process try
 * again. False: nothing waits. */
bool job_step(unsigned choice);

/* LIAR is lost: what is under way with it fails. */
void job_lose_liar(void);

/* ---- liar.c ---- */

/* Posts what becomes of a message of LIAR's. */
void liar_sends(struct message message);

/* Makes up a call. */
void liar_calls(void);

#endif

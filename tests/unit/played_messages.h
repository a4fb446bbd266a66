/*
 * The host's messages, played: all processes of the job are in this one, and a rank's communicator
 * is PLAYED_COMM(rank). Messages wait until they are matched, in their order, as those do that go
 * from memory to memory. Matched ones move at once, or, with played_waits, when the receiver makes
 * progress.
 */
#ifndef TUG_TESTS_UNIT_PLAYED_MESSAGES_H
#define TUG_TESTS_UNIT_PLAYED_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"

#define PLAYED_FIRST 100 /* communicators, */
#define PLAYED_COMM(rank) ((MPI_Comm)(PLAYED_FIRST + (int)(rank)))
#define PLAYED_REQUESTS 1000 /* and requests, from these numbers on */

static struct played {
    bool used, receives, done, taken_back;
    int from, to, tag; /* from: MPI_ANY_SOURCE in receives */
    int with;          /* that other message; -1: none has been found */
    uint64_t order;    /* of posting */
    unsigned char *memory;
    size_t bytes, came;
} * played;
static int nplayed;
static uint64_t played_orders;
static bool played_waits;
static bool played_cuts; /* messages may be longer than what receives them */

static bool played_match(const struct played *one, const struct played *other) {
    const struct played *receive = one->receives ? one : other;
    const struct played *send = one->receives ? other : one;
    return other->used && other->with < 0 && !other->taken_back &&
           one->receives != other->receives && one->to == other->to && one->tag == other->tag &&
           (receive->from == MPI_ANY_SOURCE || receive->from == send->from);
}

static void played_move(struct played *to) {
    struct played *from = &played[to->with];
    assert_true(from->bytes <= to->bytes || played_cuts);
    memcpy(to->memory, from->memory, from->bytes < to->bytes ? from->bytes : to->bytes);
    to->came = from->bytes;
    to->from = from->from;
    to->done = from->done = true;
}

/* That process fetches what it receives. */
__attribute__((unused)) static void played_progress(MPI_Comm comm) {
    for (int i = 0; i < nplayed; i++) {
        struct played *to = &played[i];
        if (to->used && to->receives && to->with >= 0 && !to->done && PLAYED_COMM(to->to) == comm)
            played_move(to);
    }
}

/* The oldest one that it belongs to has it. */
static int played_post(struct played new, MPI_Request *request) {
    int at = 0, with = -1;
    while (at < nplayed && played[at].used)
        at++;
    if (at == nplayed) {
        played = realloc(played, (size_t)(++nplayed) * sizeof(new));
        assert_non_null(played);
    }
    new.used = true;
    new.with = -1;
    new.order = ++played_orders;
    played[at] = new;
    *request = PLAYED_REQUESTS + at;
    for (int i = 0; i < nplayed; i++)
        if (i != at && played_match(&played[at], &played[i]) &&
            (with < 0 || played[i].order < played[with].order))
            with = i;
    played[at].with = with;
    if (with < 0)
        return MPI_SUCCESS;
    played[with].with = at;
    if (!played_waits)
        played_move(&played[new.receives ? at : with]);
    return MPI_SUCCESS;
}

static int played_isend_c(const void *memory, MPI_Count bytes, MPI_Datatype type, int to, int tag,
                          MPI_Comm comm, MPI_Request *request) {
    (void)type;
    return played_post((struct played){.from = (int)comm - PLAYED_FIRST,
                                       .to = to,
                                       .tag = tag,
                                       .memory = (unsigned char *)(uintptr_t)memory,
                                       .bytes = (size_t)bytes},
                       request);
}

static int played_isend(const void *memory, int bytes, MPI_Datatype type, int to, int tag,
                        MPI_Comm comm, MPI_Request *request) {
    return played_isend_c(memory, bytes, type, to, tag, comm, request);
}

static int played_irecv_c(void *memory, MPI_Count bytes, MPI_Datatype type, int from, int tag,
                          MPI_Comm comm, MPI_Request *request) {
    (void)type;
    return played_post((struct played){.receives = true,
                                       .from = from,
                                       .to = (int)comm - PLAYED_FIRST,
                                       .tag = tag,
                                       .memory = memory,
                                       .bytes = (size_t)bytes},
                       request);
}

static int played_irecv(void *memory, int bytes, MPI_Datatype type, int from, int tag,
                        MPI_Comm comm, MPI_Request *request) {
    return played_irecv_c(memory, bytes, type, from, tag, comm, request);
}

/* The status: what came, in MPI_TAG. */
static int played_test(MPI_Request *request, int *flag, MPI_Status *status) {
    struct played *message = &played[*request - PLAYED_REQUESTS];
    assert_true(message->used);
    *flag = message->done || message->taken_back;
    if (!*flag)
        return MPI_SUCCESS;
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = message->from;
        status->MPI_TAG = (int)message->came;
    }
    message->used = false;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static int played_testsome(int n, MPI_Request *requests, int *done, int *indices,
                           MPI_Status *statuses) {
    *done = 0;
    for (int i = 0; i < n; i++) {
        int flag = 0;
        if (requests[i] != MPI_REQUEST_NULL)
            (void)played_test(&requests[i], &flag, &statuses[*done]);
        if (flag)
            indices[(*done)++] = i;
    }
    return MPI_SUCCESS;
}

static int played_get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
    (void)type;
    *count = status->MPI_TAG;
    return MPI_SUCCESS;
}

static int played_cancel(MPI_Request *request) {
    struct played *message = &played[*request - PLAYED_REQUESTS];
    assert_true(message->used && message->receives); /* a send that has begun is not taken back */
    message->taken_back = message->with < 0;
    return MPI_SUCCESS;
}

static int played_wait(MPI_Request *request, MPI_Status *status) {
    int flag = 0;
    (void)played_test(request, &flag, status);
    assert_true(flag);
    return MPI_SUCCESS;
}

static void played_begin(bool waits) {
    played_waits = waits;
    tug_host.Isend = played_isend;
    tug_host.Isend_c = played_isend_c;
    tug_host.Irecv = played_irecv;
    tug_host.Irecv_c = played_irecv_c;
    tug_host.Test = played_test;
    tug_host.Testsome = played_testsome;
    tug_host.Get_count = played_get_count;
    tug_host.Cancel = played_cancel;
    tug_host.Wait = played_wait;
}

#endif

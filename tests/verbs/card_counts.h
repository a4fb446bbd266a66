/* What this rank's stand-in card and library have done so far: programs over the stand-in card. */
#ifndef CARD_COUNTS_H
#define CARD_COUNTS_H

#include "check.h"
#include <dlfcn.h>

#include "fake_card.h"

static const char *const variable_names[] = {"tugboat_packets", "tugboat_acknowledgements",
                                             "tugboat_host_messages", "tugboat_parks"};
enum { NVARIABLES = sizeof variable_names / sizeof variable_names[0] };

static void (*card_counts)(struct fake_card_counts *out);
static MPI_T_pvar_session session;
static MPI_T_pvar_handle variables[NVARIABLES];

struct counts {
    struct fake_card_counts card;
    uint64_t library[NVARIABLES];
};

static void begin_counting(void) {
    int provided, index, n;
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL, "the library uses no verbs");
    *(void **)&card_counts = dlsym(library, "fake_card_counts");
    CHECK(card_counts != NULL, "libibverbs is not the stand-in");
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    for (int i = 0; i < NVARIABLES; i++) {
        int class = MPI_T_PVAR_CLASS_COUNTER;
        MUST(MPI_T_pvar_get_index(variable_names[i], class, &index));
        MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &variables[i], &n));
    }
}

static void end_counting(void) {
    for (int i = 0; i < NVARIABLES; i++)
        MUST(MPI_T_pvar_handle_free(session, &variables[i]));
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
}

static void count(struct counts *counts) {
    card_counts(&counts->card);
    for (int i = 0; i < NVARIABLES; i++)
        MUST(MPI_T_pvar_read(session, variables[i], &counts->library[i]));
}

static uint64_t sum_of(const uint64_t kinds[FAKE_KINDS]) {
    uint64_t sum = 0;
    for (int kind = 0; kind < FAKE_KINDS; kind++)
        sum += kinds[kind];
    return sum;
}

#endif

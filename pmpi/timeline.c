/* The timeline's file. See timeline.h. */
#include "pmpi/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/trace.h"
#include "host/host.h"
#include "host/polite.h"

#define TAG 1

/* A rank's events as text; the owner frees it. NULL: no memory for it. */
static char *events(int rank, uint64_t origin_ns, size_t *bytes) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, bytes);
    if (stream == NULL)
        return NULL;
    tug_trace_print(stream, rank, origin_ns);
    const bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* At rank 0, one rank after the other: how much, then the text. */
static void collect(FILE *file, int nranks, MPI_Comm comm) {
    for (int rank = 1; rank < nranks; rank++) {
        int bytes = 0;
        TUG_POLITE(Irecv, &bytes, 1, MPI_INT, rank, TAG, comm);
        char *text = bytes > 0 ? malloc((size_t)bytes) : NULL;
        int go = text != NULL;
        TUG_POLITE(Isend, &go, 1, MPI_INT, rank, TAG, comm);
        if (go) {
            TUG_POLITE(Irecv, text, bytes, MPI_CHAR, rank, TAG, comm);
            if (file != NULL)
                fwrite(text, 1, (size_t)bytes, file);
        }
        free(text);
    }
}

/* Of the others. */
static void hand_over(int rank, uint64_t origin_ns, MPI_Comm comm) {
    size_t length = 0;
    char *text = events(rank, origin_ns, &length);
    int bytes = text == NULL || length > INT32_MAX ? 0 : (int)length, go = 0;
    TUG_POLITE(Isend, &bytes, 1, MPI_INT, 0, TAG, comm);
    TUG_POLITE(Irecv, &go, 1, MPI_INT, 0, TAG, comm);
    if (go)
        TUG_POLITE(Isend, text, bytes, MPI_CHAR, 0, TAG, comm);
    free(text);
}

/* What rank 0 writes, with what the others hand over. */
static void write_file(const char *name, int nranks, uint64_t origin_ns, MPI_Comm comm) {
    FILE *file = fopen(name, "w");
    if (file != NULL) {
        tug_trace_print_head(file, nranks);
        tug_trace_print(file, 0, origin_ns);
    }
    if (nranks > 1)
        collect(file, nranks, comm);
    if (file != NULL)
        tug_trace_print_tail(file);
    const bool failed = file == NULL || ferror(file) != 0;
    if ((file != NULL && fclose(file) != 0) || failed)
        tug_log(
            TUG_VERBOSE_WARN,
            "cannot write the timeline to TUGBOAT_TRACE=%s; name a file in a folder that is there "
            "on rank 0's machine",
            name);
}

static void write_alone(void) {
    char *name;
    const int stem = (int)strlen(tug_settings.trace) - (int)strlen(".json");
    if (asprintf(&name, "%.*s.%d.json", stem, tug_settings.trace, (int)getpid()) < 0)
        return;
    write_file(name, 1, tug_trace_began_ns(), MPI_COMM_NULL);
    free(name);
}

void tug_timeline_write(MPI_Comm comm) {
    const bool traces = tug_trace_on;
    int rank, nranks;
    tug_trace_stop();
    if (tug_settings.trace == NULL)
        return;
    if (comm == MPI_COMM_NULL) {
        if (traces)
            write_alone();
        return;
    }
    uint64_t began_ns = traces ? tug_trace_began_ns() : UINT64_MAX, origin_ns = began_ns;
    tug_host.Comm_rank(comm, &rank);
    tug_host.Comm_size(comm, &nranks);
    TUG_POLITE(Iallreduce, &began_ns, &origin_ns, 1, MPI_UINT64_T, MPI_MIN, comm);
    if (rank == 0)
        write_file(tug_settings.trace, nranks, origin_ns, comm);
    else
        hand_over(rank, origin_ns, comm);
}

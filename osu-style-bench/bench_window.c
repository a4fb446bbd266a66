/* bench_window.c: windows of every flavour, by name (see bench.h).
 *
 * Invariant: the memory of a window that is created belongs to this file (or is the caller's
 * stack) and outlives the MPI window; that of a window that is allocated is MPI's.
 * Threading: the thread that called bench_start().
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

struct bench_flavour {
    const char *name;
    void *(*memory_of)(size_t bytes, void *stack); /* NULL: comes with the window */
    void (*make)(struct bench_window *window, int disp_unit);
    void (*free_memory)(void *memory); /* or NULL */
};

/* ---- memory ---- */

static void *malloc_memory(size_t bytes, void *stack) {
    (void)stack;
    return aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
}

static void *stack_memory(size_t bytes, void *stack) {
    (void)bytes;
    return stack == NULL ? NULL : (char *)stack + (LINE - (uintptr_t)stack % LINE) % LINE;
}

static void *mpi_memory(size_t bytes, void *stack) {
    void *memory = NULL;
    (void)stack;
    MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory);
    return memory;
}

static void free_mpi_memory(void *memory) {
    MPI_Free_mem(memory);
}

/* ---- windows ---- */

static void make_allocated(struct bench_window *window, int disp_unit) {
    MPI_Win_allocate((MPI_Aint)window->bytes, disp_unit, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &window->memory, &window->win);
}

static void make_shared(struct bench_window *window, int disp_unit) {
    MPI_Win_allocate_shared((MPI_Aint)window->bytes, disp_unit, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &window->memory, &window->win);
}

static void make_created(struct bench_window *window, int disp_unit) {
    MPI_Win_create(window->memory, (MPI_Aint)window->bytes, disp_unit, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &window->win);
}

static void make_dynamic(struct bench_window *window, int disp_unit) {
    (void)disp_unit;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window->win);
    MPI_Win_attach(window->win, window->memory, (MPI_Aint)window->bytes);
}

static const struct bench_flavour flavours[] = {
    {"allocate", NULL, make_allocated, NULL},
    {"shared", NULL, make_shared, NULL},
    {"create", malloc_memory, make_created, free},
    {"create_stack", stack_memory, make_created, NULL},
    {"create_alloc_mem", mpi_memory, make_created, free_mpi_memory},
    {"dynamic", malloc_memory, make_dynamic, free},
};
enum { NFLAVOURS = sizeof flavours / sizeof flavours[0] };

const char *const bench_window_names[] = {
    "allocate", "shared", "create", "create_stack", "create_alloc_mem", "dynamic", NULL,
};

static const struct bench_flavour *find_flavour(const char *name) {
    for (int i = 0; i < NFLAVOURS; i++)
        if (strcmp(flavours[i].name, name) == 0)
            return &flavours[i];
    return NULL;
}

static bool is_dynamic(const struct bench_window *window) {
    return window->flavour->make == make_dynamic;
}

/* In a dynamic window the displacement is the address. */
static void exchange_places(struct bench_window *window) {
    MPI_Aint mine = 0;
    if (is_dynamic(window))
        MPI_Get_address(window->memory, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, window->at, 1, MPI_AINT, MPI_COMM_WORLD);
}

struct bench_window bench_window_open_any(const char *name, void *stack, size_t bytes,
                                          int disp_unit) {
    struct bench_window window = {.flavour = find_flavour(name), .bytes = bytes};
    window.at = calloc((size_t)bench.nranks, sizeof *window.at);
    if (window.flavour == NULL || window.at == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (window.flavour->memory_of != NULL) {
        window.memory = window.flavour->memory_of(bytes, stack);
        if (window.memory == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    window.flavour->make(&window, disp_unit);
    exchange_places(&window);
    memset(window.memory, 0, bytes);
    bench_sync();
    return window;
}

struct bench_window bench_window_open(const char *name, size_t bytes, int disp_unit) {
    return bench_window_open_any(name, NULL, bytes, disp_unit);
}

bool bench_window_has_name(const char *name) {
    return strcmp(name, "allocate") == 0 || strcmp(name, "create") == 0;
}

static void free_window(struct bench_window *window) {
    if (is_dynamic(window))
        MPI_Win_detach(window->win, window->memory);
    MPI_Win_free(&window->win);
}

void bench_window_remake(struct bench_window *window, int disp_unit) {
    free_window(window);
    window->flavour->make(window, disp_unit);
}

void bench_window_close(struct bench_window *window) {
    free_window(window);
    if (window->flavour->free_memory != NULL)
        window->flavour->free_memory(window->memory);
    free(window->at);
}

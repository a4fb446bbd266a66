/*
 * tool_variables: what a tool sees through MPI_T.
 *
 * Every control and performance variable can be found by the name it tells, and read; those of the
 * host are the same with and without Tugboat and come first; Tugboat's are its settings, which
 * nobody can write, and its counters, which count. Argument: tug (Tugboat's variables are there) or
 * host (they are not). TUGBOAT_SPIN_US is 7.
 */
#include "check.h"

enum { NAME = 256, PUTS = 12 };

static bool with_tug;

static bool is_ours(const char *name) {
    return strncmp(name, "TUGBOAT", 7) == 0 || strncmp(name, "tugboat_", 8) == 0;
}

/* What there is no variable at is said with an error; Open MPI 4.1.4 says it with one of its own.
 */
static bool is_no_index(int error) {
#if MPI_VERSION >= 4
    return error == MPI_T_ERR_INVALID_INDEX;
#else
    return error != MPI_SUCCESS;
#endif
}

/* ---- control variables ---- */

static void read_setting(int index, const char *name) {
    MPI_T_cvar_handle handle;
    int count;
    if (MPI_VERSION < 4 && !is_ours(name))
        return; /* Open MPI 4.1.4 alone crashes in some of its own */
    MUST(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    char *value = calloc((size_t)count + 8, 8);
    CHECK(value != NULL, "no memory");
    MUST(MPI_T_cvar_read(handle, value));
    if (is_ours(name)) {
        CHECK((int)strlen(value) + 1 <= count, "%s: %s takes more than %d", name, value, count);
        CHECK(strcmp(name, "TUGBOAT_SPIN_US") != 0 || strcmp(value, "7") == 0, "%s is %s", name,
              value);
        CHECK(MPI_T_cvar_write(handle, value) == MPI_T_ERR_CVAR_SET_NEVER, "%s is written", name);
    }
    MUST(MPI_T_cvar_handle_free(&handle));
    CHECK(handle == MPI_T_CVAR_HANDLE_NULL, "%s: the handle is left", name);
    free(value);
}

/* early: MPI has not been initialised. Open MPI adds variables when it is, which come after ours,
 * and takes others back, whose numbers lead nowhere then. */
static void see_settings(bool early) {
    int count, ours = 0, found, bind, scope, verbosity;
    MPI_Datatype type;
    MPI_T_enum choices;
    MUST(MPI_T_cvar_get_num(&count));
    for (int i = 0; i < count; i++) {
        char name[NAME], help[4096];
        int name_length = sizeof name, help_length = sizeof help;
        int error = MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &choices, help,
                                        &help_length, &bind, &scope);
        if (MPI_VERSION < 4 && !early && is_no_index(error))
            continue;
        CHECK(error == MPI_SUCCESS, "variable %d: error %d", i, error);
        CHECK(name_length == (int)strlen(name) + 1, "%s: length %d", name, name_length);
        MUST(MPI_T_cvar_get_index(name, &found));
        CHECK(found == i, "%s is found at %d, not %d", name, found, i);
        CHECK(is_ours(name) || ours == 0 || (MPI_VERSION < 4 && !early),
              "%s of the host comes after ours", name);
        ours += is_ours(name);
        read_setting(i, name);
    }
    CHECK(with_tug ? ours > 10 : ours == 0, "%d settings of Tugboat's", ours);
    int length = 4;
    char cut[4] = "abc";
    MUST(MPI_T_cvar_get_info(count - 1, cut, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK(strlen(cut) == 3, "'%s'", cut);
    bool last_is_ours = with_tug && (early || MPI_VERSION >= 4);
    CHECK(!last_is_ours || length > 4, "length %d", length); /* MPICH 4.0.2 tells what it wrote */
    CHECK(MPI_T_cvar_get_index("TUGBOAT_NONE", &found) == MPI_T_ERR_INVALID_NAME, "found");
    int after = MPI_T_cvar_get_info(count, cut, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CHECK(is_no_index(after), "a variable after the last");
}

/* ---- performance variables ---- */

static MPI_T_pvar_session session;

static void see_counter(int index, const char *name, int class) {
    MPI_T_pvar_handle handle;
    unsigned long long value = 77;
    int count, found;
    MUST(MPI_T_pvar_get_index(name, class, &found));
    CHECK(found == index, "%s is found at %d, not %d", name, found, index);
    if (MPI_VERSION < 4 && !is_ours(name))
        return; /* Open MPI's are of communicators and the like */
    MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    if (is_ours(name)) {
        CHECK(count == 1, "%s: %d of them", name, count);
        MUST(MPI_T_pvar_read(session, handle, &value));
        CHECK(value != 77, "%s is not read", name);
        CHECK(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP, "%s", name);
        CHECK(MPI_T_pvar_stop(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP, "%s", name);
        CHECK(MPI_T_pvar_write(session, handle, &value) == MPI_T_ERR_PVAR_NO_WRITE, "%s", name);
        CHECK(MPI_T_pvar_reset(session, handle) == MPI_T_ERR_PVAR_NO_WRITE, "%s", name);
        CHECK(MPI_T_pvar_readreset(session, handle, &value) == MPI_T_ERR_PVAR_NO_WRITE, "%s", name);
    }
    MUST(MPI_T_pvar_handle_free(session, &handle));
    CHECK(handle == MPI_T_PVAR_HANDLE_NULL, "%s: the handle is left", name);
}

static void see_counters(void) {
    int count, ours = 0;
    MUST(MPI_T_pvar_get_num(&count));
    for (int i = 0; i < count; i++) {
        char name[NAME];
        int length = sizeof name, class, readonly, continuous;
        int error = MPI_T_pvar_get_info(i, name, &length, NULL, &class, NULL, NULL, NULL, NULL,
                                        NULL, &readonly, &continuous, NULL);
        if (MPI_VERSION < 4 && is_no_index(error))
            continue;
        CHECK(error == MPI_SUCCESS, "counter %d: error %d", i, error);
        CHECK(!is_ours(name) || (readonly && continuous), "%s can be changed", name);
        see_counter(i, name, class);
        ours += is_ours(name);
    }
    CHECK(with_tug ? ours > 20 : ours == 0, "%d counters of Tugboat's", ours);
    int unused;
    CHECK(MPI_T_pvar_get_index("tugboat_put_taken", MPI_T_PVAR_CLASS_LEVEL, &unused) ==
              MPI_T_ERR_INVALID_NAME,
          "another class is found");
}

/* A window of our own lanes counts its puts. */
static void see_counting(void) {
    MPI_T_pvar_handle handle;
    unsigned long long before, after;
    int index, count, *memory, value = 1;
    MPI_Win win;
    MUST(MPI_T_pvar_get_index("tugboat_put_taken", MPI_T_PVAR_CLASS_COUNTER, &index));
    MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    MUST(MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    MUST(MPI_T_pvar_read(session, handle, &before));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    for (int i = 0; i < PUTS; i++)
        MUST(MPI_Put(&value, 1, MPI_INT, 0, 4 * check_rank, 1, MPI_INT, win));
    MUST(MPI_Win_unlock(0, win));
    MUST(MPI_T_pvar_read(session, handle, &after));
    CHECK(after - before == PUTS, "%llu puts were counted, not %d", after - before, PUTS);
    MUST(MPI_Win_free(&win));
    MUST(MPI_T_pvar_handle_free(session, &handle));
}

/* Categories are the host's, and so are the variables in them. */
static void see_categories(void) {
    int count;
    MUST(MPI_T_category_get_num(&count));
    for (int c = 0; c < count; c++) {
        int n = 0, npvars = 0, indices[1024];
        int found = MPI_T_category_get_info(c, NULL, NULL, NULL, NULL, &n, &npvars, NULL);
        if (MPI_VERSION < 4 && is_no_index(found))
            continue; /* Open MPI 4 counts those of components that it has closed */
        CHECK(found == MPI_SUCCESS, "category %d: error %d", c, found);
        n = n < 1024 ? n : 1024;
        MUST(MPI_T_category_get_cvars(c, n, indices));
        for (int i = 0; i < n; i++) {
            char name[NAME] = "";
            int length = sizeof name;
            int error = MPI_T_cvar_get_info(indices[i], name, &length, NULL, NULL, NULL, NULL, NULL,
                                            NULL, NULL);
            if (MPI_VERSION < 4 && is_no_index(error))
                continue;
            CHECK(error == MPI_SUCCESS, "category %d, variable %d: error %d", c, indices[i], error);
            CHECK(strncmp(name, "TUGBOAT", 7) != 0, "category %d has %s", c, name);
        }
        npvars = npvars < 1024 ? npvars : 1024;
        MUST(MPI_T_category_get_pvars(c, npvars, indices));
        for (int i = 0; i < npvars; i++) {
            char name[NAME] = "";
            int length = sizeof name;
            int error = MPI_T_pvar_get_info(indices[i], name, &length, NULL, NULL, NULL, NULL, NULL,
                                            NULL, NULL, NULL, NULL, NULL);
            CHECK((MPI_VERSION < 4 && is_no_index(error)) || !is_ours(name), "category %d has %s",
                  c, name);
        }
    }
}

int main(int argc, char **argv) {
    int provided, count;
    with_tug = argc > 1 && strcmp(argv[1], "tug") == 0;
    CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED, "not initialised, but there");
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    see_settings(true);
    check_begin(&argc, &argv, "tool_variables");
    see_settings(false);
    MUST(MPI_T_pvar_session_create(&session));
    see_counters();
    see_categories();
    if (with_tug)
        see_counting();
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
    return check_end();
}

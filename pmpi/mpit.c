/* MPI_T, where tools look: our settings are control variables and our counters performance
 * variables, behind the host's.
 *
 * The numbers of ours begin where the host's ended when a tool first asked; what the host adds
 * later comes after them, so no number ever changes its meaning. Handles of ours carry no state:
 * they are addresses in a table of this file, by which they are told from the host's.
 *
 * A setting is a string that nobody can write. A counter is one of the whole process: it runs all
 * the time and can be neither stopped nor reset, but counting begins only when it is asked for, by
 * TUGBOAT_STATS or by the first handle. Any thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "base/stats.h"
#include "host/host.h"
#include "pmpi/shim.h"

#define SETTINGS_MOST 64

/* ---- what there is ---- */

struct counter {
    const char *name, *help;
};

static const struct counter counters[TUG_STAT_COUNT] = {
#define PAIR(NAME, name)                                                                           \
    [TUG_STAT_##NAME##_TAKEN] = {"tugboat_" name "_taken", "calls that Tugboat did"},              \
    [TUG_STAT_##NAME##_PASSED] = {"tugboat_" name "_passed", "calls that went to the host"},
    TUG_STAT_CLASSES(PAIR)
#define ONE(NAME, name, help) [TUG_STAT_##NAME] = {"tugboat_" name, help},
        TUG_STAT_ENGINE(ONE)};

static int nsettings(void) {
    struct tug_setting_row row;
    int n = 0;
    while (n < SETTINGS_MOST && tug_settings_row((size_t)n, &row))
        n++;
    return n;
}

static int class_of(int counter) {
    return counter == TUG_STAT_RING_HIGH_WATER ? MPI_T_PVAR_CLASS_HIGHWATERMARK
                                               : MPI_T_PVAR_CLASS_COUNTER;
}

/* ---- numbers ---- */

enum kind { SETTINGS, COUNTERS };

/* Of ours there are `count`, from number `first` on. */
struct range {
    int first, count; /* first: -1 until a tool has asked */
};

static struct range ranges[] = {[SETTINGS] = {.first = -1}, [COUNTERS] = {.first = -1}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The range of ours, and how many the host has. Fails as the host does, without an interface that
 * was initialised for one. */
static int find_range(enum kind kind, struct range *range, int *host_count) {
    tug_settings_load(NULL, 0);
    const int error = kind == SETTINGS ? tug_host.T_cvar_get_num(host_count)
                                       : tug_host.T_pvar_get_num(host_count);
    if (error != MPI_SUCCESS)
        return error;
    const int count = kind == SETTINGS ? nsettings() : TUG_STAT_COUNT;
    pthread_mutex_lock(&lock);
    if (ranges[kind].first < 0)
        ranges[kind] = (struct range){*host_count, tug_settings.enabled ? count : 0};
    *range = ranges[kind];
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static int count_all(enum kind kind, int *count) {
    struct range range;
    const int error = find_range(kind, &range, count);
    if (error == MPI_SUCCESS)
        *count += range.count;
    return error;
}

/* Which of ours has the number; -1: it is the host's. */
static int ours(const struct range *range, int index) {
    return index >= range->first && index < range->first + range->count ? index - range->first : -1;
}

static int to_host(const struct range *range, int index) {
    return index < range->first ? index : index - range->count;
}

static int from_host(const struct range *range, int index) {
    return index < range->first ? index : index + range->count;
}

/* ---- handles ---- */

static char setting_handles[SETTINGS_MOST], counter_handles[TUG_STAT_COUNT];

static int setting_of(MPI_T_cvar_handle handle) {
    const uintptr_t at = (uintptr_t)handle - (uintptr_t)setting_handles;
    return at < SETTINGS_MOST ? (int)at : -1;
}

static int counter_of(MPI_T_pvar_handle handle) {
    const uintptr_t at = (uintptr_t)handle - (uintptr_t)counter_handles;
    return at < TUG_STAT_COUNT ? (int)at : -1;
}

/* A string as MPI_T hands it out: cut to *length with its end; *length becomes what it takes. */
static void give_text(const char *text, char *to, int *length) {
    if (length == NULL)
        return;
    if (to != NULL && *length > 0)
        snprintf(to, (size_t)*length, "%s", text);
    *length = (int)strlen(text) + 1;
}

#define GIVE(pointer, value)                                                                       \
    do {                                                                                           \
        if ((pointer) != NULL)                                                                     \
            *(pointer) = (value);                                                                  \
    } while (0)

/* ---- control variables ---- */

int tug_shim_T_cvar_get_num(int *num_cvar) {
    return count_all(SETTINGS, num_cvar);
}

int tug_shim_T_cvar_get_info(int cvar_index, char *name, int *name_len, int *verbosity,
                             MPI_Datatype *datatype, MPI_T_enum *enumtype, char *desc,
                             int *desc_len, int *bind, int *scope) {
    struct range range;
    struct tug_setting_row row;
    int host_count;
    const int error = find_range(SETTINGS, &range, &host_count);
    if (error != MPI_SUCCESS)
        return error;
    const int number = ours(&range, cvar_index);
    if (number < 0)
        return tug_host.T_cvar_get_info(to_host(&range, cvar_index), name, name_len, verbosity,
                                        datatype, enumtype, desc, desc_len, bind, scope);
    tug_settings_row((size_t)number, &row);
    give_text(row.name, name, name_len);
    give_text(row.help, desc, desc_len);
    GIVE(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    GIVE(datatype, MPI_CHAR);
    GIVE(enumtype, MPI_T_ENUM_NULL);
    GIVE(bind, MPI_T_BIND_NO_OBJECT);
    GIVE(scope, MPI_T_SCOPE_READONLY);
    return MPI_SUCCESS;
}

int tug_shim_T_cvar_get_index(const char *name, int *cvar_index) {
    struct range range;
    struct tug_setting_row row;
    int host_count;
    int error = find_range(SETTINGS, &range, &host_count);
    if (error != MPI_SUCCESS || name == NULL || cvar_index == NULL)
        return error != MPI_SUCCESS ? error : tug_host.T_cvar_get_index(name, cvar_index);
    for (int i = 0; i < range.count && tug_settings_row((size_t)i, &row); i++) {
        if (strcmp(row.name, name) == 0) {
            *cvar_index = range.first + i;
            return MPI_SUCCESS;
        }
    }
    error = tug_host.T_cvar_get_index(name, cvar_index);
    if (error == MPI_SUCCESS)
        *cvar_index = from_host(&range, *cvar_index);
    return error;
}

int tug_shim_T_cvar_handle_alloc(int cvar_index, void *obj_handle, MPI_T_cvar_handle *handle,
                                 int *count) {
    struct range range;
    struct tug_setting_row row;
    int host_count;
    const int error = find_range(SETTINGS, &range, &host_count);
    if (error != MPI_SUCCESS)
        return error;
    const int number = ours(&range, cvar_index);
    if (number < 0)
        return tug_host.T_cvar_handle_alloc(to_host(&range, cvar_index), obj_handle, handle, count);
    if (handle == NULL || count == NULL)
        return MPI_T_ERR_INVALID;
    tug_settings_row((size_t)number, &row);
    *handle = (MPI_T_cvar_handle)(void *)&setting_handles[number];
    *count = (int)strlen(row.value) + 1;
    return MPI_SUCCESS;
}

int tug_shim_T_cvar_handle_free(MPI_T_cvar_handle *handle) {
    if (handle == NULL || setting_of(*handle) < 0)
        return tug_host.T_cvar_handle_free(handle);
    *handle = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

int tug_shim_T_cvar_read(MPI_T_cvar_handle handle, void *buf) {
    struct tug_setting_row row;
    const int number = setting_of(handle);
    if (number < 0)
        return tug_host.T_cvar_read(handle, buf);
    if (buf == NULL || !tug_settings_row((size_t)number, &row))
        return MPI_T_ERR_INVALID;
    strcpy(buf, row.value);
    return MPI_SUCCESS;
}

int tug_shim_T_cvar_write(MPI_T_cvar_handle handle, const void *buf) {
    return setting_of(handle) < 0 ? tug_host.T_cvar_write(handle, buf) : MPI_T_ERR_CVAR_SET_NEVER;
}

/* ---- performance variables ---- */

int tug_shim_T_pvar_get_num(int *num_pvar) {
    return count_all(COUNTERS, num_pvar);
}

int tug_shim_T_pvar_get_info(int pvar_index, char *name, int *name_len, int *verbosity,
                             int *var_class, MPI_Datatype *datatype, MPI_T_enum *enumtype,
                             char *desc, int *desc_len, int *bind, int *readonly, int *continuous,
                             int *atomic) {
    struct range range;
    int host_count;
    const int error = find_range(COUNTERS, &range, &host_count);
    if (error != MPI_SUCCESS)
        return error;
    const int number = ours(&range, pvar_index);
    if (number < 0)
        return tug_host.T_pvar_get_info(to_host(&range, pvar_index), name, name_len, verbosity,
                                        var_class, datatype, enumtype, desc, desc_len, bind,
                                        readonly, continuous, atomic);
    give_text(counters[number].name, name, name_len);
    give_text(counters[number].help, desc, desc_len);
    GIVE(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    GIVE(var_class, class_of(number));
    GIVE(datatype, MPI_UNSIGNED_LONG_LONG);
    GIVE(enumtype, MPI_T_ENUM_NULL);
    GIVE(bind, MPI_T_BIND_NO_OBJECT);
    GIVE(readonly, 1);
    GIVE(continuous, 1);
    GIVE(atomic, 0);
    return MPI_SUCCESS;
}

int tug_shim_T_pvar_get_index(const char *name, int var_class, int *pvar_index) {
    struct range range;
    int host_count;
    int error = find_range(COUNTERS, &range, &host_count);
    if (error != MPI_SUCCESS || name == NULL || pvar_index == NULL)
        return error != MPI_SUCCESS ? error
                                    : tug_host.T_pvar_get_index(name, var_class, pvar_index);
    for (int i = 0; i < range.count; i++) {
        if (strcmp(counters[i].name, name) == 0 && class_of(i) == var_class) {
            *pvar_index = range.first + i;
            return MPI_SUCCESS;
        }
    }
    error = tug_host.T_pvar_get_index(name, var_class, pvar_index);
    if (error == MPI_SUCCESS)
        *pvar_index = from_host(&range, *pvar_index);
    return error;
}

int tug_shim_T_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void *obj_handle,
                                 MPI_T_pvar_handle *handle, int *count) {
    struct range range;
    int host_count;
    const int error = find_range(COUNTERS, &range, &host_count);
    if (error != MPI_SUCCESS)
        return error;
    const int number = ours(&range, pvar_index);
    if (number < 0)
        return tug_host.T_pvar_handle_alloc(session, to_host(&range, pvar_index), obj_handle,
                                            handle, count);
    if (session == MPI_T_PVAR_SESSION_NULL)
        return MPI_T_ERR_INVALID_SESSION;
    if (handle == NULL || count == NULL)
        return MPI_T_ERR_INVALID;
    tug_stats_on = true; /* whenever other threads see it */
    *handle = (MPI_T_pvar_handle)(void *)&counter_handles[number];
    *count = 1;
    return MPI_SUCCESS;
}

int tug_shim_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle) {
    if (handle == NULL || counter_of(*handle) < 0)
        return tug_host.T_pvar_handle_free(session, handle);
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

int tug_shim_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf) {
    const int number = counter_of(handle);
    if (number < 0)
        return tug_host.T_pvar_read(session, handle, buf);
    if (buf == NULL)
        return MPI_T_ERR_INVALID;
    *(unsigned long long *)buf =
        atomic_load_explicit(&tug_stat_values[number], memory_order_relaxed);
    return MPI_SUCCESS;
}

/* What cannot be done to a counter of ours. */
#define REFUSE(call, error, parameters, arguments)                                                 \
    int tug_shim_T_pvar_##call parameters {                                                        \
        return counter_of(handle) < 0 ? tug_host.T_pvar_##call arguments : error;                  \
    }
#define OF_HANDLE MPI_T_pvar_session session, MPI_T_pvar_handle handle
REFUSE(start, MPI_T_ERR_PVAR_NO_STARTSTOP, (OF_HANDLE), (session, handle))
REFUSE(stop, MPI_T_ERR_PVAR_NO_STARTSTOP, (OF_HANDLE), (session, handle))
REFUSE(reset, MPI_T_ERR_PVAR_NO_WRITE, (OF_HANDLE), (session, handle))
REFUSE(write, MPI_T_ERR_PVAR_NO_WRITE, (OF_HANDLE, const void *buf), (session, handle, buf))
REFUSE(readreset, MPI_T_ERR_PVAR_NO_WRITE, (OF_HANDLE, void *buf), (session, handle, buf))

/* ---- categories ---- */

/* What the host has put into a list of so much room has our numbers from now on. */
static int renumber(enum kind kind, int error, int cat_index, int room, int indices[]) {
    struct range range;
    int host_count, n[2] = {0, 0};
    if (error == MPI_SUCCESS)
        error = find_range(kind, &range, &host_count);
    if (error == MPI_SUCCESS && indices != NULL)
        error = tug_host.T_category_get_info(cat_index, NULL, NULL, NULL, NULL, &n[SETTINGS],
                                             &n[COUNTERS], NULL);
    for (int i = 0; error == MPI_SUCCESS && i < n[kind] && i < room; i++)
        indices[i] = from_host(&range, indices[i]);
    return error;
}

int tug_shim_T_category_get_cvars(int cat_index, int len, int indices[]) {
    return renumber(SETTINGS, tug_host.T_category_get_cvars(cat_index, len, indices), cat_index,
                    len, indices);
}

int tug_shim_T_category_get_pvars(int cat_index, int len, int indices[]) {
    return renumber(COUNTERS, tug_host.T_category_get_pvars(cat_index, len, indices), cat_index,
                    len, indices);
}

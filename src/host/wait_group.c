#include "host/wait_group.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "host/handles.h"
#include "host/host.h"
#include "host/keyval.h"

bool tug_group_is_within(MPI_Group group, MPI_Group other) {
    enum { AT_ONCE = 64 };
    int n, ranks[AT_ONCE], found[AT_ONCE];
    bool all = true;
    tug_host.Group_size(group, &n);
    for (int first = 0; first < n && all; first += AT_ONCE) {
        int count = n - first < AT_ONCE ? n - first : AT_ONCE;
        for (int i = 0; i < count; i++)
            ranks[i] = first + i;
        tug_host.Group_translate_ranks(group, count, ranks, other, found);
        for (int i = 0; i < count; i++)
            all = all && found[i] != MPI_UNDEFINED;
    }
    return all;
}

struct tug_wait_group {
    MPI_Group group;
    bool ordered;  /* with other calls of its ranks: no rank has several threads in MPI */
    bool in_force; /* a window has been made */
    bool named;    /* the communicator lives */
    unsigned windows;
    struct tug_wait_group *next; /* in force */
};

/* Of all that follows. Held around local calls of the host, which lets go of its own lock around
 * the deletion of attributes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_wait_group *wait_groups;
static struct tug_wait_group world;
static _Atomic uintptr_t generation; /* changes with the list */
_Atomic unsigned tug_wait_groups_in_force;

static void list_changed(int by) {
    generation++;
    atomic_fetch_add_explicit(&tug_wait_groups_in_force, (unsigned)by, memory_order_relaxed);
}

/* Nothing holds it any more? With the lock. */
static void let_go(struct tug_wait_group *wait_group) {
    if (wait_group->named || wait_group->windows > 0)
        return;
    for (struct tug_wait_group **at = &wait_groups; *at != NULL; at = &(*at)->next)
        if (*at == wait_group) {
            *at = wait_group->next;
            list_changed(-1);
            break;
        }
    if (wait_group->group != MPI_GROUP_NULL)
        tug_host.Group_free(&wait_group->group);
    free(wait_group);
}

static int forget(MPI_Comm comm, int key, void *attribute, void *state) {
    struct tug_wait_group *wait_group = attribute;
    (void)comm;
    (void)key;
    (void)state;
    pthread_mutex_lock(&lock);
    wait_group->named = false;
    let_go(wait_group);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

/* A communicator's attributes: its wait group, and generation << 1 | inside. */
static struct tug_keyval of_comm = {.forget = forget}, inside_one;

static struct tug_wait_group *find(MPI_Comm comm) {
    struct tug_wait_group *wait_group = NULL;
    int flag = 0;
    tug_host.Comm_get_attr(comm, tug_keyval_number(&of_comm), (void *)&wait_group, &flag);
    return flag ? wait_group : NULL;
}

struct tug_wait_group *tug_wait_group_of(MPI_Comm comm, bool ordered) {
    struct tug_wait_group *wait_group = find(comm);
    if (wait_group != NULL)
        return wait_group;
    wait_group = calloc(1, sizeof(*wait_group));
    if (wait_group == NULL)
        return NULL;
    wait_group->ordered = ordered;
    wait_group->named = true;
    tug_host.Comm_group(comm, &wait_group->group);
    tug_host.Comm_set_attr(comm, tug_keyval_number(&of_comm), wait_group);
    return wait_group;
}

/* With the lock. */
static void put_in_force(struct tug_wait_group *wait_group) {
    wait_group->in_force = true;
    wait_group->next = wait_groups;
    wait_groups = wait_group;
    list_changed(1);
}

void tug_wait_group_world(void) {
    tug_host.Comm_group(MPI_COMM_WORLD, &world.group);
    pthread_mutex_lock(&lock);
    world.ordered = true;
    put_in_force(&world);
    pthread_mutex_unlock(&lock);
}

void tug_wait_group_enter(struct tug_wait_group *wait_group) {
    pthread_mutex_lock(&lock);
    wait_group->windows++;
    if (!wait_group->in_force)
        put_in_force(wait_group);
    pthread_mutex_unlock(&lock);
}

void tug_wait_group_leave(struct tug_wait_group *wait_group) {
    pthread_mutex_lock(&lock);
    wait_group->windows--;
    let_go(wait_group);
    pthread_mutex_unlock(&lock);
}

/* Some wait group in which collective calls are ordered has all ranks of the group? With the lock.
 */
static bool is_covered(MPI_Group group) {
    for (const struct tug_wait_group *wait_group = wait_groups; wait_group != NULL;
         wait_group = wait_group->next)
        if (wait_group->ordered && tug_group_is_within(group, wait_group->group))
            return true;
    return false;
}

/* With the lock. */
static bool is_inside(MPI_Comm comm) {
    const struct tug_wait_group *own = find(comm);
    if (own != NULL && own->in_force)
        return true;
    int inter;
    MPI_Group group;
    tug_host.Comm_test_inter(comm, &inter);
    if (inter)
        return false;
    tug_host.Comm_group(comm, &group);
    const bool inside = is_covered(group);
    tug_host.Group_free(&group);
    return inside;
}

static bool find_out(MPI_Comm comm) {
    void *known = NULL;
    int flag = 0;
    const int key = tug_keyval_number(&inside_one);
    if (tug_host.Comm_get_attr(comm, key, (void *)&known, &flag) != MPI_SUCCESS)
        return false;
    if (flag && (uintptr_t)known >> 1 == generation)
        return (uintptr_t)known & 1;
    pthread_mutex_lock(&lock);
    const bool inside = is_inside(comm);
    (void)tug_host.Comm_set_attr(comm, key, (void *)(generation << 1 | inside));
    pthread_mutex_unlock(&lock);
    return inside;
}

bool tug_wait_group_covers(MPI_Comm comm) {
    if (comm == MPI_COMM_WORLD && world.in_force)
        return true;
    return tug_comm_is_one(comm) && comm != MPI_COMM_SELF && find_out(comm);
}

/* Out of force. With the lock. */
static void leave_force(struct tug_wait_group **at) {
    struct tug_wait_group *wait_group = *at;
    *at = wait_group->next;
    list_changed(-1);
    wait_group->in_force = false;
    tug_host.Group_free(&wait_group->group);
}

void tug_wait_group_end_world(void) {
    pthread_mutex_lock(&lock);
    for (struct tug_wait_group **at = &wait_groups; *at != NULL; at = &(*at)->next)
        if (*at == &world) {
            leave_force(at);
            break;
        }
    pthread_mutex_unlock(&lock);
}

void tug_wait_group_finalize(void) {
    pthread_mutex_lock(&lock);
    while (wait_groups != NULL)
        leave_force(&wait_groups);
    pthread_mutex_unlock(&lock);
}

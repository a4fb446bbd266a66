#include "pmpi/circle.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "host/handles.h"
#include "host/host.h"
#include "host/polite.h"
#include "pmpi/shim.h"

struct tug_circle {
    MPI_Group group;
    bool one_thread; /* no rank has several threads in MPI */
    bool in_force;   /* a window has been made */
    bool named;      /* the communicator lives */
    unsigned windows;
    struct tug_circle *next; /* in force */
};

/* Of all that follows. Held around local calls of the host, which lets go of its own lock around
 * the deletion of attributes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_circle *circles;
static uintptr_t generation; /* changes with the list */
_Atomic unsigned tug_circles_in_force;

/* A communicator's attributes: its circle, and generation << 1 | inside. */
static int circle_key = MPI_KEYVAL_INVALID, inside_key = MPI_KEYVAL_INVALID;

static void list_changed(int by) {
    generation++;
    atomic_fetch_add_explicit(&tug_circles_in_force, (unsigned)by, memory_order_relaxed);
}

/* Nothing holds it any more? With the lock. */
static void let_go(struct tug_circle *circle) {
    if (circle->named || circle->windows > 0)
        return;
    for (struct tug_circle **at = &circles; *at != NULL; at = &(*at)->next)
        if (*at == circle) {
            *at = circle->next;
            list_changed(-1);
            break;
        }
    if (circle->group != MPI_GROUP_NULL)
        tug_host.Group_free(&circle->group);
    free(circle);
}

static int forget(MPI_Comm comm, int key, void *attribute, void *state) {
    struct tug_circle *circle = attribute;
    (void)comm;
    (void)key;
    (void)state;
    pthread_mutex_lock(&lock);
    circle->named = false;
    let_go(circle);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static void have_keys(void) {
    pthread_mutex_lock(&lock);
    if (circle_key == MPI_KEYVAL_INVALID)
        tug_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &circle_key, NULL);
    if (inside_key == MPI_KEYVAL_INVALID)
        tug_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &inside_key,
                                    NULL);
    pthread_mutex_unlock(&lock);
}

static struct tug_circle *find(MPI_Comm comm) {
    struct tug_circle *circle = NULL;
    int flag = 0;
    tug_host.Comm_get_attr(comm, circle_key, (void *)&circle, &flag);
    return flag ? circle : NULL;
}

struct tug_circle *tug_circle_of(MPI_Comm comm) {
    have_keys();
    struct tug_circle *circle = find(comm);
    if (circle != NULL)
        return circle;
    circle = calloc(1, sizeof(*circle));
    int most[2] = {circle == NULL, tug_shim.requested == MPI_THREAD_MULTIPLE};
    TUG_POLITE(Iallreduce, MPI_IN_PLACE, most, 2, MPI_INT, MPI_MAX, comm);
    if (most[0]) {
        free(circle);
        return NULL;
    }
    circle->one_thread = !most[1];
    circle->named = true;
    tug_host.Comm_group(comm, &circle->group);
    tug_host.Comm_set_attr(comm, circle_key, circle);
    return circle;
}

void tug_circle_enter(struct tug_circle *circle) {
    pthread_mutex_lock(&lock);
    circle->windows++;
    if (!circle->in_force) {
        circle->in_force = true;
        circle->next = circles;
        circles = circle;
        list_changed(1);
    }
    pthread_mutex_unlock(&lock);
}

void tug_circle_leave(struct tug_circle *circle) {
    pthread_mutex_lock(&lock);
    circle->windows--;
    let_go(circle);
    pthread_mutex_unlock(&lock);
}

/* Are all members of the group in the circle's? */
static bool contains(const struct tug_circle *circle, MPI_Group group) {
    int n;
    tug_host.Group_size(group, &n);
    int *ranks = malloc(2 * (size_t)n * sizeof(*ranks));
    bool all = ranks != NULL;
    for (int r = 0; all && r < n; r++)
        ranks[r] = r;
    if (all)
        tug_host.Group_translate_ranks(group, n, ranks, circle->group, ranks + n);
    for (int r = n; all && r < 2 * n; r++)
        all = ranks[r] != MPI_UNDEFINED;
    free(ranks);
    return all;
}

/* Some circle in which collective calls are ordered has all ranks of the group(s)? With the lock.
 */
static bool has_circle(MPI_Group group, MPI_Group remote) {
    for (const struct tug_circle *circle = circles; circle != NULL; circle = circle->next)
        if (circle->one_thread && contains(circle, group) &&
            (remote == MPI_GROUP_NULL || contains(circle, remote)))
            return true;
    return false;
}

/* With the lock. */
static bool is_inside(MPI_Comm comm) {
    const struct tug_circle *own = find(comm);
    if (own != NULL && own->in_force)
        return true;
    int inter;
    MPI_Group group, remote = MPI_GROUP_NULL;
    tug_host.Comm_test_inter(comm, &inter);
    tug_host.Comm_group(comm, &group);
    if (inter)
        tug_host.Comm_remote_group(comm, &remote);
    bool inside = has_circle(group, remote);
    tug_host.Group_free(&group);
    if (inter)
        tug_host.Group_free(&remote);
    return inside;
}

bool tug_circle_covers(MPI_Comm comm) {
    void *known = NULL;
    int flag = 0;
    if (!tug_comm_is_one(comm) || comm == MPI_COMM_SELF ||
        tug_host.Comm_get_attr(comm, inside_key, (void *)&known, &flag) != MPI_SUCCESS)
        return false;
    pthread_mutex_lock(&lock);
    bool inside = (uintptr_t)known & 1;
    if (!flag || (uintptr_t)known >> 1 != generation) {
        inside = is_inside(comm);
        tug_host.Comm_set_attr(comm, inside_key, (void *)(generation << 1 | inside));
    }
    pthread_mutex_unlock(&lock);
    return inside;
}

void tug_circle_finalize(void) {
    pthread_mutex_lock(&lock);
    while (circles != NULL) {
        struct tug_circle *circle = circles;
        circles = circle->next;
        list_changed(-1);
        tug_host.Group_free(&circle->group);
    }
    pthread_mutex_unlock(&lock);
}

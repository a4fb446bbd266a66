#include "host/circle.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "host/agreement.h"
#include "host/answers.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/level.h"

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

struct tug_circle {
    MPI_Group group;
    bool ordered;  /* with other calls of its ranks: no rank has several threads in MPI */
    bool in_force; /* a window has been made */
    bool named;    /* the communicator lives */
    unsigned windows;
    struct tug_circle *next; /* in force */
};

/* Of all that follows. Held around local calls of the host, which lets go of its own lock around
 * the deletion of attributes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_circle *circles;
static struct tug_circle world;
static uintptr_t generation; /* changes with the list */
_Atomic unsigned tug_circles_in_force;

/* A communicator's attributes: its circle, and generation << 1 | inside. */
static int circle_key = MPI_KEYVAL_INVALID, inside_key = MPI_KEYVAL_INVALID;

/* Which communicators are inside: the second attribute once more, noted with the lock. */
static struct tug_answers answers;

static void list_changed(int by) {
    generation++;
    tug_answers_forget_all(&answers);
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

/* Also when the attribute is replaced, with the lock. */
static int forget_answer(MPI_Comm comm, int key, void *attribute, void *state) {
    (void)key;
    (void)attribute;
    (void)state;
    tug_answer_forget(&answers, comm);
    return MPI_SUCCESS;
}

static void have_keys(void) {
    pthread_mutex_lock(&lock);
    if (circle_key == MPI_KEYVAL_INVALID)
        tug_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &circle_key, NULL);
    if (inside_key == MPI_KEYVAL_INVALID)
        tug_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_answer, &inside_key, NULL);
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
    int64_t most[2] = {circle == NULL, tug_level.requested == MPI_THREAD_MULTIPLE};
    (void)tug_agree(comm, MPI_MAX, most, 2);
    if (most[0]) {
        free(circle);
        return NULL;
    }
    circle->ordered = !most[1];
    circle->named = true;
    tug_host.Comm_group(comm, &circle->group);
    tug_host.Comm_set_attr(comm, circle_key, circle);
    return circle;
}

/* With the lock. */
static void put_in_force(struct tug_circle *circle) {
    circle->in_force = true;
    circle->next = circles;
    circles = circle;
    list_changed(1);
}

void tug_circle_world(void) {
    have_keys();
    tug_host.Comm_group(MPI_COMM_WORLD, &world.group);
    pthread_mutex_lock(&lock);
    world.ordered = true;
    put_in_force(&world);
    pthread_mutex_unlock(&lock);
}

void tug_circle_enter(struct tug_circle *circle) {
    pthread_mutex_lock(&lock);
    circle->windows++;
    if (!circle->in_force)
        put_in_force(circle);
    pthread_mutex_unlock(&lock);
}

void tug_circle_leave(struct tug_circle *circle) {
    pthread_mutex_lock(&lock);
    circle->windows--;
    let_go(circle);
    pthread_mutex_unlock(&lock);
}

/* Some circle in which collective calls are ordered has all ranks of the group(s)? With the lock.
 */
static bool has_circle(MPI_Group group, MPI_Group remote) {
    for (const struct tug_circle *circle = circles; circle != NULL; circle = circle->next)
        if (circle->ordered && tug_group_is_within(group, circle->group) &&
            (remote == MPI_GROUP_NULL || tug_group_is_within(remote, circle->group)))
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

static bool find_out(MPI_Comm comm) {
    void *known = NULL;
    int flag = 0;
    if (tug_host.Comm_get_attr(comm, inside_key, (void *)&known, &flag) != MPI_SUCCESS)
        return false;
    pthread_mutex_lock(&lock);
    bool inside = (uintptr_t)known & 1;
    if (!flag || (uintptr_t)known >> 1 != generation) {
        inside = is_inside(comm);
        flag = tug_host.Comm_set_attr(comm, inside_key, (void *)(generation << 1 | inside)) ==
               MPI_SUCCESS;
    }
    if (flag)
        tug_answer_note(&answers, comm, inside);
    pthread_mutex_unlock(&lock);
    return inside;
}

bool tug_circle_covers(MPI_Comm comm) {
    bool inside;
    if (comm == MPI_COMM_WORLD && world.in_force)
        return true;
    if (!tug_comm_is_one(comm) || comm == MPI_COMM_SELF)
        return false;
    return tug_answer_find(&answers, comm, &inside) ? inside : find_out(comm);
}

/* Out of force. With the lock. */
static void leave_force(struct tug_circle **at) {
    struct tug_circle *circle = *at;
    *at = circle->next;
    list_changed(-1);
    circle->in_force = false;
    tug_host.Group_free(&circle->group);
}

void tug_circle_end_world(void) {
    pthread_mutex_lock(&lock);
    for (struct tug_circle **at = &circles; *at != NULL; at = &(*at)->next)
        if (*at == &world) {
            leave_force(at);
            break;
        }
    pthread_mutex_unlock(&lock);
}

void tug_circle_finalize(void) {
    pthread_mutex_lock(&lock);
    while (circles != NULL)
        leave_force(&circles);
    pthread_mutex_unlock(&lock);
}

#include "host/participants.h"

#include "base/log.h"
#include "base/settings.h"
#include "host/agreement.h"
#include "host/wait_group.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/keyval.h"
#include "host/level.h"

/* The world of this process, as agreed. Kept while MPI is up, also when the world has ended: its
 * processes may have sessions. */
static struct {
    bool settled;
    bool everybody; /* all processes of the world take part */
    bool some;      /* this process takes part, others do not */
    MPI_Group group;
    MPI_Group takers; /* some */
    MPI_Comm comm;    /* of the takers */
} world;

static char yes, no; /* a communicator's attribute is the address of one */
static struct tug_keyval kept;

/* ---- the world ---- */

void tug_participants_settle(bool somebody, bool everybody) {
    world.settled = true;
    world.everybody = everybody;
    world.some = somebody && !everybody && tug_level.active;
    tug_host.Comm_group(MPI_COMM_WORLD, &world.group);
    world.comm = MPI_COMM_WORLD;
    if (!somebody || everybody)
        return;
    int rank;
    tug_host.Comm_rank(MPI_COMM_WORLD, &rank);
    tug_host.Comm_split(MPI_COMM_WORLD, tug_level.active ? 0 : MPI_UNDEFINED, rank, &world.comm);
    if (!world.some)
        return;
    tug_host.Comm_set_errhandler(world.comm, MPI_ERRORS_RETURN);
    tug_host.Comm_group(world.comm, &world.takers);
}

MPI_Comm tug_participants_world(void) {
    return world.comm;
}

void tug_participants_end_world(void) {
    if (world.some)
        tug_host.Comm_free(&world.comm);
    world.comm = MPI_COMM_NULL;
}

void tug_participants_finalize(void) {
    if (world.settled)
        tug_host.Group_free(&world.group);
    if (world.some)
        tug_host.Group_free(&world.takers);
    world.settled = world.everybody = world.some = false;
}

/* ---- communicators ---- */

enum answer { NO, YES, TO_BE_ASKED };

static enum answer decide(bool all) {
    if (!all && tug_level.active)
        tug_warn_once("some processes of a communicator do not take part (TUGBOAT=off, or nothing "
                      "in them called for the engine when MPI started): windows and persistent "
                      "collectives on it pass through to the host; give all of them the same "
                      "environment, and TUGBOAT_THREADS=multiple where the programs differ");
    return all ? YES : NO;
}

/* What this process knows without asking. */
static enum answer look_up(MPI_Comm comm) {
    MPI_Group group;
    int inter = 0;
    if (comm == MPI_COMM_SELF)
        return tug_level.active ? YES : NO;
    if (tug_host.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return NO;
    if (!world.settled)
        return TO_BE_ASKED;
    tug_host.Comm_group(comm, &group);
    enum answer answer = TO_BE_ASKED;
    if (tug_group_is_within(group, world.group))
        answer =
            decide(world.everybody || (world.some && tug_group_is_within(group, world.takers)));
    tug_host.Group_free(&group);
    return answer;
}

/* Collective. Where somebody has no engine that drives by itself, waits on this communicator are to
 * get requests on, see wait_group.h. */
static enum answer ask(MPI_Comm comm) {
    int64_t most[3] = {!tug_level.active, tug_settings.progress == TUG_PROGRESS_CALLER,
                       tug_level.requested == MPI_THREAD_MULTIPLE};
    (void)tug_agree(comm, MPI_MAX, most, 3);
    const bool waits = !most[0] && most[1];
    struct tug_wait_group *wait_group = waits ? tug_wait_group_of(comm, !most[2]) : NULL;
    if (waits && tug_all_agree(comm, wait_group != NULL)) {
        tug_wait_group_enter(wait_group); /* in force for as long as the communicator lives */
        tug_wait_group_leave(wait_group);
    }
    return decide(!most[0]);
}

static enum answer answer_for(MPI_Comm comm, bool may_ask) {
    char *known;
    int flag = 0;
    if (world.everybody && comm == MPI_COMM_WORLD)
        return tug_level.active ? YES : NO;
    if (!tug_host_complete() || !tug_comm_is_one(comm))
        return NO;
    const int key = tug_keyval_number(&kept);
    if (key == MPI_KEYVAL_INVALID ||
        tug_host.Comm_get_attr(comm, key, (void *)&known, &flag) != MPI_SUCCESS)
        return NO;
    enum answer answer = flag && known == &yes ? YES : flag ? NO : look_up(comm);
    if (answer == TO_BE_ASKED && may_ask)
        answer = ask(comm);
    if (!flag && answer != TO_BE_ASKED)
        (void)tug_host.Comm_set_attr(comm, key, answer == YES ? &yes : &no);
    return answer;
}

bool tug_all_take_part(MPI_Comm comm) {
    if (tug_level.own_level)
        tug_level_note_passed();
    return answer_for(comm, true) == YES;
}

bool tug_all_known_to_take_part(MPI_Comm comm) {
    return answer_for(comm, false) == YES;
}

bool tug_all_of_world_take_part(MPI_Comm comm) {
    return tug_host_complete() && tug_comm_is_one(comm) && look_up(comm) == YES;
}

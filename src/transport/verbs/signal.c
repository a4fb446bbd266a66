/* Writes whose signals go right behind them.
 *
 * A signal is in a packet, which is SENT. Where the packets to a peer go by the sender on which the
 * write is posted, nothing has to be waited for between the two: the sender keeps their order.
 *
 *      peer      memory   <--- WRITE ----  +
 *                packets  <--- SEND -----  + one doorbell, one completion
 *
 * So a packet that is sent when the write has been posted (it is *ahead*) must not overtake it:
 * while such writes wait at a pair, messages wait behind them (pair->ordered). What can happen:
 *
 *   The write fails, as the peer refuses it, say. Nothing that was behind it on the sender has been
 *   done. The signal is recalled: it becomes void in packets that have not come, and ends with the
 *   write's error.
 *   The sender is lost, and nobody knows what has been done. The write must not be done again
 *   behind its signal, when its memory is the peer's program's. So the peer says, with the answer
 *   to the next question, which message it has taken last (ANSWER, MOVED): if it has one that was
 *   behind the write, the write has been done; if it has not, it has no signal of this write
 *   either, and the write starts again, ahead of the messages.
 *   The write goes by another row. The signal is recalled, and follows its end.
 *
 * The signal may end before the write is known to have: its acknowledgement comes by another queue
 * pair. The caller is told when both have, by that of the two which ends last.
 *
 * Threading: the holder. */
#include "transport/verbs/private.h"

static void signal_ended(void *d, int status) {
    struct tug_operation *write = d;
    write->signal = TUG_NO_TAG;
    write->status = (int8_t)status;
}

/* One sender keeps the order, so not where a write is cut into shares; nor to this process itself,
 * whose sender is connected before it is known what has come. */
static bool may_go_ahead(struct tug_verbs_view *view, const struct tug_operation *write) {
    const struct tug_verbs *verbs = view->verbs;
    if (verbs->device_given_up || write->local == NULL || write->bytes <= TUG_OPERATION_INLINE ||
        (view->nrails > 1 && write->bytes >= TUG_OPERATION_LONG) || write->registration == NULL ||
        tug_verbs_memory_of(write->registration, verbs->rail) == NULL)
        return false;
    const struct tug_verbs_contact *contact = tug_verbs_contact_of(view, write->peer);
    return contact != NULL && contact->pair->phase == TUG_PAIR_UP &&
           contact->pair->id != verbs->id && !tug_verbs_pair_closed(contact->pair);
}

bool tug_verbs_post_signalled(void *state, struct tug_operation *write,
                              struct tug_operation *signal) {
    struct tug_verbs_view *view = state;
    if (signal->kind != TUG_OPERATION_SIGNAL || !may_go_ahead(view, write))
        return false;
    write->op = TUG_WRITE_AHEAD;
    write->when_both = signal->on_complete;
    write->signal = tug_fabric_tag(view->wire.fabric, signal);
    signal->on_complete = (struct tug_callback){signal_ended, write};
    tug_verbs_post(view, write);
    return true;
}

/* The signal, which is out, is in no packet any more that has not come to the peer. */
static struct tug_operation *recall(struct tug_verbs_view *view, struct tug_operation *write) {
    struct tug_operation *signal = &view->wire.fabric->operations[write->signal];
    tug_verbs_messages_void(view, write->signal);
    view->wire.recalls(view->wire.receiver, signal);
    signal->on_complete = (struct tug_callback){NULL, NULL};
    return signal;
}

int tug_verbs_signalled_ends(struct tug_verbs_view *view, struct tug_operation *write, int status) {
    const struct tug_callback when_both = write->when_both;
    write->op = 0;
    if (write->signal != TUG_NO_TAG && status == 0) { /* the signal's end tells of both */
        view->wire.fabric->operations[write->signal].on_complete = when_both;
        return 0;
    }
    if (write->signal != TUG_NO_TAG)
        tug_fabric_complete(view->wire.fabric, recall(view, write));
    write->on_complete = when_both;
    return status != 0 ? status : write->status;
}

void tug_verbs_signalled_passes(struct tug_verbs_view *view, struct tug_operation *write) {
    const struct tug_callback when_both = write->when_both;
    if (write->signal == TUG_NO_TAG) { /* the peer is lost */
        write->op = 0;
        write->on_complete = when_both;
        return;
    }
    struct tug_operation *signal = recall(view, write);
    signal->on_complete = when_both;
    tug_fabric_follow(view->wire.fabric, write, signal);
}

void tug_verbs_signalled_again(const struct tug_verbs *verbs, const struct tug_verbs_pair *pair,
                               struct tug_operation *write, uint32_t at) {
    write->op &= (uint8_t)~TUG_WRITE_PASSED;
    while (++at != pair->sent) {
        const uint32_t slot = pair->slots[at % TUG_VERBS_DEPTH];
        if (!(slot & TUG_SLOT_MESSAGE))
            continue;
        write->op |= TUG_WRITE_PASSED;
        write->behind = tug_verbs_slot(verbs->messages, slot & TUG_SLOT_TAG)->number;
        return;
    }
}

bool tug_verbs_signalled_came(struct tug_operation *write, uint32_t received) {
    const bool passed = write->op & TUG_WRITE_PASSED;
    write->op &= (uint8_t)~TUG_WRITE_PASSED;
    return passed && (int32_t)(received - write->behind) >= 0;
}

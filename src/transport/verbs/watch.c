/* What the process's watcher (transport/watcher.h) does for the contexts: it sleeps for completions
 * and for bad news of the device, and rings their bells.
 *
 * The engine asks for one event (arm) before it sleeps, and looks at the completion queue once more
 * after that; so an event means that something came later, and whoever sleeps is woken. While the
 * engine drives nobody asks for events and the watcher sleeps on. From the first pair on.
 * Threading: the watcher touches the channel, base.lost and the bells. */
#include <sys/epoll.h>

#include "base/log.h"
#include "transport/verbs/private.h"

static void take_completion_event(struct tug_verbs *verbs) {
    struct ibv_cq *cq;
    void *argument;
    if (tug_ibv.get_cq_event(verbs->channel, &cq, &argument) == 0)
        tug_ibv.ack_cq_events(cq, 1);
}

static void take_event(struct tug_verbs *verbs, const struct ibv_async_event *event) {
    const char *what = tug_ibv.event_type_str(event->event_type);
    switch (event->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
        tug_log(
            TUG_LOG_ERROR,
            "verbs: %s has failed, so work takes other ways, more slowly, and atomics under way "
            "fail: %s; look at the device (ibv_devinfo), or leave verbs out of "
            "TUGBOAT_TRANSPORTS",
            verbs->device.name, what);
        /* seq_cst, before the bell: pairs with the load in tug_verbs_poll */
        atomic_store(&verbs->base.lost, true);
        break;
    case IBV_EVENT_PORT_ERR:
        if (event->element.port_num != verbs->device.port)
            break;
        tug_log(TUG_VERBOSE_WARN,
                "verbs: port %u of %s is down, and work by it waits, or takes other ways, until it "
                "comes up again: look at the cable and the switch",
                verbs->device.port, verbs->device.name);
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        if (event->element.port_num != verbs->device.port)
            break;
        tug_log(TUG_VERBOSE_INFO, "verbs: port %u of %s: %s", verbs->device.port,
                verbs->device.name, what);
        /* seq_cst: pairs with the exchange before the next connection */
        atomic_store(&verbs->port_changed, true);
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (event->element.qp->qp_context != NULL) /* seq_cst: pairs with tug_verbs_drop_retired */
            atomic_store(&((struct tug_verbs_server *)event->element.qp->qp_context)->reported,
                         true);
        break;
    default: /* a server that a peer's mistake took down, for one: the peer asks again */
        tug_log(TUG_VERBOSE_DEBUG, "verbs: %s: %s", verbs->device.name, what);
    }
}

/* A queue pair stays until its events have been acknowledged. */
static void take_device_event(struct tug_verbs *verbs) {
    struct ibv_async_event event;
    if (tug_ibv.get_async_event(verbs->device.context, &event) != 0)
        return;
    take_event(verbs, &event);
    tug_ibv.ack_async_event(&event);
}

/* The device's descriptors are libibverbs', which may have been closed as ours may: then nothing
 * will come any more. */
static bool news(struct tug_watch *watch, uint32_t events) {
    struct tug_verbs_watch *its = (struct tug_verbs_watch *)watch;
    struct tug_verbs *verbs = its->verbs;
    const bool works = tug_own_holds(&its->file) && !(events & (EPOLLERR | EPOLLHUP));
    if (!works)
        atomic_store(&verbs->base.lost, true); /* as above */
    else if (events & EPOLLIN)
        its->take(verbs);
    tug_endpoint_ring(&verbs->base);
    return works;
}

static bool watch(struct tug_verbs *verbs, struct tug_verbs_watch *its, int descriptor,
                  void (*take)(struct tug_verbs *verbs)) {
    *its = (struct tug_verbs_watch){.watch = {.descriptor = descriptor, .news = news},
                                    .verbs = verbs,
                                    .file = tug_own_note(descriptor),
                                    .take = take};
    return tug_watcher_add(&its->watch) && tug_watcher_arm(&its->watch);
}

bool tug_verbs_watch(struct tug_verbs *verbs) {
    if (verbs->bad_news.watch.watched ||
        (watch(verbs, &verbs->completions, verbs->channel->fd, take_completion_event) &&
         watch(verbs, &verbs->bad_news, verbs->device.context->async_fd, take_device_event)))
        return true;
    tug_verbs_unwatch(verbs);
    return false;
}

void tug_verbs_unwatch(struct tug_verbs *verbs) {
    tug_watcher_remove(&verbs->completions.watch);
    tug_watcher_remove(&verbs->bad_news.watch);
}

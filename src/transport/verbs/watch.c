/* The watcher: sleeps in the kernel for completions and bad news, and rings the engine's bell.
 *
 * The engine asks for one event (arm) before it sleeps, and looks at the completion queue once more
 * after that; so an event means that something came later, and whoever sleeps is woken. While the
 * engine drives nobody asks for events and the watcher sleeps on. Started with the first pair.
 * Threading: one thread of its own, which touches the channel, device_lost and the bell. */
#include <errno.h>
#include <poll.h>

#include "base/log.h"
#include "transport/verbs/private.h"

static void take_completion_event(struct tug_verbs *verbs) {
    struct ibv_cq *cq;
    void *argument;
    if (tug_ibv.get_cq_event(verbs->channel, &cq, &argument) == 0)
        tug_ibv.ack_cq_events(cq, 1);
}

static void take_device_event(struct tug_verbs *verbs) {
    struct ibv_async_event event;
    if (tug_ibv.get_async_event(verbs->device.context, &event) != 0)
        return;
    const enum ibv_event_type type = event.event_type;
    tug_ibv.ack_async_event(&event);
    switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
        tug_log(TUG_LOG_ERROR, "verbs: %s has failed: %s", verbs->device.name,
                tug_ibv.event_type_str(type));
        /* seq_cst, before the bell: pairs with the load in tug_verbs_poll */
        atomic_store(&verbs->device_lost, true);
        break;
    case IBV_EVENT_PORT_ERR:
        tug_log(TUG_VERBOSE_WARN, "verbs: port %u of %s is down", verbs->device.port,
                verbs->device.name);
        break;
    default: /* a server that a peer's mistake took down, for one: the peer asks again */
        tug_log(TUG_VERBOSE_DEBUG, "verbs: %s: %s", verbs->device.name,
                tug_ibv.event_type_str(type));
    }
}

/* Takes what has come, if anything has. False: nothing will any more. The device's descriptors are
 * libibverbs', which may have been closed as ours may. */
static bool look(struct tug_verbs *verbs, const struct tug_own *channel,
                 const struct tug_own *device, int limit_ms) {
    const struct tug_own *stop = &verbs->watcher.stop;
    struct pollfd files[] = {{.fd = tug_own_holds(stop) ? stop->number : -1, .events = POLLIN},
                             {.fd = channel->number, .events = POLLIN},
                             {.fd = device->number, .events = POLLIN}};
    if (poll(files, 3, limit_ms) < 0)
        return errno == EINTR;
    if (!tug_own_holds(channel) || !tug_own_holds(device))
        return false;
    if (files[1].revents & POLLIN)
        take_completion_event(verbs);
    if (files[2].revents & POLLIN)
        take_device_event(verbs);
    return !((files[1].revents | files[2].revents) & (POLLERR | POLLHUP | POLLNVAL));
}

static void *watch(void *argument) {
    struct tug_verbs *verbs = argument;
    const struct tug_own channel = tug_own_note(verbs->channel->fd);
    const struct tug_own device = tug_own_note(verbs->device.context->async_fd);
    bool works = true;
    while (works && !atomic_load(&verbs->watcher.ending)) {
        works = look(verbs, &channel, &device, TUG_WATCHER_LOOK_MS);
        if (!works)
            atomic_store(&verbs->device_lost, true); /* as above */
        tug_bell_ring(verbs->fabric->bell, verbs->fabric->bell_shared);
    }
    return NULL;
}

bool tug_verbs_watch(struct tug_verbs *verbs) {
    if (verbs->watcher.runs)
        return true;
    if (tug_watcher_prepare(&verbs->watcher) && tug_watcher_start(&verbs->watcher, watch, verbs))
        return true;
    tug_watcher_close(&verbs->watcher);
    return false;
}

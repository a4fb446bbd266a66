/* The device, and the pairs of queues to each peer. */
#include "fixture.h"

void device_opens(void **state) {
    (void)state;
    char reason[256] = "";
    assert_false(tug_transport_verbs.missing(reason));
    const struct tug_verbs_device *device = &ORIGIN->verbs->device;
    printf("%s port %u, GID %u, MTU %u, %u bytes a message, %u reads, completion queue of %u\n",
           device->name, device->port, device->path.gid_index, device->path.mtu,
           device->most_message, device->reads, ORIGIN->verbs->cq_size);
    assert_true(device->atomics);
    if (device->link_layer == IBV_LINK_LAYER_ETHERNET) {
        assert_int_equal(device->path.gid.raw[10], 0xff); /* the GID of the IPv4 address */
        assert_int_equal(device->path.gid.raw[11], 0xff);
    }
    assert_int_equal(ORIGIN->verbs->npairs, 0);
    assert_false(ORIGIN->verbs->completions.watch.watched);
}

static void with_device(const char *name, bool there) {
    char reason[256] = "";
    setenv("TUGBOAT_VERBS_DEVICE", name, 1);
    tug_settings_reset();
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    assert_int_equal(tug_transport_verbs.missing(reason), !there);
    if (!there)
        assert_non_null(strstr(reason, "device0"));
    unsetenv("TUGBOAT_VERBS_DEVICE");
    tug_settings_reset();
}

void device_named(void **state) {
    (void)state;
    char name[128];
    with_device("nodevice0", false);
    snprintf(name, sizeof name, "%s", ORIGIN->verbs->device.name);
    with_device(name, true);
    snprintf(name, sizeof name, "%s:%u", ORIGIN->verbs->device.name, ORIGIN->verbs->device.port);
    with_device(name, true);
    char reason[256] = "";
    snprintf(name, sizeof name, "%s:200", ORIGIN->verbs->device.name);
    setenv("TUGBOAT_VERBS_DEVICE", name, 1);
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    struct tug_verbs_device device;
    assert_false(tug_verbs_device_open(&device, &ORIGIN->verbs->device.place, reason));
    assert_non_null(strstr(reason, "port"));
    unsetenv("TUGBOAT_VERBS_DEVICE");
    tug_settings_reset();
}

/* ---- pairs ---- */

void pair_first_use(void **state) {
    (void)state;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(ORIGIN->verbs->npairs, 1);
    assert_int_equal(TARGET->verbs->npairs, 1);
    assert_non_null(ORIGIN->verbs->pairs[0]->sender);
    assert_null(ORIGIN->verbs->pairs[0]->server);
    assert_null(TARGET->verbs->pairs[0]->sender);
    assert_non_null(TARGET->verbs->pairs[0]->server);
    run_one(TUG_OPERATION_READ, 0, 0, 8);
    assert_int_equal(ORIGIN->verbs->npairs, 1);
    assert_int_equal(ORIGIN->verbs->numbers, 1);
}

void pair_both_at_once(void **state) {
    (void)state;
    struct fake_end ends[2];
    fill(mine_memory, 100, 1);
    fill(theirs_memory, 100, 2);
    fake_hold = true;
    post(TUG_OPERATION_WRITE, theirs, 1000, 0, 100, &ends[0]);
    fake_post(TARGET,
              fake_operation(TARGET, 0, TUG_OPERATION_WRITE, mine, 1000, theirs, 0, 100, &ends[1]));
    fake_flush(ORIGIN);
    fake_flush(TARGET);
    assert_int_equal(fake_queued, 2);
    fake_round();
    assert_int_equal(ends[0].complete, 0);
    fake_hold = false;
    assert_true(fake_finish(60));
    assert_done(&ends[0], 0);
    assert_done(&ends[1], 0);
    assert_filled(theirs_memory + 1000, 100, 1);
    assert_filled(mine_memory + 1000, 100, 2);
}

void pair_self(void **state) {
    (void)state;
    struct fake_end end;
    fill(mine_memory, 5000, 3);
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 0, TUG_OPERATION_WRITE, mine, 10000, mine, 0, 5000, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_filled(mine_memory + 10000, 5000, 3);
    assert_int_equal(fake_queued, 0);
}

void pair_foreign_messages(void **state) {
    (void)state;
    unsigned char garbage[TUG_CONTROL_MAX];
    for (unsigned round = 0; round < 300; round++) {
        fill(garbage, sizeof garbage, round);
        tug_transport_verbs.control(ORIGIN->view, round % 3, garbage, round % sizeof garbage);
        /* an answer to no question */
        memset(garbage, 0, 48);
        memcpy(garbage, (uint16_t[]){0x5456}, 2);
        garbage[2] = 2;
        garbage[3] = (unsigned char)(round % 9);
        memcpy(garbage + 8, &TARGET->verbs->id, 8);
        if (garbage[3] != 1)
            tug_transport_verbs.control(ORIGIN->view, 1, garbage, 48);
    }
    fill(mine_memory, 64, 4);
    run_one(TUG_OPERATION_WRITE, 64, 0, 64);
    assert_filled(theirs_memory + 64, 64, 4);
}

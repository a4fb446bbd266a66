/* libfabric, found at run time: the library must run where it is not installed, and must not need
 * it. What its headers define in line goes through opened objects and needs no symbol. Loaded at
 * most once and never unloaded: providers leave threads and handlers behind.
 *
 * And which of its providers is used. libfabric lists them best first, those of networks with a
 * device of their own ahead of sockets, and those that FI_PROVIDER names alone where it is set.
 *
 * Unless the user names ofi, only cxi (Slingshot) is used, whose card executes RMA without the
 * target's processor. Left out are providers that do RMA in software (tcp, net, sockets, shm, udp,
 * rxd, and Omni-Path's psm2, psm3 and opx); efa, whose entry does not tell whether the device
 * writes by RDMA or the provider imitates it; and verbs, which the row verbs speaks itself. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/ofi/private.h"

/* The layout of what the headers declare; an older library refuses it. */
#define VERSION FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)

struct tug_ofi_library tug_ofi;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;
static char why[256];

static void load(void) {
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof why, "libfabric.so.1 cannot be loaded here");
        return;
    }
#define FIND(name)                                                                                 \
    tug_ofi.name = (__typeof__(tug_ofi.name))dlsym(library, "fi_" #name);                          \
    if (tug_ofi.name == NULL) {                                                                    \
        snprintf(why, sizeof why, "libfabric.so.1 has no fi_" #name);                              \
        return;                                                                                    \
    }
    TUG_OFI_FUNCTIONS(FIND)
#undef FIND
    found = true;
}

bool tug_ofi_load(char *reason) {
    pthread_once(&once, load);
    if (!found)
        memcpy(reason, why, sizeof why);
    return found;
}

/* ---- the provider ---- */

#define CARD_PROVIDER "cxi"
#define CARD_FOLDER "/sys/class/cxi" /* it is there if the machine has such a card */
#define MR_MODE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

/* Reliable datagrams, in order for each pair, and what else is asked for, of all providers or of
 * that of an entry. FI_MR_LOCAL is not offered: the provider itself registers local memory if it
 * has to. */
static struct fi_info *list(uint64_t caps, int mr_mode, const struct fi_info *like, char *reason) {
    struct fi_info *all = NULL, *hints = tug_ofi.dupinfo(NULL);
    if (hints == NULL) {
        snprintf(reason, 256, "no memory");
        return NULL;
    }
    hints->caps = FI_MSG | caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->size = TUG_OFI_SENDS;
    hints->tx_attr->inject_size = TUG_OFI_NOTE_BYTES;
    hints->tx_attr->op_flags = caps & FI_RMA ? FI_DELIVERY_COMPLETE : 0;
    hints->rx_attr->size = TUG_OFI_RECEIVES;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = mr_mode;
    if (like != NULL) {
        hints->fabric_attr->prov_name = strdup(like->fabric_attr->prov_name);
        hints->domain_attr->name = strdup(like->domain_attr->name);
    }
    const int error = tug_ofi.getinfo(VERSION, NULL, NULL, 0, hints, &all);
    tug_ofi.freeinfo(hints);
    if (error == 0)
        return all;
    snprintf(reason, 256, "libfabric has no provider of ordered reliable datagrams: %s",
             tug_ofi.strerror(-error));
    return NULL;
}

/* Of no use: datagrams made reliable in software, slower than the host's messages by far; sockets,
 * which tcp has replaced; and what only looks over a provider's shoulder. */
static bool is_of_use(const struct fi_info *info) {
    static const char *const none[] = {"udp", "sockets", "hook"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        if (strstr(info->fabric_attr->prov_name, none[i]) != NULL)
            return false;
    return info->ep_attr->max_msg_size >= TUG_OFI_RECEIVE_BYTES;
}

bool tug_ofi_is_by_card(const struct fi_info *info) {
    return (info->caps & FI_RMA) && strcmp(info->fabric_attr->prov_name, CARD_PROVIDER) == 0;
}

const struct fi_info *tug_ofi_pick(const struct fi_info *all, bool by_card) {
    while (all != NULL && (!is_of_use(all) || (by_card && !tug_ofi_is_by_card(all))))
        all = all->next;
    return all;
}

struct fi_info *tug_ofi_choose(bool by_card, char *reason) {
    static const uint64_t caps[] = {FI_RMA, 0};
    struct fi_info *chosen = NULL;
    if (by_card && access(CARD_FOLDER, F_OK) != 0) {
        snprintf(reason, 256,
                 "there is no Slingshot card, whose provider (" CARD_PROVIDER ") does RMA in "
                 "hardware; others are used if TUGBOAT_TRANSPORTS names ofi");
        return NULL;
    }
    for (unsigned i = 0; i < 2 && chosen == NULL && tug_ofi_load(reason); i++) {
        struct fi_info *all = list(caps[i], MR_MODE, NULL, reason);
        if (all == NULL)
            continue;
        const struct fi_info *info = tug_ofi_pick(all, by_card);
        if (info != NULL)
            chosen = tug_ofi.dupinfo(info);
        snprintf(reason, 256, "%s %s", info == NULL ? "no use is made of provider" : "provider",
                 (info != NULL ? info : all)->fabric_attr->prov_name);
        tug_ofi.freeinfo(all);
    }
    return chosen;
}

struct fi_info *tug_ofi_refine(struct fi_info *info) {
    static const uint64_t caps[] = {FI_RMA | FI_ATOMIC, FI_RMA, FI_RMA | FI_ATOMIC};
    struct fi_info *better = NULL;
    char reason[256];
    for (unsigned i = 0; i < 3 && better == NULL && (info->caps & FI_RMA); i++)
        better = list(caps[i], i < 2 ? MR_MODE & ~FI_MR_PROV_KEY : MR_MODE, info, reason);
    if (better != NULL)
        tug_ofi.freeinfo(info);
    return better != NULL ? better : info;
}

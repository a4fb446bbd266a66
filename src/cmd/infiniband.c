#include "cmd/infiniband.h"

#include <dirent.h>
#include <stdio.h>

/* The first entry of the folder; "": none. */
static void find_device(const char *folder, char name[256]) {
    DIR *devices = opendir(folder);
    name[0] = '\0';
    if (devices == NULL)
        return;
    for (struct dirent *entry; name[0] == '\0' && (entry = readdir(devices)) != NULL;)
        if (entry->d_name[0] != '.')
            snprintf(name, 256, "%s", entry->d_name);
    closedir(devices);
}

enum tug_grade tug_infiniband_judge(const struct tug_infiniband *found, char *text,
                                    size_t text_bytes) {
    char device[256];
    find_device(found->devices, device);
    const bool has_device = device[0] != '\0';
    if (!found->built) {
        snprintf(text, text_bytes,
                 "%s used: this library is built without InfiniBand; install libibverbs-dev "
                 "(rdma-core-devel) and build it again",
                 has_device ? "the machine's card is not" : "no card is");
        return has_device ? BAD : NOTE;
    }
    if (found->missing != NULL && !has_device) {
        snprintf(text, text_bytes, "none (%s): the host MPI is the network", found->missing);
        return GOOD;
    }
    if (!found->allowed) {
        snprintf(text, text_bytes, "%s is not used: TUGBOAT_TRANSPORTS does not name verbs",
                 device);
        return NOTE;
    }
    if (found->missing == NULL) {
        snprintf(text, text_bytes, "LLCL uses the device");
        return GOOD;
    }
    snprintf(text, text_bytes,
             "%s is not used: %s; install ibverbs-providers (rdma-core), and look with ibv_devinfo "
             "whether this user may open the device and a port is active",
             device, found->missing);
    return BAD;
}

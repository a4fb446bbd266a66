#include "host/identity.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/object.h"

#define VERSION_BYTES 8192 /* the most that any MPI writes; each knows a length of its own */

/* What those of our interface call themselves, and an object that all of them have. */
#ifdef OPEN_MPI
static const char *const products[] = {"Open MPI v4.1.", "Open MPI v5.0."};
#define MARK "ompi_mpi_comm_world"
#else
static const char *const products[] = {"MPICH", "MVAPICH", "Intel(R) MPI", "ParaStation MPI"};
#define MARK "MPI_UNWEIGHTED"
#endif

/* The first line of the version, up to a comma, with single blanks. */
static void shorten(const char *version, char *name, size_t bytes) {
    size_t used = 0;
    for (const char *at = version; *at != '\0' && !strchr(",\n", *at) && used + 1 < bytes; at++)
        if (!isspace((unsigned char)*at) || (used > 0 && name[used - 1] != ' '))
            name[used++] = isspace((unsigned char)*at) ? ' ' : *at;
    name[used] = '\0';
}

static void ask_version(void *library, char version[VERSION_BYTES]) {
    int (*ask)(char *, int *), length = 0;
    *(void **)&ask = dlsym(library, "PMPI_Get_library_version");
    version[0] = '\0';
    if (ask == NULL || ask(version, &length) != MPI_SUCCESS)
        strcpy(version, "an MPI that does not say its name");
    version[VERSION_BYTES - 1] = '\0';
}

/* The name of the file that MPI_Init comes from, as programs refer to it. */
static const char *file_of(void *library) {
    struct link_map *map = NULL;
    struct tug_object object = {0};
    Dl_info info;
    void *inside = dlsym(library, "PMPI_Init");
    if (inside == NULL || dladdr1(inside, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return "";
    if (tug_object_read(map->l_addr, map->l_ld, &object) && object.soname != NULL)
        return object.soname;
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

void tug_identify(void *library, struct tug_identity *identity) {
    char version[VERSION_BYTES], name[100];
    ask_version(library, version);
    const char *file = file_of(library);
    bool known = false;
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        known |= strstr(version, products[i]) != NULL;
    identity->ours = known && dlsym(library, MARK) != NULL && strncmp(file, "libmpi_abi", 10) != 0;
    shorten(version, name, sizeof(name));
    snprintf(identity->name, sizeof(identity->name), "%s (%.50s)", name, file);
}

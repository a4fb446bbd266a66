/*
 * `tugboat info`: what this installation is and what it would do with the present environment.
 *
 * Initialises no MPI: the host library is opened, asked for its version and left alone.
 */
#include "cmd/cmd.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/settings.h"
#include "tugboat/tugboat.h"

static void print_build(void) {
    char library[PATH_MAX];
    printf("tugboat %s\n", tug_version());
    printf("  compiler      %s\n", TUG_BUILD_COMPILER);
    printf("  flags         %s\n", TUG_BUILD_FLAGS);
    printf("  build type    %s%s%s\n", TUG_BUILD_TYPE,
           TUG_BUILD_SANITIZE[0] != '\0' ? ", sanitizers " : "", TUG_BUILD_SANITIZE);
    printf("  MPI headers   MPICH %s (MPI %d.%d)\n", MPICH_VERSION, MPI_VERSION, MPI_SUBVERSION);
    printf("  library       %s\n",
           tug_library_find(library, sizeof library) == 0 ? library : "not found");
}

/* Returns the host's MPI library opened, or NULL. */
static void *print_host(void) {
    static const char *const names[] = {"libmpich.so.12", "libmpi.so.12"};
    printf("host MPI\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *host = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (host == NULL)
            continue;
        int (*get_version)(char *, int *);
        *(void **)&get_version = dlsym(host, "PMPI_Get_library_version");
        if (get_version == NULL) {
            dlclose(host);
            continue;
        }
        char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
        int length = 0;
        get_version(text, &length);
        text[strcspn(text, "\n")] = '\0';
        for (char *tab = text; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' ';
        printf("  %s %s\n", names[i], text);
        return host;
    }
    printf("  none found: install MPICH (Debian: mpich), or set LD_LIBRARY_PATH to it\n");
    return NULL;
}

static void print_transports(void *host) {
    printf("transports\n");
    printf("  native        %s\n", host != NULL && dlsym(host, "PMPI_Rput") != NULL
                                       ? "one-sided calls of the host MPI, issued by the engine"
                                       : "not available: no host MPI with MPI-3 RMA");
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) == 0)
        printf("  shm           shared memory of this node, /dev/shm with %llu MiB free\n",
               (unsigned long long)shm.f_bavail * shm.f_frsize >> 20);
    else
        printf("  shm           not available: no /dev/shm\n");
}

static void print_unknown(const char *name, void *arg) {
    (void)arg;
    printf("  %-18s is not a setting and has no effect\n", name);
}

int tug_cmd_info(int argc, char **argv) {
    if (argc > 0) {
        fprintf(stderr, "tugboat: info takes no argument '%s'\n", argv[0]);
        return TUG_EXIT_USAGE;
    }
    print_build();
    print_transports(print_host());
    printf("settings\n");
    char error[512];
    const int status = tug_settings_load(error, sizeof error);
    tug_settings_print(stdout);
    tug_settings_unknown(print_unknown, NULL);
    fflush(stdout);
    if (status != 0) {
        fprintf(stderr, "tugboat: %s\n", error);
        return 1;
    }
    return 0;
}

/*
 * `tugboat info`: what this installation is and what it would do with the present environment.
 *
 * Initialises no MPI: the host library is opened, asked for its version and left alone.
 */
#include "cmd/cmd.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/digest.h"
#include "base/settings.h"
#include "host/host.h"
#include "host/identity.h"
#include "llcl/llcl.h"
#include "model/tuning.h"
#include "node/lent.h"
#include "node/inbox.h"
#include "node/segment.h"
#include "transport/packets/packets.h"
#include "transport/transport.h"
#include "tugboat/model.h"
#include "tugboat/tugboat.h"

/* The version of mpi.h, and a call by which a host that is new enough is known. */
#ifdef OPEN_MPI
#define TEXT_OF(number) #number
#define VERSION_OF(major, minor, release) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(release)
#define HEADER_VERSION VERSION_OF(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION)
#define NEWEST_CALLS                                                                               \
    { "PMPI_Bcast_init", "PMPIX_Bcast_init" } /* 5.0 and 4.1 */
#else
#define HEADER_VERSION MPICH_VERSION
#define NEWEST_CALLS                                                                               \
    { "PMPI_Rget_c" }
#endif

#define REASON_BYTES 256

static void *host_mpi; /* the host's MPI library, opened, or NULL */

/* The libraries that are here, and which of them a command gets whose MPI is not known. */
static void print_libraries(void) {
    char library[PATH_MAX];
    printf("  library       %s\n",
           tug_library_find_for(TUG_MPI_UNKNOWN, library, sizeof library) == 0 ? library
                                                                               : "not found");
    for (enum tug_mpi mpi = TUG_MPI_MPICH; mpi <= TUG_MPI_OPENMPI; mpi++)
        printf("  for %-10s%s\n", tug_mpi_titles[mpi],
               tug_library_find_for(mpi, library, sizeof library) == 0 ? library : "not here");
    const enum tug_mpi mpi = tug_mpi_of_launcher("mpiexec");
    printf("  mpiexec       %s\n", mpi == TUG_MPI_UNKNOWN
                                       ? "is not found here, or of an unknown MPI"
                                       : tug_mpi_titles[mpi]);
    printf(
        "  tugboat run takes the library for the MPI that the program is linked with; if there is "
        "none,\n  for that of the launcher; else libtugboat.so\n");
}

static void print_build(void) {
    printf("tugboat %s\n", tug_version());
    printf("  compiler      %s\n", TUG_BUILD_COMPILER);
    printf("  flags         %s\n", TUG_BUILD_FLAGS);
    printf("  build type    %s%s%s\n", TUG_BUILD_TYPE,
           TUG_BUILD_SANITIZE[0] != '\0' ? ", sanitizers " : "", TUG_BUILD_SANITIZE);
    printf("  MPI headers   %s %s (MPI %d.%d)\n", TUG_HOST_BUILT_FOR, HEADER_VERSION, MPI_VERSION,
           MPI_SUBVERSION);
    print_libraries();
}

static bool host_lacks_calls(void) {
    static const char *const newest[] = NEWEST_CALLS;
    for (size_t i = 0; i < sizeof newest / sizeof newest[0] && host_mpi != NULL; i++)
        if (dlsym(host_mpi, newest[i]) != NULL)
            return false;
    return true;
}

enum tug_host_kind tug_host_describe(char *text, size_t text_bytes) {
    host_mpi = tug_host_open(RTLD_LOCAL);
    if (host_mpi == NULL)
        return TUG_HOST_NONE;
    struct tug_identity identity;
    tug_identify(host_mpi, &identity);
    snprintf(text, text_bytes, "%s", identity.name);
    if (!identity.ours)
        return TUG_HOST_OTHER;
    return host_lacks_calls() ? TUG_HOST_OLD : TUG_HOST_GOOD;
}

static void print_host(void) {
    char text[512];
    printf("host MPI\n");
    if (tug_host_describe(text, sizeof text) == TUG_HOST_NONE)
        printf("  none found: install %s, or set LD_LIBRARY_PATH to it\n", TUG_HOST_BUILT_FOR);
    else
        printf("  %s\n", text);
}

/* ---- the ways ---- */

static bool host_missing(char *reason) {
    snprintf(reason, REASON_BYTES, "no host MPI of MPI 4 is found");
    return host_lacks_calls();
}

static bool is_missing(const struct tug_transport *row, char *reason) {
    reason[0] = '\0';
    return row->missing != NULL ? row->missing(reason) : host_missing(reason);
}

/* The available ones in one line, then a line for each of the others, with the reason. */
static void print_transports(void) {
    char reasons[TUG_TRANSPORT_COUNT][REASON_BYTES];
    bool missing[TUG_TRANSPORT_COUNT];
    printf("transports (tugboat info -d says more)\n ");
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        missing[i] = is_missing(tug_transports[i], reasons[i]);
        if (!missing[i])
            printf(" %s", tug_transports[i]->name);
    }
    printf("\n");
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++)
        if (missing[i])
            printf("  %-13s not available: %s\n", tug_transports[i]->name, reasons[i]);
}

static void print_digests(void) {
    const char *source = tug_digest_source();
    printf("digests (by which two processes over tcp prove that they are of the job)\n  %s\n",
           source != NULL ? source : "none: there is no libcrypto.so.3, and the kernel makes none");
}

static void print_shared_memory(void) {
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) == 0)
        printf(": /dev/shm has %llu MiB free",
               (unsigned long long)shm.f_bavail * shm.f_frsize >> 20);
}

static void print_ways(void) {
    char reason[REASON_BYTES];
    printf("ways of LLCL to another process, best first\n");
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++) {
        const struct tug_transport *row = tug_transports[i];
        const bool allowed = (tug_settings.transports & 1u << i) != 0;
        printf("\n%s\n  %s\n  ", row->name, row->help);
        if (is_missing(row, reason)) {
            printf("not available: %s", reason);
        } else {
            printf("available%s%s%s", reason[0] != '\0' ? ": " : "", reason,
                   allowed ? "" : ", not allowed by TUGBOAT_TRANSPORTS");
            if (row->missing == tug_shm_missing)
                print_shared_memory();
        }
        printf("\n");
    }
    printf("\nTUGBOAT_TRANSPORTS allows");
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++)
        if (tug_settings.transports & 1u << i)
            printf(" %s", tug_transports[i]->name);
    printf(" (%s)\n", tug_settings.transports_named ? "environment" : "default");
    print_digests();
}

static void print_unknown(const char *name, void *arg) {
    (void)arg;
    printf("  %-18s is not a setting and has no effect\n", name);
}

static void print_unknown_comment(const char *name, void *arg) {
    (void)arg;
    printf("# %s is not a setting and has no effect\n", name);
}

static int info_transports(void) {
    host_mpi = tug_host_open(RTLD_LOCAL);
    const int status = tug_cmd_load_settings();
    if (status == 0)
        print_ways();
    return status;
}

/* The configuration as a shell reads it, and where each value came from. */
static int info_configuration(void) {
    struct tug_setting_row row;
    const int status = tug_cmd_load_settings();
    printf("# Tugboat %s: settings in effect\n", tug_version());
    for (size_t i = 0; tug_settings_row(i, &row); i++)
        printf("%s=%-*s # %s; %s\n", row.name, (int)(40 - strlen(row.name)), row.value,
               row.from_environment ? "environment" : "default", row.range);
    tug_settings_unknown(print_unknown_comment, NULL);
    return status;
}

/* From how many bytes on another way is taken. Fixed: measured once, for all machines. */
static void print_thresholds(void) {
    printf("# Tugboat %s: where the way changes, in bytes\n", tug_version());
    printf("cma.from          %8u # inside a node: by cross-memory attach, many together too\n",
           (unsigned)TUG_CMA_LEAST);
    printf("long.from         %8u # between nodes, by sockets: behind a packet instead of in it\n",
           TUG_LONG_LEAST);
    printf("mpi.long.from     %8u # between nodes, by the host's messages: the same\n",
           TUG_MPI_LONG_LEAST);
    printf("shm.long.from     %8u # inside a node, by packets: behind a packet instead of in it\n",
           TUG_SHM_LONG_LEAST);
    printf("inbox.packet      %8u # a packet through shared memory holds\n",
           (unsigned)TUG_INBOX_PACKET_BYTES);
    printf("lent.from         %8zu # MPI_Alloc_mem: memory that broadcasts copy out of directly\n",
           TUG_LENT_LEAST);
}

/* What the model of broadcasts knows of this machine, as TUGBOAT_TUNING and tugboat model read it.
 */
static int info_tuning(void) {
    struct tug_model_parameters parameters;
    char why[512];
    if (tug_cmd_load_settings() != 0)
        return 1;
    print_thresholds();
    if (tug_settings.tuning == NULL) {
        printf("\n# TUGBOAT_TUNING=none: nothing is measured yet. Jobs measure for some "
               "milliseconds when they need it,\n# tugboat calibrate does once and for all. Until "
               "then a guess:\n");
        (void)tug_model_named("default", &parameters);
    } else if (tug_model_read(tug_settings.tuning, &parameters, why, sizeof why) != 0) {
        tug_cmd_say("%s", why);
        return 1;
    } else {
        printf("\n# measured: TUGBOAT_TUNING=%s\n", tug_settings.tuning);
    }
    tug_model_print(stdout, &parameters);
    return 0;
}

static int info_all(void) {
    print_build();
    print_host();
    (void)tug_settings_load(NULL, 0);
    print_transports();
    print_digests();
    printf("settings\n");
    tug_settings_print(stdout);
    tug_settings_unknown(print_unknown, NULL);
    return tug_cmd_load_settings();
}

int tug_cmd_info(int argc, char **argv) {
    if (argc == 0)
        return info_all();
    const char *option = argv[0];
    if (argc == 1 && strcmp(option, "-d") == 0)
        return info_transports();
    if (argc == 1 && strcmp(option, "-c") == 0)
        return info_configuration();
    if (argc == 1 && strcmp(option, "-t") == 0)
        return info_tuning();
    if (strcmp(option, "--memory") == 0 && argc <= 2)
        return tug_cmd_memory(argc == 2 ? argv[1] : NULL);
    return tug_cmd_no_argument("info", argv[argc - 1]);
}

/*
 * The settings: one table row per TUGBOAT_* variable, read once, the only reader of the
 * environment.
 *
 * Invariants: `tug_settings` holds the defaults until tug_settings_load has run, and never changes
 * after its first return; a variable that is empty counts as not set; a row whose value is refused
 * keeps its default, and all other rows are still read (so `enabled` can be trusted after an
 * error). Threading: load may be called by any thread, any number of times: the first call reads,
 * all others wait for it and return what it returned. The fields are then read without
 * synchronisation. To add a setting: a field here, a row in settings.c.
 */
#ifndef TUG_BASE_SETTINGS_H
#define TUG_BASE_SETTINGS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tug_progress {
    TUG_PROGRESS_AUTO,   /* the caller when there is little to do, the offload thread otherwise */
    TUG_PROGRESS_THREAD, /* always the offload thread */
    TUG_PROGRESS_CALLER, /* never a thread of our own */
};

enum tug_affinity {
    TUG_AFFINITY_AUTO, /* the engine decides from the mask of the process */
    TUG_AFFINITY_NONE, /* the offload thread inherits the mask and nothing is set */
    TUG_AFFINITY_LIST, /* affinity_cpus */
};

enum tug_wait {
    TUG_WAIT_AUTO,   /* politely where the ranks have no core each */
    TUG_WAIT_POLITE, /* the host's blocking calls wait outside of the host */
    TUG_WAIT_NATIVE, /* blocking calls by the host alone, unless the engine's peers want service */
};

enum tug_proof {
    TUG_PROOF_AUTO,     /* none is needed by connections that stay on the host */
    TUG_PROOF_REQUIRED, /* no connections of our own where they are not */
    TUG_PROOF_OFF,      /* who knows the ids is believed */
};

enum tug_rma_lanes {
    TUG_RMA_AUTO,   /* the best lane that all ranks of a window can take */
    TUG_RMA_PACKET, /* in packets, even where memory could be mapped */
    TUG_RMA_NATIVE, /* the host's window, through the engine */
    TUG_RMA_OFF,    /* windows are the host's alone */
};

/* Ways from process to process: bits of tug_settings.transports. */
enum tug_way {
    TUG_WAY_SELF = 1,   /* memory of one's own, directly */
    TUG_WAY_MAPPED = 2, /* mapped memory of the node, directly */
    TUG_WAY_CMA = 4,    /* large blocks inside the node by cross-memory attach, directly */
    TUG_WAY_SHM = 8,    /* packets through shared memory */
    TUG_WAY_VERBS = 16, /* InfiniBand, RoCE */
    TUG_WAY_OFI = 32,   /* libfabric */
    TUG_WAY_TCP = 64,   /* packets through sockets of our own */
    TUG_WAY_MPI = 128,  /* packets by messages of the host MPI */
};

enum tug_collectives_choice {
    TUG_COLLECTIVES_OFF,
    TUG_COLLECTIVES_AUTO, /* where MPI runs at MPI_THREAD_MULTIPLE anyway */
    TUG_COLLECTIVES_ON,   /* MPI is started at that for them, and few calls are enough */
};

enum tug_pipelines_choice { /* above auto: enum tug_algorithm + 1 (schedule/trees.h) */
                            TUG_PIPELINES_AUTO,
                            TUG_PIPELINES_CHAIN,
                            TUG_PIPELINES_BINOMIAL,
                            TUG_PIPELINES_TRINARY,
};

#define TUG_TORUS_AXES 6

enum tug_phases_choice { /* above auto: enum tug_phases + 1 (schedule/bcast.h) */
                         TUG_PHASES_AUTO,
                         TUG_PHASES_RELAY,
                         TUG_PHASES_TWO,
                         TUG_PHASES_ONE_ENGINE,
};

enum tug_verbose {
    TUG_VERBOSE_QUIET, /* errors only */
    TUG_VERBOSE_WARN,
    TUG_VERBOSE_INFO,
    TUG_VERBOSE_DEBUG,
};

#define TUG_VERBS_NAME_MAX 63

/* The fields of TUGBOAT_VERBS_PORT. */
enum tug_port_field {
    TUG_PORT_GID, /* index in the port's table of GIDs */
    TUG_PORT_PKEY,
    TUG_PORT_SL,
    TUG_PORT_TC,
    TUG_PORT_PATH, /* path bits of the LID */
    TUG_PORT_MTU,  /* bytes */
    TUG_PORT_RELAXED,
    TUG_PORT_FIELDS
};

struct tug_settings {
    bool enabled;                    /* TUGBOAT */
    unsigned threads;                /* TUGBOAT_THREADS: 1, multiple */
    enum tug_progress progress;      /* TUGBOAT_PROGRESS */
    enum tug_affinity affinity_mode; /* TUGBOAT_AFFINITY */
    const char *affinity;            /* the text of TUGBOAT_AFFINITY, "auto" by default */
    cpu_set_t affinity_cpus;         /* the cores, if affinity_mode is TUG_AFFINITY_LIST */
    uint64_t spin_us;                /* TUGBOAT_SPIN_US */
    enum tug_wait wait;              /* TUGBOAT_WAIT */
    uint64_t ring_size;              /* TUGBOAT_RING_SIZE, a power of two, in commands */
    enum tug_rma_lanes rma;          /* TUGBOAT_RMA */
    bool array_moves;
    bool partitioned;           /* TUGBOAT_PARTITIONED */
    unsigned transports;        /* TUGBOAT_TRANSPORTS: enum tug_way bits */
    bool transports_named;      /* the user has set TUGBOAT_TRANSPORTS */
    bool ofi_rma;               /* TUGBOAT_OFI_RMA */
    enum tug_proof proof;       /* TUGBOAT_PROOF */
    uint64_t peer_timeout_s;    /* TUGBOAT_PEER_TIMEOUT */
    uint64_t operations;        /* TUGBOAT_OPERATIONS, a power of two */
    bool aggregate;             /* TUGBOAT_AGGREGATE */
    uint64_t acp_starter_bytes; /* TUGBOAT_ACP_STARTER */
    uint64_t acp_keys;          /* TUGBOAT_ACP_KEYS */
    const char *stats;          /* TUGBOAT_STATS: NULL off, "1" print, else a .json file name */
    const char *trace;          /* TUGBOAT_TRACE: a .json file name, or NULL */
    enum tug_verbose verbose;   /* TUGBOAT_VERBOSE */
    uint64_t segment_bytes;     /* TUGBOAT_SEGMENT, 0 = chosen by the model */
    enum tug_collectives_choice collectives; /* TUGBOAT_COLLECTIVES */
    enum tug_pipelines_choice pipelines;     /* TUGBOAT_PIPELINES */
    enum tug_phases_choice phases;           /* TUGBOAT_PHASES */
    uint32_t torus[TUG_TORUS_AXES];          /* TUGBOAT_TORUS: nodes along each axis, 1 behind
                                                the last; 0: none */
    char net_devices[256];                   /* UCX_NET_DEVICES, if it is as short as that and
                                                lists what UCX may use: "" otherwise */
    const char *tuning;                      /* TUGBOAT_TUNING: a file, or NULL */
    const char *verbs_device;                /* TUGBOAT_VERBS_DEVICE: "auto", or names with
                                                commas between, each with ":port" or not */
    int verbs_port[TUG_PORT_FIELDS];         /* TUGBOAT_VERBS_PORT; -1: as the port has it */
    uint64_t verbs_pairs;                    /* TUGBOAT_VERBS_PAIRS */
    uint64_t verbs_rails;                    /* TUGBOAT_VERBS_RAILS */
    uint64_t verbs_timeout_ms;               /* TUGBOAT_VERBS_TIMEOUT */
};

extern struct tug_settings tug_settings;

/* Reads the environment into tug_settings. Returns 0, or TUG_ERR_SETTING with a sentence in `error`
 * (always terminated, may be NULL when error_bytes is 0) that names the variable, its value and
 * what is allowed. */
int tug_settings_load(char *error, size_t error_bytes);

/* Forgets what was loaded and returns to the defaults. Tests only: no other thread may be near. */
void tug_settings_reset(void);

/* The table with values and sources, for people. Loads first if nobody has. */
void tug_settings_print(FILE *out);

/* One row with its value in effect; the strings live as long as the process. Loads first if nobody
 * has. False: there is no row of that number. */
struct tug_setting_row {
    const char *name, *help, *range, *value;
    bool from_environment; /* else it is the default */
};
bool tug_settings_row(size_t number, struct tug_setting_row *row);

/* Calls report(name, arg) for every TUGBOAT_* variable of the environment that is no setting.
 * Returns how many there were; report may be NULL. */
int tug_settings_unknown(void (*report)(const char *name, void *arg), void *arg);

/* Is this the process that its launcher calls rank 0? True where no launcher tells. For what is
 * said once a job before MPI runs. */
bool tug_settings_first_of_job(void);

/* This process's rank among those of the job on its node, as its launcher tells it; otherwise that
 * one. */
uint32_t tug_settings_node_rank(uint32_t otherwise);

#endif

/*
 * The table of settings, the parsers its rows name, and the two ways to print it.
 *
 * A parser sets its field only on success and keeps no pointer into the environment: the program
 * may change its environment at any time after the load. See settings.h for the threading rule.
 */
#include "base/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tugboat/tugboat.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

extern char **environ;

struct tug_settings tug_settings;

/* Number rows: smallest, largest; `unit_suffix` allows K and M; `power_of_two` as it says. */
struct number_rule {
    uint64_t least, most;
    bool unit_suffix, power_of_two, zero_too;
};

struct setting {
    const char *name;
    const char *initial;
    const char *range; /* parse_choice: its words, with ", " between, in the order of the enum */
    const char *help;
    bool (*parse)(const struct setting *setting, const char *text);
    void *field;
    struct number_rule number;
};

/* In the order of enum tug_way. */
#define WAYS "self, mapped, cma, shm, verbs, ofi, tcp, mpi"
#define TRANSPORTS_INITIAL "self,mapped,cma,shm,verbs,ofi,tcp,mpi"

/* ---- parsers ---- */

/* Which of the words "a, b, c" the text is; -1: none. */
static int number_of(const char *words, const char *text, size_t length) {
    for (int i = 0;; i++) {
        const size_t span = strcspn(words, ",");
        if (span == length && strncmp(words, text, span) == 0)
            return i;
        if (words[span] == '\0')
            return -1;
        words += span + 2;
    }
}

static bool parse_switch(const struct setting *setting, const char *text) {
    bool *field = setting->field;
    if (strcmp(text, "on") == 0 || strcmp(text, "1") == 0)
        *field = true;
    else if (strcmp(text, "off") == 0 || strcmp(text, "0") == 0)
        *field = false;
    else
        return false;
    return true;
}

static bool parse_choice(const struct setting *setting, const char *text) {
    const int choice = number_of(setting->range, text, strlen(text));
    if (choice >= 0)
        *(unsigned *)setting->field = (unsigned)choice;
    return choice >= 0;
}

static bool parse_number(const struct setting *setting, const char *text) {
    const struct number_rule *rule = &setting->number;
    /* strtoull takes blanks and signs; a setting does not. */
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (rule->unit_suffix && (*end == 'K' || *end == 'k' || *end == 'M' || *end == 'm')) {
        const unsigned shift = (*end == 'K' || *end == 'k') ? 10 : 20;
        if (value > UINT64_MAX >> shift)
            return false;
        value <<= shift;
        end++;
    }
    if (*end != '\0')
        return false;
    if (!(rule->zero_too && value == 0)) {
        if (value < rule->least || value > rule->most)
            return false;
        if (rule->power_of_two && (value & (value - 1)) != 0)
            return false;
    }
    *(uint64_t *)setting->field = value;
    return true;
}

/* One "A" or "A-B" at *text; moves *text behind it. */
static bool parse_cpu_range(const char **text, cpu_set_t *cpus) {
    unsigned long bound[2];
    const char *at = *text;
    for (int i = 0; i < 2; i++) {
        if (!isdigit((unsigned char)*at))
            return false;
        char *end;
        errno = 0;
        bound[i] = strtoul(at, &end, 10);
        if (errno != 0 || bound[i] >= CPU_SETSIZE)
            return false;
        at = end;
        if (i == 0 && *at != '-') {
            bound[1] = bound[0];
            break;
        }
        at += i == 0;
    }
    if (bound[0] > bound[1])
        return false;
    for (unsigned long cpu = bound[0]; cpu <= bound[1]; cpu++)
        CPU_SET(cpu, cpus);
    *text = at;
    return true;
}

static bool parse_affinity(const struct setting *setting, const char *text) {
    (void)setting;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (strcmp(text, "auto") == 0) {
        tug_settings.affinity_mode = TUG_AFFINITY_AUTO;
    } else if (strcmp(text, "none") == 0) {
        tug_settings.affinity_mode = TUG_AFFINITY_NONE;
    } else {
        const char *at = text;
        for (;;) {
            if (!parse_cpu_range(&at, &cpus))
                return false;
            if (*at == '\0')
                break;
            if (*at++ != ',')
                return false;
        }
        tug_settings.affinity_mode = TUG_AFFINITY_LIST;
    }
    tug_settings.affinity_cpus = cpus;
    tug_settings.affinity = text;
    return true;
}

static bool is_json_name(const char *file) {
    const size_t length = strlen(file);
    return length > 5 && strcmp(file + length - 5, ".json") == 0;
}

static bool parse_trace(const struct setting *setting, const char *text) {
    (void)setting;
    const bool none = strcmp(text, "none") == 0;
    if (!none && !is_json_name(text))
        return false;
    tug_settings.trace = none ? NULL : text;
    return true;
}

static bool parse_stats(const struct setting *setting, const char *text) {
    (void)setting;
    const bool has_file = is_json_name(text);
    if (!has_file && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return false;
    tug_settings.stats = has_file ? text : strcmp(text, "0") == 0 ? NULL : "1";
    return true;
}

static bool parse_transports(const struct setting *setting, const char *text) {
    unsigned allowed = 0;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        const int way = number_of(WAYS, at, length);
        if (way < 0)
            return false;
        allowed |= 1u << way;
        at += length;
        if (*at == '\0')
            break;
    }
    *(unsigned *)setting->field = allowed;
    tug_settings.transports_named = text != setting->initial;
    return true;
}

/* NAME or NAME:PORT; where it ends, or NULL. */
static const char *device_end(const char *text) {
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) ||
           (text[length] != '\0' && strchr("_-.", text[length]) != NULL))
        length++;
    if (length == 0 || length > TUG_VERBS_NAME_MAX)
        return NULL;
    if (text[length] != ':')
        return text + length;
    char *end;
    if (!isdigit((unsigned char)text[length + 1]))
        return NULL;
    const unsigned long port = strtoul(text + length + 1, &end, 10);
    return port >= 1 && port <= 255 ? end : NULL;
}

static bool parse_device(const struct setting *setting, const char *text) {
    const char *at = device_end(text);
    while (at != NULL && *at == ',')
        at = device_end(at + 1);
    if (at == NULL || *at != '\0')
        return false;
    *(const char **)setting->field = text;
    return true;
}

/* NAME=NUMBER at *text; moves *text behind it. */
static bool parse_port_field(const char **text, int values[]) {
    static const struct {
        const char *name;
        unsigned long least, most;
    } fields[TUG_PORT_FIELDS] = {
        [TUG_PORT_GID] = {"gid=", 0, 255},       [TUG_PORT_PKEY] = {"pkey=", 1, 0xffff},
        [TUG_PORT_SL] = {"sl=", 0, 15},          [TUG_PORT_TC] = {"tc=", 0, 255},
        [TUG_PORT_PATH] = {"path=", 0, 127},     [TUG_PORT_MTU] = {"mtu=", 256, 4096},
        [TUG_PORT_RELAXED] = {"relaxed=", 0, 1},
    };
    unsigned field = 0;
    while (field < TUG_PORT_FIELDS &&
           strncmp(*text, fields[field].name, strlen(fields[field].name)) != 0)
        field++;
    if (field == TUG_PORT_FIELDS)
        return false;
    const char *number = *text + strlen(fields[field].name);
    char *end;
    const unsigned long value = strtoul(number, &end, 0);
    if (!isdigit((unsigned char)*number) || value < fields[field].least ||
        value > fields[field].most || (field == TUG_PORT_MTU && (value & (value - 1)) != 0))
        return false;
    values[field] = (int)value;
    *text = end;
    return true;
}

static bool parse_port(const struct setting *setting, const char *text) {
    int values[TUG_PORT_FIELDS];
    memset(values, -1, sizeof values);
    bool more = strcmp(text, "auto") != 0;
    while (more) {
        if (!parse_port_field(&text, values))
            return false;
        more = *text++ == ',';
        if (!more && text[-1] != '\0')
            return false;
    }
    memcpy(setting->field, values, sizeof values);
    return true;
}

/* The file is opened later: only then is it known whether it can be read. */
static bool parse_tuning(const struct setting *setting, const char *text) {
    (void)setting;
    tug_settings.tuning = strcmp(text, "none") == 0 ? NULL : text;
    return true;
}

/* AxBxC..., each 1 to 1048576. */
static bool parse_torus(const struct setting *setting, const char *text) {
    uint32_t sides[TUG_TORUS_AXES] = {0};
    const bool none = strcmp(text, "none") == 0;
    for (int i = 0; i < TUG_TORUS_AXES && !none; i++) {
        sides[i] = 1;
        if (*text == '\0' && i >= 2)
            continue;
        char *end;
        if (!isdigit((unsigned char)*text))
            return false;
        unsigned long side = strtoul(text, &end, 10);
        bool more = *end == 'x' && end[1] != '\0' && i < TUG_TORUS_AXES - 1;
        if (side < 1 || side > 1048576 || (*end != '\0' && !more))
            return false;
        sides[i] = (uint32_t)side;
        text = more ? end + 1 : end;
    }
    memcpy(setting->field, sides, sizeof sides);
    return true;
}

/* ---- the table ---- */

#define SETTING(variable, parser, member, value, allowed, text, ...)                               \
    {                                                                                              \
        .name = variable, .parse = parse_##parser, .field = &tug_settings.member,                  \
        .initial = value, .range = allowed, .help = text, .number = {                              \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const struct setting settings[] = {
    SETTING("TUGBOAT", switch, enabled, "on", "on, off",
            "off: every call goes to the host MPI, as without the library"),
    SETTING("TUGBOAT_PROGRESS", choice, progress, "auto", "auto, thread, caller",
            "which thread drives the engine. auto: the calling thread at low load, the offload "
            "thread otherwise. thread: always the offload thread. caller: calling threads only"),
    SETTING("TUGBOAT_THREADS", choice, threads, "auto", "auto, multiple",
            "the host MPI's thread level. auto: the level that the program asks for, if no object "
            "that is loaded when MPI starts needs the engine (windows, persistent collectives, "
            "partitioned requests, LLCL, ACP), and MPI_THREAD_MULTIPLE otherwise. multiple: always "
            "MPI_THREAD_MULTIPLE"),
    SETTING("TUGBOAT_AFFINITY", affinity, affinity, "auto", "auto, none, or CPUs such as 0,2-3",
            "the CPUs on which the offload thread may run. none: those of the thread that starts "
            "it, and a waiting thread does not leave a core on which another rank waits"),
    SETTING("TUGBOAT_SPIN_US", number, spin_us, "5", "0 to 10000",
            "microseconds that a waiting thread spins before it yields its core and then sleeps",
            .least = 0, .most = 10000),
    SETTING("TUGBOAT_WAIT", choice, wait, "auto", "auto, polite, native",
            "how the host's blocking calls wait. polite: they give the core away. native: they "
            "wait as the host does (not with TUGBOAT_PROGRESS=caller). auto: polite if the ranks "
            "outnumber the cores they may use, or with TUGBOAT_PROGRESS=caller; native otherwise"),
    SETTING("TUGBOAT_RING_SIZE", number, ring_size, "1024", "a power of two, 16 to 1048576",
            "number of commands that can wait for the engine", .least = 16, .most = 1048576,
            .power_of_two = true),
    SETTING("TUGBOAT_RMA", choice, rma, "auto", "auto, packet, native, off",
            "how windows are served. auto: by direct access if all their ranks have mapped the "
            "memory, in packets otherwise. packet: always in packets. native: by the host MPI's "
            "window through the engine. off: Tugboat leaves windows alone"),
    SETTING("TUGBOAT_ARRAY_MOVES", switch, array_moves, "off", "on, off",
            "on: pages of global arrays move to the processes on other nodes that use them, when "
            "accesses have cost as much as the move. A choice of the program's comes first"),
    SETTING("TUGBOAT_PARTITIONED", switch, partitioned, "on", "on, off",
            "on: partitioned communication between two ranks goes without the host's lock. If the "
            "ranks of a job differ, it is off"),
    SETTING("TUGBOAT_TRANSPORTS", transports, transports, TRANSPORTS_INITIAL,
            "one or more of " WAYS ", with commas between",
            "the ways that LLCL may take to another process. mpi also carries the connection "
            "setup, and active messages if no other way is left. ofi is libfabric. By default "
            "it is used with a Slingshot card only; if it is named, with the best provider that "
            "libfabric has, for example EFA or Omni-Path"),
    SETTING("TUGBOAT_OFI_RMA", switch, ofi_rma, "off", "on, off",
            "on: ofi does reads, writes and 8-byte atomics by RMA with every provider that has it, "
            "for example EFA, and not only with a Slingshot card. With a provider in software, an "
            "operation on memory that is not registered any more may end the connection to its "
            "owner, or go unnoticed"),
    SETTING("TUGBOAT_PROOF", choice, proof, "auto", "auto, required, off",
            "whether two processes that connect over tcp prove to each other that they are of the "
            "job, by keyed digests from libcrypto.so.3 (OpenSSL 3) or the kernel. Without digests, "
            "packets go by messages of the host MPI, with auto only if connections leave the host. "
            "off: no proofs, a random number of each process is enough"),
    SETTING("TUGBOAT_PEER_TIMEOUT", number, peer_timeout_s, "60", "1 to 86400",
            "seconds without any sign of a peer over tcp after which it is lost, and operations on "
            "it fail. A process that is stopped or computes is none: its kernel answers",
            .least = 1, .most = 86400),
    SETTING("TUGBOAT_OPERATIONS", number, operations, "4096", "a power of two, 16 to 1048576",
            "number of operations of an LLCL context that can be outstanding", .least = 16,
            .most = 1048576, .power_of_two = true),
    SETTING(
        "TUGBOAT_AGGREGATE", switch, aggregate, "on", "on, off",
        "on: small operations to one process are sent together while others are under way to it"),
    SETTING("TUGBOAT_ACP_STARTER", number, acp_starter_bytes, "64K", "1K to 1024M",
            "bytes of ACP's starter memory on every rank", .least = 1024, .most = 1 << 30,
            .unit_suffix = true),
    SETTING("TUGBOAT_ACP_KEYS", number, acp_keys, "1024", "1 to 1048576",
            "ranks whose keys every rank gets in acp_init(), 64 bytes each. In a job of more ranks "
            "the first access to one of the others reads its key from one of these. The largest of "
            "all ranks counts",
            .least = 1, .most = 1048576),
    SETTING("TUGBOAT_STATS", stats, stats, "0", "0, 1, or a file name ending in .json",
            "1: rank 0 prints one block of counters when MPI is finalised. A file name: the "
            "counters go to that file as JSON"),
    SETTING("TUGBOAT_TRACE", trace, trace, "none", "none, or a file name ending in .json",
            "the timeline of the job: what threads waited for and what ended it, sleeps and wakes, "
            "packets, epochs and schedules, sampled, for viewers of traces such as Perfetto; rank "
            "0 writes the file when MPI is finalised"),
    SETTING("TUGBOAT_VERBOSE", choice, verbose, "warn", "quiet, warn, info, debug",
            "how much the library prints on standard error"),
    SETTING("TUGBOAT_SEGMENT", number, segment_bytes, "0", "0 (chosen for you), or 4K to 4M",
            "bytes in a segment of a persistent broadcast; K and M are powers of 1024",
            .least = 4096, .most = 4194304, .unit_suffix = true, .zero_too = true),
    SETTING("TUGBOAT_COLLECTIVES", choice, collectives, "auto", "off, auto, on",
            "blocking collectives that repeat (MPI_Barrier, Bcast, Reduce, Allreduce, Allgather, "
            "Alltoall on one communicator with the same size, root and operation). auto: after "
            "some hundred calls (fewer if they are large) the host's call and a schedule as of "
            "MPI_Bcast_init take turns, and the faster one stays; only if the host MPI runs at "
            "MPI_THREAD_MULTIPLE (TUGBOAT_THREADS). on: the host MPI starts at that level, and a "
            "few calls are enough. off: always the host's call"),
    SETTING("TUGBOAT_PIPELINES", choice, pipelines, "auto", "auto, chain, binomial, trinary",
            "how a persistent broadcast goes from node to node. auto: the way that the model "
            "predicts to be fastest. Otherwise: always this way"),
    SETTING("TUGBOAT_PHASES", choice, phases, "auto", "auto, relay, two-phase, one-engine",
            "how a persistent broadcast goes from one rank of a node to the others. relay: each "
            "segment as it arrives. two-phase: all segments together when all have arrived. "
            "one-engine: one rank gives each segment to each other rank, one after another, as in "
            "the relay of Morie et al.; only to compare with. auto: as the model predicts, of the "
            "first two"),
    SETTING("TUGBOAT_TORUS", torus, torus, "none",
            "none, or the nodes along two to six axes such as 4x3x2",
            "shape of the network, for trinary pipelines. Nodes are counted along the first axis "
            "first, in the order of their first ranks. Communicators of another size ignore it"),
    SETTING("TUGBOAT_TUNING", tuning, tuning, "none",
            "none (a short measurement when it is needed), or a file of tugboat calibrate",
            "measured parameters of this machine, for the model that chooses how to broadcast"),
    SETTING("TUGBOAT_VERBS_DEVICE", device, verbs_device, "auto",
            "auto, or devices such as mlx5_0, or ports such as mlx5_0:1, with commas between",
            "the InfiniBand or RoCE device. Of several, the ranks of a node begin with one after "
            "the other. auto: the active ports, InfiniBand before Ethernet, then the fastest, then "
            "those of the process's NUMA node"),
    SETTING("TUGBOAT_VERBS_PAIRS", number, verbs_pairs, "1024", "1 to 1048576",
            "connections by verbs that a process keeps in each direction; beyond that the least "
            "used are closed, and made again when they are wanted",
            .least = 1, .most = 1048576),
    SETTING("TUGBOAT_VERBS_PORT", port, verbs_port, "auto",
            "auto, or with commas between: gid=0 to 255, pkey=1 to 0xffff, sl=0 to 15, "
            "tc=0 to 255, path=0 to 127, mtu=256 to 4096, relaxed=0 or 1",
            "how a port is used: index of its GID, partition, service level, traffic class, path "
            "bits of its LID, largest packet in bytes, and whether writes of the card may overtake "
            "one another on their way to memory (faster on some hosts, but a program must not poll "
            "memory for a flag that is written behind its data). Left out: the GID of RoCE v2 on "
            "the network of the host MPI, the first partition with full membership, 0, 106 over "
            "RoCE v2 and 0 otherwise, one path after the other for the ranks of a node, the "
            "port's, 0"),
    SETTING("TUGBOAT_VERBS_RAILS", number, verbs_rails, "4", "1 to 4",
            "ports that a process uses by verbs at most, of those that TUGBOAT_VERBS_DEVICE "
            "allows, that are up and as fast as the first. Reads and writes of 128 KiB and more "
            "are cut into shares for them. 1 if the ports are on networks of their own",
            .least = 1, .most = 4),
    SETTING("TUGBOAT_VERBS_TIMEOUT", number, verbs_timeout_ms, "500", "1 to 60000",
            "milliseconds that a device waits for an acknowledgement before it sends again, "
            "rounded up to 4.096 us times a power of two. After seven times the connection is made "
            "anew, or other ways are taken",
            .least = 1, .most = 60000),
};

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static int load_status;
static char load_error[512];
static char *kept_text[COUNT_OF(settings)]; /* the value in effect, NULL where it is the default */

static void set_defaults(void) {
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const struct setting *setting = &settings[i];
        if (!setting->parse(setting, setting->initial))
            abort(); /* a row of the table contradicts itself */
    }
}

/* Runs before any constructor that might log or load, so the defaults hold from the start. */
__attribute__((constructor(101))) static void settings_construct(void) {
    set_defaults();
}

static void refuse(const struct setting *setting, const char *text) {
    if (load_status != 0)
        return; /* only the first error is told */
    load_status = TUG_ERR_SETTING;
    snprintf(load_error, sizeof load_error, "%s=%s is not allowed: it must be %s", setting->name,
             text, setting->range);
}

static void read_net_devices(void) {
    const char *text = getenv("UCX_NET_DEVICES");
    const bool fits = text != NULL && strlen(text) < sizeof tug_settings.net_devices;
    strcpy(tug_settings.net_devices, fits && text[0] != '^' ? text : "");
}

/* Names of other versions: to pass them over would leave a job without what it asks for. */
static void refuse_renamed(void) {
    static const char *const names[][2] = {{"TUGBOAT_BCAST", "TUGBOAT_COLLECTIVES"}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *text = getenv(names[i][0]);
        if (text == NULL || text[0] == '\0' || load_status != 0)
            continue;
        load_status = TUG_ERR_SETTING;
        snprintf(load_error, sizeof load_error, "%s=%s is not allowed: the setting is called %s",
                 names[i][0], text, names[i][1]);
    }
}

static void load_all(void) {
    set_defaults();
    load_status = 0;
    load_error[0] = '\0';
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const struct setting *setting = &settings[i];
        const char *text = getenv(setting->name);
        if (text == NULL || text[0] == '\0')
            continue;
        char *copy = strdup(text);
        if (copy == NULL) {
            if (load_status == 0)
                snprintf(load_error, sizeof load_error,
                         "no memory for the value of %s: give this process more", setting->name);
            load_status = load_status == 0 ? TUG_ERR_NO_MEMORY : load_status;
        } else if (!setting->parse(setting, copy)) {
            refuse(setting, copy);
            free(copy);
        } else {
            kept_text[i] = copy;
        }
    }
    refuse_renamed();
    read_net_devices();
    loaded = true;
}

int tug_settings_load(char *error, size_t error_bytes) {
    pthread_mutex_lock(&load_lock);
    if (!loaded)
        load_all();
    const int status = load_status;
    if (error_bytes > 0)
        snprintf(error, error_bytes, "%s", load_error);
    pthread_mutex_unlock(&load_lock);
    return status;
}

void tug_settings_reset(void) {
    pthread_mutex_lock(&load_lock);
    set_defaults();
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        free(kept_text[i]);
        kept_text[i] = NULL;
    }
    loaded = false;
    pthread_mutex_unlock(&load_lock);
}

bool tug_settings_row(size_t number, struct tug_setting_row *row) {
    if (number >= COUNT_OF(settings))
        return false;
    tug_settings_load(NULL, 0);
    const struct setting *setting = &settings[number];
    const char *text = kept_text[number] != NULL ? kept_text[number] : setting->initial;
    *row = (struct tug_setting_row){setting->name, setting->help, setting->range, text,
                                    kept_text[number] != NULL};
    return true;
}

void tug_settings_print(FILE *out) {
    struct tug_setting_row row;
    for (size_t i = 0; tug_settings_row(i, &row); i++)
        fprintf(out, "  %-18s %-10s (%s; %s)\n      %s\n", row.name, row.value,
                row.from_environment ? "environment" : "default", row.range, row.help);
}

int tug_settings_unknown(void (*report)(const char *name, void *arg), void *arg) {
    int count = 0;
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, "TUGBOAT_", 8) != 0)
            continue;
        const size_t length = strcspn(*entry, "=");
        bool known = false;
        for (size_t i = 0; i < COUNT_OF(settings) && !known; i++)
            known = strlen(settings[i].name) == length &&
                    strncmp(settings[i].name, *entry, length) == 0;
        if (known)
            continue;
        count++;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        if (report != NULL)
            report(name, arg);
    }
    return count;
}

/* The value of the first that is set. NULL: none is. */
static const char *first_set(const char *const names[]) {
    const char *value = NULL;
    for (size_t i = 0; names[i] != NULL && value == NULL; i++)
        value = getenv(names[i]);
    return value;
}

bool tug_settings_first_of_job(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", NULL};
    const char *rank = first_set(names);
    return rank == NULL || strcmp(rank, "0") == 0;
}

uint32_t tug_settings_node_rank(uint32_t otherwise) {
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "PALS_LOCAL_RANKID", "SLURM_LOCALID", NULL};
    const char *rank = first_set(names);
    return rank != NULL && isdigit((unsigned char)rank[0]) ? (uint32_t)strtoul(rank, NULL, 10)
                                                           : otherwise;
}

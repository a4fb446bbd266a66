#include "transport/verbs/origin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/list.h"
#include "base/stats.h"
#include "base/system_page.h"
#include "base/unmap_watch.h"
#include "transport/verbs/private.h"

#define SLOTS 128u
#define ENTRIES 512u /* registrations that are kept, at most */

/* Whole pages of the program's that are registered. */
struct entry {
    struct tug_registration registration;
    uintptr_t first, end;
    bool writable; /* by the device */
    bool gone;     /* no other operation may use it; tug_unmap_lock protects it */
    uint64_t used; /* origin->uses when it was used last */
    struct entry *next;
};

struct tug_origin {
    struct tug_registration slots; /* base NULL: they cannot be had */
    uint16_t spare[SLOTS];
    uint32_t nspare;

    /* By addresses, apart from each other. The holder of the baton alone writes them, with
     * tug_unmap_lock held; gone() reads them, with it held, too. */
    struct entry *entries[ENTRIES];
    uint32_t n;
    struct entry *retired; /* entries that have been taken out, perhaps still in use */
    uint64_t bytes, most;  /* of all pages in entries, and the bound of that */
    uint64_t uses;
    uint64_t changes;        /* the value of the global `changes` at the last tidy() */
    bool registers;          /* it registers pages of the program */
    bool watches;            /* tug_unmap_watch_begin() has returned true */
    struct tug_origin *next; /* in the list of all stores, which tug_unmap_lock protects */
};

static struct tug_origin *origins;
static _Atomic uint64_t changes; /* times that entries have been marked as gone */

/* Marks the entries of memory that goes. The thread that watches calls it, with tug_unmap_lock
 * held. */
static void gone(uintptr_t first, uintptr_t end) {
    for (struct tug_origin *origin = origins; origin != NULL; origin = origin->next)
        for (uint32_t i = 0; i < origin->n; i++)
            if (origin->entries[i]->first < end && first < origin->entries[i]->end)
                origin->entries[i]->gone = true;
    /* relaxed: it only says when to tidy up */
    atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
}

/* ---- the store ---- */

static void make_slots(struct tug_verbs *verbs, struct tug_origin *origin) {
    const size_t bytes = (size_t)SLOTS * TUG_ORIGIN_SLOT;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    origin->slots = (struct tug_registration){.base = memory, .bytes = bytes};
    if (!tug_verbs_memory_register_local(verbs, &origin->slots, IBV_ACCESS_LOCAL_WRITE)) {
        munmap(memory, bytes);
        origin->slots.base = NULL;
        return;
    }
    while (origin->nspare < SLOTS) {
        origin->spare[origin->nspare] = (uint16_t)origin->nspare;
        origin->nspare++;
    }
}

/* Half the limit of locked memory; where there is none, an eighth of the machine's memory. */
static uint64_t bytes_most(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return limit.rlim_cur / 2;
    return (uint64_t)sysconf(_SC_PHYS_PAGES) / 8 * tug_page_bytes();
}

/* Returns the endpoint's store, which the first operation that needs it makes. NULL: no memory. */
static struct tug_origin *origin_of(struct tug_verbs *verbs) {
    if (verbs->origin != NULL)
        return verbs->origin;
    struct tug_origin *origin = calloc(1, sizeof(*origin));
    if (origin == NULL)
        return NULL;
    make_slots(verbs, origin);
    origin->most = bytes_most();
    origin->registers = tug_verbs_fork_copies();
    origin->watches = origin->registers && tug_unmap_watch_begin(gone);
    pthread_mutex_lock(&tug_unmap_lock);
    origin->next = origins;
    origins = origin;
    pthread_mutex_unlock(&tug_unmap_lock);
    return verbs->origin = origin;
}

/* ---- entries ---- */

static void end_entry(struct entry *entry) {
    tug_verbs_memory_deregister(&entry->registration);
    free(entry);
}

/* Ends the retired entries that are not in use any more. */
static void sweep(struct tug_origin *origin) {
    struct entry **at = &origin->retired;
    while (*at != NULL) {
        struct entry *entry = *at;
        if (entry->registration.users > 0) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        end_entry(entry);
    }
}

/* Takes the i-th entry out. The caller holds tug_unmap_lock. */
static void retire(struct tug_origin *origin, uint32_t i) {
    struct entry *entry = origin->entries[i];
    origin->n--;
    memmove(&origin->entries[i], &origin->entries[i + 1], (origin->n - i) * sizeof(struct entry *));
    origin->bytes -= entry->end - entry->first;
    entry->next = origin->retired;
    origin->retired = entry;
}

/* Takes out the entries that have been marked as gone since the last call, and ends the retired
 * ones that are not in use. */
static void tidy(struct tug_origin *origin) {
    const uint64_t now = atomic_load_explicit(&changes, memory_order_relaxed);
    if (origin->changes != now) {
        origin->changes = now;
        pthread_mutex_lock(&tug_unmap_lock);
        for (uint32_t i = origin->n; i-- > 0;)
            if (origin->entries[i]->gone)
                retire(origin, i);
        pthread_mutex_unlock(&tug_unmap_lock);
    }
    if (origin->retired != NULL)
        sweep(origin);
}

/* The index of the first entry that ends behind the address; origin->n if there is none. */
static uint32_t search(const struct tug_origin *origin, uintptr_t address) {
    uint32_t low = 0, high = origin->n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (origin->entries[middle]->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns an entry that covers these pages and that the operation may use; the caller counts itself
 * in. NULL: there is none, or memory is going at this moment. */
static struct entry *find(struct tug_origin *origin, uintptr_t first, uintptr_t end, bool writes) {
    struct entry *found = NULL;
    pthread_mutex_lock(&tug_unmap_lock);
    const uint32_t i = search(origin, first);
    struct entry *entry = i < origin->n ? origin->entries[i] : NULL;
    if (entry != NULL && entry->first <= first && end <= entry->end && !entry->gone &&
        (entry->writable || !writes) && tug_unmap_watch_sees())
        found = entry;
    pthread_mutex_unlock(&tug_unmap_lock);
    return found;
}

/* Takes out the entry that has not been used for the longest time. False: there is none, or all are
 * in use. */
static bool retire_oldest(struct tug_origin *origin) {
    uint32_t oldest = origin->n;
    for (uint32_t i = 0; i < origin->n; i++)
        if (origin->entries[i]->registration.users == 0 &&
            (oldest == origin->n || origin->entries[i]->used < origin->entries[oldest]->used))
            oldest = i;
    if (oldest == origin->n)
        return false;
    pthread_mutex_lock(&tug_unmap_lock);
    retire(origin, oldest);
    pthread_mutex_unlock(&tug_unmap_lock);
    return true;
}

/* Takes out the entries that the new one overlaps, lets it grow over those of them that are not
 * gone, and inserts it. Sets the base and bytes of its registration. */
static void insert(struct tug_origin *origin, struct entry *entry) {
    pthread_mutex_lock(&tug_unmap_lock);
    uint32_t i = search(origin, entry->first);
    while (i < origin->n && origin->entries[i]->first < entry->end) {
        const struct entry *other = origin->entries[i];
        entry->first = other->first < entry->first && !other->gone ? other->first : entry->first;
        entry->end = other->end > entry->end && !other->gone ? other->end : entry->end;
        retire(origin, i);
    }
    memmove(&origin->entries[i + 1], &origin->entries[i], (origin->n - i) * sizeof(struct entry *));
    origin->entries[i] = entry;
    origin->n++;
    origin->bytes += entry->end - entry->first;
    pthread_mutex_unlock(&tug_unmap_lock);
    entry->registration.base = (unsigned char *)entry->first;
    entry->registration.bytes = entry->end - entry->first;
}

static void take_out(struct tug_origin *origin, const struct entry *entry) {
    pthread_mutex_lock(&tug_unmap_lock);
    for (uint32_t i = 0; i < origin->n; i++)
        if (origin->entries[i] == entry)
            retire(origin, i);
    pthread_mutex_unlock(&tug_unmap_lock);
}

/* No other operation uses the entry. */
static void spoil(struct entry *entry) {
    pthread_mutex_lock(&tug_unmap_lock);
    gone(entry->first, entry->end);
    pthread_mutex_unlock(&tug_unmap_lock);
}

/* Registers the entry's pages. The device may write to them if the program may. False: it refuses,
 * or the operation writes to pages that the program may not write to. */
static bool register_pages(struct tug_verbs *verbs, struct entry *entry, bool writes) {
    entry->writable =
        tug_verbs_memory_register_local(verbs, &entry->registration, IBV_ACCESS_LOCAL_WRITE);
    return entry->writable ||
           (!writes && tug_verbs_memory_register_local(verbs, &entry->registration, 0));
}

/* Makes an entry for these pages, larger if it replaces others. In this order gone() can find the
 * entry, its pages are watched, they are registered; so memory that goes meanwhile marks the entry.
 * NULL: the device refuses, memory is lacking, or all ENTRIES are in use. */
static struct entry *make(struct tug_verbs *verbs, struct tug_origin *origin, uintptr_t first,
                          uintptr_t end, bool writes) {
    struct entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return NULL;
    entry->first = first;
    entry->end = end;
    while ((origin->n == ENTRIES || origin->bytes + (end - first) > origin->most) &&
           retire_oldest(origin))
        ;
    sweep(origin);
    if (origin->n == ENTRIES) {
        free(entry);
        return NULL;
    }
    insert(origin, entry);
    if (!origin->watches || origin->bytes > origin->most ||
        !tug_unmap_watch_add(entry->first, entry->end))
        spoil(entry); /* for this operation alone */
    if (!register_pages(verbs, entry, writes)) {
        take_out(origin, entry);
        sweep(origin);
        return NULL;
    }
    tug_stat_add(TUG_STAT_VERBS_REGISTERED, 1);
    return entry;
}

/* ---- lending ---- */

static void change(struct tug_operation *operation, struct tug_registration *registration) {
    operation->registration->users--;
    operation->registration = registration;
    if (registration != NULL)
        registration->users++;
}

/* A short write needs no memory but the operation's own. */
static bool carry(struct tug_operation *operation) {
    if (operation->kind != TUG_OPERATION_WRITE || operation->bytes > TUG_OPERATION_INLINE)
        return false;
    memcpy(operation->data, operation->local, operation->bytes);
    operation->local = NULL;
    change(operation, NULL);
    return true;
}

static bool lend_slot(struct tug_origin *origin, struct tug_operation *operation) {
    if (origin->nspare == 0)
        return false;
    unsigned char *slot =
        origin->slots.base + (size_t)origin->spare[--origin->nspare] * TUG_ORIGIN_SLOT;
    if (operation->kind == TUG_OPERATION_WRITE)
        tug_copy(slot, operation->local, operation->bytes);
    operation->own = (uintptr_t)operation->local;
    operation->local = slot;
    change(operation, &origin->slots);
    return true;
}

static bool lend_pages(struct tug_verbs *verbs, struct tug_origin *origin,
                       struct tug_operation *operation) {
    const uintptr_t at = (uintptr_t)operation->local, first = tug_page_down(at),
                    end = tug_page_up(at + operation->bytes);
    const bool writes = operation->kind == TUG_OPERATION_READ;
    if (!origin->registers)
        return false;
    tidy(origin);
    struct entry *entry = find(origin, first, end, writes);
    if (entry == NULL)
        entry = make(verbs, origin, first, end, writes);
    if (entry == NULL)
        return false;
    entry->used = ++origin->uses;
    change(operation, &entry->registration);
    return true;
}

bool tug_origin_lend(struct tug_verbs *verbs, struct tug_operation *operation) {
    const struct tug_registration *registration = operation->registration;
    if (registration == NULL || !tug_origin_lends(registration))
        return false;
    if (carry(operation))
        return true;
    struct tug_origin *origin = origin_of(verbs);
    if (origin == NULL)
        return false;
    return (operation->bytes <= TUG_ORIGIN_SLOT && lend_slot(origin, operation)) ||
           lend_pages(verbs, origin, operation);
}

static bool has_slot(const struct tug_origin *origin, const struct tug_operation *operation) {
    return origin != NULL && operation->registration == &origin->slots;
}

void tug_origin_return(struct tug_verbs *verbs, struct tug_operation *operation) {
    struct tug_origin *origin = verbs->origin;
    if (!has_slot(origin, operation))
        return;
    const size_t at = (size_t)(operation->local - origin->slots.base);
    origin->spare[origin->nspare++] = (uint16_t)(at / TUG_ORIGIN_SLOT);
    operation->local = (unsigned char *)(uintptr_t)operation->own;
}

void tug_origin_end(struct tug_verbs *verbs, struct tug_operation *operation) {
    const unsigned char *slot = operation->local;
    if (!has_slot(verbs->origin, operation))
        return;
    tug_origin_return(verbs, operation);
    if (operation->kind == TUG_OPERATION_READ && operation->status == 0)
        tug_copy(operation->local, slot, operation->bytes);
}

void tug_origin_close(struct tug_verbs *verbs) {
    struct tug_origin *origin = verbs->origin;
    if (origin == NULL)
        return;
    verbs->origin = NULL;
    pthread_mutex_lock(&tug_unmap_lock);
    TUG_LIST_TAKE_OUT(origins, origin);
    pthread_mutex_unlock(&tug_unmap_lock);
    if (origin->watches)
        tug_unmap_watch_end();
    for (uint32_t i = 0; i < origin->n; i++)
        end_entry(origin->entries[i]);
    while (origin->retired != NULL) {
        struct entry *entry = origin->retired;
        origin->retired = entry->next;
        end_entry(entry);
    }
    if (origin->slots.base != NULL) {
        tug_verbs_memory_deregister(&origin->slots);
        munmap(origin->slots.base, origin->slots.bytes);
    }
    free(origin);
}

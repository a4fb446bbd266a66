/*
 * The libraries of a program: its NEEDED entries and those of its libraries, breadth first as the
 * loader goes. A name is looked for where the loader looks: RPATH of the object and of what loads
 * it, LD_LIBRARY_PATH, RUNPATH, the loader's cache, the usual folders. $LIB and $PLATFORM in a path
 * are not known here. Files are mapped and closed again; nothing in them is trusted to be in range.
 */
#include "cmd/needed.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODES_MOST 512
#define CACHE_FILE "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* ---- files ---- */

struct image {
    const char *bytes;
    size_t size;
};

static bool open_image(const char *file, struct image *image) {
    struct stat status;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED)
        return false;
    *image = (struct image){bytes, (size_t)status.st_size};
    return true;
}

static void close_image(const struct image *image) {
    munmap((void *)(uintptr_t)image->bytes, image->size);
}

static const void *at(const struct image *image, uint64_t offset, uint64_t bytes) {
    return offset <= image->size && bytes <= image->size - offset ? image->bytes + offset : NULL;
}

static const char *text_at(const struct image *image, uint64_t offset) {
    const char *text = at(image, offset, 1);
    return text != NULL && memchr(text, '\0', image->size - offset) != NULL ? text : NULL;
}

bool tug_file_holds(const char *file, const char *text) {
    struct image image;
    if (!open_image(file, &image))
        return false;
    const bool holds = memmem(image.bytes, image.size, text, strlen(text)) != NULL;
    close_image(&image);
    return holds;
}

/* ---- dynamic sections ---- */

static const ElfW(Ehdr) * header_of(const struct image *image) {
    const ElfW(Ehdr) *header = at(image, 0, sizeof *header);
    const bool wide = sizeof(void *) == 8;
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != (wide ? ELFCLASS64 : ELFCLASS32) ||
        header->e_phentsize != sizeof(ElfW(Phdr)) ||
        at(image, header->e_phoff, (uint64_t)header->e_phnum * sizeof(ElfW(Phdr))) == NULL)
        return NULL;
#ifdef MACHINE
    if (header->e_machine != MACHINE)
        return NULL;
#endif
    return header;
}

static const ElfW(Phdr) * segments_of(const struct image *image, const ElfW(Ehdr) * header) {
    return at(image, header->e_phoff, (uint64_t)header->e_phnum * sizeof(ElfW(Phdr)));
}

/* Where in the file what is loaded at an address lies; past its end when nowhere. */
static uint64_t offset_of(const struct image *image, const ElfW(Ehdr) * header, uint64_t address) {
    const ElfW(Phdr) *segments = segments_of(image, header);
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && address >= segments[i].p_vaddr &&
            address - segments[i].p_vaddr < segments[i].p_filesz)
            return address - segments[i].p_vaddr + segments[i].p_offset;
    return UINT64_MAX;
}

struct dynamic {
    const ElfW(Dyn) * entries;
    size_t n;
    uint64_t strings; /* the offset of the names */
};

static bool find_dynamic(const struct image *image, struct dynamic *dynamic) {
    const ElfW(Ehdr) *header = header_of(image);
    if (header == NULL)
        return false;
    const ElfW(Phdr) *segments = segments_of(image, header);
    dynamic->entries = NULL;
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC) {
            dynamic->entries = at(image, segments[i].p_offset, segments[i].p_filesz);
            dynamic->n = segments[i].p_filesz / sizeof(ElfW(Dyn));
        }
    dynamic->strings = UINT64_MAX;
    for (size_t i = 0; dynamic->entries != NULL && i < dynamic->n; i++)
        if (dynamic->entries[i].d_tag == DT_STRTAB)
            dynamic->strings = offset_of(image, header, dynamic->entries[i].d_un.d_ptr);
    return dynamic->entries != NULL && dynamic->strings != UINT64_MAX;
}

/* ---- the walk ---- */

struct node {
    char *file;            /* NULL: not found */
    char *name;            /* that it is asked for by */
    char *rpath, *runpath; /* NULL: it has none */
    size_t loader;         /* the node that needs it first; of the program: itself */
};

struct walk {
    struct node nodes[NODES_MOST];
    size_t n;
};

/* folder/name with $ORIGIN filled in; a copy when that is a library of this machine, else NULL. */
static char *try_folder(const struct node *node, const char *folder, size_t length,
                        const char *name) {
    char origin[PATH_MAX], path[3 * PATH_MAX];
    struct image image;
    struct dynamic dynamic;
    size_t skip = 0;
    origin[0] = '\0';
    if (length >= 7 && strncmp(folder, "$ORIGIN", 7) == 0)
        skip = 7;
    else if (length >= 9 && strncmp(folder, "${ORIGIN}", 9) == 0)
        skip = 9;
    if (skip > 0 && realpath(node->file, origin) != NULL && strrchr(origin, '/') != NULL)
        *strrchr(origin, '/') = '\0';
    snprintf(path, sizeof path, "%s%.*s/%s", origin, (int)(length - skip), folder + skip, name);
    if (!open_image(path, &image))
        return NULL;
    const bool fits = find_dynamic(&image, &dynamic);
    close_image(&image);
    return fits ? strdup(path) : NULL;
}

static char *try_folders(const struct node *node, const char *list, const char *name) {
    char *found = NULL;
    while (list != NULL && *list != '\0' && found == NULL) {
        const size_t length = strcspn(list, ":;");
        found = try_folder(node, length > 0 ? list : ".", length > 0 ? length : 1, name);
        list += length;
        list += strspn(list, ":;");
    }
    return found;
}

/* A list of names and files, written by ldconfig. */
static char *try_cache(const struct node *node, const char *name) {
    struct image image;
    char *found = NULL;
    if (!open_image(CACHE_FILE, &image))
        return NULL;
    const char *start = memmem(image.bytes, image.size, CACHE_MAGIC,
                               sizeof CACHE_MAGIC - 1); /* an older list first */
    if (start != NULL) {
        const struct image cache = {start, image.size - (size_t)(start - image.bytes)};
        const uint32_t *count = at(&cache, sizeof CACHE_MAGIC - 1, sizeof *count);
        for (uint32_t i = 0; count != NULL && i < *count && found == NULL; i++) {
            const uint32_t *entry = at(&cache, 48 + 24 * (uint64_t)i, 24); /* flags, name, file */
            const char *key = entry != NULL ? text_at(&cache, entry[1]) : NULL;
            const char *file = entry != NULL ? text_at(&cache, entry[2]) : NULL;
            const char *slash = file != NULL ? strrchr(file, '/') : NULL;
            if (key != NULL && slash != NULL && strcmp(key, name) == 0)
                found = try_folder(node, file, (size_t)(slash - file), slash + 1);
        }
    }
    close_image(&image);
    return found;
}

static char *find_library(const struct walk *walk, size_t needs, const char *name) {
    const struct node *node = &walk->nodes[needs];
    if (strchr(name, '/') != NULL) {
        const size_t length = (size_t)(strrchr(name, '/') - name);
        return try_folder(node, name, length, name + length + 1);
    }
    char *found = NULL;
    for (size_t i = needs; node->runpath == NULL && found == NULL; i = walk->nodes[i].loader) {
        if (walk->nodes[i].runpath == NULL)
            found = try_folders(&walk->nodes[i], walk->nodes[i].rpath, name);
        if (walk->nodes[i].loader == i)
            break;
    }
    if (found == NULL)
        found = try_folders(node, getenv("LD_LIBRARY_PATH"), name);
    if (found == NULL)
        found = try_folders(node, node->runpath, name);
    if (found == NULL)
        found = try_cache(node, name);
    if (found == NULL)
        found = try_folders(node, "/lib64:/usr/lib64:/lib:/usr/lib", name);
    return found;
}

static bool is_known(const struct walk *walk, const char *name) {
    for (size_t i = 1; i < walk->n; i++)
        if (strcmp(walk->nodes[i].name, name) == 0)
            return true;
    return false;
}

/* Appends what a node needs. True: visit has seen enough. */
static bool expand(struct walk *walk, size_t which, tug_needed_visit *visit, void *argument) {
    struct image image;
    struct dynamic dynamic;
    struct node *node = &walk->nodes[which];
    if (node->file == NULL || !open_image(node->file, &image))
        return false;
    bool enough = false;
    const bool fits = find_dynamic(&image, &dynamic);
    for (size_t i = 0; fits && i < dynamic.n && dynamic.entries[i].d_tag != DT_NULL; i++) {
        const ElfW(Dyn) *entry = &dynamic.entries[i];
        char **path = entry->d_tag == DT_RPATH
                          ? &node->rpath
                          : (entry->d_tag == DT_RUNPATH ? &node->runpath : NULL);
        const char *text =
            path != NULL ? text_at(&image, dynamic.strings + entry->d_un.d_val) : NULL;
        if (text != NULL && *path == NULL)
            *path = strdup(text);
    }
    for (size_t i = 0; fits && !enough && i < dynamic.n; i++) {
        const ElfW(Dyn) *entry = &dynamic.entries[i];
        if (entry->d_tag == DT_NULL)
            break;
        const char *name =
            entry->d_tag == DT_NEEDED ? text_at(&image, dynamic.strings + entry->d_un.d_val) : NULL;
        if (name == NULL || walk->n == NODES_MOST || is_known(walk, name))
            continue;
        struct node *next = &walk->nodes[walk->n];
        *next = (struct node){find_library(walk, which, name), strdup(name), NULL, NULL, which};
        if (next->name == NULL)
            break;
        walk->n++;
        enough = visit(next->name, next->file, argument);
    }
    close_image(&image);
    return enough;
}

int tug_needed_each(const char *file, tug_needed_visit *visit, void *argument) {
    struct image image;
    struct dynamic dynamic;
    if (!open_image(file, &image))
        return -1;
    const bool fits = find_dynamic(&image, &dynamic);
    close_image(&image);
    struct walk *walk = fits ? calloc(1, sizeof *walk) : NULL;
    if (walk == NULL)
        return -1;
    walk->nodes[0] = (struct node){.file = strdup(file)};
    walk->n = 1;
    for (size_t i = 0; i < walk->n && !expand(walk, i, visit, argument); i++)
        continue;
    for (size_t i = 0; i < walk->n; i++) {
        free(walk->nodes[i].file);
        free(walk->nodes[i].name);
        free(walk->nodes[i].rpath);
        free(walk->nodes[i].runpath);
    }
    free(walk);
    return 0;
}

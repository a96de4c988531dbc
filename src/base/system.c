/* SPDX-License-Identifier: Apache-2.0
 *
 * Free memory by /proc and cgroup v2. Reads a few small files; refuses nothing: a missing file
 * answers "unlimited". The build's name by the notes of the loaded object. */
#define _GNU_SOURCE 1 /* dl_iterate_phdr */
#include "base/system.h"

#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static size_t read_number(const char *path) {
    FILE *file = fopen(path, "re");
    uint64_t value = 0;
    size_t result = SIZE_MAX; /* also for the word "max" */
    if (file == NULL) {
        return SIZE_MAX;
    }
    if (fscanf(file, "%" SCNu64, &value) == 1) { /* allowed: the kernel wrote the number */
        result = (size_t)value;
    }
    (void)fclose(file);
    return result;
}

static size_t meminfo_available(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    size_t result = SIZE_MAX;
    if (file == NULL) {
        return SIZE_MAX;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        uint64_t kib = 0;
        /* allowed: the kernel wrote the line */
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
            result = kib > SIZE_MAX / 1024 ? SIZE_MAX : (size_t)kib * 1024;
            break;
        }
    }
    (void)fclose(file);
    return result;
}

size_t tdm_memory_available(void) {
    size_t available = meminfo_available();
    size_t limit = read_number("/sys/fs/cgroup/memory.max");
    size_t used = read_number("/sys/fs/cgroup/memory.current");
    if (limit != SIZE_MAX && used != SIZE_MAX) {
        size_t left = used < limit ? limit - used : 0;
        available = left < available ? left : available;
    }
    return available;
}

/* ---- the build ---- */

/* Something that lies in the same object as this code. */
static const char HERE = 0;

typedef struct build_search {
    uint8_t *out;
    size_t len;
} build_search;

/* The build's note among those of one segment, which the linker made. */
static void find_note(build_search *search, const uint8_t *at, size_t bytes) {
    const ElfW(Nhdr) *note = NULL;
    while (bytes >= sizeof *note) {
        note = (const ElfW(Nhdr) *)(const void *)at;
        const size_t name = ((size_t)note->n_namesz + 3) / 4 * 4;
        const size_t value = ((size_t)note->n_descsz + 3) / 4 * 4;
        if (name > bytes - sizeof *note || value > bytes - sizeof *note - name) {
            return;
        }
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
            memcmp(at + sizeof *note, "GNU", 4) == 0 && note->n_descsz <= TDM_BUILD_ID_MAX) {
            memcpy(search->out, at + sizeof *note + name, note->n_descsz);
            search->len = note->n_descsz;
            return;
        }
        at += sizeof *note + name + value;
        bytes -= sizeof *note + name + value;
    }
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address) {
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address >= begin && address - begin < segment->p_memsz) {
            return true;
        }
    }
    return false;
}

/* Stops at the object that this function is part of. */
static int visit_object(struct dl_phdr_info *info, size_t info_bytes, void *arg) {
    build_search *search = arg;
    (void)info_bytes;
    if (!holds(info, (uintptr_t)&HERE)) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum && search->len == 0; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE) {
            find_note(search, (const uint8_t *)(info->dlpi_addr + segment->p_vaddr),
                      segment->p_memsz);
        }
    }
    return 1;
}

size_t tdm_build_id(uint8_t out[TDM_BUILD_ID_MAX]) {
    build_search search = {out, 0};
    (void)dl_iterate_phdr(visit_object, &search);
    return search.len;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Free memory by /proc and cgroup v2. Reads a few small files; refuses nothing: a missing file
 * answers "unlimited". */
#include "base/system.h"

#include <inttypes.h>
#include <stdint.h>
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target over every file of the folders given, so that each build replays the corpora
 * without libFuzzer. A file may be given too. Exit: 0, or 77 when a folder is missing or empty (1
 * under TANDEM_NO_SKIP), or 1 when a file cannot be read; a broken property aborts. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Exactly size bytes on the heap, so that a sanitizer sees a read past the end. */
static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    uint8_t *data = NULL;
    size_t size = 0;
    int result = 1;
    if (file == NULL || stat(path, &info) != 0) {
        goto done;
    }
    size = (size_t)info.st_size;
    data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, file) != size) {
        goto done;
    }
    (void)LLVMFuzzerTestOneInput(data, size);
    result = 0;
done:
    if (result != 0) {
        (void)fprintf(stderr, "cannot read %s\n", path);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(data);
    return result;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int replay_folder(const char *path, size_t *n_inputs) {
    struct dirent **entries = NULL;
    const int n = scandir(path, &entries, NULL, by_name);
    int result = 0;
    for (int i = 0; i < n; i++) {
        char full[4096];
        struct stat info;
        const int len = snprintf(full, sizeof full, "%s/%s", path, entries[i]->d_name);
        if (len > 0 && (size_t)len < sizeof full && stat(full, &info) == 0 &&
            S_ISREG(info.st_mode)) {
            result |= replay_file(full);
            *n_inputs += 1;
        }
        free(entries[i]);
    }
    free(entries);
    return result;
}

int main(int argc, char **argv) {
    size_t n_inputs = 0;
    int result = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        const size_t before = n_inputs;
        if (stat(argv[i], &info) == 0 && S_ISREG(info.st_mode)) {
            result |= replay_file(argv[i]);
            n_inputs++;
        } else {
            result |= replay_folder(argv[i], &n_inputs);
        }
        if (n_inputs == before) {
            (void)printf("SKIP: no inputs in %s\n", argv[i]);
            return getenv("TANDEM_NO_SKIP") != NULL ? 1 : 77;
        }
    }
    (void)printf("%zu inputs replayed\n", n_inputs);
    return n_inputs == 0 ? 77 : result;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test needs: where data lies, whole files, temporary folders, the skip protocol, and a
 * child process for things that must fail. Header only; include it instead of cmocka.h.
 *
 * Skips are visible. SUPPORT_SKIP(reason) ends the running test as skipped and prints
 * "SKIP: <reason>". When TANDEM_NO_SKIP is set, it fails the test instead, unless the reason is one
 * of the two that a machine may have (SUPPORT_REASON_NO_GPU, SUPPORT_REASON_NO_ISA). main ends with
 *
 *     return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
 *
 * which gives 1 on a failure, 77 when every test was skipped, else 0. */
#ifndef TDM_TESTS_SUPPORT_H
#define TDM_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUPPORT_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define SUPPORT_PATH_MAX 4096
#define SUPPORT_REASON_NO_GPU "no GPU"
#define SUPPORT_REASON_NO_ISA "the processor lacks the instruction set"
#define SUPPORT_EXIT_SKIPPED 77

/* Number of tests of this process that were skipped. */
static inline int *support_n_skipped(void) {
    static int n_skipped;
    return &n_skipped;
}

static inline bool support_is_skip_allowed(const char *reason) {
    return getenv("TANDEM_NO_SKIP") == NULL ||
           strncmp(reason, SUPPORT_REASON_NO_GPU, strlen(SUPPORT_REASON_NO_GPU)) == 0 ||
           strncmp(reason, SUPPORT_REASON_NO_ISA, strlen(SUPPORT_REASON_NO_ISA)) == 0;
}

/* Prints and counts; true when the test may end as skipped. For programs without cmocka too. */
static inline bool support_note_skip(const char *reason) {
    if (!support_is_skip_allowed(reason)) {
        (void)printf("FAIL: a skip is not allowed here (TANDEM_NO_SKIP): %s\n", reason);
        (void)fflush(stdout);
        return false;
    }
    (void)printf("SKIP: %s\n", reason);
    (void)fflush(stdout);
    *support_n_skipped() += 1;
    return true;
}

/* Ends the running cmocka test. */
#define SUPPORT_SKIP(reason)                                                                       \
    do {                                                                                           \
        if (!support_note_skip(reason)) {                                                          \
            fail_msg("skip not allowed: %s", (reason));                                            \
        }                                                                                          \
        skip();                                                                                    \
    } while (0)

/* The exit code of a test program: the verdict. */
static inline int support_exit(int n_failed, size_t n_tests) {
    if (n_failed != 0) {
        return 1;
    }
    return n_tests > 0 && (size_t)*support_n_skipped() == n_tests ? SUPPORT_EXIT_SKIPPED : 0;
}

/* dir "/" rel into out; the test fails when it does not fit. */
static inline const char *support_join(char out[SUPPORT_PATH_MAX], const char *dir,
                                       const char *rel) {
    const int n = snprintf(out, SUPPORT_PATH_MAX, "%s/%s", dir, rel);
    assert_true(n > 0 && n < SUPPORT_PATH_MAX);
    return out;
}

#ifdef TDM_SOURCE_DIR
/* Path of a thing that comes with the repository: support_data_path(p, "sampling/x.bin"). */
static inline const char *support_data_path(char out[SUPPORT_PATH_MAX], const char *rel) {
    return support_join(out, TDM_SOURCE_DIR "/tests/data", rel);
}

/* Folder of the shared data that stays outside the repository. */
static inline const char *support_shared_dir(void) {
    const char *dir = getenv("TANDEM_SHARED");
    return dir != NULL && dir[0] != '\0' ? dir : TDM_SOURCE_DIR "/../shared";
}

/* Path of a shared thing, present or not. */
static inline const char *support_shared_path(char out[SUPPORT_PATH_MAX], const char *rel) {
    return support_join(out, support_shared_dir(), rel);
}
#endif

static inline bool support_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

/* Path of a shared thing into out, or the running test ends as skipped. */
#define SUPPORT_NEED_SHARED(out, rel)                                                              \
    do {                                                                                           \
        (void)support_shared_path((out), (rel));                                                   \
        if (!support_exists(out)) {                                                                \
            SUPPORT_SKIP("shared data absent: " rel);                                              \
        }                                                                                          \
    } while (0)

/* Processor time of this process so far: what a test may judge on a machine that others use too. */
static inline int64_t support_cpu_ns(void) {
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A whole file with a NUL behind it, to be freed with free; NULL when it cannot be read. */
static inline char *support_try_read_file(const char *path, size_t *out_bytes) {
    size_t cap = 1 << 16;
    size_t len = 0;
    FILE *file = fopen(path, "rb");
    char *data = file != NULL ? malloc(cap) : NULL;
    *out_bytes = 0;
    while (data != NULL) {
        const size_t got = fread(data + len, 1, cap - len - 1, file);
        len += got;
        if (len + 1 < cap) {
            break;
        }
        char *grown = realloc(data, cap * 2);
        if (grown == NULL) {
            free(data);
            data = NULL;
            break;
        }
        data = grown;
        cap *= 2;
    }
    if (data != NULL && ferror(file) != 0) { /* a folder opens and does not read */
        free(data);
        data = NULL;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (data != NULL) {
        data[len] = '\0';
        *out_bytes = len;
    }
    return data;
}

/* The same; the test fails when the file cannot be read. */
static inline char *support_read_file(const char *path, size_t *out_bytes) {
    char *data = support_try_read_file(path, out_bytes);
    if (data == NULL) {
        fail_msg("cannot read %s", path);
    }
    return data;
}

static inline void support_write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fail_msg("cannot create %s", path);
        return;
    }
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* A fresh folder under $TMPDIR into out; where that is not set, under the build or the current
 * folder. */
static inline const char *support_temp_folder(char out[SUPPORT_PATH_MAX]) {
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') {
#ifdef TDM_BINARY_DIR
        base = TDM_BINARY_DIR;
#else
        base = ".";
#endif
    }
    (void)support_join(out, base, "tandem-XXXXXX");
    assert_non_null(mkdtemp(out));
    return out;
}

/* Removes a folder made above with the files in it; its sub-folders must be gone or empty. */
static inline void support_remove_folder(const char *path) {
    char entry[SUPPORT_PATH_MAX];
    DIR *dir = opendir(path);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            (void)support_join(entry, path, e->d_name);
            if (unlink(entry) != 0) {
                (void)rmdir(entry);
            }
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    assert_int_equal(rmdir(path), 0);
}

/* Runs fn in a child process with its output dropped and returns how it ended: the exit code (what
 * fn returned), or 128 plus the signal. For the canary and for TDM_CHECK. */
static inline int support_run_child(int (*fn)(void *arg), void *arg) {
    int status = 0;
    (void)fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL ||
            freopen("/dev/null", "w", stderr) == NULL) {
            _exit(126);
        }
        _exit(fn(arg));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a path and the names in a folder say, before any file is opened; and the words for paths
 * that are not there. */
#include "formats/checkpoint_priv.h"
#include "formats/words_priv.h"

#include <stdio.h>
#include <string.h>

bool tdm_name_ends(const char *name, const char *suffix) {
    const size_t len = strlen(name);
    const size_t suffix_len = strlen(suffix);
    return len >= suffix_len && memcmp(name + (len - suffix_len), suffix, suffix_len) == 0;
}

bool tdm_is_pickle_name(const char *name) {
    static const char *const SUFFIXES[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof SUFFIXES[0]; i++) {
        if (tdm_name_ends(name, SUFFIXES[i])) {
            return true;
        }
    }
    return false;
}

static bool read_digits(const char *text, size_t n, uint32_t *out) {
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(text[i] - '0'); /* five digits at most */
    }
    *out = value;
    return true;
}

bool tdm_split_name_parse(const char *name, uint32_t *out_number, uint32_t *out_count,
                          size_t *out_prefix_len) {
    static const char TAIL[] = "-00001-of-00003.gguf";
    const size_t len = strlen(name);
    const char *tail = NULL;
    if (len < sizeof TAIL) { /* at least one byte of NAME */
        return false;
    }
    *out_prefix_len = len - (sizeof TAIL - 1);
    tail = &name[*out_prefix_len];
    return tail[0] == '-' && read_digits(tail + 1, 5, out_number) &&
           memcmp(tail + 6, "-of-", 4) == 0 && read_digits(tail + 10, 5, out_count) &&
           memcmp(tail + 15, ".gguf", 6) == 0;
}

static void keep_first(char *out, size_t cap, const char *name) {
    if (out[0] == '\0' && strlen(name) < cap) {
        memcpy(out, name, strlen(name) + 1);
    }
}

static void note_gguf(tdm_folder_facts *facts, const char *name) {
    uint32_t number = 0;
    uint32_t count = 0;
    size_t prefix_len = 0;
    if (tdm_split_name_parse(name, &number, &count, &prefix_len) && number != 1) {
        return;
    }
    facts->n_gguf++;
    keep_first(facts->gguf, sizeof facts->gguf, name);
}

static void note_name(void *arg, const char *name, bool is_folder) {
    static const char *const TOKENIZERS[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                             "vocab.txt", "tokenizer_config.json"};
    tdm_folder_facts *facts = arg;
    if (is_folder) {
        facts->has_snapshots = facts->has_snapshots || strcmp(name, "snapshots") == 0;
        return;
    }
    for (size_t i = 0; i < sizeof TOKENIZERS / sizeof TOKENIZERS[0]; i++) {
        facts->has_tokenizer = facts->has_tokenizer || strcmp(name, TOKENIZERS[i]) == 0;
    }
    if (strcmp(name, "config.json") == 0) {
        facts->has_config = true;
    } else if (strcmp(name, "generation_config.json") == 0) {
        facts->has_generation_config = true;
    } else if (strcmp(name, "tokenizer_config.json") == 0) {
        facts->has_tokenizer_config = true;
    } else if (strcmp(name, "model.safetensors") == 0) {
        facts->has_single = true;
    } else if (strcmp(name, "model.safetensors.index.json") == 0) {
        facts->has_index = true;
    } else if (tdm_name_ends(name, ".safetensors")) {
        keep_first(facts->other, sizeof facts->other, name);
    } else if (tdm_name_ends(name, ".gguf")) {
        note_gguf(facts, name);
    } else if (tdm_is_pickle_name(name)) {
        keep_first(facts->pickle, sizeof facts->pickle, name);
    }
}

tdm_status tdm_folder_facts_read(tdm_folder_facts *out, const tdm_fs *fs, const char *path,
                                 tdm_error *err) {
    memset(out, 0, sizeof *out);
    return fs->list(fs->ctx, path, note_name, out, err);
}

/* ---- did you mean ---- */

#define GUESS_MAX 96

typedef struct guess {
    const char *wanted;
    size_t distance;
    char best[GUESS_MAX];
} guess;

/* Edits (insert, drop, change one byte) between two names shorter than GUESS_MAX. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[GUESS_MAX];
    const size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            const size_t change = diagonal + (a[i] != b[j]);
            const size_t shift = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = change < shift ? change : shift;
        }
    }
    return row[n];
}

static void weigh_name(void *arg, const char *name, bool is_folder) {
    guess *g = arg;
    size_t distance = 0;
    (void)is_folder;
    if (strlen(name) >= GUESS_MAX) {
        return;
    }
    distance = edit_distance(g->wanted, name);
    if (distance < g->distance) {
        g->distance = distance;
        memcpy(g->best, name, strlen(name) + 1);
    }
}

tdm_status tdm_fail_no_path(const tdm_fs *fs, const char *path, tdm_error *err) {
    char parent[TDM_PATH_MAX] = ".";
    char wanted[GUESS_MAX] = "";
    guess g = {wanted, 0, ""};
    size_t len = strlen(path);
    size_t start = 0;
    (void)tdm_fail(err, TDM_E_NOT_FOUND, "no such file or folder");
    tdm_err_where(err, "%s", tdm_path_tail(path));
    tdm_err_remedy(err, "check the path");
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    for (start = len; start > 0 && path[start - 1] != '/'; start--) {
    }
    if (start == len || len - start >= GUESS_MAX || start >= sizeof parent) {
        return TDM_E_NOT_FOUND;
    }
    memcpy(wanted, path + start, len - start);
    if (start > 0) { /* without its last slash, unless it is the root */
        memcpy(parent, path, start);
        parent[start > 1 ? start - 1 : start] = '\0';
    }
    g.distance = (len - start) / 4 + 2; /* worse guesses than that help nobody */
    if (fs->list(fs->ctx, parent, weigh_name, &g, NULL) == TDM_OK && g.best[0] != '\0') {
        tdm_err_remedy(err, "did you mean %s?", g.best);
    }
    return TDM_E_NOT_FOUND;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of docs/models.md, made from the lists that the golden tests go over and the checkpoints
 * in them: a cell names the goldens that are compared, so that none says what no test does. Run with
 * --write to put the table into the document again. Between its marks the document is this
 * program's; the rest is prose. */
#include "backend/cpu/cpu.h"
#include "base/buf.h"
#include "formats/quant_config.h"
#include "model/model.h"
#include "support/goldens.h"
#include "support/support.h"
#include "tensor/weight.h"

#include <string.h>

#define BEGIN "<!-- made by golden_test_models_doc --write -->\n"
#define END "<!-- end -->\n"
#define GOLDENS_MAX 256
#define TYPES_MAX 48

/* One golden of one list. */
typedef struct entry {
    char label[64];
    const char *family;
    int column;
    const char *types[TYPES_MAX]; /* how its matrices are stored */
    char made[TYPES_MAX][32];     /* storage of types that are not constants */
    size_t n_types;
} entry;

enum { COLUMN_SAFETENSORS, COLUMN_GGUF, COLUMN_MLX, COLUMN_FOREIGN, COLUMN_EMBED, N_COLUMNS };

static const char *const COLUMNS[N_COLUMNS] = {"safetensors", "GGUF", "MLX", "other tool chains",
                                               "embeddings"};

typedef struct table {
    entry entries[GOLDENS_MAX];
    size_t n;
} table;

static void add_type(entry *e, const char *type) {
    for (size_t i = 0; i < e->n_types; i++) {
        if (strcmp(e->types[i], type) == 0) {
            return;
        }
    }
    assert_true(e->n_types < TYPES_MAX);
    (void)snprintf(e->made[e->n_types], sizeof e->made[0], "%s", type);
    e->types[e->n_types] = e->made[e->n_types];
    e->n_types++;
}

static bool has_beside(const tdm_checkpoint *checkpoint, const char *name, const char *end) {
    char beside[256];
    const char *dot = strrchr(name, '.');
    (void)snprintf(beside, sizeof beside, "%.*s%s", (int)(dot - name), name, end);
    return tdm_checkpoint_find(checkpoint, beside) != NULL;
}

/* MLX's sets say by their shapes what they are, when the width of the codes is known: it is not, so
 * the config is asked. */
static void add_mlx(entry *e, const tdm_checkpoint *checkpoint, const char *name) {
    char module[256];
    char type[32];
    tdm_quant_config config;
    tdm_quant quant;
    tdm_error err = {0};
    (void)snprintf(module, sizeof module, "%.*s", (int)(strrchr(name, '.') - name), name);
    assert_int_equal(
        tdm_quant_config_read(&config, tdm_checkpoint_config(checkpoint), e->label, &err), TDM_OK);
    (void)tdm_quant_config_ask(&config, module, &quant);
    if (quant.mode == TDM_WEIGHT_AFFINE) {
        (void)snprintf(type, sizeof type, "affine %d g%d", (int)quant.bits, (int)quant.group);
    } else {
        (void)snprintf(type, sizeof type, "%s", TDM_WEIGHT_MODE_NAMES[quant.mode]);
    }
    add_type(e, type);
}

/* Of matrices; vectors are floats everywhere. */
static void find_types(entry *e, const tdm_checkpoint *checkpoint) {
    const tdm_json *quantization =
        tdm_json_get(tdm_checkpoint_config(checkpoint), "quantization_config");
    const tdm_json *method = tdm_json_get(quantization, "quant_method");
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        if (tensor->view.rank < 2 || e->column == COLUMN_FOREIGN) {
            continue;
        }
        if (e->column == COLUMN_MLX && has_beside(checkpoint, tensor->name, ".scales")) {
            add_mlx(e, checkpoint, tensor->name);
        } else {
            add_type(e, TDM_DTYPES[tensor->view.dtype].name);
        }
    }
    if (e->column == COLUMN_FOREIGN) {
        add_type(e, tdm_json_is(method, TDM_JSON_STRING) ? method->u.text : "fp8");
    }
}

/* The family of a file is that of the checkpoint it was made from, where that is a golden too: files
 * of mixtral and olmo3 name another. */
static const char *family_of(const char *name, const tdm_model_config *config) {
    static tdm_model_config source;
    char base[64];
    char rel[128];
    char path[SUPPORT_PATH_MAX];
    const tdm_checkpoint_options loose = {0};
    tdm_checkpoint *checkpoint = NULL;
    const char *found = NULL;
    char *full = NULL;
    (void)snprintf(base, sizeof base, "%s", name);
    full = strstr(base, "-full");
    if (full != NULL) {
        *full = '\0';
    }
    (void)snprintf(rel, sizeof rel, "goldens/%s", base);
    if (config->container == TDM_CONTAINER_GGUF && support_exists(support_data_path(path, rel)) &&
        tdm_checkpoint_open(&checkpoint, NULL, path, &loose, NULL) == TDM_OK &&
        tdm_model_config_read(&source, checkpoint, NULL) == TDM_OK) {
        found = tdm_family_name_of(&source);
    }
    tdm_checkpoint_close(checkpoint);
    return found != NULL ? found : tdm_family_name_of(config);
}

static void take(table *t, int column, const char *dir, const char *mark,
                 const support_golden *list, size_t n, const char *file) {
    for (size_t i = 0; i < n; i++) {
        static tdm_model_config config;
        char folder[SUPPORT_PATH_MAX];
        char path[SUPPORT_PATH_MAX];
        const tdm_checkpoint_options loose = {0};
        tdm_checkpoint *checkpoint = NULL;
        tdm_error err = {0};
        assert_true(t->n < GOLDENS_MAX);
        entry *e = &t->entries[t->n++];
        e->column = column;
        (void)snprintf(e->label, sizeof e->label, "%s%s", list[i].name, mark);
        (void)support_join(folder, dir, list[i].name);
        (void)support_join(path, folder, file);
        if (tdm_checkpoint_open(&checkpoint, NULL, file[0] != '\0' ? path : folder, &loose, &err) !=
                TDM_OK ||
            tdm_model_config_read(&config, checkpoint, &err) != TDM_OK) {
            fail_msg("%s: %s (%s)", e->label, err.what, err.where);
        }
        e->family = family_of(list[i].name, &config);
        find_types(e, checkpoint);
        tdm_checkpoint_close(checkpoint);
        if (e->family == NULL) {
            fail_msg("%s: of no family", e->label);
        }
    }
}

static void take_all(table *t) {
    char dir[SUPPORT_PATH_MAX];
    memset(t, 0, sizeof *t);
    take(t, COLUMN_SAFETENSORS, support_data_path(dir, "goldens"), "", SUPPORT_GOLDENS,
         SUPPORT_LEN(SUPPORT_GOLDENS), "");
    take(t, COLUMN_GGUF, support_data_path(dir, "goldens-gguf"), "", SUPPORT_CONVERTED,
         SUPPORT_LEN(SUPPORT_CONVERTED), "model.gguf");
    take(t, COLUMN_FOREIGN, support_data_path(dir, "goldens-foreign"), "", SUPPORT_FOREIGN,
         SUPPORT_LEN(SUPPORT_FOREIGN), "");
    take(t, COLUMN_EMBED, support_data_path(dir, "embeddings"), "", SUPPORT_EMBEDDINGS,
         SUPPORT_LEN(SUPPORT_EMBEDDINGS), "");
    SUPPORT_NEED_SHARED(dir, "goldens-gguf");
    take(t, COLUMN_GGUF, dir, "*", SUPPORT_SHARED_GGUF, SUPPORT_LEN(SUPPORT_SHARED_GGUF),
         "model.gguf");
    take(t, COLUMN_GGUF, dir, "*", SUPPORT_SHARED_QUANTS, SUPPORT_LEN(SUPPORT_SHARED_QUANTS),
         "model.gguf");
    SUPPORT_NEED_SHARED(dir, "goldens-mlx");
    take(t, COLUMN_MLX, dir, "*", SUPPORT_SHARED_MLX, SUPPORT_LEN(SUPPORT_SHARED_MLX), "");
}

static void put(tdm_buf *buf, const char *text) {
    assert_int_equal(tdm_buf_append_text(buf, text), TDM_OK);
}

/* Labels of family's goldens in column, or a dash. */
static void put_cell(tdm_buf *buf, const table *t, const char *family, int column) {
    bool is_first = true;
    for (size_t i = 0; i < t->n; i++) {
        if (t->entries[i].column == column && strcmp(t->entries[i].family, family) == 0) {
            put(buf, is_first ? " " : ", ");
            put(buf, t->entries[i].label);
            is_first = false;
        }
    }
    put(buf, is_first ? " - |" : " |");
}

static void put_families(tdm_buf *buf, const table *t) {
    put(buf, "| `model_type` |");
    for (int c = 0; c < N_COLUMNS; c++) {
        put(buf, " ");
        put(buf, COLUMNS[c]);
        put(buf, " |");
    }
    put(buf, "\n|---|");
    for (int c = 0; c < N_COLUMNS; c++) {
        put(buf, "---|");
    }
    put(buf, "\n");
    for (size_t f = 0; tdm_family_name_at(f) != NULL; f++) {
        put(buf, "| `");
        put(buf, tdm_family_name_at(f));
        put(buf, "` |");
        for (int c = 0; c < N_COLUMNS; c++) {
            put_cell(buf, t, tdm_family_name_at(f), c);
        }
        put(buf, "\n");
    }
}

/* Each storage type, by column in the order of first use, with the goldens that have matrices of
 * it. */
static void put_types(tdm_buf *buf, const table *t) {
    put(buf, "| container | storage of matrices | goldens |\n|---|---|---|\n");
    for (int c = 0; c < COLUMN_EMBED; c++) {
        const char *seen[TYPES_MAX];
        size_t n_seen = 0;
        for (size_t i = 0; i < t->n * TYPES_MAX; i++) {
            const entry *e = &t->entries[i / TYPES_MAX];
            const char *type = i % TYPES_MAX < e->n_types ? e->types[i % TYPES_MAX] : NULL;
            bool is_new = type != NULL && e->column == c;
            size_t n = 0;
            for (size_t k = 0; is_new && k < n_seen; k++) {
                is_new = strcmp(seen[k], type) != 0;
            }
            if (!is_new) {
                continue;
            }
            seen[n_seen++] = type;
            assert_true(n_seen < TYPES_MAX);
            put(buf, "| ");
            put(buf, COLUMNS[c]);
            put(buf, " | ");
            put(buf, type);
            put(buf, " |");
            for (size_t k = 0; k < t->n; k++) {
                bool has = false;
                for (size_t j = 0; t->entries[k].column == c && j < t->entries[k].n_types; j++) {
                    has = has || strcmp(t->entries[k].types[j], type) == 0;
                }
                n += has ? 1 : 0;
                if (has && n <= 6) {
                    put(buf, n == 1 ? " " : ", ");
                    put(buf, t->entries[k].label);
                }
            }
            assert_int_equal(n > 6 ? tdm_buf_printf(buf, " and %zu more |\n", n - 6)
                                   : tdm_buf_append_text(buf, " |\n"),
                             TDM_OK);
        }
    }
}

static void make(tdm_buf *buf) {
    static table t;
    take_all(&t);
    put(buf, BEGIN);
    put_families(buf, &t);
    put(buf, "\n");
    put_types(buf, &t);
    put(buf, END);
}

static bool is_writing;

static void document_is_made_of_the_tests(void **state) {
    static const char PATH[] = TDM_SOURCE_DIR "/docs/models.md";
    tdm_buf buf;
    size_t len = 0;
    char *text = support_read_file(PATH, &len);
    char *from = strstr(text, BEGIN);
    char *to = from != NULL ? strstr(from, END) : NULL;
    (void)state;
    assert_true(from != NULL && to != NULL);
    to += sizeof END - 1;
    tdm_buf_init(&buf, NULL, 0);
    make(&buf);
    if (is_writing) {
        tdm_buf whole;
        tdm_buf_init(&whole, NULL, 0);
        assert_int_equal(tdm_buf_append(&whole, text, (size_t)(from - text)), TDM_OK);
        assert_int_equal(tdm_buf_append(&whole, buf.data, buf.len), TDM_OK);
        assert_int_equal(tdm_buf_append_text(&whole, to), TDM_OK);
        support_write_file(PATH, whole.data, whole.len);
        tdm_buf_deinit(&whole);
    } else if ((size_t)(to - from) != buf.len || memcmp(from, buf.data, buf.len) != 0) {
        fail_msg("docs/models.md is not what the tests check; run this program with --write");
    }
    tdm_buf_deinit(&buf);
    free(text);
}

/* Every family that the code knows is compared with a golden, or listed here with the reason. */
static void every_family_has_a_golden(void **state) {
    static const char *const WITHOUT[] = {
        "gemma4_unified_text", /* gemma4_text under another name */
    };
    static table t;
    (void)state;
    take_all(&t);
    for (size_t f = 0; tdm_family_name_at(f) != NULL; f++) {
        bool has = false;
        for (size_t i = 0; i < t.n; i++) {
            has = has || strcmp(t.entries[i].family, tdm_family_name_at(f)) == 0;
        }
        for (size_t i = 0; !has && i < SUPPORT_LEN(WITHOUT); i++) {
            has = strcmp(WITHOUT[i], tdm_family_name_at(f)) == 0;
        }
        if (!has) {
            fail_msg("%s has no golden", tdm_family_name_at(f));
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(document_is_made_of_the_tests),
        cmocka_unit_test(every_family_has_a_golden),
    };
    is_writing = argc > 1 && strcmp(argv[1], "--write") == 0;
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * sentence-transformers' files: what is honoured, and what is refused by name because its vectors
 * would be others. */
#include "formats/embed_config.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <string.h>

#define HIDDEN 8
#define TYPE(kind) "{\"type\":\"sentence_transformers.models." kind "\",\"path\":\"\"}"
#define POOLING "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}"

/* The files of a folder, "" for those that it lacks. */
typedef struct files {
    const char *modules, *pooling, *sentence, *bert;
} files;

static mem_fs disk;
static tdm_checkpoint *checkpoint;

static tdm_status open_files(const files *f, const tdm_alloc *alloc, tdm_embed_config **out,
                             tdm_error *err) {
    static const uint8_t NO_TENSORS[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    const tdm_checkpoint_options options = {.fs = &disk.fs};
    const struct {
        const char *name, *text;
    } all[] = {{"d/modules.json", f->modules},
               {"d/1_Pooling/config.json", f->pooling},
               {"d/config_sentence_transformers.json", f->sentence},
               {"d/sentence_bert_config.json", f->bert}};
    mem_fs_init(&disk);
    mem_fs_put_text(&disk, "d/config.json", "{}");
    mem_fs_put(&disk, "d/model.safetensors", NO_TENSORS, sizeof NO_TENSORS);
    for (size_t i = 0; i < SUPPORT_LEN(all); i++) {
        if (all[i].text != NULL) {
            mem_fs_put_text(&disk, all[i].name, all[i].text);
        }
    }
    *err = (tdm_error){0};
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "d", &options, err), TDM_OK);
    return tdm_embed_config_open(out, alloc, checkpoint, HIDDEN, err);
}

static tdm_embed_config *must_open(const files *f) {
    tdm_embed_config *config = NULL;
    tdm_error err;
    if (open_files(f, NULL, &config, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    return config;
}

static void close_all(tdm_embed_config *config) {
    tdm_embed_config_close(config);
    tdm_checkpoint_close(checkpoint);
    assert_int_equal(disk.n_open, 0);
}

static void refuse(const files *f, tdm_status status, const char *says) {
    tdm_embed_config *config = NULL;
    tdm_error err;
    assert_int_equal(open_files(f, NULL, &config, &err), status);
    assert_null(config);
    if (strstr(err.what, says) == NULL && strstr(err.where, says) == NULL) {
        fail_msg("wanted \"%s\": %s (%s)", says, err.what, err.where);
    }
    assert_true(err.where[0] != '\0');
    close_all(NULL);
}

static void a_plain_checkpoint_says_nothing(void **state) {
    const files none = {0};
    tdm_embed_config *config = must_open(&none);
    const tdm_embed_facts *facts = tdm_embed_config_facts(config);
    const char *text = NULL;
    size_t len = 0;
    (void)state;
    assert_true(facts->pooling == TDM_POOLING_AUTO && !facts->has_modules);
    assert_true(facts->dimensions == 0 && facts->length_max == 0 && facts->n_prompts == 0);
    assert_null(facts->default_prompt);
    assert_null(tdm_embed_config_prompt_at(config, 0, &text, &len));
    close_all(config);
}

static void all_files_are_honoured(void **state) {
    const files f = {
        "[" TYPE("Transformer") "," POOLING "," TYPE("Normalize") "]",
        "{\"word_embedding_dimension\":8,\"pooling_mode_cls_token\":false,"
        "\"pooling_mode_lasttoken\":true,\"include_prompt\":false}",
        "{\"prompts\":{\"query\":\"Query: \",\"document\":\"\"},\"default_prompt_name\":"
        "\"query\",\"truncate_dim\":4}",
        "{\"max_seq_length\":100,\"do_lower_case\":false}"};
    tdm_embed_config *config = must_open(&f);
    const tdm_embed_facts *facts = tdm_embed_config_facts(config);
    const char *text = NULL;
    size_t len = 0;
    (void)state;
    assert_true(facts->pooling == TDM_POOLING_LAST && facts->has_modules && facts->is_normalized);
    assert_true(facts->excludes_prompt && facts->dimensions == 4 && facts->length_max == 100);
    assert_string_equal(facts->default_prompt, "query");
    assert_int_equal(facts->n_prompts, 2);
    assert_string_equal(tdm_embed_config_prompt_at(config, 0, &text, &len), "query");
    assert_true(len == 7 && memcmp(text, "Query: ", len) == 0);
    assert_string_equal(tdm_embed_config_prompt_at(config, 1, &text, &len), "document");
    assert_int_equal(len, 0);
    assert_null(tdm_embed_config_prompt_at(config, 2, &text, &len));
    close_all(config);
}

static void poolings_have_two_spellings(void **state) {
    static const struct {
        const char *text;
        tdm_pooling pooling;
    } SPELLINGS[] = {{"{\"pooling_mode_mean_tokens\":true}", TDM_POOLING_MEAN},
                     {"{\"pooling_mode_cls_token\":true}", TDM_POOLING_FIRST},
                     {"{\"pooling_mode_lasttoken\":true}", TDM_POOLING_LAST},
                     {"{\"pooling_mode\":\"mean\"}", TDM_POOLING_MEAN},
                     {"{\"pooling_mode\":\"cls\"}", TDM_POOLING_FIRST},
                     {"{\"pooling_mode\":\"lasttoken\"}", TDM_POOLING_LAST}};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SPELLINGS); i++) {
        const files f = {"[" TYPE("Transformer") "," POOLING "]", SPELLINGS[i].text, NULL, NULL};
        tdm_embed_config *config = must_open(&f);
        const tdm_embed_facts *facts = tdm_embed_config_facts(config);
        assert_int_equal(facts->pooling, SPELLINGS[i].pooling);
        assert_true(facts->has_modules && !facts->is_normalized);
        close_all(config);
    }
}

static void what_is_not_done_is_refused(void **state) {
    static const char LAST[] = "{\"pooling_mode_lasttoken\":true}";
    static const char MODULES[] = "[" TYPE("Transformer") "," POOLING "]";
    const struct {
        files f;
        tdm_status status;
        const char *says;
    } REFUSALS[] = {
        {{"[" TYPE("Transformer") "," POOLING "," TYPE("Dense") "]", LAST, NULL, NULL},
         TDM_E_UNSUPPORTED,
         "Dense"},
        {{"[" POOLING "," TYPE("Transformer") "]", LAST, NULL, NULL}, TDM_E_UNSUPPORTED, "Pooling"},
        {{"[" TYPE("Transformer") "," POOLING "," TYPE("Normalize") "," TYPE("Normalize") "]", LAST,
          NULL, NULL},
         TDM_E_UNSUPPORTED,
         "Normalize"},
        {{"[" TYPE("Transformer") "]", LAST, NULL, NULL}, TDM_E_FORMAT, "modules.json"},
        {{"{}", LAST, NULL, NULL}, TDM_E_FORMAT, "modules.json"},
        {{"[1,2]", LAST, NULL, NULL}, TDM_E_UNSUPPORTED, "$[0].type"},
        {{"nonsense", LAST, NULL, NULL}, TDM_E_FORMAT, "modules.json"},
        {{MODULES, NULL, NULL, NULL}, TDM_E_FORMAT, "1_Pooling/config.json"},
        {{"[" TYPE("Transformer") ",{\"type\":\"a.Pooling\",\"path\":\"../x\"}]", LAST, NULL, NULL},
         TDM_E_UNSUPPORTED,
         "$[1].path"},
        {{"[{\"type\":\"a.Transformer\",\"path\":\"0_Transformer\"}," POOLING "]", LAST, NULL,
          NULL},
         TDM_E_UNSUPPORTED,
         "$[0].path"},
        {{MODULES, "{\"pooling_mode_max_tokens\":true}", NULL, NULL}, TDM_E_UNSUPPORTED, "max"},
        {{MODULES, "{\"pooling_mode_weightedmean_tokens\":true}", NULL, NULL},
         TDM_E_UNSUPPORTED,
         "weightedmean"},
        {{MODULES, "{\"pooling_mode\":\"colbert\"}", NULL, NULL}, TDM_E_UNSUPPORTED, "colbert"},
        {{MODULES, "{\"pooling_mode_lasttoken\":true,\"pooling_mode_mean_tokens\":true}", NULL,
          NULL},
         TDM_E_UNSUPPORTED,
         "mean"},
        {{MODULES, "{}", NULL, NULL}, TDM_E_UNSUPPORTED, "none"},
        {{MODULES, "{\"pooling_mode_lasttoken\":true,\"word_embedding_dimension\":9}", NULL, NULL},
         TDM_E_FORMAT,
         "word_embedding_dimension"},
        {{NULL, NULL, "{\"prompts\":{\"query\":3}}", NULL}, TDM_E_FORMAT, "query"},
        {{NULL, NULL, "{\"prompts\":{},\"default_prompt_name\":\"poem\"}", NULL},
         TDM_E_FORMAT,
         "poem"},
        {{NULL, NULL, "{\"truncate_dim\":9}", NULL}, TDM_E_FORMAT, "truncate_dim"},
        {{NULL, NULL, "{\"truncate_dim\":0}", NULL}, TDM_E_FORMAT, "truncate_dim"},
        {{NULL, NULL, NULL, "{\"do_lower_case\":true}"}, TDM_E_UNSUPPORTED, "do_lower_case"},
        {{NULL, NULL, NULL, "{\"max_seq_length\":-1}"}, TDM_E_FORMAT, "max_seq_length"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(REFUSALS); i++) {
        refuse(&REFUSALS[i].f, REFUSALS[i].status, REFUSALS[i].says);
    }
}

/* pooling_type of a GGUF file: 0 says nothing, 4 ranks pairs and makes no vector. */
static void gguf_says_it_by_number(void **state) {
    static const tdm_pooling WANTED[] = {TDM_POOLING_AUTO, TDM_POOLING_MEAN, TDM_POOLING_FIRST,
                                         TDM_POOLING_LAST};
    (void)state;
    for (uint32_t type = 0; type <= 5; type++) {
        const tdm_checkpoint_options options = {.fs = &disk.fs};
        tdm_embed_config *config = NULL;
        tdm_error err = {0};
        bytes b = {0};
        gguf_head(&b, 0, 2);
        gguf_kv_text(&b, "general.architecture", "qwen3");
        gguf_kv_u32(&b, "qwen3.pooling_type", type);
        bytes_pad(&b, 32);
        mem_fs_init(&disk);
        mem_fs_put(&disk, "m.gguf", b.data, b.len);
        assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "m.gguf", &options, &err), TDM_OK);
        if (type < SUPPORT_LEN(WANTED)) {
            assert_int_equal(tdm_embed_config_open(&config, NULL, checkpoint, HIDDEN, &err),
                             TDM_OK);
            assert_int_equal(tdm_embed_config_facts(config)->pooling, WANTED[type]);
        } else {
            assert_int_equal(tdm_embed_config_open(&config, NULL, checkpoint, HIDDEN, &err),
                             TDM_E_UNSUPPORTED);
            assert_non_null(strstr(err.where, "qwen3.pooling_type"));
        }
        close_all(config);
        bytes_free(&b);
    }
}

static void failed_allocations_leave_nothing(void **state) {
    const files f = {"[" TYPE("Transformer") "," POOLING "," TYPE("Normalize") "]",
                     "{\"pooling_mode_lasttoken\":true}", "{\"prompts\":{\"query\":\"Q: \"}}",
                     "{\"max_seq_length\":100}"};
    tdm_status status = TDM_E_NOMEM;
    (void)state;
    for (size_t n = 1; status == TDM_E_NOMEM; n++) {
        tdm_alloc_tracker tracker;
        tdm_embed_config *config = NULL;
        tdm_error err;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        status = open_files(&f, &tracker.alloc, &config, &err);
        close_all(config);
        assert_int_equal(tracker.live_bytes, 0);
        assert_true(n < 100);
    }
    assert_int_equal(status, TDM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_checkpoint_says_nothing),
        cmocka_unit_test(all_files_are_honoured),
        cmocka_unit_test(poolings_have_two_spellings),
        cmocka_unit_test(what_is_not_done_is_refused),
        cmocka_unit_test(gguf_says_it_by_number),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}

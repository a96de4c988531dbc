/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of path, on a disk in memory: folders, shards, splits, wrong turns, faults. */
#include "formats/checkpoint.h"

#include "formats/gguf.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#define ONE "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"

static bytes one_tensor(const char *name, size_t data_bytes) {
    char header[200];
    (void)snprintf(header, sizeof header, ONE, name);
    return safetensors_of(header, data_bytes);
}

static tdm_checkpoint *must_open(mem_fs *m, const char *path) {
    const tdm_checkpoint_options options = {.fs = &m->fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_error err = {0};
    if (tdm_checkpoint_open(&checkpoint, NULL, path, &options, &err) != TDM_OK) {
        fail_msg("%s: %s at %s", path, err.what, err.where);
    }
    return checkpoint;
}

static void refuse_with(mem_fs *m, const char *path, tdm_checkpoint_options options,
                        tdm_status status, const char *says) {
    tdm_checkpoint *checkpoint = NULL;
    tdm_error err = {0};
    char all[800];
    tdm_status got = TDM_OK;
    options.fs = &m->fs;
    got = tdm_checkpoint_open(&checkpoint, NULL, path, &options, &err);
    (void)snprintf(all, sizeof all, "%s | %s | %s", err.what, err.where, err.remedy);
    if (got != status || strstr(all, says) == NULL || err.where[0] == '\0') {
        fail_msg("%s: wanted %s with \"%s\": %s, %s", path, tdm_status_name(status), says,
                 tdm_status_name(got), all);
    }
    assert_null(checkpoint);
    assert_int_equal(m->n_open, 0);
}

static void refuse(mem_fs *m, const char *path, tdm_status status, const char *says) {
    refuse_with(m, path, (tdm_checkpoint_options){0}, status, says);
}

static void opens_a_folder(void **state) {
    bytes b = one_tensor("w", 5);
    mem_fs m;
    tdm_checkpoint *checkpoint = NULL;
    (void)state;
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", "{\"model_type\":\"llama\"}");
    mem_fs_put_text(&m, "d/generation_config.json", "{\"top_k\":3}");
    mem_fs_put(&m, "d/model.safetensors", b.data, b.len);
    mem_fs_put_text(&m, "d/pytorch_model.bin", "left alone");
    checkpoint = must_open(&m, "d");
    assert_int_equal(tdm_checkpoint_container(checkpoint), TDM_CONTAINER_SAFETENSORS);
    assert_string_equal(tdm_checkpoint_path(checkpoint), "d");
    assert_int_equal(tdm_checkpoint_n_tensors(checkpoint), 1);
    assert_int_equal(tdm_checkpoint_n_files(checkpoint), 1);
    assert_string_equal(tdm_checkpoint_file_name(checkpoint, 0), "model.safetensors");
    assert_ptr_equal(tdm_checkpoint_find(checkpoint, "w"), tdm_checkpoint_tensor_at(checkpoint, 0));
    assert_null(tdm_checkpoint_find(checkpoint, "v"));
    assert_true(
        tdm_json_text_is(tdm_json_get(tdm_checkpoint_config(checkpoint), "model_type"), "llama"));
    assert_non_null(tdm_checkpoint_generation_config(checkpoint));
    assert_null(tdm_checkpoint_tokenizer_config(checkpoint));
    assert_null(tdm_checkpoint_gguf(checkpoint));
    assert_int_equal(tdm_checkpoint_n_warnings(checkpoint), 1);
    assert_non_null(strstr(tdm_checkpoint_warning(checkpoint, 0), "3 bytes follow"));
    tdm_checkpoint_close(checkpoint);
    tdm_checkpoint_close(NULL);
    assert_int_equal(m.n_open, 0);
    refuse_with(&m, "d", (tdm_checkpoint_options){.is_strict = true}, TDM_E_FORMAT,
                "3 bytes follow");
    bytes_free(&b);
}

static const char INDEX[] = "d/model.safetensors.index.json";

/* Two shards, w1 and w2, and their index. */
static void put_shards(mem_fs *m, const bytes *one, const bytes *two) {
    mem_fs_init(m);
    mem_fs_put_text(m, "d/config.json", "{}");
    mem_fs_put(m, "d/b.safetensors", one->data, one->len);
    mem_fs_put(m, "d/a.safetensors", two->data, two->len);
    mem_fs_put_text(m, INDEX,
                    "{\"weight_map\":{\"w1\":\"b.safetensors\",\"w2\":\"a.safetensors\"}}");
}

static void opens_shards(void **state) {
    bytes one = one_tensor("w1", 2);
    bytes two = one_tensor("w2", 2);
    mem_fs m;
    tdm_checkpoint *checkpoint = NULL;
    const tdm_checkpoint_tensor *tensor = NULL;
    (void)state;
    put_shards(&m, &one, &two);
    checkpoint = must_open(&m, "d");
    assert_int_equal(tdm_checkpoint_n_files(checkpoint), 2);
    tensor = tdm_checkpoint_find(checkpoint, "w1");
    assert_non_null(tensor);
    assert_string_equal(tdm_checkpoint_file_name(checkpoint, tensor->file_idx), "b.safetensors");
    assert_ptr_equal(tensor->view.data, one.data + one.len - 2);
    assert_int_equal(tensor->offset, one.len - 2);
    tdm_checkpoint_close(checkpoint);
    bytes_free(&one);
    bytes_free(&two);
}

static void refuses_indexes(void **state) {
    static const struct {
        const char *index;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {"[]", TDM_E_FORMAT, "no object"},
        {"{}", TDM_E_FORMAT, "no weight_map"},
        {"{\"weight_map\":{}}", TDM_E_FORMAT, "no weight_map"},
        {"{\"weight_map\":{\"w1\":3}}", TDM_E_FORMAT, "$.weight_map[\"w1\"]"},
        {"{\"weight_map\":{\"w1\":\"../b.safetensors\"}}", TDM_E_FORMAT, "not allowed"},
        {"{\"weight_map\":{\"w1\":\"/b.safetensors\"}}", TDM_E_FORMAT, "not allowed"},
        {"{\"weight_map\":{\"w1\":\"x/b.safetensors\"}}", TDM_E_FORMAT, "not allowed"},
        {"{\"weight_map\":{\"w1\":\"b..c.safetensors\"}}", TDM_E_FORMAT, "not allowed"},
        {"{\"weight_map\":{\"w1\":\"b.bin\"}}", TDM_E_FORMAT, "not allowed"},
        {"{\"weight_map\":{\"w1\":\"b\\u0000.safetensors\"}}", TDM_E_FORMAT, "not allowed"},
        {"{\"weight_map\":{\"w1\":\"b.safetensors\",\"w1\":\"a.safetensors\"}}", TDM_E_FORMAT,
         "twice"},
        {"{\"weight_map\":{\"w1\":\"b.safetensors\",\"w2\":\"c.safetensors\"}}", TDM_E_NOT_FOUND,
         "c.safetensors"},
        {"{\"weight_map\":{\"w1\":\"b.safetensors\",\"w3\":\"a.safetensors\"}}", TDM_E_FORMAT,
         "lacks a tensor"},
        {"{\"weight_map\":{\"w1\":\"a.safetensors\",\"w2\":\"b.safetensors\"}}", TDM_E_FORMAT,
         "tensor lies in b.safetensors, not in a.safetensors"},
        {"{\"weight_map\":{\"w1\":\"b.safetensors\",\"w2\":\"b.safetensors\"}}", TDM_E_FORMAT,
         "lacks a tensor"},
        {"{\"weight_map\":{\"w1\":\"b.safetensors\",\"w2\":\"a.safetensors\",\"w1\\u0000\":"
         "\"a.safetensors\"}}",
         TDM_E_FORMAT, "lacks a tensor"},
    };
    bytes one = one_tensor("w1", 2);
    bytes two = one_tensor("w2", 2);
    mem_fs m;
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        put_shards(&m, &one, &two);
        mem_fs_put_text(&m, INDEX, CASES[i].index);
        refuse(&m, "d", CASES[i].status, CASES[i].says);
    }
    bytes_free(&two);
    two = safetensors_of("{\"w2\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                         "\"extra\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                         0);
    put_shards(&m, &one, &two);
    refuse(&m, "d", TDM_E_FORMAT, "not listed in the index");
    bytes_free(&two);
    two = one_tensor("w1", 2);
    put_shards(&m, &one, &two);
    refuse(&m, "d", TDM_E_FORMAT, "occurs in two files");
    bytes_free(&one);
    bytes_free(&two);
}

static void single_file_beside_an_index(void **state) {
    bytes b = one_tensor("w1", 2);
    mem_fs m;
    tdm_checkpoint *checkpoint = NULL;
    (void)state;
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", "{}");
    mem_fs_put(&m, "d/model.safetensors", b.data, b.len);
    mem_fs_put_text(&m, INDEX, "{\"weight_map\":{\"w1\":\"model.safetensors\"}}");
    checkpoint = must_open(&m, "d");
    assert_int_equal(tdm_checkpoint_n_warnings(checkpoint), 0);
    tdm_checkpoint_close(checkpoint);
    mem_fs_put_text(&m, INDEX, "{\"weight_map\":{\"w9\":\"model.safetensors\"}}");
    refuse(&m, "d", TDM_E_FORMAT, "lacks a tensor");
    mem_fs_put_text(&m, INDEX, "{\"weight_map\":{\"w9\":\"gone.safetensors\"}}");
    checkpoint = must_open(&m, "d");
    assert_int_equal(tdm_checkpoint_n_warnings(checkpoint), 1);
    tdm_checkpoint_close(checkpoint);
    bytes_free(&b);
}

static void wrong_turns_are_named(void **state) {
    bytes b = one_tensor("w", 2);
    bytes g = gguf_small();
    mem_fs m;
    tdm_checkpoint *checkpoint = NULL;
    (void)state;
    mem_fs_init(&m);
    mem_fs_put(&m, "weights/model.safetensors", b.data, b.len);
    mem_fs_put(&m, "named/adapter.safetensors", b.data, b.len);
    mem_fs_put_text(&m, "pickles/pytorch_model.bin", "PK");
    mem_fs_put_text(&m, "pickles/config.json", "{}");
    mem_fs_put_text(&m, "empty/readme.md", "x");
    mem_fs_put_text(&m, "words/tokenizer.json", "{}");
    mem_fs_put(&m, "two/a.gguf", g.data, g.len);
    mem_fs_put(&m, "two/b.gguf", g.data, g.len);
    mem_fs_put(&m, "blob/sha256-00", g.data, g.len);
    refuse(&m, "weights", TDM_E_NOT_FOUND, "no config.json");
    refuse(&m, "named", TDM_E_NOT_FOUND, "adapter.safetensors");
    refuse(&m, "pickles", TDM_E_UNSUPPORTED, "pickle");
    refuse(&m, "pickles/pytorch_model.bin", TDM_E_UNSUPPORTED, "pickle");
    refuse(&m, "weights/model.safetensors", TDM_E_UNSUPPORTED, "give the folder");
    refuse(&m, "empty", TDM_E_NOT_FOUND, "holds no checkpoint");
    refuse(&m, "empty/readme.md", TDM_E_UNSUPPORTED, "no GGUF file");
    refuse(&m, "words", TDM_E_NOT_FOUND, "holds no checkpoint");
    refuse(&m, "two", TDM_E_NOT_FOUND, "2 GGUF files");
    refuse(&m, "two/c.gguf", TDM_E_NOT_FOUND, "did you mean a.gguf?");
    refuse(&m, "two/zzzzzzzzzzzzzzzzzzzz", TDM_E_NOT_FOUND, "check the path");
    checkpoint = must_open(&m, "blob/sha256-00");
    assert_int_equal(tdm_checkpoint_n_tensors(checkpoint), 2);
    tdm_checkpoint_close(checkpoint);
    {
        const tdm_checkpoint_options options = {.fs = &m.fs, .is_tokenizer_enough = true};
        assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "words", &options, NULL), TDM_OK);
        assert_int_equal(tdm_checkpoint_n_tensors(checkpoint), 0);
        assert_null(tdm_checkpoint_config(checkpoint));
        assert_null(tdm_checkpoint_find(checkpoint, "x"));
        tdm_checkpoint_close(checkpoint);
    }
    bytes_free(&b);
    bytes_free(&g);
}

/* ---- splits ---- */

static bytes part(uint32_t no, uint32_t count, uint32_t n_tensors, const char *tensor) {
    bytes b = {0};
    gguf_head(&b, 1, 3);
    gguf_kv_u32(&b, "split.no", no);
    gguf_kv_u32(&b, "split.count", count);
    gguf_kv_u32(&b, "split.tensors.count", n_tensors);
    gguf_tensor(&b, tensor, 8, 0, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, (uint8_t)no, 32);
    return b;
}

#define P1 "s/m-00001-of-00002.gguf"
#define P2 "s/m-00002-of-00002.gguf"

static void put_parts(mem_fs *m, const bytes *one, const bytes *two) {
    mem_fs_init(m);
    mem_fs_put(m, P1, one->data, one->len);
    if (two != NULL) {
        mem_fs_put(m, P2, two->data, two->len);
    }
}

static void opens_splits(void **state) {
    bytes one = part(0, 2, 2, "a");
    bytes two = part(1, 2, 2, "b");
    mem_fs m;
    (void)state;
    put_parts(&m, &one, &two);
    for (int i = 0; i < 2; i++) { /* the first part, and the folder, which holds one model */
        tdm_checkpoint *checkpoint = must_open(&m, i == 0 ? P1 : "s");
        const tdm_checkpoint_tensor *b = tdm_checkpoint_find(checkpoint, "b");
        assert_int_equal(tdm_checkpoint_n_tensors(checkpoint), 2);
        assert_int_equal(tdm_checkpoint_n_files(checkpoint), 2);
        assert_non_null(b);
        assert_int_equal(b->file_idx, 1);
        assert_int_equal(*(const uint8_t *)b->view.data, 1);
        assert_int_equal(tdm_gguf_n_tensors(tdm_checkpoint_gguf(checkpoint)), 1);
        tdm_checkpoint_close(checkpoint);
    }
    refuse(&m, P2, TDM_E_FORMAT, "open the first part, m-00001-of-00002.gguf");
    put_parts(&m, &one, NULL);
    refuse(&m, P1, TDM_E_NOT_FOUND, "m-00002-of-00002.gguf");
    mem_fs_init(&m);
    mem_fs_put(&m, "s/renamed.gguf", one.data, one.len);
    refuse(&m, "s/renamed.gguf", TDM_E_FORMAT, "not named like one");
    bytes_free(&one);
    bytes_free(&two);
}

static void refuses_parts_that_disagree(void **state) {
    static const struct {
        uint32_t no1, count1, total1, no2, count2;
        const char *name2, *says;
    } CASES[] = {
        {0, 2, 3, 1, 2, "b", "should have 3 tensors; its parts have 2"},
        {0, 2, 2, 1, 3, "b", "part 2 of 3; its name says 2 of 2"},
        {0, 2, 2, 0, 2, "b", "part 1 of 2; its name says 2 of 2"},
        {0, 3, 2, 1, 3, "b", "not named like one"},
        {0, 2, 2, 1, 2, "a", "occurs in two files"},
        {1, 2, 2, 1, 2, "b", "part 2 of 2"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        bytes one = part(CASES[i].no1, CASES[i].count1, CASES[i].total1, "a");
        bytes two = part(CASES[i].no2, CASES[i].count2, 2, CASES[i].name2);
        mem_fs m;
        put_parts(&m, &one, &two);
        refuse(&m, P1, TDM_E_FORMAT, CASES[i].says);
        bytes_free(&one);
        bytes_free(&two);
    }
    {
        bytes one = part(0, 5000, 1, "a");
        mem_fs m;
        put_parts(&m, &one, NULL);
        refuse(&m, P1, TDM_E_LIMIT, "5000 parts");
        bytes_free(&one);
    }
}

/* ---- faults ---- */

static void every_operation_may_fail(void **state) {
    bytes one = one_tensor("w1", 2);
    bytes two = one_tensor("w2", 2);
    mem_fs m;
    size_t n = 0;
    (void)state;
    put_shards(&m, &one, &two);
    for (n = 1; n < 200; n++) {
        const tdm_checkpoint_options options = {.fs = &m.fs};
        tdm_checkpoint *checkpoint = NULL;
        tdm_status status = TDM_OK;
        m.n_ops = 0;
        m.fail_at = n;
        status = tdm_checkpoint_open(&checkpoint, NULL, "d", &options, NULL);
        tdm_checkpoint_close(checkpoint);
        assert_int_equal(m.n_open, 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_IO);
    }
    assert_in_range(n, 10, 199);
    bytes_free(&one);
    bytes_free(&two);
}

static void every_allocation_may_fail(void **state) {
    bytes one = one_tensor("w1", 4); /* with trailing bytes, so that a warning is made */
    bytes two = one_tensor("w2", 2);
    mem_fs m;
    size_t n = 0;
    (void)state;
    put_shards(&m, &one, &two);
    for (n = 1; n < 2000; n++) {
        const tdm_checkpoint_options options = {.fs = &m.fs};
        tdm_alloc_tracker tracker;
        tdm_checkpoint *checkpoint = NULL;
        tdm_status status = TDM_OK;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        status = tdm_checkpoint_open(&checkpoint, &tracker.alloc, "d", &options, NULL);
        tdm_checkpoint_close(checkpoint);
        assert_int_equal(tracker.n_live, 0);
        assert_int_equal(m.n_open, 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
    }
    assert_in_range(n, 20, 1999);
    bytes_free(&one);
    bytes_free(&two);
}

/* The real disk, with the links that a Hugging Face cache is made of. */
static void follows_links(void **state) {
    char folder[SUPPORT_PATH_MAX];
    char blob[SUPPORT_PATH_MAX];
    char link_path[SUPPORT_PATH_MAX];
    char config[SUPPORT_PATH_MAX];
    bytes b = one_tensor("w", 2);
    tdm_checkpoint *checkpoint = NULL;
    (void)state;
    (void)support_temp_folder(folder);
    support_write_file(support_join(blob, folder, "0123abcd"), b.data, b.len);
    support_write_file(support_join(config, folder, "config.json"), "{}", 2);
    assert_int_equal(symlink("0123abcd", support_join(link_path, folder, "model.safetensors")), 0);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, folder, NULL, NULL), TDM_OK);
    assert_memory_equal(tdm_checkpoint_find(checkpoint, "w")->view.data, "\5\5", 2);
    tdm_checkpoint_close(checkpoint);
    support_remove_folder(folder);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_a_folder),
        cmocka_unit_test(opens_shards),
        cmocka_unit_test(refuses_indexes),
        cmocka_unit_test(single_file_beside_an_index),
        cmocka_unit_test(wrong_turns_are_named),
        cmocka_unit_test(opens_splits),
        cmocka_unit_test(refuses_parts_that_disagree),
        cmocka_unit_test(every_operation_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(follows_links),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}

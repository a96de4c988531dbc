/* SPDX-License-Identifier: Apache-2.0
 *
 * What MODEL means, on a disk in memory. */
#include "support/support.h"

#include "cli/find_model.h"

static const tdm_env ENV = {.home = "/h"};

static tdm_fs_sim *make_disk(void) {
    static const char *const FILES[] = {
        "/here/model.gguf",
        "/here/folder/config.json",
        "/here/folder/model.safetensors",
        "/here/one/only.gguf",
        "/here/two/a.gguf",
        "/here/two/b.gguf",
        "/here/split/m-00001-of-00002.gguf",
        "/here/split/m-00002-of-00002.gguf",
        "/h/.cache/tandem/models/Tiny-1B.Q4_0.gguf",
        "/h/.cache/tandem/models/folder/config.json",
        "/h/.cache/tandem/models/folder/model.safetensors",
        "/h/.cache/tandem/models/notes.txt",
        "/h/.cache/huggingface/hub/models--org--name/snapshots/abc/config.json",
        "/h/.cache/huggingface/hub/models--org--name/snapshots/abc/model.safetensors",
        "/h/.cache/huggingface/hub/models--org--broken/snapshots/abc/config.json",
        "/h/.cache/huggingface/hub/version.txt",
        "/x/hub/models--a--b/snapshots/1/w.gguf",
    };
    tdm_fs_sim *sim = NULL;
    assert_int_equal(tdm_fs_sim_create(&sim, NULL, NULL), TDM_OK);
    for (size_t i = 0; i < SUPPORT_LEN(FILES); i++) {
        assert_int_equal(tdm_fs_sim_put(sim, FILES[i], "12345678", 8, NULL), TDM_OK);
    }
    assert_int_equal(tdm_fs_sim_put(sim, "/h/.cache/huggingface/hub/models--org--name/refs/main",
                                    "abc\n", 4, NULL),
                     TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "/x/hub/models--a--b/refs/main", "1", 1, NULL), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "/h/.cache/huggingface/hub/models--org--broken/refs/main",
                                    "../../x", 7, NULL),
                     TDM_OK);
    return sim;
}

static void finds(const tdm_env *env, const tdm_fs *fs, const char *name, const char *path) {
    char out[TDM_PATH_MAX];
    tdm_error err = {.code = TDM_OK};
    const tdm_status status = tdm_find_model(env, fs, name, out, &err);
    if (status != TDM_OK) {
        fail_msg("%s: %s", name, err.what);
    }
    assert_string_equal(out, path);
}

static void test_paths(void **state) {
    tdm_fs_sim *sim = make_disk();
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    (void)state;
    finds(&ENV, fs, "/here/model.gguf", "/here/model.gguf");
    finds(&ENV, fs, "/here/folder", "/here/folder");
    finds(&ENV, fs, "/here/one", "/here/one/only.gguf");
    finds(&ENV, fs, "/here/split", "/here/split/m-00001-of-00002.gguf");
    tdm_fs_sim_destroy(sim);
}

static void test_folder_of_several(void **state) {
    tdm_fs_sim *sim = make_disk();
    char out[TDM_PATH_MAX];
    tdm_error err = {.code = TDM_OK};
    (void)state;
    assert_int_equal(tdm_find_model(&ENV, tdm_fs_sim_fs(sim), "/here/two", out, &err), TDM_E_ARG);
    assert_non_null(strstr(err.what, "2 .gguf files"));
    assert_non_null(strstr(err.remedy, "a.gguf"));
    tdm_fs_sim_destroy(sim);
}

static void test_own_folder(void **state) {
    tdm_fs_sim *sim = make_disk();
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    (void)state;
    finds(&ENV, fs, "Tiny-1B.Q4_0", "/h/.cache/tandem/models/Tiny-1B.Q4_0.gguf");
    finds(&ENV, fs, "Tiny-1B.Q4_0.gguf", "/h/.cache/tandem/models/Tiny-1B.Q4_0.gguf");
    finds(&ENV, fs, "folder", "/h/.cache/tandem/models/folder");
    tdm_fs_sim_destroy(sim);
}

static void test_hugging_face(void **state) {
    const tdm_env by_home = {.home = "/h", .hf_home = "/x"};
    const tdm_env by_cache = {.home = "/h", .hf_home = "/no", .hf_hub_cache = "/x/hub"};
    tdm_fs_sim *sim = make_disk();
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    char out[TDM_PATH_MAX];
    (void)state;
    finds(&ENV, fs, "org/name", "/h/.cache/huggingface/hub/models--org--name/snapshots/abc");
    finds(&by_home, fs, "a/b", "/x/hub/models--a--b/snapshots/1/w.gguf");
    finds(&by_cache, fs, "a/b", "/x/hub/models--a--b/snapshots/1/w.gguf");
    /* a revision that climbs out of the cache is none */
    assert_int_equal(tdm_find_model(&ENV, fs, "org/broken", out, NULL), TDM_E_NOT_FOUND);
    assert_int_equal(tdm_find_model(&by_home, fs, "org/name", out, NULL), TDM_E_NOT_FOUND);
    tdm_fs_sim_destroy(sim);
}

static void test_near_names(void **state) {
    tdm_fs_sim *sim = make_disk();
    char out[TDM_PATH_MAX];
    tdm_error err = {.code = TDM_OK};
    (void)state;
    assert_int_equal(tdm_find_model(&ENV, tdm_fs_sim_fs(sim), "tiny-1b", out, &err),
                     TDM_E_NOT_FOUND);
    assert_non_null(strstr(err.remedy, "Tiny-1B.Q4_0"));
    assert_int_equal(tdm_find_model(&ENV, tdm_fs_sim_fs(sim), "../folder", out, &err),
                     TDM_E_NOT_FOUND);
    assert_int_equal(tdm_find_model(&ENV, tdm_fs_sim_fs(sim), "", out, &err), TDM_E_NOT_FOUND);
    tdm_fs_sim_destroy(sim);
}

static void test_no_environment(void **state) {
    const tdm_env none = {.home = NULL};
    tdm_fs_sim *sim = make_disk();
    char out[TDM_PATH_MAX];
    (void)state;
    assert_int_equal(tdm_find_model(&none, tdm_fs_sim_fs(sim), "folder", out, NULL),
                     TDM_E_NOT_FOUND);
    finds(&none, tdm_fs_sim_fs(sim), "/here/folder", "/here/folder");
    tdm_fs_sim_destroy(sim);
}

typedef struct seen {
    char names[512];
    uint64_t bytes;
} seen;

static tdm_status note(void *arg, const tdm_model_entry *entry, tdm_error *err) {
    seen *s = arg;
    const size_t len = strlen(s->names);
    (void)err;
    (void)snprintf(s->names + len, sizeof s->names - len, "%s:%s ", entry->source, entry->name);
    s->bytes += entry->bytes;
    return TDM_OK;
}

static void test_list(void **state) {
    tdm_fs_sim *sim = make_disk();
    seen s = {.bytes = 0};
    (void)state;
    assert_int_equal(tdm_models_walk(&ENV, tdm_fs_sim_fs(sim), note, &s, NULL), TDM_OK);
    assert_string_equal(s.names, "tandem:Tiny-1B.Q4_0 tandem:folder huggingface:org/name ");
    assert_int_equal(s.bytes, 24);
    tdm_fs_sim_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),      cmocka_unit_test(test_folder_of_several),
        cmocka_unit_test(test_own_folder), cmocka_unit_test(test_hugging_face),
        cmocka_unit_test(test_near_names), cmocka_unit_test(test_no_environment),
        cmocka_unit_test(test_list),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}

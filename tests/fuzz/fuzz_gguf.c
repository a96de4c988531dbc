/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a GGUF file. Properties: a refusal says where; an accepted file's views lie inside
 * it and share no byte, every name is found again, every getter stays inside; memory is
 * proportional to the input and all given back; opening the same bytes as a checkpoint and reading
 * its configuration agrees. */
#include "formats/gguf.h"
#include "fuzz/config_laws.h"
#include "unit/formats/mem_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(const void *at, size_t n, const uint8_t *data, size_t size) {
    const uintptr_t from = (uintptr_t)at;
    const uintptr_t base = (uintptr_t)data;
    return n == 0 || (from >= base && from - base <= size && n <= size - (from - base));
}

static void check_tensors(const tdm_gguf *gguf, const uint8_t *data, size_t size) {
    const size_t n = tdm_gguf_n_tensors(gguf);
    for (size_t i = 0; i < n; i++) {
        const tdm_tensor_view *view = tdm_gguf_tensor_view(gguf, i);
        const tdm_dtype_info *info = &TDM_DTYPES[view->dtype];
        size_t idx = n;
        size_t elements = 1;
        TDM_CHECK(is_inside(view->data, view->bytes, data, size));
        TDM_CHECK((const uint8_t *)view->data == data + tdm_gguf_tensor_offset(gguf, i));
        TDM_CHECK(tdm_gguf_find_tensor(gguf, tdm_gguf_tensor_name(gguf, i), &idx) && idx == i);
        TDM_CHECK(view->rank >= 1 && view->rank <= 4);
        for (int32_t d = 0; d < view->rank; d++) {
            elements *= (size_t)view->dims[d];
        }
        TDM_CHECK(elements / info->block_weights * info->block_bytes == view->bytes);
        for (size_t j = 0; j < i && n < 256; j++) {
            const tdm_tensor_view *other = tdm_gguf_tensor_view(gguf, j);
            TDM_CHECK((const uint8_t *)other->data + other->bytes <= (const uint8_t *)view->data ||
                      (const uint8_t *)view->data + view->bytes <= (const uint8_t *)other->data);
        }
    }
}

static void check_array(tdm_gguf_array_ref *ref, const uint8_t *data, size_t size) {
    const size_t n = ref->n < 4096 ? ref->n : 4096;
    for (size_t i = 0; i < n; i++) {
        const size_t idx = i % 2 == 0 ? i : ref->n - 1 - i; /* both ends */
        tdm_gguf_text text = {0};
        int64_t whole = 0;
        double real = 0.0;
        const bool is_text = tdm_gguf_ref_text(ref, idx, &text);
        const bool is_whole = tdm_gguf_ref_i64(ref, idx, &whole);
        const bool is_real = tdm_gguf_ref_f64(ref, idx, &real);
        TDM_CHECK(is_text + is_whole + is_real <= 1);
        TDM_CHECK(!is_text || is_inside(text.data, text.len, data, size));
        TDM_CHECK(is_text == (ref->type == TDM_GGUF_STRING));
    }
    TDM_CHECK(!tdm_gguf_ref_i64(ref, ref->n, &(int64_t){0}));
}

static void check_keys(const tdm_gguf *gguf, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < tdm_gguf_n_keys(gguf); i++) {
        tdm_gguf_type type = TDM_GGUF_U8;
        const char *key = tdm_gguf_key_at(gguf, i, &type);
        tdm_gguf_text text = {0};
        tdm_gguf_array_ref ref;
        int64_t whole = 0;
        uint64_t natural = 0;
        double real = 0.0;
        bool is_set = false;
        const bool is_text = tdm_gguf_get_text(gguf, key, &text);
        const bool is_array = tdm_gguf_array_find(gguf, key, &ref);
        const bool is_whole = tdm_gguf_get_i64(gguf, key, &whole);
        const bool is_natural = tdm_gguf_get_u64(gguf, key, &natural);
        const bool is_real = tdm_gguf_get_f64(gguf, key, &real);
        const bool is_bool = tdm_gguf_get_bool(gguf, key, &is_set);
        TDM_CHECK(key[0] != '\0' && tdm_gguf_has(gguf, key));
        TDM_CHECK(is_text == (type == TDM_GGUF_STRING) && is_array == (type == TDM_GGUF_ARRAY));
        TDM_CHECK(is_bool == (type == TDM_GGUF_BOOL));
        TDM_CHECK(is_text + is_array + (is_whole || is_natural) + is_real + is_bool <= 1);
        TDM_CHECK(!is_text || is_inside(text.data, text.len, data, size));
        if (is_array) {
            check_array(&ref, data, size);
        }
    }
}

static void check_checkpoint(bool is_parsed, const uint8_t *data, size_t size) {
    mem_fs m;
    tdm_checkpoint_options options = {0};
    tdm_checkpoint *checkpoint = NULL;
    tdm_error err = {0};
    tdm_model_config config;
    tdm_generation_config generation;
    mem_fs_init(&m);
    mem_fs_put(&m, "f/m-00001-of-00002.gguf", data, size);
    options.fs = &m.fs;
    if (tdm_checkpoint_open(&checkpoint, NULL, "f/m-00001-of-00002.gguf", &options, &err) ==
        TDM_OK) {
        TDM_CHECK(is_parsed);
        if (tdm_generation_config_read(&generation, checkpoint, &err) == TDM_OK) {
            TDM_CHECK(generation.top_k >= -1 && !(generation.temperature < 0.0));
        }
        if (tdm_model_config_read(&config, checkpoint, &err) == TDM_OK) {
            config_laws(&config);
        }
    }
    tdm_checkpoint_close(checkpoint);
    TDM_CHECK(m.n_open == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdm_alloc_tracker tracker;
    tdm_gguf *gguf = NULL;
    tdm_error err = {0};
    tdm_status status = TDM_OK;
    tdm_alloc_tracker_init(&tracker, NULL);
    status = tdm_gguf_parse(&gguf, &tracker.alloc, data, size, "input", &err);
    TDM_CHECK(tracker.peak_bytes <= 64 * size + 65536);
    TDM_CHECK((status == TDM_OK) == (gguf != NULL));
    if (status == TDM_OK) {
        check_tensors(gguf, data, size);
        check_keys(gguf, data, size);
    } else {
        TDM_CHECK(err.code == status && err.what[0] != '\0' && err.where[0] != '\0');
    }
    tdm_gguf_destroy(gguf);
    TDM_CHECK(tracker.n_live == 0 && tracker.live_bytes == 0);
    check_checkpoint(status == TDM_OK, data, size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as safetensors. The first byte chooses: even, the rest is one file; odd, the rest is a
 * folder: u16 length and text of config.json, u16 length and text of the index, and the shard
 * a.safetensors. Properties: a refusal says where; accepted views lie inside the file and share no
 * byte, every name is found again; memory is bounded and given back. */
#include "formats/inspect.h"
#include "formats/safetensors.h"
#include "fuzz/config_laws.h"
#include "unit/formats/mem_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(const tdm_tensor_view *view, const uint8_t *data, size_t size) {
    const uint8_t *at = view->data;
    size_t elements = 1;
    TDM_CHECK(at >= data && at <= data + size && view->bytes <= (size_t)(data + size - at));
    TDM_CHECK(view->rank >= 0 && view->rank <= TDM_RANK_MAX);
    for (int32_t d = 0; d < view->rank; d++) {
        TDM_CHECK(view->dims[d] >= 0);
        elements *= (size_t)view->dims[d];
    }
    TDM_CHECK(elements * TDM_DTYPES[view->dtype].block_bytes == view->bytes);
}

static void fuzz_file(const uint8_t *data, size_t size) {
    tdm_alloc_tracker tracker;
    tdm_safetensors *file = NULL;
    tdm_error err = {0};
    tdm_status status = TDM_OK;
    tdm_alloc_tracker_init(&tracker, NULL);
    status = tdm_safetensors_parse(&file, &tracker.alloc, data, size, "input", &err);
    TDM_CHECK(tracker.peak_bytes <= 64 * size + 65536);
    TDM_CHECK((status == TDM_OK) == (file != NULL));
    if (status != TDM_OK) {
        TDM_CHECK(err.code == status && err.what[0] != '\0' && err.where[0] != '\0');
    }
    for (size_t i = 0; file != NULL && i < tdm_safetensors_n_tensors(file); i++) {
        const tdm_tensor_view *view = tdm_safetensors_tensor_view(file, i);
        const size_t n = tdm_safetensors_n_tensors(file);
        size_t idx = n;
        check_view(view, data, size);
        TDM_CHECK(tdm_safetensors_find(file, tdm_safetensors_tensor_name(file, i), &idx));
        TDM_CHECK(idx == i);
        for (size_t j = 0; j < i && n < 256 && view->bytes > 0; j++) {
            const tdm_tensor_view *other = tdm_safetensors_tensor_view(file, j);
            TDM_CHECK(other->bytes == 0 ||
                      (const uint8_t *)other->data + other->bytes <= (const uint8_t *)view->data ||
                      (const uint8_t *)view->data + view->bytes <= (const uint8_t *)other->data);
        }
    }
    tdm_safetensors_destroy(file);
    TDM_CHECK(tracker.n_live == 0 && tracker.live_bytes == 0);
}

/* A u16 length and that many bytes (fewer at the end), cut off the front of the input. */
static const uint8_t *take(const uint8_t **data, size_t *size, size_t *out_len) {
    const uint8_t *text = NULL;
    size_t len = 0;
    if (*size >= 2) {
        len = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
        *data += 2;
        *size -= 2;
    }
    text = *data;
    len = len < *size ? len : *size;
    *data += len;
    *size -= len;
    *out_len = len;
    return text;
}

static void check_folder(const tdm_checkpoint *checkpoint, const uint8_t *shard, size_t size) {
    tdm_error err = {0};
    tdm_model_config config;
    tdm_inspect counts;
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        check_view(&tensor->view, shard, size);
        TDM_CHECK(tdm_checkpoint_find(checkpoint, tensor->name) == tensor);
        TDM_CHECK(tensor->file_idx < tdm_checkpoint_n_files(checkpoint));
    }
    tdm_checkpoint_inspect(checkpoint, &counts);
    TDM_CHECK(counts.total.n_tensors == tdm_checkpoint_n_tensors(checkpoint));
    if (tdm_model_config_read(&config, checkpoint, &err) == TDM_OK) {
        config_laws(&config);
    } else {
        TDM_CHECK(err.what[0] != '\0' && err.where[0] != '\0');
    }
}

static void fuzz_folder(const uint8_t *data, size_t size) {
    mem_fs m;
    tdm_alloc_tracker tracker;
    tdm_checkpoint_options options = {0};
    tdm_checkpoint *checkpoint = NULL;
    tdm_error err = {0};
    size_t config_len = 0;
    size_t index_len = 0;
    const uint8_t *config = take(&data, &size, &config_len);
    const uint8_t *index = take(&data, &size, &index_len);
    mem_fs_init(&m);
    mem_fs_put(&m, "f/config.json", config, config_len);
    mem_fs_put(&m, "f/generation_config.json", config, config_len);
    mem_fs_put(&m, "f/model.safetensors.index.json", index, index_len);
    mem_fs_put(&m, "f/a.safetensors", data, size);
    options.fs = &m.fs;
    tdm_alloc_tracker_init(&tracker, NULL);
    if (tdm_checkpoint_open(&checkpoint, &tracker.alloc, "f", &options, &err) == TDM_OK) {
        check_folder(checkpoint, data, size);
    } else {
        TDM_CHECK(err.what[0] != '\0' && err.where[0] != '\0');
    }
    tdm_checkpoint_close(checkpoint);
    TDM_CHECK(m.n_open == 0 && tracker.n_live == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        fuzz_file(data + 1, size - 1);
    } else {
        fuzz_folder(data + 1, size - 1);
    }
    return 0;
}

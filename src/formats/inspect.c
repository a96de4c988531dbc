/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting. Sums can not overflow: each tensor lies in a mapped file, and elements times bits fit
 * by the same bound. */
#include "formats/inspect.h"

#include <stdio.h>
#include <string.h>

/* Length of the module's name when name ends with suffix, else 0. */
static size_t module_len(const char *name, const char *suffix) {
    const size_t len = strlen(name);
    const size_t suffix_len = strlen(suffix);
    return len > suffix_len && strcmp(name + (len - suffix_len), suffix) == 0 ? len - suffix_len
                                                                              : 0;
}

static bool has_sibling(const tdm_checkpoint *checkpoint, const char *module, size_t len,
                        const char *suffix) {
    char name[1200];
    const int n = snprintf(name, sizeof name, "%.*s%s", (int)len, module, suffix);
    return n > 0 && (size_t)n < sizeof name && tdm_checkpoint_find(checkpoint, name) != NULL;
}

/* Bits of a packed weight: the module's own entry in quantization, else the global one; 0 when
 * config.json does not say. */
static int64_t packed_bits(const tdm_checkpoint *checkpoint, const char *module, size_t len) {
    const tdm_json *quantization = tdm_json_get(tdm_checkpoint_config(checkpoint), "quantization");
    int64_t bits = 0;
    if (!tdm_json_as_i64(tdm_json_get(tdm_json_get_n(quantization, module, len), "bits"), &bits)) {
        (void)tdm_json_as_i64(tdm_json_get(quantization, "bits"), &bits);
    }
    return bits > 0 && bits <= 32 ? bits : 0;
}

static uint64_t count_parameters(const tdm_checkpoint *checkpoint,
                                 const tdm_checkpoint_tensor *tensor, uint64_t n_elements) {
    static const char *const EXTRAS[] = {".scales", ".biases"};
    size_t len = module_len(tensor->name, ".weight");
    if (len > 0 && tensor->view.dtype == TDM_DTYPE_U32 &&
        has_sibling(checkpoint, tensor->name, len, ".scales")) {
        const int64_t bits = packed_bits(checkpoint, tensor->name, len);
        /* bounded: eight times the bytes of a mapped file */
        return bits > 0 ? n_elements * 32 / (uint64_t)bits : n_elements;
    }
    for (size_t i = 0; i < sizeof EXTRAS / sizeof EXTRAS[0]; i++) {
        len = module_len(tensor->name, EXTRAS[i]);
        if (len > 0 && has_sibling(checkpoint, tensor->name, len, ".weight") &&
            has_sibling(checkpoint, tensor->name, len, ".scales")) {
            return 0;
        }
    }
    return n_elements;
}

void tdm_checkpoint_inspect(const tdm_checkpoint *checkpoint, tdm_inspect *out) {
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        const tdm_dtype_info *info = &TDM_DTYPES[tensor->view.dtype];
        /* bounded: blocks hold at most 8 weights a byte, and sums are over one address space */
        const uint64_t n_elements =
            (uint64_t)tensor->view.bytes / info->block_bytes * info->block_weights;
        tdm_inspect_row *const rows[] = {&out->by_dtype[tensor->view.dtype], &out->total};
        for (size_t j = 0; j < 2; j++) {
            rows[j]->n_tensors++;
            rows[j]->n_elements += n_elements;    /* bounded: as above */
            rows[j]->bytes += tensor->view.bytes; /* bounded: as above */
        }
        /* bounded: as above */
        out->n_parameters += count_parameters(checkpoint, tensor, n_elements);
    }
}

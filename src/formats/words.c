/* SPDX-License-Identifier: Apache-2.0
 *
 * What both containers' readers share besides tables: words for errors, and the size of a shape. */
#include "formats/words_priv.h"

#include "base/arith.h"
#include "base/utf8.h"

#include <string.h>

#define TAIL_MAX 120

bool tdm_is_pointer_file(const uint8_t *data, size_t bytes) {
    static const char HEAD[] = "version https://git-lfs.github.com/";
    return bytes >= sizeof HEAD - 1 && bytes < 1024 && memcmp(data, HEAD, sizeof HEAD - 1) == 0;
}

tdm_status tdm_fail_pointer_file(const char *name, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_FORMAT, "file is a Git LFS pointer, not the weights");
    tdm_err_where(err, "%s", tdm_path_tail(name));
    tdm_err_remedy(err, "fetch the real file: git lfs pull");
    return TDM_E_FORMAT;
}

const char *tdm_path_tail(const char *path) {
    const size_t len = strlen(path);
    const char *tail = path;
    if (len <= TAIL_MAX) {
        return path;
    }
    tail = strchr(path + (len - TAIL_MAX), '/');
    return tail != NULL ? tail + 1 : path + (len - TAIL_MAX);
}

int tdm_text_cut(const char *text, size_t len, size_t max) {
    const char *nul = memchr(text, '\0', len);
    if (nul != NULL) {
        len = (size_t)(nul - text);
    }
    return (int)tdm_utf8_valid_prefix(text, len < max ? len : max);
}

bool tdm_shape_bytes(const int64_t *dims, int32_t rank, size_t elem_bytes, size_t *out_bytes) {
    int64_t elements = 1;
    bool is_empty = false;
    for (int32_t i = 0; i < rank; i++) {
        is_empty = is_empty || dims[i] == 0;
        if (dims[i] != 0 && !tdm_mul_i64(elements, dims[i], &elements)) {
            return false;
        }
    }
    if (is_empty) {
        *out_bytes = 0;
        return true;
    }
    return tdm_mul_size((size_t)elements, elem_bytes, out_bytes);
}

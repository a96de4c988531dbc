/* SPDX-License-Identifier: Apache-2.0
 *
 * Any change to an image of a tokenizer whose check is right. Byte 0 picks the image; then each
 * seven bytes are a change: four of a place (its parts from the front, or its end, counted from
 * there), a width, and two of a value; what is left over is a length to which the image is cut. */
#include "fuzz/image_laws.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHANGE_BYTES 7

static void change(uint8_t *image, size_t bytes, const uint8_t at[CHANGE_BYTES]) {
    uint32_t place = 0;
    uint64_t value = 0;
    const size_t width = (size_t)1 << at[4] % 4;
    memcpy(&place, at, sizeof place);
    value = (at[4] & 4) != 0 ? UINT64_MAX - at[5] - 256u * at[6] : at[5] + 256u * at[6];
    const size_t room = bytes - width + 1;
    const size_t begin = (at[4] & 8) != 0 ? room - 1 - place % room : place % room;
    memcpy(image + begin, &value, width);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdm_buf image;
    uint8_t *copy = NULL;
    tdm_buf_init(&image, NULL, 0);
    image_make(size > 0 ? data[0] : 0, &image);
    size_t bytes = image.len;
    size_t at = 1;
    for (; at + CHANGE_BYTES <= size; at += CHANGE_BYTES) {
        change((uint8_t *)image.data, image.len, data + at);
    }
    if (at + 3 <= size) {
        bytes = (data[at] + 256u * data[at + 1] + 65536u * data[at + 2]) % (image.len + 1);
        bytes = bytes < IMAGE_HEAD_BYTES ? IMAGE_HEAD_BYTES : bytes;
    }
    copy = tdm_mem_alloc_aligned(NULL, bytes, TDM_IMAGE_ALIGN);
    TDM_CHECK(copy != NULL);
    memcpy(copy, image.data, bytes);
    image_repair(copy, bytes);
    (void)image_try(copy, bytes);
    tdm_mem_free_aligned(NULL, copy, bytes, TDM_IMAGE_ALIGN);
    tdm_buf_deinit(&image);
    return 0;
}

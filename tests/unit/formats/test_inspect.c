/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of a plain and of a packed checkpoint, done by hand. */
#include "formats/inspect.h"

#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

static tdm_inspect inspect(const char *config, const bytes *b, const char *name) {
    mem_fs m;
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_inspect out;
    mem_fs_init(&m);
    if (config != NULL) {
        mem_fs_put_text(&m, "d/config.json", config);
    }
    mem_fs_put(&m, name, b->data, b->len);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "d", &options, NULL), TDM_OK);
    tdm_checkpoint_inspect(checkpoint, &out);
    tdm_checkpoint_close(checkpoint);
    return out;
}

static void counts_gguf_blocks(void **state) {
    bytes b = gguf_small();
    const tdm_inspect out = inspect(NULL, &b, "d/m.gguf");
    (void)state;
    assert_int_equal(out.total.n_tensors, 2);
    assert_int_equal(out.total.bytes, 64 + 34);
    assert_int_equal(out.n_parameters, 16 + 32);
    assert_int_equal(out.by_dtype[TDM_DTYPE_Q8_0].n_tensors, 1);
    assert_int_equal(out.by_dtype[TDM_DTYPE_Q8_0].n_elements, 32);
    assert_int_equal(out.by_dtype[TDM_DTYPE_F32].bytes, 64);
    assert_int_equal(out.by_dtype[TDM_DTYPE_BF16].n_tensors, 0);
    bytes_free(&b);
}

/* a: 4 bits (global), 2 x 8 words = 2 x 64 weights. b: 8 bits (its own), 2 x 8 words = 2 x 32. c:
 * a plain U32 tensor without scales. a.bias is an ordinary one. */
static void counts_packed_weights(void **state) {
#define W(name, dtype, shape, from, to)                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]" \
    "}"
    bytes b = safetensors_of("{" W("a.weight", "U32", "[2,8]", "0", "64") "," //
                             W("a.scales", "F16", "[2,1]", "64", "68") ","    //
                             W("a.biases", "F16", "[2,1]", "68", "72") ","    //
                             W("a.bias", "F16", "[2]", "72", "76") ","        //
                             W("b.weight", "U32", "[2,8]", "76", "140") ","   //
                             W("b.scales", "F16", "[2,1]", "140", "144") ","  //
                             W("c.weight", "U32", "[3]", "144", "156") "}",
                             156);
    const tdm_inspect out =
        inspect("{\"quantization\":{\"bits\":4,\"group_size\":64,\"b\":{\"bits\":8}}}", &b,
                "d/model.safetensors");
    (void)state;
    assert_int_equal(out.total.n_tensors, 7);
    assert_int_equal(out.total.bytes, 156);
    assert_int_equal(out.by_dtype[TDM_DTYPE_U32].n_elements, 16 + 16 + 3);
    assert_int_equal(out.n_parameters, 128 + 2 + 64 + 3);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_gguf_blocks),
        cmocka_unit_test(counts_packed_weights),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}

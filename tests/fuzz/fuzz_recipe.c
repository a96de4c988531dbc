/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes of quantize: a stranger's JSON, and names of a stranger's checkpoint against its patterns. */
#include "engine/quantize/recipe.h"

#include "base/status.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The first byte chooses the output; the first line behind it is a name, the rest the recipe. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    tdm_error err;
    tdm_recipe recipe;
    char name[200] = "";
    if (bytes < 1) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    const char *line = memchr(text, '\n', bytes - 1);
    const size_t name_len = line != NULL ? (size_t)(line - text) : 0;
    if (name_len < sizeof name) {
        memcpy(name, text, name_len);
    }
    const tdm_quantize_options options = {.gguf = data[0] % 2 == 0 ? "Q4_K_M" : NULL,
                                          .recipe_text = line != NULL ? line + 1 : text,
                                          .recipe_len =
                                              bytes - 1 - (line != NULL ? name_len + 1 : 0)};
    if (tdm_recipe_init(&recipe, NULL, &options, &err) == TDM_OK) {
        tdm_quant quant;
        tdm_dtype dtype = TDM_DTYPE_F32;
        (void)tdm_recipe_ask_mlx(&recipe, name, 4, &quant);
        (void)tdm_recipe_ask_gguf(&recipe, name, &dtype);
        const tdm_status status = tdm_recipe_check_used(&recipe, &err);
        TDM_CHECK(status == TDM_OK || (status == TDM_E_ARG && err.where[0] != '\0'));
    }
    tdm_recipe_deinit(&recipe);
    return 0;
}

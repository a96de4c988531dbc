/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes. What is not understood is refused: a misspelt key would quantize a model in another way
 * than its owner believes. Source of the mixed recipes: mlx-lm 0.32.2's conversion (facts only). */
#include "engine/quantize/recipe.h"

#include "tensor/quantize.h"
#include "tensor/weight.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 4096

static const tdm_json_limits LIMITS = {(size_t)1 << 20, 8, 65536};

static const struct {
    const char *name;
    int32_t low, high;
} MIXED[] = {{"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};

/* What --gguf may be. */
static const struct {
    const char *name;
    tdm_dtype dtype;
    bool is_k_m;
} GGUF_TYPES[] = {
    {"F32", TDM_DTYPE_F32, false},   {"F16", TDM_DTYPE_F16, false},
    {"BF16", TDM_DTYPE_BF16, false}, {"Q8_0", TDM_DTYPE_Q8_0, false},
    {"Q4_0", TDM_DTYPE_Q4_0, false}, {"Q4_1", TDM_DTYPE_Q4_1, false},
    {"Q5_0", TDM_DTYPE_Q5_0, false}, {"Q5_1", TDM_DTYPE_Q5_1, false},
    {"Q4_K", TDM_DTYPE_Q4_K, false}, {"Q4_K_M", TDM_DTYPE_Q4_K, true},
    {"Q5_K", TDM_DTYPE_Q5_K, false}, {"Q5_K_M", TDM_DTYPE_Q5_K, true},
    {"Q6_K", TDM_DTYPE_Q6_K, false},
};
#define N_GGUF_TYPES (sizeof GGUF_TYPES / sizeof GGUF_TYPES[0])

/* "*" any bytes, "?" one. Linear in text times stars: only the last star is taken back. */
static bool matches(const char *pattern, const char *text) {
    const char *star = NULL;
    const char *from = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static bool find_type(const char *name, bool allows_mix, size_t *out) {
    for (size_t i = 0; i < N_GGUF_TYPES; i++) {
        const char *known = GGUF_TYPES[i].name;
        size_t at = 0;
        while (known[at] != '\0' &&
               (name[at] == known[at] ||
                (name[at] >= 'a' && name[at] <= 'z' && name[at] - 'a' + 'A' == known[at]))) {
            at++;
        }
        if (known[at] == '\0' && name[at] == '\0' && (allows_mix || !GGUF_TYPES[i].is_k_m)) {
            *out = i;
            return true;
        }
    }
    return false;
}

bool tdm_recipe_type_find(const char *name, tdm_dtype *out) {
    size_t idx = 0;
    if (!find_type(name, false, &idx)) {
        return false;
    }
    *out = GGUF_TYPES[idx].dtype;
    return true;
}

static tdm_status fail_type(const char *name, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_ARG, "\"%.40s\" is no type that can be written", name);
    tdm_err_limit(err, "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q4_K_M, Q5_K, Q5_K_M, "
                       "Q6_K (the _M only for a whole model)");
    return TDM_E_ARG;
}

static tdm_status fail_entry(const tdm_recipe *recipe, const char *key, tdm_error *err,
                             const char *what) {
    (void)tdm_fail(err, TDM_E_ARG, "%s", what);
    tdm_err_where(err, "%.100s: %.120s", recipe->file, key);
    return TDM_E_ARG;
}

/* ---- MLX ---- */

static bool mode_find(const char *name, tdm_weight_mode *out) {
    for (int mode = TDM_WEIGHT_AFFINE; mode <= TDM_WEIGHT_NVFP4; mode++) {
        if (strcmp(name, TDM_WEIGHT_MODE_NAMES[mode]) == 0) {
            *out = (tdm_weight_mode)mode;
            return true;
        }
    }
    return false;
}

/* What is left open becomes what the mode is used with. */
static tdm_status complete(tdm_quant *quant, tdm_error *err) {
    const bool is_affine = quant->mode == TDM_WEIGHT_AFFINE;
    const int32_t bits = quant->mode == TDM_WEIGHT_MXFP8 ? 8 : 4;
    const int32_t group = is_affine ? 64 : quant->mode == TDM_WEIGHT_NVFP4 ? 16 : 32;
    quant->bits = quant->bits != 0 ? quant->bits : bits;
    quant->group = quant->group != 0 ? quant->group : group;
    if (tdm_weight_mode_allows(quant->mode, quant->bits, quant->group)) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_ARG, "%s weights of %d bits in groups of %d",
                   TDM_WEIGHT_MODE_NAMES[quant->mode], (int)quant->bits, (int)quant->group);
    tdm_err_limit(err, "affine: 1, 2, 3, 4, 5, 6 or 8 bits, groups of 32, 64 or 128; mxfp4: 4, 32; "
                       "mxfp8: 8, 32; nvfp4: 4, 16");
    return TDM_E_ARG;
}

/* bits, group_size and mode of object over *out. Other keys are refused where is_entry. */
static tdm_status read_quant(const tdm_recipe *recipe, const tdm_json *object, bool is_entry,
                             tdm_quant *out, tdm_error *err) {
    for (size_t i = 0; i < tdm_json_len(object); i++) {
        const tdm_json *node = &object->u.items[i];
        int64_t value = 0;
        const bool is_bits = strcmp(node->key, "bits") == 0;
        if (is_bits || strcmp(node->key, "group_size") == 0) {
            if (!tdm_json_as_i64(node, &value) || value < 1 || value > 128) {
                return fail_entry(recipe, node->key, err, "no whole number from 1 to 128");
            }
            *(is_bits ? &out->bits : &out->group) = (int32_t)value;
        } else if (strcmp(node->key, "mode") == 0) {
            if (!tdm_json_is(node, TDM_JSON_STRING) || !mode_find(node->u.text, &out->mode)) {
                return fail_entry(recipe, node->key, err, "no mode: affine, mxfp4, mxfp8, nvfp4");
            }
        } else if (is_entry) {
            return fail_entry(recipe, node->key, err, "unknown setting of an entry");
        }
    }
    return TDM_OK;
}

static bool is_setting(const tdm_recipe *recipe, const char *key) {
    if (recipe->is_gguf) {
        return strcmp(key, "type") == 0;
    }
    return strcmp(key, "bits") == 0 || strcmp(key, "group_size") == 0 || strcmp(key, "mode") == 0;
}

/* An entry's quantization: its own settings, mode affine unless it says another or the default's
 * bits and group are meant. */
static tdm_status entry_quant(const tdm_recipe *recipe, const tdm_json *entry, tdm_quant *out,
                              tdm_error *err) {
    tdm_quant own = {.mode = TDM_WEIGHT_AFFINE};
    TDM_TRY(read_quant(recipe, entry, true, &own, err));
    if (own.mode == recipe->base.mode) {
        own.bits = own.bits != 0 ? own.bits : recipe->base.bits;
        own.group = own.group != 0 ? own.group : recipe->base.group;
    }
    *out = own;
    return complete(out, err);
}

/* ---- a list ---- */

static tdm_status check_entry(const tdm_recipe *recipe, const tdm_json *entry, tdm_error *err) {
    tdm_quant quant;
    tdm_dtype dtype = TDM_DTYPE_F32;
    bool is_on = true;
    if (entry->key_len != strlen(entry->key) || entry->key_len == 0) {
        return fail_entry(recipe, entry->key, err, "an empty name, or one with a NUL");
    }
    if (tdm_json_as_bool(entry, &is_on)) {
        return is_on ? fail_entry(recipe, entry->key, err, "true means nothing here") : TDM_OK;
    }
    if (recipe->is_gguf) {
        if (!tdm_json_is(entry, TDM_JSON_STRING)) {
            return fail_entry(recipe, entry->key, err, "a type's name or false is wanted");
        }
        return tdm_recipe_type_find(entry->u.text, &dtype) ? TDM_OK : fail_type(entry->u.text, err);
    }
    if (!tdm_json_is(entry, TDM_JSON_OBJECT)) {
        return fail_entry(recipe, entry->key, err, "an object or false is wanted");
    }
    const tdm_status status = entry_quant(recipe, entry, &quant, err);
    if (status != TDM_OK && err != NULL && err->where[0] == '\0') {
        tdm_err_where(err, "%.100s: %.120s", recipe->file, entry->key);
    }
    return status;
}

static tdm_status read_defaults(tdm_recipe *recipe, const tdm_quantize_options *options,
                                const tdm_json *root, tdm_error *err) {
    const tdm_json *type = tdm_json_get(root, "type");
    if (recipe->is_gguf) {
        size_t idx = 0;
        const char *name = options->gguf;
        if (type != NULL && !tdm_json_is(type, TDM_JSON_STRING)) {
            return fail_entry(recipe, "type", err, "a type's name is wanted");
        }
        name = type != NULL ? type->u.text : name;
        if (!find_type(name, true, &idx)) {
            return fail_type(name, err);
        }
        recipe->base_dtype = GGUF_TYPES[idx].dtype;
        recipe->is_k_m = GGUF_TYPES[idx].is_k_m;
        recipe->gguf_name = GGUF_TYPES[idx].name;
        return TDM_OK;
    }
    if (options->mode != NULL && !mode_find(options->mode, &recipe->base.mode)) {
        (void)tdm_fail(err, TDM_E_ARG, "unknown mode \"%.40s\"", options->mode);
        tdm_err_limit(err, "affine, mxfp4, mxfp8, nvfp4");
        return TDM_E_ARG;
    }
    recipe->base.bits = options->bits;
    recipe->base.group = options->group;
    TDM_TRY(read_quant(recipe, root, false, &recipe->base, err));
    return complete(&recipe->base, err);
}

static tdm_status read_list(tdm_recipe *recipe, const tdm_quantize_options *options,
                            tdm_error *err) {
    TDM_TRY(tdm_json_parse(&recipe->doc, recipe->alloc, options->recipe_text, options->recipe_len,
                           &LIMITS, recipe->file, err));
    const tdm_json *root = tdm_json_doc_root(recipe->doc);
    if (!tdm_json_is(root, TDM_JSON_OBJECT) || tdm_json_len(root) > ENTRIES_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "a recipe is one JSON object");
        tdm_err_where(err, "%.100s", recipe->file);
        tdm_err_limit(err, "%d entries", ENTRIES_MAX);
        return TDM_E_ARG;
    }
    recipe->is_used = tdm_mem_calloc(recipe->alloc, tdm_json_len(root), 1);
    if (recipe->is_used == NULL) {
        return tdm_fail_nomem(err, "a recipe");
    }
    recipe->n_used = tdm_json_len(root);
    TDM_TRY(read_defaults(recipe, options, root, err));
    for (size_t i = 0; i < tdm_json_len(root); i++) {
        if (!is_setting(recipe, root->u.items[i].key)) {
            TDM_TRY(check_entry(recipe, &root->u.items[i], err));
        }
    }
    return TDM_OK;
}

static tdm_status find_mixed(tdm_recipe *recipe, const char *name, tdm_error *err) {
    for (size_t i = 0; i < sizeof MIXED / sizeof MIXED[0]; i++) {
        if (strcmp(MIXED[i].name, name) == 0) {
            recipe->low_bits = MIXED[i].low;
            recipe->high_bits = MIXED[i].high;
        }
    }
    if (recipe->low_bits != 0 && !recipe->is_gguf && recipe->base.mode == TDM_WEIGHT_AFFINE) {
        recipe->base.bits = recipe->low_bits;
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_ARG, "recipe \"%.60s\" %s", name,
                   recipe->low_bits == 0 ? "is not known" : "is for affine weights in MLX layout");
    tdm_err_limit(err, "mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6, or a file");
    return TDM_E_ARG;
}

tdm_status tdm_recipe_init(tdm_recipe *recipe, const tdm_alloc *alloc,
                           const tdm_quantize_options *options, tdm_error *err) {
    *recipe = (tdm_recipe){.alloc = alloc,
                           .is_gguf = options->gguf != NULL,
                           .base = {.mode = TDM_WEIGHT_AFFINE},
                           .file = options->recipe_name != NULL ? options->recipe_name : "recipe"};
    if (recipe->is_gguf && (options->mode != NULL || options->bits != 0 || options->group != 0)) {
        return tdm_fail(err, TDM_E_ARG, "mode, bits and group belong to the MLX layout");
    }
    if (options->recipe_text != NULL && options->recipe != NULL) {
        return tdm_fail(err, TDM_E_ARG, "two recipes");
    }
    if (options->recipe_text != NULL) {
        return read_list(recipe, options, err);
    }
    TDM_TRY(read_defaults(recipe, options, NULL, err));
    return options->recipe != NULL ? find_mixed(recipe, options->recipe, err) : TDM_OK;
}

void tdm_recipe_deinit(tdm_recipe *recipe) {
    tdm_json_doc_destroy(recipe->doc);
    tdm_mem_free(recipe->alloc, recipe->is_used, recipe->n_used);
    recipe->doc = NULL;
    recipe->is_used = NULL;
}

/* ---- asking ---- */

/* The first entry that matches; NULL when none does. */
static const tdm_json *find_entry(tdm_recipe *recipe, const char *name) {
    const tdm_json *root = recipe->doc != NULL ? tdm_json_doc_root(recipe->doc) : NULL;
    for (size_t i = 0; i < tdm_json_len(root); i++) {
        const tdm_json *entry = &root->u.items[i];
        if (!is_setting(recipe, entry->key) && matches(entry->key, name)) {
            recipe->is_used[i] = 1;
            return entry;
        }
    }
    return NULL;
}

/* The number after "layers."; 0 outside layers, as the reference has it. */
static int32_t layer_of(const char *module) {
    const char *at = strstr(module, "layers.");
    const long layer = at != NULL ? strtol(at + 7, NULL, 10) : 0;
    return layer >= 0 && layer < 1048576 ? (int32_t)layer : 0;
}

static int32_t mixed_bits(const tdm_recipe *recipe, const char *module, int32_t n_layers) {
    const int32_t layer = layer_of(module);
    const int32_t eighth = n_layers / 8;
    const bool gets_more = layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
    const bool is_value = strstr(module, "v_proj") != NULL || strstr(module, "v_a_proj") != NULL ||
                          strstr(module, "v_b_proj") != NULL;
    const bool is_down = strstr(module, "down_proj") != NULL;
    return strstr(module, "lm_head") != NULL || ((is_value || is_down) && gets_more)
               ? recipe->high_bits
               : recipe->low_bits;
}

tdm_recipe_answer tdm_recipe_ask_mlx(tdm_recipe *recipe, const char *module, int32_t n_layers,
                                     tdm_quant *out) {
    const tdm_json *entry = find_entry(recipe, module);
    *out = recipe->base;
    if (entry != NULL && !tdm_json_is(entry, TDM_JSON_OBJECT)) {
        return TDM_RECIPE_OFF;
    }
    if (entry != NULL) {
        (void)entry_quant(recipe, entry, out, NULL); /* was checked by init */
        return TDM_RECIPE_OWN;
    }
    if (recipe->low_bits != 0) {
        out->bits = mixed_bits(recipe, module, n_layers);
        return TDM_RECIPE_OWN;
    }
    return TDM_RECIPE_DEFAULT;
}

tdm_recipe_answer tdm_recipe_ask_gguf(tdm_recipe *recipe, const char *name, tdm_dtype *out) {
    const tdm_json *entry = find_entry(recipe, name);
    if (entry == NULL) {
        return TDM_RECIPE_DEFAULT;
    }
    if (!tdm_json_is(entry, TDM_JSON_STRING)) {
        return TDM_RECIPE_OFF;
    }
    (void)tdm_recipe_type_find(entry->u.text, out); /* was checked by init */
    return TDM_RECIPE_OWN;
}

tdm_status tdm_recipe_check_used(const tdm_recipe *recipe, tdm_error *err) {
    const tdm_json *root = recipe->doc != NULL ? tdm_json_doc_root(recipe->doc) : NULL;
    for (size_t i = 0; i < tdm_json_len(root); i++) {
        if (!recipe->is_used[i] && !is_setting(recipe, root->u.items[i].key)) {
            (void)fail_entry(recipe, root->u.items[i].key, err, "this entry matches no weight");
            tdm_err_remedy(err,
                           "an entry before it may match the same names; see inspect for them");
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}
